"""Times functions relative to a reference, and fits how a cost grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np


class Timing(NamedTuple):
  """Time of one function at one size."""

  seconds: float  # of the fastest call
  # Time of the function divided by the time of the reference, which is called
  # immediately before or after it; the median over rounds.
  ratio: float


def compare(
  calls: Mapping[Hashable, Callable[[], Any]],
  reference: Callable[[], Any],
  *,
  rounds: int = 25,
  budget: float = float("inf"),
  clock: Callable[[], float] = time.perf_counter,
) -> dict[Hashable, Timing]:
  """Times each function back to back with a reference, over many rounds.

  Other work on the machine slows both calls of a pair alike, so their ratio is
  stable even where the times are not. Each round starts with another function,
  and in every second round the reference is called after the function, so that
  the order of the calls has no influence. Each function is called once before,
  to compile.

  Args:
    calls: functions to time, by name.
    reference: function that the others are compared with.
    rounds: largest number of pairs for each function.
    budget: a function is not timed again once its calls took this many seconds
      in total.
    clock: returns the time in seconds.
  """

  def run_timed(call: Callable[[], Any]) -> float:
    start = clock()
    jax.block_until_ready(call())
    return clock() - start

  for call in (reference, *calls.values()):
    jax.block_until_ready(call())
  pairs = {name: [] for name in calls}
  budget_left = dict.fromkeys(calls, budget)
  names = list(calls)
  for i in range(rounds):
    first = i % len(names)
    for name in names[first:] + names[:first]:
      if budget_left[name] <= 0:
        continue
      if i % 2:
        call_seconds = run_timed(calls[name])
        reference_seconds = run_timed(reference)
      else:
        reference_seconds = run_timed(reference)
        call_seconds = run_timed(calls[name])
      pairs[name].append((call_seconds, call_seconds / reference_seconds))
      budget_left[name] -= call_seconds
  return {
    name: Timing(
      seconds=min(call_seconds for call_seconds, _ in call_pairs),
      ratio=float(np.median([ratio for _, ratio in call_pairs])),
    )
    for name, call_pairs in pairs.items()
  }


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
  """Returns the power with which a cost grows, fitted to the last three sizes.

  It is the slope of log cost on log size; None for fewer than two sizes.
  """
  if len(sizes) < 2:
    return None
  slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)
  return float(slope)
