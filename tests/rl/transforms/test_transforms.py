"""The algebra: composition, state, subsets, and what a mistake reads like."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from rl import masked, method_loss, methods, scoring, transforms
from rl.losses import surrogates, terms
from rl.losses.aggregates import prompt_mean, token_mean
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.transforms import (
  LevelError,
  among,
  base,
  broadcast,
  center,
  chain,
  group_normalize,
  lift,
  min_form_rewards,
  place_at_step_ends,
  place_last,
  returns_to_go,
  scores,
  step_scores,
  transform,
  verdicts,
  whiten,
)

ROLLOUT = tabular_policy.rollout()
GRADIENT = policy_gradient(surrogates.ppo_clip())


def run(t, rollout=ROLLOUT, state=None):
  return jax.jit(t.apply)(None, rollout, t.init() if state is None else state)


def value(t, rollout=ROLLOUT):
  return np.asarray(run(t, rollout)[0])


def test_chain_sum_and_scale_do_what_they_say():
  c, z = value(chain(scores(), center())), value(chain(scores(), whiten()))
  both = chain(scores(), center() + 0.5 * whiten())
  np.testing.assert_allclose(value(both), c + 0.5 * z, rtol=1e-6)
  flat = chain(chain(scores(), center()), broadcast())
  assert str(flat) == str(chain(scores(), center(), broadcast()))
  np.testing.assert_array_equal(
    value(flat), np.where(ROLLOUT.mask, c[..., None], 0)
  )


def test_filters_intersect():
  got = value(transforms.mixed_verdicts() & transforms.finished())
  want = value(transforms.mixed_verdicts()) & np.asarray(ROLLOUT.finished)
  np.testing.assert_array_equal(got, want)
  for p in range(tabular_policy.P):
    real = np.asarray(ROLLOUT.correct)[p, np.asarray(ROLLOUT.sample_mask)[p]]
    assert value(transforms.mixed_verdicts())[p].all() == (0 < real.mean() < 1)


def test_among_uses_the_statistics_of_its_subset_and_is_zero_outside():
  def odd(rollout):
    return jnp.broadcast_to(
      jnp.arange(rollout.scores.shape[1]) % 2 == 1, rollout.scores.shape
    )

  got = value(among(odd, chain(scores(), center())))
  inside = np.asarray(odd(ROLLOUT) & ROLLOUT.sample_mask)
  for p in range(tabular_policy.P):
    s = np.asarray(ROLLOUT.scores)[p, inside[p]]
    np.testing.assert_allclose(got[p, inside[p]], s - s.mean(), atol=1e-6)
  assert not got[~inside].any()


def test_among_of_a_filter_is_a_filter():
  def everyone(rollout):
    return rollout.sample_mask

  assert value(among(everyone, transforms.finished())).dtype == bool


def test_components_are_summed_with_weights():
  rollout = ROLLOUT.replace(
    components={"a": ROLLOUT.scores, "b": 2 * ROLLOUT.scores}
  )
  source = transforms.components(("a", "b"))
  mixed = chain(source, transforms.weighted_sum((1.0, -0.5)))
  np.testing.assert_allclose(value(mixed, rollout), 0, atol=1e-6)
  mixed = chain(source, transforms.weighted_sum((1.0, 0.5)))
  np.testing.assert_allclose(
    value(mixed, rollout), 2 * ROLLOUT.scores, atol=1e-6
  )


def test_state_is_threaded_through_chain_and_sum():
  moving = chain(scores(), transforms.minus_running_mean(0.5))
  both = moving + moving
  state = both.init()
  valid = np.asarray(ROLLOUT.sample_mask)
  raw = np.asarray(ROLLOUT.scores)
  first, state = run(both, state=state)
  np.testing.assert_allclose(first[valid], 2 * raw[valid], rtol=1e-6)
  second, state = run(both, state=state)
  expected = 2 * (raw[valid] - raw[valid].mean())
  np.testing.assert_allclose(second[valid], expected, atol=1e-6)
  assert state[0] == state[1], "used twice: two equal states"


def test_placement_puts_a_value_once_and_at_the_right_token():
  placed = value(chain(scores(), place_last()))
  np.testing.assert_allclose(placed.sum(-1), ROLLOUT.scores, rtol=1e-6)
  last = np.asarray(ROLLOUT.scored_lengths) - 1
  at = np.take_along_axis(placed, last[..., None], -1)[..., 0]
  np.testing.assert_allclose(at, ROLLOUT.scores, rtol=1e-6)
  ends = value(chain(step_scores(), place_at_step_ends()))
  total = np.where(ROLLOUT.step_mask, ROLLOUT.step_scores, 0).sum(-1)
  np.testing.assert_allclose(ends.sum(-1), total, atol=1e-6)
  steps = np.asarray(ROLLOUT.valid("step")).sum(-1)
  np.testing.assert_array_equal((ends != 0).sum(-1), steps)


def test_a_step_ends_at_its_last_scored_token():
  """A tool's tokens inside a step do not end it, nor do they carry its end."""
  ids = jnp.array([[[0, 0, -1, 0, 1, 1, 1]] * 2])
  mask = jnp.array([[[1, 1, 0, 1, 1, 1, 0]] * 2], bool)
  rollout = tabular_policy.rollout(p=1, s=2, t=7, k=2, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=mask),
    step_ids=ids,
    step_scores=jnp.array([[[1.0, 5.0]] * 2]),
    step_mask=jnp.ones((1, 2, 2), bool),
  )
  placed = chain(step_scores(), place_at_step_ends())
  np.testing.assert_array_equal(
    value(placed, rollout)[0, 0], [0, 0, 0, 1, 0, 5, 0]
  )


