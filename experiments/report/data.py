"""Collects what the page of a report shows, as JSON values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.traverse_util
import numpy as np

from experiments.evaluation import statistics
from experiments.evaluation.statistics import Estimate
from experiments.report import curves, tables
from experiments.report.runs import Run, names
from experiments.report.samples import Packed
from experiments.training import workdirs

_TERM_METRICS = ("score/", "reward/weight/")
_QUANTITIES = {
  "pass": "accuracy/pass@",
  "maj": "accuracy/maj@",
  "max": "reward/max@",
}


def collect(runs: Sequence[Run], packed: Packed) -> dict[str, Any]:
  """Collects all that a page shows, except the samples.

  Args:
    runs: one run, or several to compare.
    packed: their samples.

  Returns:
    The data that `page.page` takes.

  Raises:
    ValueError: base and trained policy were evaluated on different problems.
  """
  run_names = names(runs)
  run_data = [
    _run(run, name, len(runs))
    for run, name in zip(runs, run_names, strict=True)
  ]
  metrics = {name for run in runs for name in run.series}
  has_section = {
    "pass": any(run["evaluations"] for run in run_data),
    "training": bool(metrics),
    "groups": any(run["counts"] for run in run_data),
    "terms": any(name.startswith(_TERM_METRICS) for name in metrics),
    "steps": packed.has_steps,
    "rollouts": bool(packed.text),
  }
  # The config of a supervised run names no method.
  methods = {
    run.config["method"]: _describe_method(run)
    for run in runs
    if "method" in run.config
  }
  if len(runs) == 1:
    shown_tables = [tables.evaluation_table(runs[0])]
  else:
    shown_tables = tables.comparison_tables(runs)
  averaged = max(curves.steps_per_point(run, len(runs)) for run in runs)
  note = f"A point is the mean of {averaged} logged steps."
  return {
    "title": _title(run_names),
    "facts": _facts(runs),
    "headline": _headline(runs[0]) if len(runs) == 1 else [],
    "tables": [
      tables.to_json(table) for table in shown_tables if table is not None
    ],
    "methods": list(methods.items()),
    "sections": [name for name, is_shown in has_section.items() if is_shown],
    "notes": {
      "rollouts": packed.note,
      "training": note if averaged > 1 else "",
    },
    "config": _config(runs),
    "runs": run_data,
  }


def _title(run_names: Sequence[str]) -> str:
  *others, last = run_names
  if len(others) > 2:
    return f"{len(run_names)} runs"
  return f"{', '.join(others)} and {last}" if others else last


def _facts(runs: Sequence[Run]) -> list[str]:
  """Returns task, method and sizes, for the line below the title."""
  tasks = [e.task for run in runs for e in run.evaluations.values()]
  tasks = tasks or [run.config["task"] for run in runs if "task" in run.config]
  facts = list(dict.fromkeys(tasks))
  if len(runs) == 1:
    (run,) = runs
    if "method" in run.config:
      facts.append(run.config["method"])
    last, total = run.last_step, run.config.get("steps", run.last_step)
    facts.append(
      f"{last} steps" if last == total else f"{last} of {total} steps"
    )
  sizes = {
    f"{len(e.ids)} held-out problems, {e.samples} samples of each at "
    f"temperature {e.temperature:g}": None
    for run in runs
    for e in run.evaluations.values()
  }
  return [*facts, *sizes]


def _headline(run: Run) -> list[dict[str, Any]]:
  """Returns pass@k of base and trained policy for a few k.

  Without verdicts it is max@k instead.
  """
  if set(run.evaluations) != {"base", "trained"}:
    return []
  base, trained = (run.evaluations[name] for name in ("base", "trained"))
  differences = statistics.compare(base, trained)
  ks = statistics.budgets(min(base.samples, trained.samples))
  has_verdicts = not math.isnan(differences["accuracy/pass@1"].mean)
  quantity = _QUANTITIES["pass" if has_verdicts else "max"]
  headline = []
  for k in dict.fromkeys((ks[0], ks[len(ks) // 2], ks[-1])):
    name = f"{quantity}{k}"
    difference = differences[name]
    text = (
      f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
    )
    sign = (difference.low > 0) - (difference.high < 0)
    headline.append(
      {
        "label": name.partition("/")[2],
        "values": [f"{e.estimates[name].mean:.3f}" for e in (base, trained)],
        "difference": (text, sign),
      }
    )
  return headline


def _config(runs: Sequence[Run]) -> dict[str, Any]:
  """Returns the settings of one run, or those in which several runs differ."""
  flat = [flax.traverse_util.flatten_dict(run.config, sep=".") for run in runs]
  keys = dict.fromkeys(key for one in flat for key in one)
  rows = [
    (key, [json.dumps(one[key]) if key in one else "" for one in flat])
    for key in keys
  ]
  if len(runs) == 1:
    note = "The settings in config.json."
    return {
      "columns": ["value"],
      "rows": rows,
      "folded": True,
      "note": note,
    }
  differ = [(key, values) for key, values in rows if len(set(values)) > 1]
  return {
    "columns": names(runs),
    "rows": differ,
    "folded": False,
    "note": "The settings in which the runs differ; "
    f"{len(rows) - len(differ)} others are the same.",
  }


def _run(run: Run, name: str, num_runs: int) -> dict[str, Any]:
  """Returns the data of one run that the scripts of the page read."""
  counts = curves.counts(run, num_runs)
  return {
    "name": name,
    "evaluations": _evaluations(run),
    "series": curves.series(run, num_runs),
    "counts": counts,
    "advantage": _advantages(run, counts) if counts else None,
  }


def _evaluations(run: Run) -> list[dict[str, Any]]:
  """Returns the evaluations of a run that have curves, in order of steps."""
  evaluations = [
    {
      "name": f"step {record['step']}",
      "step": record["step"],
      "final": False,
      "samples": record["samples"],
      "curves": _curves(_to_estimates(record["estimates"]), record["samples"]),
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
  evaluations = [one for one in evaluations if one["curves"]]
  return sorted(evaluations, key=lambda one: (one["step"], one["final"]))


def _to_estimates(
  record: Mapping[str, Mapping[str, Any]],
) -> dict[str, Estimate]:
  """Converts the estimates of a JSON file, in which NaN is a string."""
  return {
    name: Estimate(**{part: float(value) for part, value in one.items()})
    for name, one in record.items()
  }


def _curves(
  estimates: Mapping[str, Estimate], samples: int
) -> dict[str, dict[str, list[float | None]]]:
  """Returns means and bounds of every quantity for k = 1 to S.

  Without verdicts there is no pass@k. If the score is the verdict, max@k equals
  pass@k and is left out.
  """
  ks = range(1, samples + 1)
  by_quantity = {
    quantity: np.array([estimates[f"{name}{k}"] for k in ks])  # [S, 3]
    for quantity, name in _QUANTITIES.items()
  }
  pass_at_k, max_at_k = by_quantity["pass"], by_quantity["max"]
  if np.isnan(pass_at_k).all():
    del by_quantity["pass"], by_quantity["maj"]
  elif np.allclose(pass_at_k, max_at_k, atol=1e-5, equal_nan=True):
    del by_quantity["max"]
  return {
    quantity: {
      part: curves.to_json_numbers(curve[:, i])
      for i, part in enumerate(Estimate._fields)
    }
    for quantity, curve in by_quantity.items()
  }


def _describe_method(run: Run) -> str:
  return run.method.strip() or f"This run has no {workdirs.METHOD_FILE}."


def _advantages(run: Run, counts: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the advantages by the number of correct samples.

  Or under "missing" the reason why the page does not show them.
  """
  advantages = run.advantages
  if "missing" in advantages:
    return {"missing": str(advantages["missing"])}
  num_counts = len(counts["shares"][0])
  if len(advantages.get("right", ())) != num_counts:
    return {
      "missing": f"This run has no {workdirs.ADVANTAGES_FILE} for groups of "
      f"{num_counts - 1} samples."
    }
  return {
    "right": curves.to_json_numbers(map(float, advantages["right"])),
    "wrong": curves.to_json_numbers(map(float, advantages["wrong"])),
    "note": advantages["note"],
  }
