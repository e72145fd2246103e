"""From runs to what their page shows: plain values, ready for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.traverse_util
import ml_collections
import numpy as np

from experiments.evaluation import statistics
from experiments.evaluation.statistics import Estimate
from experiments.report import curves, tables, worth
from experiments.report.runs import Run, names
from experiments.report.samples import Packed
from experiments.training import build
from rl import learners
from rl.method import Method

_TERMS = ("score/", "reward/weight/")
_QUANTITIES = {
  "pass": "accuracy/pass@",
  "maj": "accuracy/maj@",
  "max": "reward/max@",
}
# What an older or a foreign config may lack.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)


def collect(runs: Sequence[Run], packed: Packed) -> dict[str, Any]:
  """All that the page of runs shows, but for the samples.

  Args:
    runs: one, or several to be compared.
    packed: their samples.

  Returns:
    What `page.page` reads.

  Raises:
    ValueError: base and trained policy were evaluated on other problems.
  """
  called = names(runs)
  shown = [
    _run(run, name, len(runs)) for run, name in zip(runs, called, strict=True)
  ]
  series = {name for run in runs for name in run.series}
  there = {
    "pass": any(run["evaluations"] for run in shown),
    "training": bool(series),
    "groups": any(run["counts"] for run in shown),
    "terms": any(name.startswith(_TERMS) for name in series),
    "steps": packed.has_steps,
    "rollouts": bool(packed.text),
  }
  methods = dict(_method_text(run) for run in runs if "method" in run.config)
  found = [tables.own(runs[0])] if len(runs) == 1 else tables.side_by_side(runs)
  averaged = max(curves.averaged(run, len(runs)) for run in runs)
  note = f"A point is the mean of {averaged} logged steps."
  return {
    "title": _title(called),
    "facts": _facts(runs),
    "headline": _headline(runs[0]) if len(runs) == 1 else [],
    "tables": [tables.plain(table) for table in found if table is not None],
    "methods": list(methods.items()),
    "sections": [name for name, is_there in there.items() if is_there],
    "notes": {
      "rollouts": packed.note,
      "training": note if averaged > 1 else "",
    },
    "config": _config(runs),
    "runs": shown,
  }


def _title(called: Sequence[str]) -> str:
  if len(called) > 3:
    return f"{len(called)} runs"
  return ", ".join(called[:-1]) + (" and " if called[1:] else "") + called[-1]


def _facts(runs: Sequence[Run]) -> list[str]:
  """What they are, in the line below the title."""
  tasks = [e.task for run in runs for e in run.evaluations.values()]
  tasks = tasks or [run.config["task"] for run in runs if "task" in run.config]
  found = list(dict.fromkeys(tasks))
  if len(runs) == 1:
    (run,) = runs
    if "method" in run.config:
      found.append(run.config["method"])
    last, total = run.last_step, run.config.get("steps", run.last_step)
    found.append(
      f"{last} steps" if last == total else f"{last} of {total} steps"
    )
  sizes = {
    f"{len(e.ids)} held-out problems, {e.samples} samples of each at "
    f"temperature {e.temperature:g}": None
    for run in runs
    for e in run.evaluations.values()
  }
  return [*found, *sizes]


def _headline(run: Run) -> list[dict[str, Any]]:
  """pass@k of base and trained policy for a few k; max@k without verdicts."""
  if set(run.evaluations) != {"base", "trained"}:
    return []
  base, trained = (run.evaluations[name] for name in ("base", "trained"))
  differences = statistics.compare(base, trained)
  ks = statistics.budgets(min(base.samples, trained.samples))
  blind = math.isnan(differences["accuracy/pass@1"].mean)
  quantity = _QUANTITIES["max" if blind else "pass"]
  found = []
  for k in dict.fromkeys((ks[0], ks[len(ks) // 2], ks[-1])):
    name = f"{quantity}{k}"
    by = differences[name]
    text = f"{by.mean:+.3f} [{by.low:+.3f}, {by.high:+.3f}]"
    found.append(
      {
        "label": name.partition("/")[2],
        "values": [f"{e.estimates[name].mean:.3f}" for e in (base, trained)],
        "difference": (text, (by.low > 0) - (by.high < 0)),
      }
    )
  return found


def _config(runs: Sequence[Run]) -> dict[str, Any]:
  """The settings of one run, or those in which several differ."""
  flat = [flax.traverse_util.flatten_dict(run.config, sep=".") for run in runs]
  keys = dict.fromkeys(key for one in flat for key in one)
  rows = [
    (key, [json.dumps(one[key]) if key in one else "" for one in flat])
    for key in keys
  ]
  if len(runs) == 1:
    note = "What config.json says."
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
    "note": f"In which they differ; {len(rows) - len(differ)} are the same.",
  }


def _run(run: Run, name: str, among: int) -> dict[str, Any]:
  """What the scripts read of a run, one of so many."""
  counts = curves.counts(run, among)
  return {
    "name": name,
    "evaluations": _evaluations(run),
    "series": curves.series(run, among),
    "counts": counts,
    "advantage": _advantage(run, counts) if counts else None,
  }


def _evaluations(run: Run) -> list[dict[str, Any]]:
  found = [
    {
      "name": f"step {record['step']}",
      "step": record["step"],
      "final": False,
      "samples": record["samples"],
      "curves": _curves(_read(record["estimates"]), record["samples"]),
    }
    for record in run.between
  ]
  for name, evaluation in run.evaluations.items():
    found.append(
      {
        "name": name,
        "step": evaluation.step,
        "final": name == "trained",
        "samples": evaluation.samples,
        "curves": _curves(evaluation.estimates, evaluation.samples),
      }
    )
  found = [one for one in found if one["curves"]]
  return sorted(found, key=lambda one: (one["step"], one["final"]))


def _read(record: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
  """Estimates out of JSON, where NaN is a string."""
  return {
    name: Estimate(**{part: float(value) for part, value in one.items()})
    for name, one in record.items()
  }


def _curves(
  found: Mapping[str, Estimate], samples: int
) -> dict[str, dict[str, list[float | None]]]:
  """Of every quantity its means and bounds for k = 1 to S.

  Where verdicts are unknown there is no pass@k, and where the score is the
  verdict max@k says nothing more.
  """
  ks = range(1, samples + 1)
  bounds = {
    quantity: np.array([found[f"{name}{k}"] for k in ks])  # [S, 3]
    for quantity, name in _QUANTITIES.items()
  }
  if np.isnan(bounds["pass"]).all():
    del bounds["pass"], bounds["maj"]
  elif np.allclose(bounds["pass"], bounds["max"], atol=1e-5, equal_nan=True):
    del bounds["max"]
  return {
    quantity: {
      part: curves.plain(curve[:, i]) for i, part in enumerate(Estimate._fields)
    }
    for quantity, curve in bounds.items()
  }


def _method(run: Run) -> Method:
  """What the policy learned by, as the config says it."""
  made = build.make_learners(ml_collections.ConfigDict(run.config))
  return made[learners.POLICY]


def _method_text(run: Run) -> tuple[str, str]:
  """A method's name in the config, and as it prints itself."""
  name = run.config["method"]
  try:
    return name, str(_method(run))
  except _UNREADABLE as error:
    return name, f"not of this checkout: {error}"


def _advantage(run: Run, counts: Mapping[str, Any]) -> dict[str, Any]:
  """What right and wrong samples are worth, or why that is not drawn."""
  try:
    method = _method(run)
    if method.reward is not None:
      raise ValueError(
        "No advantages over the counts: what is paid is no verdict, but a mix."
      )
    found = worth.worth(method, len(counts["shares"][0]) - 1)
  except _UNREADABLE as error:
    return {"missing": str(error)}
  return {
    "right": curves.plain(found.right),
    "wrong": curves.plain(found.wrong),
    "note": f"{found.note}.",
  }
