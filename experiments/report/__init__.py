"""What became of a run, from its files alone.

  python -m experiments.report DIR... [--out FILE.html | --out FILE.png]

prints the table of every run (base, trained, their difference) and, of several
runs, the trained policies side by side; writes `report.html` into each DIR, one
page that needs no network: pass@k, training curves, solve counts under the
objective's advantages, reward terms, step scores, and a browser of the
rollouts. `--out` compares the runs, on such a page or in a picture of pass@k.
Reads `config.json`, `metrics.jsonl`, the evaluations (with their `.npz`) and
`rollouts/`; what a run does not have yet is left out.
"""

from experiments.report.command import PAGE_FILE, main, write_page
from experiments.report.runs import EVALUATIONS, Run, read

__all__ = [
  "EVALUATIONS",
  "PAGE_FILE",
  "Run",
  "main",
  "read",
  "write_page",
]
