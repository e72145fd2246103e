"""Lp-Reg: unlikely tokens of wrong samples are kept, if they make sense."""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import lowest
from rl.transforms import broadcast, chain, group_normalize, scores, transform

_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
_ADVANTAGE = scoring.provided("prepared", "advantage")


def proxy(kappa: float) -> scoring.Need:
  """log of the old policy without its tail, renormalised; -inf in the tail.

  The tail is what is less likely than kappa times the likeliest token.
  """

  def fn(logits, tokens):
    edge = logits.max(-1, keepdims=True) + jnp.log(kappa)
    kept = jnp.where(logits >= edge, logits, -jnp.inf)
    chosen = jnp.take_along_axis(kept, tokens[:, None], -1)[:, 0]
    return chosen - jax.nn.logsumexp(kept, -1)

  return scoring.Need("old", scoring.Probe(f"min_p_log_probs({kappa:g})", fn))


@transform("none", "token", needs={_OLD_LOG_PROBS, _ADVANTAGE})
def least_likely(_, rollout: types.Rollout, *, fraction: float) -> jax.Array:
  """1 at the least likely `fraction` of the tokens with A < 0, else 0."""
  wrong = rollout.valid("token") & (rollout.extras[_ADVANTAGE] < 0)
  count = jnp.floor(fraction * wrong.sum())
  chosen = lowest(rollout.extras[_OLD_LOG_PROBS], wrong, count)
  return jnp.where(count > 1, chosen, False).astype(jnp.float32)


@term("token", needs=lambda kappa: {_LOG_PROBS, proxy(kappa)})
def pull_to_proxy(
  signal: jax.Array, policy: types.Named, rollout: types.Rollout, *, kappa
) -> jax.Array:
  """w (e^-d - 1 + d) where d = log pi - log proxy < 0, else 0."""
  d = policy[scoring.log_probs] - rollout.extras[proxy(kappa)]
  d = jnp.where((signal > 0) & (d < 0), d, 0.0)
  return signal * (jnp.expm1(-d) + d)


def lp_reg(
  kappa: float = 0.02,
  fraction: float = 0.01,
  beta: float = 1.0,
  high: float = 9.0,
  ddof: int = 1,
) -> Method:
  """Clip [0, 1 + high], plus beta (e^-d - 1 + d) at unlikely wrong tokens.

  Of the tokens with A < 0, the `fraction` that is least likely, and of these
  those with d = log pi - log proxy < 0; the proxy is the old policy without
  the tokens below kappa times its likeliest, so that noise stays unprotected.
  With the paper's lower bound of 1 a negative advantage is never clipped, and
  the term is added rather than put in the place of the clipped one. Less than
  two such tokens: none. The z-score of the group, the token mean.
  Deviations: the rank is over the whole rollout and of the old policy; the
  mirror for A > 0, off in the paper, is left out.
  Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration in
  Reinforcement Learning with Verifiable Reward.
  """
  pull = pull_to_proxy(kappa).of(signal=least_likely(fraction))
  return Method(
    advantage=chain(scores(), group_normalize(ddof), broadcast()),
    loss=policy_gradient(ppo_clip(1.0, high)) + beta * pull,
  )
