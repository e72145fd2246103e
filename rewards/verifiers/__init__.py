"""Verifiers: is the answer at the end of a text the reference's answer?

They run on the host, over text, and share one interface:

  verify(items: Sequence[Item]) -> list[Outcome]

one outcome per item, in order. A verifier never raises over what an item says:
a completion it cannot read is wrong, a reference it cannot read leaves the
verdict unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Item:
  """One completion to judge.

  Attributes:
    prompt: what was asked.
    completion: what the policy wrote, special tokens removed.
    reference: the reference's answer.
    meta: whatever else a verifier needs (tests, constraints, row).
  """

  prompt: str
  completion: str
  reference: str
  meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What a verifier says of one item.

  Attributes:
    score: the graded score, in [0, 1]; 0 where the verdict is unknown.
    verdict: 1 right, 0 wrong, -1 unknown (fits int8).
    answer: the answer as it was read, empty if there is none.
    answer_id: equal answers of one call have equal ids, -1 means no answer.
  """

  score: float
  verdict: int
  answer: str
  answer_id: int
