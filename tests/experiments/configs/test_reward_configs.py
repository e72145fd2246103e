"""One config per reward: complete, buildable, and none forgotten."""

from __future__ import annotations

import re

import pytest
from ml_collections import ConfigDict

import rewards as registry
from experiments.cli import spec
from experiments.configs import methods, rewards
from experiments.training import build

_CONTROL = "a control to be run beside any config, as a term of its mix"
# What no embedded task can feed, or what says nothing of a task.
LACKING = {
  "answer_consistency": "reads a second answer, to shuffled options",
  "brier": "reads a forecast that the completion states; none is stated",
  "calibrated": "reads a reward model's scores, and phrases of a language",
  "co_reward": "reads the answers to a paraphrase; a chain has one wording",
  "coins": _CONTROL,
  "concise": "reads a model's judgment of conciseness",
  "dimension_level": "reads a reranker's and a reward model's scores",
  "flaw_aware": "reads a judge's opinion of the way to a right answer",
  "flipped_groups": _CONTROL,
  "instead_of_nothing": "reads phrases of a language; a chain has digits",
  "novelty_bonus": "reads hidden states of a policy whose width it is told",
  "opposite": _CONTROL,
  "reasoning_patterns": "reads phrases of a language; a chain has digits",
  "says": "reads phrases of a language; a chain has digits",
  "stretched_with_progress": "is of a score that comes to lie in a narrow band",
  "wrong_vote": _CONTROL,
}


@pytest.mark.parametrize("name", rewards.names())
def test_every_config_can_run(name):
  module = rewards.module(name)
  config = module.get_config()
  e = build.build(config)
  assert e.method.reward is not None
  assert config.task == config.base.task
  assert module.FAMILY
  words = f"--config experiments/configs/rewards/{name}.py"
  assert words in module.__doc__
  assert f"--workdir runs/{name}\n" in module.__doc__
  build.build(config.base)


def paid(config: ConfigDict) -> set[str]:
  """The rewards that a config names."""
  calls = [config.mix.steps]
  calls += [term.reward for term in config.mix.terms.values()]
  return {spec.parse(call)[0] for call in calls if call}


def test_every_reward_is_in_a_config_or_said_to_lack_what_it_reads():
  used = set()
  for name in rewards.names():
    used |= paid(rewards.module(name).get_config())
  assert used.isdisjoint(LACKING)
  assert used | set(LACKING) == set(registry.names())


def test_a_config_pays_for_what_its_name_says():
  for name in rewards.names():
    plain = re.sub("_(alone|local)$", "", name)
    if plain in registry.names():
      assert plain in paid(rewards.module(name).get_config()), name


def test_all_start_from_the_policy_of_their_tasks_kind():
  """Judges and views aside, which imitation does not see."""
  bases = {}
  for name in rewards.names():
    base = rewards.module(name).get_config().base.to_dict()
    kind = spec.parse(base.pop("task"))[0]
    assert bases.setdefault(kind, base) == base, name
  own = methods.base(methods.CHAIN).to_dict()
  own.pop("task")
  assert bases["chain"] == own
  assert set(bases) == {"chain", "closeness"}


def test_unknown_names_and_tasks_are_told_the_nearest():
  with pytest.raises(ValueError, match="did you mean 'majority'"):
    rewards.module("majorty")
  with pytest.raises(ValueError, match="unknown embedded task 'gsm8k'"):
    rewards.base("gsm8k")
