"""A learned advantage model, and rehearsal of the best sample of each group.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import nll, policy_gradient, term
from rl.method import Method
from rl.methods.pairs.contrast import best_of_group
from rl.methods.pairs.pairwise import differences, members, pairs
from rl.parameter_sets import learned
from rl.transforms import chain, scores, transform

# A need, which is an array that a forward pass computes: values [P, S, T] of
# the advantage model.
_MODEL_VALUES = scoring.Need("advantage_model", scoring.values)


def _centered(values: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Returns v_i - mean v of the group, `[P, S]`; 0 for empty samples."""
  mask = rollout.valid("token")
  last = jnp.max(jnp.where(mask, jnp.arange(mask.shape[-1]), 0), -1)  # [P, S]
  # v_i is the entry of `values` `[P, S, T]` at the last scored token of sample
  # i, the value before that token.
  v = jnp.take_along_axis(values, last[..., None], -1)[..., 0]
  mean = masked.mean(v, members(rollout), keepdims=True)
  return jnp.where(members(rollout), v - mean, 0.0)


@transform(takes="none", gives="sample", needs={_MODEL_VALUES})
def modelled_advantages(_, rollout: types.Rollout) -> jax.Array:
  """Returns a_i = v_i - mean_j v_j, with values v of the advantage model."""
  return _centered(rollout.extras[_MODEL_VALUES], rollout)


@transform(takes="none", gives="sample")
def varied_groups(_, rollout: types.Rollout) -> jax.Array:
  """Keeps the samples of groups that have two different scores."""
  valid = members(rollout)
  is_constant = masked.is_constant(rollout.scores, valid, keepdims=True)
  return jnp.broadcast_to(~is_constant, valid.shape)


@term(
  takes="sample", gives="prompt", needs={scoring.Need("policy", scoring.values)}
)
def bounded_ranking(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  margin: float,
) -> jax.Array:
  """Returns the loss of the advantage model, one value per prompt.

    -log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r)

  averaged over the pairs of samples c and r of a group with R_c > R_r; sigma is
  the sigmoid, m = `margin`, and a the advantages of the policy's value head.
  The signal holds the scores R. A group without such a pair has 0.
  """
  a = _centered(policy[scoring.values], rollout)
  losses = jax.nn.softplus(-differences(a))  # [P, S, S], axes c and r
  losses += jax.nn.softplus(a - margin)[..., :, None]
  losses += jax.nn.softplus(-a - margin)[..., None, :]
  better = pairs(members(rollout)) & (differences(signal) > 0)
  return masked.mean(losses, better, (-2, -1))


def advantage_model(
  margin: float = 2.5, gamma: float = 0.1, clip: float = 0.2
) -> dict[str, Method]:
  """PPO-clip on a learned advantage, with rehearsal of the best samples.

    a       v - mean v of the group, v [P, S] read before a sample's last token
    model   mean over groups of the mean over pairs with R_c > R_r of
            -log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r)
    policy  PPO-clip with a at every token + gamma * NLL of the sample with the
            largest a of each group, both averaged over tokens

  R [P, S] are the scores, m = `margin`, sigma is the sigmoid and NLL = -log pi.
  There are two learners: "advantage_model", the value head of a copy of the
  policy, makes one update per rollout, and then provides the advantages a of
  the policy. a has mean 0 in every group, so that all prompts and tasks are on
  one scale. With m = inf the model's loss is that of Bradley-Terry. Groups of
  equal scores are in the policy's loss only.
  Open: official sources were not at hand, and gamma is a guess.
  Deviation: the paper's expected reward is a weighted mean over several
  policies; this implementation takes the mean of the group under the current
  policy. The paper trains the model before the policy; here both are trained in
  every step. The paper rehearses samples from a pool, one per cluster of
  embeddings; here the pool is the rollout, and a group takes the place of a
  cluster.
  Source: Peng et al. 2023, Stabilizing RLHF through Advantage Model and
  Selective Rehearsal.
  Quantity: modelled_advantages.

  Args:
    margin: m, a soft bound of |a|.
    gamma: weight of the rehearsal.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  advantages = modelled_advantages()
  loss = policy_gradient(ppo_clip(clip, clip))
  rehearsal = nll().of(loss_filter=chain(advantages, best_of_group()))
  policy = Method(
    advantage=advantages,
    loss=loss + gamma * rehearsal if gamma else loss,
    parameter_sets=(("advantage_model", learned()),),
  )
  model = Method(
    advantage=scores(),
    loss_filter=varied_groups(),
    loss=bounded_ranking(margin),
  )
  return {"advantage_model": model, "policy": policy}
