"""Converts the evaluations of a run to curves of pass@k and the like over k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.evaluation.summary import Estimate
from experiments.report import training_curves
from experiments.report.runs import Run

# `{quantity of a chart: its statistics without k}`.
QUANTITIES = {
  "pass": "accuracy/pass@",
  "maj": "accuracy/maj@",
  "max": "reward/max@",
}


def collect(run: Run) -> list[dict[str, Any]]:
  """Returns the evaluations of a run that have curves, by step.

  The evaluation of the trained policy ("final") comes after one during training
  at the same step.
  """
  evaluations = [
    {
      "name": f"step {record['step']}",
      "step": record["step"],
      "final": False,
      "samples": record["samples"],
      "curves": _curves(
        {
          # NaN is the string "NaN" in a JSON file.
          name: Estimate(*(float(values[key]) for key in Estimate._fields))
          for name, values in record["estimates"].items()
        },
        record["samples"],
      ),
    }
    for record in run.intermediate
  ]
  for name, evaluation in run.evaluations.items():
    evaluations.append(
      {
        "name": name,
        "step": evaluation.step,
        "final": name == "trained",
        "samples": evaluation.samples,
        "curves": _curves(evaluation.estimates, evaluation.samples),
      }
    )
  with_curves = [e for e in evaluations if e["curves"]]
  return sorted(with_curves, key=lambda e: (e["step"], e["final"]))


def _curves(
  estimates: Mapping[str, Estimate], samples: int
) -> dict[str, dict[str, list[float | None]]]:
  """Returns `{quantity: {"mean", "low", "high"}}`, lists over k = 1 to S."""
  ks = range(1, samples + 1)
  by_quantity = {
    quantity: np.array([estimates[f"{name}{k}"] for k in ks])  # [S, 3]
    for quantity, name in QUANTITIES.items()
  }
  pass_at_k, max_at_k = by_quantity["pass"], by_quantity["max"]
  if np.isnan(pass_at_k).all():  # no verdict is known
    del by_quantity["pass"], by_quantity["maj"]
  elif np.allclose(pass_at_k, max_at_k, atol=1e-5, equal_nan=True):
    del by_quantity["max"]  # the scores are the verdicts
  return {
    quantity: {
      field: training_curves.to_json_numbers(curve[:, i])
      for i, field in enumerate(Estimate._fields)
    }
    for quantity, curve in by_quantity.items()
  }
