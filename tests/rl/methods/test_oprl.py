"""OPRL: turns are rewarded by a model that learns which samples are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from rl import advantages, masked, method_loss, methods, types
from rl.methods.process import oprl

OLD, PRM = "old/log_probs", "prm/log_probs"


def scored(seed=0, **changes):
  """A random rollout with both passes; the PRM differs from the policy."""
  rollout = tabular_policy.rollout(seed, p=3)
  rng = np.random.default_rng(seed)
  shape = rollout.mask.shape
  old, prm = (jnp.asarray(-rng.exponential(size=shape)) for _ in range(2))
  extras = rollout.extras.update({OLD: old, PRM: prm, **changes})
  return rollout.replace(extras=extras)


def advantage(rollout, **hyper):
  m = methods.get("oprl", **hyper)["policy"]
  actual = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())[0]
  return np.where(rollout.valid("token"), actual, 0)


def outcome(rollout):
  actual = advantages.leave_one_out(rollout.scores, rollout.sample_mask)
  return np.where(rollout.valid("token"), np.asarray(actual)[..., None], 0)


def test_without_the_process_it_is_leave_one_out():
  rollout = scored()
  np.testing.assert_allclose(
    advantage(rollout, process_coef=0.0), outcome(rollout), atol=1e-6
  )


def test_a_model_at_the_policy_adds_nothing():
  rollout = scored()
  rollout = scored(**{PRM: rollout.extras[OLD]})
  np.testing.assert_allclose(advantage(rollout), outcome(rollout), atol=1e-6)


def test_steps_collect_the_log_ratio_of_the_whole():
  rollout = scored()
  t = oprl.implicit_step_rewards(0.05)
  steps = jax.jit(t.apply)(None, rollout, t.init())[0]
  gap = rollout.extras[PRM] - rollout.extras[OLD]
  want = 0.05 * masked.sum(gap, rollout.valid("token"))
  np.testing.assert_allclose(
    masked.sum(steps, rollout.valid("step")), want, atol=1e-6
  )


def test_the_whole_advantage_against_the_loops_of_its_definition():
  rollout = scored(1)
  gap = np.asarray(rollout.extras[PRM] - rollout.extras[OLD])
  ids, mask = np.asarray(rollout.step_ids), np.asarray(rollout.valid("token"))
  expected = outcome(rollout)
  for p in range(3):
    turns = {
      (i, k): 0.05 * gap[p, i][mask[p, i] & (ids[p, i] == k)].sum()
      for i in range(tabular_policy.S)
      for k in set(ids[p, i][mask[p, i]])
    }
    for (i, k), reward in turns.items():
      others = [r for (j, _), r in turns.items() if j != i]
      here = mask[p, i] & (ids[p, i] == k)
      expected[p, i][here] += 2.0 * (reward - np.mean(others))
  actual = advantage(rollout, process_coef=2.0)
  np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_a_group_of_one_has_no_advantage():
  rollout = scored()
  alone = rollout.sample_mask & (jnp.arange(tabular_policy.S) == 0)
  rollout = rollout.replace(sample_mask=alone)
  t = oprl.minus_others_pooled_mean()
  actual, _ = t.apply(
    jnp.ones((3, tabular_policy.S, tabular_policy.K)), rollout, t.init()
  )
  np.testing.assert_array_equal(actual, 0)


def loss(rollout, log_probs, beta=0.5):
  m = methods.get("oprl", beta=beta)["prm"]
  batch, _, _ = method_loss.prepare(m, rollout, m.init())
  coef = method_loss.aggregation_weights(m, batch)[0]
  batch_rollout = batch.rollout.replace(
    tokens=batch.rollout.tokens.replace(mask=batch.masks[0])
  )
  value = m.loss.terms[0].fn(
    None, types.Named({"log_probs": log_probs}), batch_rollout
  )
  return jnp.sum(jnp.where(coef != 0, value, 0.0) * coef)


def test_the_model_learns_pairs_of_right_and_wrong():
  """-log sigma(Q_i - Q_j) over such pairs, by loops; no other pairs."""
  rollout = tabular_policy.rollout(2, p=3, garbage=np.nan)
  rollout = rollout.replace(correct=rollout.correct.at[1].set(1))  # all right
  rng = np.random.default_rng(0)
  log_probs = -rng.exponential(size=rollout.mask.shape)
  mask, ids = np.asarray(rollout.valid("token")), np.asarray(rollout.step_ids)
  gap = log_probs - np.asarray(rollout.behavior_log_probs)
  per_prompt = []
  for p in (0, 2):
    q = {
      i: 0.5 * gap[p, i][mask[p, i]].sum() / len(set(ids[p, i][mask[p, i]]))
      for i in range(tabular_policy.S)
      if mask[p, i].any()
    }
    correct = np.asarray(rollout.correct[p])
    pairs = [
      np.log1p(np.exp(q[j] - q[i]))
      for i in q
      for j in q
      if correct[i] == 1 and correct[j] == 0
    ]
    per_prompt.append(np.mean(pairs))
  value, slope = jax.value_and_grad(lambda x: loss(rollout, x))(
    jnp.asarray(log_probs, jnp.float32)
  )
  np.testing.assert_allclose(value, np.mean(per_prompt), rtol=1e-5)
  assert np.isfinite(slope).all()
  assert not slope[1].any()
  sign = np.where(np.asarray(rollout.correct)[..., None] == 1, -1, 1)
  sign = np.broadcast_to(sign, mask.shape)[[0, 2]]
  np.testing.assert_array_equal(
    np.sign(slope)[[0, 2]], np.where(mask[[0, 2]], sign, 0)
  )


def test_tokens_of_no_step_have_no_part():
  """They are in no preference of the model and in no reward of a turn."""
  rollout = tabular_policy.rollout(2, p=3, ragged=False)
  first = jnp.arange(tabular_policy.T) == 0
  rollout = rollout.replace(step_ids=jnp.where(first, -1, rollout.step_ids))
  log_probs = -np.random.default_rng(0).exponential(size=rollout.mask.shape)
  log_probs = jnp.asarray(log_probs, jnp.float32)
  before = loss(rollout, log_probs)
  moved = jnp.where(first, log_probs - 9.0, log_probs)
  np.testing.assert_array_equal(loss(rollout, moved), before)
  slope = jax.grad(lambda x: loss(rollout, x))(log_probs)
  assert not slope[..., 0].any()
  assert slope[..., 1].any()


def test_a_task_without_steps_is_named():
  rollout = scored().replace(step_ids=None, step_mask=None)
  t = oprl.implicit_step_rewards(0.05)
  with pytest.raises(ValueError, match="no steps"):
    jax.jit(t.apply)(None, rollout, t.init())
