"""Entropy-modulated policy gradients, step by step.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
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
  """A g_j + zeta f_{j+1}, minus its mean over the steps of the batch."""
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "empg(): the rollout has no steps; choose a task that cuts its "
      "completions into steps (chain)"
    )
  inside = rollout.valid("token") & (rollout.step_ids >= 0)
  step_ids = jnp.maximum(rollout.step_ids, 0)
  zeros = jnp.zeros(rollout.step_mask.shape[-1])
  # [P, S, T] -> [P, S, K], the sum over the tokens of each step.
  per_step = jax.vmap(jax.vmap(lambda x, i: zeros.at[i].add(x)))
  tokens = per_step(inside.astype(jnp.float32), step_ids)
  exists = rollout.valid("step") & (tokens > 0)
  entropy = per_step(jnp.where(inside, rollout.extras[_ENTROPY], 0.0), step_ids)
  entropy /= jnp.maximum(tokens, 1.0)

  # h, g and f of `empg`.
  low = masked.min(entropy, exists, _BATCH)
  spread = masked.max(entropy, exists, _BATCH) - low
  scaled = jnp.where(spread > 1e-6, (entropy - low) / (spread + 1e-8), 0.0)
  gain = jnp.exp(-k * jnp.where(exists, scaled, 0.0))
  gain /= jnp.maximum(masked.mean(gain, exists, _BATCH), 1e-8)
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
  """GRPO's credit, raised at confident steps and lowered at uncertain ones.

    h_j  mean token entropy of step j, scaled to [0, 1] over the batch
    g_j  exp(-k h_j) divided by its mean over the steps of the batch
    f_j  exp(-k_future h_j)
    A_j  A g_j + zeta f_{j+1}, minus the mean over the steps of the batch

  A is the z-score of a sample's score in its group; A_j [P, S, K] is the
  advantage of every token of step j. f_{j+1} is high if the next step is
  confident; the last step has none. Both means count steps, not tokens. The
  loss is PPO-clip, averaged over tokens; tokens outside of steps have A = 0.
  Deviation: if the range of h in the batch is below 1e-6 nats, it is taken for
  rounding error, and g is 1.
  Source: Wang et al. 2025, Harnessing Uncertainty: Entropy-Modulated Policy
  Gradients.

  Args:
    k: decay of the factor g with entropy.
    k_future: decay of the bonus f with entropy.
    zeta: weight of the bonus.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    ValueError: when a step is traced, if the rollout has no steps.
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
