"""Where arrays live: a mesh, and rules from parameter paths to its axes.

The mesh is `(replica, data, fsdp, tensor, context)`, the first across slices.
Prompts are split over replica, data and fsdp. Context splits what is left of a
batch: the tokens of a sequence where it is scored (each device reads all keys),
and a prompt's samples where they are drawn and under the heads. Parameters are
split over fsdp and context (gathered before use, Rajbhandari et al. 2020) and
over tensor (heads and MLP channels, Shoeybi et al. 2019); over replica and data
they are copied.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("replica", "data", "fsdp", "tensor", "context")
ROWS = ("replica", "data", "fsdp")  # over which prompts are split
SPLIT = ("fsdp", "context")  # what rules call fsdp
Rules = tuple[tuple[str, P], ...]

# A rule holds for the leaves whose dotted path ends with its expression. Axis
# 0 of the layers' parameters is the layer: it is scanned and never split.
RULES: Rules = (
  (r"embed\.table", P("tensor", "fsdp")),
  (r"unembed\.kernel", P("fsdp", "tensor")),
  (
    r"layers\.attention\.(query|key|value)\.kernel",
    P(None, "fsdp", "tensor", None),
  ),
  (r"layers\.attention\.(query|key|value)\.bias", P(None, "tensor", None)),
  (r"layers\.attention\.output\.kernel", P(None, "tensor", None, "fsdp")),
  (r"layers\.mlp\.(gate|up)\.kernel", P(None, "fsdp", "tensor")),
  (r"layers\.mlp\.down\.kernel", P(None, "tensor", "fsdp")),
  (r"layers\.mlp\.(gate|up)\.bias", P(None, "tensor")),
  (r"layers\.(attention\.output|mlp\.down)\.bias", P()),
  (r"layers\.experts\.router\.kernel", P(None, "fsdp", None)),
  (r"layers\.experts\.(gate|up)\.kernel", P(None, None, "fsdp", "tensor")),
  (r"layers\.experts\.down\.kernel", P(None, None, "tensor", "fsdp")),
  (r"layers\.experts\.router\.lora_a", P(None, "fsdp", None)),
  (r"layers\.experts\.router\.lora_b", P()),
  # What an adapter reads or writes is split like the kernel's, its rank never.
  (r"layers\.attention\.(query|key|value)\.lora_a", P(None, "fsdp", None)),
  (
    r"layers\.attention\.(query|key|value)\.lora_b",
    P(None, None, "tensor", None),
  ),
  (r"layers\.attention\.output\.lora_a", P(None, "tensor", None, None)),
  (r"layers\.attention\.output\.lora_b", P(None, None, "fsdp")),
  (r"layers\.mlp\.(gate|up)\.lora_a", P(None, "fsdp", None)),
  (r"layers\.mlp\.(gate|up)\.lora_b", P(None, None, "tensor")),
  (r"layers\.mlp\.down\.lora_a", P(None, "tensor", None)),
  (r"layers\.mlp\.down\.lora_b", P(None, None, "fsdp")),
  (r"(layers\.(attention|mlp)|final)_(post_)?norm\.(scale|bias)", P()),
  (r"layers\.attention\.(query|key)_norm\.scale", P()),
  (r"positions\.table", P(None, "fsdp")),
  (r"value\.(kernel|bias)|heads\.\w+\.(kernel|bias)", P()),
)


def make_mesh(
  data: int = -1,
  fsdp: int = 1,
  tensor: int = 1,
  context: int = 1,
  replica: int | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """A `(replica, data, fsdp, tensor, context)` mesh over all devices.

  Args:
    data, fsdp, tensor, context: sizes of the axes; one of them may be -1, which
      takes the devices that the others leave.
    replica: size of the axis that goes across slices, between which the network
      is slow; None: as many as there are slices.
    devices: what to use, by default every device of every process.

  Returns:
    The mesh. Its axes are of type Auto: under Explicit, JAX's default, the
    gathers of a policy do not compile.

  Raises:
    ValueError: the sizes do not multiply to the number of devices, or replica
      is no multiple of the slices.
  """
  devices = jax.devices() if devices is None else list(devices)
  slices = len({getattr(device, "slice_index", 0) for device in devices})
  replica = slices if replica is None else replica
  asked = (replica, data, fsdp, tensor, context)
  sizes = _sizes(dict(zip(AXES, asked, strict=True)), len(devices))
  if sizes["replica"] % slices:
    raise ValueError(
      f"mesh replica={replica} must be a multiple of the {slices} slices; "
      f"nearest: {max(round(replica / slices), 1) * slices}"
    )
  shape = tuple(sizes.values())
  if slices == 1:
    grid = mesh_utils.create_device_mesh(
      shape, devices, allow_split_physical_axes=True
    )
  else:
    grid = mesh_utils.create_hybrid_device_mesh(
      (shape[0] // slices, *shape[1:]),
      (slices, *(1 for _ in shape[1:])),
      devices,
      allow_split_physical_axes=True,
    )
  return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def _sizes(sizes: dict[str, int], count: int) -> dict[str, int]:
  """The sizes with what -1 stands for.

  Raises:
    ValueError: they do not multiply to the count.
  """
  asked = ", ".join(f"{name}={size}" for name, size in sizes.items())
  free = [name for name, size in sizes.items() if size == -1]
  fixed = [size for size in sizes.values() if size != -1]
  if len(free) > 1 or min(fixed, default=1) < 1:
    raise ValueError(
      f"mesh {asked}: sizes must be positive integers, at most one of them -1"
    )
  product = math.prod(fixed)
  if count % product or (not free and product != count):
    fits = [n for n in range(1, count + 1) if count % n == 0]
    raise ValueError(
      f"mesh {asked} does not fit {count} devices: the fixed sizes multiply "
      f"to {product}, allowed are products "
      + (f"in {fits}" if free else f"of exactly {count}")
      + f"; nearest: data=-1 with the others' product in {fits}"
    )
  return {
    name: count // product if size == -1 else size
    for name, size in sizes.items()
  }


def prompt_parts(mesh: Mesh) -> int:
  """Over how many parts of the mesh prompts are split."""
  return math.prod(mesh.shape[name] for name in ROWS)


def mesh_of(x: jax.Array) -> tuple[AbstractMesh, tuple[str, ...]]:
  """The mesh of a traced array, and its axes that are not split by hand yet."""
  mesh = jax.typeof(x).sharding.mesh
  kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
  return mesh, tuple(name for name, kind in kinds if kind != AxisType.Manual)


def local(x: jax.Array) -> Callable[[Callable], Callable]:
  """How each device computes a function of its own prompts and samples.

  What else it reads is gathered once, before it, and the gradient summed over
  the devices once, after it, whatever loops are inside.

  Args:
    x: `[P, S, ...]`, or `[P, T, ...]` of tokens, traced; prompts that the mesh
      does not divide are not split, nor are samples or tokens, which the axis
      context splits.

  Returns:
    `fn -> fn`, of a tree that all devices read, and of arrays `[P, S, ...]`.
  """
  mesh, free = mesh_of(x)
  split = []
  for size, axes in zip(x.shape, (ROWS, ("context",)), strict=False):
    names = tuple(name for name in axes if name in free)
    fits = size % math.prod(mesh.shape[name] for name in names) == 0
    split.append(names if fits else ())
  names = {name for axes in split for name in axes}
  if all(mesh.shape[name] == 1 for name in names):
    return lambda fn: fn

  def each(fn: Callable) -> Callable:
    def run(read: Any, *arrays: Any) -> Any:
      return jax.shard_map(
        fn,
        mesh=mesh,
        in_specs=(P(), *(P(*split) for _ in arrays)),
        out_specs=P(*split),
        axis_names=names,
        check_vma=False,
      )(read, *arrays)

    return run

  return each


def parts(x: jax.Array, axis: str) -> int:
  """Over how many devices an axis of the mesh splits a traced array's work."""
  mesh, free = mesh_of(x)
  return mesh.shape[axis] if axis in free else 1


