"""A trust region that is kept: updates are repaired until they are inside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from rl import masked
from rl.losses.terms import Term, policy_gradient, term
from rl.method import FurtherUpdates, Method
from rl.methods.surrogates.top_tokens import at, likeliest
from rl.methods.surrogates.weights import importance_weighted
from rl.parameter_sets import previous
from rl.transforms import chain, group_normalize, scores, transform

Array = jax.Array


def divergence(p: Array, q: Array) -> Array:
  """KL(p || q), `[..., k] -> [...]`: the tokens given, and the others as one.

  Exact where k is the vocabulary, a lower bound else.

  Args:
    p, q: log-probs of the same tokens.
  """
  inside = jnp.sum(jnp.exp(p) * (p - q), -1)
  rest = 1 - jnp.exp(p).sum(-1)
  left = jnp.clip(1 - jnp.exp(q).sum(-1), 1e-7, 1.0)
  some = rest > 1e-6
  rest = jnp.where(some, rest, 1.0)
  return inside + jnp.where(some, rest * (jnp.log(rest) - jnp.log(left)), 0.0)


def old_divergence(k: int) -> Term:
  """The mean over tokens of KL(pi_old || pi); its largest is a metric."""
  ids = likeliest("old", k)
  old, new = at("old", ids), at("policy", ids)

  @term("none", "token", needs={ids, old, new})
  def kl_from_old(_, policy, rollout):
    value = divergence(rollout.extras[old], policy[new.probe])
    return value, {"policy/kl_old_max": value}

  return kl_from_old()


def dual(k: int, eps: float, safety: float, rate: float, start: float):
  """beta >= 0, which descends beta (eps - safety max KL) with Adam.

  The KL is that of the last step's parameters from those before, on this
  rollout: the largest over its tokens.
  """
  ids = likeliest("before", k)
  before, now = at("before", ids), at("old", ids)
  adam = optax.adam(rate)

  @transform(
    "none",
    "scalar",
    init=lambda: {
      "beta": jnp.float32(start),
      "adam": adam.init(jnp.float32(start)),
    },
    needs={ids, before, now},
  )
  def trust_region_price(_, rollout, state):
    kl = divergence(rollout.extras[before], rollout.extras[now])
    real = rollout.valid("token")
    largest = jnp.maximum(masked.max(kl, real, (0, 1, 2)), 0.0)
    step, new = adam.update(eps - safety * largest, state["adam"])
    beta = jnp.maximum(state["beta"] + step, 0.0)
    moved = {"beta": beta, "adam": new}
    first = rollout.step == 0  # nothing has been taken yet
    moved = jax.tree.map(lambda a, b: jnp.where(first, a, b), state, moved)
    return moved["beta"], moved

  return trust_region_price()


def fixpo(
  eps: float = 0.2,
  safety: float = 2.0,
  rate: float = 0.01,
  beta: float = 1.0,
  k: int = 8,
  passes: int = 20,
  ddof: int = 1,
) -> Method:
  """rho A - beta KL(pi_old || pi), then repairs until every token's KL <= eps.

  After the updates of a rollout, its minibatches are visited until none holds a
  token with a KL above eps: those that do are stepped on with their mean KL, at
  most `passes` times. beta is a dual variable (Adam, rate .01; safety 2 in the
  released code). The KL is of the `k` likeliest tokens and the rest as one.
  Deviations: group z-scores for the value function; the price beta moves once a
  rollout, by the KL of the step before, and does not scale the repairs (Adam
  would undo it).
  Source: Zentner et al. 2023, Guaranteed Trust Region Optimization via
  Two-Phase KL Penalization.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(importance_weighted())
    + dual(k, eps, safety, rate, beta) * old_divergence(k),
    parameter_sets=(("before", previous()),),
    further_updates=(
      FurtherUpdates(old_divergence(k), "policy/kl_old_max", eps, passes),
    ),
  )
