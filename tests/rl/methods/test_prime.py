"""Implicit rewards and PRIME: the mathematics of one rollout."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import method_loss, methods, scoring
from rl.methods.process import implicit
from rl.transforms import accuracy_between, all_finished
from rl.update_plan import Plan

BETA = 0.05
OPEN = {"low": 0.0, "high": 1.0}  # no group is filtered by its accuracy


def scored(rollout, params, prm, ref):
  """The rollout with the results of PRIME's passes."""
  sources = {"old": params, "prm": prm, "ref": ref}
  needs = {scoring.Need(name, scoring.log_probs) for name in sources}
  return scoring.passes(tabular_policy.policy, sources, needs, rollout)


@functools.cache
def policy_program(**hyper):
  m = methods.get("prime", **hyper)["policy"]

  @jax.jit
  def program(rollout, prm, ref):
    batch, _, _ = method_loss.prepare(
      m, scored(rollout, ref, prm, ref), m.init()
    )
    return batch.signals[0], batch.masks[0]

  return program


@functools.cache
def prm_program(**hyper):
  m = methods.get("prime", **hyper)["prm"]

  @jax.jit
  def program(rollout, prm, ref):
    batch, scales, _ = method_loss.prepare(
      m, scored(rollout, prm, prm, ref), m.init()
    )
    return method_loss.gradient(
      m, tabular_policy.policy, prm, batch, scales, Plan()
    )

  return program


@jax.jit
def rewards_program(rollout, prm, ref):
  t = implicit.implicit_rewards()
  return jax.jit(t.apply)(None, scored(rollout, ref, prm, ref), t.init())[0]


def advantages(rollout, prm, ref, **hyper):
  return jax.tree.map(np.asarray, policy_program(**hyper)(rollout, prm, ref))


def loss_and_gradient(rollout, prm, ref, **hyper):
  """Metrics of the reward model's loss, and its gradient by position."""
  actual, tally = prm_program(**hyper)(rollout, prm, ref)
  return tally.merge(), np.asarray(actual["hidden"])


def rewards_of(rollout, prm, ref):
  return np.asarray(rewards_program(rollout, prm, ref))


def without_the_last(q, rollout):
  t = implicit.all_but_last()
  return np.asarray(t.apply(jnp.asarray(q), rollout, t.init())[0])


def finished(**kwargs):
  rollout = tabular_policy.rollout(**kwargs)
  return rollout.replace(finished=jnp.ones_like(rollout.finished))


def whitened_returns(rewards, mask):
  """Returns-to-go, then mean 0 and variance 1 (ddof 1) over the tokens."""
  returns = np.flip(np.cumsum(np.flip(rewards, -1), -1), -1)
  values = returns[mask]
  scaled = (returns - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)
  return np.where(mask, scaled, 0.0)


# The reward model.


def test_at_the_reference_the_reward_is_zero_and_the_loss_log_2():
  rollout, ref = finished(), tabular_policy.params(1)
  metrics, _ = loss_and_gradient(rollout, ref, ref, **OPEN)
  np.testing.assert_allclose(metrics["loss/total"], np.log(2), rtol=1e-6)
  assert not rewards_of(rollout, ref, ref).any()


def test_the_loss_of_a_log_ratio_of_2():
  """.64440 if right, .74440 if wrong, at beta = .05."""
  base = finished(p=1, s=2, t=4, k=1, ragged=False)
  mask = jnp.ones((1, 2, 4), bool)
  q = jnp.array([[[0.5, 1.0, -0.5, 1.0]]])
  for right, want in ((1, 0.64440), (0, 0.74440)):
    rollout = base.replace(
      tokens=base.tokens.replace(mask=mask),
      correct=jnp.full((1, 2), right, jnp.int8),
    )
    term = implicit.implicit_cross_entropy(BETA)
    extras = rollout.extras.update({"ref/log_probs": jnp.zeros((1, 2, 4))})
    named = extras.update({"log_probs": jnp.broadcast_to(q, (1, 2, 4))})
    actual, _ = term.fn(None, named, rollout.replace(extras=extras))
    np.testing.assert_allclose(actual, np.full((1, 2), want), atol=5e-6)


