"""How costs grow, beside how they should.

Decoding and an update of a decoder of 2 layers, 8 prompts, completions that
nothing ends; one of S, T, V and the number of layers grows, the others stay. The
exponent is the slope of log time on log size, of times taken in turn with those
of the smallest shape. Theory is the same slope of the operations that
`experiments.studies.benchmark.machine` counts, at the same sizes:

  S        below 1: each prompt runs once, whatever S
  T        near 1: linear, and a quadratic term of attention that is small here
  V        below 1: the layers do not grow
  layers   below 1: the logits do not grow

and 0 for the advantages of max@k against k, whose one sort, sums and weights do
not depend on it. The limit: a fitted exponent within 0.15 of theory. The counts
leave out what is not a matrix product (drawing a token, AdamW), and what a call
or a decoding step costs at any size, so a machine with more cores needs larger
shapes (`width`) to be near the theory.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rich.console
from jax.sharding import Mesh

from experiments.cli import devices
from experiments.studies import flop_counts
from experiments.studies.benchmark import (
  machine,
  outcome,
  random_rollout,
  sizes,
  timing,
)
from models import policy as policies
from models import sharding, transformer
from rl import methods, objectives, step, types
from rl.minibatches import Plan
from rl.sampling import generation

TOLERANCE = 0.15
FACTORS = (1, 2, 4)
# Settings of the smallest shape: T of 64 tokens are 64 steps of decoding.
PROMPTS, PROMPT_LENGTH = 8, 64
SMALLEST = {"S": 8, "T": 64, "V": 2048, "layers": 2}
GROUP, KS = 1024, (4, 16, 64, 256)
METHOD = methods.get("grpo", beta=0.0)
Call = Callable[[], object]


def scaling(
  console: rich.console.Console, *, width: int = 256, rounds: int = 5
) -> outcome.Outcome:
  """Exponents of decoding and update in S, T, V and layers, of max@k in k.

  Args:
    console: where progress goes.
    width: of the decoder, a multiple of 128.
    rounds: times that each size is measured.

  Returns:
    A row for each exponent: `ours` the fitted, `peer` that of theory. Passed:
    the limit above holds.
  """
  devices.configure(machine.cores())
  mesh = sharding.make_mesh()
  shapes = grown(width)
  rows = []
  for what, (prepare, cost) in KINDS.items():
    calls = {}
    for shape in dict.fromkeys(itertools.chain(*shapes.values())):
      with console.status(f"{what}: compiling {shape}"):
        calls[shape] = prepare(shape, mesh)
    with console.status(f"{what}: timing {len(calls)} shapes"):
      times = relative_times(calls, rounds)
    for axis, along in shapes.items():
      rows.append(
        row(
          f"{what} against {axis}",
          [SMALLEST[axis] * factor for factor in FACTORS],
          [times[shape] for shape in along],
          [cost(shape) for shape in along],
        )
      )
      console.print(f"{rows[-1].name}: {rows[-1].ours:.2f}", highlight=False)
  with console.status("max@k"):
    times = relative_times({k: advantages(k) for k in KS}, rounds)
  flat = [1.0] * len(KS)
  rows.append(row("max_at_k_weights against k", KS, list(times.values()), flat))
  return outcome.of_rows(rows)


def grown(width: int) -> dict[str, list[sizes.Shape]]:
  """Shapes along each axis, all from the same smallest one."""
  decoder = sizes.decoder(SMALLEST["layers"], width, SMALLEST["V"])
  small = sizes.Shape(
    # As experiments on CPU have it.
    dataclasses.replace(decoder, unroll=0, attention="blocked"),
    PROMPTS,
    SMALLEST["S"],
    PROMPT_LENGTH,
    SMALLEST["T"],
  )

  def larger(axis: str, factor: int) -> sizes.Shape:
    size = SMALLEST[axis] * factor
    own = {"S": "samples", "T": "max_tokens"}
    if axis in own:
      return dataclasses.replace(small, **{own[axis]: size})
    field = {"V": "vocab_size", "layers": "layers"}[axis]
    model = dataclasses.replace(small.model, **{field: size})
    return dataclasses.replace(small, model=model)

  return {axis: [larger(axis, n) for n in FACTORS] for axis in SMALLEST}


def relative_times(
  calls: Mapping[object, Call], rounds: int
) -> dict[object, float]:
  """Times of calls, in those of the first one."""
  reference = next(iter(calls.values()))
  found = timing.compare(
    {str(key): call for key, call in calls.items()},
    reference,
    rounds=rounds,
    budget=float("inf"),
  )
  return {key: found[str(key)].ratio for key in calls}


def row(
  name: str, at: list[int], measured: list[float], counted: list[float]
) -> outcome.Row:
  """An exponent beside that of theory.

  Args:
    name: of the cost and the axis.
    at: sizes.
    measured: times at the sizes.
    counted: operations at the sizes.
  """
  fitted = timing.exponent(at, measured)
  theory = timing.exponent(at, counted)
  return outcome.Row(
    name=name,
    shape=", ".join(map(str, at)),
    unit="exponent",
    ours=fitted,
    peer=theory,
    ratio=TOLERANCE / max(abs(fitted - theory), 1e-9),
    limit=1.0,
    settings={"times": ", ".join(f"{time:.2f}" for time in measured)},
  )


def decoding(shape: sizes.Shape, mesh: Mesh) -> Call:
  """A compiled call that draws all completions of a shape."""
  model = policies.bind(shape.model)
  sampling = generation.Sampling(
    shape.samples, shape.max_tokens, eos_ids=(), pad_id=sizes.PAD_ID
  )
  tokens = _rollout(shape, mesh).tokens
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(shape.prompts))
  generate = functools.partial(generation.generate, model, sampling=sampling)
  inputs = (
    _params(shape, mesh),
    tokens.prompts,
    tokens.prompt_mask,
    jax.device_put(keys, sharding.batch_sharding(mesh)),
  )
  return functools.partial(
    jax.jit(
      lambda params, prompts, mask, keys: generate(
        params=params, prompts=prompts, prompt_mask=mask, keys=keys
      )
    )
    .lower(*inputs)
    .compile(),
    *inputs,
  )


def updating(shape: sizes.Shape, mesh: Mesh) -> Call:
  """A compiled call that makes one update of a shape."""
  tx = optax.adamw(1e-6)
  key = jax.random.key(0)
  state = jax.jit(lambda params: step.init(METHOD, params, tx, key))(
    _params(shape, mesh)
  )
  inputs = state, _rollout(shape, mesh)
  update = step.make(METHOD, policies.bind(shape.model), tx, Plan())
  return functools.partial(jax.jit(update).lower(*inputs).compile(), *inputs)


def advantages(k: int) -> Call:
  """A compiled call that weighs groups of scores for max@k."""
  scores = jax.random.normal(jax.random.key(0), (2**20 // GROUP, GROUP))
  weigh = functools.partial(objectives.max_at_k_weights, k=k)
  return functools.partial(jax.jit(weigh).lower(scores).compile(), scores)


def _lengths(shape: sizes.Shape) -> np.ndarray:
  return np.full((shape.prompts, shape.samples), shape.max_tokens)


def _counted(count: Callable, shape: sizes.Shape) -> float:
  return count(shape.model, shape.prompt_length, _lengths(shape)).flops


# What is timed: how it is made, and the operations that it needs.
KINDS: Mapping[str, tuple[Callable, Callable[[sizes.Shape], float]]] = {
  "decode": (decoding, functools.partial(_counted, flop_counts.decode_cost)),
  "update": (updating, functools.partial(_counted, flop_counts.update_cost)),
}


def _params(shape: sizes.Shape, mesh: Mesh) -> transformer.Params:
  params = transformer.init(shape.model, jax.random.key(0))
  return jax.device_put(params, sharding.shardings(params, mesh))


def _rollout(shape: sizes.Shape, mesh: Mesh) -> types.Rollout:
  """With its prompts split over the devices."""
  made = random_rollout.make(
    shape.model.vocab_size,
    shape.prompts,
    shape.samples,
    shape.prompt_length,
    shape.max_tokens,
  )
  rows = sharding.batch_sharding(mesh)
  return jax.tree.map(
    lambda leaf: jax.device_put(leaf, rows) if leaf.ndim else leaf, made
  )
