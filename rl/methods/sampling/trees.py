"""Trees of samples: which actions start in the same state, values of states.

Some samples of a group copy a prefix of an earlier sample, so that the samples
of a prompt form a tree. An action is a run of tokens, such as a reasoning step;
a state is a prefix of a sample that ends with an action, or the prompt.

Axes: P prompts, S samples per prompt, K actions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.transforms import transform

Array = jax.Array

# `[P, S, K]` int32, the sample for which action k of sample i was drawn: i
# itself, or an earlier sample whose prefix sample i copies.
CREATORS = scoring.provided("sampler", "creators")


def drawn_actions(creators: Array, counts: Array, sample_mask: Array) -> Array:
  """Returns which actions were drawn for their own sample, `[P, S, K]` bool.

  The other actions of a sample are copies of those of an earlier sample.

  Args:
    creators: `[P, S, K]` int32, the sample for which action k of sample i was
      drawn: i itself, or an earlier sample whose prefix sample i copies.
    counts: `[P, S]` int32, number of actions of each sample.
    sample_mask: `[P, S]` bool, samples that exist.
  """
  num_samples, num_actions = creators.shape[1:]
  is_drawn = creators == jnp.arange(num_samples)[:, None]
  exists = jnp.arange(num_actions) < counts[..., None]
  return is_drawn & exists & sample_mask[..., None]


@transform(takes="none", gives="token")
def in_step_mask(_, rollout: types.Rollout) -> Array:
  """Returns which tokens are in a step of `Rollout.step_mask`, `[P, S, T]`.

  The steps of a tree that are in the mask were drawn for their own sample. As a
  loss filter, it leaves out the copies, which the scored tokens include: a
  reward, such as one for length, reads the text of a whole sample.
  """
  step = jnp.maximum(rollout.step_ids, 0)
  in_mask = jnp.take_along_axis(rollout.step_mask, step, -1)
  return in_mask & (rollout.step_ids >= 0)


def siblings(creators: Array, counts: Array, sample_mask: Array) -> Array:
  """Returns which actions start in the same state, `[P, S, S, K]` bool.

  Entry [p, i, j, k] is True if action k of sample j was drawn for sample j, and
  starts in the same state as action k of sample i.

  Args:
    creators, counts, sample_mask: same as in `drawn_actions`.
  """
  # The sample for which the last action before the state was drawn; the state
  # before the first action is the same in all samples.
  states = jnp.pad(creators[..., :-1], ((0, 0), (0, 0), (1, 0)))
  is_drawn = drawn_actions(creators, counts, sample_mask)
  return (states[:, :, None] == states[:, None]) & is_drawn[:, None]


def state_values(
  leaf_scores: Array, creators: Array, counts: Array, sample_mask: Array
) -> Array:
  """Returns V `[P, S, K + 1]` of the states before and after every action.

    V(leaf) = score,    V(s) = mean over the actions drawn in s of V(next state)

  Entry [..., k] belongs to the state before action k. Each child has the same
  weight, whatever the number of samples below it. V is 0 after the last action.

  Args:
    leaf_scores: `[P, S]`, the score of each sample.
    creators, counts, sample_mask: same as in `drawn_actions`.
  """
  is_sibling = siblings(creators, counts, sample_mask)

  def step_back(later: Array, level: tuple[Array, Array]) -> tuple:
    """Returns V before action k, from V after it; both `[P, S]`."""
    k, is_sibling_k = level
    mean = masked.mean(
      jnp.broadcast_to(later[:, None], is_sibling_k.shape), is_sibling_k
    )
    value = jnp.where(k < counts, mean, 0.0)
    value = jnp.where(k == counts, leaf_scores, value)
    return value, value

  num_actions = creators.shape[-1]
  last = jnp.where(counts == num_actions, leaf_scores, 0.0)
  _, values = jax.lax.scan(
    step_back,
    last,
    (jnp.arange(num_actions), jnp.moveaxis(is_sibling, -1, 0)),
    reverse=True,
  )
  return jnp.concatenate([jnp.moveaxis(values, 0, -1), last[..., None]], -1)
