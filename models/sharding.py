"""The device mesh, and how parameters and activations are split over it.

The mesh has five axes:

- replica: splits prompts, and has copies of the parameters, across slices
  (groups of TPU devices with a fast network, joined by a slow one).
- data: splits prompts, and has copies of the parameters, within a slice.
- fsdp: splits prompts, and splits parameters, which are gathered before use
  (Rajbhandari et al. 2020, ZeRO).
- tensor: splits heads and MLP channels (Shoeybi et al. 2019, Megatron-LM).
- context: splits the tokens of a sequence in scoring, where each device reads
  all keys; splits the samples of a prompt in sampling and in the heads. It also
  splits parameters, together with fsdp.

`RULES` maps each parameter to the mesh axes that split it. To change how a
parameter is split, change its rule; a new parameter needs a new rule. In this
module P is `jax.sharding.PartitionSpec`, not the number of prompts.
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

from rl import UsageError

AXES = ("replica", "data", "fsdp", "tensor", "context")
PROMPT_AXES = ("replica", "data", "fsdp")  # the axes that split prompts
# The axes that replace "fsdp" in a rule if the size of "context" is above 1.
PARAM_AXES = ("fsdp", "context")
Rules = tuple[tuple[str, P], ...]

# Pairs of a regular expression and the PartitionSpec of the leaves whose dotted
# path ends with a match; the first pair that matches applies. The docstring of
# `models.transformer` lists the shapes of parameters. Axis 0 of a leaf of
# "layers" is the layer, which is scanned over and never split.
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
  # The inputs of lora_a and the outputs of lora_b are split like those of the
  # kernel; the rank is not split.
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
  # The head of a process reward model.
  (r"head\.(kernel|bias)", P()),
)


def make_mesh(
  data: int = -1,
  fsdp: int = 1,
  tensor: int = 1,
  context: int = 1,
  replica: int | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """Makes a mesh with the axes of `AXES`.

  Args:
    data: size of the axis "data". One of the sizes may be -1, which stands for
      the number of devices divided by the product of the other sizes.
    fsdp: size of the axis "fsdp".
    tensor: size of the axis "tensor".
    context: size of the axis "context".
    replica: size of the axis "replica", a multiple of the number of slices;
      None means the number of slices.
    devices: the devices of the mesh; None means all devices of all processes.

  Returns:
    The mesh. Its axes have type Auto: with JAX's default, Explicit, the
    decoder's lookups by index (such as token embeddings) do not compile.

  Raises:
    UsageError: the product of the sizes is not the number of devices, or
      `replica` is not a multiple of the number of slices.
  """
  devices = jax.devices() if devices is None else list(devices)
  slices = len({getattr(device, "slice_index", None) for device in devices})
  replica = slices if replica is None else replica
  sizes = dict(zip(AXES, (replica, data, fsdp, tensor, context), strict=True))
  sizes = _resolve_sizes(sizes, len(devices))
  if sizes["replica"] % slices:
    nearest = max(round(replica / slices), 1) * slices
    raise UsageError(
      f"mesh replica={replica} must be a multiple of the {slices} slices; the "
      f"nearest multiple is {nearest}"
    )
  shape = tuple(sizes.values())
  if slices == 1:
    grid = mesh_utils.create_device_mesh(
      shape, devices, allow_split_physical_axes=True
    )
  else:
    # The sizes of the axes within a slice, then across slices: only "replica"
    # crosses slices.
    grid = mesh_utils.create_hybrid_device_mesh(
      (shape[0] // slices, *shape[1:]),
      (slices, *(1 for _ in shape[1:])),
      devices,
      allow_split_physical_axes=True,
    )
  return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def _resolve_sizes(sizes: dict[str, int], num_devices: int) -> dict[str, int]:
  """Replaces a size of -1 by the number that uses all devices."""
  text = ", ".join(f"{name}={size}" for name, size in sizes.items())
  free = [name for name, size in sizes.items() if size == -1]
  fixed = [size for size in sizes.values() if size != -1]
  if len(free) > 1 or min(fixed) < 1:
    raise UsageError(
      f"mesh {text}: sizes must be positive integers, at most one of them -1"
    )
  product = math.prod(fixed)
  if num_devices % product or (not free and product != num_devices):
    divisors = [n for n in range(1, num_devices + 1) if num_devices % n == 0]
    nearest = min(divisors, key=lambda n: abs(n - product))
    raise UsageError(
      f"mesh {text} does not fit {num_devices} devices: the sizes other than "
      f"-1 multiply to {product}, but their product must be "
      + (
        f"in {divisors} (nearest: {nearest})"
        if free
        else f"exactly {num_devices}; data=-1 uses all remaining devices"
      )
    )
  return {
    name: num_devices // product if size == -1 else size
    for name, size in sizes.items()
  }


def num_prompt_shards(mesh: Mesh) -> int:
  """Returns the number of parts into which the mesh splits prompts."""
  return math.prod(mesh.shape[name] for name in PROMPT_AXES)


def mesh_and_auto_axes(x: jax.Array) -> tuple[AbstractMesh, tuple[str, ...]]:
  """Returns the mesh of a traced array, and the axes that XLA splits over.

  Axes that an enclosing `jax.shard_map` splits over are left out. If the array
  has no mesh, the mesh is empty and there are no axes.
  """
  mesh = jax.typeof(x).sharding.mesh
  axis_types = zip(mesh.axis_names, mesh.axis_types, strict=True)
  auto_axes = (name for name, kind in axis_types if kind != AxisType.Manual)
  return mesh, tuple(auto_axes)


def map_over_devices(x: jax.Array) -> Callable[[Callable], Callable]:
  """Returns a transformation that runs a function on each device's part of x.

  It wraps `jax.shard_map`. Arrays that all devices read, such as parameters,
  are gathered once before the function, and their gradient is summed over
  devices once after it, even if the function contains loops.

  Args:
    x: a traced array `[prompts, samples, ...]` or `[prompts, tokens, ...]` that
      defines the split: axis 0 over `PROMPT_AXES` and axis 1 over "context". An
      axis of x is not split if the size of the mesh axes does not divide it.

  Returns:
    A transformation `fn -> mapped_fn`. Both functions take a tree that all
    devices read, and then arrays that are split like x; their result is split
    like x. If x is not split, `mapped_fn` is `fn`.
  """
  mesh, auto_axes = mesh_and_auto_axes(x)
  split = []
  for size, axes in zip(x.shape, (PROMPT_AXES, ("context",)), strict=False):
    names = tuple(name for name in axes if name in auto_axes)
    divides = size % math.prod(mesh.shape[name] for name in names) == 0
    split.append(names if divides else ())
  used_axes = {name for axes in split for name in axes}
  if all(mesh.shape[name] == 1 for name in used_axes):
    return lambda fn: fn

  def transform(fn: Callable) -> Callable:
    def mapped(shared: Any, *arrays: Any) -> Any:
      return jax.shard_map(
        fn,
        mesh=mesh,
        in_specs=(P(), *(P(*split) for _ in arrays)),
        out_specs=P(*split),
        axis_names=used_axes,
        check_vma=False,
      )(shared, *arrays)

    return mapped

  return transform


def num_shards(x: jax.Array, *axes: str) -> int:
  """Returns the product of the sizes of mesh axes of a traced array.

  Args:
    x: the traced array.
    *axes: names of mesh axes. Those that the mesh of x does not have count as
      1.
  """
  mesh, auto_axes = mesh_and_auto_axes(x)
  return math.prod(mesh.shape[axis] for axis in axes if axis in auto_axes)


def constrain(x: jax.Array, *axes: str | tuple[str, ...] | None) -> jax.Array:
  """Constrains the sharding of a traced array.

  Args:
    x: the array.
    *axes: mesh axes that split each dimension, or None. Axes that the mesh of x
      does not have are ignored.

  Returns:
    x with the constraint; x itself if it has no mesh.
  """
  mesh, auto_axes = mesh_and_auto_axes(x)
  if not auto_axes:
    return x

  def existing(
    names: str | tuple[str, ...] | None,
  ) -> tuple[str, ...] | None:
    names = (names,) if isinstance(names, str) else names or ()
    return tuple(name for name in names if name in auto_axes) or None

  sharding = NamedSharding(mesh, P(*map(existing, axes)))
  return jax.lax.with_sharding_constraint(x, sharding)


def gather_fsdp(x: jax.Array, spec: P) -> jax.Array:
  """Gathers a traced array over fsdp at this point of the program.

  Args:
    x: the array, split as in `spec`.
    spec: partition of x, from `partition_specs`.
  """
  # The first constraint keeps x split up to here: XLA must not gather it before
  # a cast to a smaller dtype. The second gathers x here, so that XLA does not
  # gather it later, inside a loop.
  x = constrain(x, *spec)
  return constrain(x, *(None if axis == "fsdp" else axis for axis in spec))


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of a batch: `PROMPT_AXES` split axis 0 (prompts)."""
  return NamedSharding(mesh, P(PROMPT_AXES))


