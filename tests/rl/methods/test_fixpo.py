"""FixPO: the weight of the KL, and that the trust region holds."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import tabular_policy

from rl import methods, step, training_state
from rl.methods.surrogates import fixpo
from rl.update_plan import Plan

EPS = 0.05


def trained(rollout, rate, plan=None, **hyper):
  """One step of SGD at a rate: parameters before and after, and metrics."""
  m, tx, params = (
    methods.get("fixpo", **hyper),
    optax.sgd(rate),
    tabular_policy.params(),
  )
  state = training_state.init(m, params, tx, jax.random.key(0))
  make = step.make(m, tabular_policy.policy, tx, plan or Plan())
  new, metrics = jax.jit(make)(state, rollout)
  return params, new.params, metrics


def largest_kl(old, new, rollout):
  """max over scored tokens of KL(pi_old || pi), over the whole vocabulary."""
  p, q = (
    jax.nn.log_softmax(x["hidden"][..., : tabular_policy.V]) for x in (old, new)
  )
  kl = jnp.sum(jnp.exp(p) * (p - q), -1)
  return float(jnp.max(jnp.where(rollout.valid("token"), kl, 0.0)))


def test_the_price_of_the_region_has_the_gradient_of_the_dual():
  """d/dbeta of beta (eps - 2 max KL): beta falls inside the region."""
  rollout = tabular_policy.rollout()
  ids = fixpo.top_token_ids("before", tabular_policy.V)
  p = jnp.log(jnp.array([0.5, 0.2, 0.1, 0.1, 0.1]))
  for shift, sign in ((0.0, -1), (2.0, 1)):
    q = jax.nn.log_softmax(p + shift * jnp.arange(5))
    shape = (*rollout.mask.shape, 5)
    extras = {
      str(fixpo.log_probs_at("before", ids)): jnp.broadcast_to(p, shape),
      str(fixpo.log_probs_at("old", ids)): jnp.broadcast_to(q, shape),
    }
    batch = rollout.replace(
      extras=rollout.extras.update(extras), step=jnp.int32(1)
    )
    t = fixpo.dual_variable(tabular_policy.V, 0.2, 2.0, 0.01, 1.0)
    beta, _ = jax.jit(t.apply)(None, batch, t.init())
    # Adam's first step has the size of its rate.
    np.testing.assert_allclose(beta, 1 + sign * 0.01, atol=1e-5)
    # Nothing has moved before the first step, and so does not the price.
    still, _ = jax.jit(t.apply)(
      None, batch.replace(step=jnp.int32(0)), t.init()
    )
    assert still == 1


def test_the_price_is_never_negative():
  rollout = tabular_policy.rollout()
  ids = fixpo.top_token_ids("before", 2)
  flat = jnp.full((*rollout.mask.shape, 2), -1.0)
  extras = {str(fixpo.log_probs_at(s, ids)): flat for s in ("before", "old")}
  batch = rollout.replace(
    extras=rollout.extras.update(extras), step=jnp.int32(1)
  )
  t = fixpo.dual_variable(2, 0.2, 2.0, 0.5, 1.0)
  state = t.init()
  for _ in range(5):
    beta, state = jax.jit(t.apply)(None, batch, state)
  assert beta == 0


def test_the_divergence_is_exact_on_the_whole_vocabulary_and_a_bound_on_part():
  rng = np.random.default_rng(0)
  p, q = (
    jax.nn.log_softmax(jnp.asarray(x)) for x in rng.normal(size=(2, 9, 6))
  )
  exact = jnp.sum(jnp.exp(p) * (p - q), -1)
  np.testing.assert_allclose(fixpo.divergence(p, q), exact, atol=1e-6)
  part = fixpo.divergence(p[:, :3], q[:, :3])
  assert (np.asarray(part) <= np.asarray(exact) + 1e-6).all()
  assert (np.asarray(part) >= -1e-6).all()
  np.testing.assert_allclose(fixpo.divergence(p, p), 0, atol=1e-6)


@pytest.mark.parametrize("minibatches", [1, 2])
def test_after_the_repairs_no_token_is_outside(minibatches):
  """Too long a step leaves the region; the further updates return to it."""
  rollout = tabular_policy.rollout(ragged=False)
  plan = Plan(minibatches=minibatches)
  rate = 60.0
  old, new, _ = trained(
    rollout, rate, plan, eps=EPS, k=tabular_policy.V, passes=0
  )
  assert largest_kl(old, new, rollout) > EPS
  old, new, metrics = trained(
    rollout, rate, plan, eps=EPS, k=tabular_policy.V, passes=200
  )
  assert 0 < metrics["phase/policy/kl_old_max_passes"] < 200
  assert largest_kl(old, new, rollout) <= EPS * 1.001


def test_a_batch_without_advantages_leaves_the_policy_where_it_is():
  rollout = tabular_policy.rollout().replace(
    scores=jnp.ones((tabular_policy.P, tabular_policy.S))
  )
  old, new, metrics = trained(rollout, 10.0)
  np.testing.assert_allclose(new["hidden"], old["hidden"], atol=1e-6)
  assert metrics["phase/policy/kl_old_max_passes"] == 1
