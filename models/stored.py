"""The parameters of a checkpoint, read without the rest of it.

A run's checkpoints hold a whole training state, an imported model's its
parameters alone; both are Orbax's, and both lie under `params` of `state`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

from models import buckets, checksums
from rl import types

FOLDER = "checkpoints"  # of a workdir


def latest_step(directory: epath.PathLike) -> int | None:
  """Step of the latest complete checkpoint there, None where there is none."""
  return max(steps(directory), default=None)


def steps(directory: epath.PathLike) -> list[int]:
  """Steps of the complete checkpoints there, in order."""
  directory = epath.Path(directory)
  if not directory.exists():
    return []
  return sorted(ocp.utils.checkpoint_steps(directory))


def check_params(
  directory: epath.PathLike,
  abstract_params: types.PyTree,
  step: int | None = None,
) -> None:
  """Refuses a checkpoint without these parameters; reads no array.

  Args, Raises: as of `restore_params`.
  """
  with _Params(directory, step) as saved:
    saved.check(abstract_params)


def restore_params(
  directory: epath.PathLike,
  abstract_params: types.PyTree | None = None,
  step: int | None = None,
) -> types.PyTree:
  """Reads the parameters of a checkpoint and nothing else of it.

  Args:
    directory: of the checkpoints.
    abstract_params: the tree with the shardings wanted; None reads what is
      there, as nested dicts, onto the first local device.
    step: which one; None reads the latest.

  Returns:
    The parameters.

  Raises:
    FileNotFoundError: there is no checkpoint, or none of that step.
    ValueError: the saved tree, a shape or a dtype is another, or an array is
      not what was saved.
  """
  with _Params(directory, step) as saved:
    return saved.restore(
      saved.tree if abstract_params is None else abstract_params
    )


class _Params(contextlib.AbstractContextManager):
  """The parameters of one checkpoint, before anything is read."""

  def __init__(self, directory: epath.PathLike, step: int | None) -> None:
    directory = buckets.absolute(directory)
    if not directory.exists():
      raise FileNotFoundError(f"no checkpoints: {directory} does not exist")
    self.step = existing(steps(directory), directory, step)
    self._path = directory / str(self.step) / "state"
    self._handler = ocp.PyTreeCheckpointHandler()
    self.tree = self._handler.metadata(self._path).tree["params"]

  def check(self, abstract: types.PyTree) -> types.PyTree:
    target = jax.tree.map(described, abstract)
    check_fits(target, self.tree, self.step)
    return target

  def restore(self, abstract: types.PyTree) -> types.PyTree:
    item = {"params": self.check(abstract)}
    restored = self._handler.restore(
      self._path,
      args=ocp.args.PyTreeRestore(
        item,
        restore_args=ocp.checkpoint_utils.construct_restore_args(item),
        partial_restore=True,
      ),
    )
    written_by_a_run = self._path.parent / "data"
    if written_by_a_run.exists():  # an imported model has parameters alone
      told = ocp.JsonCheckpointHandler().restore(written_by_a_run)
      own = checksums.of_params(told.get(checksums.KEY, {}))
      checksums.check(checksums.of(restored), own, self.step)
    return restored["params"]

  def __exit__(self, *_: object) -> None:
    self._handler.close()


def described(leaf: jax.Array) -> jax.ShapeDtypeStruct:
  """Shape, dtype and sharding of an array; the first local device if none."""
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place(leaf))


def place(leaf: jax.Array) -> jax.sharding.Sharding:
  """The sharding that a leaf carries, or the first local device."""
  sharding = getattr(leaf, "sharding", None)
  if isinstance(sharding, jax.sharding.Sharding):
    return sharding
  return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])


def check_fits(target: types.PyTree, saved: types.PyTree, step: int) -> None:
  """Compares what is wanted with what is there, by name, dtype and shape.

  Raises:
    ValueError: at the first leaf that is not what was saved.
  """
  want, have = _leaves(target), _leaves(saved)
  for name in sorted(want.keys() | have.keys()):
    wanted, found = want.get(name, "absent"), have.get(name, "absent")
    if wanted != found:
      raise ValueError(
        f"the checkpoint of step {step} does not fit: {name} is {found} there, "
        f"{wanted} here"
      )


def _leaves(tree: types.PyTree) -> dict[str, str]:
  """Dotted path -> dtype[shape], the same for a struct, a tuple and a dict."""
  leaves = {}
  for path, leaf in jax.tree.flatten_with_path(tree)[0]:
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    shape = ",".join(str(size) for size in leaf.shape)
    leaves[name] = f"{jnp.dtype(leaf.dtype).name}[{shape}]"
  return leaves


def existing(
  there: Iterable[int], directory: epath.PathLike, step: int | None
) -> int:
  """The step that is asked for, or the latest.

  Raises:
    FileNotFoundError: it is not among those that are there.
  """
  there = sorted(there)
  if not there:
    raise FileNotFoundError(f"no checkpoint in {directory}")
  if step is None:
    return there[-1]
  if step not in there:
    nearest = min(there, key=lambda other: abs(other - step))
    raise FileNotFoundError(
      f"no checkpoint of step {step} in {directory}; available: {there}, "
      f"nearest {nearest}"
    )
  return step
