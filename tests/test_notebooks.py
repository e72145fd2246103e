"""Notebooks run from top to bottom, and are kept without outputs."""

import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted(
  (pathlib.Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb")
)
# A reader waits for the real sizes; a test wants every cell to run.
SHORTER = {
  "base.steps = 600": "base.steps = 40",
  "config.steps = 100": "config.steps = 20",
  "config.evaluation.problems = 256": "config.evaluation.problems = 64",
}


def test_there_is_a_quickstart():
  assert "quickstart.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path):
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  code = [cell for cell in notebook.cells if cell.cell_type == "code"]
  assert not any(cell.outputs for cell in code), "strip the outputs"
  for cell in code:
    for long, short in SHORTER.items():
      cell.source = cell.source.replace(long, short)
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
