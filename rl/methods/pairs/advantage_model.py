"""An advantage model beside the policy, and selective rehearsal."""

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

MODEL = scoring.Need("advantage_model", scoring.values)


def _centered(values: jax.Array, rollout: types.Rollout) -> jax.Array:
  """v_i - mean v of the group, v the value before a sample's last token."""
  mask = rollout.valid("token")
  last = jnp.max(jnp.where(mask, jnp.arange(mask.shape[-1]), 0), -1)
  v = jnp.take_along_axis(values, last[..., None], -1)[..., 0]
  mean = masked.mean(v, members(rollout), keepdims=True)
  return jnp.where(members(rollout), v - mean, 0.0)


@transform("none", "sample", needs={MODEL})
def modelled_advantages(_, rollout: types.Rollout) -> jax.Array:
  """a_i = v_i - mean_j v_j, of the advantage model."""
  return _centered(rollout.extras[MODEL], rollout)


@transform("none", "sample")
def varied_groups(_, rollout: types.Rollout) -> jax.Array:
  """A filter: groups with two different scores."""
  known = members(rollout)
  flat = masked.is_constant(rollout.scores, known, keepdims=True)
  return jnp.broadcast_to(~flat, known.shape)


@term("sample", "prompt", needs={scoring.Need("policy", scoring.values)})
def bounded_ranking(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  margin: float,
) -> jax.Array:
  """-log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r)."""
  a = _centered(policy[scoring.values], rollout)
  losses = jax.nn.softplus(-differences(a))
  losses += jax.nn.softplus(a - margin)[..., :, None]
  losses += jax.nn.softplus(-a - margin)[..., None, :]
  better = pairs(members(rollout)) & (differences(signal) > 0)
  return masked.mean(losses, better, (-2, -1))


def advantage_model(
  margin: float = 2.5, gamma: float = 0.1, clip: float = 0.2
) -> dict[str, Method]:
  """PPO on a learned advantage, while the best samples are rehearsed.

    a      v - mean of the group's v, v read before a sample's last token
    model  mean over groups of the mean over pairs with R_c > R_r of
           -log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r),
           m = `margin`
    policy PPO-clip with a at every token, + gamma NLL of each group's best by a

  Two learners: "advantage_model", the value head of a copy of the policy, takes
  one step per rollout, then pays the policy. a has mean 0 in every group, so
  prompts and tasks are on one scale; m = inf is Bradley-Terry.
  Open (official sources were not at hand): gamma. The expected reward is the
  group's mean under the present policy instead of several policies' with
  weights; the model learns beside the policy instead of before; a group stands
  for a cluster of embeddings, and the rollout for the pool that is rehearsed.
  Source: Peng et al. 2023, Stabilizing RLHF through Advantage Model and
  Selective Rehearsal.
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
