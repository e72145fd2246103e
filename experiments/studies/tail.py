"""Where a proxy reward may err: the win rate of policies that maximise it.

  python -m experiments.studies.tail [--answers 1000] [--strength 10 100]
    [--best_of 16 128]

A bandit has N answers, of the true ranks 1 to N, which the base policy draws
with equal probability. A proxy reward orders them as the truth does, except in
one region of ranks, where its order is random. Two policies follow the proxy:

  tilted     pi(x) ~ exp(strength * u(x)), with u(x) the share of answers that
             the proxy ranks below x: the optimum of the mean of u less the KL
             divergence to the base policy over `strength`
  best of n  the answer that the proxy ranks highest of n draws

The command prints the chance that an answer of the policy beats one of the base
policy by the truth, a tie counting one half. It is the exact mean over all
random orders, and nothing is sampled. A proxy that errs in the lower half of
the ranks costs at most .001, and one that errs in the upper half .15 to .24.
The more a policy is optimised, the smaller the upper part is that counts: with
a strength of 100, or the best of 128, errors below the best tenth cost less
than .001. `refined_rubric` of `rewards.judged` therefore sharpens a rubric by
the two best samples.

Source: Zhang et al. 2025, Chasing the Tail: Effective Rubric-based Reward
Modeling for Large Language Model Post-Training.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from experiments.cli import arguments, errors
from rl import UsageError

# Regions in which a proxy errs: their lowest and highest share of the ranks.
REGIONS = {
  "nowhere": (0.0, 0.0),
  "lowest half": (0.0, 0.5),
  "lowest nine tenths": (0.0, 0.9),
  "highest half": (0.5, 1.0),
  "highest tenth": (0.9, 1.0),
  "everywhere": (0.0, 1.0),
}


def tilted(count: int, strength: float) -> np.ndarray:
  """Returns the probabilities exp(strength * i / N) / Z of the proxy's ranks.

  Args:
    count: N, the number of answers.
    strength: the inverse of the weight of the KL divergence.

  Returns:
    `[N]`, by the proxy's rank, of which the last is the best.
  """
  weights = np.exp(strength * (np.arange(count) / count - 1))
  return weights / weights.sum()


def best_of(count: int, draws: int) -> np.ndarray:
  """Returns the probabilities of the best of n draws with replacement.

    P(rank i is the best) = (i / N)^n - ((i - 1) / N)^n,  i = 1..N

  Args:
    count: N, the number of answers.
    draws: n.

  Returns:
    `[N]`, by the proxy's rank, of which the last is the best.
  """
  below = (np.arange(count + 1) / count) ** draws
  return np.diff(below)


def win_rate(policy: np.ndarray, low: float, high: float) -> float:
  """Returns the chance to beat the base policy, if the proxy errs in a region.

  The answers whose ranks are in the region are in a random order; the mean is
  over all orders. An answer of the true rank i beats a random one with the
  probability (i - 1/2) / N.

  Args:
    policy: `[N]` probabilities by the proxy's rank.
    low: share of the answers below the region.
    high: share of the answers below the end of the region.
  """
  count = len(policy)
  wins = (np.arange(count) + 0.5) / count
  region = slice(round(low * count), round(high * count))
  if region.start < region.stop:
    # Each answer of the region is at each of its ranks equally often.
    wins[region] = wins[region].mean()
  return float(policy @ wins)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Prints the table."""
  parser = arguments.make_parser("studies.tail", __doc__)
  arguments.add(parser, "--answers", 1000, "N; default: %(default)s")
  text = "strengths of the tilt; default: 10 100"
  add, values = parser.add_argument, [10.0, 100.0]
  add("--strength", type=float, nargs="+", default=values, help=text)
  text, values = "numbers of draws; default: 16 128", [16, 128]
  add("--best_of", type=int, nargs="+", default=values, help=text)
  options = parser.parse_args(argv)
  arguments.check_counts(options, "answers", minimum=10)
  if min(options.best_of) < 1:
    raise UsageError(f"--best_of {min(options.best_of)} must be at least 1")
  if not np.isfinite(options.strength).all():
    raise UsageError(f"--strength {options.strength} must be finite")
  policies = {
    f"tilted by {x:g}": tilted(options.answers, x) for x in options.strength
  } | {f"best of {n}": best_of(options.answers, n) for n in options.best_of}
  print(f"| the proxy errs | {' | '.join(policies)} |")
  print("|---" * (len(policies) + 1) + "|")
  for name, region in REGIONS.items():
    cells = [f"{win_rate(p, *region):.3f}" for p in policies.values()]
    print(f"| {name} | {' | '.join(cells)} |")
  return 0


if __name__ == "__main__":
  sys.exit(main())
