"""Checkpoints: any tree of arrays and keys, saved whole and found again bitwise.

Orbax does the work. What is added is small: typed PRNG keys travel as their
data, arrays come back on the shardings that are asked for, a state that does
not fit is refused before anything is read. `models.checkpoint_reader` reads the
parameters of a run alone. A checkpoint becomes visible by the rename that ends its writing,
so a run that is killed while saving resumes from the one before. Of each array
there is a number (`models.checksums`), so that what a disk or a copy did to
it is found when it is read: such a checkpoint is set aside, and the run resumes
from the one before.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint import checkpoint_managers as policies

from experiments.training import multihost, prng_keys
from models import checkpoint_reader, checksums, storage_paths

PyTree = Any

SET_ASIDE = "checkpoints_damaged"  # beside it: what could not be read
_META = "meta"  # in the JSON of a checkpoint, beside its checksums


class _Manager(ocp.CheckpointManager):
  """Orbax's, which leaves the question of preemption to `preemption.Watch`.

  Both would tell JAX how often it was asked, each by a count of its own, and
  the step on which all processes are to stop would be none of either.
  """

  def reached_preemption(self, step: int) -> bool:
    del step
    return False


class Checkpoints:
  """The checkpoints of one run, written in the background.

  Args:
    directory: where they live, local or in a bucket; made when missing.
    keep: how many of the latest are kept.
    every: steps that are multiples of it are saved, the others when forced.
    also: what else is kept, as Orbax's policies (`experiments.training.checkpoint_retention`).
  """

  def __init__(
    self,
    directory: epath.PathLike,
    keep: int = 3,
    every: int = 1,
    also: Sequence[policies.PreservationPolicy] = (),
  ) -> None:
    self.directory = storage_paths.absolute(directory)
    kept = [policies.LatestN(keep), *also]
    self._manager = _Manager(
      self.directory,
      options=ocp.CheckpointManagerOptions(
        preservation_policy=policies.AnyPreservationPolicy(kept),
        save_decision_policy=policies.FixedIntervalPolicy(every),
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
    """Starts saving; the arrays may be donated as soon as it returns.

    Args:
      step: finished updates.
      state: tree of arrays and typed PRNG keys, under any sharding.
      meta: JSON values that belong to it.
      force: save although `every` says not to (the last step).

    Returns:
      Whether saving started; False too where this step is already there.
    """
    if step in self._manager.all_steps():
      return False
    if not force and not self._manager.should_save(step):
      return False
    arrays = jax.tree.map(prng_keys.data, state)
    return self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(arrays),
        data=ocp.args.JsonSave(
          {
            _META: meta,
            checksums.KEY: checksums.compute(arrays) | _of_meta(meta),
          }
        ),
      ),
      force=force,
    )

  def restore(
    self, abstract_state: PyTree, step: int | None = None
  ) -> tuple[PyTree, dict[str, Any]]:
    """Reads a state onto the shardings that `abstract_state` carries.

    Args:
      abstract_state: tree of `jax.ShapeDtypeStruct` or arrays like the saved
        one; a leaf without a sharding comes back on the first local device.
      step: which one; None reads the latest.

    Returns:
      (state, meta), bit for bit as they were saved.

    Raises:
      FileNotFoundError: there is no checkpoint, or none of that step.
      ValueError: the saved tree, a shape or a dtype is another, an array is not
        what was saved, or another process cannot read it.
    """
    step = checkpoint_reader.select_step(
      self._manager.all_steps(), self.directory, step
    )
    problem = None
    try:
      arrays, data = self._read(step, _abstract(abstract_state))
    except Exception as error:  # readers of damaged files raise anything
      problem = error
    # Nobody may begin on numbers that all have to add up while one is missing.
    if not multihost.all_agree(problem is None):
      raise problem or ValueError("another process cannot read it")
    meta = data.get(_META)
    found = checksums.compute(arrays) | _of_meta(meta)
    checksums.verify(found, data.get(checksums.KEY, {}), step)
    return jax.tree.map(_data_to_key, arrays, abstract_state), meta

  def _read(self, step: int, target: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """This process's part of the arrays, and the JSON; waits for no other."""
    folder = self.directory / str(step)
    with contextlib.closing(ocp.PyTreeCheckpointHandler()) as handler:
      checkpoint_reader.check_matches(
        target, handler.metadata(folder / "state").tree, step
      )
      arrays = handler.restore(
        folder / "state",
        args=ocp.args.PyTreeRestore(
          target,
          restore_args=ocp.checkpoint_utils.construct_restore_args(target),
        ),
      )
    return arrays, ocp.JsonCheckpointHandler().restore(folder / "data")

  def restore_newest(
    self, abstract_state: PyTree, tell: Callable[[str], None]
  ) -> tuple[PyTree, dict[str, Any]] | None:
    """Reads the latest checkpoint that is whole.

    Those after it are set aside, so that their steps can be saved anew. Several
    processes agree on which it is.

    Args:
      abstract_state: as of `restore`.
      tell: where a line about each damaged one goes.

    Returns:
      (state, meta); None where there is no checkpoint.

    Raises:
      ValueError: there are some, and none can be read; nothing is set aside.
    """
    damaged: dict[int, str] = {}
    for step in sorted(self._manager.all_steps(), reverse=True):
      found, reason = None, ""
      try:
        found = self.restore(abstract_state, step)
      except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
      if multihost.all_agree(found is not None):
        for other, why in damaged.items():
          tell(f"{self._set_aside(other, why)}: damaged ({why})")
        return found
      damaged[step] = reason or "another process cannot read it"
    if damaged:
      raise ValueError(
        f"no checkpoint of {self.directory} can be read: "
        + "; ".join(f"{step}: {why}" for step, why in damaged.items())
      )
    return None

  def _set_aside(self, step: int, reason: str) -> epath.Path:
    aside = self.directory.parent / SET_ASIDE
    number = len(list(aside.glob("*"))) if aside.exists() else 0
    moved = aside / f"{step}_{number}"
    if jax.process_index() == 0:
      aside.mkdir(parents=True, exist_ok=True)
      # In a bucket a folder is there once something lies in it.
      moved.with_suffix(".txt").write_text(reason + "\n")
      (self.directory / str(step)).rename(moved)
    multihost.all_agree(True)  # it is moved
    self._manager.reload()
    return moved

  def latest_step(self) -> int | None:
    """Step of the latest checkpoint, None where there is none."""
    return self._manager.latest_step()

  def wait(self) -> None:
    """Returns when everything saved so far is on disk."""
    self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then releases the threads."""
    self._manager.close()

  def __enter__(self) -> Checkpoints:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()


def _data_to_key(data: jax.Array, like: Any) -> jax.Array:
  if not prng_keys.is_key(like):
    return data
  return jax.device_put(
    prng_keys.like(data, like), checkpoint_reader.sharding_of(like)
  )


def _abstract(tree: PyTree) -> PyTree:
  """Shapes, dtypes and shardings of what is stored for `tree`."""

  def describe(leaf: Any) -> jax.ShapeDtypeStruct:
    kept = leaf
    if prng_keys.is_key(leaf):
      kept = jax.eval_shape(
        jax.random.key_data, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
      )
    return jax.ShapeDtypeStruct(
      kept.shape, kept.dtype, sharding=checkpoint_reader.sharding_of(leaf)
    )

  return jax.tree.map(describe, tree)


def _of_meta(meta: Any) -> dict[str, int]:
  """The number of JSON values."""
  text = json.dumps(meta, sort_keys=True)
  return {f"({_META})": zlib.crc32(text.encode())}
