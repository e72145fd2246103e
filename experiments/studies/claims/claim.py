"""A claim: a paper's statement, arms to train, and a test with a verdict.

An arm is a config that is trained with several seeds. The test was fixed before
the first run. It consists of comparisons. A comparison measures an effect for
each seed, for example the pass@1 of one arm minus the pass@1 of another arm.
Both arms of a seed share the base policy and the training problems. The effect
is expected in a region with a bound b. Student's 95 % interval for the mean
effect over seeds decides:

  above b    holds if the interval lies above b, fails if it lies below b
  below b    holds if the interval lies below b, fails if it lies above b
  reported   has no bound: the effect is shown, but is no part of the verdict

A comparison whose interval contains b is undecided.

The verdict is "reproduced" if all comparisons hold, "not reproduced" if one
fails, and "inconclusive" otherwise; reported comparisons do not count. An
undecided comparison is printed with the distance from b that this number of
seeds would have detected with probability 0.8.

The intervals express the variation over training seeds. They do not express how
the effect depends on the held-out problems, which are the same for all seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import matplotlib.axes
import numpy as np
from scipy import special

from experiments.evaluation.intervals import CONFIDENCE, student_interval
from experiments.studies.arms import Arm, Outcome
from rl import UsageError, registry

Outcomes = Mapping[str, Outcome]
Verdict = Literal["reproduced", "not reproduced", "inconclusive"]
REGIONS = ("above", "below", "reported")
POWER = 0.8  # probability that `Comparison.detectable` refers to


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The effect that one part of a claim's test measured.

  Attributes:
    label: the quantity and the difference, such as "pass@1: RLOO - base".
    effects: `[seeds]`, the effect in each seed.
    region: "above", "below" or "reported".
    bound: bound b of the region, in the unit of the effects; not used if the
      region is "reported".
  """

  label: str
  effects: np.ndarray
  region: str = "above"
  bound: float = 0.0

  def __post_init__(self):
    if self.region not in REGIONS:
      raise UsageError(
        registry.describe_unknown("region", self.region, REGIONS)
      )
    if len(self.effects) < 2:
      raise UsageError(
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
    """Student's 95 % interval for the mean over seeds."""
    low, high = student_interval(self.effects)
    return float(low), float(high)

  @property
  def detectable(self) -> float:
    """Distance of the true mean from b that is detected with probability 0.8.

    It is (t_{0.975} + t_{0.8}) standard errors, where t_q is the q-quantile of
    Student's distribution with one degree of freedom less than seeds.
    """
    degrees_of_freedom = len(self.effects) - 1
    quantiles = special.stdtrit(
      degrees_of_freedom, [(1 + CONFIDENCE) / 2, POWER]
    )
    return float(self.standard_error * quantiles.sum())

  @property
  def expected(self) -> str:
    """The region as text, for example "above 0"; "" if only reported."""
    if self.region == "reported":
      return ""
    return f"{self.region} {self.bound:g}"

  @property
  def holds(self) -> bool | None:
    """True if the comparison holds, False if it fails, None otherwise.

    None means that the interval contains the bound, or that the effect is only
    reported.
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
    UsageError: all comparisons are only reported.
  """
  decisions = [c.holds for c in comparisons if c.region != "reported"]
  if not decisions:
    raise UsageError(
      'a claim needs at least one comparison with the region "above" or "below"'
    )
  if all(decisions):
    return "reproduced"
  return "not reproduced" if False in decisions else "inconclusive"


class Measure(NamedTuple):
  """A quantity of an arm.

  Attributes:
    name: name of the quantity, such as "pass@8".
    read: function from an outcome to the values of its seeds, `[seeds]`.
  """

  name: str
  read: Callable[[Outcome], np.ndarray]


def pass_at(k: int) -> Measure:
  """Returns the measure pass@k."""
  return Measure(f"pass@{k}", lambda outcome: outcome.pass_at(k))


def best_of(k: int) -> Measure:
  """Returns the expected best score of k samples."""
  return Measure(f"best of {k}", lambda outcome: outcome.max_at(k))


@dataclasses.dataclass(frozen=True)
class Difference:
  """A part of a claim's test: a measure of one arm minus that of another.

  Attributes:
    measure: the quantity.
    arm: name of the arm.
    other: name of the arm whose measure is subtracted; "" subtracts nothing.
    region, bound: the claimed region, the same as in `Comparison`.
    label: label of the comparison; "" stands for "MEASURE: ARM - OTHER".
    share: number by which the measure of `other` is multiplied.
  """

  measure: Measure
  arm: str
  other: str
  region: str = "above"
  bound: float = 0.0
  label: str = ""
  share: float = 1.0

  def compare(self, outcomes: Outcomes) -> Comparison:
    """Returns the comparison of the outcomes of the arms."""
    effects = self.measure.read(outcomes[self.arm])
    if self.other:
      effects = effects - self.share * self.measure.read(outcomes[self.other])
    label = self.label or f"{self.measure.name}: {self.arm} - {self.other}"
    return Comparison(label, effects, self.region, self.bound)


@dataclasses.dataclass(frozen=True)
class Claim:
  """A statement of a paper and its test.

  Attributes:
    name: name of the claim, and of its function in `definitions`.
    statement: statement of the paper in one sentence.
    source: the papers, separated by semicolons.
    setting: description of the task, the sizes, and how the arms differ.
    arms: arms to train, by name.
    differences: the parts of the test.
    draw: function that plots the outcomes of the arms on given axes.
  """

  name: str
  statement: str
  source: str
  setting: str
  arms: Mapping[str, Arm]
  differences: Sequence[Difference]
  draw: Callable[[matplotlib.axes.Axes, Outcomes], None]

  def test(self, outcomes: Outcomes) -> list[Comparison]:
    """Returns the comparisons of the outcomes of the arms."""
    return [difference.compare(outcomes) for difference in self.differences]
