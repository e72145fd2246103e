"""RL of SmolLM2-135M-Instruct on text that programs check.

  python -m experiments.pretrained smollm2
  python -m experiments.run --config experiments/configs/smollm2.py:grpo \
    --workdir runs/smollm2_grpo
  python -m experiments.run --config experiments/configs/smollm2.py:max_at_k \
    --workdir runs/smollm2_max_at_k

The first command downloads the model. The further configs are, for open
questions that the key points of a reference score,

  python -m experiments.run --workdir runs/smollm2_key_points \
    --config experiments/configs/smollm2.py:key_points

for three ways to assign credit to the lines of a numbered list,

  python -m experiments.run --workdir runs/smollm2_lists_min_form \
    --config experiments/configs/smollm2.py:lists_min_form
  python -m experiments.run --workdir runs/smollm2_lists_sum_form \
    --config experiments/configs/smollm2.py:lists_sum_form
  python -m experiments.run --workdir runs/smollm2_lists_outcome \
    --config experiments/configs/smollm2.py:lists_outcome

for the same two credits by a process reward model with the decoder of SmolLM2,
which is fitted to 500 lists whose lines the rules label,

  python -m experiments.prm label --workdir runs/smollm2_prm --policy smollm2 \
    --task "numbered_lists(steps=True, max_steps=16)" \
    --source "checker(until_error=False)" \
    --problems 64 --samples 8 --batch 8 --temperature 0.7
  python -m experiments.prm fit --workdir runs/smollm2_prm --max_steps 16 \
    --layers 0 --steps 100 --batch 8 --learning_rate 2e-5
  python -m experiments.run --workdir runs/smollm2_lists_fitted_min_form \
    --config experiments/configs/smollm2.py:lists_fitted_min_form
  python -m experiments.run --workdir runs/smollm2_lists_fitted_sum_form \
    --config experiments/configs/smollm2.py:lists_fitted_sum_form

and for the three stages of Tulu 3, each of which starts from the run before,

  python -m experiments.preferences --policy smollm2 --problems 1200 \
    --task "short_texts(rules_at_once=(1, 2), problems=1200)" --samples 8 \
    --right_samples 8 --out runs/smollm2_pairs.jsonl \
    --demonstrations runs/smollm2_right.jsonl
  python -m experiments.run --workdir runs/smollm2_tulu3_sft \
    --config experiments/configs/smollm2.py:tulu3_sft
  python -m experiments.run --workdir runs/smollm2_tulu3_dpo \
    --config experiments/configs/smollm2.py:tulu3_dpo
  python -m experiments.run --workdir runs/smollm2_tulu3_rlvr \
    --config experiments/configs/smollm2.py:tulu3_rlvr

Deviation: the pairs of the second stage are samples of the base model, and not
of the first stage.

`experiments/studies/real_model` trains these configs with several seeds; its
README has the results. The learning rate of RL, 2e-5, was chosen among three on
seed 0; those of the stages of Tulu 3 are not tuned. On a CPU, a run of RL that
computed the gradient of 64 samples at once would need 15 GiB, and more with the
longer lists. With two microbatches it needs less, and the gradient is the same;
eight devices need `--config.plan.microbatches=1` to split the eight prompts.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults, tulu3

TEXTS = "short_texts(rules_at_once=(1, 2))"
OPEN = "open_questions()"
LISTS = "numbered_lists(steps=True, max_steps=16)"
# Samples of the base model, which the first two stages of Tulu 3 train on.
PAIRS = "runs/smollm2_pairs.jsonl"
RIGHT_SAMPLES = "runs/smollm2_right.jsonl"


def _share(config: ConfigDict, task: str) -> None:
  """Sets the model, the task and the evaluation."""
  config.policy.path = "smollm2"
  config.task = task
  config.evaluation.problems = 128
  config.evaluation.samples = 16
  config.evaluation.batch = 32
  # Lengths differ much, so a row that has ended takes the next sample.
  config.evaluation.rows = 4


def _config(task: str, method: str, steps: int) -> ConfigDict:
  """Returns a config of RL with a task and a method."""
  config = defaults.rl(steps)
  _share(config, task)
  config.method = method
  config.rollout.prompts = 8
  config.rollout.samples = 8
  config.rollout.rows = 4
  config.plan.microbatches = 2
  config.optimizer.learning_rate = 2e-5
  config.optimizer.warmup_steps = 3
  config.optimizer.b2 = 0.99  # a short memory, for 30 steps
  # Writes the samples of the first and of the last step.
  config.rollouts_every = steps - 1
  return config


def grpo() -> ConfigDict:
  """GRPO on texts that obey one or two rules."""
  return _config(TEXTS, "grpo(beta=0.0)", steps=30)


def max_at_k() -> ConfigDict:
  """max@4 on texts that obey one or two rules."""
  return _config(TEXTS, "max_at_k(k=4)", steps=30)


def key_points() -> ConfigDict:
  """GRPO on open questions, paid by key points and style (RLVRR).

  The paper has 8 samples of a prompt and a KL term of .01. Deviation: the
  learning rate is that of the other configs; the paper has 5e-7 for 3 to 8
  billion parameters.
  """
  config = _config(OPEN, "grpo(beta=0.01)", steps=30)
  config.evaluation.problems = 6  # all that are held out
  return config


def _lists(method: str) -> ConfigDict:
  """Returns the settings for numbered lists."""
  config = _config(LISTS, method, steps=25)
  # At temperature 1 the base model writes hardly any right list.
  config.rollout.temperature = 0.7
  config.evaluation.temperature = 0.7
  config.evaluation.problems = 32  # the samples are long
  return config


def lists_min_form() -> ConfigDict:
  """Min-form credit for the lines of numbered lists."""
  return _lists("min_form")


def lists_sum_form() -> ConfigDict:
  """Sum-form credit for the lines of numbered lists."""
  return _lists("sum_form")


def lists_outcome() -> ConfigDict:
  """GRPO on the verdict of numbered lists alone."""
  return _lists("grpo(beta=0.0)")


def _fitted(config: ConfigDict) -> ConfigDict:
  """Replaces the step scores of the rules by those of a fitted model."""
  config.models.prm = defaults.reward_model("runs/smollm2_prm")
  config.step_reward = "model_steps(model='prm')"
  return config


def lists_fitted_min_form() -> ConfigDict:
  """Min-form credit for lines that a fitted model scores."""
  return _fitted(lists_min_form())


def lists_fitted_sum_form() -> ConfigDict:
  """Sum-form credit for lines that a fitted model scores."""
  return _fitted(lists_sum_form())


def tulu3_sft() -> ConfigDict:
  """The first stage of Tulu 3, on right samples of the model itself."""
  config = tulu3.sft()
  _share(config, TEXTS)
  config.demonstrations = RIGHT_SAMPLES
  config.steps = 31  # about one epoch; a run prints the exact number
  config.optimizer.warmup_steps = 1  # 3 %
  config.steps_per_dispatch = 1
  config.rollout.prompts = 32
  config.optimizer.learning_rate = 1e-5
  config.log_every = 1
  return config


def tulu3_dpo() -> ConfigDict:
  """The second stage of Tulu 3, on pairs of samples of the base model."""
  config = tulu3.dpo()
  _share(config, TEXTS)
  config.preferences = PAIRS
  config.init_from = "runs/smollm2_tulu3_sft"
  config.steps = 15  # about one epoch
  config.rollout.prompts = 32
  config.plan.microbatches = 2
  config.optimizer.learning_rate = 2e-6
  return config


def tulu3_rlvr() -> ConfigDict:
  """The third stage of Tulu 3: PPO with a value head on the same prompts."""
  config = tulu3.rlvr()
  _share(config, TEXTS)
  config.init_from = "runs/smollm2_tulu3_dpo"
  config.steps = 30
  config.steps_per_dispatch = 1
  # One sample of each prompt and four epochs, as in the paper: with as many
  # samples, a step would take eight times as long as one of `grpo`.
  config.rollout.prompts = 24
  config.optimizer.learning_rate = 1e-5
  return config


_CONFIGS = config_names.NamedConfigs(
  "smollm2",
  {
    "grpo": grpo,
    "max_at_k": max_at_k,
    "key_points": key_points,
    "lists_min_form": lists_min_form,
    "lists_sum_form": lists_sum_form,
    "lists_outcome": lists_outcome,
    "lists_fitted_min_form": lists_fitted_min_form,
    "lists_fitted_sum_form": lists_fitted_sum_form,
    "tulu3_sft": tulu3_sft,
    "tulu3_dpo": tulu3_dpo,
    "tulu3_rlvr": tulu3_rlvr,
  },
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
