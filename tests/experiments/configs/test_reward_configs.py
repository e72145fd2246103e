"""One config per reward: complete, buildable, and none forgotten."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import worked_example
from ml_collections import ConfigDict

import rewards as registry
from experiments.cli import spec
from experiments.configs import judged as judged_configs
from experiments.configs import method as method_configs
from experiments.configs import reward as reward_configs
from experiments.training import build, reward_from_config

_CONTROL = "a control to be run beside any config, as a term of its reward"
# Rewards without a config: no embedded task provides what they read, or they
# are controls.
LACKING = {
  "brier": "reads a forecast that the completion states; none is stated",
  "calibrated": "reads a reward model's scores, and phrases of a language",
  "coins": _CONTROL,
  "flipped_groups": _CONTROL,
  "instead_of_nothing": "reads phrases of a language; a chain has digits",
  "model_outcome": "reads a fitted model, as in the configs of fitted_reward",
  "model_steps": "reads a fitted model, as in the configs of fitted_reward",
  "novelty_bonus": "reads hidden states of a policy whose width it is told",
  "opposite": _CONTROL,
  "reasoning_patterns": "reads phrases of a language; a chain has digits",
  "says": "reads phrases of a language; a chain has digits",
  "stretched_with_progress": "is of a score that comes to lie in a narrow band",
  "wrong_vote": _CONTROL,
}


@pytest.mark.parametrize("name", reward_configs.names())
def test_every_config_can_run(name):
  config = reward_configs.get_config(name)
  e = build.build(config)
  assert e.method.reward is not None
  assert config.task == config.base.task
  assert reward_configs.family(name)
  assert len(reward_configs.summary(name)) > 10
  build.build(config.base)


def test_no_entry_has_a_key_that_nothing_reads():
  allowed = {"family", "summary", "reward", "step_reward"}
  allowed |= {"task", "method", "sampler", "paper"}
  for name, entry in reward_configs.ENTRIES.items():
    assert entry.keys() <= allowed, name


def paid(config: ConfigDict) -> set[str]:
  """The rewards that a config names."""
  return {spec.parse(call)[0] for call in reward_from_config.calls(config)}


def test_every_reward_has_a_config_or_a_reason_why_not():
  used = set()
  for configs in (reward_configs, judged_configs):
    for name in configs.names():
      used |= paid(configs.get_config(name))
  assert used.isdisjoint(LACKING)
  assert used | set(LACKING) == set(registry.names())


def test_a_config_pays_for_what_its_name_says():
  for name in reward_configs.names():
    reward = re.sub("_(alone|local)$", "", name)
    if reward in registry.names():
      assert reward in paid(reward_configs.get_config(name)), name


def test_references_are_samples_of_the_policy_before_the_run():
  configs = map(reward_configs.get_config, reward_configs.names())
  comparing = [c for c in configs if "references=" in str(c.reward)]
  assert comparing
  for config in comparing:
    _, settings = spec.parse(config.reward)
    assert settings["references"] == "sampler/reference_scores"
    sampler, settings = spec.parse(config.rollout.sampler)
    assert sampler == "reference_scores"
    assert settings.get("params", "ref") == "ref"
    method = build.build(config).method
    rule = dict(method.parameter_sets)["ref"]
    assert rule.update(1.0, 2.0, 0) == 1.0  # frozen


def test_par_is_ppo_on_the_probability_to_beat_the_base_policy():
  """r of two right samples 1 and 3, and of wrong ones; references 0 and 2."""
  config = reward_configs.get_config("preference")
  assert spec.parse(config.method) == ("ppo", {"lam": 0.95, "beta": 0.005})
  assert config.rollout.sampler == "reference_scores(count=10)"
  method = build.build(config).method
  references = [[0.0, 2.0] + [np.nan] * 8]
  rollout = worked_example.rollout(
    [1, 3, 0, -1],
    [2, 2, 2, 2],
    correct=[1, 1, 0, 0],
    extras={"sampler/reference_scores": np.array(references)},
  )
  paid, _ = method.reward.apply(rollout, method.init())
  gaps = np.array([[1, -1], [3, 1], [0, -2], [-1, -3]])
  expected = (1 / (1 + np.exp(-gaps))).mean(-1)
  np.testing.assert_allclose(paid.scores[0], expected, rtol=1e-5)
  log_probs = np.full((1, 4, 2), np.log(0.3))
  exchanged = rollout.replace(scores=rollout.scores[:, [1, 0, 2, 3]])
  slopes = [
    worked_example.loss(method, r, log_probs)[1][0]
    for r in (rollout, exchanged)
  ]
  # The update of two samples of the same verdict is exchanged.
  np.testing.assert_allclose(slopes[0], slopes[1][[1, 0, 2, 3]], atol=1e-6)
  assert np.abs(slopes[0][0] - slopes[1][0]).max() > 0.01


def test_all_start_from_the_policy_of_their_tasks_kind():
  """Judges and views aside, which imitation does not see."""
  bases = {}
  for name in reward_configs.names():
    base = reward_configs.get_config(name).base.to_dict()
    kind = spec.parse(base.pop("task"))[0]
    assert bases.setdefault(kind, base) == base, name
  chain = method_configs.base(method_configs.CHAIN).to_dict()
  chain.pop("task")
  assert bases["chain"] == chain
  assert set(bases) == {"chain", "choice", "closeness"}
  # To find the result among the options takes longer.
  assert bases["choice"]["steps"] > chain["steps"]


def test_an_unknown_name_or_task_is_refused():
  with pytest.raises(ValueError, match=r"did you mean .*reward\.py:majority"):
    reward_configs.get_config("majorty")
  with pytest.raises(ValueError, match="unknown embedded task 'gsm8k'"):
    method_configs.base("gsm8k")
