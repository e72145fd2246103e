"""Pairwise proximal policy optimisation: differences of two samples."""

import jax
import jax.numpy as jnp

from rl import choices, masked, types
from rl.losses import surrogates
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs import pairwise
from rl.methods.pairs.pairwise import OLD, POLICY, REF
from rl.parameter_sets import frozen
from rl.transforms import chain, scores, transform

CLIPPING = ("separate", "joint")


@transform("sample", needs={OLD, REF})
def minus_log_ratio(
  signal: jax.Array, rollout: types.Rollout, *, beta: float
) -> jax.Array:
  """R - beta sum_t (log pi_old - log pi_ref)."""
  moved = rollout.extras[OLD] - rollout.extras[REF]
  return signal - beta * masked.sum(moved, rollout.valid("token"))


@term("sample", "prompt", needs={POLICY, OLD})
def pairwise_surrogate(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
  clipping: str,
) -> jax.Array:
  """- mean over pairs of what `p3o` says."""
  log_ratio = pairwise.log_ratios(policy, rollout, OLD)
  gain = pairwise.differences(signal) / 2
  rho = surrogates.ratio(log_ratio)
  if clipping == "separate":
    bounded = jnp.clip(rho, 1 - clip, 1 + clip)[..., None]
    value = 2 * jnp.minimum(gain * rho[..., None], gain * bounded)
  else:
    joint = jax.lax.stop_gradient(rho[..., :, None] * rho[..., None, :])
    near = (joint >= 1 - clip) & (joint <= 1 + clip)
    weight = jnp.where(near, joint, 0.0)
    value = weight * gain * pairwise.differences(log_ratio)
  valid = pairwise.pairs(pairwise.members(rollout))
  return -masked.mean(value, valid, (-2, -1))


def p3o(
  beta: float = 0.1, clip: float = 0.2, clipping: str = "separate"
) -> Method:
  """PPO on pairs: each sample is paid by how far it beats the other one.

    A         (R_1 - R_2) / 2, R with -beta log(pi_old / pi_ref) of the sample
    separate  min(A rho_1, A clip rho_1) + min(-A rho_2, -A clip rho_2)
    joint     A sg[rho_1 rho_2] (log pi_1 - log pi_2), 0 where the product of
              the ratios leaves [1 - clip, 1 + clip]

  rho is the ratio of a whole sample. On-policy this is `rloo` of the two, and
  R + f(prompt) changes nothing. Groups of more: the mean over all pairs.
  Open: beta is ours (0 drops the reference); "joint" rests on both sides, as
  the product does not say which sample moved.
  Source: Wu et al. 2023, Pairwise Proximal Policy Optimization.
  """
  if clipping not in CLIPPING:
    raise ValueError(choices.unknown("clipping", clipping, CLIPPING))
  rewards = chain(scores(), minus_log_ratio(beta)) if beta else scores()
  return Method(
    advantage=rewards,
    loss=pairwise_surrogate(clip, clipping),
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
