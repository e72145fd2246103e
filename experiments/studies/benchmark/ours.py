"""Programs of our side, which is this project: each keeps its code compiled.

They serve `peers.protocol` and get the same job as the programs of the peers
(`peers`), with these further entries:

  kind     "sampler", "update" or "iteration": what a call does; "limits" if it
           measures the machine (`machine`) and needs no entry but devices
  devices  number of CPU devices; batches are split over them
  rows     samples of a prompt that decode at once
  chunk    number of positions whose logits exist at a time
  packed   whether updates leave out padding (false if absent)
  batch    of an update: arguments of `sizes.random_rollout`
  any field of `ModelConfig`
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from experiments.cli import devices
from experiments.studies.benchmark import sizes
from experiments.studies.benchmark.peers import protocol
from experiments.tasks.task import Judged, Problems
from experiments.training import drawing, packed_texts
from models import flop_counts, hf, policy, sharding
from models.config import ModelConfig
from rl import (
  fused_loop,
  masked,
  methods,
  scoring,
  step,
  training_state,
  transforms,
  types,
)
from rl.losses import surrogates, terms
from rl.method import Method
from rl.sampling import generation
from rl.update_plan import Plan

Array = jax.Array
# To measure the machine: side length of square matrices, elements of an array
# of 256 MB, which is larger than any cache, and timed calls.
LIMIT_SIZE, LIMIT_ELEMENTS, LIMIT_REPEATS = 2048, 2**26, 20


class Decoder:
  """The decoder of a job on a mesh of its devices, and the prompts `[P, L]`.

  The job overrides fields of the config of the saved decoder. The parameters
  are replicated on every device.
  """

  def __init__(self, job: dict[str, Any]) -> None:
    """Loads a decoder; must be called before JAX computes."""
    devices.configure(job["devices"])
    self.mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
    config, self.params = hf.load(job["weights"], mesh=self.mesh)
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    overrides = {name: value for name, value in job.items() if name in fields}
    self.config = dataclasses.replace(config, **overrides)
    self.model = policy.bind(self.config)
    self.prompts = protocol.read_prompts(job)
    self.plan = Plan(
      microbatches=max(len(self.prompts) // job["micro"], 1),
      chunk=job.get("chunk"),
    )

  def place(self, tree: Any) -> Any:
    """Puts arrays on the devices, with their first axis split over them."""
    rows = sharding.batch_sharding(self.mesh)
    return jax.tree.map(lambda x: jax.device_put(jnp.asarray(x), rows), tree)


def _sampling(job: dict[str, Any]) -> generation.Sampling:
  """Returns settings that sample at temperature 1 without top-k or top-p."""
  return generation.Sampling(
    samples=job["samples"],
    max_tokens=job["max_tokens"],
    eos_ids=() if job["eos_id"] is None else (job["eos_id"],),
    pad_id=job["pad_id"],
    rows=job.get("rows", 0),
  )


def _counts(lengths: Array, **others: Any) -> dict[str, Any]:
  """Returns the counts of a call that made completions of these lengths."""
  lengths = np.asarray(lengths)
  return {"tokens": int(lengths.sum()), "lengths": lengths.tolist(), **others}


def prepare_sampler(job: dict[str, Any]) -> protocol.Served:
  """Builds the side whose calls sample (`rl.sampling.generation.generate`)."""
  decoder, sampling = Decoder(job), _sampling(job)

  @functools.partial(jax.jit, static_argnames="sampling")
  def generate(
    params: types.PyTree,
    prompts: Array,
    numbers: Array,
    call: Array,
    sampling: generation.Sampling,
  ) -> generation.Samples:
    keys = generation.prompt_keys(jax.random.key(0), call, numbers)
    mask = jnp.ones(prompts.shape, bool)
    inputs = params, prompts, mask, keys, sampling
    return generation.generate(decoder.model, *inputs)

  def draw(
    params: types.PyTree,
    prompts: np.ndarray,
    call: int,
    sampling: generation.Sampling,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns completions `[P, S, T]` and lengths `[P, S]`, by microbatches."""
    parts = []
    for start in range(0, len(prompts), job["micro"]):
      part = prompts[start : start + job["micro"]]
      numbers = np.arange(start, start + len(part))
      placed = decoder.place((part, numbers))
      samples = generate(params, *placed, call, sampling)
      parts.append(jax.device_get((samples.completions, samples.lengths)))
    completions, lengths = zip(*parts, strict=True)
    return np.concatenate(completions), np.concatenate(lengths)

  def call(number: int) -> dict[str, Any]:
    return _counts(draw(decoder.params, decoder.prompts, number, sampling)[1])

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    _, params = hf.load(folder, mesh=decoder.mesh)
    greedy_sampling = generation.Sampling(
      1, tokens, eos_ids=(), pad_id=job["pad_id"], temperature=0.0
    )
    completions, _ = draw(params, decoder.prompts[:prompts], 0, greedy_sampling)
    return {"tokens": completions[:, 0].tolist()}

  return protocol.Served({"greedy": greedy}, call)


