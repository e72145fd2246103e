"""Collects the data of a report's page, as JSON values.

"Base" is the evaluation of the policy before training; S is the number of
samples per problem or prompt.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.traverse_util

from experiments.evaluation import summary
from experiments.report import evaluation_curves, tables, training_curves
from experiments.report.runs import Run, names
from experiments.report.samples import Packed
from experiments.training import workdirs

# Prefixes of the metrics in the section of reward terms.
_TERM_METRICS = ("score/", "reward/weight/")


def collect(runs: Sequence[Run], packed: Packed) -> dict[str, Any]:
  """Returns the data of `page.page`, except the texts of the packed samples.

  Raises:
    UsageError: the base and the trained policy of a run were evaluated on
      different problems.
  """
  run_names = names(runs)
  run_data = []
  for run, name in zip(runs, run_names, strict=True):
    counts = training_curves.counts(run, len(runs))
    values = {
      "name": name,
      "evaluations": evaluation_curves.collect(run),
      "series": training_curves.series(run, len(runs)),
      "counts": counts,
      "advantage": _advantages(run, counts) if counts else None,
    }
    run_data.append(values)
  metrics = {name for run in runs for name in run.series}
  has_section = {
    "pass": any(run["evaluations"] for run in run_data),
    "training": bool(metrics),
    "groups": any(run["counts"] for run in run_data),
    "terms": any(name.startswith(_TERM_METRICS) for name in metrics),
    "steps": packed.has_steps,
    "rollouts": bool(packed.text),
  }
  # `{method: description}`. The config of a supervised run has no method.
  methods = {
    run.config["method"]: run.method.strip()
    or f"This run has no {workdirs.METHOD_FILE}."
    for run in runs
    if "method" in run.config
  }
  if len(runs) == 1:
    shown_tables = [tables.evaluation_table(runs[0])]
  else:
    shown_tables = tables.comparison_tables(runs)
  steps_per_point = max(
    training_curves.steps_per_point(run, len(runs)) for run in runs
  )
  note = f"Each point is the mean of up to {steps_per_point} logged steps."
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
      "training": note if steps_per_point > 1 else "",
    },
    "config": _config(runs),
    "runs": run_data,
  }


def _title(run_names: Sequence[str]) -> str:
  """Returns "a", "a and b", "a, b and c", or the number of more runs."""
  *others, last = run_names
  if len(others) > 2:
    return f"{len(run_names)} runs"
  return f"{', '.join(others)} and {last}" if others else last


def _facts(runs: Sequence[Run]) -> list[str]:
  """Returns the texts of the line below the title."""
  tasks = [e.task for run in runs for e in run.evaluations.values()]
  tasks = tasks or [run.config["task"] for run in runs if "task" in run.config]
  facts = list(dict.fromkeys(tasks))  # without repeats
  # The method and the number of steps are those of a single run.
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
  """Returns pass@k of the base and the trained policy, for up to three k."""
  if set(run.evaluations) != {"base", "trained"}:
    return []
  base, trained = (run.evaluations[name] for name in ("base", "trained"))
  differences = summary.compare(base, trained)
  ks = summary.budgets(min(base.samples, trained.samples))
  has_verdicts = not math.isnan(differences["accuracy/pass@1"].mean)
  # If no verdict is known, max@k is shown in place of pass@k.
  quantity = evaluation_curves.QUANTITIES["pass" if has_verdicts else "max"]
  headline = []
  for k in dict.fromkeys((ks[0], ks[len(ks) // 2], ks[-1])):
    name = f"{quantity}{k}"
    difference = differences[name]
    if math.isnan(difference.mean):
      continue  # it is not known
    text = (
      f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
    )
    # 1 or -1 if the interval is above or below 0, else 0.
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
  """Returns the table of the settings of the runs."""
  flat_configs = [
    flax.traverse_util.flatten_dict(run.config, sep=".") for run in runs
  ]
  keys = dict.fromkeys(key for config in flat_configs for key in config)
  rows = [
    (key, [json.dumps(c[key]) if key in c else "" for c in flat_configs])
    for key in keys
  ]
  if len(runs) == 1:
    return {
      "columns": ["value"],
      "rows": rows,
      "folded": True,
      "note": "The settings in config.json.",
    }
  # Several runs have one column each, and only the settings that differ.
  differing_rows = [
    (key, values) for key, values in rows if len(set(values)) > 1
  ]
  return {
    "columns": names(runs),
    "rows": differing_rows,
    "folded": False,
    "note": "The settings in which the runs differ; "
    f"{len(rows) - len(differing_rows)} others are the same.",
  }


def _advantages(run: Run, counts: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the mean advantages by the number of correct samples."""
  advantages = run.advantages
  # "missing" is a sentence that says why the page does not show them.
  if "missing" in advantages:
    return {"missing": str(advantages["missing"])}
  num_counts = len(counts["shares"][0])
  if len(advantages.get("right", ())) != num_counts:
    return {
      "missing": f"This run has no {workdirs.ADVANTAGES_FILE} for groups of "
      f"{num_counts - 1} samples."
    }
  # The values are the same as in `AdvantagesByCount`.
  return {
    "right": training_curves.to_json_numbers(map(float, advantages["right"])),
    "wrong": training_curves.to_json_numbers(map(float, advantages["wrong"])),
    "note": advantages["note"],
  }
