"""Tests of `rewards.combine`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards import combine
from rewards.combine import Term
from rl import advantages

OK = jnp.array([1.0, 0.0, 1.0, 0.0])
STYLE = jnp.array([0.2, 0.9, 0.4, 0.1])
VALUES = {"ok": OK, "style": STYLE}


@pytest.mark.parametrize("rule", combine.RULES)
def test_one_term_is_itself(rule):
  result = combine.combine({"style": STYLE}, (Term("style"),), rule).total
  expected = advantages.group_normalize(STYLE) if rule == "z_scores" else STYLE
  np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rules_by_hand():
  terms = (Term("ok", 1.0), Term("style", 0.5))
  both = 0.3 + np.stack([OK, STYLE])
  values = {"ok": both[0], "style": both[1]}
  expected = {
    "sum": both[0] + 0.5 * both[1],
    "product": both[0] * both[1] ** 0.5,
    "geometric_mean": (both[0] * both[1] ** 0.5) ** (1 / 1.5),
    "min": both.min(0),
  }
  for rule, value in expected.items():
    result = combine.combine(values, terms, rule).total
    np.testing.assert_allclose(result, value, rtol=1e-5)


@pytest.mark.parametrize("rule", combine.RULES)
def test_the_total_can_be_made_again_from_the_log(rule):
  def falling(step):
    return 1.0 / (1.0 + step)

  terms = (Term("ok", 0.7), Term("style", falling, gates=("ok",)))
  result = combine.combine(VALUES, terms, rule, step=3)
  assert result.weights["style"] == 0.25
  again = combine.RULES[rule](
    jnp.stack(list(result.values.values())),
    jnp.stack(list(result.weights.values())),
    jnp.ones(4, bool),
  )
  np.testing.assert_array_equal(again, result.total)


def test_gates_have_thresholds_and_need_not_count():
  values = {**VALUES, "format": jnp.array([1.0, 1.0, 0.4, 1.0])}
  terms = (
    Term("ok", threshold=0.0),
    Term("style", 0.5, gates=("ok", "format")),
  )
  result = combine.combine(values, terms)
  np.testing.assert_allclose(result.values["style"], [0.2, 0, 0, 0])
  np.testing.assert_allclose(result.total, [1.1, 0, 1, 0], rtol=1e-6)


def test_z_scores_do_not_see_the_scale_of_a_term():
  terms = (Term("ok"), Term("style"))
  small = {"ok": OK, "style": 1e-2 * STYLE + 5}
  for rule, same in (("z_scores", True), ("sum", False)):
    a = combine.combine(VALUES, terms, rule).total
    b = combine.combine(small, terms, rule).total
    close = np.allclose(a - a.mean(), b - b.mean(), atol=5e-3)
    assert close == same


def test_what_is_invalid_does_not_count():
  valid = jnp.array([True, True, True, False])
  terms = (Term("ok"), Term("style"))
  values = {"ok": OK, "style": STYLE.at[3].set(jnp.nan)}
  for rule in combine.RULES:
    result = combine.combine(values, terms, rule, valid=valid).total
    assert result[3] == 0
    assert np.isfinite(result).all()


def test_a_weight_of_0_leaves_a_term_out():
  terms = (Term("ok", 0.0), Term("style"))
  for rule in ("sum", "product", "geometric_mean", "min"):
    result = combine.combine(VALUES, terms, rule).total
    np.testing.assert_allclose(result, STYLE, rtol=1e-6)


def test_mistakes_are_named():
  with pytest.raises(ValueError, match="did you mean 'product'"):
    combine.combine(VALUES, (Term("ok"),), "produkt")
  with pytest.raises(ValueError, match="distinct names"):
    combine.combine(VALUES, (Term("ok"), Term("ok")))
  with pytest.raises(ValueError, match="at least one term"):
    combine.combine(VALUES, ())
  with pytest.raises(KeyError, match="did you mean 'style'"):
    combine.combine(VALUES, (Term("styl"),))
  with pytest.raises(KeyError, match="unknown reward 'format'"):
    combine.combine(VALUES, (Term("ok", gates=("format",)),))


def test_the_weakness_of_a_sum_is_its_cheapest_term():
  """Style alone beats being right; behind a gate, or by the minimum, not."""
  values = {"ok": jnp.array([1.0, 0.0]), "style": jnp.array([0.1, 1.0])}
  cheap = (Term("ok"), Term("style", 2.0))
  right, wrong = combine.combine(values, cheap).total
  assert wrong > right
  right, wrong = combine.combine(values, cheap, "min").total
  assert right > wrong
  gated = (Term("ok"), Term("style", 2.0, gates=("ok",)))
  right, wrong = combine.combine(values, gated).total
  assert right > wrong
