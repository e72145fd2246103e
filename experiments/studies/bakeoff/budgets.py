"""Draws what each method gains at each number of samples at test time.

  python -m experiments.studies.bakeoff.budgets --picture budgets.png \\
    runs/bakeoff_countdown runs/bakeoff_chain

A panel is a finished bake-off of methods. It has the difference to the
reference in the value of the best of k held-out samples, which is max@k if
scores are graded and pass@k if not, with 95 % bands over seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import numpy as np
from etils import epath

from experiments.cli import arguments, errors
from experiments.report import picture
from experiments.studies import plots
from rl import UsageError


def draw(records: Sequence[dict[str, Any]]) -> matplotlib.figure.Figure:
  """Draws one panel for each content of a `bakeoff.json`."""
  columns = min(len(records), 2)
  rows = -(-len(records) // columns)
  figure = matplotlib.figure.Figure(
    figsize=(5 * columns + 1.6, 3.4 * rows), layout="constrained"
  )
  names = sorted(set().union(*(record["rows"] for record in records)))
  panels = figure.subplots(rows, columns, squeeze=False).flat
  for axes, record in zip(panels, records, strict=False):
    best = {name: row["best_of"] for name, row in record["rows"].items()}
    reference = record["reference"]
    start = np.array(best[reference]["values"])
    for name, color in zip(names, plots.COLORS[1:] * 9, strict=False):
      if name in best and name != reference:
        curve = {name: np.array(best[name]["values"]) - start}
        plots.with_bands(axes, best[name]["k"], curve, [color])
    axes.axhline(0, color=picture.INK, linewidth=1)
    quantity = f"{best[reference]['quantity']} minus that of {reference}"
    plots.finish(axes, f"{record['task']}: {quantity}", "k")
    plots.scale_by_k(axes, best[reference]["k"])
  lines = {
    line.get_label(): line
    for axes in figure.axes
    for line in axes.get_lines()
    if not line.get_label().startswith("_")
  }
  figure.legend(
    lines.values(), lines, loc="outside right center", frameon=False
  )
  return figure


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  parser = arguments.make_parser("studies.bakeoff.budgets", __doc__)
  parser.add_argument("workdirs", nargs="+", help="folders of bake-offs")
  arguments.add(
    parser, "--picture", "budgets.png", "image; default: %(default)s"
  )
  options = parser.parse_args(argv)
  records = []
  for workdir in map(epath.Path, options.workdirs):
    if not (workdir / "bakeoff.json").exists():
      raise UsageError(
        f"{workdir} has no bakeoff.json; run `python -m "
        f"experiments.studies.bakeoff --workdir {workdir}` first"
      )
    records.append(json.loads((workdir / "bakeoff.json").read_text()))
  picture.write_figure(draw(records), options.picture)
  return 0


if __name__ == "__main__":
  sys.exit(main())
