"""Methods of ratios, weights and moving clips, and their special cases."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import tabular_policy
from helpers.surrogate_slopes import OLD, bare, close, drifted, gradient

from rl import (
  masked,
  method,
  method_loss,
  methods,
  scoring,
  step,
  training_state,
  transforms,
  types,
)
from rl.losses import aggregates, importance, surrogates, terms
from rl.methods.shaping import overlong
from rl.methods.surrogates import flex_clip, gmpo, stable_reinforce, weights
from rl.transforms import chain
from rl.update_plan import Plan

PHASE = "prepared/phase"


# Weighted score functions.


def test_cispo_without_bounds_is_reinforce_with_importance_weights():
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.3)
  m = bare(weights.weighted_reinforce((0.0, np.inf), (0.0, np.inf)))
  close(
    gradient(m, rollout, params, old),
    gradient(bare(weights.importance_weighted()), rollout, params, old),
  )


def test_dispo_with_equal_bounds_is_cispo():
  rollout, (params, old) = tabular_policy.rollout(), drifted()
  equal = (0.3, 0.5)
  dispo = methods.get("dispo", positive=equal, negative=equal)
  dispo = dataclasses.replace(dispo, loss_filter=None)
  cispo = methods.get("cispo", low=0.3, high=0.5)
  close(
    gradient(dispo, rollout, params, old), gradient(cispo, rollout, params, old)
  )


@pytest.mark.parametrize(
  ("share", "c", "want"),
  [(0.5, 0, 0.5), (0.5, 0.6, 0.2), (0.5, 0.8, 0.1), (0.1, 0, 0.1)],
)
def test_the_baseline_of_topr_reweighs_right_and_wrong(share, c, want):
  rollout = tabular_policy.rollout(p=1, s=10, ragged=False)
  correct = (jnp.arange(10) < 10 * share).astype(jnp.int8)[None]
  rollout = rollout.replace(correct=correct)
  m = methods.get("topr", baseline=c)
  a, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  right = jnp.where(correct == 1, a, 0.0).sum()
  close(right / jnp.abs(a).sum(), want)
  close(want, share * (1 - c) / (1 + (1 - 2 * share) * c))


def test_topr_on_policy_is_reinforce_and_unknown_verdicts_rest():
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  rollout = rollout.replace(correct=rollout.correct.at[0, 2].set(-1))
  scored = scoring.passes(
    tabular_policy.policy, {"old": params}, {OLD}, rollout
  )
  rollout = rollout.replace(behavior_log_probs=scored.extras[OLD])
  m = methods.get("topr")
  base_term = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_sum()
  )
  g = gradient(m, rollout, params)
  close(g, gradient(dataclasses.replace(m, loss=base_term), rollout, params))
  assert not g[0, 2].any()
  with pytest.raises(ValueError, match="baseline = 1 must be between -1 and 1"):
    methods.get("topr", baseline=1.0)


def test_topr_weighs_wrong_samples_by_their_whole_ratio_to_the_sampler():
  rollout, params = (
    tabular_policy.rollout(ragged=False),
    tabular_policy.params(),
  )
  rollout = rollout.replace(correct=jnp.zeros_like(rollout.correct))
  scored = scoring.passes(
    tabular_policy.policy, {"old": params}, {OLD}, rollout
  )
  drift = jnp.linspace(-0.6, 0.4, tabular_policy.S)[:, None]
  rollout = rollout.replace(behavior_log_probs=scored.extras[OLD] - drift)
  m = methods.get("topr")
  base_term = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_sum()
  )
  naive = gradient(dataclasses.replace(m, loss=base_term), rollout, params)
  moved = (drift[:, 0] * rollout.mask.sum(-1))[..., None, None]
  want = np.minimum(np.exp(moved), 1) * naive
  close(gradient(m, rollout, params), want)


def test_the_ratio_that_is_logged_is_of_tokens_whatever_the_objective_makes():
  """TOPR's ratio of a long sample does not show how far the policy moved."""
  rollout, params = (
    tabular_policy.rollout(ragged=False),
    tabular_policy.params(),
  )
  scored = scoring.passes(
    tabular_policy.policy, {"old": params}, {OLD}, rollout
  )
  behind = scored.extras[OLD] - 1.5  # e^1.5 a token, e^(1.5 T) a sample
  rollout = rollout.replace(behavior_log_probs=behind)
  m, tx = methods.get("topr"), optax.sgd(0.1)
  state = training_state.init(m, params, tx, jax.random.key(0))
  _, actual = jax.jit(step.make(m, tabular_policy.policy, tx, Plan()))(
    state, rollout
  )
  close(actual["policy/ratio_mean"], np.exp(1.5))
  close(actual["policy/ppo_kl"], -1.5)
  assert actual["optim/skipped"] == 0


