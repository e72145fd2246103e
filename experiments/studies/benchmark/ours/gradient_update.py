"""One update of this project, `rl.step.make`.

Used by `experiments.studies.benchmark.update` and `.packing`. Entries of its
job besides those of the peers: `batch`, arguments of `random_rollout.make`;
`packed`, whether padding is left out (false if absent); `devices`; `micro`,
prompts whose samples are in one backward pass; `chunk`, number of positions
whose logits exist at a time; fields of `ModelConfig`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from experiments.studies.benchmark import random_rollout
from experiments.studies.benchmark.ours import common
from experiments.studies.benchmark.peers import protocol
from experiments.training import packed_texts
from models import hf, policy, sharding
from rl import masked, scoring, step, training_state, transforms, types
from rl.losses import surrogates, terms
from rl.method import Method
from rl.update_plan import Plan


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  loaded = common.load(job)
  model = policy.bind(loaded.config)
  rollout = random_rollout.make(*job["batch"])
  rollout, step_number = rollout.replace(step=()), rollout.step
  rollout = common.place(loaded.mesh, rollout).replace(step=step_number)
  num_microbatches = len(loaded.prompts) // job["micro"]
  plan = Plan(microbatches=num_microbatches, chunk=job["chunk"])
  if job.get("packed"):
    rollout = packed_texts.pack(rollout, loaded.config, plan, loaded.mesh)
  # The clipped surrogate averaged over tokens. The scores of the random rollout
  # are used as advantages.
  method = Method(
    loss=terms.policy_gradient(surrogates.ppo_clip(0.2, 0.2)),
    advantage=transforms.scores(),
  )
  tx = optax.adamw(job["learning_rate"], weight_decay=job["weight_decay"])

  def init(params: types.PyTree) -> training_state.State:
    return training_state.init(method, params, tx, jax.random.key(0))

  shapes = jax.eval_shape(init, loaded.params)
  state_shardings = sharding.shardings(shapes, loaded.mesh)
  start = jax.jit(init, out_shardings=state_shardings)
  train_step = jax.jit(
    step.make(method, model, tx, plan),
    donate_argnums=0,
    out_shardings=(state_shardings, None),
  )
  # [P, S, T], of the policy whose parameters are passed as "old".
  need = scoring.Need("old", scoring.log_probs)

  @jax.jit
  def log_prob(params: types.PyTree, rollout: types.Rollout) -> jax.Array:
    outputs = scoring.passes(
      model, {"old": params}, {need}, rollout, 1.0, plan.chunk, num_microbatches
    )
    return masked.mean(outputs.extras[need], rollout.mask, (0, 1, 2))

  state = start(loaded.params)
  tokens = int(rollout.tokens.lengths.sum())

  def call(number: int) -> dict[str, Any]:
    nonlocal state
    del number
    state, metrics = jax.block_until_ready(train_step(state, rollout))
    return {"tokens": tokens, "loss": float(metrics["loss/total"])}

  def proof() -> dict[str, Any]:
    _, params = hf.load(job["weights"], mesh=loaded.mesh)
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

  facts = {
    "jax": jax.__version__,
    "devices": len(jax.devices()),
    "room": rollout.tokens.room,
  }
  return protocol.Served(facts, call, {"proof": proof})


if __name__ == "__main__":
  protocol.serve(prepare)
