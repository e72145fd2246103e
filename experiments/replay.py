"""Repeats the step at which the NaN guard ended a run, and reports the cause.

  python -m experiments.replay --workdir DIR [--step N]

reads the rollout and the training state that the NaN guard saved
(`experiments.training.nan_guard`). It lists the arrays that are not finite: of
the rollout, of the scoring passes (forward passes over the completions), the
metrics and the gradients. Then it names the first operation of the training
step that makes a NaN. It writes no files. In shapes, P is the number of
prompts, S of samples per prompt, and T of tokens.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from experiments.cli import arguments, devices, errors
from experiments.logging import provenance
from experiments.training import (
  build,
  initial_state,
  nan_guard,
  packed_texts,
  rollout_extras,
  workdirs,
)
from experiments.training.experiment import Experiment
from models import storage_paths
from rl import (
  UsageError,
  learners,
  method_loss,
  scoring,
  step,
  training_state,
  types,
)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 for a wrong flag or path."""
  parser = arguments.make_parser("replay", __doc__.splitlines()[0])
  parser.add_argument("--workdir", required=True, help="folder of the run")
  default = "default: the latest that was saved"
  arguments.add(parser, "--step", int, f"training step that failed; {default}")
  options = parser.parse_args(argv)
  arguments.check_counts(options, "step", minimum=0)
  arguments.check_folder("--workdir", options.workdir)
  workdir = storage_paths.parse(options.workdir)
  config = workdirs.read_config(workdir)
  devices.configure(config.cpu_devices, batches=devices.batch_sizes(config))
  e = build.build(config)
  failed_step = options.step
  if failed_step is None:
    failed_step = _latest_failed_step(workdir)
  state, rollout_by_learner = nan_guard.load_rollout(e, workdir, failed_step)
  frozen = initial_state.frozen_params(e, workdir)
  state = state.with_carried(frozen=frozen)
  if packed_texts.packs(e):
    rollout_by_learner = packed_texts.pack(
      rollout_by_learner, e.model, e.plan, e.mesh
    )
  print(f"{workdir}, step {failed_step}: {e.method}")
  if changed := provenance.changed_files(workdir):
    print(f"the code has changed since the run: {', '.join(changed)}")
  for line in describe(e, state, rollout_by_learner):
    print(line)
  return 0


def _latest_failed_step(workdir: epath.Path) -> int:
  """Returns the latest step whose rollout the NaN guard saved."""
  folders = sorted((workdir / nan_guard.FOLDER).glob("step_*"))
  if not folders:
    raise UsageError(
      f"{workdir} has no saved rollout, because the NaN guard has not ended "
      "this run"
    )
  return int(folders[-1].name.removeprefix("step_"))


def describe(
  e: Experiment,
  state: training_state.State,
  rollout_by_learner: Mapping[str, types.Rollout],
) -> Iterator[str]:
  """Yields the lines of the report: the rollout first, the operation last.

  `state` is that before the failed step, with frozen parameters.
  """
  rollout = rollout_by_learner[learners.POLICY]
  yield from _describe_arrays(
    "the rollout", _float_fields(rollout), rollout.sample_mask
  )
  # "old" stands for the parameters before the step.
  needs = method_loss.required(e.method, e.plan.updates)
  needs |= {scoring.Need("old", scoring.log_probs)}
  scored = jax.jit(
    lambda state, rollout: rollout_extras.with_passes(e, state, rollout, needs)
  )(state, rollout)
  # Those that are `[P, S, T]`, with 0 at unscored tokens.
  scores = {
    name: jnp.where(rollout.mask, value, 0.0)
    for name, value in scored.extras.arrays.items()
    if value.shape == rollout.mask.shape
  }
  yield from _describe_arrays("the scoring passes", scores, rollout.sample_mask)
  train_step = step.make(e.methods, e.policy, e.txs, e.plan)
  _, metrics = jax.device_get(jax.jit(train_step)(state, rollout_by_learner))
  for name, value in sorted(metrics.items()):
    if not np.isfinite(value).all():
      yield f"metric {name}: {value}"
  if metrics["optim/skipped"] < e.plan.updates:
    yield "the update is made"
  else:
    reason = nan_guard.skip_reason(metrics, e.plan)
    reason = reason or (
      "a score is not finite, or the samples of each prompt have equal scores"
    )
    yield f"the update is skipped: {reason}"
  names, num_arrays = _non_finite_gradients(e, state, rollout)
  if names:
    listed = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    yield (
      f"gradient: not finite in {len(names)} of {num_arrays} arrays: {listed}"
    )
  yield from _find_operation(train_step, state, rollout_by_learner)


