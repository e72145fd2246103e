"""GDPO: several rewards, each normalised in its group, then summed.

Axes: P prompts, S samples per prompt (a group), M reward components.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, components, transform


@transform(takes="none", gives="vector")
def score_and_components(_, rollout: types.Rollout) -> jax.Array:
  """The score, then every component of the task sorted by name, `[M, P, S]`."""
  parts = (rollout.components[name] for name in sorted(rollout.components))
  return jnp.stack([rollout.scores, *parts])


@transform(takes="vector", gives="sample")
def decoupled_normalize(
  rewards: jax.Array,
  rollout: types.Rollout,
  *,
  weights: tuple[float, ...] | None = None,
) -> jax.Array:
  """whiten(sum_m w_m z_m), z_m the z-score of component m in its group.

  The sum is whitened over the samples of the batch; it is 0 in groups in which
  it is constant.
  """
  valid = rollout.sample_mask
  # [M, P, S].
  z = jax.vmap(lambda r: advantages.group_normalize(r, valid))(rewards)
  w = jnp.ones(len(rewards)) if weights is None else jnp.asarray(weights)
  total = jnp.tensordot(w, z, 1, precision="highest")
  sums_differ = ~masked.is_constant(total, valid, keepdims=True)
  return jnp.where(sums_differ, masked.whiten(total, valid, (0, 1)), 0.0)


def gdpo(
  names: tuple[str, ...] | None = None,
  weights: tuple[float, ...] | None = None,
  clip: float = 0.2,
) -> Method:
  """A = whiten(sum_m w_m z_m): a z-score per reward, their sum whitened.

  z_m [P, S] is the z-score (ddof 1, eps 1e-6) of reward m in its group, the
  samples of one prompt, and w_m its weight; the sum is whitened (ddof 0) over
  the batch. TRL has ddof 1 and eps 1e-4 in both. Sums of z-scores distinguish
  combinations of rewards that have the same sum, and scaling one reward changes
  nothing. A component that is constant in a group adds 0 there; its weight is
  not given to the others. The loss is PPO-clip, averaged over tokens, without a
  KL.
  Source: Liu et al. 2026, GDPO: Group reward-Decoupled Normalization Policy
  Optimization.

  Args:
    names: components of the rollout; None takes the score and all components of
      the task. If the score is a weighted sum of rewards in the config
      (`rl.reward`), name those rewards: with None both the sum and each of them
      would count, whatever their weights.
    weights: w_m in the order of `names`; None takes 1 for all.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  use_all = names is None
  return Method(
    advantage=chain(
      score_and_components() if use_all else components(names),
      decoupled_normalize(weights),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
