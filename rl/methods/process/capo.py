"""CAPO: tokens of wrong steps are charged, and no credit flows between tokens.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.step_transforms import normalize_in_group
from rl.transforms import broadcast_steps, chain, step_scores, transform


@transform(takes="token")
def outcome_minus_errors(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  outcome_weight: float,
  process_weight: float,
) -> jax.Array:
  """w_o 1[right] - w_p (1 - s) / 2 at the tokens of steps, 0 at others.

  s is the signal `[P, S, T]`, the score from -1 to 1 of the step of a token.
  """
  outcome = outcome_weight * (rollout.correct == 1)[..., None]
  rewards = outcome - process_weight * (1.0 - signal) / 2.0
  return jnp.where(rollout.step_ids >= 0, rewards, 0.0)


def capo(
  outcome_weight: float = 2.0,
  process_weight: float = 1.0,
  clip: float = 0.2,
  eps: float = 1e-6,
) -> Method:
  """A_t = (R_t - mean) / std over the group's tokens, R_t = w_o ok - w_p e_k.

  ok is 1 if the sample is right, else 0, and e_k = (1 - s_k) / 2 is the error
  of the step of token t, from 0 to 1. s_k [P, S, K] is its score, such as the
  vote of four critiques of a judge (`steps(votes=4)` of `rewards.judged`). With
  the default weights a token of a wrong step in a right sample (+1) is above a
  token of a right step in a wrong sample (0). A [P, S, T] is not summed over
  later tokens. With w_p = 0 and samples of equal length it is the advantage of
  GRPO (ddof 0). The loss is PPO-clip, averaged over the tokens of all samples.
  Open: the paper does not state its normalisation; this is the mean and the
  standard deviation over the tokens of the group.
  Source: Xie et al. 2025, CAPO: Towards Enhancing LLM Reasoning through
  Verifiable Generative Credit Assignment.
  Quantity: step_scores.

  Args:
    outcome_weight: w_o.
    process_weight: w_p.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    eps: constant added to the standard deviation.
  """
  return Method(
    advantage=chain(
      step_scores(),
      broadcast_steps(),
      outcome_minus_errors(
        outcome_weight=outcome_weight, process_weight=process_weight
      ),
      normalize_in_group(eps),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
