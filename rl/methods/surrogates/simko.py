"""SimKO: right samples also raise the top k tokens; wrong top tokens fall.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.top_tokens import log_probs_at, top_token_ids
from rl.transforms import chain, group_normalize, scores

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)


def candidates(k: int) -> tuple[scoring.Need, scoring.Need]:
  """Returns two needs: the old policy's k most likely tokens, their log-probs.

  The log-probs are those of the policy that is being trained.
  """
  ids = top_token_ids("old", k)
  return ids, log_probs_at("policy", ids)


@surrogates.surrogate(needs=lambda k, **_: {_ENTROPY, *candidates(k)})
def simko_clip(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  k: int,
  alpha: float,
  press: float,
  quantile: float,
  clip: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """PPO-clip of the changed ratios and advantages that `simko` describes."""
  stop = jax.lax.stop_gradient
  entropy = rollout.extras[_ENTROPY]
  threshold = masked.quantile(entropy, rollout.mask, quantile, keepdims=True)
  is_uncertain = rollout.mask & (entropy > threshold)
  ids, log_probs = candidates(k)
  mean_log_prob = policy[log_probs.probe].mean(-1)  # [P, S, T, k] -> [P, S, T]
  mixed = (1 - alpha) * log_ratio + alpha * mean_log_prob
  # The value of log_ratio, with the gradient of `mixed`.
  smoothed = stop(log_ratio) + mixed - stop(mixed)
  log_ratio = jnp.where(is_uncertain & (advantages > 0), smoothed, log_ratio)
  is_most_likely = rollout.completions == rollout.extras[ids][..., 0]
  is_penalized = is_uncertain & is_most_likely & (advantages < 0)
  advantages = jnp.where(is_penalized, press * advantages, advantages)
  return surrogates.ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )


def simko(
  k: int = 3,
  alpha: float = 0.01,
  press: float = 1.1,
  quantile: float = 0.8,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO without a KL, changed where the entropy exceeds a sample's quantile.

  rho [P, S, T] is the importance ratio of a token to the policy at the start of
  the training step (the old policy), and A the z-score of a sample's score in
  its group. A token is uncertain if the old policy's entropy there is above the
  `quantile` of the entropies of its sample. At uncertain tokens:

    A > 0  rho' = (1 - alpha) rho + alpha/K sum_k sg[rho / rho_k] rho_k replaces
           rho. The sum is over the K most likely tokens of the old policy,
           rho_k is the ratio of the k-th of these, and sg stops the gradient:
           the value is rho, and a share alpha of the gradient goes to them
    A < 0  A is multiplied by `press` if the token is the most likely one

  A > 0 stands for right samples and A < 0 for wrong ones. alpha = 0 with press
  = 1 is `grpo` without a KL. The loss is PPO-clip, averaged over the tokens of
  each sample, then over samples.
  Deviation: the released code compares the k-th most likely tokens of the
  current and the old policy, which may be different tokens; in this
  implementation rho_k is the ratio of one token under both policies.
  Source: Peng et al. 2025, SimKO: Simple Pass@K Policy Optimization.

  Args:
    k: K, the number of most likely tokens.
    alpha: share of the gradient that goes to the K tokens.
    press: factor of A < 0 at an uncertain token that is the most likely one.
    quantile: level, from 0 to 1, of the quantile of the entropy within a
      sample.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  surrogate = simko_clip(k, alpha, press, quantile, clip)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(surrogate, aggregate=seq_mean_token_mean()),
  )
