"""The NaN guard ends a run whose updates are skipped, and saves the cause.

`rl/update_guard.py` decides, on the device, which updates are skipped: for
example those whose loss or gradient is not finite, or whose mean importance
ratio exceeds `plan.max_mean_ratio`. A skipped update changes no parameter, and
the run goes on. The guard ends the run

  - after `config.stop_after_skips` training steps in a row in which a learner
    skipped all its updates for one of these reasons, or because the verifier
    failed on every sample (any other step without a token in the loss does not
    count), or
  - after a single score that is not finite, which is a fault of the reward.

Before it ends, the run saves the rollout and the state of the step that failed,
for example step 123, in its workdir:

  stopped/step_000123/state/                a checkpoint
  stopped/step_000123/rollout.safetensors   the arrays of the rollout by name

`python -m experiments.replay` repeats the step and reports what is not finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
import safetensors.numpy
from etils import epath

from experiments.cli import errors
from experiments.logging import json_files
from experiments.training import (
  checkpointing,
  multihost,
  placement,
  prng_keys,
  rollouts,
)
from experiments.training.experiment import Experiment
from rl import UsageError, learners, step, training_state, types
from rl.update_plan import Plan

FOLDER = "stopped"  # in the workdir
_EXTRAS = "extras"  # part of the name of an array of `Rollout.extras`
# Parts of the names of metrics, in the order in which a step computes them.
_SOURCES = {
  "reward/task": "the score of the task",
  "score/": "a part of the score",
  "reward/mean": "the score",
  "policy/entropy": "the forward pass",
  "advantage/abs_mean": "the advantage",
  "loss/": "a term of the loss",
  "optim/grad_norm": "the gradient",
}


class Stopped(errors.RunError):
  """The guard ended the run at a step.

  Attributes:
    step: the step that failed, counted from 1.
  """

  def __init__(self, step: int, reason: str) -> None:
    super().__init__(f"step {step}: {reason}")
    self.step = step


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the number of skipped steps that ends a run."""
  limit = config.get("stop_after_skips", 0)  # new in 2026-11
  if limit < 0:
    raise UsageError(
      f"stop_after_skips = {limit} must be at least 0; 0 means that skipped "
      "updates never end a run"
    )


class Guard:
  """Counts the training steps in a row in which a learner made no update.

  Args:
    plan: plan of the policy's updates.
    limit: number of such steps after which the run ends; 0 means never.
  """

  def __init__(self, plan: Plan, limit: int) -> None:
    self._plan, self._limit = plan, limit
    self._skips_in_a_row = 0
    self._reason = ""

  def may_stop_within(self, steps: int) -> bool:
    """Returns whether the limit may be reached within the next `steps` steps.

    The loop then waits for the metrics of each dispatch. As long as no step was
    skipped, it does not wait, unless the limit is 1.
    """
    has_skips = self._skips_in_a_row > 0 or self._limit == 1
    return has_skips and 0 < self._limit <= self._skips_in_a_row + steps

  @property
  def stop_reason(self) -> str:
    """The reason for which the run ends now; "" if it continues."""
    if 0 < self._limit <= self._skips_in_a_row:
      subject = "an update was"
      if self._skips_in_a_row > 1:
        subject = f"{self._skips_in_a_row} steps in a row were"
      return f"{subject} skipped, because {self._reason}"
    return ""

  def check(self, metrics: Mapping[str, Any]) -> str:
    """Reads the metrics of one step, and updates the count of skipped steps.

    Args:
      metrics: metrics of the step, on the host.

    Returns:
      The reason for which the run ends, if a score of this step is not finite;
      "" otherwise. `stop_reason` says whether the limit is reached.
    """
    if metrics["guard/bad_sample"] >= 0:
      return (
        f"the score of sample {int(metrics['guard/bad_sample'])} of the prompt "
        f"with the id {int(metrics['guard/bad_prompt'])} is not finite; that "
        "update was skipped"
      )
    self._reason = skip_reason(metrics, self._plan)
    self._skips_in_a_row = self._skips_in_a_row + 1 if self._reason else 0
    return ""


