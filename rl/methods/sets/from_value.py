"""The policy gradient of any function of the success rate.

Axes: P prompts, S samples per prompt (a group).
"""

from collections.abc import Sequence

from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sets import success_rates
from rl.transforms import among, chain, known_verdict, lift, verdicts

success_rate_advantages = lift(
  success_rates.success_rate_advantages,
  valid=lambda rollout: rollout.sample_mask,
)


def from_value(
  series: Sequence[float] = (0.0, -1.0, -1 / 2, -1 / 3, -1 / 4),
  baseline: str = "centered",
  clip: float = 0.2,
) -> Method:
  """Ascends E over prompts of f(p) = sum_j series[j] (1 - p)^j.

  p is the success rate of the prompt, the probability of a right sample. A_i
  [P, S] is the weight of sample i, whose sum A_i grad log pi(y_i) over the
  group is an unbiased estimate of grad f(p): `success_rate_advantages` of
  `rl.methods.sets.success_rates`. The series (1, -1) is the mean accuracy,
  (1, 0, 0, 0, -1) is pass@4, and the default is log p truncated after degree 4.
  `power_series` of the same module computes the series of any other f. Its
  degree must be below the number of samples of a group, or at most equal to it
  if not centered. Graded scores are not used, and samples with an unknown
  verdict are left out. The loss is PPO-clip, summed over the tokens of all
  samples of a group and averaged over prompts; the expected gradient of the
  first update of a rollout is exact.
  Source: Advantage Shaping as Surrogate Reward Maximization, arXiv 2510.23049,
  of which only the abstract was available: a function of the success rate gives
  an advantage. The unbiased estimate for any series is from this project.
  Quantity: correct.

  Args:
    series: coefficients of f in powers of 1 - p, from degree 0.
    baseline: one of `rl.methods.sets.success_rates.BASELINES`.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  advantage = success_rate_advantages(tuple(series), baseline=baseline)
  return Method(
    advantage=chain(verdicts(), among(known_verdict, advantage)),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
