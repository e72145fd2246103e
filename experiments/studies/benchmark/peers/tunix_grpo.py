"""Tunix's `GRPOLearner` on CPU with Tunix's sampler; a call is one iteration.

Entries of its job besides those of all peers: those of `tunix`; micro, prompts
whose samples are in one backward pass; learning_rate. One rollout draws all
samples. The reward is the share of even ids, including the EOS that Tunix
drops. There is one update per rollout, without a KL term. Activations are not
recomputed: both settings of Tunix for it fail with the version of flax that
Tunix needs.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout

from experiments.studies.benchmark.peers import protocol, tunix, turns

MAX_STEPS = 10**6  # more than any benchmark runs


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  mesh = tunix.make_mesh(job.get("devices", 1))
  model = tunix.load(job["weights"], mesh)
  prompts = np.load(job["prompts"])
  words = tunix.tokenizer(job, model.config.vocab_size)
  rollout = base_rollout.RolloutConfig(
    max_tokens_to_generate=job["max_tokens"],
    max_prompt_length=prompts.shape[1],
    kv_cache_size=prompts.shape[1] + job["max_tokens"] + 1,
    temperature=1.0,
    top_p=1.0,
    return_logprobs=True,
  )
  roles = (
    rl_cluster.Role.ACTOR,
    rl_cluster.Role.REFERENCE,
    rl_cluster.Role.ROLLOUT,
  )
  cluster = rl_cluster.RLCluster(
    actor=model,
    tokenizer=words,
    cluster_config=rl_cluster.ClusterConfig(
      role_to_mesh={role: mesh for role in roles},
      training_config=_training(job, len(prompts)),
      rollout_config=rollout,
    ),
  )
  lengths: list[int] = []

  def reward(completions: Sequence[str], **_: Any) -> list[float]:
    rows = [[int(word) for word in text.split()] for text in completions]
    lengths[:] = tunix.true_lengths(rows, job["max_tokens"])
    # Number of even ids per completion: of its text, and of its EOS, if it has
    # one.
    even = [sum(i % 2 == 0 for i in row) for row in rows]
    ended = [
      (length - len(row)) * (words.eos_id() % 2 == 0)
      for length, row in zip(lengths, rows, strict=True)
    ]
    return [
      (n + end) / length
      for n, end, length in zip(even, ended, lengths, strict=True)
    ]

  learner = grpo_learner.GRPOLearner(
    rl_cluster=cluster,
    reward_fns=reward,
    algo_config=grpo_learner.GRPOConfig(
      num_generations=job["samples"], num_iterations=1, beta=0.0, epsilon=0.2
    ),
  )

  def weights() -> np.ndarray:
    """Returns a parameter that every update must change."""
    return np.array(_actor(cluster).layers[0].mlp.down_proj.kernel[...])

  def batches(gate: turns.Turns) -> Iterator[dict[str, Any]]:
    """Yields batches; the learner takes one after training on the last."""
    texts = np.array(tunix.texts(prompts))
    while True:
      rollout.seed = jax.random.PRNGKey(gate.begin())
      yield {"prompts": texts}
      jax.block_until_ready(nnx.state(_actor(cluster), nnx.Param))
      gate.end({"tokens": sum(lengths), "lengths": list(lengths)})

  last_kernel = weights()

  def changed() -> dict[str, Any]:
    """Returns the largest change of the parameter since the last question."""
    nonlocal last_kernel
    previous_kernel, last_kernel = last_kernel, weights()
    return {"largest": float(np.abs(last_kernel - previous_kernel).max())}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    return tunix.serve_sampler(job, mesh).asks["greedy"](
      folder, prompts, tokens
    )

  facts = {"tunix": importlib.metadata.version("google-tunix")}
  gate = turns.Turns(lambda gate: learner.train(batches(gate)))
  return protocol.Served(
    facts, gate.take, {"changed": changed, "greedy": greedy}
  )


def _actor(cluster: rl_cluster.RLCluster) -> nnx.Module:
  return cluster.actor_trainer.model


def _training(job: dict[str, Any], prompts: int) -> rl_cluster.RLTrainingConfig:
  return rl_cluster.RLTrainingConfig(
    actor_optimizer=optax.adamw(job["learning_rate"]),
    eval_every_n_steps=MAX_STEPS,
    max_steps=MAX_STEPS,
    checkpoint_root_directory=None,
    mini_batch_size=prompts,
    train_micro_batch_size=job["micro"],
    rollout_micro_batch_size=prompts,
    compute_logps_micro_batch_size=job["micro"],
  )


if __name__ == "__main__":
  protocol.serve(prepare)