def prepare_update(job: dict[str, Any]) -> protocol.Served:
  """Builds the side whose calls make one update (`rl.step.make`)."""
  decoder = Decoder(job)
  mesh, model, plan = decoder.mesh, decoder.model, decoder.plan
  rollout = sizes.random_rollout(*job["batch"])
  rollout, step_number = rollout.replace(step=()), rollout.step
  rollout = decoder.place(rollout).replace(step=step_number)
  if job.get("packed"):
    rollout = packed_texts.pack(rollout, decoder.config, plan, mesh)
  # The clipped surrogate averaged over tokens. The scores of the random rollout
  # are used as advantages.
  method = Method(
    loss=terms.policy_gradient(surrogates.ppo_clip(0.2, 0.2)),
    advantage=transforms.scores(),
  )
  tx = optax.adamw(job["learning_rate"], weight_decay=job["weight_decay"])

  def init(params: types.PyTree) -> training_state.State:
    return training_state.init(method, params, tx, jax.random.key(0))

  shapes = jax.eval_shape(init, decoder.params)
  state_shardings = sharding.shardings(shapes, mesh)
  start = jax.jit(init, out_shardings=state_shardings)
  train_step = jax.jit(
    step.make(method, model, tx, plan),
    donate_argnums=0,
    out_shardings=(state_shardings, None),
  )
  # [P, S, T], of the policy whose parameters are passed as "old".
  need = scoring.Need("old", scoring.log_probs)

  @jax.jit
  def log_prob(params: types.PyTree, rollout: types.Rollout) -> Array:
    sizes_of_parts = plan.chunk, plan.microbatches
    outputs = scoring.passes(
      model, {"old": params}, {need}, rollout, 1.0, *sizes_of_parts
    )
    return masked.mean(outputs.extras[need], rollout.mask, (0, 1, 2))

  state = start(decoder.params)

  def call(number: int) -> dict[str, Any]:
    nonlocal state
    del number
    state, metrics = jax.block_until_ready(train_step(state, rollout))
    loss = float(metrics["loss/total"])
    return _counts(rollout.tokens.lengths, loss=loss)

  def proof() -> dict[str, Any]:
    _, params = hf.load(job["weights"], mesh=mesh)
    log_prob_before = log_prob(params, rollout)
    new_state, metrics = train_step(start(params), rollout)
    squares = jax.tree.map(lambda x: jnp.sum(x * x), new_state.params)
    return {
      "loss": float(metrics["loss/total"]),
      "grad_norm": float(metrics["optim/grad_norm"]),
      "log_prob": float(log_prob_before),
      "log_prob_after": float(log_prob(new_state.params, rollout)),
      "squares_after": float(sum(jax.tree.leaves(squares))),
    }

  # Tokens that a packed prompt has room for; 0 if padded.
  room = {"tokens": rollout.tokens.room}
  return protocol.Served({"proof": proof, "room": lambda: room}, call)


def share_of_even(completions: Array, lengths: Array) -> Array:
  """Returns the share of even ids in each completion with EOS, `[P, S]`."""
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  return masked.mean((completions % 2 == 0).astype(jnp.float32), real)


