"""Changes with which programs fit, and the tables of SCALING.md."""

import csv
import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest
from helpers import small_run

from experiments.aot import fit, scaling, stack
from experiments.training import build

pytestmark = pytest.mark.several_devices

HBM = 16.0


def experiment(**changes):
  return build.build(small_run.config(**changes))


def analysis_of(*failed, state=1.0, needs=None):
  """A report in which these programs do not fit and need `needs` GiB."""
  names = ("rollout", "score", "train_step", "evaluation")
  return {
    "programs": {
      name: {
        "fits": name not in failed,
        "hbm_gib": HBM,
        "wanted_gib": needs,
      }
      for name in names
    },
    "resident_gib": {"parameters": state, "optimizer": 0.0, "cache": 99.0},
  }


ONE_PROMPT = {
  "model__remat": "full",
  "mesh__tensor": 2,
  "plan__microbatches": 8,
}
LARGE = {"rollout__prompts": 64, "evaluation__batch": 64}


@pytest.mark.parametrize(
  ("changes", "report", "expected"),
  [
    ({}, analysis_of(), {}),
    # The state first: over all devices.
    (
      {},
      analysis_of("rollout", "train_step", state=9.0),
      {"mesh.data": 1, "mesh.fsdp": 8},
    ),
    ({}, analysis_of("train_step"), {"model.remat": "full"}),
    (
      {**LARGE, "model__remat": "full"},
      analysis_of("train_step"),
      {"plan.microbatches": 2},
    ),
    (
      {**LARGE, "model__remat": "full", "plan__microbatches": 4},
      analysis_of("score"),
      {"plan.microbatches": 8},
    ),
    # As far as the program's own figure asks for.
    (
      {**LARGE, "model__remat": "full"},
      analysis_of("score", needs=3.5 * HBM),
      {"plan.microbatches": 4},
    ),
    (
      {**LARGE, "model__remat": "full"},
      analysis_of("train_step", needs=99 * HBM),
      {"plan.microbatches": 8},
    ),
    ({}, analysis_of("rollout", needs=3.5 * HBM), {"rollout.rows": 1}),
    # Each device has one prompt: its tokens, then its heads, are split.
    (
      {"model__remat": "full"},
      analysis_of("train_step"),
      {"mesh.context": 2, "mesh.data": 4},
    ),
    (
      {"model__remat": "full", "model__attention": "plain"},
      analysis_of("train_step"),
      {"mesh.tensor": 2, "mesh.data": 4},
    ),
    # Four samples cannot be split over eight devices, so prompts are split in
    # place of heads; a microbatch still has one prompt of each device.
    (
      {**ONE_PROMPT, "mesh__context": 4},
      analysis_of("train_step"),
      {
        "mesh.fsdp": 2,
        "mesh.context": 4,
        "mesh.tensor": 1,
        "plan.microbatches": 4,
        "inference.tensor": 2,
      },
    ),
    # Tokens are split in place of heads; the sampler still splits these.
    (
      {**ONE_PROMPT, "mesh__context": 4, "rollout__samples": 8},
      analysis_of("train_step"),
      {"mesh.context": 8, "mesh.tensor": 1, "inference.tensor": 2},
    ),
    # With two prompts the sampler cannot split heads over two devices only.
    (
      {
        **ONE_PROMPT,
        "mesh__context": 4,
        "rollout__samples": 8,
        "rollout__prompts": 2,
        "evaluation__batch": 2,
        "plan__microbatches": 2,
      },
      analysis_of("train_step"),
      {},
    ),
    # Halved by what is left, to two rows.
    ({}, analysis_of("rollout"), {"rollout.rows": 2}),
    ({"rollout__rows": 1}, analysis_of("rollout"), {"inference.tensor": 2}),
    # The parameters alone take more than half of the room beside the state.
    (
      {"mesh__fsdp": 8},
      analysis_of("rollout", state=HBM),
      {"inference.tensor": 2},
    ),
    (
      {"rollout__rows": 1, "inference__tensor": 2},
      analysis_of("rollout"),
      {},
    ),
    (
      {"rollout__rows": 1, "inference__tensor": 2, "model__heads": 8},
      analysis_of("rollout"),
      {"inference.tensor": 4},
    ),
    ({"inference__devices": 4, "mesh__data": 4}, analysis_of("rollout"), {}),
    # Of held-out problems: rows, then problems, then heads.
    (
      {"evaluation__samples": 8},
      analysis_of("evaluation"),
      {"evaluation.rows": 4},
    ),
    (
      {"evaluation__samples": 8},
      analysis_of("evaluation", needs=3.5 * HBM),
      {"evaluation.rows": 2},
    ),
    (
      {"evaluation__rows": 1, "evaluation__batch": 24},
      analysis_of("evaluation"),
      {"evaluation.batch": 8},
    ),
    (
      {"evaluation__rows": 1, "evaluation__batch": 8},
      analysis_of("evaluation"),
      {"inference.tensor": 2},
    ),
    (
      {
        "evaluation__rows": 1,
        "evaluation__batch": 8,
        "mesh__data": 4,
        "inference__devices": 4,
      },
      analysis_of("evaluation"),
      {"evaluation.batch": 4},
    ),
    (
      {
        "evaluation__rows": 1,
        "evaluation__batch": 4,
        "mesh__data": 4,
        "inference__devices": 4,
      },
      analysis_of("evaluation"),
      {"mesh.tensor": 2, "mesh.data": 2},
    ),
    ({}, analysis_of("rollout", "evaluation"), {"rollout.rows": 2}),
  ],
)
def test_the_next_change(changes, report, expected):
  change = fit.change(experiment(**changes), report)
  for key, value in expected.items():
    assert change[key] == value, change
  if not expected:
    assert change == {}