def test_the_gradient_is_that_of_a_logistic_regression():
  """beta (sigma(r) - y) / n at every token, by the log-probability."""
  rollout, prm, ref = (
    finished(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  _, g = loss_and_gradient(rollout, prm, ref, **OPEN)
  valid = np.asarray(rollout.valid("token"))
  r = BETA * rewards_of(rollout, prm, ref).sum(-1)
  right = np.asarray(rollout.correct) == 1
  n = np.asarray(rollout.sample_mask).sum()
  pull = BETA * (1 / (1 + np.exp(-r)) - right) / n
  p = jax.nn.softmax(prm["hidden"][..., : tabular_policy.V])
  chosen = np.eye(tabular_policy.V)[np.asarray(rollout.completions)]
  want = np.where(
    valid[..., None], pull[..., None, None] * (chosen - np.asarray(p)), 0
  )
  np.testing.assert_allclose(g[..., : tabular_policy.V], want, atol=1e-7)


def test_no_segmentation_changes_the_sum():
  """Rewards of steps, however segmented, add up to the r of the loss."""
  rollout, prm, ref = (
    finished(p=1, s=3, ragged=False),
    tabular_policy.params(1, p=1, s=3),
    tabular_policy.params(2, p=1, s=3),
  )
  q = rewards_of(rollout, prm, ref)
  wrong = rollout.replace(correct=jnp.zeros_like(rollout.correct))
  r = []
  for i in range(3):  # of a wrong sample alone the loss is softplus(r)
    alone = wrong.replace(sample_mask=jnp.arange(3)[None] == i)
    metrics, _ = loss_and_gradient(alone, prm, ref, **OPEN)
    r.append(np.log(np.expm1(np.float64(metrics["loss/total"]))))
  for seed in range(3):
    ids = np.random.default_rng(seed).integers(0, 4, q.shape)
    steps = [np.where(ids == k, q, 0).sum(-1) for k in range(4)]
    np.testing.assert_allclose(BETA * np.sum(steps, 0)[0], r, atol=1e-6)


def test_a_prefix_is_worth_its_soft_value():
  """phi ~ ref exp(R / beta) on a tree of 27 answers, by enumeration."""
  size, depth, beta = 3, 3, 0.5
  answers = np.array(list(itertools.product(range(size), repeat=depth)))
  reward = np.random.default_rng(0).uniform(0, 1, len(answers))
  weights = np.exp(reward / beta)
  soft = np.zeros((len(answers), depth + 1))  # E_ref[e^{R/beta} | prefix]
  law = np.zeros((len(answers), depth, tabular_policy.V + 1))
  law[..., :size] = 1.0  # uniform
  phi = law.copy()
  for i, answer in enumerate(answers):
    for t in range(depth + 1):
      same = (answers[:, :t] == answer[:t]).all(-1)
      soft[i, t] = weights[same].mean()
      for v in range(size if t < depth else 0):
        phi[i, t, v] = weights[same & (answers[:, t] == v)].sum()
  logits = [
    {"hidden": jnp.asarray(np.where(x > 0, np.log(np.maximum(x, 1e-30)), -1e9))}
    for x in (phi[None], law[None])
  ]
  base = finished(p=1, s=len(answers), t=depth, k=1, ragged=False)
  tokens = base.tokens.replace(
    completions=jnp.asarray(answers[None]),
    mask=jnp.ones((1, len(answers), depth), bool),
  )
  q = rewards_of(base.replace(tokens=tokens), *logits)
  got = beta * np.cumsum(q[0], -1)
  want = beta * (np.log(soft[:, 1:]) - np.log(soft[:, :1]))
  np.testing.assert_allclose(got, want, atol=2e-6)
  # At the end of an answer it is the reward itself, less a constant.
  assert np.ptp(got[:, -1] - reward) < 2e-6


def test_pairs_are_counted_within_groups():
  scores = jnp.array([[3.0, 2.0, 1.0, 9.0], [2.0, 1.0, 0.0, 0.0], [1, 2, 3, 4]])
  right = jnp.array([[1, 0, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]])
  valid = jnp.ones((3, 4), bool).at[0, 3].set(False)
  # 3 > 2 but 1 < 2; two won, one lost, one tied; no pair at all.
  np.testing.assert_allclose(
    implicit.pair_accuracy(scores, right, valid), [0.5, 0.625, 0.5]
  )


# The policy's advantage.


def test_the_process_baseline_worked_by_hand():
  """The mask ends the first sample after two tokens."""
  rewards = jnp.array([[0.1, 0.2, 7.0], [-0.1, 0.1, 0.3]])
  mask = jnp.array([[True, True, False], [True, True, True]])
  want = {
    "released": [[-0.05, 0.15, 0], [-0.45, -0.05, 0.35]],
    "paper": [[0, 0.1, 0], [-0.25, -0.05, 0.15]],
  }
  for form, expected in want.items():
    got = np.asarray(implicit.leave_one_out_tokens(rewards, mask, form))
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(got[0].sum(), 0.1, atol=1e-6)
  with pytest.raises(ValueError, match="did you mean 'released'"):
    implicit.leave_one_out_tokens(rewards, mask, "release")


@pytest.mark.parametrize("form", implicit.BASELINES)
def test_constant_token_rewards_get_the_leave_one_out_of_the_sample(form):
  rng = np.random.default_rng(0)
  mask = np.arange(5) < rng.integers(1, 6, (4, 1))
  level = rng.normal(size=(4, 1))
  got = implicit.leave_one_out_tokens(
    jnp.asarray(np.where(mask, level, 9.0)), jnp.asarray(mask), form
  )
  want = level - (level.sum() - level) / 3
  np.testing.assert_allclose(got, np.where(mask, want, 0), atol=1e-6)
  alone = implicit.leave_one_out_tokens(
    jnp.ones((1, 5)), jnp.ones((1, 5), bool), form
  )
  assert not np.asarray(alone).any()


def test_the_scale_of_the_rewards_cancels():
  rollout, prm, ref = (
    tabular_policy.rollout(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  t = implicit.divide_by_largest_return()
  q = jnp.asarray(rewards_of(rollout, prm, ref))
  one, large = (np.asarray(t.apply(c * q, rollout, ())[0]) for c in (1.0, 37.0))
  np.testing.assert_allclose(large, one, atol=2e-6)
  returns = np.flip(np.cumsum(np.flip(one, -1), -1), -1)
  np.testing.assert_allclose(np.abs(returns).max(), 1.0, atol=1e-5)


def test_the_last_scored_token_has_no_process_reward():
  rollout, prm, ref = (
    tabular_policy.rollout(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  q = rewards_of(rollout, prm, ref)
  got = without_the_last(q, rollout)
  last = np.asarray(rollout.scored_lengths) - 1
  is_last = np.arange(tabular_policy.T) == last[..., None]
  np.testing.assert_array_equal(got, np.where(is_last, 0, q))


@pytest.mark.parametrize("update", ["after", "before"])
def test_a_reward_model_at_its_reference_leaves_whitened_leave_one_out(update):
  """A process coefficient of 0 does the same with any reward model."""
  rollout, ref = finished(), tabular_policy.params(1)
  valid = np.asarray(rollout.valid("token"))
  members = np.asarray(rollout.sample_mask)
  right = (np.asarray(rollout.correct) == 1) & members
  n = members.sum(-1, keepdims=True)
  others = (right.sum(-1, keepdims=True) - right) / (n - 1)
  last = np.arange(tabular_policy.T) == valid.sum(-1, keepdims=True) - 1
  want = whitened_returns(
    np.where(last & valid, (right - others)[..., None], 0.0), valid
  )
  got, mask = advantages(rollout, ref, ref, update=update, **OPEN)
  np.testing.assert_array_equal(mask, valid)
  np.testing.assert_allclose(got, want, atol=2e-6)
  ignored, _ = advantages(
    rollout,
    tabular_policy.params(2),
    ref,
    update=update,
    process_coef=0.0,
    **OPEN,
  )
  np.testing.assert_array_equal(ignored, got)


def test_the_whole_advantage_against_the_loops_of_its_definition():
  rollout, prm, ref = (
    finished(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  q = without_the_last(rewards_of(rollout, prm, ref), rollout)
  valid = np.asarray(rollout.valid("token"))
  right = np.asarray(rollout.correct) == 1
  returns = np.flip(np.cumsum(np.flip(q, -1), -1), -1)
  process = q / (np.abs(returns).max() + 1e-6)
  rewards = np.zeros_like(q)
  for p in range(tabular_policy.P):
    group = [s for s in range(tabular_policy.S) if rollout.sample_mask[p, s]]
    n = len(group)
    means = {s: process[p, s][valid[p, s]].mean() for s in group}
    for s in group:
      end = np.flatnonzero(valid[p, s])[-1]
      share = n * process[p, s] / (n - 1) - sum(means.values()) / (n - 1)
      rewards[p, s] = np.where(valid[p, s], 2.5 * share, 0.0)
      others = [right[p, j] for j in group if j != s]
      rewards[p, s, end] += right[p, s] - np.mean(others)
  got, _ = advantages(rollout, prm, ref, process_coef=2.5, **OPEN)
  np.testing.assert_allclose(got, whitened_returns(rewards, valid), atol=5e-6)


def test_an_all_right_group_still_learns_from_the_process():
  rollout, prm, ref = (
    finished(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  rollout = rollout.replace(correct=jnp.ones_like(rollout.correct))
  got, mask = advantages(rollout, prm, ref, **OPEN)
  assert np.abs(got[mask]).min() > 0


# Who takes part.


def filtered(t, rollout):
  return worked_example.apply(t, rollout)


def test_groups_of_medium_accuracy_take_part():
  """One and four right of five are in; unknown verdicts do not count."""
  solved = np.array([0, 1, 3, 4, 5])
  correct = (np.arange(5) < solved[:, None]).astype(np.int8)
  rollout = tabular_policy.rollout(p=5, s=5, ragged=False)
  rollout = rollout.replace(correct=jnp.asarray(correct))
  in_group = filtered(accuracy_between(), rollout)
  np.testing.assert_array_equal(
    in_group.any(-1), [False, True, True, True, False]
  )
  np.testing.assert_array_equal(in_group.all(-1), in_group.any(-1))
  unknown = jnp.asarray(correct).at[:, 1:].set(-1)  # 0 or 1 of one
  assert not filtered(
    accuracy_between(), rollout.replace(correct=unknown)
  ).any()


def test_one_truncated_sample_drops_its_group_if_it_exists():
  rollout = tabular_policy.rollout(p=3, ragged=False)
  cut = (
    jnp.zeros((3, tabular_policy.S), bool).at[0, 1].set(True).at[1, 2].set(True)
  )
  rollout = rollout.replace(
    finished=~cut, sample_mask=jnp.ones_like(cut).at[1, 2].set(False)
  )
  in_group = filtered(all_finished(), rollout)
  np.testing.assert_array_equal(in_group.all(-1), [False, True, True])
  np.testing.assert_array_equal(in_group.any(-1), [False, True, True])


def test_dropped_groups_are_in_no_statistic():
  """They are not in the maximum, the whitening or the cross-entropy."""
  rollout, prm, ref = (
    finished(ragged=False),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  correct = jnp.asarray(
    np.tile([1, 0, 1, 0, 1, 0], (tabular_policy.P, 1)), jnp.int8
  )
  rollout = rollout.replace(correct=correct.at[0].set(1))
  got, mask = advantages(rollout, prm, ref)
  assert not mask[0].any()
  wild = {"hidden": prm["hidden"].at[0].mul(50.0)}
  same, _ = advantages(rollout, wild, ref)
  np.testing.assert_array_equal(same, got)
  metrics, g = loss_and_gradient(rollout, prm, ref)
  wild_metrics, wild_g = loss_and_gradient(rollout, wild, ref)
  assert not g[0].any()
  np.testing.assert_array_equal(wild_g, g)
  np.testing.assert_array_equal(
    wild_metrics["loss/total"], metrics["loss/total"]
  )


def test_an_unknown_verdict_is_no_label():
  rollout, prm, ref = (
    finished(),
    tabular_policy.params(1),
    tabular_policy.params(2),
  )
  unknown = rollout.replace(correct=rollout.correct.at[1, 0].set(-1))
  _, g = loss_and_gradient(unknown, prm, ref, **OPEN)
  assert not g[1, 0].any()
  assert g[1, 1].any()


def test_unknown_choices_are_refused():
  with pytest.raises(ValueError, match="did you mean 'after'"):
    methods.get("prime", update="aftr")
  with pytest.raises(ValueError, match="hyper-parameter of prime 'betta'"):
    methods.get("prime", betta=1.0)
