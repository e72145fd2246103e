"""Calls of two sides in turn, and how many times faster one is.

Whatever else the machine does slows both of a pair of neighbours, so their ratio
holds where neither time does.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from experiments.studies.benchmark import sides


class Compared(NamedTuple):
  """Two sides after some rounds; medians.

  Attributes:
    ours, peer: tokens per second.
    ratio: how many times faster ours is, per token, over neighbouring pairs.
    cpu_ratio: the same of processor time.
  """

  ours: float
  peer: float
  ratio: float
  cpu_ratio: float


def pairs(
  ours: sides.Side,
  peer: sides.Side,
  calls: int,
  tell: sides.Tell = lambda _: None,
) -> Iterator[tuple[sides.Call, sides.Call]]:
  """Neighbouring calls, `(ours, peer)`; who comes first alternates.

  Both run once before, which counts for nothing.
  """
  for side in (ours, peer):
    tell(f"{side.launch.name}: warming up")
    side.run(0)
  for number in range(1, calls + 1):
    found = {}
    for side in (ours, peer) if number % 2 else (peer, ours):
      found[side] = side.run(number)
      tell(
        f"{number} of {calls}: {side.launch.name}: {found[side].seconds:.2f} s"
      )
    yield found[ours], found[peer]


def alone(
  side: sides.Side, calls: int, tell: sides.Tell = lambda _: None
) -> Iterator[sides.Call]:
  """Calls of one side, after one that counts for nothing."""
  tell(f"{side.launch.name}: warming up")
  side.run(0)
  for number in range(1, calls + 1):
    call = side.run(number)
    tell(f"{number} of {calls}: {side.launch.name}: {call.seconds:.2f} s")
    yield call


def compare(found: Sequence[tuple[sides.Call, sides.Call]]) -> Compared:
  """Medians over pairs of neighbours."""

  def median(value: Callable[[sides.Call, sides.Call], float]) -> float:
    return statistics.median(value(own, other) for own, other in found)

  return Compared(
    ours=median(lambda own, _: own.tokens / own.seconds),
    peer=median(lambda _, other: other.tokens / other.seconds),
    ratio=median(
      lambda own, other: (
        other.seconds / other.tokens / (own.seconds / own.tokens)
      )
    ),
    cpu_ratio=median(
      lambda own, other: (
        other.cpu_seconds / other.tokens / (own.cpu_seconds / own.tokens)
      )
    ),
  )
