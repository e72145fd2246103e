"""Tests of `rewards.combine`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

import rewards
from rewards import combine
from rewards.combine import Part
from rl import advantages

OK = jnp.array([1.0, 0.0, 1.0, 0.0])
STYLE = jnp.array([0.2, 0.9, 0.4, 0.1])
VALUES = {"ok": OK, "style": STYLE}


def falling(step):
  """Returns the weights 1, 1/2, 1/3, ... of the steps 0, 1, 2, ..."""
  return 1.0 / (1.0 + step)


@pytest.mark.parametrize("rule", combine.RULES)
def test_one_term_is_itself(rule):
  result = combine.combine({"style": STYLE}, (Part("style"),), rule).total
  expected = advantages.group_normalize(STYLE) if rule == "z_scores" else STYLE
  np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rules_by_hand():
  parts = (Part("ok", 1.0), Part("style", 0.5))
  both = 0.3 + np.stack([OK, STYLE])
  values = {"ok": both[0], "style": both[1]}
  expected = {
    "sum": both[0] + 0.5 * both[1],
    "product": both[0] * both[1] ** 0.5,
    "geometric_mean": (both[0] * both[1] ** 0.5) ** (1 / 1.5),
    "min": both.min(0),
  }
  for rule, value in expected.items():
    result = combine.combine(values, parts, rule).total
    np.testing.assert_allclose(result, value, rtol=1e-5)


@pytest.mark.parametrize("rule", combine.RULES)
def test_the_total_can_be_made_again_from_the_log(rule):
  parts = (Part("ok", 0.7), Part("style", falling, gates=(("ok", 0.5),)))
  result = combine.combine(VALUES, parts, rule, step=3)
  assert result.weights["style"] == 0.25
  again = combine.RULES[rule](
    jnp.stack(list(result.values.values())),
    jnp.stack(list(result.weights.values())),
    jnp.ones(4, bool),
  )
  np.testing.assert_array_equal(again, result.total)


def test_gates_have_thresholds_and_need_not_count():
  values = {**VALUES, "format": jnp.array([1.0, 1.0, 0.4, 1.0])}
  parts = (
    Part("ok"),
    Part("style", 0.5, gates=(("ok", 0.0), ("format", 0.5))),
  )
  result = combine.combine(values, parts)
  np.testing.assert_allclose(result.values["style"], [0.2, 0, 0, 0])
  np.testing.assert_allclose(result.total, [1.1, 0, 1, 0], rtol=1e-6)


def test_z_scores_do_not_see_the_scale_of_a_term():
  parts = (Part("ok"), Part("style"))
  small = {"ok": OK, "style": 1e-2 * STYLE + 5}
  for rule, same in (("z_scores", True), ("sum", False)):
    a = combine.combine(VALUES, parts, rule).total
    b = combine.combine(small, parts, rule).total
    close = np.allclose(a - a.mean(), b - b.mean(), atol=5e-3)
    assert close == same


def test_z_scores_of_two_groups_by_hand():
  """Weights 2 and 1/2; the last sample of the first group does not exist."""
  ok = np.array([[1, 0, 1, np.nan], [0, 0, 1, 0]])
  style = np.array([[0.2, 0.9, 0.4, np.nan], [0.5, 0.5, 0.5, 0.5]])
  parts = (Part("ok", 2.0), Part("style", 0.5))
  result = combine.combine(
    {"ok": jnp.asarray(ok), "style": jnp.asarray(style)},
    parts,
    "z_scores",
    valid=jnp.asarray(~np.isnan(ok)),
  ).total

  def z(x):
    return (x - x.mean()) / (x.std(ddof=1) + 1e-6)

  first = 2 * z(ok[0, :3]) + 0.5 * z(style[0, :3])
  np.testing.assert_allclose(result[0], [*first, 0], rtol=1e-4)
  # A part that is constant in the group adds 0.
  np.testing.assert_allclose(result[1], 2 * z(ok[1]), rtol=1e-4)


def test_what_is_not_positive_has_no_power():
  """A factor of 0 or below makes the product 0, unless its weight is 0."""
  values = {
    "a": jnp.array([0.0, -2.0, 0.25, 0.25]),
    "b": jnp.array([3.0, 4.0, 4.0, 0.0]),
  }
  for weights, product, mean in (
    ((0.5, 2.0), [0, 0, 8, 0], [0, 0, 8 ** (1 / 2.5), 0]),
    ((0.0, 2.0), [9, 16, 16, 0], [3, 4, 4, 0]),
    # Weights that sum to 0 are not divided by their sum.
    ((0.5, -0.5), [0, 0, 0.25, 0], [0, 0, 0.25, 0]),
  ):
    parts = (Part("a", weights[0]), Part("b", weights[1]))
    for rule, expected in (("product", product), ("geometric_mean", mean)):
      result = combine.combine(values, parts, rule).total
      np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_terms_without_a_weight_leave_nothing():
  """No factor has the product 1, of samples that exist."""
  parts = (Part("ok", 0.0), Part("style", 0.0))
  valid = jnp.array([True, True, True, False])
  for rule, expected in (
    *(("sum", 0), ("z_scores", 0), ("min", 0)),
    *(("product", 1), ("geometric_mean", 1)),
  ):
    result = combine.combine(VALUES, parts, rule, valid=valid).total
    np.testing.assert_array_equal(result, [*[expected] * 3, 0])


def test_a_gate_opens_above_its_threshold():
  """At the threshold it is closed, whether or not the gate is a part."""
  values = {"gate": jnp.array([0.5, 0.625, 0.75, 0.875]), "style": STYLE}
  gated = Part("style", gates=(("gate", 0.5),))
  higher = Part("style", gates=(("gate", 0.75),))
  for parts, expected in (
    ((gated,), [0, 0.9, 0.4, 0.1]),
    ((gated, Part("gate")), [0, 0.9, 0.4, 0.1]),
    ((higher, Part("gate")), [0, 0, 0, 0.1]),
  ):
    result = combine.combine(values, parts)
    np.testing.assert_allclose(result.values["style"], expected)


def test_schedules_start_at_step_0():
  result = combine.combine(VALUES, (Part("style", falling),))
  np.testing.assert_array_equal(result.total, STYLE)


def test_a_reward_of_a_component_and_of_another_reward():
  """At step 3: 1/4 style + 2 (-0.1 length), of two samples."""
  rollout = worked_example.rollout(
    [0.9, 0.2, 0.4],
    [1, 2, 4],
    sample_mask=jnp.array([[True, True, False]]),
    components={"style": [0.8, 0.4, np.nan]},
    step=jnp.int32(3),
  )
  priced = {"length_charge": rewards.get("length_charge", free=0, price=0.1)}
  parts = (Part("style", falling), Part("length_charge", 2.0))
  reward = combine.make_reward(priced, parts)
  assert [name for name, _ in reward.parts] == ["length_charge"]
  assert reward.steps is None
  assert reward.name == "sum of style, length_charge"
  assert reward.weights(jnp.int32(3)) == {"style": 0.25, "length_charge": 2}
  charges = jnp.array([[-0.1, -0.2, -0.4]])
  components = {**rollout.components, "length_charge": charges}
  total, after = reward.total(components, rollout)
  np.testing.assert_allclose(total, [[0, -0.3, 0]], atol=1e-6)
  np.testing.assert_allclose(after["style"], [[0.8, 0.4, 0]], rtol=1e-6)
  # Without parts it is the score of the task.
  total, after = combine.make_reward(priced).total(components, rollout)
  np.testing.assert_array_equal(total, rollout.scores)
  assert after is components
  missing = combine.make_reward(priced, (Part("stile"),))
  with pytest.raises(ValueError, match="did you mean 'style'"):
    missing.total(components, rollout)


def test_what_is_invalid_does_not_count():
  valid = jnp.array([True, True, True, False])
  parts = (Part("ok"), Part("style"))
  values = {"ok": OK, "style": STYLE.at[3].set(jnp.nan)}
  for rule in combine.RULES:
    result = combine.combine(values, parts, rule, valid=valid).total
    assert result[3] == 0
    assert np.isfinite(result).all()


def test_a_weight_of_0_leaves_a_term_out():
  parts = (Part("ok", 0.0), Part("style"))
  for rule in ("sum", "product", "geometric_mean", "min"):
    result = combine.combine(VALUES, parts, rule).total
    np.testing.assert_allclose(result, STYLE, rtol=1e-6)


def test_mistakes_are_named():
  with pytest.raises(ValueError, match="did you mean 'product'"):
    combine.combine(VALUES, (Part("ok"),), "produkt")
  with pytest.raises(ValueError, match="distinct names"):
    combine.combine(VALUES, (Part("ok"), Part("ok")))
  with pytest.raises(ValueError, match="at least one part"):
    combine.combine(VALUES, ())
  with pytest.raises(ValueError, match="did you mean 'style'"):
    combine.combine(VALUES, (Part("styl"),))
  with pytest.raises(ValueError, match="unknown reward 'format'"):
    combine.combine(VALUES, (Part("ok", gates=(("format", 0.5),)),))
  with pytest.raises(ValueError, match="did you mean 'product'"):
    combine.make_reward({}, (Part("ok"),), "produkt")
  with pytest.raises(ValueError, match="distinct names"):
    combine.make_reward({}, (Part("ok"), Part("ok")))


def test_the_weakness_of_a_sum_is_its_cheapest_term():
  """Style alone beats being right; behind a gate, or by the minimum, not."""
  values = {"ok": jnp.array([1.0, 0.0]), "style": jnp.array([0.1, 1.0])}
  cheap = (Part("ok"), Part("style", 2.0))
  right, wrong = combine.combine(values, cheap).total
  assert wrong > right
  right, wrong = combine.combine(values, cheap, "min").total
  assert right > wrong
  gated = (Part("ok"), Part("style", 2.0, gates=(("ok", 0.5),)))
  right, wrong = combine.combine(values, gated).total
  assert right > wrong