def partition_specs(tree: Any, rules: Rules = RULES) -> Any:
  """Returns the PartitionSpec of each leaf, from the first rule that matches.

  Args:
    tree: parameters, an optimizer state or any pytree whose paths end like
      parameter paths; leaves are arrays or `jax.ShapeDtypeStruct`.
    rules: pairs of regular expression and PartitionSpec, see `RULES`.

  Returns:
    A pytree of PartitionSpec. It is `P()`, which means not split, for two kinds
    of leaves: leaves whose number of axes differs from their rule's (such as a
    factored second moment), and leaves without a rule that have fewer than two
    axes (such as a step count or a PRNG key).

  Raises:
    UsageError: a leaf with two or more axes matches no rule.
  """

  def partition(path: Any, leaf: Any) -> P:
    name = dotted_path(path)
    for expression, spec in rules:
      if re.search(rf"(^|\.)({expression})$", name):
        return spec if len(spec) == len(leaf.shape) else P()
    if len(leaf.shape) < 2:
      return P()
    expressions = [expression.replace("\\", "") for expression, _ in rules]
    close = difflib.get_close_matches(name, expressions, n=1, cutoff=0.0)
    raise UsageError(
      f"no sharding rule for {name!r} of shape {tuple(leaf.shape)}; add one to "
      f"the rules (the most similar one is {close[0] if close else 'none'!r})"
    )

  return jax.tree_util.tree_map_with_path(partition, tree)


