"""TRL's `GRPOTrainer` on CPU, without vLLM: an iteration a call.

Further words of its job: threads; micro, prompts whose samples are in one
backward pass; learning_rate. Rollouts are whole: all samples of all prompts are
drawn in one `generate`. The reward is the share of even ids; no KL, no clip of
the gradient, one update.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
import tokenizers
import torch
import transformers
import trl

from experiments.studies.benchmark.peers import hf, protocol, turns

WATCHED = "model.layers.0.mlp.down_proj.weight"  # tells that it learns
FOREVER = 10**6  # steps


def _tokenizer(
  vocab_size: int, pad_id: int, eos_id: int
) -> transformers.PreTrainedTokenizerFast:
  """Words are decimal ids; the names of special tokens are no such words.

  TRL takes texts. A special token is also matched inside a word, so one that
  was named "2" would cut every number with that digit.
  """
  special = {"<pad>": pad_id, "<eos>": eos_id}
  words = {
    str(i): i for i in range(vocab_size) if i not in special.values()
  } | special
  model = tokenizers.models.WordLevel(words, unk_token="<pad>")
  inner = tokenizers.Tokenizer(model)
  inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner,
    pad_token="<pad>",
    eos_token="<eos>",
    padding_side="left",
  )


class _Turn(transformers.TrainerCallback):
  """Holds the trainer before each step and says when it has made it."""

  def __init__(self, gate: turns.Turns) -> None:
    self._gate = gate
    self.lengths: list[int] = []

  def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
    torch.manual_seed(self._gate.begin())

  def on_step_end(self, *args: Any, **kwargs: Any) -> None:
    self._gate.end({"tokens": sum(self.lengths), "lengths": self.lengths})

  def reward(
    self, completion_ids: Sequence[Sequence[int]], **_: Any
  ) -> list[float]:
    """The share of even ids; EOS is in."""
    self.lengths = [len(ids) for ids in completion_ids]
    return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]


def prepare(job: dict[str, Any]) -> protocol.Served:
  """The side of a job."""
  torch.set_num_threads(job["threads"])
  model = hf.load(job["weights"], "float32")
  tokenizer = _tokenizer(model.config.vocab_size, job["pad_id"], job["eos_id"])
  prompts = np.load(job["prompts"]).tolist()
  texts = [" ".join(map(str, row)) for row in prompts]
  if tokenizer(texts)["input_ids"] != prompts:
    raise ValueError("the tokenizer does not give the prompts back")
  seen = model.get_parameter(WATCHED).detach().clone()

  def train(gate: turns.Turns) -> None:
    hooks = _Turn(gate)
    with tempfile.TemporaryDirectory() as folder:
      trl.GRPOTrainer(
        model,
        hooks.reward,
        args=_config(job, folder, len(texts)),
        processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
        callbacks=[hooks],
      ).train()

  def changed() -> dict[str, Any]:
    nonlocal seen
    before, seen = seen, model.get_parameter(WATCHED).detach().clone()
    return {"largest": float((seen - before).abs().max())}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    sampler = hf.prepare({**job, "dtype": "float32", "cache": "dynamic"})
    return sampler.asks["greedy"](folder, prompts, tokens)

  facts = {"torch": torch.__version__, "trl": trl.__version__}
  return protocol.Served(
    facts, turns.Turns(train).take, {"changed": changed, "greedy": greedy}
  )


def _config(job: dict[str, Any], folder: str, prompts: int) -> trl.GRPOConfig:
  rows = job["micro"] * job["samples"]
  return trl.GRPOConfig(
    output_dir=folder,
    max_steps=FOREVER,
    per_device_train_batch_size=rows,
    gradient_accumulation_steps=prompts // job["micro"],
    num_generations=job["samples"],
    max_completion_length=job["max_tokens"],
    shuffle_dataset=False,
    temperature=1.0,
    top_p=1.0,
    top_k=0,
    beta=0.0,
    learning_rate=job["learning_rate"],
    lr_scheduler_type="constant",
    max_grad_norm=0.0,
    bf16=False,
    use_cpu=True,
    save_strategy="no",
    logging_strategy="no",
    report_to="none",
    disable_tqdm=True,
    gradient_checkpointing=False,
  )


if __name__ == "__main__":
  protocol.serve(prepare)
