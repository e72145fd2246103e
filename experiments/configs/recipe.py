"""RL of published models of one or two billion parameters, by three methods.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipe.py:qwen3_0_6b_gsm8k_max_at_k \
    --config.policy.path=CHECKPOINT --workdir runs/qwen3_0_6b_gsm8k_max_at_k

A name is MODEL_DATASET_METHOD: Qwen2.5-1.5B, Qwen3-0.6B and Llama-3.2-1B on
GSM8K and MATH with max@k, pass@k and min-form credit. FOLDER holds
`gsm8k_train.jsonl` and `gsm8k_test.jsonl`, or `math_train.jsonl` and
`math_test.jsonl`; CHECKPOINT is the downloaded model. The recipes are complete,
but they have not been run yet: the expected results below are not measured.

All recipes have the same settings except the model, the data and the method, so
that their results can be compared: 64 prompts with 16 samples per training
step, in two minibatches. The learning rate, 1e-6 after 20 steps of warm-up, and
the 16 samples are those of DAPO (Yu et al. 2025, section 4.1); the weight decay
of 0.1 and the clipping at norm 1 are those of DAPO's scripts; b2 has the usual
value 0.999. The default learning rate of GRPO in TRL and in verl is the same.
Parameters and the state of AdamW are in float32, because updates of size 1e-6
are lost in bfloat16; activations are in bfloat16.

Memory, estimated in GiB over all devices, to be divided by their number:

                       state   gradients   sampling   updating   in all
  qwen2.5-1.5b  gsm8k     17          12         18         46       74
                math      17          12         32         51       80
  qwen3-0.6b    gsm8k      7           4         61         42       67
                math       7           4        117         47      123
  llama3.2-1b   gsm8k     14           9         19         38       61
                math      14           9         35         91      114

The columns are

  state      12 bytes per parameter: the parameter and two moments in float32
  gradients  8 bytes per parameter during the update: a gradient and the sum of
             gradients over microbatches
  sampling   a copy of the parameters in bfloat16, and the key-value cache: 28,
             112 and 32 KiB (in the order of the table) per token, for 64 * 16
             completions of T tokens and 64 prompts of 512 tokens
  updating   that copy, the inputs of every layer for the 8 prompts of a
             microbatch (other activations are computed again), and the larger
             of two temporary parts: the logits of 256 positions with their
             gradient, or the attention and MLP of one layer
  in all     the state, and the larger of "sampling" and "gradients" plus
             "updating"

A device needs more than its share. It samples with the full copy of the
parameters, unless `mesh.tensor` splits it, and it updates with the full
unembedding and its gradient. The compiler adds temporary arrays.

By this estimate 8 devices of 24 GiB are enough for GSM8K, and 8 devices of
40 GiB for MATH. Compiled for 8 TPU v5e of 16 GiB, every recipe fits
(SCALING.md), Qwen3 on MATH with `--config.rollout.rows=8
--config.evaluation.rows=8`. For one device of 80 GB, use
`--config.plan.microbatches=32` on GSM8K, with which Qwen2.5 and Llama need less
than 45 GiB. Qwen3, whose cache is the largest, needs
`--config.rollout.prompts=32 --config.plan.microbatches=16` instead, and
`--config.evaluation.batch=32`. If the state fits on each device,
`--config.mesh.data=-1 --config.mesh.fsdp=1` is faster, because parameters need
not be gathered.
"""

from __future__ import annotations

import itertools
import re

from ml_collections import ConfigDict

from experiments.cli import config_names, spec
from experiments.configs import defaults

# Preset -> checkpoint on Hugging Face for `policy.path`.
MODELS = {
  "llama3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
  "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
  "qwen3-0.6b": "Qwen/Qwen3-0.6B",
}
# Dataset -> (T, largest number of tokens of a completion; K, largest number of
# steps of reasoning, for min_form).
DATASETS = {"gsm8k": (512, 16), "math": (1024, 32)}
# Method -> method with its settings.
METHODS = {
  # The score is the verdict, 0 or 1, so the best score of 8 samples is 0 or 1,
  # and the objective is pass@8. max_at_k has an unbiased gradient of it, while
  # pass_at_k divides by a standard deviation over subsets. All advantages of a
  # prompt are 0 if none, or more than 9, of its 16 samples are right. Expected:
  # held-out pass@8 and pass@16 rise, and pass@1 rises less than with a method
  # whose objective is the mean reward (Walder & Karkhanis 2025).
  "max_at_k": "max_at_k(k=8)",
  # A step of reasoning is a line. It scores 1 if all its equations are true, -1
  # if one is false, and 0 if it has none; the last line scores 1 or -1 by the
  # verdict. Most lines of MATH have letters instead of numbers and score 0, so
  # most credit comes from the last line. Expected: false arithmetic becomes
  # rarer and pass@1 rises, while the number of steps does not grow, as it does
  # with a sum of step scores (Cheng et al. 2025). Check the samples in
  # `rollouts/`: equations that are true but useless score 1 too.
  "min_form": "min_form",
  # All advantages of a prompt are 0 if none, or more than 8, of its 16 samples
  # are right. Expected: held-out pass@8 rises, pass@1 rises later, and entropy
  # falls more slowly than with a method whose objective is the mean reward
  # (Chen et al. 2025).
  "pass_at_k": "pass_at_k(k=8)",
}
_TITLES = {  # beginnings of the summaries, by method
  "max_at_k": "max@8 of",
  "min_form": "min-form credit for",
  "pass_at_k": "pass@8 training of",
}


def _choices() -> dict[str, tuple[str, str, str]]:
  """Returns (model, dataset, method) of each recipe, by its name."""
  return {
    re.sub(r"[.-]", "_", "_".join(choice)): choice
    for choice in itertools.product(MODELS, DATASETS, METHODS)
  }


def names() -> list[str]:
  return sorted(_choices())


def summary(name: str) -> str:
  model, dataset, method = _choices()[name]
  checkpoint = MODELS[model].rpartition("/")[2]
  return f"{_TITLES[method]} {checkpoint} on {dataset.upper()}; not yet run"


def get_config(name: str = "") -> ConfigDict:
  """Returns the config of a recipe, in which the user must set `policy.path`.

  Without `policy.path` the policy has the shape of the model, random weights
  and a tokenizer trained on the task.

  Args:
    name: one of `names()`.

  Raises:
    UsageError: if there is no such recipe.
  """
  config_names.check("recipe", name, names())
  model, dataset, method = _choices()[name]
  max_tokens, max_steps = DATASETS[dataset]
  settings = {"prompt_length": 512, "completion_length": max_tokens}
  if model.startswith("qwen3-"):
    # The thoughts of this model are longer than max_tokens.
    settings["thinking"] = False
  if method == "min_form":
    settings |= {"steps": True, "max_steps": max_steps}
  config = defaults.rl(steps=200)
  config.task = spec.write(dataset, settings)
  config.method = METHODS[method]
  config.policy.preset = model
  config.model.dtype = "bfloat16"
  config.model.remat = "full"
  config.rollout.prompts = 64
  config.rollout.samples = 16
  config.plan.minibatches = 2
  config.plan.microbatches = 4
  config.optimizer.learning_rate = 1e-6
  config.optimizer.warmup_steps = 20
  config.optimizer.weight_decay = 0.1
  config.optimizer.b2 = 0.999
  config.mesh.data = 1
  config.mesh.fsdp = -1
  config.cpu_devices = 0
  config.evaluation.problems = 256
  config.evaluation.samples = 16
  config.evaluation.batch = 64
  config.evaluate_every = 50
  config.checkpoint_every = 50
  config.rollouts_every = 50
  return config