# Sequences.


@pytest.mark.parametrize("name", ["gspo", "gmpo", "sapo"])
def test_at_the_old_policy_it_is_grpo_without_kl(name):
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  grpo = gradient(methods.get("grpo", beta=0.0), rollout, params)
  close(gradient(methods.get(name), rollout, params), grpo)


def test_gspo_is_ppo_on_samples_of_one_token():
  rollout = tabular_policy.rollout(t=1, k=1)
  cut = lambda x: {"hidden": x["hidden"][:, :, :1]}  # noqa: E731
  params, old = map(cut, drifted(0.2))
  close(
    gradient(methods.get("gspo", low=0.2, high=0.2), rollout, params, old),
    gradient(methods.get("grpo", beta=0.0), rollout, params, old),
  )


def test_gspo_weighs_all_tokens_of_a_sample_by_their_geometric_mean():
  """Within the bounds: s_i times the gradient of REINFORCE."""
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  m = methods.get("gspo", low=1.0, high=1e3)
  base_term = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_mean()
  )
  naive = gradient(dataclasses.replace(m, loss=base_term), rollout, params)
  now, then = (
    scoring.passes(tabular_policy.policy, {"old": p}, {OLD}, rollout).extras[
      OLD
    ]
    for p in (params, old)
  )
  s = np.exp(masked.mean(now - then, rollout.mask))[..., None, None]
  assert np.ptp(s) > 0.1
  close(gradient(m, rollout, params, old), s * naive)


def test_a_sample_without_a_token_is_counted_by_the_geometric_mean():
  """verl's geo_mean counts it: a factor of 8/7 on a batch of 8."""
  rollout, params = (
    tabular_policy.rollout(ragged=False),
    tabular_policy.params(),
  )
  mask = rollout.mask.at[0, 0].set(False)
  empty = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  absent = rollout.replace(sample_mask=rollout.sample_mask.at[0, 0].set(False))
  m = bare(gmpo.geometric_mean(0.4))
  close(gradient(m, empty, params), gradient(m, absent, params))


def stale_rollout():
  """Two samples of three and two tokens, and the weights of their tokens.

  The first has the weights 1/2, 2 and 1: arithmetic mean 7/6, geometric mean 1.
  The second has 8, which the cap makes 2, and 1/2: arithmetic mean 5/4,
  geometric mean 1.
  """
  weights = jnp.array([[[0.5, 2.0, 1.0], [8.0, 0.5, 1e9]]])
  mask = jnp.array([[[True, True, True], [True, True, False]]])
  base = tabular_policy.rollout(p=1, s=2, t=3, ragged=False)
  old = base.behavior_log_probs
  return base.replace(
    tokens=base.tokens.replace(mask=mask),
    behavior_log_probs=old - jnp.log(weights),
    scores=jnp.array([[3.0, 1.0]]),
    extras=types.Named({str(OLD): old}),
  )


def losses_of_terms(m, rollout):
  """The value of each term at the old policy, before its weight."""
  batch, _, _ = method_loss.prepare(m, rollout, m.init())
  named = types.Named({"log_probs": rollout.extras[OLD]})
  return [
    term.fn(signal, named, batch.rollout)[0]
    for term, signal in zip(m.loss.terms, batch.signals, strict=True)
  ]


def test_the_geometric_mean_weighs_a_sample_by_that_of_its_tokens():
  """Centred scores are 1 and -1, and both samples have the weight 1."""
  advantage = chain(transforms.scores(), transforms.center())
  m = dataclasses.replace(methods.get("gmpo"), advantage=advantage)
  (actual,) = losses_of_terms(
    importance.add_importance_weights(m, 2.0), stale_rollout()
  )
  close(actual, [[-1.0, 1.0]])


@pytest.mark.parametrize("first", ["gmpo", "grpo"])
def test_each_term_weighs_tokens_by_its_own_mean(first):
  """One advantage is read by a geometric mean and by one over tokens."""
  geometric = terms.policy_gradient(gmpo.geometric_mean(0.4))
  arithmetic = terms.policy_gradient(surrogates.ppo_clip())
  both = [geometric, arithmetic] if first == "gmpo" else [arithmetic, geometric]
  advantage = chain(transforms.scores(), transforms.center())
  m = method.Method(terms.Loss(tuple(both)), advantage)
  actual = losses_of_terms(
    importance.add_importance_weights(m, 2.0), stale_rollout()
  )
  wide, narrow = actual if first == "grpo" else actual[::-1]
  close(narrow, [[-1.0, 1.0]])
  close(wide, [[[-0.5, -2.0, -1.0], [2.0, 0.5, 0.0]]])


