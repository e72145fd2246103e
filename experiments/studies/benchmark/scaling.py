"""Measures how times grow, compared with the growth of operation counts.

Decoding and an update are timed for a decoder of 2 layers and 8 prompts, with
completions that never end. One of four sizes grows while the others are fixed:
samples per prompt S, tokens per completion T, vocabulary V, number of layers.
Each shape is timed back to back with the smallest one. The exponent is the
slope of log time on log size. The expected exponent is the same slope of the
operations that `models.flop_counts` counts at the same sizes:

  S        below 1: a prompt is run once for all its samples
  T        near 1: linear, plus a quadratic term of the attention, small here
  V        below 1: the cost of the layers does not depend on V
  layers   below 1: the cost of the logits does not depend on the layers

The expected exponent of the max@k weights against k is 0, because they need one
sort and a few sums for any k. The limit of the benchmark: each fitted exponent
lies within 0.15 of the expected one. Only matrix products are counted. Drawing
a token, AdamW, and the fixed cost of a call or a decoding step are not, so a
machine with more cores needs larger shapes (`width`) to come near the expected
exponents.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rich.console
from jax.sharding import Mesh

from experiments.cli import cpu_devices, devices
from experiments.studies.benchmark import outcome, sizes, timing
from models import flop_counts, policy, sharding, transformer
from rl import best_of_k, methods, step, training_state, types
from rl.sampling import generation
from rl.update_plan import Plan

TOLERANCE = 0.15
FACTORS = (1, 2, 4)  # the growing size, divided by its smallest value
# Sizes of the smallest shape.
PROMPTS, PROMPT_LENGTH = 8, 64
SMALLEST = {"S": 8, "T": 64, "V": 2048, "layers": 2}
GROUP, KS = 1024, (4, 16, 64, 256)  # samples per group, and values of k
METHOD = methods.get("grpo", beta=0.0)
Call = Callable[[], object]
Cost = Callable[..., flop_counts.Cost]


def scaling(
  console: rich.console.Console, *, width: int = 256, rounds: int = 5
) -> outcome.Outcome:
  """Growth of time: decoding and update with S, T, V, layers; max@k with k.

  A row for each exponent has the fitted one as `ours` and the expected one as
  `peer`. The outcome passes if the limit above holds.

  Args:
    console: console for progress.
    width: width of the decoder, a multiple of 128.
    rounds: number of times that each shape is timed.
  """
  devices.configure(cpu_devices.num_cores())
  mesh, shapes, rows = sharding.make_mesh(), grow_shapes(width), []
  for kind, (compile_call, cost) in KINDS.items():
    calls = {}
    for shape in dict.fromkeys(itertools.chain(*shapes.values())):
      with console.status(f"{kind}: compiling {shape}"):
        calls[shape] = compile_call(shape, mesh)
    with console.status(f"{kind}: timing {len(calls)} shapes"):
      times = relative_times(calls, rounds)
    for axis, axis_shapes in shapes.items():
      rows.append(
        exponent_row(
          f"{kind} against {axis}",
          [SMALLEST[axis] * factor for factor in FACTORS],
          [times[shape] for shape in axis_shapes],
          [operations(cost, shape) for shape in axis_shapes],
        )
      )
      console.print(f"{rows[-1].name}: {rows[-1].ours:.2f}", highlight=False)
  with console.status("max@k"):
    times = relative_times({k: compile_max_at_k(k) for k in KS}, rounds)
  measured, no_growth = list(times.values()), [1.0] * len(KS)
  name = "max_at_k_weights against k"
  rows.append(exponent_row(name, KS, measured, no_growth))
  return outcome.from_rows(rows)


def grow_shapes(width: int) -> dict[str, list[sizes.Shape]]:
  """Returns the shapes along each axis, starting with the smallest shape."""
  decoder = sizes.decoder(SMALLEST["layers"], width, SMALLEST["V"])
  # The settings of the decoder that experiments use on CPU.
  decoder = dataclasses.replace(decoder, unroll=0, attention="blocked")
  batch = PROMPTS, SMALLEST["S"], PROMPT_LENGTH, SMALLEST["T"]
  smallest = sizes.Shape(decoder, *batch)

  def larger(axis: str, factor: int) -> sizes.Shape:
    size = SMALLEST[axis] * factor
    if axis in ("S", "T"):
      field = {"S": "samples", "T": "max_tokens"}[axis]
      return dataclasses.replace(smallest, **{field: size})
    field = {"V": "vocab_size", "layers": "layers"}[axis]
    model = dataclasses.replace(smallest.model, **{field: size})
    return dataclasses.replace(smallest, model=model)

  return {axis: [larger(axis, n) for n in FACTORS] for axis in SMALLEST}


def relative_times(
  calls: Mapping[Hashable, Call], rounds: int
) -> dict[Hashable, float]:
  """Returns the time of each call divided by the time of the first call."""
  timings = timing.compare(calls, next(iter(calls.values())), rounds=rounds)
  return {key: timed.ratio for key, timed in timings.items()}


def exponent_row(
  name: str, axis_sizes: Sequence[int], measured: list[float], operations: list
) -> outcome.Row:
  """Returns the row of a fitted exponent and the expected one.

  The times and the counted operations are those at the sizes along an axis.
  """
  fitted = timing.exponent(axis_sizes, measured)
  predicted = timing.exponent(axis_sizes, operations)
  return outcome.Row(
    name=name,
    shape=", ".join(map(str, axis_sizes)),
    unit="exponent",
    ours=fitted,
    peer=predicted,
    # At least 1 if the difference is within the tolerance. The constant keeps
    # equal exponents from dividing by zero.
    ratio=TOLERANCE / max(abs(fitted - predicted), 1e-9),
    limit=1.0,
    settings={"times": ", ".join(f"{time:.2f}" for time in measured)},
  )


def compile_decode(shape: sizes.Shape, mesh: Mesh) -> Call:
  """Returns a compiled call that draws all completions of a shape."""
  model = policy.bind(shape.model)
  sampling = generation.Sampling(
    shape.samples, shape.max_tokens, eos_ids=(), pad_id=sizes.PAD_ID
  )
  tokens = _rollout(shape, mesh).tokens
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(shape.prompts))
  keys = jax.device_put(keys, sharding.batch_sharding(mesh))
  inputs = _params(shape, mesh), tokens.prompts, tokens.prompt_mask, keys
  return _compile(
    functools.partial(generation.generate, model, sampling=sampling), *inputs
  )


def compile_update(shape: sizes.Shape, mesh: Mesh) -> Call:
  """Returns a compiled call that makes one update of a shape."""
  tx, key = optax.adamw(1e-6), jax.random.key(0)
  init = jax.jit(lambda params: training_state.init(METHOD, params, tx, key))
  state = init(_params(shape, mesh))
  update = step.make(METHOD, policy.bind(shape.model), tx, Plan())
  return _compile(update, state, _rollout(shape, mesh))


def compile_max_at_k(k: int) -> Call:
  """Returns a compiled call that computes max@k weights of random scores."""
  scores = jax.random.normal(jax.random.key(0), (2**20 // GROUP, GROUP))
  return _compile(functools.partial(best_of_k.max_at_k_weights, k=k), scores)


def operations(cost: Cost, shape: sizes.Shape) -> float:
  """Counts the operations of a call whose completions have full length."""
  lengths = np.full((shape.prompts, shape.samples), shape.max_tokens)
  return cost(shape.model, shape.prompt_length, lengths).flops


# By kind of work: the function that compiles it, and its counted cost.
KINDS: Mapping[str, tuple[Callable[..., Call], Cost]] = {
  "decode": (compile_decode, flop_counts.decode_cost),
  "update": (compile_update, flop_counts.update_cost),
}


def _compile(fn: Callable, *inputs: Any) -> Call:
  """Returns a compiled call of a function with these inputs."""
  return functools.partial(jax.jit(fn).lower(*inputs).compile(), *inputs)


def _params(shape: sizes.Shape, mesh: Mesh) -> transformer.Params:
  params = transformer.init(shape.model, jax.random.key(0))
  return jax.device_put(params, sharding.shardings(params, mesh))


def _rollout(shape: sizes.Shape, mesh: Mesh) -> types.Rollout:
  """Returns a random rollout whose prompts are split over the devices."""
  rollout = sizes.random_rollout(*shape.batch)
  batch_axis = sharding.batch_sharding(mesh)
  return jax.tree.map(
    lambda leaf: jax.device_put(leaf, batch_axis) if leaf.ndim else leaf,
    rollout,
  )
