"""The report of a run, made from the files of its workdir alone.

  python -m experiments.report DIR... [--out FILE.html | --out FILE.png]

prints a table for every run (base, trained policy, their difference) and, for
several runs, the trained policies side by side. It writes `report.html` into
each DIR: one page that needs no network, with pass@k, training curves, how many
samples of a prompt are correct and what advantages they get, reward terms, step
scores, and a browser for the rollouts. `--out` compares the runs on such a
page, or in a picture of pass@k. Reads `config.json`, `method.txt`,
`advantages.json`, `metrics.jsonl`, the evaluations (with their `.npz`) and
`rollouts/`. Files that a run does not have yet are left out.
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