def skip_reason(metrics: Mapping[str, Any], plan: Plan) -> str:
  """Returns why a learner skipped all its updates in a step.

  Returns "" if every learner made an update, and also if a learner skipped its
  updates because no token was in the loss (for example because the samples of
  each prompt had equal scores), unless the verifier failed on every sample.

  Args:
    metrics: metrics of the step, on the host.
    plan: plan of the policy's updates.
  """
  if metrics.get("verifier/unscored_frac") == 1:
    return "the verifier gave no sample a score"
  for name, skipped in metrics.items():
    if not name.endswith("optim/skipped"):
      continue
    prefix = name.removesuffix("optim/skipped")  # "" for the policy
    # Learners other than the policy make one update a step.
    updates = 1 if prefix else plan.updates
    if skipped < updates:
      continue
    if reason := first_non_finite(metrics):
      return reason
    ratio = float(metrics.get(prefix + "policy/ratio_mean", 1.0))
    if not ratio <= plan.max_mean_ratio:
      return (
        f"{prefix}policy/ratio_mean is {ratio:.4g}, over plan.max_mean_ratio = "
        f"{plan.max_mean_ratio:g}"
      )
    if metrics[prefix + "optim/grad_norm"] > 0:
      return f"the {prefix}optimizer's update is not finite"
  return ""


def first_non_finite(metrics: Mapping[str, Any]) -> str:
  """Returns what a step computed first that is not finite; "" if nothing.

  An example is "a term of the loss is not finite: loss/clip is nan".
  """
  results = [n for n in metrics if n.endswith(("loss/total", "/grad_norm"))]
  is_finite = np.isfinite([metrics[name] for name in results]).all()
  if is_finite and metrics["guard/bad_sample"] < 0:
    return ""
  # The total of the loss comes after its terms.
  names = sorted(metrics, key=lambda name: name.endswith("loss/total"))
  for start, source in _SOURCES.items():
    for name in names:
      # The metrics of another learner begin with its name.
      if f"/{start}" in f"/{name}" and not np.isfinite(metrics[name]).all():
        return f"{source} is not finite: {name} is {float(metrics[name])}"
  return ""


def save_failed_rollout(
  e: Experiment,
  workdir: epath.Path,
  failed_step: int,
  done: int,
  state: training_state.State,
  recent_rollouts: Sequence[step.Rollouts],
  sample_rollout: rollouts.HostRolloutFn,
) -> str:
  """Saves the rollout of the step that failed, if it can still be had.

  Args:
    e: the experiment.
    workdir: folder of the run.
    failed_step: the step that failed, counted from 1.
    done: finished steps; one more than `failed_step` if the next step was
      dispatched before the fault was seen.
    state: the state after `done` steps.
    recent_rollouts: the rollouts of the latest two dispatches, if a dispatch is
      one step.
    sample_rollout: the rollout function of the run.

  Returns:
    A line that says where it was saved, or why it was not.
  """
  if e.config.steps_per_dispatch == 1:
    rollout = recent_rollouts[-1 - (done - failed_step)]
  elif failed_step == done:
    # The fused loop keeps no rollout, but the last one can be sampled again.
    rollout = sample_rollout(state.replace(step=state.step - 1))
  else:
    return (
      f"{workdir}: the rollout of step {failed_step} is lost, because a "
      "dispatch makes several steps; resume with "
      "--config.steps_per_dispatch=1 to save it"
    )
  save_rollout(workdir, failed_step, state.saved_part(), rollout)
  return (
    f"{rollout_folder(workdir, failed_step)}: the rollout of the step that "
    "failed. To examine it: python -m experiments.replay --workdir "
    f"{workdir} --step {failed_step}"
  )


def rollout_folder(workdir: epath.PathLike, failed_step: int) -> epath.Path:
  """Returns the folder in which the rollout of a failed step is saved."""
  return epath.Path(workdir) / FOLDER / f"step_{failed_step:06d}"


