"""Entropy-modulated policy gradients, step by step."""

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

_ENTROPY = scoring.Need("old", scoring.entropy)
_BATCH = (0, 1, 2)


@transform("sample", "step", needs={_ENTROPY})
def modulate_by_entropy(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  k: float,
  k_future: float,
  zeta: float,
) -> jax.Array:
  """A g_k + zeta f_{k+1}, less its mean over the steps of the batch."""
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "empg(): the rollout has no steps; choose a task with them"
    )
  inside = rollout.valid("token") & (rollout.step_ids >= 0)
  at = jnp.maximum(rollout.step_ids, 0)
  nothing = jnp.zeros(rollout.step_mask.shape[-1])
  per_step = jax.vmap(jax.vmap(lambda x, i: nothing.at[i].add(x)))
  tokens = per_step(inside.astype(jnp.float32), at)
  exists = rollout.valid("step") & (tokens > 0)
  entropy = per_step(jnp.where(inside, rollout.extras[_ENTROPY], 0.0), at)
  entropy /= jnp.maximum(tokens, 1.0)

  low = masked.min(entropy, exists, _BATCH)
  spread = masked.max(entropy, exists, _BATCH) - low
  level = jnp.where(spread > 1e-6, (entropy - low) / (spread + 1e-8), 0.0)
  gain = jnp.exp(-k * jnp.where(exists, level, 0.0))
  gain /= jnp.maximum(masked.mean(gain, exists, _BATCH), 1e-8)
  following, linked = masked.following(exists)
  ahead = jnp.take_along_axis(level, following, -1)
  bonus = jnp.where(linked, jnp.exp(-k_future * ahead), 0.0)
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
  """GRPO's credit, turned up on confident steps and down on uncertain ones.

    h_k    mean token entropy of the step, scaled to [0, 1] over the batch
    g_k    exp(-k h_k) / its mean over the batch's steps
    f_k    exp(-k_future h_k), the clarity of the step that follows
    A_k    A g_k + zeta f_{k+1}, less the mean over the batch's steps

  The last step has no f. Both means count steps, not tokens. PPO-clip over the
  mean token; tokens outside of steps get 0.
  Deviation: a spread of h below 1e-6 nats is rounding, and g is then 1.
  Source: Wang et al. 2025, Harnessing Uncertainty: Entropy-Modulated Policy
  Gradients.
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
