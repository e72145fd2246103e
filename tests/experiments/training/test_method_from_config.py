"""The methods that a config names, with what it adds to them."""

import dataclasses

import pytest
from helpers import small_run

from experiments.configs import defaults
from experiments.training import method_from_config, reward_from_config
from experiments.training_run import validate
from rl import methods, metrics


def policy_method(config):
  """Returns the method of the policy, with the parts of a config."""
  made = method_from_config.make(config)
  return method_from_config.with_config_parts(config, made)["policy"]


def test_a_method_is_what_its_call_says():
  result = method_from_config.make_method("max_at_k(k=2, baseline='none')")
  expected = methods.get("max_at_k", k=2, baseline="none")
  assert result.name == "max_at_k(k=2, baseline=none)"
  assert str(result) == str(expected)


def test_a_method_may_bring_its_reward_and_then_no_other_is_taken(monkeypatch):
  paid = reward_from_config.make_reward({"reward": "length_charge()"})
  brings = dataclasses.replace(methods.get("rloo"), reward=paid)
  monkeypatch.setattr(method_from_config, "make_method", lambda text: brings)
  config = defaults.rl()
  assert policy_method(config).reward is paid
  config.reward = "verdict()"
  with pytest.raises(ValueError, match=r"reward: rloo.* reward of its own"):
    method_from_config.check(config, method_from_config.make(config))
  monkeypatch.setattr(
    method_from_config, "make_method", lambda text: methods.get("rloo")
  )
  assert policy_method(config).reward is not None


def test_importance_weights_are_added_where_a_config_truncates_them():
  config = defaults.rl()
  config.method = "rloo"
  for sampling, text in (
    (None, ""),
    ({"devices": 0}, ""),
    ({"importance_cap": 0.0}, ""),
    ({"importance_cap": 3.0}, "truncated_importance(cap=3)"),
  ):
    with config.unlocked():
      config.inference = sampling
    method = str(policy_method(config))
    assert ("truncated_importance" in method) == bool(text)
    assert text in method


def test_a_method_has_one_sampler():
  config = small_run.config(method="remax", rollout__sampler="greedy()")
  with pytest.raises(
    ValueError, match=r"remax.* has the sampler greedy\(\) al"
  ):
    method_from_config.check(config, method_from_config.make(config))


def test_a_metric_of_a_rollout_is_a_number(monkeypatch):
  """A row of numbers would have no curve in the report."""
  measure = metrics.rollout_metrics

  def with_row(rollout):
    return measure(rollout) | {"length/each": rollout.scored_lengths.max(0)}

  monkeypatch.setattr(metrics, "rollout_metrics", with_row)
  with pytest.raises(ValueError, match=r"'length/each' has the shape \(4,\)"):
    validate.check_and_build(small_run.config(rollout__samples=4))
