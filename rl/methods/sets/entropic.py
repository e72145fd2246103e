"""The entropic objective of TTT-Discover, with a temperature for each group.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import math

import jax
import jax.numpy as jnp

from rl import UsageError, masked, types
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import broadcast, chain, log_ratios, scores, transform

Array = jax.Array
_LARGEST = 1e6  # largest inverse temperature, in units of 1 / range of scores
_BISECTIONS = 60


def tilt(scores: Array, valid: Array, budget: float) -> Array:
  """Computes exp(b (R_i - max R)), with b from a budget of KL for each group.

  q_i = exp(b R_i) / sum_j exp(b R_j) is the group reweighted by scores, of n
  samples. b >= 0 is the solution of

    KL(q || uniform) = sum_i q_i log(n q_i) = budget,

  whose left side grows with b to log(n / m), for m samples with the highest
  score. If that is below the budget, b is 1e6 over the range of the scores, so
  that q is uniform over these m samples.

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, samples that exist.
    budget: KL of q to the uniform distribution, in nats.

  Returns:
    `[..., S]`, between 0 and 1; 0 for samples that do not exist.
  """
  highest = masked.max(scores, valid, keepdims=True)
  gap = jnp.where(valid, highest - scores, 0.0)  # >= 0
  spread = jnp.max(gap, -1, keepdims=True)
  gap = gap / jnp.where(spread > 0, spread, 1.0)  # in units of the range
  n = masked.count(valid, keepdims=True)

  def weights(b: Array) -> Array:
    return jnp.where(valid, jnp.exp(-b * gap), 0.0)

  def kl(b: Array) -> Array:
    # At least 1 in a group with a sample.
    total = jnp.maximum(weights(b).sum(-1, keepdims=True), 1.0)
    mean_gap = (weights(b) * gap).sum(-1, keepdims=True) / total
    return jnp.log(jnp.maximum(n, 1.0) / total) - b * mean_gap

  def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds  # logs of b
    middle = (low + high) / 2
    is_below = kl(jnp.exp(middle)) < budget
    return (
      jnp.where(is_below, middle, low),
      jnp.where(is_below, high, middle),
    )

  high = jnp.full_like(n, math.log(_LARGEST))
  _, log_b = jax.lax.fori_loop(0, _BISECTIONS, halve, (-high, high))
  return weights(jnp.exp(log_b))


@transform(takes="sample")
def entropic_advantages(
  signal: Array, rollout: types.Rollout, *, budget: float
) -> Array:
  """Returns e_i / (mean of e_j over j != i) - 1, with e = `tilt`.

  It is 0 in a group of equal scores, and in one of at most exp(budget) samples:
  a single best sample would then have all the weight, and the mean of the
  others would vanish.

  Args:
    signal: `[P, S]` scores.
    rollout: the rollout.
    budget: KL of the tilted group to the uniform one, in nats.
  """
  valid = rollout.sample_mask
  e = tilt(signal, valid, budget)
  n = masked.count(valid, keepdims=True)
  others = (e.sum(-1, keepdims=True) - e) / jnp.maximum(n - 1, 1.0)
  is_used = valid & (n > math.exp(budget))
  return jnp.where(is_used, e / jnp.where(is_used, others, 1.0) - 1, 0.0)


def entropic(budget: float = math.log(2), penalty: float = 0.1) -> Method:
  """A_it = e_i / (mean of the others' e) - 1 - penalty log(pi / pi_0)_it.

  e_i = exp(b R_i), and R_i is the score of sample i. For a fixed b this is the
  gradient of log E[exp(b R)], up to a bias of order one over the number of
  samples. b is chosen for each group: the group reweighted by e has the KL
  `budget` to the uniform one (`tilt`). So about a share exp(-budget) of the
  samples carries the update, whatever the scale of the scores, and A does not
  change if all scores are multiplied by a positive number. Each token t also
  gets the penalty log(pi / pi_0) at that token, with pi the policy that sampled
  it and pi_0 the policy at the start of the run. The loss is -A log pi,
  averaged over the tokens of all samples.
  If n exp(-budget) or more of the n samples share the highest score, they get
  equal weights. Groups of at most exp(budget) samples are not trained on.
  Deviation: the released code subtracts the mean of the penalty over the batch.
  The reuse of earlier solutions as starting points of prompts is not part of
  this method.
  Source: Learning to Discover at Test Time (TTT-Discover), arXiv 2601.16175.

  Args:
    budget: KL of the reweighted group to the uniform one, in nats.
    penalty: weight of the log-ratio to the starting policy; 0 leaves it out.

  Raises:
    UsageError: if the budget is not positive.
  """
  if not budget > 0:
    raise UsageError(f"budget = {budget} must be above 0; log 2 is usual")
  advantage = chain(scores(), entropic_advantages(budget), broadcast())
  reference = ()
  if penalty:
    advantage += -penalty * chain(log_ratios("old", "ref"))
    reference = (("ref", frozen()),)
  return Method(
    advantage=advantage,
    loss=policy_gradient(reinforce()),
    parameter_sets=reference,
  )
