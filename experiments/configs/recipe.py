"""Published models of one or two billion parameters on text, three methods.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipe.py:qwen3_0_6b_gsm8k_max_at_k \
    --config.policy.path=CHECKPOINT --workdir runs/qwen3_0_6b_gsm8k_max_at_k

A name is MODEL_DATASET_METHOD: Qwen2.5-1.5B, Qwen3-0.6B and Llama-3.2-1B on
GSM8K and MATH with max@k, pass@k and min-form credit. FOLDER holds
`gsm8k_train.jsonl` and `gsm8k_test.jsonl`, or `math_train.jsonl` and
`math_test.jsonl`; CHECKPOINT is the downloaded model. The recipes are complete,
and not yet run: what is expected of them below is not measured.

All but the model, the data and the method is the same, so that runs compare:
64 prompts of 16 samples a step, in two minibatches. The rate of AdamW, 1e-6
after 20 steps of warm-up, and the 16 samples are those of DAPO (Yu et al. 2025,
section 4.1), weight decay .1 and clipping at norm 1 those of its scripts; b2 is
the usual .999. GRPO of TRL and of verl begins at the same rate. Parameters and
AdamW are in float32, because a step of 1e-6 is lost in bfloat16; activations
are in bfloat16.

Memory, estimated in GiB over all devices, to be divided by their number:

                       state   gradients   sampling   updating   in all
  qwen2.5-1.5b  gsm8k     17          12         18         46       74
                math      17          12         32         51       80
  qwen3-0.6b    gsm8k      7           4         61         42       67
                math       7           4        117         47      123
  llama3.2-1b   gsm8k     14           9         19         38       61
                math      14           9         35         91      114

"state" is 12 bytes a parameter (float32 and two moments), "gradients" 8 more
while updating, where they are added up. "sampling" is a copy of the parameters
in bfloat16 and the key-value cache: 28, 112 and 32 KiB for each of 64 x 16 T
tokens and 64 prompts of 512. "updating" is that copy, the inputs of every layer
(of 8 prompts; the rest is computed again), and the larger of the logits of 256
positions with their gradient and a layer's attention and MLP. "in all" is the
state with the larger of the two phases. A device needs some more: while
sampling the full copy and not its share, unless `mesh.tensor` splits it; the
unembedding and its gradient while updating; and what the compiler adds.

So 8 devices of 24 GiB should do for GSM8K, and 8 of 40 GiB for MATH. The
compiler puts every recipe on 8 TPU v5e of 16 GiB (SCALING.md), Qwen3 on MATH
with `--config.rollout.rows=8 --config.evaluation.rows=8`. On one device of
80 GB, `--config.plan.microbatches=32` brings GSM8K below 45 GiB for Qwen2.5 and
Llama; Qwen3, whose cache is the largest, needs `--config.rollout.prompts=32
--config.plan.microbatches=16` instead, and `--config.evaluation.batch=32`.
Where the state fits on each device, `--config.mesh.data=-1
--config.mesh.fsdp=1` spares gathering the parameters.
"""

from __future__ import annotations

import itertools
import re

from ml_collections import ConfigDict

from experiments.cli import config_names, spec
from experiments.configs import defaults
from models import presets

# Presets, and the checkpoint on Hugging Face that is meant.
MODELS = {
  "llama3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
  "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
  "qwen3-0.6b": "Qwen/Qwen3-0.6B",
}
# The most tokens of a completion, T, and the most steps of reasoning that
# min-form tells apart.
DATASETS = {"gsm8k": (512, 16), "math": (1024, 32)}
METHODS = {
  # The score is the verdict, 0 or 1, so the best of 8 is right or wrong and the
  # objective is that of pass@8. This is its unbiased gradient (max@k), where
  # pass_at_k divides by the spread of the subsets. A prompt of which none or
  # more than 9 of the 16 samples are right teaches nothing. Expected: held-out
  # pass@8 and pass@16 rise, and pass@1 less than a mean-reward method would
  # raise it (Walder & Karkhanis 2025).
  "max_at_k": "max_at_k(k=8)",
  # A step is a line. It scores 1 if all its equations are true, -1 if one is
  # false and 0 without any; the last line scores 1 or -1 by the verdict. Most
  # lines of MATH hold letters and no plain arithmetic, so that most of its
  # credit is that of the last line. Expected: false arithmetic becomes rarer
  # and pass@1 rises, with no more steps than before, where a sum of step scores
  # invites more (Cheng et al. 2025). Read `rollouts/`: true but idle equations
  # score 1.
  "min_form": "min_form",
  # A prompt of which none or more than 8 of the 16 samples are right teaches
  # nothing. Expected: held-out pass@8 rises with pass@1 behind it, and entropy
  # falls more slowly than under a mean-reward method (Chen et al. 2025).
  "pass_at_k": "pass_at_k(k=8)",
}
_TITLES = {
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
  """The config of a recipe, with `policy.path` left to the user.

  Without a path the policy has the model's shape, random weights and the task's
  own tokenizer.

  Args:
    name: one of `names()`.

  Raises:
    ValueError: if there is no such recipe.
  """
  config_names.check("recipe", name, names())
  model, dataset, method = _choices()[name]
  max_tokens, max_steps = DATASETS[dataset]
  settings = {"prompt_length": 512, "completion_length": max_tokens}
  if presets.get(model).family == "qwen3":
    settings["thinking"] = False  # its thoughts are longer than max_tokens
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
  config.evaluation.problems = 256
  config.evaluation.samples = 16
  config.evaluation.batch = 64
  config.evaluate_every = 50
  config.checkpoint_every = 50
  config.rollouts_every = 50
  return config
