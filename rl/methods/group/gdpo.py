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
  """Stacks the score and all components of the rollout to `[M, P, S]`.

  The score is first; the components follow in the order of their names.
  """
  components_by_name = (
    rollout.components[name] for name in sorted(rollout.components)
  )
  return jnp.stack([rollout.scores, *components_by_name])


@transform(takes="vector", gives="sample")
def decoupled_normalize(
  rewards: jax.Array,
  rollout: types.Rollout,
  *,
  weights: tuple[float, ...] | None = None,
) -> jax.Array:
  """Returns whiten(sum_m w_m z_m) `[P, S]`.

  z_m is the z-score of reward m in its group. The sum is whitened over all
  samples of the batch; it is 0 in groups whose samples all have the same sum.

  Args:
    rewards: `[M, P, S]`.
    rollout: the rollout.
    weights: w_m; None takes 1 for all.
  """
  valid = rollout.sample_mask
  z = jax.vmap(lambda r: advantages.group_normalize(r, valid))(
    rewards
  )  # [M, P, S]
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

  z_m [P, S] is the z-score (ddof 1, eps 1e-6) of reward m in its group, and w_m
  the weight of that reward; the sum is whitened (ddof 0) over the batch. TRL
  has ddof 1 and eps 1e-4 for both. Two samples whose rewards have the same sum
  may have different sums of z-scores, and multiplying one reward by a positive
  constant changes nothing. A reward that is constant in a group adds 0 there;
  the weights of the other rewards stay as they are. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL.
  Source: Liu et al. 2026, GDPO: Group reward-Decoupled Normalization Policy
  Optimization.
  Quantity: decoupled_normalize.

  Args:
    names: names of components of the rollout; None takes the score and all
      components. If the score is itself a weighted sum of rewards in the config
      (`rl.reward`), name those rewards: with None, the score would count beside
      each of them.
    weights: w_m in the order of `names`; None takes 1 for all. If `names` is
      None, the score is first and the components follow, sorted by name.
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
