"""Timing of calls against a reference, and how a cost grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np


class Timing(NamedTuple):
  """Of one function at one size.

  Attributes:
    seconds: of a call, the fastest.
    ratio: to the reference, the median over pairs of neighbours in time.
  """

  seconds: float
  ratio: float


def compare(
  calls: Mapping[str, Callable[[], Any]],
  reference: Callable[[], Any],
  *,
  rounds: int = 25,
  budget: float = 1.0,
  clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
  """Times each call beside the reference, in turn, many times.

  Whatever else the machine does slows both of a pair, so their ratio holds
  where neither time does. Each round starts with another function, and the
  reference comes first in every other round.

  Args:
    calls: what to time; each is called once before.
    reference: what they are compared with.
    rounds: the most pairs of a function.
    budget: seconds after which a function takes part no more.
    clock: gives seconds.

  Returns:
    `{name: timing}`.
  """

  def timed(call: Callable[[], Any]) -> float:
    start = clock()
    jax.block_until_ready(call())
    return clock() - start

  for call in (reference, *calls.values()):
    jax.block_until_ready(call())
  pairs = {name: [] for name in calls}
  left = dict.fromkeys(calls, budget)
  for i in range(rounds):
    for name in np.roll(list(calls), -i):
      if left[name] <= 0:
        continue
      if i % 2:
        own, base = timed(calls[name]), timed(reference)
      else:
        base, own = timed(reference), timed(calls[name])
      pairs[name].append((own, own / base))
      left[name] -= own
  return {
    name: Timing(
      seconds=min(own for own, _ in found),
      ratio=float(np.median([ratio for _, ratio in found])),
    )
    for name, found in pairs.items()
  }


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
  """The power of n that a cost grows with: slope of log time on log n.

  Args:
    sizes: n, ascending; the last three count, two are enough.
    seconds: the cost at each.

  Returns:
    The least-squares slope; None of fewer than two sizes.
  """
  if len(sizes) < 2:
    return None
  slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)
  return float(slope)
