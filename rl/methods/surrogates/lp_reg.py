"""Lp-Reg: protects unlikely but sensible tokens of wrong samples.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import lowest
from rl.transforms import broadcast, chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the old policy (at the start of the step).
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
# A need: the extra "prepared/advantage": the method's own finished advantage,
# [P, S, T].
_ADVANTAGE = scoring.provided("prepared", "advantage")


def proxy(kappa: float) -> scoring.Need:
  """Log-probs of the old policy without its tail, renormalised; -inf in it.

  The tail is the set of tokens with a probability below kappa times the
  largest.
  """

  def fn(logits, tokens):
    threshold = logits.max(-1, keepdims=True) + jnp.log(kappa)
    head = jnp.where(logits >= threshold, logits, -jnp.inf)
    chosen = jnp.take_along_axis(head, tokens[:, None], -1)[:, 0]
    return chosen - jax.nn.logsumexp(head, -1)

  return scoring.Need("old", scoring.Probe(f"min_p_log_probs({kappa:g})", fn))


@transform(takes="none", gives="token", needs={_OLD_LOG_PROBS, _ADVANTAGE})
def least_likely(_, rollout: types.Rollout, *, fraction: float) -> jax.Array:
  """1 at the least likely `fraction` of the tokens with A < 0, else 0."""
  candidates = rollout.valid("token") & (rollout.extras[_ADVANTAGE] < 0)
  count = jnp.floor(fraction * candidates.sum())
  selected = lowest(rollout.extras[_OLD_LOG_PROBS], candidates, count)
  return jnp.where(count > 1, selected, False).astype(jnp.float32)


@term(takes="token", needs=lambda kappa: {_LOG_PROBS, proxy(kappa)})
def pull_to_proxy(
  signal: jax.Array, policy: types.Named, rollout: types.Rollout, *, kappa
) -> jax.Array:
  """w (e^-d - 1 + d) where d = log pi - log proxy < 0, else 0."""
  d = policy[scoring.log_probs] - rollout.extras[proxy(kappa)]
  # d is +inf in the tail, where the proxy is 0: such tokens have no penalty.
  d = jnp.where((signal > 0) & (d < 0), d, 0.0)
  return signal * (jnp.expm1(-d) + d)


def lp_reg(
  kappa: float = 0.02,
  fraction: float = 0.01,
  beta: float = 1.0,
  high: float = 9.0,
  ddof: int = 1,
) -> Method:
  """Clip to [0, 1 + high], plus beta (e^-d - 1 + d) at unlikely tokens, A < 0.

  d [P, S, T] = log pi - log proxy; the proxy is the old policy without the
  tokens below kappa times the probability of its most likely one, so that noise
  is not protected. A is the z-score of a sample's score in its group. The
  penalty applies to the tokens with A < 0 that are in the least likely
  `fraction` of these, and have d < 0; if that fraction is less than two tokens,
  there is none. With the paper's lower bound of 1 a negative advantage is never
  clipped, so the penalty is added instead of replacing the clipped term. The
  loss is averaged over tokens.
  Deviations: tokens are ranked over the whole rollout, by the old policy; the
  counterpart for A > 0, which the paper turns off, is left out.
  Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration in
  Reinforcement Learning with Verifiable Reward.

  Args:
    kappa: threshold of the proxy, relative to the largest probability.
    fraction: share of the tokens with A < 0 that is considered.
    beta: weight of the penalty.
    high: excess over 1 of the largest ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  pull = pull_to_proxy(kappa).of(signal=least_likely(fraction))
  return Method(
    advantage=chain(scores(), group_normalize(ddof), broadcast()),
    loss=policy_gradient(ppo_clip(1.0, high)) + beta * pull,
  )
