"""P3O, pairwise proximal policy optimisation: differences of two samples.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, types
from rl.losses import surrogates
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs import pairwise
from rl.methods.pairs.pairwise import OLD, POLICY, REF
from rl.parameter_sets import frozen
from rl.transforms import chain, scores, transform

CLIPPING = ("separate", "joint")  # how the ratios of a pair are clipped


@transform(takes="sample", needs={OLD, REF})
def minus_log_ratio(
  signal: jax.Array, rollout: types.Rollout, *, beta: float
) -> jax.Array:
  """Returns R - beta sum_t (log pi_old - log pi_ref) of each sample."""
  log_ratio = rollout.extras[OLD] - rollout.extras[REF]
  return signal - beta * masked.sum(log_ratio, rollout.valid("token"))


@term(takes="sample", gives="prompt", needs={POLICY, OLD})
def pairwise_surrogate(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
  clipping: str,
) -> jax.Array:
  """Returns minus the objective of `p3o`, averaged over the pairs of a group.

  The signal holds the rewards R `[P, S]`. A group without a pair has 0.
  """
  log_ratio = pairwise.log_ratios(policy, rollout, OLD)  # [P, S]
  gain = pairwise.differences(signal) / 2  # [P, S, S], A of pairs
  rho = surrogates.ratio(log_ratio)
  if clipping == "separate":
    clipped = jnp.clip(rho, 1 - clip, 1 + clip)[..., None]
    # The mean below is over ordered pairs (i, j), so each pair is in it twice.
    # Twice the term of i averages to the sum of the terms of i and j.
    value = 2 * jnp.minimum(gain * rho[..., None], gain * clipped)
  else:
    rho_pair = jax.lax.stop_gradient(rho[..., :, None] * rho[..., None, :])
    # PPO's rule: only a step that leads further out of the range is clipped.
    in_range = jnp.where(gain > 0, rho_pair <= 1 + clip, rho_pair >= 1 - clip)
    weight = jnp.where(in_range, rho_pair, 0.0)
    value = weight * gain * pairwise.differences(log_ratio)
  valid = pairwise.pairs(pairwise.members(rollout))
  return -masked.mean(value, valid, (-2, -1))


def p3o(
  beta: float = 0.1, clip: float = 0.2, clipping: str = "separate"
) -> Method:
  """PPO on pairs: a sample's advantage is its lead in reward over the other.

    A         (r_1 - r_2) / 2, r = R - beta log(pi_old / pi_ref) of a sample
    separate  min(A rho_1, A clip(rho_1)) + min(-A rho_2, -A clip(rho_2))
    joint     A sg[rho_1 rho_2] (log pi_1 - log pi_2), 0 if A > 0 and the
              product of the ratios is above 1 + clip, or A < 0 and it is below
              1 - clip

  1 and 2 are the samples of a pair of one group. R [P, S] is the score of a
  sample, rho [P, S] the importance ratio pi / pi_old of a whole sample,
  clip(rho) is rho clipped to [1 - clip, 1 + clip], pi_old the policy at the
  start of the training step, pi_ref that at the start of the run, and sg stops
  the gradient. The objective is averaged over all pairs of a group, then over
  groups. At pi = pi_old its gradient is that of `rloo` on the two samples;
  adding a function of the prompt to R changes nothing.
  Open: the default of beta is a guess. In "joint", exchanging 1 and 2 changes
  the sign of A but not the product. Here every pair counts in both orders, as
  it does on average if the order is random; outside the range one order is
  clipped, so that the gradient of the pair is halved.
  Source: Wu et al. 2023, Pairwise Proximal Policy Optimization.

  Args:
    beta: weight of the KL penalty; 0 drops the reference policy and its forward
      pass.
    clip: clip range [1 - clip, 1 + clip] of a ratio, or of the product of two
      ratios.
    clipping: "separate" or "joint".

  Raises:
    UsageError: if `clipping` is unknown.
  """
  if clipping not in CLIPPING:
    raise UsageError(registry.describe_unknown("clipping", clipping, CLIPPING))
  rewards = chain(scores(), minus_log_ratio(beta)) if beta else scores()
  return Method(
    advantage=rewards,
    loss=pairwise_surrogate(clip, clipping),
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