def shardings(tree: Any, mesh: Mesh, rules: Rules = RULES) -> Any:
  """Returns the sharding of each leaf on a mesh, and checks the shapes.

  Args:
    tree: a pytree as in `partition_specs`.
    mesh: the mesh.
    rules: pairs of regular expression and PartitionSpec, see `RULES`.

  Returns:
    A pytree of NamedSharding, for `jax.device_put`, `out_shardings` or Orbax.

  Raises:
    UsageError: a mesh axis does not divide the dimension that it splits.
  """

  def named_sharding(path: Any, leaf: Any, spec: P) -> NamedSharding:
    if mesh.shape.get("context", 1) > 1:
      spec = P(*(PARAM_AXES if name == "fsdp" else name for name in spec))
    for axis, names in enumerate(spec):
      names = (names,) if isinstance(names, str) else tuple(names or ())
      parts = math.prod(mesh.shape[name] for name in names)
      size = leaf.shape[axis]
      if size % parts:
        # The smallest ones; a large size has too many divisors for a message.
        divisors = [n for n in range(1, size + 1) if size % n == 0][:8]
        raise UsageError(
          f"{dotted_path(path)}: dimension {axis} of shape "
          f"{tuple(leaf.shape)} is {size}, which mesh axis {'*'.join(names)} "
          f"= {parts} does not divide; choose {'*'.join(names)} from "
          f"{divisors}, or a dimension of {math.ceil(size / parts) * parts}"
        )
    return NamedSharding(mesh, spec)

  return jax.tree_util.tree_map_with_path(
    named_sharding, tree, partition_specs(tree, rules)
  )


def with_shardings(shapes: Any, tree_shardings: Any) -> Any:
  """Returns the shapes of a tree of arrays, with a sharding for each array."""
  return jax.tree.map(
    lambda leaf, leaf_sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=leaf_sharding
    ),
    shapes,
    tree_shardings,
  )


def sharding_table(tree: Any) -> str:
  """Returns a table of leaves, how each is split, and its memory per device.

  Args:
    tree: arrays or `jax.ShapeDtypeStruct`, each with a NamedSharding.

  Returns:
    Lines with the columns name, shape, dtype, split over, bytes per device. The
    last line is the total.
  """
  rows = [("name", "shape", "dtype", "split over", "bytes/device")]
  total = 0
  for name, leaf in leaves_by_path(tree).items():
    local_size = math.prod(leaf.sharding.shard_shape(tuple(leaf.shape)))
    num_bytes = local_size * leaf.dtype.itemsize
    total += num_bytes
    shape = " x ".join(str(n) for n in leaf.shape) or "scalar"
    split = _format_split(leaf.sharding)
    rows.append((name, shape, leaf.dtype.name, split, f"{num_bytes:,}"))
  rows.append(("total", "", "", "", f"{total:,}"))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = (
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    )
    for row in rows
  )
  return "\n".join(line.rstrip() for line in lines)


def _format_split(sharding: NamedSharding) -> str:
  """Returns the mesh axes of each dimension; "whole" if none splits it."""
  parts = []
  for dimension, names in enumerate(sharding.spec):
    names = (names,) if isinstance(names, str) else names or ()
    split_axes = [name for name in names if sharding.mesh.shape[name] > 1]
    if split_axes:
      parts.append(f"{dimension}: {'*'.join(split_axes)}")
  # An example is "1: fsdp, 2: tensor".
  return ", ".join(parts) or "whole"


def dotted_path(path: Any) -> str:
  """Formats a pytree path as `layers.attention.query.kernel`."""
  return jax.tree_util.keystr(path, simple=True, separator=".")


def leaves_by_path(tree: Any) -> dict[str, Any]:
  """Returns the leaves of a pytree by their dotted paths."""
  leaves = jax.tree.leaves_with_path(tree)
  return {dotted_path(path): leaf for path, leaf in leaves}
