"""The sampler of Tunix, or its `GRPOLearner` with that sampler, on CPU.

Entries of its job besides those of all peers: `kind`, "sampler", or "iteration"
if a call is one iteration; `devices`, the number of devices over which the
batch is split (default 1); of an iteration micro, prompts whose samples are in
one backward pass, and learning_rate.

Prompts are texts whose words are decimal ids, without a BOS token. The seed of
a call is its number; the default seed of Tunix would draw the same completions
at every call. Tunix drops the EOS of a completion, but the EOS counts as a
token here. A null `eos_id` becomes an id beyond the vocabulary, which is never
drawn.

In an iteration, one rollout draws all samples. The reward is the share of even
ids, including the EOS. There is one update per rollout, without a KL term.
Activations are not recomputed: both settings of Tunix for it fail with the
version of flax that Tunix needs.
"""

from __future__ import annotations

import json
import pathlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh
from tunix.generate import sampler as samplers
from tunix.models.qwen3 import model as qwen3
from tunix.models.qwen3 import params as qwen3_params
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout

from experiments.studies.benchmark.peers import protocol

MAX_STEPS = 10**6  # more than any benchmark runs


def make_mesh(count: int) -> Mesh:
  """Returns a mesh of CPU devices; must be called before JAX computes."""
  jax.config.update("jax_num_cpu_devices", count)
  return Mesh(np.array(jax.devices()).reshape(count, 1), ("fsdp", "tp"))


def load(folder: str, mesh: Mesh) -> qwen3.Qwen3:
  """Loads the decoder of a folder in float32."""
  fields = json.loads((pathlib.Path(folder) / "config.json").read_text())
  rope = fields.get("rope_parameters") or fields
  config = qwen3.ModelConfig(
    num_layers=fields["num_hidden_layers"],
    vocab_size=fields["vocab_size"],
    embed_dim=fields["hidden_size"],
    hidden_dim=fields["intermediate_size"],
    num_heads=fields["num_attention_heads"],
    num_kv_heads=fields["num_key_value_heads"],
    head_dim=fields["head_dim"],
    rope_theta=rope["rope_theta"],
    norm_eps=fields["rms_norm_eps"],
    use_tied_embedding=fields["tie_word_embeddings"],
    dtype=jnp.float32,
    param_dtype=jnp.float32,
  )
  return qwen3_params.create_model_from_safe_tensors(
    folder, config, mesh, jnp.float32
  )


def tokenizer(job: dict[str, Any], vocab_size: int) -> types.SimpleNamespace:
  """Returns a tokenizer whose words are decimal token ids."""
  eos_id = vocab_size if job["eos_id"] is None else job["eos_id"]
  return types.SimpleNamespace(
    encode=lambda text, **_: [int(word) for word in text.split()],
    decode=lambda ids, **_: " ".join(str(int(i)) for i in ids),
    pad_id=lambda: job["pad_id"],
    bos_id=lambda: None,
    eos_id=lambda: eos_id,
    dedup_bos_ids=lambda ids: ids,
  )


def texts(prompts: np.ndarray) -> list[str]:
  """Returns the texts of prompts `[P, L]`."""
  return [" ".join(map(str, row)) for row in prompts.tolist()]


def true_lengths(rows: Sequence[Sequence[int]], max_tokens: int) -> list[int]:
  """Returns lengths of completions with EOS, which Tunix drops from `rows`."""
  return [min(len(row) + 1, max_tokens) for row in rows]


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  serve = {"sampler": serve_sampler, "iteration": serve_trainer}[job["kind"]]
  return serve(job, make_mesh(job.get("devices", 1)))


