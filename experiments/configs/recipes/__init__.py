"""Published models of one or two billion parameters on text, three methods.

A file a recipe, MODEL_DATASET_METHOD.py: Qwen2.5-1.5B, Qwen3-0.6B and
Llama-3.2-1B on GSM8K and MATH with max@k, pass@k and min-form credit. They are
complete, and not yet run: what their docstrings expect is not measured.

All but the model, the data and the method is the same, so that runs compare:
64 prompts of 16 samples a step, in two minibatches. The rate of AdamW, 1e-6
after 20 steps of warm-up, and the 16 samples are those of DAPO (Yu et al. 2025,
section 4.1), weight decay .1 and clipping at norm 1 those of its scripts; b2 is
the usual .999. GRPO of TRL and of verl begins at the same rate. Parameters and
AdamW are in float32, because a step of 1e-6 is lost in bfloat16; activations
are in bfloat16.

Memory, estimated in GiB over all devices, to be divided by their number:

                        kept   gradients   sampling   updating   in all
  qwen2.5-1.5b  gsm8k     17          12         18         46       74
                math      17          12         32         51       80
  qwen3-0.6b    gsm8k      7           4         61         42       67
                math       7           4        117         47      123
  llama3.2-1b   gsm8k     14           9         19         38       61
                math      14           9         35         91      114

"kept" is 12 bytes a parameter (float32, two moments), "gradients" 8 more while
updating, where they are added up. "sampling" is a copy of the parameters in
bfloat16 and the key-value cache: 28, 112 and 32 KiB for each of 64 x 16 T
tokens and 64 prompts of 512. "updating" is that copy, the inputs of every layer
(of 8 prompts, all else is computed again), and the larger of the logits of 256
positions with their gradient and a layer's attention and MLP. "in all" is what
is kept with the larger of the two phases. A device holds some more: while
sampling all of that copy and not its share, unless `mesh.tensor` splits it; the
unembedding and its gradient while updating; and what the compiler puts there.
So: 8 devices of 24 GiB for GSM8K, of 40 GiB for MATH, to be safe; the compiler
puts all of them on 8 TPU v5e of 16 GiB (SCALING.md), Qwen3 on MATH with
`--config.rollout.rows=8 --config.evaluation.rows=8`. On one of 80 GB,
`--config.plan.microbatches=32` brings GSM8K below 45 GiB for Qwen2.5 and Llama;
Qwen3, whose cache is the largest, needs `--config.rollout.prompts=32
--config.plan.microbatches=16` instead, and `--config.evaluation.batch=32`.
Where all that is kept fits on each device,
`--config.mesh.data=-1 --config.mesh.fsdp=1` spares the gathering.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from experiments.configs import defaults
from models import presets
from rl import choices

MODELS = ("qwen2.5-1.5b", "qwen3-0.6b", "llama3.2-1b")
# T, and the steps of reasoning that min-form tells apart.
DATASETS = {"gsm8k": (512, 16), "math": (1024, 32)}
METHODS = {
  "max_at_k": "max_at_k(k=8)",
  "pass_at_k": "pass_at_k(k=8)",
  "min_form": "min_form",
}


def recipe(model: str, dataset: str, method: str) -> ConfigDict:
  """The config of a recipe; `config.policy.path` is left to the user.

  Without a path the policy has the model's shape, random weights and the task's
  own tokenizer.

  Args:
    model: one of `MODELS`, a preset.
    dataset: one of `DATASETS`, a text task.
    method: one of `METHODS`.

  Raises:
    ValueError: there is no recipe for it.
  """
  for kind, value, allowed in (
    ("model of the recipes", model, MODELS),
    ("dataset of the recipes", dataset, DATASETS),
    ("method of the recipes", method, METHODS),
  ):
    if value not in allowed:
      raise ValueError(choices.unknown(kind, value, allowed))
  tokens, most_steps = DATASETS[dataset]
  settings = {"prompt_length": 512, "completion_length": tokens}
  if presets.get(model).family == "qwen3":
    settings["thinking"] = False  # its thoughts are longer than that
  if method == "min_form":
    settings |= {"steps": True, "max_steps": most_steps}
  told = ", ".join(f"{name}={value}" for name, value in settings.items())
  config = defaults.rl(steps=200)
  config.task = f"{dataset}({told})"
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
