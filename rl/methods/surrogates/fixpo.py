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
  """Returns KL(p || q), with all tokens that are not listed counted as one.

  It is exact if the k listed tokens are the vocabulary, and a lower bound
  otherwise.

  Args:
    p, q: `[..., k]` log-probs of the same k tokens under two policies.

  Returns:
    `[...]`, in nats.
  """
  listed = jnp.sum(jnp.exp(p) * (p - q), -1)
  # Probability of all tokens that are not listed. The bounds keep the
  # logarithms finite against rounding error.
  other_p = 1 - jnp.exp(p).sum(-1)
  other_q = jnp.maximum(1 - jnp.exp(q).sum(-1), 1e-7)
  has_others = other_p > 1e-6
  other_p = jnp.where(has_others, other_p, 1.0)
  others = other_p * (jnp.log(other_p) - jnp.log(other_q))
  return listed + jnp.where(has_others, others, 0.0)


def old_divergence(k: int) -> Term:
  """Returns the term KL(pi_old || pi) of each token, averaged over all tokens.

  The KL is `divergence` of the `k` most likely tokens of pi_old. Its maximum is
  logged as `policy/kl_old_max`.
  """
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
  """Returns the transform that gives beta >= 0, the weight of the KL.

  beta is updated once per rollout, by one step of Adam that descends beta (eps
  - safety * max KL). The KL is that between the parameters before and after the
  previous training step, on the present rollout; the maximum is over its
  tokens. beta thus grows while the KL exceeds eps / safety.

  Args:
    k, eps, safety, rate: same as in `fixpo`.
    start: first value of beta.
  """
  # "before" are the parameters before the previous training step, "old" those
  # at the start of this one.
  ids = top_token_ids("before", k)
  previous, current = log_probs_at("before", ids), log_probs_at("old", ids)
  adam = optax.adam(rate)

  @transform(
    takes="none",
    gives="scalar",
    init=lambda: {
      "beta": jnp.float32(start),
      "adam": adam.init(jnp.float32(start)),
    },
    needs={ids, previous, current},
  )
  def trust_region_price(_, rollout, state):
    kl = divergence(rollout.extras[previous], rollout.extras[current])
    valid = rollout.valid("token")
    largest = jnp.maximum(masked.max(kl, valid, (0, 1, 2)), 0.0)
    adam_step, new_adam = adam.update(eps - safety * largest, state["adam"])
    beta = jnp.maximum(state["beta"] + adam_step, 0.0)
    new_state = {"beta": beta, "adam": new_adam}
    # At the first step the parameters have not moved yet: beta stays.
    is_first = rollout.step == 0
    new_state = jax.tree.map(
      lambda old, new: jnp.where(is_first, old, new), state, new_state
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

  rho [P, S, T] is the importance ratio of a token, A the z-score of a sample's
  score in its group, and pi_old the policy at the start of the training step.
  The objective is averaged over the tokens of all samples. After the updates of
  a rollout its minibatches are visited again, in at most `passes` passes, until
  no token has a KL above eps; on a minibatch with such a token the policy is
  updated with the mean KL as the loss (a repair). The KL is over the `k` most
  likely tokens, with all other tokens as one. beta is updated as in
  `dual_variable`.
  Deviation: the paper has a value function; this implementation has z-scores of
  the group. beta changes once per rollout, by the KL of the previous step, and
  does not multiply the loss of the repairs (Adam would cancel the factor).
  Source: Zentner et al. 2023, Guaranteed Trust Region Optimization via
  Two-Phase KL Penalization.

  Args:
    eps: largest KL of a token, in nats.
    safety: factor of the KL in the update of beta; the released code has 2.
    rate: learning rate of beta under Adam.
    beta: first weight of the KL, a dual variable.
    k: number of most likely tokens that the KL lists.
    passes: largest number of passes of repairs after the updates of a rollout.
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
