"""Chained arithmetic that is paid by a judge on a server.

The first command serves a judge with planted faults; another terminal runs the
others. A language model takes its place with, for example,
`--config.judge.url=http://localhost:8000/v1 --config.judge.model=my-judge`.
Replies are kept by the name of the model: a server with other faults needs
another name, such as `--config.judge.model=planted_18_words`. A solution has 14
words, so that a policy has to write longer ones to be accepted by their length.

  python -m experiments.planted_judge --words 18
  python -m experiments.run --config experiments/configs/judged.py:agrees \
    --workdir runs/judged_agrees
  python -m experiments.run --config experiments/configs/judged.py:grade \
    --workdir runs/judged_grade
  python -m experiments.run --config experiments/configs/judged.py:preference \
    --workdir runs/judged_preference
  python -m experiments.run --config experiments/configs/judged.py:flaw_aware \
    --workdir runs/judged_flaw_aware

Each starts from the base policy of `chain.py:base`, which the run trains first.
`reward/mean` is what the judge pays, and `accuracy/pass@1` the truth.
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import chain, defaults

URL = "http://localhost:8600/v1"  # of `experiments.planted_judge`


def agrees() -> ConfigDict:
  """RL on whether the judge calls an answer right."""
  config = _config(right="agrees()")
  config.reward = defaults.reward(right=defaults.term(""))
  return config


def grade() -> ConfigDict:
  """RL on the judge's grade."""
  config = _config(quality="grade()")
  config.reward = defaults.reward(quality=defaults.term(""))
  return config


def preference() -> ConfigDict:
  """RL on the judge's comparisons of pairs (BRPO)."""
  config = _config(better="preference(swap=False, with_reference=True)")
  config.method = "brpo_writing(preferences='task')"
  config.rollout.samples = 8  # 28 requests for each prompt
  return config


def flaw_aware() -> ConfigDict:
  """RL on verdicts, less where the judge finds a wrong step (FAPO)."""
  config = _config(flaw="flawed()")
  config.reward = defaults.reward(outcome="flaw_aware(flawed='flaw')")
  return config


def _config(**questions: str) -> ConfigDict:
  """Returns the part that all configs share."""
  config = defaults.with_base(defaults.rl(steps=60), chain.base())
  config.judge = defaults.judge(URL, "planted", **questions)
  config.method = "rloo"
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  return config


_CONFIGS = config_names.NamedConfigs(
  "judged",
  {
    "agrees": agrees,
    "grade": grade,
    "preference": preference,
    "flaw_aware": flaw_aware,
  },
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
