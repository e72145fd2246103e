"""Several rewards, each normalised in its group before they are summed."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, components, transform


@transform("none", "vector")
def score_and_components(_, rollout: types.Rollout) -> jax.Array:
  """The score, then every component the task gives, by name; `[M, P, S]`."""
  parts = (rollout.components[name] for name in sorted(rollout.components))
  return jnp.stack([rollout.scores, *parts])


@transform("vector", "sample")
def decoupled_normalize(
  rewards: jax.Array,
  rollout: types.Rollout,
  *,
  weights: tuple[float, ...] | None = None,
) -> jax.Array:
  """whiten(sum_m w_m z_m), z_m the z-score of component m in its group.

  Whitened over the samples of the batch; 0 in groups whose sum is constant.
  """
  real = rollout.sample_mask
  z = jax.vmap(lambda r: advantages.group_normalize(r, real))(rewards)
  w = jnp.ones(len(rewards)) if weights is None else jnp.asarray(weights)
  total = jnp.tensordot(w, z, 1, precision="highest")
  varied = ~masked.is_constant(total, real, keepdims=True)
  return jnp.where(varied, masked.whiten(total, real, (0, 1)), 0.0)


def gdpo(
  names: tuple[str, ...] | None = None,
  weights: tuple[float, ...] | None = None,
  clip: float = 0.2,
) -> Method:
  """A = whiten(sum_m w_m z_m): a z-score per reward, their sum whitened.

  Sums of z-scores keep apart what sums of rewards confuse, and scaling one
  reward changes nothing. A component that is constant in a group adds 0 there;
  its weight is not shared out. PPO-clip, token mean, no KL.
  z-scores have ddof 1 and eps 1e-6, the whitening ddof 0 (TRL: 1 and 1e-4 in
  both). `names` are the components; None: the score and all that the task
  gives. `weights` None: all 1. Where a config's mix pays (`rl.reward`), name its
  terms: else the total and each of them count, whatever their weights.
  Source: Liu et al. 2026, GDPO: Group reward-Decoupled Normalization Policy
  Optimization.
  """
  every = names is None
  return Method(
    advantage=chain(
      score_and_components() if every else components(names),
      decoupled_normalize(weights),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
