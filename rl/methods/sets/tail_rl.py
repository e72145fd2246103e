"""TailRL: the policy gradient of the log of the probability of the tail.

Axes: P prompts, S samples per prompt (a group).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from rl import types
from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sets.from_value import tail_advantages
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def share_of_thresholds(
  signal: jax.Array, rollout: types.Rollout, *, thresholds: tuple[float, ...]
) -> jax.Array:
  """Returns G(r), the share of the thresholds that are below a score."""
  del rollout
  is_below = jnp.asarray(thresholds) < signal[..., None]
  return is_below.mean(-1, dtype=jnp.float32)


def tail_rl(
  degree: int = 0,
  thresholds: Sequence[float] = (),
  baseline: str = "centered",
  floor: float = 0.0,
  clip: float = 0.2,
) -> Method:
  """Ascends the integral of log P(R > tau) over tau, truncated.

  With the scores x_1 <= ... <= x_n of a group,

    A_i = sum_{j=2}^i (x_j - x_{j-1}) / (n - j + 1), minus its mean,

  which is (x_n - x_1) / n. sum_i A_i grad log pi(y_i) is an unbiased estimate
  of the gradient of the sum over k from 1 to n - 1 of max@k / k. This is the
  integral of log P(R > tau) truncated after degree n - 1; log itself has no
  unbiased estimate. A sample that is far better than the others gets nearly the
  whole gap to the second best, whatever n, and no k has to be chosen. With the
  baseline "leave_one_out_minus_one" the sum begins at j = 1 with x_0 = `floor`,
  the mean is not subtracted, and the degree is n. On verdicts A is that of
  `maxrl`, divided by n. The objective depends on the unit of the scores.
  `thresholds` gives a fixed measure of tau instead, by replacing each score by
  the share of the thresholds below it; thresholds that depend on the group,
  such as its quantiles, would bias the estimate. The loss is PPO-clip, summed
  over the tokens of all samples of a group and averaged over prompts.
  Open: the thresholds and the baseline of the paper's experiments; the paper
  was not available, and the equation is that of its summary.
  Source: TailRL, arXiv 2609.02987, not checked against the paper.

  Args:
    degree: degree after which log is truncated, at least 1; 0 is the largest
      one that a group can estimate.
    thresholds: values of tau; none is the integral over all tau.
    baseline: one of `rl.methods.sets.tail_objectives.BASELINES`.
    floor: a score that no sample is below; "leave_one_out_minus_one" reads it.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  objective = f"log@{degree}" if degree else "log"
  links = [share_of_thresholds(tuple(thresholds))] if thresholds else []
  advantage = tail_advantages(objective, baseline=baseline, floor=floor)
  return Method(
    advantage=chain(scores(), *links, advantage),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
