"""Says what is wrong with the rollout that ended a run.

  python -m experiments.replay --workdir DIR [--step N]

The step is made again from what the run kept (`experiments.training.nan_guard`): what is not
finite in the rollout, in the scoring passes, in the metrics and in the gradient
is counted and named, and then the first operation that makes a NaN. Nothing is
written.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from experiments.cli import arguments, devices, errors
from experiments.training import build, loop, nan_guard, workdirs
from experiments.training.experiment import Experiment
from models import storage_paths
from rl import learners, prepare, scoring, step, types


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line; its exit status."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.replay", description=__doc__.splitlines()[0]
  )
  parser.add_argument("--workdir", required=True, help="folder of the run")
  parser.add_argument("--step", type=int, help="which; the latest kept")
  given = parser.parse_args(argv)
  with errors.usage_errors():
    arguments.check_counts(given, "step", minimum=0)
    arguments.check_folder("--workdir", given.workdir)
    workdir = storage_paths.parse(given.workdir)
    config = workdirs.read_config(workdir)
    devices.configure(config.cpu_devices)
    e = build.build(config)
    number = _latest(workdir) if given.step is None else given.step
    state, rollouts = nan_guard.load(e, workdir, number)
  state = state.replace(frozen=loop.frozen(e, workdir))
  print(f"{workdir}, step {number}: {e.method}")
  for line in look(e, state, rollouts):
    print(line)
  return 0


def _latest(workdir: epath.Path) -> int:
  kept = sorted((workdir / nan_guard.FOLDER).glob("step_*"))
  if not kept:
    raise FileNotFoundError(
      f"{workdir} keeps no rollout: no guard has ended that run"
    )
  return int(kept[-1].name.removeprefix("step_"))


def look(
  e: Experiment, state: step.State, rollouts: Mapping[str, types.Rollout]
) -> Iterator[str]:
  """What is not finite, a line each, in the order in which a step makes it.

  Args:
    e: the experiment.
    state: that the step met, whole.
    rollouts: of each learner that has its own, the policy among them.
  """
  own = rollouts[learners.POLICY]
  yield from _arrays("the rollout", _floats(own), own.sample_mask)
  scored = jax.jit(lambda s, r: _scored(e, s, r))(state, own)
  yield from _arrays("the scoring pass", scored, own.sample_mask)
  train_step = step.make(e.methods, e.policy, e.txs, e.plan)
  _, metrics = jax.device_get(jax.jit(train_step)(state, rollouts))
  for name, value in sorted(metrics.items()):
    if not np.isfinite(value).all():
      yield f"metric {name}: {value}"
  if metrics["optim/skipped"] < e.plan.updates:
    yield "the update is made"
  else:
    reason = nan_guard.refused(metrics, e.plan)
    reason = reason or "a score is not finite, or all groups are alike"
    yield f"the update is skipped: {reason}"
  wrong, whole = _gradient(e, state, own)
  if wrong:
    shown = ", ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else "")
    yield f"gradient: not finite in {len(wrong)} of {whole} arrays: {shown}"
  yield from _operation(train_step, state, rollouts)


def _floats(rollout: types.Rollout) -> dict[str, jax.Array]:
  """What is known of its samples, and is a fraction."""
  named = {
    "scores": rollout.scores,
    "behavior_log_probs": jnp.where(
      rollout.mask, rollout.behavior_log_probs, 0.0
    ),
    **{f"components.{k}": v for k, v in rollout.components.items()},
  }
  if rollout.step_scores is not None:
    named["step_scores"] = jnp.where(
      rollout.step_mask, rollout.step_scores, 0.0
    )
  return named


def _scored(
  e: Experiment, state: step.State, rollout: types.Rollout
) -> dict[str, jax.Array]:
  """What the passes find at its tokens."""
  needs = prepare.required(e.method, e.plan.updates)
  needs |= {scoring.Need("old", scoring.log_probs)}
  found = _passed(e, state, rollout, needs).extras.arrays
  return {
    name: jnp.where(rollout.mask, value, 0.0)
    for name, value in found.items()
    if value.shape == rollout.mask.shape
  }


def _passed(
  e: Experiment,
  state: step.State,
  rollout: types.Rollout,
  needs: Collection[scoring.Need],
) -> types.Rollout:
  """The rollout with what the passes find of needs that it does not hold."""
  missing = {need for need in needs if need not in rollout.extras}
  return e.passed(state, rollout, missing)


def _arrays(
  where: str, arrays: Mapping[str, jax.Array], mask: jax.Array
) -> Iterator[str]:
  """A line for each array with something that is not finite."""
  for name, array in arrays.items():
    bad = ~np.isfinite(np.asarray(array))
    bad = bad.reshape(*mask.shape, -1).any(-1) & np.asarray(mask)
    if bad.any():
      p, s = np.argwhere(bad)[0]
      yield (
        f"{where}: {name} is not finite in {bad.sum()} of {bad.size} samples; "
        f"the first is sample {s} of prompt {p}"
      )


def _gradient(
  e: Experiment, state: step.State, rollout: types.Rollout
) -> tuple[list[str], int]:
  """Names of parameters whose gradient is not finite, and of how many."""

  @jax.jit
  def finite(state, rollout):
    scored = _passed(e, state, rollout, prepare.required(e.method, 1))
    batch, scales, _ = prepare.prepare(e.method, scored, state.method_state)
    found, _ = prepare.gradient(
      e.method,
      e.policy.with_frozen(state.frozen),
      state.params,
      batch,
      scales,
      e.plan.single,
    )
    return jax.tree.map(lambda g: jnp.isfinite(g).all(), found)

  leaves = jax.tree.flatten_with_path(finite(state, rollout))[0]
  names = [
    jax.tree_util.keystr(path, simple=True, separator=".")
    for path, good in leaves
    if not good
  ]
  return names, len(leaves)


def _operation(train_step, state, rollouts) -> Iterator[str]:
  """The first operation of the step whose result is NaN."""
  try:
    with jax.debug_nans(True):
      jax.block_until_ready(jax.jit(train_step)(state, rollouts))
  except FloatingPointError as error:
    yield f"first NaN: {str(error).splitlines()[0]}"
    own = [
      frame
      for frame in traceback.extract_tb(error.__traceback__)
      if "site-packages" not in frame.filename
    ]
    if own:
      frame = own[-1]
      yield f"  in {frame.name}, {frame.filename}:{frame.lineno}: {frame.line}"
  else:
    yield "no operation makes a NaN"


if __name__ == "__main__":
  sys.exit(main())
