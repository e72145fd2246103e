"""What ends a run whose updates come to nothing, and keeps what did it.

An update that is not finite, or whose loss or gradient is not, or whose mean
importance ratio exceeds `plan.max_mean_ratio`, is skipped on the device
(`rl.step`): it changes nothing, and the run goes on. One may be bad luck.
`config.stop_after_skips` steps in a row without any update end the run, seen
where a dispatch ends; so does a single score that is not finite, which is a
fault of the reward. The rollout and the state that it met are kept in the run's
folder

  stopped/step_000123/state/                what `experiments.training.checkpointing` writes
  stopped/step_000123/rollout.safetensors   its arrays by name

and `python -m experiments.replay` says what is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from etils import epath

from experiments.cli import errors
from experiments.logging import json_files
from experiments.training import checkpointing, multihost, prng_keys
from experiments.training.experiment import Experiment
from rl import learners, step, types
from rl.minibatches import Plan

FOLDER = "stopped"
_EXTRAS = "extras"


class Stopped(errors.RunError):
  """What came of step `number` lets the run not go on."""

  def __init__(self, number: int, reason: str) -> None:
    super().__init__(f"step {number}: {reason}")
    self.number = number


class Guard:
  """Counts the steps of which every update was refused.

  Args:
    plan: of the run.
    limit: so many in a row end it; 0: none do.
  """

  def __init__(self, plan: Plan, limit: int) -> None:
    self._plan, self._limit = plan, limit
    self._in_a_row = 0
    self._reason = ""

  def is_near(self, steps: int) -> bool:
    """Whether so many more may end the run: no step should be begun before."""
    suspected = self._in_a_row > 0 or self._limit == 1
    return suspected and 0 < self._limit <= self._in_a_row + steps

  @property
  def reached(self) -> str:
    """Why the run ends here, or "" where it goes on."""
    if 0 < self._limit <= self._in_a_row:
      times = f"{self._in_a_row} steps in a row were" * (self._in_a_row > 1)
      return f"{times or 'an update was'} skipped, as {self._reason}"
    return ""

  def see(self, metrics: Mapping[str, Any]) -> str:
    """Takes a step's metrics, on the host.

    Returns:
      Why the run ends at this very step, a score that is not finite; or "".
    """
    if metrics["guard/bad_sample"] >= 0:
      return (
        f"the score of sample {int(metrics['guard/bad_sample'])} of prompt "
        f"{int(metrics['guard/bad_prompt'])} is not finite; that update was "
        "skipped"
      )
    self._reason = refused(metrics, self._plan)
    self._in_a_row = self._in_a_row + 1 if self._reason else 0
    return ""


def refused(metrics: Mapping[str, Any], plan: Plan) -> str:
  """Why none of a learner's updates was made in a step; "" where each made one.

  Nothing to learn from, all groups being alike, is no fault.
  """
  for name, skipped in metrics.items():
    prefix, found, rest = name.rpartition("optim/skipped")
    if not found or rest:
      continue
    updates = 1 if prefix else plan.updates
    if skipped < updates:
      continue
    for what in ("loss/total", "optim/grad_norm"):
      if not math.isfinite(metrics[prefix + what]):
        return f"{prefix}{what} is {float(metrics[prefix + what])}"
    ratio = float(metrics.get(prefix + "policy/ratio_mean", 1.0))
    if not ratio <= plan.max_mean_ratio:
      return (
        f"{prefix}policy/ratio_mean is {ratio:.4g}, over plan.max_mean_ratio = "
        f"{plan.max_mean_ratio:g}"
      )
    if metrics[prefix + "optim/grad_norm"] > 0:
      return f"the {prefix}optimizer's update is not finite"
  return ""


def folder(workdir: epath.PathLike, number: int) -> epath.Path:
  """Where what ended the run at step `number` is kept."""
  return epath.Path(workdir) / FOLDER / f"step_{number:06d}"


def keep(
  workdir: epath.PathLike,
  number: int,
  state: step.State,
  rollout: step.Rollouts,
) -> None:
  """Writes the state that step `number` met, and what it was to learn from.

  Args:
    workdir: of the run.
    number: of the step, from 1.
    state: with any count of steps. Refused updates change no parameter; where a
      later step was made before the fault was seen, its update is in them.
    rollout: global arrays; every process calls this.
  """
  kept = folder(workdir, number)
  met = state.replace(step=state.step * 0 + (number - 1), frozen={})
  with checkpointing.Checkpoints(kept / "state", keep=1) as checkpoints:
    checkpoints.save(number - 1, met, {}, force=True)
  arrays = multihost.fetch(_named(learners.by_learner(rollout)))
  if jax.process_index() == 0:
    arrays = {name: np.asarray(a, order="C") for name, a in arrays.items()}
    json_files.replace(
      kept / "rollout.safetensors", safetensors.numpy.save(arrays)
    )


def load(
  e: Experiment, workdir: epath.PathLike, number: int
) -> tuple[step.State, dict[str, types.Rollout]]:
  """What `keep` wrote; the frozen part of the state is empty.

  Raises:
    FileNotFoundError: nothing was kept of that step.
    ValueError: it is damaged, or of another experiment.
  """
  kept = folder(workdir, number)
  if not (kept / "rollout.safetensors").exists():
    there = sorted(path.name for path in kept.parent.glob("step_*"))
    raise FileNotFoundError(
      f"{workdir} keeps no rollout of step {number}; available: "
      f"{', '.join(name[5:].lstrip('0') for name in there) or 'none'}"
    )
  try:
    with checkpointing.Checkpoints(kept / "state", keep=1) as checkpoints:
      state, _ = checkpoints.restore(e.abstract.replace(frozen={}))
    arrays = safetensors.numpy.load((kept / "rollout.safetensors").read_bytes())
  except Exception as error:  # readers of damaged files raise anything
    raise ValueError(f"{kept} cannot be read: {error}") from error
  known = {
    name: _filled(name, one, arrays)
    for name, one in learners.by_learner(e.abstract_rollout).items()
  }
  return state, known


def _named(rollouts: Mapping[str, types.Rollout]) -> dict[str, jax.Array]:
  """`{"policy.scores": array, ...}`; keys as their data."""
  found = {}
  for slot, rollout in rollouts.items():
    extras = rollout.extras.arrays
    for name, leaf in _leaves(rollout.replace(extras=types.Named())).items():
      found[f"{slot}.{name}"] = prng_keys.data(leaf)
    for name, leaf in extras.items():
      found[f"{slot}.{_EXTRAS}.{name}"] = leaf
  return found


def _filled(
  slot: str, abstract: types.Rollout, arrays: Mapping[str, np.ndarray]
) -> types.Rollout:
  """The rollout whose arrays these are."""
  bare = abstract.replace(extras=types.Named())
  leaves, structure = jax.tree.flatten(bare)
  found = []
  for name, leaf in zip(_leaves(bare), leaves, strict=True):
    if f"{slot}.{name}" not in arrays:
      raise ValueError(f"the rollout that was kept has no {slot}.{name}")
    array = arrays[f"{slot}.{name}"]
    found.append(prng_keys.like(array, leaf))
  start = f"{slot}.{_EXTRAS}."
  extras = {
    name.removeprefix(start): array
    for name, array in arrays.items()
    if name.startswith(start)
  }
  whole = jax.tree.unflatten(structure, found)
  return whole.replace(extras=types.Named(extras))


def _leaves(tree: types.PyTree) -> dict[str, Any]:
  return {
    jax.tree_util.keystr(path, simple=True, separator="."): leaf
    for path, leaf in jax.tree.flatten_with_path(tree)[0]
  }
