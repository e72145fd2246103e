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
# A need: the extra "prepared/advantage" [P, S, T], the finished advantage of
# the method itself.
_ADVANTAGE = scoring.provided("prepared", "advantage")


def proxy(kappa: float) -> scoring.Need:
  """Returns the need for the log-probs of the old policy without its tail.

  The tail of a next-token distribution holds the tokens whose probability is
  below kappa times the largest one. Without it, the distribution is
  renormalised; tokens in the tail have -inf.
  """

  def fn(logits, tokens):  # [N, V], [N] -> [N]
    threshold = logits.max(-1, keepdims=True) + jnp.log(kappa)
    without_tail = jnp.where(logits >= threshold, logits, -jnp.inf)
    chosen = jnp.take_along_axis(without_tail, tokens[:, None], -1)[:, 0]
    return chosen - jax.nn.logsumexp(without_tail, -1)

  return scoring.Need("old", scoring.Probe(f"min_p_log_probs({kappa:g})", fn))


@transform(takes="none", gives="token", needs={_OLD_LOG_PROBS, _ADVANTAGE})
def least_likely(_, rollout: types.Rollout, *, fraction: float) -> jax.Array:
  """Returns 1 at the least likely `fraction` of the tokens with A < 0, else 0.

  The number of these tokens is rounded down. If it is below two, all tokens
  have 0.
  """
  candidates = rollout.valid("token") & (rollout.extras[_ADVANTAGE] < 0)
  count = jnp.floor(fraction * candidates.sum())
  selected = lowest(rollout.extras[_OLD_LOG_PROBS], candidates, count)
  return jnp.where(count > 1, selected, False).astype(jnp.float32)


@term(takes="token", needs=lambda kappa: {_LOG_PROBS, proxy(kappa)})
def pull_to_proxy(
  signal: jax.Array, policy: types.Named, rollout: types.Rollout, *, kappa
) -> jax.Array:
  """w (e^-d - 1 + d) where d = log pi - log proxy < 0, else 0.

  The signal w is 1 at the tokens that may be penalised, and 0 elsewhere.
  """
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
  """PPO-clip plus beta (e^-d - 1 + d) at unlikely tokens of wrong samples.

  d [P, S, T] = log pi - log proxy. The proxy is the old policy (at the start of
  the training step) without the tokens whose probability is below kappa times
  the largest one, so that such noise is not protected. A is the z-score of a
  sample's score in its group; A < 0 stands for a wrong sample. The penalty
  applies to the least likely `fraction` of the tokens with A < 0, where d < 0;
  if that fraction is less than two tokens, there is no penalty. In the paper
  the penalty replaces the clipped term. Here it is added, which is the same:
  with the paper's lower bound of 1, a token with A < 0 is never clipped. Both
  terms are averaged over the tokens of all samples.
  Deviation: this implementation ranks the tokens of the whole rollout by their
  probability under the old policy. Its counterpart for A > 0, which the paper
  turns off, is left out.
  Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration in
  Reinforcement Learning with Verifiable Reward.
  Quantity: pull_to_proxy.

  Args:
    kappa: probability, relative to the largest one, below which the proxy has
      no token.
    fraction: share of the tokens with A < 0, the least likely ones, that may be
      penalised.
    beta: weight of the penalty.
    high: the clip range of the importance ratio is [0, 1 + high].
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  pull = pull_to_proxy(kappa).of(signal=least_likely(fraction))
  return Method(
    advantage=chain(scores(), group_normalize(ddof), broadcast()),
    loss=policy_gradient(ppo_clip(1.0, high)) + beta * pull,
  )