def _float_fields(rollout: types.Rollout) -> dict[str, jax.Array]:
  """Returns the floating-point arrays of a rollout, `{name: [P, S, ...]}`."""
  # Entries at tokens that the policy did not write and at steps that do not
  # exist are set to 0: they need not be finite.
  fields = {
    "scores": rollout.scores,
    "behavior_log_probs": jnp.where(
      rollout.mask, rollout.behavior_log_probs, 0.0
    ),
    **{f"components.{k}": v for k, v in rollout.components.items()},
  }
  if rollout.step_scores is not None:
    fields["step_scores"] = jnp.where(
      rollout.step_mask, rollout.step_scores, 0.0
    )
  return fields


def _describe_arrays(
  where: str,  # where the arrays come from, for the line
  arrays: Mapping[str, jax.Array],  # [P, S, ...] each, by name
  mask: jax.Array,  # [P, S], True for samples that exist
) -> Iterator[str]:
  """Yields a line for each array that is not finite in an existing sample."""
  for name, array in arrays.items():
    is_bad = ~np.isfinite(np.asarray(array))
    is_bad = is_bad.reshape(*mask.shape, -1).any(-1) & np.asarray(mask)
    if is_bad.any():
      p, s = np.argwhere(is_bad)[0]
      yield (
        f"{where}: {name} is not finite in {is_bad.sum()} of {is_bad.size} "
        f"samples; the first is sample {s} of prompt {p}"
      )


def _non_finite_gradients(
  e: Experiment, state: training_state.State, rollout: types.Rollout
) -> tuple[list[str], int]:
  """Returns the parameters with a non-finite gradient, and the count of all."""

  # The gradient is that of the whole rollout at the parameters before the step,
  # without minibatches.
  @jax.jit
  def compute_gradients(state, rollout):
    needs = method_loss.required(e.method, 1)
    scored = rollout_extras.with_passes(e, state, rollout, needs)
    batch, scales, _ = method_loss.prepare(
      e.method, scored, state.policy.method_state
    )
    gradients, _ = method_loss.gradient(
      e.method,
      e.policy.with_frozen(state.carried.frozen),
      state.params,
      batch,
      scales,
      e.plan.single,  # the plan of one update over all samples
    )
    return gradients

  tree = compute_gradients(state, rollout)
  return non_finite_arrays(tree), len(jax.tree.leaves(tree))


def non_finite_arrays(tree: types.PyTree) -> list[str]:
  """Returns the names of the arrays that have a value that is not finite."""
  return [
    jax.tree_util.keystr(path, simple=True, separator=".")
    for path, array in jax.tree.leaves_with_path(tree)
    if not jnp.isfinite(array).all()
  ]


def _find_operation(
  train_step: Callable,
  state: training_state.State,
  rollout_by_learner: Mapping[str, types.Rollout],
) -> Iterator[str]:
  """Yields a line about the first operation of the step that makes a NaN."""
  try:
    # The first operation that makes a NaN raises an error.
    with jax.debug_nans(True):
      jax.block_until_ready(jax.jit(train_step)(state, rollout_by_learner))
  except FloatingPointError as error:
    yield f"first NaN: {str(error).splitlines()[0]}"
    frames = [
      frame
      for frame in traceback.extract_tb(error.__traceback__)
      if "site-packages" not in frame.filename
    ]
    if frames:
      # This is the place in the project's code from which the operation was
      # called.
      frame = frames[-1]
      yield f"  in {frame.name}, {frame.filename}:{frame.lineno}: {frame.line}"
  else:
    yield "no operation makes a NaN"


if __name__ == "__main__":
  sys.exit(main())
