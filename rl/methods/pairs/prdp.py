"""Proximal reward difference prediction: regress differences of rewards."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs import pairwise
from rl.methods.pairs.pairwise import OLD, POLICY, REF
from rl.parameter_sets import frozen
from rl.transforms import scores


@term("sample", "prompt", needs={POLICY, OLD, REF})
def reward_difference(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  beta: float,
  clip: float,
) -> jax.Array:
  """Mean over pairs of the larger squared error, as it is and clipped."""
  now, old = policy[scoring.log_probs], rollout.extras[OLD]
  near = types.Named({"log_probs": jnp.clip(now, old - clip, old + clip)})
  errors = [
    beta * pairwise.log_ratios(moved, rollout, REF) - signal
    for moved in (policy, near)
  ]
  squared = [pairwise.differences(error) ** 2 for error in errors]
  valid = pairwise.pairs(pairwise.members(rollout))
  return masked.mean(jnp.maximum(*squared), valid, (-2, -1))


def prdp(beta: float = 0.1, clip: float = 0.2) -> Method:
  """Regresses a pair's difference of log-ratios on its difference of rewards.

    error  beta [(log pi - log ref)(y_1) - (log pi - log ref)(y_2)] - (R_1 - R_2)
    loss   mean over pairs of max(error^2, error^2 with each token's log pi
           clipped to log pi_old +- clip)

  The minimum is pi ~ ref exp(R / beta): the partition function is the same for
  both. Unlike DPO equal rewards teach too: they pull the log-ratios together.
  All pairs of a group take part; `clip` = inf is plain regression.
  Deviation: made for diffusion, where a step is a denoising step; here it is a
  token. Both constants are ours, for rewards of about [0, 1].
  Source: Deng et al. 2024, PRDP: Proximal Reward Difference Prediction.
  """
  return Method(
    advantage=scores(),
    loss=reward_difference(beta, clip),
    parameter_sets=(("ref", frozen()),),
  )
