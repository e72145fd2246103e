"""An advantage model that learns beside the policy, and selective rehearsal.

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
MODEL = scoring.Need("advantage_model", scoring.values)


def _centered(values: jax.Array, rollout: types.Rollout) -> jax.Array:
  """v_i - mean v of the group `[P, S]`, v the value before the last token."""
  mask = rollout.valid("token")
  last = jnp.max(jnp.where(mask, jnp.arange(mask.shape[-1]), 0), -1)  # [P, S]
  v = jnp.take_along_axis(values, last[..., None], -1)[..., 0]
  mean = masked.mean(v, members(rollout), keepdims=True)
  return jnp.where(members(rollout), v - mean, 0.0)


@transform(takes="none", gives="sample", needs={MODEL})
def modelled_advantages(_, rollout: types.Rollout) -> jax.Array:
  """a_i = v_i - mean_j v_j by the advantage model."""
  return _centered(rollout.extras[MODEL], rollout)


@transform(takes="none", gives="sample")
def varied_groups(_, rollout: types.Rollout) -> jax.Array:
  """A filter: the samples of groups with two different scores."""
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
  """-log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r) of pairs.

  It is the mean over the pairs of a group in which c has a higher score than r;
  sigma is the sigmoid and m the margin.
  """
  a = _centered(policy[scoring.values], rollout)
  losses = jax.nn.softplus(-differences(a))  # [P, S, S], c and r
  losses += jax.nn.softplus(a - margin)[..., :, None]
  losses += jax.nn.softplus(-a - margin)[..., None, :]
  better = pairs(members(rollout)) & (differences(signal) > 0)
  return masked.mean(losses, better, (-2, -1))


def advantage_model(
  margin: float = 2.5, gamma: float = 0.1, clip: float = 0.2
) -> dict[str, Method]:
  """PPO on a learned advantage, while the best samples are rehearsed.

    a       v - mean v of the group, v [P, S] read before a sample's last token
    model   mean over groups of the mean over pairs with R_c > R_r of
            -log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r)
    policy  PPO-clip with a at every token + gamma NLL of each group's best by a

  R [P, S] are the scores, m = `margin` and sigma is the sigmoid. There are two
  learners: "advantage_model", the value head of a copy of the policy, makes one
  update per rollout and then provides the policy's advantages. a has mean 0 in
  every group, so all prompts and tasks are on one scale; m = inf is
  Bradley-Terry.
  Open (official sources were not at hand): gamma. The expected reward is the
  group's mean under the present policy instead of a weighted mean over several
  policies; the model learns beside the policy instead of before it; a group
  takes the place of a cluster of embeddings, and the rollout that of the pool
  that is rehearsed.
  Source: Peng et al. 2023, Stabilizing RLHF through Advantage Model and
  Selective Rehearsal.

  Args:
    margin: m, soft bound of |a|.
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
