"""The commands of process reward models, whose work is replaced by fakes."""

import hashlib
import json
import pathlib
import re
import types as python

import pytest
import rich.console

from experiments.evaluation import policy_loader
from experiments.prm import __main__ as command
from experiments.prm import evaluate, fit, label, step_lines
from experiments.training import build, workdirs

README = pathlib.Path(command.__file__).parent / "README.md"
LOADED = python.SimpleNamespace(task="task of the run")


@pytest.fixture
def folder(tmp_path):
  """A folder whose name is long, and has what rich could take for markup."""
  path = tmp_path / f"[red]{'a' * 100} 7"
  path.mkdir()
  return path


@pytest.fixture
def load(monkeypatch):
  """Takes the place of loading a policy; returns the arguments."""
  calls = []

  def load_policy(*arguments):
    calls.append(arguments)
    return LOADED

  monkeypatch.setattr(command, "_load_policy", load_policy)
  return calls


def parse(*words):
  return command._parser().parse_args([*words, "--workdir", "x"])


def test_the_defaults_of_evaluate_are_those_of_the_results():
  """The README says how the numbers in it were measured."""
  problems, samples = re.search(
    r"(\d+) held-out problems with (\d+) samples each", README.read_text()
  ).groups()
  options = parse("evaluate")
  assert (options.problems, options.samples) == (int(problems), int(samples))


def test_samples_to_label_are_those_of_the_policy_itself():
  options = parse("label", "--policy", "p")
  assert options.temperature == 1
  # Batches have as many problems in each command, and label fills them.
  assert options.batch == parse("evaluate").batch == parse("fit").batch
  assert options.problems % options.batch == 0


@pytest.mark.parametrize("words", [["label"], ["label", "--workdir", "x"], []])
def test_what_every_command_needs_is_asked_for(words, capsys):
  with pytest.raises(SystemExit):
    command._parser().parse_args(words)
  assert "required" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["fit", "evaluate"])
def test_a_policy_is_needed_by_label_alone(name):
  assert parse(name).seed == 0


@pytest.mark.parametrize(
  ("numbers", "texts"),
  [
    ({"steps": 0, "sum": 0.0}, ["0 labelled steps, 0.000 on average"]),
    (
      {"steps": 1, "sum": 0.5, "unjudged": 2},
      ["1 labelled steps, 0.500 on", "the judge left 2 samples unjudged"],
    ),
    ({"steps": 4, "sum": 1.0}, ["4 labelled steps, 0.250 on average"]),
  ],
)
def test_label_prints_one_line(
  numbers, texts, folder, load, monkeypatch, capsys
):
  (folder / "label.json").write_text(
    json.dumps({"policy_step": 9, "settings": {}})
  )

  def run(settings, loaded, workdir, update):
    assert isinstance(settings, label.Settings)
    assert (loaded, str(workdir)) == (LOADED, str(folder))
    return {"lines": 3, "tokens": 5} | numbers

  monkeypatch.setattr(label, "run", run)
  words = ("--policy", "p", "--task", "t", "--source", "checker")
  assert command.main(["label", "--workdir", str(folder), *words]) == 0
  assert load == [("p", "t", 9)]
  line = capsys.readouterr().out.splitlines()[-1]
  assert line.startswith(f"wrote {folder}/labels.jsonl: 3 samples, ")
  assert all(text in line for text in texts)
  assert ("unjudged" in line) == ("unjudged" in numbers)


def test_fit_reads_the_lines_of_label(folder, load, monkeypatch, capsys):
  record = {"settings": {"policy": "p", "task": "t"}, "policy_step": 9}
  record["is_complete"] = True
  (folder / "label.json").write_text(json.dumps(record))
  (folder / "labels.jsonl").write_text("lines")
  lines = step_lines.Lines("data", [""], 0)

  def read(file, task, max_steps):
    assert (file.read_text(), task, max_steps) == ("lines", LOADED.task, 32)
    return lines

  def run(settings, loaded, data, workdir, update):
    digest = hashlib.sha256(b"lines").hexdigest()
    assert len(settings.data_digest) == 12
    assert digest.startswith(settings.data_digest)
    assert settings.layers == 0
    assert (loaded, data, str(workdir)) == (LOADED, "data", str(folder))
    return {"examples": 3, "loss": 0.5, "threshold": 0.25}

  monkeypatch.setattr(step_lines, "read", read)
  monkeypatch.setattr(fit, "fit", run)
  words = ("fit", "--workdir", str(folder), "--layers", "0")
  assert command.main(words) == 0
  assert load == [("p", "t", 9)]
  line = capsys.readouterr().out.splitlines()[-1]
  assert line == f"{folder}: 3 examples, loss 0.5000, threshold 0.250"


def test_a_fit_that_goes_on_takes_the_checkpoint_of_its_record(folder, load):
  """--policy names the policy, and `fit.json` its step."""
  workdir = command.epath.Path(folder)
  options = parse("fit", "--policy", "p", "--task", "t")
  assert command._policy_of(options, workdir) == ("p", "t", None)
  (folder / "fit.json").write_text(json.dumps({"policy_step": 4}))
  assert command._policy_of(options, workdir) == ("p", "t", 4)


