"""TRL's `GRPOTrainer` on CPU, without vLLM; a call is one iteration.

Entries of its job besides those of all peers: threads; micro, prompts whose
samples are in one backward pass; learning_rate. One `generate` draws all
samples of all prompts. The reward is the share of even ids. There is one update
per rollout, without a KL term and without gradient clipping.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import datasets
import tokenizers
import torch
import transformers
import trl

from experiments.studies.benchmark.peers import hf, protocol

# Parameter that is read to check that an update changes the weights.
WATCHED_PARAM = "model.layers.0.mlp.down_proj.weight"
MAX_STEPS = 10**6  # more than any benchmark runs


def _tokenizer(
  vocab_size: int, pad_id: int, eos_id: int
) -> transformers.PreTrainedTokenizerFast:
  """Returns a tokenizer whose words are decimal token ids."""
  # TRL takes prompts as text. Special tokens are matched inside words too, so a
  # special token named "2" would split every number with that digit.
  special = {"<pad>": pad_id, "<eos>": eos_id}
  others = set(range(vocab_size)) - {pad_id, eos_id}
  words = {str(i): i for i in others} | special
  model = tokenizers.models.WordLevel(words, unk_token="<pad>")
  inner = tokenizers.Tokenizer(model)
  inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner,
    pad_token="<pad>",
    eos_token="<eos>",
    padding_side="left",
  )


class _Hooks(transformers.TrainerCallback):
  """Stops the trainer before each step and reports when the step is done."""

  def __init__(self, requests: protocol.Requests) -> None:
    self._requests = requests
    self.lengths: list[int] = []

  def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
    torch.manual_seed(self._requests.begin())

  def on_step_end(self, *args: Any, **kwargs: Any) -> None:
    counts = {"tokens": sum(self.lengths), "lengths": self.lengths}
    self._requests.end(counts)

  def reward(
    self, completion_ids: Sequence[Sequence[int]], **_: Any
  ) -> list[float]:
    """Returns the share of even ids of each completion, EOS included."""
    self.lengths = [len(ids) for ids in completion_ids]
    return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  torch.set_num_threads(job["threads"])
  model = hf.load(job["weights"], "float32")
  tokenizer = _tokenizer(model.config.vocab_size, job["pad_id"], job["eos_id"])
  prompts = protocol.read_prompts(job).tolist()
  texts = [" ".join(map(str, row)) for row in prompts]
  if tokenizer(texts)["input_ids"] != prompts:
    raise ValueError(
      "the tokenizer changes the prompts; prompts must not have special tokens"
    )

  def train(requests: protocol.Requests) -> None:
    hooks = _Hooks(requests)
    with tempfile.TemporaryDirectory() as folder:
      trl.GRPOTrainer(
        model,
        hooks.reward,
        args=_config(job, folder, len(texts)),
        processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
        callbacks=[hooks],
      ).train()

  changed = protocol.largest_change(
    lambda: model.get_parameter(WATCHED_PARAM).detach().clone()
  )

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    sampler = hf.prepare({**job, "dtype": "float32", "cache": "dynamic"})
    return sampler.asks["greedy"](folder, prompts, tokens)

  asks = {"changed": changed, "greedy": greedy}
  return protocol.Served(asks, train=train)


def _config(job: dict[str, Any], folder: str, prompts: int) -> trl.GRPOConfig:
  return trl.GRPOConfig(
    output_dir=folder,
    max_steps=MAX_STEPS,
    per_device_train_batch_size=job["micro"] * job["samples"],
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
