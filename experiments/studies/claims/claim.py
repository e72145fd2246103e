"""A claim: a paper's statement, its sweep, and a test fixed before the run.

A claim is a conjunction of comparisons. Each is a number per seed (an effect,
paired by seed: base policy and training problems) with a Student 95 % interval,
and a region that the statement says it lies in:

  above b    holds if the interval is above b, fails if it is below
  below b    the reverse
  reported   worth knowing, and no part of the verdict

All hold: reproduced. One fails: not reproduced. Else inconclusive, and the
smallest effect that so many seeds could have shown is reported. The interval is
over seeds of training; the held-out problems are the same for all of them.
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
POWER = 0.8


@dataclasses.dataclass(frozen=True)
class Comparison:
  """One part of a statement, measured.

  Attributes:
    label: what is compared, in words.
    effects: `[seeds]`.
    region: "above", "below" or "reported".
    bound: of the region, in the units of the effects.
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
        f"{self.label}: {len(self.effects)} seed gives no interval; use at "
        "least 2"
      )

  @property
  def mean(self) -> float:
    return float(np.mean(self.effects))

  @property
  def standard_error(self) -> float:
    """Of the mean over seeds."""
    return float(np.std(self.effects, ddof=1) / np.sqrt(len(self.effects)))

  @property
  def interval(self) -> tuple[float, float]:
    """Student's 95 % interval of the mean over seeds."""
    low, high = student_interval(self.effects)
    return float(low), float(high)

  @property
  def detectable(self) -> float:
    """The effect that so many seeds show four times in five.

    (t_{0.975} + t_{0.8}) standard errors.
    """
    freedom = len(self.effects) - 1
    quantiles = special.stdtrit(freedom, [(1 + CONFIDENCE) / 2, POWER])
    return float(self.standard_error * quantiles.sum())

  @property
  def expected(self) -> str:
    """The region, in words."""
    if self.region == "reported":
      return ""
    return f"{self.region} {self.bound:g}"

  @property
  def holds(self) -> bool | None:
    """Whether the interval lies in the region; None: it cannot be said."""
    if self.region == "reported":
      return None
    low, high = self.interval
    above, below = low > self.bound, high < self.bound
    if self.region == "below":
      above, below = below, above
    return True if above else False if below else None


def verdict(comparisons: Sequence[Comparison]) -> Verdict:
  """What the comparisons with a region say together.

  Raises:
    ValueError: there is none.
  """
  found = [c.holds for c in comparisons if c.region != "reported"]
  if not found:
    raise ValueError("a claim needs at least one comparison with a region")
  if all(found):
    return "reproduced"
  return "not reproduced" if False in found else "inconclusive"


@dataclasses.dataclass(frozen=True)
class Claim:
  """A statement and how it is tried.

  Attributes:
    name: of its file.
    statement: the paper's, in one sentence.
    source: which paper.
    setting: task, sizes and what differs between the arms.
    arms: what is trained.
    test: from outcomes to the comparisons, fixed before the run.
    draw: shows the outcomes.
  """

  name: str
  statement: str
  source: str
  setting: str
  arms: Mapping[str, Arm]
  test: Callable[[Outcomes], list[Comparison]]
  draw: Callable[[matplotlib.axes.Axes, Outcomes], None]
