"""TP-GRPO: the outcome is corrected where a judge has labelled the thoughts.

Axes: P prompts, S samples per prompt (a group), K thoughts (reasoning steps).
"""

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  broadcast_steps,
  chain,
  known_verdict,
  step_scores,
  transform,
)


@transform(takes="step")
def thought_advantages(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, eps: float
) -> jax.Array:
  """The advantages of thoughts of `tp_grpo`, `[P, S, K]`.

  The signal is positive for the thoughts with a label: the good ones of a right
  sample, and those of a wrong sample that led to its answer.
  """
  valid = rollout.sample_mask & known_verdict(rollout)
  right = rollout.correct == 1
  outcome = advantages.group_normalize(
    right.astype(jnp.float32), valid, ddof=1, eps=eps
  )
  accuracy = masked.mean(right, valid, keepdims=True)
  without_label = jnp.where(right, outcome - alpha * accuracy, 0.0)
  return jnp.where(
    rollout.valid("step") & valid[..., None],
    jnp.where(signal > 0, outcome[..., None], without_label[..., None]),
    0.0,
  )


def tp_grpo(alpha: float = 1.0, clip: float = 0.2, eps: float = 1e-6) -> Method:
  """The advantage of a thought is that of its sample, less where it is wrong.

    right sample   A = o for a good thought, o - alpha accuracy for a wrong one
    wrong sample   A = o for a thought that led to the answer, else 0

  o = (ok - mean) / (std + eps) is the z-score of the verdict in the group (ddof
  1), and accuracy the share of right samples. The labels are the signs of the
  step scores [P, S, K], which the question `thoughts()` of `rewards.judged`
  asks a judge for. A [P, S, T] is the same at all tokens of a thought and is
  not summed over later ones: it already is the sum of the paper's rewards, plus
  or minus alpha accuracy (right) or o (wrong) for each thought after neighbours
  with the same label are merged, where the last thought has the outcome alone.
  If all samples are right, o = 0 and only wrong thoughts have an advantage; if
  none is, all are 0.
  Samples with an unknown verdict have 0. The loss is PPO-clip, averaged over
  the tokens of all samples.
  Open: the paper's alpha is unknown; 1 is a guess.
  Source: Good Learners Think Their Thinking: Generative PRM Makes Large
  Reasoning Model More Efficient Math Learner (TP-GRPO).
  Quantity: step_scores.

  Args:
    alpha: charge for a wrong thought in a group of accuracy 1.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    eps: constant added to the standard deviation.
  """
  return Method(
    advantage=chain(
      step_scores(),
      thought_advantages(alpha=alpha, eps=eps),
      broadcast_steps(),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
