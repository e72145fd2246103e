"""Tests of `rl.parameter_sets`: how each rule starts and is updated."""

import dataclasses

import jax.numpy as jnp
import pytest

from rl import parameter_sets

PARAMS = {"a": jnp.array([8.0, 4.0]), "b": jnp.array(2.0, jnp.bfloat16)}
OLD = {"a": jnp.array([0.0, 1.0]), "b": jnp.array(6.0, jnp.bfloat16)}


def _update(rule, step):
  new = rule.update(OLD, PARAMS, jnp.asarray(step))
  return [*new["a"].tolist(), float(new["b"])]


@pytest.mark.parametrize(
  ("rule", "name", "updates"),
  [
    # The results of the updates at the end of the training steps 0 to 3.
    (parameter_sets.frozen(), "frozen()", [(0, 1, 6)] * 4),
    (parameter_sets.learned(), "learned()", [(0, 1, 6)] * 4),
    (parameter_sets.previous(), "previous()", [(8, 4, 2)] * 4),
    (
      parameter_sets.sync(3),
      "sync(every=3)",
      [(0, 1, 6), (0, 1, 6), (8, 4, 2), (0, 1, 6)],
    ),
    (
      parameter_sets.ema(0.75),
      "ema(decay=0.75, every=1)",
      [(2, 1.75, 5)] * 4,
    ),
    (
      parameter_sets.ema(0.25, every=2),
      "ema(decay=0.25, every=2)",
      [(0, 1, 6), (6, 3.25, 3)] * 2,
    ),
  ],
)
def test_a_rule_updates_all_parameters_at_the_steps_that_it_names(
  rule, name, updates
):
  assert str(rule) == name
  assert [tuple(_update(rule, step)) for step in range(4)] == updates


def test_a_parameter_set_starts_as_a_copy():
  start = parameter_sets.frozen().init(PARAMS)
  assert start["a"].tolist() == [8, 4]
  assert start["a"] is not PARAMS["a"]
  assert start["b"].dtype == jnp.bfloat16
  average = parameter_sets.ema(0.9).init(PARAMS)
  assert average["a"].tolist() == [8, 4]
  assert average["b"] == 2
  assert average["b"].dtype == jnp.float32


def test_a_lag_hands_its_copies_on_one_place_a_step():
  rule = parameter_sets.lag(2)
  assert str(rule) == "lag(steps=2)"
  value = rule.init(PARAMS)
  assert value[0]["a"] is not value[1]["a"]
  oldest = []
  for i in range(5):
    oldest.append(parameter_sets.read(value)["a"].tolist()[0])
    value = rule.update(value, {"a": jnp.array([i, i])}, jnp.asarray(i))
  assert oldest == [8, 8, 0, 1, 2]  # the start of step 0 is handed in as 0
  assert parameter_sets.read(OLD) is OLD
  with pytest.raises(ValueError, match=r"lag\(steps=0\) must look at least 1"):
    parameter_sets.lag(0)


def test_only_learned_is_trained_and_only_two_rules_lag():
  rules = {
    "frozen": parameter_sets.frozen(),
    "learned": parameter_sets.learned(),
    "previous": parameter_sets.previous(),
    "ema": parameter_sets.ema(0.9),
    "sync": parameter_sets.sync(2),
    "lag": parameter_sets.lag(2),
  }
  assert [name for name, rule in rules.items() if rule.trained] == ["learned"]
  assert [name for name, rule in rules.items() if rule.lagged] == [
    "previous",
    "lag",
  ]
  with pytest.raises(dataclasses.FrozenInstanceError):
    rules["ema"].trained = True
