"""Reports the results of runs, from the files in their workdirs alone.

  python -m experiments.report DIR... [--out FILE.html | --out FILE.png]

prints a table for every run: the evaluation of the base policy (before
training), of the trained policy, and their difference. For several runs it also
prints paired differences to the first one; runs that differ only in the seed
are one row, with Student's interval over seeds. It writes `report.html` into
each DIR, one page that needs no network: pass@k, training curves, the number of
correct samples per prompt and the advantages that they get, reward terms, step
scores, and a browser of the samples. `--out` writes such a page with all runs,
or a picture of their pass@k. The command reads `config.json`, `method.txt`,
`advantages.json`, `metrics.jsonl`, the evaluations (with their `.npz`) and
`rollouts/`. What a missing file would show is left out.
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
