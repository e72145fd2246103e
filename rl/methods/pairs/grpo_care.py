"""GRPO-CARE: a bonus for answers that follow from their own reasoning."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import ema
from rl.transforms import (
  chain,
  group_normalize,
  right_verdict,
  scores,
  transform,
)

EMA = scoring.Need("ema", scoring.log_probs)


@transform("sample", needs={EMA})
def consistency_bonus(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  bonus: float,
  cap: float,
  margin: float,
) -> jax.Array:
  """R plus a bonus where right and as likely as the right ones' mean."""
  likelihood = jnp.zeros_like(signal)
  if rollout.step_ids is not None:
    steps = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
    last = (steps == steps.max(-1, keepdims=True)) & (steps >= 0)
    mean = jnp.exp(masked.mean(rollout.extras[EMA], last))
    likelihood = jnp.where(last.any(-1), jnp.minimum(mean, cap), 0.0)
  right = right_verdict(rollout) & rollout.sample_mask
  typical = masked.mean(likelihood, right, keepdims=True)
  return signal + bonus * (right & (likelihood >= typical - margin))


def grpo_care(
  bonus: float = 0.5,
  cap: float = 0.95,
  margin: float = 0.01,
  decay: float = 0.995,
  every: int = 10,
  clip: float = 0.2,
  eps: float = 1e-4,
) -> Method:
  """GRPO with a bonus for right answers that a slow copy finds likely.

    p_i  min(exp(mean log ema(answer token | question, reasoning)), cap)
    R_i  score + `bonus` if i is right and p_i >= mean_right p - `margin`

  Then the group's z-score (std + eps), PPO-clip and no KL. The copy is a moving
  average of the policy: `decay`, every so many steps. The answer is the last
  step of `step_ids`; a sample without one has p = 0, so that without any every
  right sample gets the bonus.
  Accuracy is the verdict: the code's "above .1 and above the group's mean" is
  then to be right; wrong and unknown samples get nothing.
  Source: Chen et al. 2025, GRPO-CARE: Consistency-Aware Reinforcement Learning
  for Multimodal Reasoning.
  """
  rewards = consistency_bonus(bonus, cap, margin)
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=seq_mean_token_mean())
  return Method(
    advantage=chain(scores(), rewards, group_normalize(1, eps)),
    loss=loss,
    parameter_sets=(("ema", ema(decay, every)),),
  )
