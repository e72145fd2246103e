"""GRPO-CARE: a bonus for answers that follow from their reasoning.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the moving average of the policy.
EMA = scoring.Need("ema", scoring.log_probs)


@transform(takes="sample", needs={EMA})
def consistency_bonus(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  bonus: float,
  cap: float,
  margin: float,
) -> jax.Array:
  """R plus a bonus if right, and as likely as right samples on average."""
  likelihood = jnp.zeros_like(signal)
  if rollout.step_ids is not None:
    steps = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
    # The tokens of the last step, which is the answer.
    last = (steps == steps.max(-1, keepdims=True)) & (steps >= 0)
    mean = jnp.exp(masked.mean(rollout.extras[EMA], last))  # [P, S]
    likelihood = jnp.where(last.any(-1), jnp.minimum(mean, cap), 0.0)
  right = right_verdict(rollout) & rollout.sample_mask
  right_mean = masked.mean(likelihood, right, keepdims=True)
  return signal + bonus * (right & (likelihood >= right_mean - margin))


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

  A is the z-score of R_i [P, S] in its group; ema is a moving average of the
  policy. The answer is the last step of `step_ids`; a sample without steps has
  p = 0, so without any steps every right sample has the bonus. The loss is
  PPO-clip, averaged over the tokens of a sample, then over samples, without a
  KL. Accuracy is the verdict: the code's "above .1 and above the group's mean"
  then means right. Wrong and unknown samples have no bonus.
  Source: Chen et al. 2025, GRPO-CARE: Consistency-Aware Reinforcement Learning
  for Multimodal Reasoning.

  Args:
    bonus: size of the bonus.
    cap: largest p.
    margin: distance to the mean of right samples that is allowed.
    decay: decay of the moving average at each of its updates.
    every: training steps between updates of the moving average.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    eps: constant added to the standard deviation.
  """
  rewards = consistency_bonus(bonus, cap, margin)
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=seq_mean_token_mean())
  return Method(
    advantage=chain(scores(), rewards, group_normalize(1, eps)),
    loss=loss,
    parameter_sets=(("ema", ema(decay, every)),),
  )
