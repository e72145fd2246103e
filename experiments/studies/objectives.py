"""Bias and variance of the objectives of a group, by enumeration.

  python -m experiments.studies.objectives [--samples 8] [--k 4]
    [--picture docs/objectives.png]

prints the table of `rl/README.md`, and draws its picture. Scores are verdicts.
A prompt has the success rate p; a group of n samples of one length has c right
ones, with the probability of a binomial distribution. With the advantages A_i,
the weight w of a sample in the loss, and d log Pr(y_i) / dp = 1/p for a right
sample y_i and -1/(1 - p) for a wrong one,

  g = sum_i w A_i d log Pr(y_i) / dp

is the group's estimate of the slope of the objective in p. E[g] is the weight
with which grad p of the prompt is trained. E[g] - f'(p) is the bias, if the
method states an objective f. The standard deviation of g is the noise from the
number of right samples. The noise from which right and wrong texts were drawn
comes on top; it is proportional to the size of the advantages, the root of
E[sum_i (w A_i)^2].
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from collections.abc import Callable, Sequence

import matplotlib
import matplotlib.figure
import numpy as np

from experiments.cli import arguments, errors
from experiments.evaluation import advantages_by_count
from rl import UsageError, methods
from rl.method import Method

# Success rates of the columns of the table, and those of the columns of sizes.
RATES = (0.02, 0.1, 0.3, 0.5, 0.9)
SIZE_RATES = (0.1, 0.5)


@dataclasses.dataclass(frozen=True)
class Objective:
  """A method with the objective whose gradient it estimates.

  Attributes:
    label: name in the table.
    method: the method.
    formula: f(p) as text; "" if no objective is stated.
    slope: `p -> f'(p)`; None if no objective is stated.
  """

  label: str
  method: Method
  formula: str = ""
  slope: Callable[[np.ndarray], np.ndarray] | None = None


def objectives(n: int, k: int) -> list[Objective]:
  """Returns the objectives for groups of n samples and sets of k."""

  def pass_at_k_slope(p: np.ndarray) -> np.ndarray:
    return k * (1 - p) ** (k - 1)

  def log_slope(terms: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda p: (1 - (1 - p) ** terms) / p

  pass_at_k = f"1 - (1 - p)^{k}"
  set_objectives = [
    Objective(
      f"`max_at_k`, {baseline}",
      methods.get("max_at_k", k=k, baseline=baseline),
      pass_at_k,
      pass_at_k_slope,
    )
    for baseline in ("none", "leave_one_out", "leave_one_out_minus_one")
  ]
  spread = math.exp(2.0) - 1  # of `rs_grpo` with its default beta = 2
  return [
    Objective("`rloo`", methods.get("rloo"), "p", np.ones_like),
    Objective(
      "`grpo`",
      methods.get("grpo", beta=0.0),
      "2 arcsin sqrt(p)",
      lambda p: 1 / np.sqrt(p * (1 - p)),
    ),
    *set_objectives,
    Objective(
      "`max_at_k`, centered, is `maxpo`",
      methods.get("maxpo", k=k),
      pass_at_k,
      pass_at_k_slope,
    ),
    Objective(
      "`pass_at_k`",
      methods.get("pass_at_k", k=k),
      f"{2 / k:g} arcsin sqrt(1 - (1 - p)^{k})",
      lambda p: (1 - p) ** (k / 2 - 1) / np.sqrt(1 - (1 - p) ** k),
    ),
    Objective(
      "`maxrl`",
      methods.get("maxrl"),
      f"log p to degree {n - 1}",
      log_slope(n - 1),
    ),
    Objective(
      "`tail_rl`",
      methods.get("tail_rl"),
      f"log p to degree {n - 1}",
      log_slope(n - 1),
    ),
    Objective(
      f"`from_value`, log@{k}",
      methods.get("from_value", objective=f"log@{k}"),
      f"log p to degree {k}",
      log_slope(k),
    ),
    Objective(
      "`from_value`, top@0.25",
      methods.get("from_value", objective="top@0.25"),
      "min(p / 0.25, 1)",
      lambda p: (p < 0.25) / 0.25,
    ),
    Objective(
      "`from_value`, tsallis@0.75",
      methods.get("from_value", objective="tsallis@0.75"),
      "4 p^0.25",
      lambda p: p**-0.75,
    ),
    Objective(
      "`tsallis`", methods.get("tsallis"), "4 p^0.25", lambda p: p**-0.75
    ),
    Objective(
      "`rs_grpo`",
      methods.get("rs_grpo"),
      "1/2 log(1 + p (e^2 - 1))",
      lambda p: spread / 2 / (1 + p * spread),
    ),
    Objective("`entropic`", methods.get("entropic", penalty=0.0)),
    Objective("`bbg`", methods.get("bbg", k=k)),
  ]


def moments(
  method: Method, n: int, rates: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Computes mean and standard deviation of g, and the size of advantages.

  Args:
    method: a method whose advantages depend on verdicts alone.
    n: samples of a group.
    rates: success rates p.

  Returns:
    mean, std, size: `[rates]` each.
  """
  by_count = advantages_by_count.compute(method, n)
  (term,) = method.loss.terms
  # Weight in the loss of a sample of one token, in a batch of one prompt.
  weight = float(
    np.asarray(term.aggregate.fn(np.ones((1, n, 1), bool)))[0, 0, 0]
  )
  c = np.arange(n + 1)
  p = np.asarray(rates)[:, None]
  probability = (
    np.array([math.comb(n, i) for i in c]) * p**c * (1 - p) ** (n - c)
  )
  right = np.where(c > 0, c * np.nan_to_num(by_count.right), 0.0)
  wrong = np.where(c < n, (n - c) * np.nan_to_num(by_count.wrong), 0.0)
  g = weight * (right / p - wrong / (1 - p))  # [rates, n + 1]
  mean = (probability * g).sum(-1)
  variance = (probability * (g - mean[:, None]) ** 2).sum(-1)
  squares = c * np.nan_to_num(by_count.right) ** 2
  squares += (n - c) * np.nan_to_num(by_count.wrong) ** 2
  size = weight * np.sqrt((probability * squares).sum(-1))
  return mean, np.sqrt(variance), size


