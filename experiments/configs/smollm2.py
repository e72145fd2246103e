"""RL of SmolLM2-135M-Instruct on text that programs check.

  python -m experiments.pretrained smollm2
  python -m experiments.run --config experiments/configs/smollm2.py:max_at_k \
    --workdir runs/smollm2_max_at_k

The first command downloads the model. `experiments/studies/real_model` trains
these configs with several seeds; its README has the results.

All configs draw 64 samples per training step. The learning rate is one of three
that were tried on one seed.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults

TEXTS = "short_texts(rules_at_once=(1, 2))"
LISTS = "numbered_lists(steps=True, max_steps=16)"


def _config(task: str, method: str, steps: int) -> ConfigDict:
  """Returns the settings that all configs share, with a task and a method."""
  config = defaults.rl(steps)
  config.policy.path = "smollm2"
  config.task = task
  config.method = method
  config.rollout.prompts = 8
  config.rollout.samples = 8
  config.optimizer.learning_rate = 2e-5
  config.optimizer.warmup_steps = 3
  config.optimizer.b2 = 0.99
  config.evaluation.problems = 128
  config.evaluation.samples = 16
  config.evaluation.batch = 32
  # The samples of the first and of the last step are written.
  config.rollouts_every = steps - 1
  return config


def grpo() -> ConfigDict:
  """GRPO on texts that obey one or two rules."""
  return _config(TEXTS, "grpo(beta=0.0)", steps=30)


def max_at_k() -> ConfigDict:
  """The best score of four samples, on texts that obey one or two rules."""
  return _config(TEXTS, "max_at_k(k=4)", steps=30)


def _lists(method: str) -> ConfigDict:
  """Returns the settings for numbered lists.

  At temperature 1 the base model writes hardly any right list.
  """
  config = _config(LISTS, method, steps=25)
  config.rollout.temperature = 0.7
  config.evaluation.temperature = 0.7
  return config


def lists_min_form() -> ConfigDict:
  """Min-form credit for the lines of numbered lists."""
  return _lists("min_form")


def lists_sum_form() -> ConfigDict:
  """The sum of the scores of the lines of numbered lists."""
  return _lists("sum_form")


def lists_outcome() -> ConfigDict:
  """GRPO on the verdict of numbered lists, without scores of lines."""
  return _lists("grpo(beta=0.0)")


_CONFIGS = {
  "grpo": grpo,
  "max_at_k": max_at_k,
  "lists_min_form": lists_min_form,
  "lists_sum_form": lists_sum_form,
  "lists_outcome": lists_outcome,
}


def names() -> list[str]:
  return list(_CONFIGS)


def summary(name: str) -> str:
  return config_names.first_sentence(_CONFIGS[name])


def get_config(name: str = "") -> ConfigDict:
  config_names.check("smollm2", name, names())
  return _CONFIGS[name]()
