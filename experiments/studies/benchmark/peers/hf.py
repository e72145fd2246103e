"""transformers' `generate` on CPU.

Further words of its job: threads; dtype, "float32" or "bfloat16"; cache,
"dynamic", "static" or "compiled" (static, with a compiled decoding step).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from experiments.studies.benchmark.peers import protocol

CACHES = {"dynamic": "dynamic", "static": "static", "compiled": "static"}


def lengths(completions: torch.Tensor, eos_id: int | None) -> torch.Tensor:
  """Tokens of each row `[B, T]` up to and including EOS."""
  full = torch.full((len(completions),), completions.shape[1])
  if eos_id is None:
    return full
  ends = (completions == eos_id).int()
  return torch.where(ends.any(1), ends.argmax(1) + 1, full)


def load(folder: str, dtype: str) -> transformers.PreTrainedModel:
  """The decoder of a folder."""
  return transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=getattr(torch, dtype)
  )


def _generation(job: dict[str, Any]) -> transformers.GenerationConfig:
  """Sampling at temperature 1 from the whole distribution."""
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
    compiling = transformers.CompileConfig(fullgraph=False, mode="default")
    compiling._compile_all_devices = True  # else accelerators only
    config.compile_config = compiling
  return config


def prepare(job: dict[str, Any]) -> protocol.Served:
  """The side of a job."""
  torch.set_num_threads(job["threads"])
  model = load(job["weights"], job["dtype"]).eval()
  # What the folder says of tokens would stand in for a null of ours.
  model.generation_config = transformers.GenerationConfig()
  every = torch.from_numpy(np.load(job["prompts"]).astype(np.int64))
  sampling = _generation(job)

  def draw(
    model: transformers.PreTrainedModel,
    prompts: torch.Tensor,
    config: transformers.GenerationConfig,
  ) -> list[torch.Tensor]:
    """Completions of so many prompts at once, `[prompts * samples, T]` each."""
    parts = []
    with torch.inference_mode():
      for part in prompts.split(job["micro"]):
        ids = model.generate(
          part, attention_mask=torch.ones_like(part), generation_config=config
        )
        parts.append(ids[:, part.shape[1] :])
    return parts

  def call(number: int, prompts: int | None = None) -> dict[str, Any]:
    torch.manual_seed(number)
    parts = draw(model, every[:prompts], sampling)
    found = torch.cat([lengths(part, job["eos_id"]) for part in parts])
    counted = found.view(-1, job["samples"])
    return {"tokens": int(counted.sum()), "lengths": counted.tolist()}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    plain = load(folder, job["dtype"]).eval()
    plain.generation_config = transformers.GenerationConfig()
    likeliest = transformers.GenerationConfig(
      max_new_tokens=tokens,
      do_sample=False,
      eos_token_id=None,
      pad_token_id=job["pad_id"],
      cache_implementation=CACHES[job["cache"]],
      disable_compile=True,
    )
    parts = draw(plain, every[:prompts], likeliest)
    return {"tokens": torch.cat(parts).tolist()}

  facts = {"torch": torch.__version__, "transformers": transformers.__version__}
  return protocol.Served(facts, call, {"greedy": greedy})


if __name__ == "__main__":
  protocol.serve(prepare)