def test_step_reductions():
  s = np.where(ROLLOUT.step_mask, ROLLOUT.step_scores, 0)
  exists = np.asarray(ROLLOUT.valid("step"))
  low = value(chain(step_scores(), transforms.min_steps()))
  last = value(chain(step_scores(), transforms.last_step()))
  for at in zip(*np.nonzero(ROLLOUT.sample_mask), strict=True):
    np.testing.assert_allclose(low[at], s[at][exists[at]].min())
    np.testing.assert_allclose(last[at], s[at][exists[at]][-1])


def test_every_bridge_that_an_error_suggests_exists():
  for suggestion in base._BRIDGES.values():
    for word in suggestion.replace("(...)", "()").split():
      if word.endswith("()"):
        assert callable(getattr(transforms, word[:-2]))


def test_lift_takes_context_from_the_rollout():
  def over_best(x, best, *, power=1.0):
    """Relative to the best."""
    return (x / best) ** power

  lifted = lift(
    over_best, best=lambda r: masked.max(r.scores, r.sample_mask, keepdims=True)
  )
  t = chain(scores(), lifted(power=2.0))
  valid = np.asarray(ROLLOUT.sample_mask)
  s = np.asarray(ROLLOUT.scores)
  best = np.where(valid, s, -np.inf).max(-1, keepdims=True)
  np.testing.assert_allclose(value(t), (s / best) ** 2, rtol=1e-5)
  assert "over_best(power=2)" in str(t)


def mistakes():
  token, sample = GRADIENT, scores()
  yield (
    "sample advantage into a token transform",
    lambda: chain(sample, group_normalize(), transforms.sum_tokens()),
    ["sum_tokens() takes a token signal", "place_last()", "broadcast()"],
  )
  yield (
    "sample signal into a step or token transform",
    lambda: chain(sample, returns_to_go()),
    ["takes a step or token signal", "gives a sample signal", "place_last()"],
  )
  yield (
    "step signal into a sample transform",
    lambda: chain(step_scores(), group_normalize()),
    ["takes a sample signal", "min_steps()"],
  )
  yield (
    "a source in the middle",
    lambda: chain(sample, step_scores()),
    ["is a source", "put it first"],
  )
  yield (
    "a factory that was not called",
    lambda: chain(sample, group_normalize),
    ["got group_normalize; it is a factory, call it: group_normalize()"],
  )
  yield (
    "an unknown hyper-parameter",
    lambda: group_normalize(ddoff=0),
    ["group_normalize", "ddoff"],
  )
  yield (
    "a method without a source",
    lambda: Method(token, chain(group_normalize())),
    ["start it from a source"],
  )
  yield (
    "an advantage that ends at steps",
    lambda: Method(token, chain(step_scores(), min_form_rewards())),
    ["gives a step signal", "sample or token", "place_at_step_ends()"],
  )
  yield ("no advantage", lambda: Method(token), ["has no advantage"])
  yield (
    "a sum of unequal levels",
    lambda: chain(sample, broadcast()) + step_scores(),
    ["none -> token", "none -> step"],
  )
  yield (
    "an aggregate of another level",
    lambda: dataclasses.replace(token, aggregate=prompt_mean()),
    ["one value per token", "one weight per prompt"],
  )
  yield (
    "a term weight of the wrong level",
    lambda: scores() * kl(),
    ["gives a sample signal"],
  )
  yield (
    "a KL estimator that does not exist",
    lambda: kl("k4"),
    ["'k4'", "k1", "k2", "k3"],
  )


@pytest.mark.parametrize(
  ("make", "fragments"),
  [pytest.param(m, s, id=name.replace(" ", "_")) for name, m, s in mistakes()],
)
def test_a_mistake_is_a_sentence_at_construction(make, fragments):
  with pytest.raises((TypeError, ValueError)) as error:
    make()
  for fragment in fragments:
    assert fragment in str(error.value)
  assert "\n" not in str(error.value)


@transform(takes="none", gives="prompt")
def easy_prompts(_, rollout):
  """One bool per prompt, which is not the level of a filter."""
  return rollout.prompt_ids > 1