def prepare_iteration(job: dict[str, Any]) -> protocol.Served:
  """Builds the side whose calls make a whole GRPO iteration.

  It is one compiled program, or two if padding is left out.
  """
  decoder, sampling = Decoder(job), _sampling(job)
  model, plan = decoder.model, decoder.plan
  real = np.ones(decoder.prompts.shape, bool)
  ids = np.arange(len(decoder.prompts), dtype=np.int32)
  problems = Problems(*decoder.place((decoder.prompts, real, ids)), facts={})

  def collect(state: training_state.State) -> types.Rollout:
    keys = generation.prompt_keys(state.carried.key, state.step, problems.ids)
    inputs = problems.prompts, problems.prompt_mask
    samples = generation.generate(model, state.params, *inputs, keys, sampling)
    unknown = jnp.full(samples.lengths.shape, -1, jnp.int32)
    scores = share_of_even(samples.completions, samples.lengths)
    judged = Judged(scores=scores, correct=unknown, answer_ids=unknown)
    return drawing.assemble(problems, samples, judged, keys, state.step)

  method = methods.get("grpo", beta=0.0)
  tx = optax.adamw(job["learning_rate"])
  train_step = step.make(method, model, tx, plan)

  def learn(
    state: training_state.State, rollout: types.Rollout
  ) -> tuple[training_state.State, Array]:
    return train_step(state, rollout)[0], rollout.scored_lengths

  if job["packed"]:
    sample, update = jax.jit(collect), jax.jit(learn, donate_argnums=0)

    def program(state: training_state.State) -> Any:
      texts = decoder.config, plan, decoder.mesh
      return update(state, packed_texts.pack(sample(state), *texts))

  else:
    program = jax.jit(fused_loop.iteration(collect, learn), donate_argnums=0)
  state = jax.jit(
    lambda params, key: training_state.init(method, params, tx, key)
  )(decoder.params, jax.random.key(0))

  def call(number: int) -> dict[str, Any]:
    nonlocal state
    del number  # The step number in the state seeds the samples.
    state, lengths = jax.block_until_ready(program(state))
    return _counts(lengths)

  changed = protocol.largest_change(
    # The output kernel of the first MLP, which every update must change.
    lambda: np.array(state.params["layers"]["mlp"]["down"]["kernel"][0])
  )
  return protocol.Served({"changed": changed}, call)


def prepare_limits(job: dict[str, Any]) -> protocol.Served:
  """Builds the side that measures the limits of the machine."""
  devices.configure(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  rows = sharding.batch_sharding(mesh)

  def fastest(step: Callable, state: types.PyTree) -> float:
    """Returns the seconds of the fastest step, after one that compiles."""
    seconds = []
    for _ in range(1 + LIMIT_REPEATS):
      start = time.perf_counter()
      state = jax.block_until_ready(step(state))
      seconds.append(time.perf_counter() - start)
    return min(seconds[1:])

  def call(number: int) -> dict[str, Any]:
    del number
    x = jax.device_put(jnp.ones((LIMIT_SIZE, LIMIT_SIZE)), rows)
    replicated = NamedSharding(mesh, PartitionSpec())
    y = jax.device_put(jnp.eye(LIMIT_SIZE), replicated)
    product = jax.jit(lambda xy: (xy[0] @ xy[1], xy[1]), donate_argnums=0)
    # The array is donated, so that it is negated in place. A new array would
    # mostly measure how fast the system provides new pages.
    negate = jax.jit(jnp.negative, donate_argnums=0)
    array = jax.device_put(jnp.ones((LIMIT_ELEMENTS,)), rows)
    bytes_moved = 2 * flop_counts.FLOAT * LIMIT_ELEMENTS
    return {
      "flops": 2 * LIMIT_SIZE**3 / fastest(product, (x, y)),
      "bandwidth": bytes_moved / fastest(negate, array),
      "tokens": 0,
    }

  return protocol.Served({}, call)


KINDS: dict[str, Callable[[dict[str, Any]], protocol.Served]] = {
  "sampler": prepare_sampler,
  "update": prepare_update,
  "iteration": prepare_iteration,
  "limits": prepare_limits,
}


if __name__ == "__main__":
  protocol.serve(lambda job: KINDS[job["kind"]](job))
