"""A whole GRPO iteration of this project.

It is one compiled program, or two if padding is left out.

Used by `experiments.studies.benchmark.iteration`. Entries of its job besides
those of the peers: `devices`; `rows`, samples of a prompt that decode at once;
`micro`, prompts whose samples are in one backward pass; `chunk`, number of
positions whose logits exist at a time; `packed`, whether updates leave out
padding; fields of `ModelConfig`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.studies.benchmark.ours import common
from experiments.studies.benchmark.peers import protocol
from experiments.tasks.task import Judged, Problems
from experiments.training import drawing, packed_texts
from models import policy
from rl import fused_loop, masked, methods, step, training_state, types
from rl.sampling import generation
from rl.update_plan import Plan

Array = jax.Array


def share_of_even(completions: Array, lengths: Array) -> Array:
  """Returns the share of even ids in each completion with EOS, `[P, S]`."""
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  return masked.mean((completions % 2 == 0).astype(jnp.float32), real)


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  loaded = common.load(job)
  model = policy.bind(loaded.config)
  count = len(loaded.prompts)
  real = np.ones(loaded.prompts.shape, bool)
  ids = np.arange(count, dtype=np.int32)
  placed = common.place(loaded.mesh, (loaded.prompts, real, ids))
  problems = Problems(*placed, facts={})
  sampling = common.sampling(job)

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
  plan = Plan(microbatches=count // job["micro"], chunk=job["chunk"])
  train_step = step.make(method, model, tx, plan)

  def learn(
    state: training_state.State, rollout: types.Rollout
  ) -> tuple[training_state.State, dict[str, Array]]:
    return train_step(state, rollout)[0], {"lengths": rollout.scored_lengths}

  if job["packed"]:
    sample, update = jax.jit(collect), jax.jit(learn, donate_argnums=0)

    def program(
      state: training_state.State,
    ) -> tuple[training_state.State, dict[str, Array]]:
      rollout = packed_texts.pack(
        sample(state), loaded.config, plan, loaded.mesh
      )
      return update(state, rollout)

  else:
    program = jax.jit(fused_loop.iteration(collect, learn), donate_argnums=0)
  start = jax.jit(
    lambda params, key: training_state.init(method, params, tx, key)
  )
  state = start(loaded.params, jax.random.key(0))
  last_kernel = _watched_kernel(state)

  def call(number: int) -> dict[str, Any]:
    nonlocal state
    del number  # The step number in the state seeds the samples.
    state, metrics = jax.block_until_ready(program(state))
    lengths = np.asarray(metrics["lengths"])
    return {"tokens": int(lengths.sum()), "lengths": lengths.tolist()}

  def changed() -> dict[str, Any]:
    """Returns the largest change of the kernel since the last question."""
    nonlocal last_kernel
    previous_kernel, last_kernel = last_kernel, _watched_kernel(state)
    return {"largest": float(np.abs(last_kernel - previous_kernel).max())}

  facts = {"jax": jax.__version__, "devices": len(jax.devices())}
  return protocol.Served(facts, call, {"changed": changed})


def _watched_kernel(state: training_state.State) -> np.ndarray:
  """Returns the kernel that every update must change: first MLP, output."""
  return np.array(state.params["layers"]["mlp"]["down"]["kernel"][0])


if __name__ == "__main__":
  protocol.serve(prepare)
