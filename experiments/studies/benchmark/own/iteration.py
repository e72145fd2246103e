"""Our whole GRPO iteration as one program.

See `experiments.studies.benchmark.iteration`. Words of its job besides those of the
peers: `devices`; `rows`, samples of a prompt that decode at once; `micro`,
prompts whose samples are in one backward pass; `chunk`, positions whose logits
exist at a time; fields of `ModelConfig`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.studies.benchmark.own import common
from experiments.studies.benchmark.peers import protocol
from experiments.tasks.task import Judged, Problems
from experiments.training import rollouts
from models import policy
from rl import fused_loop, masked, methods, step, types
from rl.minibatches import Plan
from rl.sampling import generation

Array = jax.Array


def share_of_even(completions: Array, lengths: Array) -> Array:
  """`[P, S]`, the share of even ids among a completion's tokens, EOS in."""
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  return masked.mean((completions % 2 == 0).astype(jnp.float32), real)


def prepare(job: dict[str, Any]) -> protocol.Served:
  """The side of a job."""
  loaded = common.load(job)
  model = policy.bind(loaded.config)
  count = len(loaded.prompts)
  real = np.ones(loaded.prompts.shape, bool)
  ids = np.arange(count, dtype=np.int32)
  placed = common.place(loaded.mesh, (loaded.prompts, real, ids))
  problems = Problems(*placed, facts={})
  sampling = common.sampling(job)

  def collect(state: step.State) -> types.Rollout:
    keys = generation.prompt_keys(state.key, state.step, problems.ids)
    asked = problems.prompts, problems.prompt_mask
    drawn = generation.generate(model, state.params, *asked, keys, sampling)
    unknown = jnp.full(drawn.lengths.shape, -1, jnp.int32)
    scores = share_of_even(drawn.completions, drawn.lengths)
    judged = Judged(scores=scores, correct=unknown, answer_ids=unknown)
    return rollouts.assemble(problems, drawn, judged, keys, state.step)

  method = methods.get("grpo", beta=0.0)
  tx = optax.adamw(job["learning_rate"])
  plan = Plan(microbatches=count // job["micro"], chunk=job["chunk"])
  train_step = step.make(method, model, tx, plan)

  def learn(
    state: step.State, made: types.Rollout
  ) -> tuple[step.State, dict[str, Array]]:
    return train_step(state, made)[0], {"lengths": made.lengths}

  program = jax.jit(fused_loop.iteration(collect, learn), donate_argnums=0)
  start = jax.jit(lambda params, key: step.init(method, params, tx, key))
  state = start(loaded.params, jax.random.key(0))
  seen = _watched(state)

  def call(number: int) -> dict[str, Any]:
    nonlocal state
    del number  # the state counts its steps, and draws others at each
    state, found = jax.block_until_ready(program(state))
    lengths = np.asarray(found["lengths"])
    return {"tokens": int(lengths.sum()), "lengths": lengths.tolist()}

  def changed() -> dict[str, Any]:
    nonlocal seen
    before, seen = seen, _watched(state)
    return {"largest": float(np.abs(seen - before).max())}

  facts = {"jax": jax.__version__, "devices": len(jax.devices())}
  return protocol.Served(facts, call, {"changed": changed})


def _watched(state: step.State) -> np.ndarray:
  """The kernel that tells whether it learns."""
  return np.array(state.params["layers"]["mlp"]["down"]["kernel"][0])


if __name__ == "__main__":
  protocol.serve(prepare)