def serve_sampler(job: dict[str, Any], mesh: Mesh) -> protocol.Served:
  """Builds the side whose calls sample."""
  all_prompts = protocol.read_prompts(job)

  def make_sampler(folder: str, max_tokens: int) -> samplers.Sampler:
    model = load(folder, mesh)
    config = model.config
    shape = config.num_layers, config.num_kv_heads, config.head_dim
    length = all_prompts.shape[1] + max_tokens + 1
    cache = samplers.CacheConfig(length, *shape)
    return samplers.Sampler(model, tokenizer(job, config.vocab_size), cache)

  def draw(
    sampler: samplers.Sampler, prompts: np.ndarray, tokens: int, **settings: Any
  ) -> list[np.ndarray]:
    completions = []
    for start in range(0, len(prompts), job["micro"]):
      with mesh:
        output = sampler(
          texts(prompts[start : start + job["micro"]]),
          max_generation_steps=tokens,
          max_prompt_length=prompts.shape[1],
          **settings,
        )
      completions.extend(output.tokens)
    return completions

  main_sampler = make_sampler(job["weights"], job["max_tokens"])

  def call(number: int) -> dict[str, Any]:
    repeated = np.repeat(all_prompts, job["samples"], axis=0)
    settings = {"temperature": 1.0, "top_p": 1.0, "seed": number}
    rows = draw(main_sampler, repeated, job["max_tokens"], **settings)
    completion_lengths = true_lengths(rows, job["max_tokens"])
    by_prompt = np.reshape(completion_lengths, (-1, job["samples"])).tolist()
    return {"tokens": sum(completion_lengths), "lengths": by_prompt}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    rows = draw(make_sampler(folder, tokens), all_prompts[:prompts], tokens)
    return {"tokens": [row.tolist() for row in rows]}

  return protocol.Served({"greedy": greedy}, call)


def serve_trainer(job: dict[str, Any], mesh: Mesh) -> protocol.Served:
  """Builds the side whose calls are iterations of `GRPOLearner`."""
  model = load(job["weights"], mesh)
  prompts = protocol.read_prompts(job)
  words = tokenizer(job, model.config.vocab_size)
  rollout = base_rollout.RolloutConfig(
    max_tokens_to_generate=job["max_tokens"],
    max_prompt_length=prompts.shape[1],
    kv_cache_size=prompts.shape[1] + job["max_tokens"] + 1,
    temperature=1.0,
    top_p=1.0,
    return_logprobs=True,
  )
  training = rl_cluster.RLTrainingConfig(
    actor_optimizer=optax.adamw(job["learning_rate"]),
    eval_every_n_steps=MAX_STEPS,
    max_steps=MAX_STEPS,
    checkpoint_root_directory=None,
    mini_batch_size=len(prompts),
    train_micro_batch_size=job["micro"],
    rollout_micro_batch_size=len(prompts),
    compute_logps_micro_batch_size=job["micro"],
  )
  role = rl_cluster.Role
  roles = role.ACTOR, role.REFERENCE, role.ROLLOUT
  cluster = rl_cluster.RLCluster(
    actor=model,
    tokenizer=words,
    cluster_config=rl_cluster.ClusterConfig(
      role_to_mesh=dict.fromkeys(roles, mesh),
      training_config=training,
      rollout_config=rollout,
    ),
  )
  lengths: list[int] = []

  def reward(completions: Sequence[str], **_: Any) -> list[float]:
    rows = [[int(word) for word in text.split()] for text in completions]
    lengths[:] = true_lengths(rows, job["max_tokens"])
    shares = []
    for row, length in zip(rows, lengths, strict=True):
      # The EOS, which Tunix has dropped, counts as well.
      ids = row + [words.eos_id()] * (length - len(row))
      shares.append(sum(i % 2 == 0 for i in ids) / length)
    return shares

  learner = grpo_learner.GRPOLearner(
    rl_cluster=cluster,
    reward_fns=reward,
    algo_config=grpo_learner.GRPOConfig(
      num_generations=job["samples"], num_iterations=1, beta=0.0, epsilon=0.2
    ),
  )

  def batches(requests: protocol.Requests) -> Iterator[dict[str, Any]]:
    """Yields batches; the learner takes one after training on the last."""
    text_batch = np.array(texts(prompts))
    while True:
      rollout.seed = jax.random.PRNGKey(requests.begin())
      yield {"prompts": text_batch}
      jax.block_until_ready(nnx.state(cluster.actor_trainer.model, nnx.Param))
      requests.end({"tokens": sum(lengths), "lengths": list(lengths)})

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    return serve_sampler(job, mesh).asks["greedy"](folder, prompts, tokens)

  changed = protocol.largest_change(
    # A parameter that every update must change.
    lambda: np.array(
      cluster.actor_trainer.model.layers[0].mlp.down_proj.kernel[...]
    )
  )
  return protocol.Served(
    {"changed": changed, "greedy": greedy},
    train=lambda requests: learner.train(batches(requests)),
  )


if __name__ == "__main__":
  protocol.serve(prepare)
