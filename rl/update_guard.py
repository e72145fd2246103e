"""Decides which updates of a training step are skipped, and records why.

An update is skipped, which leaves parameters and optimizer state as they are,
if

  1. a score or a step score, of the task or of the method's reward, is not
     finite (`check_scores`), or
  2. the loss, the gradient or the update is not finite, or
  3. the mean importance ratio exceeds `Plan.max_mean_ratio`, or
  4. no token of the minibatch is in the loss.

`is_sound` checks the loss and 3 and 4, and `rl.gradients.apply` the gradient
and the update. Case 1 skips all updates of a learner in the training
step, and the states of the method's transforms do not change either.

The metrics `guard/bad_prompt` and `guard/bad_sample` identify the first sample
of case 1 in a rollout `[P, S]` (P prompts, S samples per prompt), and
`optim/skipped` counts the skipped updates of a training step.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp

from rl import types
from rl.update_plan import Plan

Array = jax.Array


@flax.struct.dataclass
class ScoreCheck:
  """The first sample of a rollout whose score or step score is not finite.

  Attributes:
    prompt_id: `[]` int32, `Rollout.prompt_ids` of its prompt; -1 if all scores
      are finite.
    sample: `[]` int32, number of the sample among those of its prompt, from 0;
      -1 if all scores are finite.
  """

  prompt_id: Array
  sample: Array

  @property
  def passes(self) -> Array:
    """`[]` bool, whether all scores are finite."""
    return self.sample < 0

  def otherwise(self, other: ScoreCheck) -> ScoreCheck:
    """Returns this check if it has found a sample, otherwise `other`."""
    return select(self.passes, other, self)

  def metrics(self) -> dict[str, Array]:
    """The metrics `guard/bad_prompt` and `guard/bad_sample`."""
    return {
      "guard/bad_prompt": self.prompt_id,
      "guard/bad_sample": self.sample,
    }


def check_scores(rollout: types.Rollout) -> ScoreCheck:
  """Looks for the first sample with a score or step score that is not finite.

  Samples and reasoning steps that do not exist are left out.
  """
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
  masks: tuple[Array, ...],
  plan: Plan,
) -> Array:
  """Checks the metrics and masks of a minibatch before its update.

  Args:
    metrics: merged metrics of the minibatch (`rl.metrics.Tally.merge`).
    masks: one mask `[P, S, T]` per term, True for the tokens in its loss.
    plan: the plan, of which `max_mean_ratio` is read.

  Returns:
    `[]` bool, True if the update may be made.
  """
  ratio = metrics.get("policy/ratio_mean", jnp.ones(()))
  sound = jnp.isfinite(metrics["loss/total"]) & (ratio <= plan.max_mean_ratio)
  # Without any token in the loss, the optimizer would still apply its momentum
  # and weight decay.
  return sound & jnp.stack([mask.any() for mask in masks]).any()


def select(
  condition: Array, new: types.PyTree, old: types.PyTree
) -> types.PyTree:
  """Returns the tree `new` if the condition is True, else the tree `old`."""
  return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
