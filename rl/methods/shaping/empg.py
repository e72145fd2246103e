"""Entropy-modulated policy gradients, step by step.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  broadcast_steps,
  chain,
  group_normalize,
  scores,
  transform,
)

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
_BATCH = (0, 1, 2)  # all axes of [P, S, K]


@transform(takes="sample", gives="step", needs={_ENTROPY})
def modulate_by_entropy(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  k: float,
  k_future: float,
  zeta: float,
) -> jax.Array:
  """Returns A g_j + zeta f_{j+1} - its mean over the steps of the batch.

  g and f are those of `empg`. A step without a scored token does not count, and
  has 0.

  Raises:
    UsageError: if the rollout has no steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise UsageError(
      "empg(): the rollout has no steps; choose a task that cuts its "
      "completions into steps, such as chain"
    )
  in_steps = rollout.valid("token") & (rollout.step_ids >= 0)
  step_ids = jnp.maximum(rollout.step_ids, 0)
  zeros = jnp.zeros(rollout.step_mask.shape[-1])
  # [P, S, T] -> [P, S, K], the sum over the tokens of each step.
  sum_per_step = jax.vmap(jax.vmap(lambda x, i: zeros.at[i].add(x)))
  num_tokens = sum_per_step(in_steps.astype(jnp.float32), step_ids)
  exists = rollout.valid("step") & (num_tokens > 0)
  token_entropy = jnp.where(in_steps, rollout.extras[_ENTROPY], 0.0)
  entropy = sum_per_step(token_entropy, step_ids)
  entropy /= jnp.maximum(num_tokens, 1.0)  # mean over the tokens of a step

  # h (`scaled`), g (`gain`) and f_{j+1} (`bonus`) of `empg`.
  low = masked.min(entropy, exists, _BATCH)
  entropy_range = masked.max(entropy, exists, _BATCH) - low
  scaled = jnp.where(
    entropy_range > 1e-6, (entropy - low) / (entropy_range + 1e-8), 0.0
  )
  gain = jnp.exp(-k * scaled)
  gain /= masked.mean(gain, exists, _BATCH)
  next_step, has_next = masked.following(exists)
  next_entropy = jnp.take_along_axis(scaled, next_step, -1)
  bonus = jnp.where(has_next, jnp.exp(-k_future * next_entropy), 0.0)
  shaped = signal[..., None] * gain + zeta * bonus
  centered = shaped - masked.mean(shaped, exists, _BATCH)
  return jnp.where(exists, centered, 0.0)


def empg(
  k: float = 1.0,
  k_future: float = 1.0,
  zeta: float = 0.1,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO whose advantages are larger at confident steps and smaller at others.

    h_j  mean token entropy of step j, scaled to [0, 1] over the batch
    g_j  exp(-k h_j) divided by its mean over the steps of the batch
    f_j  exp(-k_future h_j)
    A_j  A g_j + zeta f_{j+1}, minus its mean over the steps of the batch

  A is the z-score of a sample's score in its group; A_j [P, S, K] is the
  advantage of every token of step j. Entropies are those of the policy at the
  start of the training step. f_{j+1} is high if the next step is confident;
  after the last step it is 0. Both means give every step of the batch the same
  weight, whatever its length. The loss is PPO-clip, averaged over the tokens of
  all samples; tokens outside of steps have advantage 0.
  Deviation: if the entropies h differ by less than 1e-6 nats before they are
  scaled, this implementation takes the difference for rounding error, and h is
  0 for all steps.
  Source: Wang et al. 2025, Harnessing Uncertainty: Entropy-Modulated Policy
  Gradients.
  Quantity: old/entropy.

  Args:
    k: how fast the factor g falls with entropy.
    k_future: how fast the bonus f falls with entropy.
    zeta: weight of the bonus.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    UsageError: when a step is traced, if the rollout has no steps.
  """
  return Method(
    advantage=chain(
      scores(),
      group_normalize(ddof),
      modulate_by_entropy(k, k_future, zeta),
      broadcast_steps(),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
