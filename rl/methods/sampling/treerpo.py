"""TreeRPO: samples a tree, and compares the children of each of its nodes.

A node is a prefix of a sample, of a whole number of segments; the root is the
prompt, and a leaf is a whole sample.

Axes: P prompts, S samples per prompt (leaves of the tree), T completion tokens,
K segments.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sampling import trees
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler
from rl.transforms import broadcast_steps, chain, scores, transform

Array = jax.Array


def grow(width: int, depth: int, segment: int) -> Sampler:
  """Returns a sampler that draws a tree with `width` children of each node.

  A segment has `segment` tokens, and the last one all that are left. The first
  child of a node is the sample that reached it, and the other children copy its
  tokens up to the node. A sample that ends early is a leaf; the samples that
  would have branched from it do not exist, and have no tokens (they are decoded
  all the same, since shapes are fixed). The rollout has these fields:

    sample_mask [P, S]   samples that exist
    step_ids [P, S, T]   segment of each token
    step_mask [P, S, K]  segments that were drawn for this sample
    extra "sampler/creators" [P, S, K]; see `trees.siblings`
    extra "sampler/tokens" []: number of tokens drawn, copies not counted
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    if batch.samples != width**depth:
      raise UsageError(
        f"rollout.samples = {batch.samples} must be width**depth = "
        f"{width}**{depth} = {width**depth}, the number of leaves of the tree"
      )
    rollout = batch.sample(batch.params, width)
    creators = np.repeat(np.arange(width)[:, None], depth, 1)  # [S, K]
    # Samples that branched from a sample that had not ended, [P, S].
    exists = jnp.ones(rollout.sample_mask.shape, bool)
    for level in range(1, depth):
      count = len(creators)
      # The sample that each of the further children copies, [B].
      parents = np.repeat(np.arange(count), width - 1)
      rows = jnp.broadcast_to(parents, (len(rollout.scores), len(parents)))
      lengths = rollout.tokens.lengths[:, parents]
      new = batch.branch(
        batch.params,
        rollout,
        rows,
        jnp.minimum(lengths, level * segment),
        count,
      )
      goes_on = exists[:, parents] & (lengths > level * segment)
      exists = jnp.concatenate([exists, goes_on], 1)
      tokens = new.tokens.replace(
        lengths=jnp.where(goes_on, new.tokens.lengths, 0)
      )
      rollout = samplers.join(
        rollout,
        new.replace(tokens=tokens, sample_mask=new.sample_mask & goes_on),
      )
      numbers = count + np.arange(len(parents))
      is_copied = np.arange(depth) < level
      creators = np.concatenate(
        [creators, np.where(is_copied, creators[parents], numbers[:, None])]
      )
    t = jnp.arange(rollout.mask.shape[-1])
    in_sample = t < rollout.tokens.lengths[..., None]
    ids = jnp.where(in_sample, jnp.minimum(t // segment, depth - 1), -1)
    creators = jnp.broadcast_to(
      creators.astype(np.int32), (len(rollout.scores), *creators.shape)
    )
    drawn = trees.drawn_actions(creators, ids.max(-1) + 1, rollout.sample_mask)
    # Samples that do not exist have no tokens.
    mask = rollout.mask & in_sample
    rollout = rollout.replace(
      tokens=rollout.tokens.replace(mask=mask),
      step_ids=ids.astype(jnp.int32),
      step_scores=None,
      step_mask=drawn,
      memory=memory,
    )
    is_drawn, _ = trees.in_step_mask().apply(None, rollout, ())
    num_tokens = (mask & is_drawn).sum()
    return samplers.add_extras(rollout, creators=creators, tokens=num_tokens)

  name = f"grow(width={width}, depth={depth}, segment={segment})"
  return Sampler(name, run, gives=(str(trees.CREATORS),))


@transform(takes="sample", gives="step", needs={trees.CREATORS})
def sibling_advantages(
  signal: Array, rollout: types.Rollout, *, eps: float = 1e-6
) -> Array:
  """Returns (V(child) - V(node)) / (sqrt(V(node) (1 - V(node))) + eps).

  V of a leaf is the signal, in [0, 1], and V of another node the mean of its
  children (`trees.state_values`). The advantage `[P, S, K]` belongs to the
  segment from the node to the child. It is 0 outside of `step_mask`, and where
  V(node) is not between 0 and 1: a signal with other values is not trained on.
  """
  values = trees.state_values(
    signal,
    rollout.extras[trees.CREATORS],
    rollout.step_ids.max(-1) + 1,
    rollout.sample_mask,
  )
  mean = values[..., :-1]
  scale = jnp.sqrt(jnp.maximum(mean * (1.0 - mean), 0.0)) + eps
  advantages = jnp.diff(values, axis=-1) / scale
  varies = (mean > 0) & (mean < 1)
  return jnp.where(rollout.valid("step") & varies, advantages, 0.0)


def treerpo(
  width: int = 8, depth: int = 3, segment: int = 384, clip: float = 0.2
) -> Method:
  """Trains each segment on its value relative to its siblings.

    A(child) = (V(child) - V(node)) / sqrt(V(node) (1 - V(node)))
    V(leaf) = score in [0, 1],    V(node) = mean of V over the children

  A [P, S, K] is the advantage of all tokens of the segment from the node to the
  child. The deviation is that of a verdict with the success rate V(node), which
  is larger than that of the values of the children. Of the S = width^depth
  samples of a group, the first `width` are drawn from the prompt, and each node
  after a segment has `width` children, the first of which is the sample that
  reached it. Tokens that a sample copies are left out of the loss and of its
  denominator. The loss is PPO-clip, a mean over tokens. With depth 1 it is GRPO
  with another deviation. Children of equal values have the advantage 0.
  Not checked against the paper, but against its summary: the clip range, the
  defaults and the reading of its deviation are ours, and it leaves segments
  whose siblings have equal values out of the denominator.
  Source: Yang et al. 2025, TreeRPO: Tree Relative Policy Optimization.

  Args:
    width: number of children of a node.
    depth: K, largest number of segments of a sample.
    segment: number of tokens of a segment; the last segment of a sample has all
      that are left.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `width` is below 2, or `depth` or `segment` below 1.
  """
  for name, value, least in (
    ("width", width, 2),
    ("depth", depth, 1),
    ("segment", segment, 1),
  ):
    if value < least:
      raise UsageError(f"{name} = {value} must be at least {least}")
  return Method(
    advantage=chain(scores(), sibling_advantages(), broadcast_steps()),
    loss=policy_gradient(ppo_clip(clip, clip)),
    loss_filter=trees.in_step_mask(),
    sampler=grow(width, depth, segment),
  )
