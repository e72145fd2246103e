"""FixPO: updates are repaired until the policy is inside a trust region.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from rl import masked
from rl.losses.terms import Term, policy_gradient, term
from rl.method import FurtherUpdates, Method
from rl.methods.surrogates.top_tokens import log_probs_at, top_token_ids
from rl.methods.surrogates.weights import importance_weighted
from rl.parameter_sets import previous
from rl.transforms import (
  Transform,
  chain,
  group_normalize,
  scores,
  transform,
)

Array = jax.Array


def divergence(p: Array, q: Array) -> Array:
  """KL(p || q), `[..., k] -> [...]`, with all other tokens counted as one.

  It is exact if the k tokens are the vocabulary, and a lower bound otherwise.

  Args:
    p, q: `[..., k]` log-probs of the same tokens.
  """
  listed = jnp.sum(jnp.exp(p) * (p - q), -1)
  other_p = 1 - jnp.exp(p).sum(-1)
  # The bounds keep the logarithms finite against rounding error.
  other_q = jnp.clip(1 - jnp.exp(q).sum(-1), 1e-7, 1.0)
  has_others = other_p > 1e-6
  other_p = jnp.where(has_others, other_p, 1.0)
  others = other_p * (jnp.log(other_p) - jnp.log(other_q))
  return listed + jnp.where(has_others, others, 0.0)


def old_divergence(k: int) -> Term:
  """The mean over tokens of KL(pi_old || pi); its maximum is a metric."""
  ids = top_token_ids("old", k)
  old, new = log_probs_at("old", ids), log_probs_at("policy", ids)

  @term(takes="none", gives="token", needs={ids, old, new})
  def kl_from_old(_, policy, rollout):  # -> [P, S, T]
    value = divergence(rollout.extras[old], policy[new.probe])
    return value, {"policy/kl_old_max": value}

  return kl_from_old()


def dual_variable(
  k: int, eps: float, safety: float, rate: float, start: float
) -> Transform:
  """The weight beta >= 0 of the KL: Adam on beta (eps - safety max KL).

  The KL is that of the parameters before the last step from those after it, on
  the present rollout; max is over its tokens. beta thus grows while the KL
  exceeds eps / safety. The arguments are those of `fixpo`, with its beta as
  `start`.
  """
  ids = top_token_ids("before", k)
  before, now = log_probs_at("before", ids), log_probs_at("old", ids)
  adam = optax.adam(rate)

  @transform(
    takes="none",
    gives="scalar",
    init=lambda: {
      "beta": jnp.float32(start),
      "adam": adam.init(jnp.float32(start)),
    },
    needs={ids, before, now},
  )
  def trust_region_price(_, rollout, state):
    kl = divergence(rollout.extras[before], rollout.extras[now])  # [P, S, T]
    valid = rollout.valid("token")
    largest = jnp.maximum(masked.max(kl, valid, (0, 1, 2)), 0.0)
    step, new_adam = adam.update(eps - safety * largest, state["adam"])
    beta = jnp.maximum(state["beta"] + step, 0.0)
    new_state = {"beta": beta, "adam": new_adam}
    # Before the first step the parameters have not moved.
    is_first = rollout.step == 0
    new_state = jax.tree.map(
      lambda a, b: jnp.where(is_first, a, b), state, new_state
    )
    return new_state["beta"], new_state

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
  """Ascends rho A - beta KL(pi_old || pi), then repairs tokens with KL > eps.

  rho [P, S, T] is the importance ratio of a token and A the z-score of a
  sample's score in its group. After the updates of a rollout its minibatches
  are visited again, at most `passes` times, until no token has a KL above eps;
  a minibatch with such a token is updated on, with its mean KL as the loss. The
  KL is over the `k` most likely tokens, with all others as one.
  Deviations: group z-scores take the place of the value function; beta changes
  once per rollout, by the KL of the step before, and does not scale the repairs
  (Adam would undo it).
  Source: Zentner et al. 2023, Guaranteed Trust Region Optimization via
  Two-Phase KL Penalization.

  Args:
    eps: largest KL of a token, in nats.
    safety: factor of the KL in the update of beta; 2 in the released code.
    rate: learning rate of beta under Adam.
    beta: first weight of the KL, a dual variable.
    k: number of tokens of the KL.
    passes: largest number of passes of repairs.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(importance_weighted())
    + dual_variable(k, eps, safety, rate, beta) * old_divergence(k),
    parameter_sets=(("before", previous()),),
    further_updates=(
      FurtherUpdates(old_divergence(k), "policy/kl_old_max", eps, passes),
    ),
  )