def table(n: int, k: int) -> str:
  """Returns the table in Markdown."""
  header = ["method", "objective f(p)", *(f"p = {p:g}" for p in RATES)]
  header += [f"size, p = {p:g}" for p in SIZE_RATES]
  lines = [header, ["---"] * len(header)]
  for objective in objectives(n, k):
    mean, std, _ = moments(objective.method, n, RATES)
    _, _, size = moments(objective.method, n, SIZE_RATES)
    cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, std, strict=True)]
    if objective.slope is not None:
      bias = mean - objective.slope(np.array(RATES))
      cells = [
        cell if abs(b) < 1e-3 else f"{cell} ({b:+.2f})"
        for cell, b in zip(cells, bias, strict=True)
      ]
    cells += [f"{s:.2f}" for s in size]
    lines.append([objective.label, objective.formula or "none stated", *cells])
  return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def draw(n: int, k: int, path: pathlib.Path) -> None:
  """Draws E[g] and the standard deviation of g over p."""
  rates = np.linspace(0.01, 0.99, 99)
  figure = matplotlib.figure.Figure(figsize=(9.6, 4.2), layout="constrained")
  left, right = figure.subplots(1, 2)
  for i, objective in enumerate(objectives(n, k)):
    mean, std, _ = moments(objective.method, n, rates)
    color = matplotlib.colormaps["Paired"](i)
    label = objective.label.replace("`", "")
    left.plot(rates, mean, label=label, color=color, linewidth=1.4)
    right.plot(rates, std, color=color, linewidth=1.4)
    if objective.slope is not None:
      left.plot(rates, objective.slope(rates), ":", color=color, linewidth=1)
  left.set_ylabel("E[g]; dotted: f'(p)")
  right.set_ylabel("standard deviation of g")
  for axes in (left, right):
    axes.set_xlabel("success rate p")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
  left.set_ylim(0.02, 20)
  right.set_ylim(0.05, 50)
  figure.legend(loc="outside right center", fontsize=7, frameon=False)
  figure.savefig(path, dpi=150)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  parser = arguments.make_parser("studies.objectives", __doc__)
  arguments.add(parser, "--samples", 8, "samples of a group; default: 8")
  arguments.add(parser, "--k", 4, "set size; default: 4")
  arguments.add(parser, "--picture", pathlib.Path, "image file")
  options = parser.parse_args(argv)
  arguments.check_counts(options, "samples", "k", minimum=2)
  if options.k >= options.samples:
    raise UsageError(
      f"--k {options.k} must be below --samples {options.samples}; the "
      f"nearest valid value is {options.samples - 1}"
    )
  print(table(options.samples, options.k))
  if options.picture:
    draw(options.samples, options.k, options.picture)
  return 0


if __name__ == "__main__":
  sys.exit(main())
