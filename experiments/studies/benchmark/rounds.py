"""Times the calls of two sides alternately and compares them.

Each round calls both sides back to back. Other work on the machine slows both
calls of a round alike, so the median ratio over rounds is stable even where
the times are not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from experiments.studies.benchmark import sides


class Comparison(NamedTuple):
  """Medians over the rounds of two sides.

  Attributes:
    ours: tokens per second of our side.
    peer: tokens per second of the peer.
    ratio: seconds per token of the peer divided by those of our side.
    cpu_ratio: the same ratio of processor seconds per token.
  """

  ours: float
  peer: float
  ratio: float
  cpu_ratio: float


def run_pairs(
  ours: sides.Side,
  peer: sides.Side,
  calls: int,
  report: sides.Report = lambda _: None,
) -> Iterator[tuple[sides.Call, sides.Call]]:
  """Yields the two calls of each round, `(ours, peer)`.

  The side that is called first alternates. Both sides run once before the
  first round, untimed, to compile and to fill caches.
  """
  for side in (ours, peer):
    report(f"{side.launch.name}: warming up")
    side.run(0)
  for number in range(1, calls + 1):
    calls_of_round = {}
    for side in (ours, peer) if number % 2 else (peer, ours):
      calls_of_round[side] = side.run(number)
      seconds = calls_of_round[side].seconds
      report(f"{number} of {calls}: {side.launch.name}: {seconds:.2f} s")
    yield calls_of_round[ours], calls_of_round[peer]


def run_alone(
  side: sides.Side, calls: int, report: sides.Report = lambda _: None
) -> Iterator[sides.Call]:
  """Yields timed calls of one side, after one untimed call."""
  report(f"{side.launch.name}: warming up")
  side.run(0)
  for number in range(1, calls + 1):
    call = side.run(number)
    report(f"{number} of {calls}: {side.launch.name}: {call.seconds:.2f} s")
    yield call


def compare(call_pairs: Sequence[tuple[sides.Call, sides.Call]]) -> Comparison:
  """Returns medians over the call pairs that `run_pairs` yielded."""

  def median(value: Callable[[sides.Call, sides.Call], float]) -> float:
    return statistics.median(value(ours, peer) for ours, peer in call_pairs)

  return Comparison(
    ours=median(lambda ours, _: ours.tokens / ours.seconds),
    peer=median(lambda _, peer: peer.tokens / peer.seconds),
    ratio=median(
      lambda ours, peer: (
        peer.seconds / peer.tokens / (ours.seconds / ours.tokens)
      )
    ),
    cpu_ratio=median(
      lambda ours, peer: (
        peer.cpu_seconds / peer.tokens / (ours.cpu_seconds / ours.tokens)
      )
    ),
  )
