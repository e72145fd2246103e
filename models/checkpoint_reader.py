"""Reads the parameters of a checkpoint, without other parts such as optimizer.

There are two kinds of checkpoints, both written with Orbax in the folder
`WORKDIR/checkpoints/STEP`: checkpoints of a training run have the whole
training state, and checkpoints of an imported model (`models.hf import`) have
parameters only. Both have the item `state`.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

from models import checksums, sharding, storage_paths
from rl import UsageError, types

FOLDER = "checkpoints"  # name of the folder of checkpoints in a workdir
STEP = "step"  # key of the step in the JSON of a run's checkpoint
# Keys of the policy's parameters in a training state.
_IN_STATE = ("learners", "policy", "params")
# Their keys in checkpoints of imported models, and of runs before 2026-12.
_ALONE = ("params",)


def latest_step(directory: epath.PathLike) -> int | None:
  """Returns the step of the latest complete checkpoint, or None."""
  return max(steps(directory), default=None)


def steps(directory: epath.PathLike) -> list[int]:
  """Returns the steps of the complete checkpoints, in ascending order."""
  directory = epath.Path(directory)
  if not directory.exists():
    return []
  return sorted(ocp.utils.checkpoint_steps(directory))


def check_params(
  directory: epath.PathLike,
  abstract_params: types.PyTree,
) -> None:
  """Checks the parameters of the latest checkpoint; reads metadata only.

  Args:
    directory: folder of the checkpoints.
    abstract_params: the expected parameters: arrays or `jax.ShapeDtypeStruct`.

  Raises:
    UsageError: there is no checkpoint; or the names, the shape or the dtype of
      a parameter differ.
  """
  with _CheckpointParams(directory, None) as saved:
    saved.check(abstract_params)


def restore_params(
  directory: epath.PathLike,
  abstract_params: types.PyTree | None = None,
  step: int | None = None,
) -> types.PyTree:
  """Reads the parameters of a checkpoint.

  Args:
    directory: folder of the checkpoints.
    abstract_params: the expected parameters with their shardings: arrays or
      `jax.ShapeDtypeStruct`. None reads all parameters that the checkpoint has
      as nested dicts, to the first local device.
    step: step of the checkpoint; None means the latest.

  Returns:
    The parameters.

  Raises:
    UsageError: there is no checkpoint, or none of this step; or the names, the
      shape or the dtype of a parameter differ, the checkpoint is that of
      another step, or a checksum shows that it is damaged.
  """
  with _CheckpointParams(directory, step) as saved:
    return saved.restore(
      saved.tree if abstract_params is None else abstract_params
    )


class _CheckpointParams(contextlib.AbstractContextManager):
  """The parameters of one checkpoint; opening it reads metadata only.

  Attributes:
    step: the checkpoint's step.
    tree: metadata of the parameters (shapes and dtypes), as nested dicts.
  """

  def __init__(self, directory: epath.PathLike, step: int | None) -> None:
    directory = storage_paths.absolute(directory)
    if not directory.exists():
      raise UsageError(f"the folder of checkpoints {directory} does not exist")
    self.step = select_step(steps(directory), directory, step)
    self._path = directory / str(self.step) / "state"
    self._handler = ocp.PyTreeCheckpointHandler()
    tree = self._handler.metadata(self._path).tree
    self._place = _ALONE if _ALONE[0] in tree else _IN_STATE
    self.tree = functools.reduce(operator.getitem, self._place, tree)

  def check(self, abstract_params: types.PyTree) -> types.PyTree:
    """Checks the parameters and returns their shapes, dtypes and shardings."""
    target = jax.tree.map(_abstract_array, abstract_params)
    check_matches(target, self.tree, self.step)
    return target

  def restore(self, abstract_params: types.PyTree) -> types.PyTree:
    """Checks and reads the parameters, and verifies checksums if it has any."""
    item = self.check(abstract_params)
    for key in reversed(self._place):
      item = {key: item}
    restored = self._handler.restore(
      self._path,
      args=ocp.args.PyTreeRestore(
        item,
        restore_args=ocp.checkpoint_utils.construct_restore_args(item),
        partial_restore=True,
      ),
    )
    # Only checkpoints of a run have this JSON file, with checksums.
    json_path = self._path.parent / "data"
    if json_path.exists():
      data = ocp.JsonCheckpointHandler().restore(json_path)
      check_step(data, self.step)
      place = ".".join(self._place)
      saved = checksums.select(data.get(checksums.KEY, {}), place)
      checksums.verify(checksums.compute(restored), saved, self.step)
    return functools.reduce(operator.getitem, self._place, restored)

  def __exit__(self, *_: object) -> None:
    self._handler.close()


def check_step(data: Mapping[str, Any], step: int) -> None:
  """Refuses a checkpoint whose folder has been renamed.

  Args:
    data: the JSON of the checkpoint; an older version wrote no step.
    step: the step that the folder's name says.

  Raises:
    UsageError: the checkpoint is that of another step.
  """
  saved = data.get(STEP, step)
  if saved != step:
    raise UsageError(
      f"the checkpoint in the folder {step} is that of step {saved}; give the "
      "folder its former name"
    )


def _abstract_array(leaf: jax.Array) -> jax.ShapeDtypeStruct:
  """Returns the shape, dtype and sharding of an array."""
  return jax.ShapeDtypeStruct(
    leaf.shape, leaf.dtype, sharding=sharding_of(leaf)
  )


def sharding_of(leaf: jax.Array) -> jax.sharding.Sharding:
  """Returns the leaf's sharding, or the first local device if it has none."""
  own = getattr(leaf, "sharding", None)
  if isinstance(own, jax.sharding.Sharding):
    return own
  return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])


