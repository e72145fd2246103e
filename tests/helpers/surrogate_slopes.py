"""Slopes of tokens and gradients of losses, for tests of surrogates."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import tabular_policy
from rl import method, method_loss, scoring, transforms, types
from rl.losses import surrogates, terms
from rl.update_plan import Plan

OLD = scoring.Need("old", scoring.log_probs)


def close(a, b, atol=1e-6, rtol=1e-5):
  np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=atol, rtol=rtol)


def drifted(scale=1.0):
  """The free policy's parameters, and others at some distance."""
  now, then = (
    tabular_policy.params(0)["hidden"],
    tabular_policy.params(1)["hidden"],
  )
  return {"hidden": now}, {"hidden": now + scale * (then - now)}


def gradient(m, rollout, params, old=None, state=None):
  """The gradient of the whole method's loss at every position's logits."""
  policy, needs = tabular_policy.policy, method_loss.required(m, updates=2)

  @jax.jit
  def compute(params, old, rollout, state):
    scored = scoring.passes(policy, {"old": old}, needs, rollout)
    batch, scales, _ = method_loss.prepare(m, scored, state)
    return method_loss.gradient(m, policy, params, batch, scales, Plan())[0]

  old = params if old is None else old
  state = m.init() if state is None else state
  result = compute(params, old, rollout, state)
  return np.asarray(result["hidden"][..., : tabular_policy.V])


@transforms.transform(takes="none", gives="sample")
def signs(_, rollout):
  """Advantages of both signs, of several sizes."""
  return rollout.scores - 0.4


def bare(surrogate, aggregate=None, factor=1.0, prepared=(), **kwargs):
  """A method that is that surrogate and nothing else."""
  loss = terms.policy_gradient(surrogate, aggregate=aggregate, **kwargs)
  return method.Method(loss, factor * signs(), prepared=prepared)


def score_function(rollout, params, aggregate):
  """The gradient of - aggregate(A log pi)."""
  return gradient(bare(surrogates.reinforce(), aggregate), rollout, params)


def slopes(surrogate, log_ratio, advantages):
  """Value and slope in the log-ratio of single tokens, `[N]`."""

  def one(x, a):
    value = surrogate.fn(x, a, types.Named({"log_probs": x}), None)
    return value[0] if isinstance(value, tuple) else value

  result = jax.vmap(jax.value_and_grad(one))
  return result(jnp.float32(log_ratio), jnp.float32(advantages))
