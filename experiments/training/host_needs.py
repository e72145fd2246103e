"""Arrays that the host computes for a method, between sampling and the update.

A *need* is an array that a method asks for and reads in `rollout.extras`
(`rl.scoring.Need`). Needs with the source "host" are computed with numpy.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

import jax

from experiments.training import rollout_extras
from experiments.training.experiment import Experiment
from experiments.training.rollouts import STATE_READY, HostRolloutFn
from rl import learners, scoring
from rl.method import Method
from rl.step import State


def host_needs(methods: Mapping[str, Method]) -> set[scoring.Need]:
  """Returns those needs of the learners' methods that the host computes."""
  return {
    need
    for method in methods.values()
    for need in method.signal_needs | method.term_needs
    if need.source == "host"
  }


def check(e: Experiment) -> None:
  """Checks that no step of a fused loop needs the host."""
  dispatch_steps = e.config.steps_per_dispatch
  if dispatch_steps == 1:
    return
  needs = sorted(map(str, host_needs(e.methods)))
  if needs:
    reason = (
      f"{e.method.name} needs {', '.join(needs)}, which the host computes "
      "between sampling and the update"
    )
  elif e.texts is not None:
    reason = "the host selects the lines of a file between two updates"
  elif not e.task.jittable:
    reason = f"{e.task.name} is scored on the host between sampling and the "
    reason += "update"
  else:
    return
  raise ValueError(
    f"steps_per_dispatch = {dispatch_steps} must be 1, because {reason}"
  )


def with_host_needs(e: Experiment, rollout_fn: HostRolloutFn) -> HostRolloutFn:
  """Returns a rollout function that also computes the host needs.

  The arrays that the host needs read are computed by a separate compiled
  program. Its results are replicated, so that every process has all of them on
  its devices.

  Args:
    e: the experiment.
    rollout_fn: rollout function without host needs.

  Returns:
    A rollout function; `rollout_fn` itself if no method has host needs.
  """
  needs = host_needs(e.methods)
  if not needs:
    return rollout_fn
  reads = {read for need in needs for read in need.probe.reads}

  @functools.partial(jax.jit, out_shardings=e.replicated)
  def score(state, rollout):
    return rollout_extras.with_passes(e, state, rollout, reads)

  def with_needs(state: State):
    rollouts, times = rollout_fn(state)
    rollouts = learners.by_learner(rollouts)
    rollout = rollouts[learners.POLICY]
    scored = score(state, rollout)
    if STATE_READY not in times:
      # Waits for the state first, so that the wait for `scored` below does not
      # include the update of the previous step.
      jax.block_until_ready(state)
      times = {**times, STATE_READY: time.perf_counter()}
    start = time.perf_counter()
    jax.block_until_ready(scored)
    host_start = time.perf_counter()
    extras = scoring.compute_on_host(needs, scored).extras.arrays
    rollout = rollout.replace(
      extras=rollout.extras.update(
        {str(need): extras[str(need)] for need in needs}
      )
    )
    host_seconds = time.perf_counter() - host_start
    return {**rollouts, learners.POLICY: rollout}, {
      **times,
      "time/score_s": times.get("time/score_s", 0.0) + host_seconds,
      "time/rollout_s": times.get("time/rollout_s", 0.0) + host_start - start,
    }

  return with_needs