def test_kimi_comes_to_rest_where_the_log_ratio_is_the_advantage_over_tau():
  """The gradient is 0 at A / tau of whole samples, however it is split."""
  tau = 0.7
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  m = methods.get("kimi", tau=tau)
  scored = scoring.passes(
    tabular_policy.policy, {"old": params}, {OLD}, rollout
  )
  a, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  now = scored.extras[OLD]
  share = np.random.default_rng(0).dirichlet(
    np.ones(tabular_policy.T), (tabular_policy.P, tabular_policy.S)
  )
  share = jnp.where(rollout.mask, share, 0.0)
  share /= share.sum(-1, keepdims=True)

  def slope(factor):
    old = now - factor * share * (a / tau)[..., None]
    batch_rollout = rollout.replace(extras=types.Named({str(OLD): old}))
    batch, scales, _ = method_loss.prepare(m, batch_rollout, m.init())
    plan = Plan()
    actual, _ = method_loss.gradient(
      m, tabular_policy.policy, params, batch, scales, plan
    )
    return np.abs(actual["hidden"]).max()

  assert slope(1.0) < 1e-6
  assert min(slope(0.9), slope(1.1)) > 1e-3


# Lengths.


def test_the_soft_overlong_penalty_worked_by_hand():
  lengths = np.array([[0, 16384, 18432, 20480]])
  mask = np.arange(20481) < lengths[..., None]
  rollout = tabular_policy.rollout(p=1, s=4, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      mask=jnp.asarray(mask), lengths=jnp.asarray(lengths)
    )
  )
  punish = overlong.soft_overlong()
  got, _ = punish.apply(jnp.ones((1, 4)), rollout, ())
  close(got, [[1, 1, 0.5, 0]])
  longer = overlong.soft_overlong(max_length=10000, cache=100)
  got, _ = longer.apply(jnp.zeros((1, 4)), rollout, ())
  close(got, [[0, -1, -1, -1]])
  at_once = overlong.soft_overlong(max_length=18432, cache=0)
  got, _ = at_once.apply(jnp.zeros((1, 4)), rollout, ())
  close(got, [[0, 0, 0, -1]])


def test_dapo_is_grpo_without_its_filters_on_samples_of_one_length():
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  tokens = rollout.tokens.replace(mask=jnp.ones_like(rollout.mask))
  rollout = rollout.replace(tokens=tokens)
  dapo = dataclasses.replace(methods.get("dapo", high=0.2), loss_filter=None)
  grpo = methods.get("grpo", beta=0.0)
  close(
    gradient(dapo, rollout, params, old), gradient(grpo, rollout, params, old)
  )


def test_dapo_punishes_length_before_it_compares():
  rollout = tabular_policy.rollout(p=1, s=3, t=7, ragged=False)
  lengths = jnp.array([[2, 4, 6]])
  rollout = rollout.replace(
    scores=jnp.ones((1, 3)),
    tokens=rollout.tokens.replace(
      mask=jnp.arange(7) < lengths[..., None], lengths=lengths
    ),
  )
  m = methods.get("dapo", max_length=6, cache=4)
  a, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  close(a, [[1, 0, -1]], atol=1e-5)


# Moving clips.


def ranges(schedule, phase):
  """1 - lower and 1 + upper bound at pi = .5 with lines of .1 and .5."""
  moving = flex_clip.moving_clip(
    (-0.3, 0.65), (-0.2, 0.2), 0.2, schedule == "did"
  )
  batch_rollout = types.Rollout(*[None] * 9, extras=types.Named({PHASE: phase}))
  named = types.Named({"log_probs": jnp.log(0.5)})

  def value(log_ratio, a):
    return moving.fn(
      jnp.float32(log_ratio), jnp.float32(a), named, batch_rollout
    )[0]

  return float(-value(-9.0, -1.0)), float(value(9.0, 1.0))


@pytest.mark.parametrize(
  ("schedule", "phase", "lower", "upper"),
  [
    ("id", 1.0, 0.2, 0.5),
    ("id", 0.5, 0.2, 0.35),
    ("id", 0.0, 0.1, 0.2),
    ("id", -0.5, 0.15, 0.2),
    ("id", -1.0, 0.2, 0.2),
    ("did", 1.0, 0.2, 0.2),
    ("did", 0.5, 0.2, 0.35),
    ("did", 0.0, 0.1, 0.5),
    ("did", -1.0, 0.2, 0.5),
    ("od", 1.0, 0.2, 0.5),
    ("od", 0.0, 0.1, 0.2),
  ],
)
def test_the_clip_range_follows_its_schedule(schedule, phase, lower, upper):
  close(ranges(schedule, phase), (1 - lower, 1 + upper))


