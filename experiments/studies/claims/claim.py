"""A claim: a paper's statement, arms to train, and a test with a verdict.

The test was fixed before the first run. It consists of comparisons. A
comparison measures an effect, for example the pass@1 of one arm minus that of
another, for each seed. The difference is paired: both arms of a seed share the
base policy and the training problems. A Student interval of 95 % for the mean
over seeds is compared with the region in which the statement expects the
effect:

  above b    holds if the interval lies above b, fails if it lies below b
  below b    holds if the interval lies below b, fails if it lies above b
  reported   is shown, and has no influence on the verdict

The verdict is "reproduced" if all comparisons hold, "not reproduced" if one
fails, and "inconclusive" otherwise. The report of an undecided comparison names
the smallest effect that this number of seeds would probably have detected.

The intervals express the variation over training seeds. They do not express the
choice of the held-out problems, which are the same for all seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import matplotlib.axes
import numpy as np
from scipy import special

from experiments.evaluation.intervals import CONFIDENCE, student_interval
from experiments.studies.arms import Arm, Outcome
from rl import registry

Outcomes = Mapping[str, Outcome]
Verdict = Literal["reproduced", "not reproduced", "inconclusive"]
REGIONS = ("above", "below", "reported")
POWER = 0.8  # probability of detecting an effect of the size `detectable`


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Measured effect of one part of a statement.

  Attributes:
    label: short description, for example "pass@1: RLOO - base".
    effects: `[seeds]` effect of each seed.
    region: "above", "below" or "reported".
    bound: bound b of the region, in the unit of the effects.
  """

  label: str
  effects: np.ndarray
  region: str = "above"
  bound: float = 0.0

  def __post_init__(self):
    if self.region not in REGIONS:
      raise ValueError(
        registry.describe_unknown("region", self.region, REGIONS)
      )
    if len(self.effects) < 2:
      raise ValueError(
        f"{self.label}: the number of seeds is {len(self.effects)}, too small "
        "for a confidence interval; use at least 2"
      )

  @property
  def mean(self) -> float:
    return float(np.mean(self.effects))

  @property
  def standard_error(self) -> float:
    """Standard error of the mean over seeds."""
    return float(np.std(self.effects, ddof=1) / np.sqrt(len(self.effects)))

  @property
  def interval(self) -> tuple[float, float]:
    """Student's 95 % interval of the mean over seeds."""
    low, high = student_interval(self.effects)
    return float(low), float(high)

  @property
  def detectable(self) -> float:
    """Smallest distance to the bound that is detected with probability 0.8.

    It is (t_{0.975} + t_{0.8}) standard errors, where t_q is the quantile of
    Student's distribution.
    """
    degrees_of_freedom = len(self.effects) - 1
    quantiles = special.stdtrit(
      degrees_of_freedom, [(1 + CONFIDENCE) / 2, POWER]
    )
    return float(self.standard_error * quantiles.sum())

  @property
  def expected(self) -> str:
    """The region as text, for example "above 0"."""
    if self.region == "reported":
      return ""
    return f"{self.region} {self.bound:g}"

  @property
  def holds(self) -> bool | None:
    """True if the effect is in the region, False if not, None if undecided.

    It is undecided if the interval contains the bound, and for a comparison
    that is only reported.
    """
    if self.region == "reported":
      return None
    low, high = self.interval
    above, below = low > self.bound, high < self.bound
    if self.region == "below":
      above, below = below, above
    return True if above else False if below else None


def verdict(comparisons: Sequence[Comparison]) -> Verdict:
  """Combines the comparisons to a verdict.

  Raises:
    ValueError: no comparison has a region.
  """
  decisions = [c.holds for c in comparisons if c.region != "reported"]
  if not decisions:
    raise ValueError(
      'a claim needs at least one comparison with the region "above" or "below"'
    )
  if all(decisions):
    return "reproduced"
  return "not reproduced" if False in decisions else "inconclusive"


@dataclasses.dataclass(frozen=True)
class Claim:
  """A statement of a paper and its test.

  Attributes:
    name: name of the claim, its file and its function.
    statement: statement of the paper in one sentence.
    source: the papers, separated by semicolons.
    setting: description of the task, the sizes and the differences of the arms.
    arms: arms to train, by name.
    test: function from the outcomes of the arms to the comparisons.
    draw: function that plots the outcomes on the axes.
  """

  name: str
  statement: str
  source: str
  setting: str
  arms: Mapping[str, Arm]
  test: Callable[[Outcomes], list[Comparison]]
  draw: Callable[[matplotlib.axes.Axes, Outcomes], None]
