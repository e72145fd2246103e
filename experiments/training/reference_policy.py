"""Log-probs of a run's training texts under the policy that it starts from.

A run of the kind "preferences" computes them once, before its first step, and
keeps them on the host and in its workdir. A training step gets the values of
its batch in `rollout.extras`. The reference policy therefore takes no memory
and no time during training.

Shapes: N lines of the file, C completions per line, T completion tokens.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import jax
import numpy as np
from etils import epath

from experiments.cli import errors
from experiments.logging import json_files, progress
from experiments.training import multihost, rollout_extras, text_rollouts
from experiments.training.experiment import Experiment
from rl import scoring
from rl.training_state import State

FILE = "reference_log_probs.npz"  # in the workdir
# At step 0 the parameters at the start of the step are those of the reference.
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


def log_probs(
  e: Experiment,
  workdir: epath.Path,
  state: State,
  between_batches: Callable[[], None] = lambda: None,
) -> dict[str, np.ndarray]:
  """Computes the log-probs before the first step; reads them at a later one.

  Args:
    e: the experiment.
    workdir: folder of the run. Process 0 writes `FILE`, which all processes
      read when the run is resumed.
    state: the training state that the run begins or resumes with.
    between_batches: function called after each batch of lines.

  Returns:
    `{need: [N, C, T]}` float32, the arrays that the method reads of the policy
    "ref", under the names of `rollout.extras`; {} if it reads none.

  Raises:
    RunError: the run is resumed, and `FILE` is missing or does not belong to
      the texts.
  """
  names = [str(need) for need in e.reference_needs]
  if not names:
    return {}
  path = epath.Path(workdir) / FILE
  if int(state.step) == 0:
    values = _compute(e, workdir, state, between_batches)
    if jax.process_index() == 0:
      content = io.BytesIO()
      np.savez_compressed(
        content, log_probs=values, fingerprint=e.texts.fingerprint
      )
      json_files.replace(path, content.getvalue())
    return dict.fromkeys(names, values)
  if not path.exists():
    raise errors.RunError(
      f"{path} is missing, without which the run cannot be resumed; start it "
      "again in another workdir"
    )
  with np.load(io.BytesIO(path.read_bytes())) as arrays:
    values, fingerprint = arrays["log_probs"], str(arrays["fingerprint"])
  if fingerprint != e.texts.fingerprint:
    raise errors.RunError(
      f"{e.config.preferences} has changed since the run in {workdir} began; "
      "restore the file, or start again in another workdir"
    )
  return dict.fromkeys(names, values)


def _compute(
  e: Experiment,
  workdir: epath.Path,
  state: State,
  between_batches: Callable[[], None],
) -> np.ndarray:
  """Returns the log-probs of all texts under the state, `[N, C, T]`."""
  num_lines, batch = len(e.texts), e.config.rollout.prompts

  @jax.jit
  def score(state, rollout):
    return rollout_extras.with_passes(
      e, state, rollout, {_OLD_LOG_PROBS}
    ).extras

  batches = []
  with progress.lines(
    print,
    f"{workdir}: log-probs of the reference policy",
    num_lines,
    unit="lines",
    first_batch="compiling and scoring the first lines",
  ) as update:
    for start in range(0, num_lines, batch):
      # In the last batch, copies of the last line fill up the shape.
      rows = np.minimum(np.arange(start, start + batch), num_lines - 1)
      rollout = text_rollouts.assemble_texts(
        *multihost.place(
          text_rollouts.select_texts(e.texts, rows), e.batch_sharding
        ),
        state,
      )
      values = multihost.fetch(
        score(state.with_policy(opt_state=()), rollout).arrays
      )
      # Padding is 0, so that the file is small.
      values = np.where(
        np.arange(rollout.completions.shape[-1])
        < e.texts.lengths[rows][..., None],
        values[str(_OLD_LOG_PROBS)],
        0.0,
      )
      batches.append(values[: num_lines - start].astype(np.float32))
      update(min(start + batch, num_lines))
      between_batches()
  return np.concatenate(batches)