def test_a_line_bounds_the_probability_in_closed_form():
  """pi / pi_old <= 1 + a pi + b is pi <= (1 + b) / (1 - a pi_old) pi_old."""
  a, b, old = -0.3, 0.4, 0.5
  edge = (1 + b) / (1 - a * old) * old
  moving = flex_clip.moving_clip((a, b), (-0.2, 0.3), 0.2, False)
  batch_rollout = types.Rollout(*[None] * 9, extras=types.Named({PHASE: 1.0}))

  def value(log_p):
    named = types.Named({"log_probs": log_p})
    return moving.fn(log_p - jnp.log(old), 1.0, named, batch_rollout)[0]

  close(jax.grad(value)(jnp.log(0.999 * edge)), 0.999 * edge / old)
  assert jax.grad(value)(jnp.log(1.001 * edge)) == 0


@pytest.mark.parametrize("schedule", flex_clip.SCHEDULES)
def test_flat_lines_are_ppo_clip(schedule):
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  flat = {"upper": (0.0, 0.2), "lower": (0.0, 0.2)}
  m = methods.get("flex_clip", schedule=schedule, **flat)
  base_term = terms.policy_gradient(surrogates.ppo_clip())
  ppo = dataclasses.replace(m, loss=base_term)
  close(gradient(m, rollout, params, old), gradient(ppo, rollout, params, old))


def test_phases_follow_time_and_entropy():
  rollout = tabular_policy.rollout()
  t = flex_clip.time_phase(10)
  for at, want in ((0, 1.0), (5, 0.0), (10, -1.0), (15, -1.0)):
    actual, _ = jax.jit(t.apply)(None, rollout.replace(step=jnp.array(at)), ())
    close(actual, want)
  moving = flex_clip.entropy_phase(10)
  state, key = moving.init(), "old/entropy"
  phases = []
  # H over H_0, at steps 0, 1, ...; the limit to let go is .2 + .8 (1 - t/10).
  for at, share in enumerate([1.0, 0.5, 0.19, 0.75, 0.7, 0.61, 0.3, 0.1]):
    entropy = jnp.full(rollout.mask.shape, 2.0 * share)
    here = rollout.replace(
      step=jnp.array(at), extras=types.Named({key: entropy})
    )
    phase, state = jax.jit(moving.apply)(None, here, state)
    phases.append(float(phase))
  assert phases == [0, 0, 1, 1, 0, 0, 0, 1]
  with pytest.raises(ValueError, match=r"'idd'.*did you mean"):
    methods.get("flex_clip", schedule="idd")


# Numerics of StableReinforce.


def test_without_outliers_it_is_ppo_on_whitened_scores():
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  m = methods.get("stable_reinforce")
  base_term = terms.policy_gradient(
    surrogates.ppo_clip(), aggregate=aggregates.seq_mean_token_mean()
  )
  ppo = method.Method(
    base_term, chain(transforms.scores(), transforms.whiten(1))
  )
  close(gradient(m, rollout, params, old), gradient(ppo, rollout, params, old))


def test_outliers_are_dropped_and_ten_samples_have_none():
  """(n - 1) / sqrt(n) is the largest of n z-scores: 2.85 for n = 10."""
  m = methods.get("stable_reinforce").advantage
  for n, dropped in ((10, False), (11, True)):
    rollout = tabular_policy.rollout(p=1, s=n, ragged=False)
    rollout = rollout.replace(scores=jnp.zeros((1, n)).at[0, 0].set(1.0))
    a, _ = jax.jit(m.apply)(None, rollout, m.init())
    assert (float(a[0, 0]) == 0) == dropped
    assert np.asarray(a[0, 1:]).all(), "the others keep theirs"
  hard = stable_reinforce.without_outliers(3.0)
  rollout = tabular_policy.rollout(p=1, s=5, ragged=False)
  a, _ = hard.apply(jnp.array([[3.1, -4, np.nan, 3, -2]]), rollout, ())
  close(a, [[0, 0, 0, 3, -2]])


def test_the_reward_of_a_judge_is_between_0_and_2():
  """Consistency adds nothing without the right verdict."""
  rollout = tabular_policy.rollout(p=1, s=4, ragged=False)
  parts = {
    "format": jnp.array([[1.0, 0, 1, 1]]),
    "verdict": jnp.array([[1.0, 0, 0, 1]]),
    "consistent": jnp.array([[1.0, 0, 1, 0]]),
  }
  rollout = rollout.replace(components=parts)
  source = chain(
    transforms.components(tuple(parts)), stable_reinforce.judge_reward()
  )
  reward, _ = jax.jit(source.apply)(None, rollout, source.init())
  close(reward, [[2, 0, 0.5, 1.5]])
  m = methods.get("stable_reinforce", parts=tuple(parts)).advantage
  a, _ = jax.jit(m.apply)(None, rollout, m.init())
  close(a, transforms.whiten(1).bind("sample").apply(reward, rollout, ())[0])