def save_rollout(
  workdir: epath.PathLike,
  failed_step: int,
  state: training_state.State,
  rollout: step.Rollouts,
) -> None:
  """Saves the state and the rollout of a step; called by every process.

  Args:
    workdir: folder of the run.
    failed_step: the step, counted from 1.
    state: a state without frozen parameters (`State.saved_part`). Its
      parameters are those before that step, which the step did not change. Its
      step count is replaced. If a later step was made before the fault was
      seen, the parameters include its update.
    rollout: rollout of the step, as global arrays.
  """
  folder = rollout_folder(workdir, failed_step)
  state = state.replace(step=state.step * 0 + (failed_step - 1))
  with checkpointing.Checkpoints(folder / "state") as checkpoints:
    checkpoints.save(failed_step - 1, state, {})
  arrays = multihost.fetch(_to_named_arrays(learners.by_learner(rollout)))
  if jax.process_index() == 0:
    # safetensors writes the memory of an array, which must be contiguous.
    arrays = {
      name: np.asarray(array, order="C") for name, array in arrays.items()
    }
    json_files.replace(
      folder / "rollout.safetensors", safetensors.numpy.save(arrays)
    )


def load_rollout(
  e: Experiment, workdir: epath.PathLike, failed_step: int
) -> tuple[training_state.State, dict[str, types.Rollout]]:
  """Reads what `save_rollout` wrote.

  Args:
    e: the experiment that the run was made with.
    workdir: folder of the run.
    failed_step: the step, counted from 1.

  Returns:
    The state, without frozen parameters, and the rollout of each learner.

  Raises:
    UsageError: the rollout of that step was not saved; or a file is damaged, or
      belongs to another experiment.
  """
  folder = rollout_folder(workdir, failed_step)
  if not (folder / "rollout.safetensors").exists():
    names = sorted(path.name for path in folder.parent.glob("step_*"))
    steps = ", ".join(name.removeprefix("step_").lstrip("0") for name in names)
    raise UsageError(
      f"{workdir} has no saved rollout of step {failed_step}; available: "
      f"{steps or 'none'}"
    )
  try:
    with checkpointing.Checkpoints(folder / "state") as checkpoints:
      state, _ = checkpoints.restore(placement.abstract_state(e).saved_part())
    arrays = safetensors.numpy.load(
      (folder / "rollout.safetensors").read_bytes()
    )
  except Exception as error:  # readers of damaged files raise anything
    raise UsageError(f"{folder} cannot be read: {error}") from error
  rollout_by_learner = {
    name: _from_named_arrays(name, abstract_rollout, arrays)
    for name, abstract_rollout in learners.by_learner(
      e.abstract_rollout
    ).items()
  }
  return state, rollout_by_learner


def _to_named_arrays(
  rollout_by_learner: Mapping[str, types.Rollout],
) -> dict[str, jax.Array]:
  """Returns `{"policy.scores": array, ...}`; PRNG keys become their data."""
  arrays = {}
  for learner, rollout in rollout_by_learner.items():
    extras = rollout.extras.arrays
    leaves = _named_leaves(rollout.replace(extras=types.Named()))
    for name, leaf in leaves.items():
      arrays[f"{learner}.{name}"] = prng_keys.key_data(leaf)
    for name, leaf in extras.items():
      arrays[f"{learner}.{_EXTRAS}.{name}"] = leaf
  return arrays


def _from_named_arrays(
  learner: str,
  abstract_rollout: types.Rollout,
  arrays: Mapping[str, np.ndarray],
) -> types.Rollout:
  """Returns the rollout of one learner; inverts `_to_named_arrays`."""
  abstract_rollout = abstract_rollout.replace(extras=types.Named())
  abstract_leaves, structure = jax.tree.flatten(abstract_rollout)
  names = _named_leaves(abstract_rollout)
  leaves = []
  for name, abstract_leaf in zip(names, abstract_leaves, strict=True):
    if f"{learner}.{name}" not in arrays:
      raise UsageError(f"the saved rollout has no {learner}.{name}")
    array = arrays[f"{learner}.{name}"]
    leaves.append(prng_keys.wrap_like(array, abstract_leaf))
  prefix = f"{learner}.{_EXTRAS}."
  extras = {
    name.removeprefix(prefix): array
    for name, array in arrays.items()
    if name.startswith(prefix)
  }
  rollout = jax.tree.unflatten(structure, leaves)
  return rollout.replace(extras=types.Named(extras))


def _named_leaves(tree: types.PyTree) -> dict[str, Any]:
  """Returns the leaves of a tree by dotted path, such as "tokens.mask"."""
  return {
    jax.tree_util.keystr(path, simple=True, separator="."): leaf
    for path, leaf in jax.tree.flatten_with_path(tree)[0]
  }
