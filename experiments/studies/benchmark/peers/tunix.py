"""Tunix's own sampler on CPU.

Further words of its job: devices (1), over which the batch is split. Prompts are
texts whose words are decimal ids, and nothing is put before them. Its default
seed draws the same completions at every call; here a call's number is its seed.
Of a completion that EOS ended Tunix drops the EOS, which is counted all the
same. A null `eos_id` becomes one beyond the vocabulary.
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


def split(count: int) -> Mesh:
  """So many CPU devices, batches over all of them; before JAX computes."""
  jax.config.update("jax_num_cpu_devices", count)
  return Mesh(np.array(jax.devices()).reshape(count, 1), ("fsdp", "tp"))


def load(folder: str, mesh: Mesh) -> qwen3.Qwen3:
  """The decoder of a folder, float32."""
  told = json.loads((pathlib.Path(folder) / "config.json").read_text())
  rope = told.get("rope_parameters") or told
  config = qwen3.ModelConfig(
    num_layers=told["num_hidden_layers"],
    vocab_size=told["vocab_size"],
    embed_dim=told["hidden_size"],
    hidden_dim=told["intermediate_size"],
    num_heads=told["num_attention_heads"],
    num_kv_heads=told["num_key_value_heads"],
    head_dim=told["head_dim"],
    rope_theta=rope["rope_theta"],
    norm_eps=told["rms_norm_eps"],
    use_tied_embedding=told["tie_word_embeddings"],
    dtype=jnp.float32,
    param_dtype=jnp.float32,
  )
  return qwen3_params.create_model_from_safe_tensors(
    folder, config, mesh, jnp.float32
  )


def tokenizer(job: dict[str, Any], vocab_size: int) -> types.SimpleNamespace:
  """Words are decimal ids."""
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
  """Of prompts `[P, L]`."""
  return [" ".join(map(str, row)) for row in prompts.tolist()]


def lengths(rows: Sequence[Sequence[int]], most: int) -> list[int]:
  """Of completions, the dropped EOS included."""
  return [min(len(row) + 1, most) for row in rows]


def prepare(job: dict[str, Any]) -> protocol.Served:
  """The side of a job."""
  return sampling(job, split(job.get("devices", 1)))


def sampling(job: dict[str, Any], mesh: Mesh) -> protocol.Served:
  """The same on devices that are there."""
  every = np.load(job["prompts"])

  def sampler(folder: str, max_tokens: int) -> samplers.Sampler:
    model = load(folder, mesh)
    config = model.config
    cache = samplers.CacheConfig(
      every.shape[1] + max_tokens + 1,
      config.num_layers,
      config.num_kv_heads,
      config.head_dim,
    )
    words = tokenizer(job, config.vocab_size)
    return samplers.Sampler(model, words, cache)

  def draw(
    drawer: samplers.Sampler, prompts: np.ndarray, tokens: int, **settings: Any
  ) -> list[np.ndarray]:
    found = []
    for start in range(0, len(prompts), job["micro"]):
      with mesh:
        output = drawer(
          texts(prompts[start : start + job["micro"]]),
          max_generation_steps=tokens,
          max_prompt_length=prompts.shape[1],
          **settings,
        )
      found.extend(output.tokens)
    return found

  own = sampler(job["weights"], job["max_tokens"])

  def call(number: int, prompts: int | None = None) -> dict[str, Any]:
    asked = np.repeat(every[:prompts], job["samples"], axis=0)
    rows = draw(
      own, asked, job["max_tokens"], temperature=1.0, top_p=1.0, seed=number
    )
    found = lengths(rows, job["max_tokens"])
    counted = np.reshape(found, (-1, job["samples"])).tolist()
    return {"tokens": sum(found), "lengths": counted}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    rows = draw(sampler(folder, tokens), every[:prompts], tokens)
    return {"tokens": [row.tolist() for row in rows]}

  facts = {"tunix": importlib.metadata.version("google-tunix")}
  return protocol.Served(facts, call, {"greedy": greedy})


if __name__ == "__main__":
  protocol.serve(prepare)