def test_no_mesh_is_tried_twice():
  e = experiment(**ONE_PROMPT, mesh__context=4)
  report = analysis_of("train_step")
  shape = dict(e.mesh.shape)
  assert fit.change(e, report, [shape])["mesh.fsdp"] == 2
  assert fit.change(e, report, [shape, shape | {"fsdp": 2, "tensor": 1}]) == {}


def test_changes_are_flags_of_the_command_line():
  changes = {"mesh.data": 1, "model.remat": "full"}
  assert fit.flags(changes) == [
    "--config.mesh.data=1",
    "--config.model.remat=full",
  ]


@pytest.mark.parametrize("soft", ["8192", stack.SIZE // 1024, "unlimited"])
def test_a_compiler_has_a_large_stack(soft):
  _, hard = resource.getrlimit(resource.RLIMIT_STACK)
  if hard != resource.RLIM_INFINITY:
    pytest.skip(f"the stack is limited to {hard} bytes here")
  text = (
    "import resource, sys; from experiments.aot import stack;"
    "stack.ensure_size();"
    "print(resource.getrlimit(resource.RLIMIT_STACK)[0], *sys.argv[1:])"
  )
  limited = ["bash", "-c", f'ulimit -S -s {soft}; exec "$@"', "bash"]
  output = subprocess.check_output(
    [*limited, sys.executable, "-c", text, "--an=argument"], text=True
  )
  assert output.split() == [str(stack.SIZE), "--an=argument"]


def test_there_is_a_cell_for_each_model_and_recipe():
  cells = list(scaling.cells())
  assert len(cells) == len(set(cells)) == 5 * 8 + 18
  assert len({cell.name for cell in cells}) == len(cells)


@pytest.mark.parametrize("what", ["qwen3-0.6b", "llama3_2_1b_math_min_form"])
def test_a_cell_is_an_experiment_of_its_size(what, tmp_path):
  from etils import epath

  folder = epath.Path(tmp_path)
  scaling.write_data(folder)
  e = build.build(scaling.config_of(what, folder))
  assert e.config.rollout.prompts == scaling.P
  assert e.sampling.samples == scaling.S
  if what in scaling.MODELS:
    assert e.sampling.max_tokens == scaling.T
    assert e.task.prompt_length == scaling.L


GIB = {"fits": True, "hbm_gib": 95.7, "wanted_gib": 9.0, "reason": ""}
FITS = {
  "fits": True,
  "mesh": {"replica": 1, "data": 16, "fsdp": 4, "tensor": 1, "context": 1},
  "programs": {
    "rollout": {**GIB, "peak_gib": 31.25},
    "score": {**GIB, "peak_gib": 20.0},
    "train_step": {**GIB, "peak_gib": 60.0},
  },
  "step_seconds": [30.2, 61.7],
  "tokens_per_second": [67_900.0, 138_800.0],
}
STATE = {
  "fits": False,
  "mesh": {"replica": 1, "data": 1, "fsdp": 16, "tensor": 1, "context": 1},
  "reason": "the state alone takes 53 GiB a device",
}
CELL = scaling.Cell("qwen3-8b", "v5p:4x4x4")


def test_a_line_has_the_settings_that_were_changed_and_rounded_figures():
  changes = {"mesh.data": 16, "plan.microbatches": 2}
  assert scaling._make_row(CELL, FITS, changes)[2:] == [
    *("yes", "data 16 fsdp 4", "plan.microbatches=2"),
    *("31.2 and 60.0 of 95.7", "30 to 62", "68 to 139"),
  ]


def test_a_line_has_what_each_program_that_does_not_fit_asks_for():
  large = {**GIB, "fits": False, "wanted_gib": 105.97, "reason": "Ran out"}
  odd = {**large, "wanted_gib": None, "reason": "no such kernel"}
  programs = {"rollout": GIB, "train_step": large, "score": odd}
  report = {**FITS, "fits": False, "programs": programs}
  reason = "train_step wants 106.0 of 95.7; score: no such kernel"
  assert scaling._make_row(CELL, report)[5:] == [reason, "", ""]


def test_cells_go_to_the_csv_file_once_and_from_there_to_the_tables(
  monkeypatch, tmp_path, capsys
):
  path, out = tmp_path / "cells.csv", tmp_path / "SCALING.md"
  out.write_text(
    "before\n<!-- models -->\nold\n<!-- /models -->\nbetween\n"
    "<!-- recipes -->\n<!-- /recipes -->\nafter\n"
  )
  compiled = []

  def compile_cell(cell, data, programs):
    compiled.append(cell)
    report = FITS if cell.machine == "v5p:4x4x4" else STATE
    return scaling._make_row(cell, report, {"rollout.rows": 1})

  monkeypatch.setattr(scaling, "_compile_cell", compile_cell)
  monkeypatch.setattr(scaling.provenance, "commit", lambda: "abc1234")
  for only in ("qwen3-8b on v5p:4x4x4", "qwen3-8b on v5"):  # one, then others
    words = ["--csv", str(path), "--out", str(out), "--only", only]
    assert scaling.main(words) == 0
  assert len(compiled) == len(set(compiled)) == 4
  assert path.read_text().count("model,machine,") == 1
  text = out.read_text()
  assert "old" not in text
  assert (
    "| qwen3-8b | v5p:4x4x4 | yes | data 16 fsdp 4 | rollout.rows=1 | "
    "31.2 and 60.0 of 95.7 | 30 to 62 | 68 to 139 | abc1234 |"
  ) in text
  assert (
    "| qwen3-8b | v5e:4x4 | no | fsdp 16 |  | the state alone takes 53 GiB a "
    "device |  |  | abc1234 |"
  ) in text
  assert text.index("v5e:4x4 ") < text.index("v5p:4x4x4")
  assert text.startswith("before\n")
  assert text.endswith("<!-- /recipes -->\nafter\n")
  assert "4 of 58 cells are in" in capsys.readouterr().out


def count_programs(cell, data, programs):
  """Stands in for a compilation of one program."""
  return [str(len(programs))], programs | {cell.experiment: {}}


def test_programs_of_a_machine_are_passed_on_to_its_other_cells(
  monkeypatch, tmp_path
):
  monkeypatch.setattr(scaling, "_compile", count_programs)
  programs = {}
  for experiment, machine, expected in (
    ("qwen3-8b", "v5e:4x4", "0"),
    ("qwen3-32b", "v5e:4x4", "1"),
    ("qwen3-8b", "h100:8", "0"),
  ):
    cell = scaling.Cell(experiment, machine)
    assert scaling._compile_cell(cell, tmp_path, programs) == [expected]


def ends(cell, data, programs):
  """A compiler with a failed check."""
  os._exit(134)


def test_a_compiler_that_ends_its_process_is_a_cell(monkeypatch, tmp_path):
  monkeypatch.setattr(scaling, "_compile", ends)
  cell = scaling.Cell("qwen3-32b", "v5e:16x16")
  reason = "the process that compiles it ended early"
  assert scaling._compile_cell(cell, tmp_path, {}) == [
    *("qwen3-32b", "v5e:16x16", "no", "", "", reason, "", ""),
  ]


def killed(cell, data, programs):
  """A machine short of memory, or an impatient user."""
  os.kill(os.getpid(), signal.SIGKILL)


def test_a_compiler_that_is_killed_is_no_cell(monkeypatch, tmp_path, capsys):
  monkeypatch.setattr(scaling, "_compile", killed)
  path = tmp_path / "cells.csv"
  words = ["--csv", str(path), "--only", "qwen3-32b on v5e:16x16"]
  assert scaling.main(words) == 1
  error = capsys.readouterr().err
  assert "qwen3-32b on v5e:16x16 was killed by SIGKILL" in error
  assert not path.exists()


def test_a_file_without_marks_is_refused(tmp_path, capsys):
  out = tmp_path / "SCALING.md"
  out.write_text("nothing\n")
  path = tmp_path / "cells.csv"
  words = ["--csv", str(path), "--out", str(out), "--only", "no such cell"]
  assert scaling.main(words) == 2
  assert "must have the comments <!-- models -->" in capsys.readouterr().err
  assert out.read_text() == "nothing\n"


def test_the_tables_of_this_checkout_are_of_its_cells(tmp_path):
  """Nobody has written a figure by hand."""
  root = pathlib.Path(scaling.__file__).resolve().parents[2]
  text = (root / "SCALING.md").read_text()
  out = tmp_path / "SCALING.md"
  out.write_text(text)
  assert scaling.main(["--out", str(out), "--only", "no such cell"]) == 0
  assert out.read_text() == text


def test_the_csv_file_of_this_checkout_has_every_cell_and_no_other():
  """A new recipe is compiled first: `experiments.aot.scaling --only NAME`."""
  path = pathlib.Path(scaling.__file__).with_name("scaling.csv")
  header, *rows = csv.reader(path.read_text().splitlines())
  assert tuple(header) == scaling.HEAD
  assert {tuple(row[:2]) for row in rows} == set(scaling.cells())
  assert len(rows) == len(list(scaling.cells()))