def test_a_filter_of_prompts_is_refused_and_not_read_as_one_of_samples():
  signal = chain(scores(), center())
  for where in ("loss_filter", "sample_filter"):
    with pytest.raises(
      LevelError, match=f"{where} = easy_prompts.. gives a pro"
    ):
      Method(GRADIENT, signal, **{where: easy_prompts()})
  with pytest.raises(LevelError, match="must give a sample or token"):
    terms.nll().of(loss_filter=easy_prompts())


def check(m, rollout=ROLLOUT, **parameter_sets):
  parameter_sets = {"policy": tabular_policy.params(), **parameter_sets}
  method_loss.check(m, tabular_policy.policy, parameter_sets, rollout)


@transform(takes="sample")
def sneaky(signal, rollout):
  """Reads a need that it does not declare."""
  return signal + rollout.extras["old/entropy"].mean(-1)


@transform(takes="sample")
def shapeless(signal, rollout):
  """Declares samples and gives prompts."""
  del rollout
  return signal.mean(-1)


@terms.term(
  takes="none",
  gives="prompt",
  needs={scoring.Need("policy", scoring.log_probs)},
)
def wrong_level(_, policy, rollout):
  """Declares prompts and gives tokens."""
  del rollout
  return policy[scoring.log_probs]


@pytest.mark.parametrize(
  ("m", "rollout", "fragments"),
  [
    (
      Method(GRADIENT, chain(scores(), sneaky())),
      ROLLOUT,
      ["'old/entropy'", "declare it in `needs`"],
    ),
    (methods.get("grpo"), ROLLOUT, ["grpo", "parameter sets ['ref']"]),
    (
      methods.get("min_form"),
      ROLLOUT.replace(step_scores=None),
      ["no step scores"],
    ),
    (
      Method(GRADIENT, chain(scores(), shapeless(), center())),
      ROLLOUT,
      ["shapeless() declares a sample signal [P, S]", "(4,)"],
    ),
    (Method(wrong_level()), ROLLOUT, ["one value per prompt"]),
    (
      Method(
        GRADIENT,
        chain(
          transforms.components(("style",)), transforms.weighted_sum((1.0,))
        ),
      ),
      ROLLOUT,
      ["'style'", "available: ['accuracy', 'format']"],
    ),
    (methods.get("pass_at_k", k=9), ROLLOUT, ["k = 9", "6 samples"]),
    (
      Method(
        GRADIENT, chain(transforms.probe(scoring.Need("ema", scoring.entropy)))
      ),
      ROLLOUT,
      ["ema/entropy", "Add a parameter set"],
    ),
  ],
)
def test_check_finds_errors_that_only_tracing_can_find(m, rollout, fragments):
  with pytest.raises((KeyError, TypeError, ValueError)) as error:
    check(m, rollout)
  for fragment in fragments:
    assert fragment in str(error.value)


def test_check_accepts_what_is_right():
  check(methods.get("grpo"), ref=tabular_policy.params(1))
  check(methods.get("min_form", verifiable=0.5))


def test_hyper_parameters_must_be_keyword_only():
  with pytest.raises(TypeError, match="keyword-only"):

    @transform(takes="sample")
    def loose(signal, rollout, power=1.0):
      return signal**power

  with pytest.raises(ValueError, match="unknown level 'word'"):
    transform(takes="word")


def test_a_method_prints_itself():
  text = str(methods.get("min_form", verifiable=2.0))
  for line in ("min_form_rewards(temperature=0.1)", "scale(factor=2)", "step"):
    assert line in text
  assert "ref <- frozen()" in str(methods.get("grpo"))
  assert "weight" in str(methods.get("reinforce"))


def test_a_controller_is_a_term_weight_with_a_state():
  @transform(takes="none", gives="scalar", init=dict)
  def one_over_step(_, rollout, state):
    return 1.0 / (1.0 + rollout.step), state

  rollout = ROLLOUT.replace(step=jnp.asarray(3))
  for controller, want in (
    (one_over_step(), 0.25),
    (2.0 * one_over_step(), 0.5),
  ):
    m = Method(GRADIENT + controller * kl(), chain(scores(), center()))
    assert method_loss.prepare(m, rollout, m.init())[1][1] == want


def test_verdicts_read_the_verdict_and_not_the_score():
  rollout = ROLLOUT.replace(correct=-jnp.ones_like(ROLLOUT.correct))
  assert not value(verdicts(), rollout).any()
  assert not np.asarray(transforms.known_verdict(rollout)).any()


def test_terms_have_the_weights_that_they_print():
  loss = (
    GRADIENT + 0.5 * (2.0 * kl("k2")) + (-0.01) * terms.entropy(token_mean())
  )
  assert [t.weight for t in loss.terms] == [1.0, 1.0, -0.01]
  assert str(loss).count(" + ") == 2
  assert jax.tree.leaves(Method(loss, chain(scores(), center())).init()) == []
