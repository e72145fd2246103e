"""PRDP: regresses differences of log-ratios on differences of rewards.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs import pairwise
from rl.methods.pairs.pairwise import OLD, POLICY, REF
from rl.parameter_sets import frozen
from rl.transforms import scores


@term(takes="sample", gives="prompt", needs={POLICY, OLD, REF})
def reward_difference(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  beta: float,
  clip: float,
) -> jax.Array:
  """Returns the loss of `prdp`, averaged over the pairs of a group.

  The signal holds the rewards R `[P, S]`. A group without a pair has 0.
  """
  new, old = policy[scoring.log_probs], rollout.extras[OLD]
  clipped = types.Named({"log_probs": jnp.clip(new, old - clip, old + clip)})
  # beta d_i - R_i of each sample [P, S], without and with the clip.
  errors = [
    beta * pairwise.log_ratios(log_probs, rollout, REF) - signal
    for log_probs in (policy, clipped)
  ]
  # [P, S, S] each, squared errors of pairs.
  squared = [pairwise.differences(error) ** 2 for error in errors]
  valid = pairwise.pairs(pairwise.members(rollout))
  return masked.mean(jnp.maximum(*squared), valid, (-2, -1))


def prdp(beta: float = 0.1, clip: float = 0.2) -> Method:
  """Regresses a pair's difference of log-ratios on its difference of rewards.

    error  beta (d_1 - d_2) - (R_1 - R_2), d = log pi(y) - log ref(y)
    loss   mean over pairs of max(error^2, error^2 with each token's log pi
           clipped to log pi_old +- clip)

  1 and 2 are the samples of a pair of one group; the loss is averaged over the
  pairs of a group, then over groups. R [P, S] is the score of a sample y, ref
  the policy at the start of the run and pi_old that at the start of the
  training step. The minimum is pi proportional to ref exp(R / beta), whose
  normalisation cancels in a pair. Two samples with equal rewards, which DPO
  cannot use, draw their log-ratios d together.
  Deviation: the paper is about diffusion models; tokens take the place of its
  denoising steps.
  Open: both defaults are guesses, for rewards between about 0 and 1.
  Source: Deng et al. 2024, PRDP: Proximal Reward Difference Prediction.

  Args:
    beta: factor of the log-ratios.
    clip: largest change of a token's log pi; inf is regression without a clip.
  """
  return Method(
    advantage=scores(),
    loss=reward_difference(beta, clip),
    parameter_sets=(("ref", frozen()),),
  )
