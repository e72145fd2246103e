"""The sampler of Tunix, on CPU.

Entries of its job besides those of all peers: `devices`, the number of devices
over which the batch is split (default 1).
Prompts are texts whose words are decimal ids, without a BOS token. The seed of
a call is its number; the default seed of Tunix would draw the same completions
at every call. Tunix drops the EOS of a completion, but the EOS counts as a
token here. A null `eos_id` becomes an id beyond the vocabulary, which is never
drawn.
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import types
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from tunix.generate import sampler as samplers
from tunix.models.qwen3 import model as qwen3
from tunix.models.qwen3 import params as qwen3_params

from experiments.studies.benchmark.peers import protocol


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
  return serve_sampler(job, make_mesh(job.get("devices", 1)))


def serve_sampler(job: dict[str, Any], mesh: Mesh) -> protocol.Served:
  """Builds the side of a sampler on an existing mesh."""
  all_prompts = np.load(job["prompts"])

  def make_sampler(folder: str, max_tokens: int) -> samplers.Sampler:
    model = load(folder, mesh)
    config = model.config
    cache = samplers.CacheConfig(
      all_prompts.shape[1] + max_tokens + 1,
      config.num_layers,
      config.num_kv_heads,
      config.head_dim,
    )
    vocabulary = tokenizer(job, config.vocab_size)
    return samplers.Sampler(model, vocabulary, cache)

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

  def call(number: int, prompts: int | None = None) -> dict[str, Any]:
    repeated = np.repeat(all_prompts[:prompts], job["samples"], axis=0)
    rows = draw(
      main_sampler,
      repeated,
      job["max_tokens"],
      temperature=1.0,
      top_p=1.0,
      seed=number,
    )
    completion_lengths = true_lengths(rows, job["max_tokens"])
    by_prompt = np.reshape(completion_lengths, (-1, job["samples"])).tolist()
    return {"tokens": sum(completion_lengths), "lengths": by_prompt}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    rows = draw(make_sampler(folder, tokens), all_prompts[:prompts], tokens)
    return {"tokens": [row.tolist() for row in rows]}

  facts = {"tunix": importlib.metadata.version("google-tunix")}
  return protocol.Served(facts, call, {"greedy": greedy})


if __name__ == "__main__":
  protocol.serve(prepare)
