"""SPARK: an advantage counts only at the steps whose verdict has its sign.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import (
  broadcast_steps,
  chain,
  group_normalize,
  scores,
  step_scores,
  transform,
)


@transform(takes="sample", gives="step")
def where_steps_agree(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Gives A >= 0 to the right steps of a sample, A < 0 to its wrong steps.

  A step is right if its score is positive, and wrong if it is negative. All
  other steps have 0.
  """
  verdicts, _ = step_scores().apply(None, rollout, ())
  agrees = jnp.where(signal[..., None] >= 0, verdicts > 0, verdicts < 0)
  return jnp.where(agrees & rollout.valid("step"), signal[..., None], 0.0)


def spark(beta: float = 0.001, clip: float = 0.2) -> Method:
  """A_t = z(r) where the verdict on the step of token t agrees, else 0.

  z is the z-score in the group, (r - mean) / (std + 1e-6) with ddof 1, of the
  scores r [P, S]. A token has it if it is not negative and the step of the
  token is right, or if it is negative and the step is wrong. The step scores
  [P, S, K] come from the votes of a judge without a reference answer
  (`steps(votes=16, with_reference=False)` of `rewards.judged`), and so does r:
  the reward `step_augmented`, or a verdict. If all steps agree, it is GRPO. The
  loss is PPO-clip plus beta times k3, an estimator of the KL to the policy at
  the start of the run; both are averaged over the tokens of all samples.
  Source: SPARK: Stepwise Process-Aware Rewards for Reference-Free Reinforcement
  Learning.
  Quantity: step_scores.

  Args:
    beta: weight of the KL; 0 drops the reference and its forward pass.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  loss = policy_gradient(ppo_clip(clip, clip))
  return Method(
    advantage=chain(
      scores(), group_normalize(), where_steps_agree(), broadcast_steps()
    ),
    loss=loss + beta * kl("k3") if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
