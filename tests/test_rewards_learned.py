"""Rewards that something has to learn: labels, heads, weights, flows."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import behavior_alignment, flow, principles, t_reg, transfer
from rewards.process import dual_head, labels, losses, soft_values

# ER-PRM.


def test_the_cards_log_expectations():
  """ok = [1, 1, 1, 0]: eta 1, 0, 50 and -50."""
  found = [float(soft_values.log_mean_exp(0.75, e)) for e in (1, 0, 50, -50)]
  np.testing.assert_allclose(
    found, [0.827989, 0.75, 0.994246, 0.027726], atol=2e-6
  )


@pytest.mark.parametrize("eta", [-30.0, -1.0, 1e-4, 2.0, 80.0])
def test_log_expectations_are_those_of_all_outcomes(eta):
  for ok in itertools.product([0.0, 1.0], repeat=4):
    mean = np.mean(np.exp(eta * np.array(ok, np.float64)))
    found = soft_values.log_mean_exp(np.mean(ok), eta)
    np.testing.assert_allclose(found, np.log(mean) / eta, atol=2e-6)


def test_a_larger_eta_hopes_for_more():
  rates = np.linspace(0, 1, 5)
  found = [
    soft_values.log_mean_exp(rates, e) for e in (-80, -5, -1, 0, 1, 5, 80)
  ]
  assert (np.diff(np.stack(found), axis=0) >= -1e-6).all()
  assert (np.stack(found)[:, [0, -1]] == [0, 1]).all()  # all wrong, all right
  with pytest.raises(ValueError, match="nearest: 80"):
    soft_values.log_mean_exp(0.5, 100.0)


def test_the_last_step_is_labelled_by_the_verdict():
  successes = jnp.ones((1, 3, 3, 4), bool).at[..., 0].set(False)
  mask = jnp.array([[[1, 1, 1], [1, 1, 0], [1, 0, 0]]], bool)
  correct = jnp.array([[1, 0, -1]])
  found = soft_values.entropy_regularized(successes, mask, correct, 1.0)
  v = 0.827989
  expected = [[[v, v, 1], [v, 0, 0], [0, 0, 0]]]
  np.testing.assert_allclose(found.values, expected, atol=2e-6)
  np.testing.assert_array_equal(
    found.weights, [[[1, 1, 1], [1, 1, 0], [0, 0, 0]]]
  )
  plain = soft_values.entropy_regularized(successes, mask, correct, 0.0)
  soft = labels.soft_labels(successes, mask)
  np.testing.assert_allclose(plain.values[0, 0, :2], soft.values[0, 0, :2])


# DuaShepherd.


def test_a_compound_score_asks_for_both():
  logits = jnp.log(jnp.array([[3.0, 1.0], [1.0, 4.0]]))
  np.testing.assert_allclose(
    dual_head.compound(logits), [0.375, 0.4], rtol=1e-6
  )
  sure = jnp.array([[1e4, 0.3], [0.3, -1e4]])
  np.testing.assert_allclose(
    dual_head.compound(sure), [jax.nn.sigmoid(0.3), 0], rtol=1e-6
  )


def test_both_heads_learn_their_own_labels():
  rng = np.random.default_rng(0)
  logits, y = rng.normal(size=(6, 2)), rng.random((6, 2))
  weights = np.ones((6, 2))
  weights[2:, 1] = 0  # few labels of potential
  logits[3, 1] = np.nan
  found, slope = jax.value_and_grad(dual_head.loss)(
    jnp.asarray(logits), jnp.asarray(y), jnp.asarray(weights)
  )
  one = losses.soft_label_bce(
    *(jnp.asarray(x[:, 0]) for x in (logits, y, weights))
  )
  two = losses.soft_label_bce(
    *(jnp.asarray(x[:2, 1]) for x in (logits, y, weights))
  )
  np.testing.assert_allclose(found, one + two, rtol=1e-6)
  assert not slope[2:, 1].any()
  np.testing.assert_allclose(
    slope[:2, 1], (1 / (1 + np.exp(-logits[:2, 1])) - y[:2, 1]) / 2, rtol=1e-5
  )


# RLBFF.


def test_log_odds_are_those_of_yes_against_no():
  logits = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3, 6)))
  odds = principles.log_odds(logits, 2, 5)
  p = jax.nn.softmax(logits, -1)
  np.testing.assert_allclose(
    jax.nn.sigmoid(odds), p[..., 2] / (p[..., 2] + p[..., 5]), rtol=1e-5
  )
  np.testing.assert_array_equal(principles.log_odds(jnp.zeros(6), 2, 5), 0)
  np.testing.assert_allclose(odds, -principles.log_odds(logits, 5, 2))
  asked = jnp.array([True, False, True])
  asked = jnp.broadcast_to(asked, odds.shape)
  found = principles.mean_log_odds(logits, 2, 5, asked)
  np.testing.assert_allclose(found, odds[:, [0, 2]].mean(-1), rtol=1e-5)
  nobody = principles.mean_log_odds(logits, 2, 5, jnp.zeros_like(asked))
  np.testing.assert_array_equal(nobody, 0)


def test_the_weakness_of_principles_is_the_one_that_is_easy_to_please():
  """One Yes beyond doubt outweighs two that are missed."""
  modest = jnp.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
  flatterer = jnp.array([[12.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
  scores = [principles.mean_log_odds(x, 0, 1) for x in (modest, flatterer)]
  assert scores[1] > scores[0] > 0


# Transfer.


def test_the_receivers_success_is_added():
  correct = jnp.array([1, 0, 1, 0])
  continued = jnp.array([[1, 1], [1, 0], [-1, 0], [-1, -1]])
  found = transfer.transferred(correct, continued, 0.5)
  np.testing.assert_allclose(found, [1.5, 0.25, 1.0, 0.0])
  plain = transfer.transferred(correct, continued, 0.0, 0.1 * correct)
  np.testing.assert_allclose(plain, 1.1 * correct)


def test_a_receiver_that_is_shown_all_pays_the_verdict():
  correct = jnp.array([1, 0, 1])
  found = transfer.transferred(correct, correct[:, None])
  np.testing.assert_array_equal(found, 2 * correct)


def test_transfer_s_null_audit():
  """Below a weight of 1 a wrong answer never wins, whatever the receiver does;
  its weakness: no thought at all earns what the receiver can do alone."""
  outcomes = jnp.array(list(itertools.product([0, 1], repeat=3)))
  right = transfer.transferred(jnp.ones(8), outcomes, 0.9)
  wrong = transfer.transferred(jnp.zeros(8), outcomes, 0.9)
  assert right.min() > wrong.max()
  empty = transfer.transferred(jnp.array([0]), jnp.array([[1, 1, 0, 1]]))
  np.testing.assert_allclose(empty, 0.75)


def test_the_receiver_is_not_shown_the_answer():
  lengths = jnp.array([10, 10, 10])
  fractions = jnp.array([0.0, 0.55, 1.0])
  np.testing.assert_array_equal(
    transfer.kept_tokens(lengths, fractions), [0, 5, 10]
  )
  found = transfer.kept_tokens(lengths, fractions, jnp.array([8, 3, 8]))
  np.testing.assert_array_equal(found, [0, 3, 8])
  found = transfer.kept_tokens(lengths, fractions, jnp.array([-1, -1, 0]))
  np.testing.assert_array_equal(found, [0, 5, 0])  # not stated, and at once


# BARFI: a bandit of two arms, an auxiliary reward that likes the wrong one.

REWARDS = jnp.array([[0.0, 1.0], [1.0, 0.0]])  # primary, auxiliary


def value(theta, which):
  return jax.nn.softmax(theta) @ REWARDS[which]


def test_one_unrolled_step_is_the_finite_difference():
  theta, rate = jnp.array([0.3, -0.2]), 0.7
  components = jnp.stack([jax.grad(value)(theta, c) for c in range(2)])

  def outer(phi):
    return value(theta + rate * phi @ components, 0)

  phi, h = jnp.array([0.6, 0.9]), 1e-2
  primary = jax.grad(value)(theta + rate * phi @ components, 0)
  found = behavior_alignment.outer_gradient(
    {"theta": primary}, {"theta": components}, rate
  )
  for c in range(2):
    step = h * jnp.eye(2)[c]
    slope = (outer(phi + step) - outer(phi - step)) / (2 * h)
    np.testing.assert_allclose(found[c], slope, rtol=1e-3)


def test_a_misleading_reward_loses_its_weight():
  theta, phi = jnp.zeros(2), jnp.array([1.0, 1.5])
  seen = [phi]
  for _ in range(40):
    components = jnp.stack([jax.grad(value)(theta, c) for c in range(2)])
    theta = theta + phi @ components
    primary = jax.grad(value)(theta, 0)
    phi = behavior_alignment.next_weights(phi, primary, components, 1.0)
    seen.append(phi)
  aux = np.stack(seen)[:, 1]
  assert (np.diff(aux) < 0).all()
  assert phi[0] > phi[1]
  assert value(theta, 0) > 0.5  # it began by preferring the wrong arm
  still = behavior_alignment.next_weights(phi, jnp.zeros(2), components)
  np.testing.assert_array_equal(still, phi)  # no primary signal


def test_a_reward_that_misleads_every_time_is_turned_round():
  """Each inner step starts afresh, as on new prompts: the conflict lasts."""
  phi = jnp.array([1.0, 1.5])
  start = jnp.zeros(2)
  components = jnp.stack([jax.grad(value)(start, c) for c in range(2)])
  for _ in range(40):
    primary = jax.grad(value)(start + phi @ components, 0)
    phi = behavior_alignment.next_weights(phi, primary, components, 1.0)
  assert phi[1] < 0 < phi[0]
  assert value(start + phi @ components, 0) > 0.5


# T-REG.


def pairs():
  """Log-probs, those of the reference, rewards and mask, `[4, 2, 5]`."""
  rng = np.random.default_rng(2)
  mask = jnp.asarray(np.arange(5) < rng.integers(1, 6, (4, 2, 1)))
  logs = jnp.asarray(-rng.exponential(size=(4, *mask.shape)), jnp.float32)
  return logs[0], logs[1], t_reg.token_rewards(logs[2], logs[3], mask), mask


def test_tokens_are_rewarded_by_what_either_prompt_makes_of_them():
  better = jnp.log(jnp.array([0.8, 0.5, 0.2]))
  worse = jnp.log(jnp.array([0.2, 0.5, 0.8]))
  mask = jnp.array([True, True, True])
  found = t_reg.token_rewards(better, worse, mask)
  np.testing.assert_allclose(found, [0.3, 0, -0.3], atol=1e-6)
  np.testing.assert_allclose(
    t_reg.token_rewards(worse, better, mask), -found, atol=1e-6
  )


def test_the_regularisers_slope_is_minus_beta_r():
  log_probs, _, rewards, mask = pairs()
  slope = jax.grad(lambda x: t_reg.regularizer(x, rewards, mask, 0.3).sum())(
    log_probs
  )
  np.testing.assert_allclose(slope, -0.3 * rewards, rtol=1e-6)
  assert not slope[~np.asarray(mask)].any()


def test_without_the_regulariser_it_is_dpo():
  log_probs, references, rewards, mask = pairs()
  gap = np.where(mask, np.asarray(log_probs - references), 0).sum(-1)
  margin = 0.2 * (gap[:, 0] - gap[:, 1])
  dpo = np.log1p(np.exp(-margin))
  found = t_reg.regularized_dpo(*pairs(), 0.2, alpha=0.0)
  np.testing.assert_allclose(found, dpo, rtol=1e-5)
  silent = log_probs, references, jnp.zeros_like(rewards), mask
  found = t_reg.regularized_dpo(*silent, 0.2)
  np.testing.assert_allclose(found, dpo, rtol=1e-5)
  regular = -0.2 * np.asarray(rewards * log_probs).sum((-2, -1))
  found = t_reg.regularized_dpo(*pairs(), 0.2, alpha=0.5)
  expected = dpo + 0.5 * regular / (1 + np.exp(margin))
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_pairs_that_are_told_apart_are_left_alone():
  log_probs, _, rewards, mask = pairs()
  far = log_probs.at[:, 0].add(-1e3)  # the chosen ones have risen by 1000

  def value(x):
    return t_reg.regularized_dpo(x, far, rewards, mask).sum()

  np.testing.assert_array_equal(jax.grad(value)(log_probs), 0)


# RLFR.


def test_a_perfect_field_finds_nothing_amiss(monkeypatch):
  """Where every state is the same, the right velocity is (h - x) / (1 - t)."""
  h = jnp.array([0.5, -1.0, 2.0])

  def perfect(field, x, time, before):
    return (h - x) / (1 - time[..., None])

  states = jnp.broadcast_to(h, (2, 4, 3))
  mask = jnp.ones((2, 4), bool).at[0, 3].set(False)
  key = jax.random.key(0)
  monkeypatch.setattr(flow, "velocity", perfect)
  near = flow.score([], states, states, mask, key)
  np.testing.assert_allclose(near, 0, atol=1e-8)
  off = flow.score([], states + 1.0, states, mask, key)
  # v - (h' - noise) = (h - h') / (1 - t) = -5 at t = .8, weighed t / (1 - t).
  np.testing.assert_allclose(off[np.asarray(mask)], 4 * 5.0**2, rtol=1e-4)
  assert off[0, 3] == 0


def test_a_field_learns_the_states_it_is_shown():
  rng = np.random.default_rng(5)
  size = 2
  states = jnp.asarray([1.0, -1.0] + 0.05 * rng.normal(size=(8, 4, size)))
  states = states.astype(jnp.float32)
  mask = jnp.ones((8, 4), bool)
  before = jnp.zeros_like(states)
  field = flow.init(jax.random.key(0), size, width=32)

  @jax.jit
  def step(field, key):
    slope = jax.grad(flow.matching_loss)(field, states, before, mask, key)
    return jax.tree.map(lambda p, g: p - 0.05 * g, field, slope)

  for key in jax.random.split(jax.random.key(1), 500):
    field = step(field, key)
  key = jax.random.key(2)
  known = flow.score(field, states, before, mask, key)
  strange = flow.score(field, -states, before, mask, key)
  assert strange.min() > known.max()
  dirty = jnp.where((jnp.arange(4) < 2)[:, None], states, jnp.nan)
  part = jnp.broadcast_to(jnp.arange(4) < 2, (8, 4))
  slope = jax.grad(flow.matching_loss)(field, dirty, dirty, part, key)
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))


def test_few_tokens_are_charged_and_only_those_far_off():
  rng = np.random.default_rng(6)
  scores = rng.exponential(size=(30, 12))
  mask = rng.random((30, 12)) < 0.8
  mask[0] = False
  scores[1] = 3.0
  dirty = jnp.asarray(np.where(mask, scores, np.nan))
  found = flow.token_rewards(dirty, jnp.asarray(mask), 0.01, 0.3, 2)
  for s, m, r in zip(scores, mask, found, strict=True):
    expected = np.zeros(12)
    if m.any() and s[m].max() > s[m].min():
      u = (s - s[m].min()) / (s[m].max() - s[m].min())
      best = sorted(np.flatnonzero(m), key=lambda t: -u[t])[:2]
      expected[[t for t in best if u[t] > 0.3]] = 1
      expected = -0.01 * expected * u
    np.testing.assert_allclose(r, expected, atol=1e-7)
  nothing = flow.token_rewards(dirty, jnp.asarray(mask), coef=0.0)
  np.testing.assert_array_equal(nothing, 0)


def test_a_field_is_told_what_came_before_whoever_wrote_it():
  """The state before the first token of an answer is read, and told apart."""
  field = flow.init(jax.random.key(0), 2, width=8)
  states = jnp.ones((1, 4, 2))
  mask = jnp.array([[False, True, True, False]])
  key = jax.random.key(1)
  before = jnp.full((1, 4, 2), jnp.nan).at[:, 1:3].set(0.5)
  plain = flow.score(field, states, before, mask, key)
  other = flow.score(field, states, before.at[:, 1].set(-2.0), mask, key)
  assert np.isfinite(plain).all()
  np.testing.assert_array_equal(plain[0] != other[0], [0, 1, 0, 0])
