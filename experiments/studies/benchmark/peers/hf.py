"""The `generate` of transformers, on CPU.

Entries of its job besides those of all peers: `threads`; `dtype`, "float32" or
"bfloat16"; `cache`, "dynamic", "static" or "compiled" (a static cache, with a
compiled decoding step).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from experiments.studies.benchmark.peers import protocol

CACHES = {"dynamic": "dynamic", "static": "static", "compiled": "static"}


def lengths(completions: torch.Tensor, eos_id: int | None) -> torch.Tensor:
  """Returns lengths `[B]` of completions `[B, T]`, up to and including EOS."""
  full = torch.full((len(completions),), completions.shape[1])
  if eos_id is None:
    return full
  ends = (completions == eos_id).int()
  return torch.where(ends.any(1), ends.argmax(1) + 1, full)


def load(folder: str, dtype: str) -> transformers.PreTrainedModel:
  """Loads the decoder of a folder."""
  model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=getattr(torch, dtype)
  )
  # Otherwise `generate` would replace a null `eos_id` by the folder's EOS ids.
  model.generation_config = transformers.GenerationConfig()
  return model


def _generation(job: dict[str, Any]) -> transformers.GenerationConfig:
  """Returns the config of sampling at temperature 1, without top-k or top-p."""
  config = transformers.GenerationConfig(
    max_new_tokens=job["max_tokens"],
    do_sample=True,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    num_return_sequences=job["samples"],
    eos_token_id=job["eos_id"],
    pad_token_id=job["pad_id"],
    cache_implementation=CACHES[job["cache"]],
    disable_compile=job["cache"] != "compiled",
  )
  if job["cache"] == "compiled":
    compilation = transformers.CompileConfig(fullgraph=False, mode="default")
    compilation._compile_all_devices = True  # otherwise only accelerators
    config.compile_config = compilation
  return config


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  torch.set_num_threads(job["threads"])
  model = load(job["weights"], job["dtype"]).eval()
  all_prompts = torch.from_numpy(protocol.read_prompts(job).astype(np.int64))
  sampling = _generation(job)

  def generate(
    model: transformers.PreTrainedModel,
    prompts: torch.Tensor,
    config: transformers.GenerationConfig,
  ) -> list[torch.Tensor]:
    """Returns completions `[micro * samples, T]` of each microbatch."""
    parts = []
    with torch.inference_mode():
      for part in prompts.split(job["micro"]):
        ids = model.generate(
          part, attention_mask=torch.ones_like(part), generation_config=config
        )
        parts.append(ids[:, part.shape[1] :])
    return parts

  def call(number: int) -> dict[str, Any]:
    torch.manual_seed(number)
    parts = generate(model, all_prompts, sampling)
    row_lengths = torch.cat([lengths(part, job["eos_id"]) for part in parts])
    by_prompt = row_lengths.view(-1, job["samples"]).tolist()
    return {"tokens": int(row_lengths.sum()), "lengths": by_prompt}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    decoder = load(folder, job["dtype"]).eval()
    greedy_config = transformers.GenerationConfig(
      max_new_tokens=tokens,
      do_sample=False,
      eos_token_id=None,
      pad_token_id=job["pad_id"],
      cache_implementation=CACHES[job["cache"]],
      disable_compile=True,
    )
    parts = generate(decoder, all_prompts[:prompts], greedy_config)
    return {"tokens": torch.cat(parts).tolist()}

  return protocol.Served({"greedy": greedy}, call)


if __name__ == "__main__":
  protocol.serve(prepare)