@pytest.fixture
def fitted(folder, load, monkeypatch):
  """Writes the record of a fitted model, and takes its place."""
  settings = {"policy": "p", "task": "t", "loss": "two_class"}
  record = {"settings": settings, "policy_step": 4}
  (folder / "fit.json").write_text(json.dumps(record))
  model = python.SimpleNamespace(threshold=0.25, max_steps=8)

  def read(workdir, loaded):
    assert (str(workdir), loaded) == (str(folder), LOADED)
    return model

  monkeypatch.setattr(fit, "load", read)
  return model


@pytest.mark.parametrize(
  ("samples", "ns"),
  [(4, [2]), (9, [2, 4]), (8192, [2**i for i in range(1, 12)])],
)
def test_best_of_n_has_powers_of_two_up_to_half_of_the_samples(
  samples, ns, folder, fitted, load, monkeypatch, capsys
):
  """At most 2048, because the cost grows with n."""

  def on_samples(*arguments):
    model, loaded, task, problems, *numbers = arguments
    assert (model, loaded, task) == (fitted, LOADED, "judging task of p")
    assert (problems, *numbers) == (512, samples, 64, ns, 0, None)
    return {"auc": {"mean": 0.5}, "f1": {"mean": 1, "low": 0, "high": 1}}

  monkeypatch.setattr(evaluate, "on_samples", on_samples)
  monkeypatch.setattr(
    build,
    "make_task_from_text",
    lambda text, tokenizer: f"{text} task of {tokenizer}",
  )
  words = ("--samples", str(samples), "--task", "judging")
  assert command.main(["evaluate", "--workdir", str(folder), *words]) == 0
  assert load == [("p", "t", 4)]
  text = (folder / "metrics.json").read_text()
  assert text.startswith('{\n  "loss": "two_class",\n  "source": "",\n')
  assert json.loads(text)["label_tokens"] == 0
  output = capsys.readouterr().out
  assert output.splitlines()[-1] == f"wrote {folder}/metrics.json"


def test_lines_are_evaluated_with_their_categories(
  folder, fitted, load, monkeypatch, capsys
):
  lines = step_lines.Lines("data", ["a"], 2)

  def read(file, task, max_steps):
    assert (file, task, max_steps) == ("file", LOADED.task, 8)
    return lines

  def on_lines(*arguments):
    assert arguments == (fitted, "data", ["a"])
    return {}

  monkeypatch.setattr(step_lines, "read", read)
  monkeypatch.setattr(evaluate, "on_lines", on_lines)
  words = ("--data", "file")
  assert command.main(["evaluate", "--workdir", str(folder), *words]) == 0
  assert "file: 2 lines do not fit" in capsys.readouterr().out


def test_a_table_has_a_row_for_each_metric():
  metrics = {"loss": "x", "threshold": 0.5}
  metrics["f1"] = {"mean": 0.25, "low": -0.5, "high": 1}
  console = rich.console.Console(width=60)
  with console.capture() as capture:
    console.print(command._table(metrics))
  rows = [row.split() for row in re.sub("[│┃]", " ", capture.get()).split("\n")]
  assert ["loss", "x"] in rows
  assert ["threshold", "0.5000"] in rows
  assert ["f1", "0.2500", "-0.5000", "..", "+1.0000"] in rows


def test_a_run_is_loaded_at_its_step_and_a_folder_with_its_task(
  tmp_path, monkeypatch
):
  """The task of a run can be replaced; a tokenizer comes from its folder."""
  calls = []
  loaded = policy_loader.LoadedPolicy(
    **dict.fromkeys(
      [f.name for f in command.dataclasses.fields(policy_loader.LoadedPolicy)]
    )
  )
  monkeypatch.setattr(workdirs, "is_run", lambda folder: folder.name == "run")

  def record(*arguments, **settings):
    calls.append((*map(str, arguments), settings))
    return loaded

  monkeypatch.setattr(policy_loader, "load_from_run", record)
  monkeypatch.setattr(policy_loader, "load_from_folder", record)
  monkeypatch.setattr(
    build, "make_task_from_text", lambda text, tokenizer: (text, tokenizer)
  )
  run, model = str(tmp_path / "run"), str(tmp_path / "model")
  assert command._load_policy(run, "", 5) is loaded
  assert command._load_policy(run, "t", None).task == ("t", run)
  command._load_policy(model, "t", None)
  # One device is enough to sample and to fit.
  assert calls == [
    (run, "5", "{}", {"cpu_devices": 1}),
    (run, "None", "{}", {"cpu_devices": 1}),
    (model, "t", {"cpu_devices": 1, "problems": 1}),
  ]
  with pytest.raises(ValueError, match="needs a --task"):
    command._load_policy(model, "", None)