def check_matches(target: types.PyTree, saved: types.PyTree, step: int) -> None:
  """Compares the expected tree with the saved one: names, dtypes and shapes.

  Args:
    target: the expected arrays, or their shapes and dtypes.
    saved: metadata of the saved arrays.
    step: the checkpoint's step, for the error message.

  Raises:
    UsageError: the trees differ; the message names the first leaf that differs.
  """
  expected_types, saved_types = _leaf_types(target), _leaf_types(saved)
  for name in sorted(expected_types.keys() | saved_types.keys()):
    expected_type = expected_types.get(name, "absent")
    saved_type = saved_types.get(name, "absent")
    if expected_type != saved_type:
      raise UsageError(
        f"the checkpoint of step {step} does not match: {name} is {saved_type} "
        f"in the checkpoint, but should be {expected_type}"
      )


def _leaf_types(tree: types.PyTree) -> dict[str, str]:
  """Returns the type of each leaf by its path, such as "float32[8,4]"."""
  leaves = {}
  # Paths of structs, tuples and dicts have the same form, so Orbax's metadata,
  # which has dicts only, can be compared with any tree.
  for name, leaf in sharding.leaves_by_path(tree).items():
    shape = ",".join(str(size) for size in leaf.shape)
    leaves[name] = f"{jnp.dtype(leaf.dtype).name}[{shape}]"
  return leaves


def select_step(
  available: Iterable[int], directory: epath.PathLike, step: int | None
) -> int:
  """Returns the requested step, or the latest one for None.

  Args:
    available: steps of the checkpoints.
    directory: folder of the checkpoints, for the error message.
    step: the requested step, or None.

  Raises:
    UsageError: there is no checkpoint, or none of the requested step.
  """
  available = sorted(available)
  if not available:
    raise UsageError(f"no checkpoint in {directory}")
  if step is None:
    return available[-1]
  if step not in available:
    nearest = min(available, key=lambda candidate: abs(candidate - step))
    raise UsageError(
      f"no checkpoint of step {step} in {directory}; available: {available}, "
      f"of which the nearest is {nearest}"
    )
  return step
