"""Rewards of progress: what a step does to the chance of success.

The chance after each prefix comes from continuations (`process.continuations`),
of the policy itself, of a prover, or of the policy forced to answer at once; or
from a judge of steps. These functions turn it into rewards.

Usage, `after` [P, S, K] success rates after each step, `before` [P, S] of the
bare prompt:
  dense = progress.gains(after, before, step_mask)
  scores = progress.best_of(after, 4)  # a stronger prover's, in closed form
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def gains(after: Array, before: Array, mask: Array) -> Array:
  """r_k = V_k - V_{k-1}, V_0 the chance at the prompt.

  The sum is V_K - V_0. Once the answer is known further steps get nothing, or
  less: this is what shortens. With continuations of the policy itself r_k is
  the step's advantage, and brings no direction that the outcome has not.

  Source: Setlur et al. 2024, Rewarding Progress (PAV), with a prover's V; Qu et
  al. 2025, Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning
  (MRT), with the policy forced to answer.

  Args:
    after: `[..., K]` V after each step.
    before: `[...]` V_0.
    mask: `[..., K]` bool, steps that exist, the first n.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  after = present(after, mask)
  start = jnp.asarray(before, jnp.float32)[..., None]
  start = jnp.broadcast_to(start, after[..., :1].shape)
  earlier = jnp.concatenate([start, after[..., :-1]], -1)
  return present(after - earlier, mask)


def best_of(chance: Array, tries: int) -> Array:
  """1 - (1 - V)^K: the chance of the best of K continuations.

  The prover that PAV proposes: strong enough to see differences that the policy
  alone does not turn into success, and not so strong that it saves everything.

  Source: Setlur et al. 2024 (PAV), K = 4.

  Args:
    chance: `[...]` V of one continuation, in [0, 1].
    tries: K.

  Returns:
    `[...]` float32.
  """
  return 1.0 - (1.0 - jnp.asarray(chance, jnp.float32)) ** tries


def significant_gains(
  gain: Array,
  mask: Array,
  threshold: float = 0.1,
  gamma: float = 0.9,
  look_ahead: int = 3,
  idle: float = 0.0,
) -> Array:
  """Gains above the noise; a step that shows none has part in the next one.

  r_k = d_k if |d_k| > threshold, else gamma^{q - k} d_q of the nearest later q
  within `look_ahead` steps that has |d_q| > threshold, else `idle`. A small
  negative `idle` charges idle steps.

  Its weakness: idle steps just before a good one are paid for it, up to
  `look_ahead` of them; so it does not telescope.

  Source: Promoting Efficient Reasoning with Verifiable Stepwise Reward (VSRM),
  from memory of the paper: the constants are ours.

  Args:
    gain: `[..., K]` d, of `gains`.
    mask: `[..., K]` bool, steps that exist, the first n.
    threshold: in units of the chance; of M continuations its noise is about
      0.5 / sqrt(M).
    gamma: decay per step.
    look_ahead: steps.
    idle: what a step without any gain gets.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  gain = present(gain, mask)
  size = mask.shape[-1]
  padded = jnp.pad(gain, [(0, 0)] * (gain.ndim - 1) + [(0, look_ahead)])
  found = jnp.full_like(gain, idle)
  for distance in range(look_ahead, -1, -1):  # the nearest has the last word
    later = padded[..., distance : distance + size]
    clear = jnp.abs(later) > threshold
    found = jnp.where(clear, gamma**distance * later, found)
  return present(found, mask)


def judged_thoughts(
  outcomes: Array,
  correct: Array,
  labels: Array,
  mask: Array,
  accuracy: Array,
  alpha: float = 1.0,
) -> Array:
  """A finished advantage of every thought, from its judge's label.

    right answer   o of a good thought, o - alpha accuracy of a bad one
    wrong answer   o of a thought that led to it, 0 of the others

  o is the sample's advantage (z-score of verdicts). It is the closed form of
  thought rewards that are summed from the end; do not sum it again. A group all
  right has o = 0, and only bad thoughts get anything; one all wrong is left
  with its outcome, 0.

  Source: Good Learners Think Their Thinking (TP-GRPO), whose last thought
  carries the outcome alone. alpha is not known to us.

  Args:
    outcomes: `[...]` o.
    correct: `[...]` verdicts, 1 right.
    labels: `[..., K]` bool: good, of a right answer; leading to what was
      answered, of a wrong one.
    mask: `[..., K]` bool, thoughts that exist.
    accuracy: `[...]` of the group, broadcast.
    alpha: charge of a bad thought at accuracy 1.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  outcomes = jnp.asarray(outcomes, jnp.float32)[..., None]
  charge = alpha * jnp.asarray(accuracy, jnp.float32)[..., None]
  right = is_right(correct)[..., None]
  bad = jnp.where(right, outcomes - charge, 0.0)
  return present(jnp.where(labels, outcomes, bad), mask)


def sibling_advantages(values: Array, valid: Array, eps: float = 1e-6) -> Array:
  """Each branch of a tree against its siblings.

  A = (V - m) / (sqrt(m (1 - m)) + eps), m the mean over the siblings.
  A node's V is the mean of its children's (`node_values`), a leaf's its
  verdict. Siblings of one value get 0: they teach nothing. One level is a group
  with a mean baseline.

  Source: Yang et al. 2025, TreeRPO: Tree Relative Policy Optimization. The scale
  is our reading of the paper's, for values in [0, 1].

  Args:
    values: `[..., B]` of the children of one node.
    valid: `[..., B]` bool, children that exist.
    eps: added to the scale. Without any scale it is `rl.advantages.center`.

  Returns:
    `[..., B]` float32, for every token of the branch's segment.
  """
  values = present(values, valid)
  mean = masked.mean(values, valid, keepdims=True)
  varied = valid & ~masked.is_constant(values, valid, keepdims=True)
  spread = jnp.clip(mean * (1.0 - mean), 0.0)
  scale = jnp.sqrt(jnp.where(varied, spread, 1.0)) + eps
  return jnp.where(varied, (values - mean) / scale, 0.0)


def node_values(values: Array, valid: Array) -> Array:
  """A node's value: the mean of its children's, `[..., B] -> [...]`."""
  return masked.mean(present(values, valid), valid)
