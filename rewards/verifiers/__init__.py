"""Verifiers: is the answer at the end of a text the reference's answer?

They run on the host, over text, and share one interface:

  verify(items: Sequence[Item]) -> list[Outcome]

one outcome per item, in order. A verifier never raises over what an item says:
a completion it cannot read is wrong, a reference it cannot read leaves the
verdict unknown. `pool.Pool` runs a verifier in processes that can be killed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from fractions import Fraction
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
    answer_id: equal answers have equal ids, -1 means no answer.
    parts: named terms of the score, for logs; empty if it has one.
    reason: why the verdict is unknown, in one line; else empty.
  """

  score: float
  verdict: int
  answer: str
  answer_id: int
  parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
  reason: str = ""


def unscored(reason: str, answer: str = "", identity: int = -1) -> Outcome:
  """The outcome of an item of which nothing can be said: verdict -1."""
  return Outcome(0.0, -1, answer, identity, reason=reason)


def answer_id(value: Fraction | str) -> int:
  """A number of 31 bits for an answer, the same in every call and process.

  Samples of one prompt that are judged in several calls can thus vote together.
  Two different answers share an id with probability 2^-31.

  Args:
    value: what is compared: equal values have equal ids.

  Returns:
    An int32, never negative.
  """
  if isinstance(value, Fraction):  # in base 16 there is no limit of digits
    value = f"{value.numerator:x}/{value.denominator:x}"
  text = value.encode("utf-8", "backslashreplace")
  digest = hashlib.blake2b(text, digest_size=4).digest()
  return int.from_bytes(digest, "big") & 0x7FFFFFFF
