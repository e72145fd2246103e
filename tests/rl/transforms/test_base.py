"""Tests of `rl.transforms.base`: levels, shapes, states and descriptions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import scoring, transforms
from rl.transforms import (
  LevelError,
  Transform,
  among,
  base,
  center,
  chain,
  check_shape,
  describe,
  lift,
  scale,
  scores,
  step_scores,
  transform,
  verdicts,
  whiten,
)

close = np.testing.assert_allclose
# P = 2, S = 3, T = 4 and K = 5, which all differ.
ROLLOUT = worked_example.rollout(
  [[1.0, 2.0, 6.0], [0.0, 4.0, 5.0]], [[4, 1, 2], [3, 3, 1]]
).replace(step_scores=jnp.ones((2, 3, 5)), step_mask=jnp.ones((2, 3, 5), bool))
SHAPES = {
  "scalar": (),
  "prompt": (2,),
  "sample": (2, 3),
  "vector": (7, 2, 3),
  "step": (2, 3, 5),
  "token": (2, 3, 4),
}


def _value(t, rollout=ROLLOUT):
  return worked_example.apply(t, rollout)


def _source(level, shape=None, needs=()):
  """A source of ones."""

  @transform(takes="none", gives=level, needs=needs)
  def ones(_, rollout):
    del rollout
    return jnp.ones(SHAPES[level] if shape is None else shape)

  return ones()


@pytest.mark.parametrize("level", SHAPES)
def test_a_result_must_have_the_axes_of_its_level(level):
  check_shape(_source(level), jnp.ones(SHAPES[level]), ROLLOUT)
  wrong = {
    # One axis more, another length of each axis, and one axis less.
    (*SHAPES[level], 1),
    *(
      tuple(n + (i == axis) for i, n in enumerate(SHAPES[level]))
      for axis in range(len(SHAPES[level]))
    ),
    *([SHAPES[level][1:]] if SHAPES[level] else []),
  }
  if level == "vector":  # of any number of components
    wrong.remove((8, 2, 3))
  if level == "step":  # of any number of steps
    wrong.remove((2, 3, 6))
  for shape in wrong:
    with pytest.raises(LevelError, match=f"declares a {level} signal .* shape"):
      check_shape(_source(level), jnp.ones(shape), ROLLOUT)


def test_every_link_of_a_chain_is_checked():
  wrong = _source("sample", (2, 4))
  with pytest.raises(LevelError, match=r"ones\(\) declares a sample signal"):
    _value(chain(wrong, scale(2.0)))


# Sources and factories.


def test_a_source_declares_the_level_of_its_result():
  with pytest.raises(ValueError, match="a source must declare the level"):
    transform(takes="none")
  assert transform(takes="step")(lambda x, rollout: x)().gives == "step"
  for takes in ("word", ("sample", "word")):
    with pytest.raises(ValueError, match="unknown level 'word'"):
      transform(takes=takes)
  with pytest.raises(ValueError, match="unknown level 'word'"):
    transform(gives="word")


def test_a_state_is_made_from_the_hyper_parameters():
  @transform(init=lambda start: jnp.float32(start))
  def count(signal, rollout, state, *, start=3.0):
    """Counts calls."""
    del rollout
    return signal * state, state + start

  t = count(5.0)
  assert (str(t), t.takes, t.gives) == ("count(start=5)", "sample", "sample")
  result, state = t.apply(jnp.ones(2), ROLLOUT, t.init())
  assert (result.tolist(), state) == ([5, 5], 10)
  with pytest.raises(TypeError, match="after the first 3 arguments"):

    @transform(init=dict)
    def loose(signal, rollout, state, power):
      return signal, state


def test_a_level_agnostic_transform_gets_the_mask_of_its_level():
  @transform(takes=("sample", "token"), needs={scoring.Need("old", "x")})
  def masks(signal, valid, *, factor=1.0):
    """Ignores its signal."""
    del signal
    return factor * valid

  t = masks(2.0)
  assert (t.takes, t.gives, t.apply) == (("sample", "token"), None, None)
  assert t.init() == ()
  for level in t.takes:
    bound = t.bind(level)
    assert (bound.takes, bound.gives) == (level, level)
    assert bound.needs == t.needs != frozenset()
    result, state = jax.jit(bound.apply)(None, ROLLOUT, ())
    close(result, 2.0 * ROLLOUT.valid(level))
    assert state == ()


def test_a_lifted_function_may_be_a_source():
  def weights(lengths, power=1.0):
    """Powers of lengths."""
    return lengths**power

  need = scoring.Need("ref", scoring.entropy)
  lifted = lift(
    weights,
    "none",
    "sample",
    needs={need},
    lengths=lambda rollout: rollout.scored_lengths,
  )
  source = lifted(2.0)
  assert (str(source), source.takes) == ("weights(power=2)", "none")
  assert source.needs == {need}
  close(_value(source), [[16, 1, 4], [9, 9, 1]])
  assert lifted.__doc__ == "Powers of lengths."

  def ratio(signal, lengths, *, offset=0.0):
    return signal / lengths + offset

  t = lift(ratio, lengths=lambda rollout: rollout.scored_lengths)(offset=1.0)
  assert (str(t), t.takes, t.gives) == ("ratio(offset=1)", "sample", "sample")
  close(_value(chain(scores(), t)), [[1.25, 3, 4], [1, 7 / 3, 6]], rtol=1e-6)


# Chains.


def test_needs_of_a_composition_are_those_of_all_its_parts():
  first, second, third = (
    scoring.Need(name, scoring.entropy) for name in ("a", "b", "c")
  )
  a, b, c = (_source("sample", needs={n}) for n in (first, second, third))
  assert (a + b).needs == (a & b).needs == {first, second}
  assert chain(a + b, center()).needs == {first, second}
  assert among(transforms.known_verdict, a + c).needs == {first, third}
  assert (2.0 * a).needs == {first}


def test_a_chain_has_the_levels_of_its_ends_and_flat_links():
  t = chain(
    chain(step_scores(), transforms.sum_steps()), transforms.broadcast()
  )
  assert (t.takes, t.gives) == ("none", "token")
  assert [str(link) for _, link in t.links] == [
    "step_scores()",
    "sum_steps()",
    "broadcast()",
  ]
  assert str(t) == "chain(step_scores(), sum_steps(), broadcast())"
  assert len(t.init()) == 3
  with pytest.raises(TypeError, match=r"chain\(\) needs at least one"):
    chain()
  with pytest.raises(TypeError, match=r"expected a Transform, got 3$"):
    chain(scores(), 3)
  with pytest.raises(dataclasses.FrozenInstanceError):
    t.name = "other"


def test_a_chain_that_begins_with_a_level_agnostic_link_is_bound_later():
  """To one of the levels that its first link takes."""
  inner = chain(scale(2.0), whiten(), scale(10.0))
  assert inner.takes == scale(1.0).takes
  assert (inner.gives, inner.apply) == (None, None)
  assert str(inner) == "chain(scale(factor=2), whiten(ddof=0, eps=1e-08), " + (
    "scale(factor=10))"
  )
  bound = inner.bind("sample")
  assert (bound.takes, bound.gives) == ("sample", "sample")
  want = _value(chain(scores(), whiten()))
  close(_value(chain(scores(), inner)), 10 * want, rtol=1e-5)
  to_tokens = chain(scale(3.0), transforms.broadcast())
  assert chain(scores(), to_tokens).gives == "token"
  with pytest.raises(LevelError, match="takes a sample signal but scale"):
    chain(step_scores(), to_tokens)
  with pytest.raises(LevelError, match=r"takes a sample or step or token sign"):
    chain(scale(2.0), whiten()).bind("prompt")


def test_a_source_cannot_follow_another_link():
  with pytest.raises(LevelError, match=r"verdicts\(\) is a source.*follow sco"):
    chain(scores(), verdicts())
  with pytest.raises(LevelError, match=r"sum_steps.. takes a step signal but"):
    chain(scores(), transforms.sum_steps())


def test_a_suggestion_names_the_transforms_between_two_levels():
  suggest = base.suggest_bridge
  assert (
    suggest("token", ("sample",)) == "; insert sum_tokens() or mean_tokens()"
  )
  assert suggest("vector", ("token", "sample")) == "; insert weighted_sum(...)"
  assert suggest("sample", ("step",)) == suggest("prompt", ("sample",)) == ""


# Sums and conjunctions.


def test_the_sides_of_a_sum_have_states_of_their_own():
  @transform(takes="none", gives="sample", init=lambda by: jnp.float32(by))
  def count(_, rollout, state, *, by):
    return 0 * rollout.scores + state, state + by

  total = count(1.0) + count(10.0)
  state = total.init()
  values = []
  for _ in range(2):
    value, state = jax.jit(total.apply)(None, ROLLOUT, state)
    values.append(float(value[0, 0]))
  assert values == [11, 22]
  assert state == (3, 30)


def test_a_sum_takes_the_levels_that_both_sides_take():
  def halve(level):
    return transform(takes=level)(lambda x, rollout: x / 2)()

  both = scale(2.0) + halve("sample")
  assert (both.takes, both.gives) == (("sample",), None)
  close(_value(chain(scores(), both)), 2.5 * ROLLOUT.scores)
  both = halve("sample") + scale(2.0)
  assert both.takes == ("sample",)
  close(_value(chain(scores(), both)), 2.5 * ROLLOUT.scores)
  assert (scale(2.0) + whiten()).takes == ("sample", "step", "token")
  with pytest.raises(LevelError, match=r"takes prompt; the two sides of [+]"):
    whiten() + halve("prompt")
  with pytest.raises(LevelError, match=r"none -> sample, and .* none -> step"):
    scores() + step_scores()
  with pytest.raises(TypeError, match="it is a factory, call it: verdicts"):
    scores() & verdicts


# Subsets and components.


def long_samples(rollout):
  """Samples of at least three tokens."""
  return rollout.tokens.lengths >= 3


def first_tokens(rollout):
  """The first two tokens of the samples with the numbers 0 and 2."""
  is_chosen = jnp.array([True, False, True])[:, None] & (jnp.arange(4) < 2)
  return jnp.broadcast_to(is_chosen, rollout.mask.shape)


def test_a_subset_of_samples_is_treated_as_if_no_other_existed():
  t = among(long_samples, chain(scores(), center()))
  assert str(t) == "among(long_samples, chain(scores(), center()))"
  close(_value(t), [[0, 0, 0], [-2, 2, 0]])
  # Also if the transform is bound later.
  later = among(long_samples, whiten())
  assert str(later) == "among(long_samples, whiten(ddof=0, eps=1e-08))"
  white = _value(chain(scores(), later))
  inside = np.array([1.0, 0.0, 4.0]) - 5 / 3
  inside /= np.sqrt((inside**2).mean())
  close(
    white, [[inside[0], 0, 0], [inside[1], inside[2], 0]], rtol=1e-5, atol=1e-6
  )
  with pytest.raises(TypeError, match="expected a Transform, got center"):
    among(long_samples, center)


def test_a_subset_of_tokens_has_the_samples_with_one_of_its_tokens():
  t = among(first_tokens, chain(scores(), center(), transforms.broadcast()))
  # The means of the samples 0 and 2 are 3.5 and 2.5.
  close(_value(t)[0], [[-2.5, -2.5, 0, 0], [0] * 4, [2.5, 2.5, 0, 0]])
  close(_value(t)[1], [[-2.5, -2.5, 0, 0], [0] * 4, [2.5, 0, 0, 0]])
  assert t.links == ()


# Descriptions.


def test_a_description_has_one_line_per_link_and_indents_sums():
  inner = chain(scores(), center()) + verdicts()
  assert describe(inner) == [
    ("( scores()", "sample"),
    ("  center()", "sample"),
    ("+ verdicts()", "sample"),
    (")", ""),
  ]
  outer = chain(inner + chain(inner, scale(2.0)), transforms.broadcast())
  assert describe(outer, "  ") == [
    ("  ( ( scores()", "sample"),
    ("      center()", "sample"),
    ("    + verdicts()", "sample"),
    ("    )", ""),
    ("  + ( scores()", "sample"),
    ("      center()", "sample"),
    ("    + verdicts()", "sample"),
    ("    )", ""),
    ("    scale(factor=2)", "sample"),
    ("  )", ""),
    ("  broadcast()", "token"),
  ]
  assert describe(whiten()) == [
    ("whiten(ddof=0, eps=1e-08)", "sample | step | token")
  ]
  both = transforms.finished() & transforms.mixed_verdicts()
  assert describe(both)[1] == ("& mixed_verdicts()", "sample")
  assert str(both) == "(finished() & mixed_verdicts())"
  one = Transform("one", "none", "sample", tuple, None)
  assert describe(one, "  ") == [("  one", "sample")]
