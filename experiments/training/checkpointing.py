"""Saves and restores trees of arrays and PRNG keys, without loss of a bit.

Orbax does the work. This module adds:

  PRNG keys     typed keys are saved as their data
  fit           a checkpoint whose tree, shapes or dtypes differ from those of
                the run is refused before its arrays are read
  checksums     every array has a checksum (`models.checksums`). A checkpoint
                that does not match its checksums is moved to another folder,
                and the run resumes from the previous checkpoint

A checkpoint gets its final name when it is complete, so a run that is killed
while saving resumes from the previous checkpoint. `models.checkpoint_reader`
reads only the parameters of a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint import checkpoint_managers

from experiments.training import multihost, prng_keys
from models import checkpoint_reader, checksums, storage_paths
from rl import UsageError

PyTree = Any

# Folder of the workdir for checkpoints that could not be read.
DAMAGED_FOLDER = "checkpoints_damaged"
# Key, in the JSON of a checkpoint, of the values that the caller saves. The
# checksums are under another key.
_META = "meta"


class _OrbaxTracebackFilter(logging.Filter):
  """Drops the tracebacks that Orbax logs when saving fails in the background.

  The next call of the manager raises the same error, so they would only hide
  the one line that a run prints about a full disk.
  """

  def filter(self, record: logging.LogRecord) -> bool:
    return not (record.exc_info and "orbax" in record.pathname)


_TRACEBACK_FILTER = _OrbaxTracebackFilter()


class _Manager(ocp.CheckpointManager):
  """Orbax's manager without its check for preemption.

  `preemption.Watch` makes that check. JAX counts the checks of all processes to
  choose the step at which they stop, and a second counter would confuse it.
  """

  def reached_preemption(self, step: int) -> bool:
    del step
    return False


class Checkpoints:
  """The checkpoints of one run, written in the background.

  Args:
    directory: folder of the checkpoints, local or in a bucket; created if
      missing.
    keep: number of latest checkpoints that are kept.
    every: `save` saves steps that are multiples of this number, and other steps
      only with `force`.
    also_keep: policies that keep further checkpoints
      (`experiments.training.checkpoint_retention`).
  """

  def __init__(
    self,
    directory: epath.PathLike,
    keep: int = 3,
    every: int = 1,
    also_keep: Sequence[checkpoint_managers.PreservationPolicy] = (),
  ) -> None:
    self.directory = storage_paths.absolute(directory)
    logging.getLogger("absl").addFilter(_TRACEBACK_FILTER)
    policies = [checkpoint_managers.LatestN(keep), *also_keep]
    self._manager = _Manager(
      self.directory,
      options=ocp.CheckpointManagerOptions(
        preservation_policy=checkpoint_managers.AnyPreservationPolicy(policies),
        save_decision_policy=checkpoint_managers.FixedIntervalPolicy(every),
        cleanup_tmp_directories=True,
      ),
      item_handlers={
        "state": ocp.StandardCheckpointHandler(),
        "data": ocp.JsonCheckpointHandler(),
      },
    )

  def save(
    self,
    step: int,
    state: PyTree,
    meta: dict[str, Any],
    force: bool = False,
  ) -> bool:
    """Starts saving; the arrays may be donated when this function returns.

    Args:
      step: finished training steps.
      state: tree of arrays and typed PRNG keys, with any sharding.
      meta: JSON values that are saved with the state.
      force: whether to save a step that is no multiple of `every`.

    Returns:
      Whether saving started. False if there is a checkpoint of this step, or if
      the step is no multiple of `every` and `force` is False.
    """
    if step in self._manager.all_steps():
      return False
    if not force and not self._manager.should_save(step):
      return False
    arrays = jax.tree.map(prng_keys.key_data, state)
    return self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(arrays),
        data=ocp.args.JsonSave(
          {
            _META: meta,
            checkpoint_reader.STEP: step,
            checksums.KEY: checksums.compute(arrays) | _meta_checksum(meta),
          }
        ),
      ),
      force=force,
    )

  def restore(
    self, abstract_state: PyTree, step: int | None = None
  ) -> tuple[PyTree, dict[str, Any]]:
    """Restores a checkpoint onto the shardings of `abstract_state`.

    Args:
      abstract_state: tree of `jax.ShapeDtypeStruct` or arrays, with the
        structure, shapes and dtypes of the saved tree. A leaf without a
        sharding is put on the first local device.
      step: step of the checkpoint; None takes the latest.

    Returns:
      (state, meta), bit for bit as they were saved.

    Raises:
      UsageError: there is no checkpoint, or none of that step; or the saved
        tree, a shape, a dtype or the step differs, an array fails its checksum,
        or another process cannot read the checkpoint.
    """
    step = checkpoint_reader.select_step(
      self._manager.all_steps(), self.directory, step
    )
    problem = None
    try:
      arrays, data = self._read(step, _abstract(abstract_state))
    except Exception as error:  # readers of damaged files raise anything
      problem = error
    # The checksums below need all processes, so if one cannot read the
    # checkpoint, all raise an error.
    if not multihost.is_true_everywhere(problem is None):
      raise problem or UsageError("another process cannot read it")
    meta = data.get(_META)
    actual = checksums.compute(arrays) | _meta_checksum(meta)
    checkpoint_reader.check_step(data, step)
    checksums.verify(actual, data.get(checksums.KEY, {}), step)
    return jax.tree.map(_wrap_key, arrays, abstract_state), meta

  def _read(self, step: int, target: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Reads the shards of this process and the JSON."""
    # Nothing here waits for other processes.
    folder = self.directory / str(step)
    with contextlib.closing(ocp.PyTreeCheckpointHandler()) as handler:
      saved_tree = handler.metadata(folder / "state").tree
      _check_version(saved_tree, target, step)
      checkpoint_reader.check_matches(target, saved_tree, step)
      # `target` has the shapes, dtypes and shardings of the saved arrays.
      arrays = handler.restore(
        folder / "state",
        args=ocp.args.PyTreeRestore(
          target,
          restore_args=ocp.checkpoint_utils.construct_restore_args(target),
        ),
      )
    return arrays, ocp.JsonCheckpointHandler().restore(folder / "data")

  def restore_newest(
    self, abstract_state: PyTree, print_line: Callable[[str], None]
  ) -> tuple[PyTree, dict[str, Any]] | None:
    """Restores the latest checkpoint that can be read.

    Later checkpoints, which cannot be read, are moved to `DAMAGED_FOLDER`, so
    that their steps can be saved again. All processes of a run restore the same
    checkpoint.

    Args:
      abstract_state: same as in `restore`.
      print_line: function that prints a line about each damaged checkpoint.

    Returns:
      (state, meta), or None if there is no checkpoint.

    Raises:
      UsageError: there are checkpoints and none can be read. None is moved.
    """
    reasons: dict[int, str] = {}  # by step of the damaged checkpoints
    for step in sorted(self._manager.all_steps(), reverse=True):
      restored, reason = None, ""
      try:
        restored = self.restore(abstract_state, step)
      except Exception as error:  # readers of damaged files raise anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
      if multihost.is_true_everywhere(restored is not None):
        for damaged_step, damage in reasons.items():
          folder = self._move_damaged(damaged_step, damage)
          print_line(f"{folder}: damaged ({damage})")
        return restored
      reasons[step] = reason or "another process cannot read it"
    if reasons:
      raise UsageError(
        f"no checkpoint of {self.directory} can be read: "
        + "; ".join(f"{step}: {reason}" for step, reason in reasons.items())
      )
    return None

  def _move_damaged(self, step: int, reason: str) -> epath.Path:
    """Moves a damaged checkpoint to `DAMAGED_FOLDER`; returns its new path."""
    folder = self.directory.parent / DAMAGED_FOLDER
    # Distinguishes checkpoints of one step that are damaged at several times.
    number = len(list(folder.glob("*"))) if folder.exists() else 0
    target = folder / f"{step}_{number}"
    if jax.process_index() == 0:
      folder.mkdir(parents=True, exist_ok=True)
      # Writing a file first creates the folder in a bucket too.
      # The reason for which the checkpoint cannot be read is in a text file.
      target.with_suffix(".txt").write_text(reason + "\n")
      (self.directory / str(step)).rename(target)
    multihost.is_true_everywhere(True)  # waits until process 0 has moved it
    self._manager.reload()
    return target

  def latest_step(self) -> int | None:
    """Returns the step of the latest checkpoint, or None without one."""
    return self._manager.latest_step()

  def wait(self) -> None:
    """Waits until all saves that have started are on disk."""
    self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits like `wait`, then ends the threads of the manager."""
    self._manager.close()

  def __enter__(self) -> Checkpoints:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()


def _wrap_key(data: jax.Array, target: Any) -> jax.Array:
  """Returns a typed PRNG key if the target leaf is one, and else the data."""
  if not prng_keys.is_key(target):
    return data
  return jax.device_put(
    prng_keys.wrap_like(data, target), checkpoint_reader.sharding_of(target)
  )


def _abstract(tree: PyTree) -> PyTree:
  """Returns shapes, dtypes and shardings of the arrays saved for `tree`."""

  def describe(leaf: Any) -> jax.ShapeDtypeStruct:
    array = leaf
    if prng_keys.is_key(leaf):
      array = jax.eval_shape(
        jax.random.key_data, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
      )
    return jax.ShapeDtypeStruct(
      array.shape, array.dtype, sharding=checkpoint_reader.sharding_of(leaf)
    )

  return jax.tree.map(describe, tree)


def _meta_checksum(meta: Any) -> dict[str, int]:
  """Returns the checksum of JSON values, under a name that no array has."""
  text = json.dumps(meta, sort_keys=True)
  return {f"({_META})": zlib.crc32(text.encode())}


def _check_version(saved_tree: PyTree, target: PyTree, step: int) -> None:
  """Refuses a training state of an earlier layout."""
  # Until 2026-11 the policy was not among the learners.
  fields = target if isinstance(target, dict) else vars(target)
  if "learners" in fields and "params" in saved_tree:
    raise UsageError(
      f"checkpoint {step} was written by an earlier version, whose training "
      "state has another layout; go on with that version, or start in a new "
      "workdir, with the parameters of this one by --config.init_from=WORKDIR"
    )
