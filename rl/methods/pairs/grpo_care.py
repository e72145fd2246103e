"""GRPO-CARE: a bonus for answers that follow from their reasoning.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
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
  """Returns R_i plus `bonus` for right samples with a consistent answer.

  A right sample has the bonus if p_i >= (mean of p over the right samples of
  its group) - `margin`, with p as in `grpo_care`.

  Raises:
    UsageError: if the task does not divide completions into steps.
  """
  if rollout.step_ids is None:
    raise UsageError(
      "grpo_care(): the rollout has no steps, of which the last is the answer; "
      "choose a task that cuts its completions into steps, such as chain"
    )
  steps = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
  # [P, S, T], the tokens of the last step, which is the answer.
  in_answer = (steps == steps.max(-1, keepdims=True)) & (steps >= 0)
  geometric_mean = jnp.exp(masked.mean(rollout.extras[EMA], in_answer))
  likelihood = jnp.where(  # p [P, S]
    in_answer.any(-1), jnp.minimum(geometric_mean, cap), 0.0
  )
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
  """GRPO with a bonus for right answers that a moving average finds likely.

    p_i  min(exp(mean log ema(answer token | question, reasoning)), cap)
    R_i  score + `bonus` if i is right and p_i >= mean_right p - `margin`

  ema is a moving average of the policy's parameters. The answer is the last
  step of `step_ids`, and the first mean is over its tokens; mean_right p is
  over the right samples of the group. The advantage is the z-score of R_i [P,
  S] in the group. A sample without steps has p = 0. The loss is PPO-clip,
  averaged over the tokens of each sample, then over samples, without a KL.
  Deviation: the released code gives the bonus to samples with an accuracy above
  0.1 and above the mean of the group; this implementation gives it to samples
  with a right verdict, and none to wrong or unknown ones.
  Source: Chen et al. 2025, GRPO-CARE: Consistency-Aware Reinforcement Learning
  for Multimodal Reasoning.
  Quantity: ema/log_probs, by sample.

  Args:
    bonus: size of the bonus.
    cap: largest p.
    margin: how far below the mean of the right samples p may be.
    decay: factor of the old value at each update of the moving average.
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