def placed(x: jax.Array, *axes: str | tuple[str, ...] | None) -> jax.Array:
  """A traced array split so over the axes that its mesh has."""
  mesh, free = mesh_of(x)
  if not free:
    return x

  def there(names: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    names = (names,) if isinstance(names, str) else names or ()
    return tuple(name for name in names if name in free) or None

  place = NamedSharding(mesh, P(*map(there, axes)))
  return jax.lax.with_sharding_constraint(x, place)


def gathered(x: jax.Array, spec: P) -> jax.Array:
  """A traced array of `spec`, whole over fsdp: gathered here and not later.

  Nor earlier: what is cast is sent as it was cast to.
  """
  x = placed(x, *spec)
  return placed(x, *(None if axis == "fsdp" else axis for axis in spec))


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Axis 0 (prompts) over `ROWS`, everything else whole."""
  return NamedSharding(mesh, P(ROWS))


def specs(tree: Any, rules: Rules = RULES) -> Any:
  """The partition of every leaf, from its path.

  Args:
    tree: parameters, an optimiser state or any struct whose paths end like
      parameter paths; arrays or `jax.ShapeDtypeStruct`.
    rules: pairs (expression, PartitionSpec); the first that matches the end of
      the dotted path holds.

  Returns:
    A tree of PartitionSpec. A leaf of another rank than its rule's (a factored
    second moment) is whole on every device, and so is a leaf without a rule
    that has fewer than two axes (a count, a key).

  Raises:
    ValueError: a leaf with two or more axes matches no rule.
  """

  def spec(path: Any, leaf: Any) -> P:
    name = dotted(path)
    for expression, found in rules:
      if re.search(rf"(^|\.)({expression})$", name):
        return found if len(found) == len(leaf.shape) else P()
    if len(leaf.shape) < 2:
      return P()
    expressions = [expression.replace("\\", "") for expression, _ in rules]
    close = difflib.get_close_matches(name, expressions, n=1, cutoff=0.0)
    raise ValueError(
      f"no sharding rule for {name!r} of shape {tuple(leaf.shape)}; "
      f"add one (nearest: {close[0] if close else 'none'!r})"
    )

  return jax.tree_util.tree_map_with_path(spec, tree)


def shardings(tree: Any, mesh: Mesh, rules: Rules = RULES) -> Any:
  """`specs` placed on a mesh, checked against the shapes.

  Args:
    tree: as for `specs`.
    mesh: where to.
    rules: as for `specs`.

  Returns:
    A tree of NamedSharding, for `jax.device_put`, `out_shardings` or Orbax.

  Raises:
    ValueError: a mesh axis does not divide the dimension it should split.
  """

  def place(path: Any, leaf: Any, spec: P) -> NamedSharding:
    if mesh.shape.get("context", 1) > 1:
      spec = P(*(SPLIT if name == "fsdp" else name for name in spec))
    for axis, names in enumerate(spec):
      names = (names,) if isinstance(names, str) else tuple(names or ())
      parts = math.prod(mesh.shape[name] for name in names)
      size = leaf.shape[axis]
      if size % parts:
        works = [n for n in range(1, size + 1) if size % n == 0][:8]
        raise ValueError(
          f"{dotted(path)}: dimension {axis} of shape {tuple(leaf.shape)} is "
          f"{size}, which mesh axis {'*'.join(names)} = {parts} does not "
          f"divide; what works: {'*'.join(names)} in {works}, or a dimension "
          f"of {math.ceil(size / parts) * parts}"
        )
    return NamedSharding(mesh, spec)

  return jax.tree_util.tree_map_with_path(place, tree, specs(tree, rules))


def explain(tree: Any) -> str:
  """A table of what lies where, one line per leaf.

  Args:
    tree: of arrays, or their shapes, each with a NamedSharding.

  Returns:
    Lines "name, shape, dtype, split over, bytes per device", the total last.
  """
  rows = [("name", "shape", "dtype", "split over", "bytes/device")]
  total = 0
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    local = math.prod(leaf.sharding.shard_shape(tuple(leaf.shape)))
    size = local * leaf.dtype.itemsize
    total += size
    shape = " x ".join(str(n) for n in leaf.shape) or "scalar"
    split = _split(leaf.sharding)
    rows.append((dotted(path), shape, leaf.dtype.name, split, f"{size:,}"))
  rows.append(("total", "", "", "", f"{total:,}"))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = (
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    )
    for row in rows
  )
  return "\n".join(line.rstrip() for line in lines)


def _split(sharding: NamedSharding) -> str:
  """Over which axes of the mesh each dimension is split: "1: fsdp, 2: tensor"."""
  found = []
  for dimension, names in enumerate(sharding.spec):
    names = (names,) if isinstance(names, str) else names or ()
    wide = [name for name in names if sharding.mesh.shape[name] > 1]
    if wide:
      found.append(f"{dimension}: {'*'.join(wide)}")
  return ", ".join(found) or "whole"


def dotted(path: Any) -> str:
  """A tree path as `layers.attention.query.kernel`."""
  return jax.tree_util.keystr(path, simple=True, separator=".")
