"""Decides which updates of a training step are skipped, and records why.

An update is skipped, and parameters, optimizer state and method state stay as
they are, if

  1. a score or a step score of the rollout is not finite (`ScoreCheck`), or
  2. the loss, the gradient or the update is not finite, or
  3. the mean importance ratio exceeds `Plan.max_mean_ratio`, or
  4. no token of the minibatch is in the loss (`is_sound` decides 2 to 4).

The metrics say so: `guard/bad_prompt` and `guard/bad_sample` name the first
sample of case 1, and `optim/skipped` counts the skipped updates of a step.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import optax

from rl import types
from rl.minibatches import Plan

Array = jax.Array


@flax.struct.dataclass
class ScoreCheck:
  """The first sample of a rollout whose score or step score is not finite.

  Attributes:
    prompt_id: `[]` int32, identity of its prompt; -1 if all scores are finite.
    sample: `[]` int32, its number within the group; -1 likewise.
  """

  prompt_id: Array
  sample: Array

  @property
  def passes(self) -> Array:
    """`[]` bool, whether all scores are finite."""
    return self.sample < 0

  def otherwise(self, other: ScoreCheck) -> ScoreCheck:
    """This check if it names a sample, and `other` if it does not."""
    return select(self.passes, other, self)

  def metrics(self) -> dict[str, Array]:
    """The metrics `guard/bad_prompt` and `guard/bad_sample`."""
    return {
      "guard/bad_prompt": self.prompt_id,
      "guard/bad_sample": self.sample,
    }


def check_scores(rollout: types.Rollout) -> ScoreCheck:
  """Looks for a score or a step score that is not finite."""
  bad = ~jnp.isfinite(rollout.scores)  # [P, S]
  if rollout.step_scores is not None:
    bad_steps = rollout.step_mask & ~jnp.isfinite(rollout.step_scores)
    bad |= bad_steps.any(-1)
  bad = (bad & rollout.sample_mask).ravel()  # [P S]
  prompt, sample = jnp.divmod(jnp.argmax(bad), rollout.scores.shape[1])
  return ScoreCheck(
    prompt_id=jnp.where(bad.any(), rollout.prompt_ids[prompt], -1),
    sample=jnp.where(bad.any(), sample, -1),
  )


def is_sound(
  metrics: dict[str, Array],
  gradient_norm: Array,
  updates: types.PyTree,
  masks: tuple[Array, ...],
  plan: Plan,
) -> Array:
  """Whether an update may be made: cases 2 to 4 of the module's list.

  Args:
    metrics: metrics of the loss of the minibatch.
    gradient_norm: `[]` global norm of its gradient.
    updates: what the optimizer would add to the parameters.
    masks: one mask per term, the tokens in its loss.
    plan: gives the largest mean ratio.

  Returns:
    `[]` bool.
  """
  ratio = metrics.get("policy/ratio_mean", jnp.ones(()))
  sound = jnp.isfinite(gradient_norm + optax.tree.norm(updates))
  sound &= jnp.isfinite(metrics["loss/total"]) & (ratio <= plan.max_mean_ratio)
  # Without any token in the loss, the optimizer would still apply its momentum
  # and weight decay.
  return sound & jnp.stack([mask.any() for mask in masks]).any()


def select(
  condition: Array, new: types.PyTree, old: types.PyTree
) -> types.PyTree:
  """The tree `new` if the condition holds, and `old` if it does not."""
  return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
