"""Sweeps: which runs they are, what they refuse, and that they run."""

import pathlib
import shlex
import subprocess
import sys

import pytest
from etils import epath
from helpers import small_run

from experiments import run, sweep
from experiments.cli import errors
from experiments.configs import defaults
from experiments.evaluation import summary
from experiments.logging import json_files
from experiments.training import build, workdirs

CONFIG = """
from helpers import small_run


def get_config():
  return small_run.config(steps=1)
"""


def words(*more, **named):
  return [
    {
      word.partition("=")[0][9:]: word.partition("=")[2]
      for word in one.arguments
    }
    for one in sweep.plan_runs("c.py", "runs/s", *more, **named)
  ]


def test_every_value_of_one_meets_every_value_of_the_other():
  result = words(
    product=["method=grpo(beta=0.0),max_at_k(k=4, baseline='none')", "b=1,2"],
    seeds=2,
  )
  assert [(w["method"], w["b"], w["seed"]) for w in result] == [
    (method, b, seed)
    for method in ("grpo(beta=0.0)", "max_at_k(k=4, baseline='none')")
    for b in ("1", "2")
    for seed in ("0", "1")
  ]


def test_values_that_are_zipped_go_together():
  result = words(zipped=["a.lr=1e-3,1e-4", "a.warmup=0,20"], product=["n=1,2"])
  assert [(w["n"], w["a.lr"], w["a.warmup"]) for w in result] == [
    (n, lr, warmup)
    for n in "12"
    for lr, warmup in (("1e-3", "0"), ("1e-4", "20"))
  ]


def test_folders_say_what_differs_and_no_shell_reads_them():
  planned = sweep.plan_runs(
    "c.py", "d", product=["x.method=f(k=4),g"], fixed=["y=1"]
  )
  assert [one.name for one in planned] == [
    "method_f_k_4_-seed_0",
    "method_g-seed_0",
  ]
  for one in planned:
    assert shlex.quote(one.name) == one.name
    assert "--config.y=1" in one.arguments


def test_a_seed_may_be_an_axis_of_its_own():
  result = words(product=["seed=3,5"])
  assert [w["seed"] for w in result] == ["3", "5"]


@pytest.mark.parametrize(
  ("named", "says"),
  [
    ({"product": ["method"]}, "'method' must be of the form KEY=VALUE"),
    ({"product": ["m=f(1"]}, "has an unmatched bracket"),
    ({"zipped": ["a=1,2", "b=1"]}, "a has 2, b has 1"),
    ({"product": ["a=1,2"], "fixed": ["a=3"]}, "a occurs in several flags"),
    ({"product": ["a=f(1),f-1-"]}, ""),
    ({"product": ["a=1,1"]}, "share the folder 'a_1-seed_0'"),
  ],
)
def test_what_cannot_be_planned_is_refused(named, says):
  if not says:
    assert len(words(**named)) == 2
    return
  with pytest.raises(ValueError, match=says.replace("(", r"\(")):
    sweep.plan_runs("c.py", "d", **named)


@pytest.fixture
def file(tmp_path, monkeypatch):
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  path = tmp_path / "config.py"
  path.write_text(CONFIG)
  return path


def test_every_config_is_checked_before_the_first_runs(file, tmp_path, capsys):
  args = ["--config", str(file), "--workdir", str(tmp_path / "runs"), "--run"]
  status = sweep.main([*args, "--product", "method=reinforce,rienforce"])
  assert status == errors.USAGE
  output = capsys.readouterr()
  assert "method_rienforce-seed_0: unknown method 'rienforce'" in output.err
  assert not output.out
  assert not (tmp_path / "runs").exists()


def test_a_config_is_named_after_the_colon_of_its_file(tmp_path, capsys):
  config = "experiments/configs/method.py:grpo(beta=0.0)"
  args = ["--config", config, "--workdir", str(tmp_path / "runs")]
  assert sweep.main([*args, "--product", "seed=0,1"]) == 0
  for line in capsys.readouterr().out.splitlines():
    assert f"--config={config}" in shlex.split(line)


def test_one_process_splits_its_processors_once(file, tmp_path, capsys):
  axes = ["--product", "cpu_devices=1,2"]
  args = ["--config", str(file), "--workdir", str(tmp_path / "all"), *axes]
  assert sweep.main(args) == errors.USAGE
  assert "cpu_devices = 1 and 2" in capsys.readouterr().err


def test_logs_are_not_written_into_a_bucket(file, capsys):
  args = ["--config", str(file), "--workdir", "gs://bucket/runs", "--run"]
  assert sweep.main(args) == errors.USAGE
  assert "lies in a bucket" in capsys.readouterr().err


def test_runs_that_fail_are_named_with_their_logs(
  tmp_path, capsys, monkeypatch
):
  """The second of three commands ends with status 3, and the others go on."""
  names = ("first", "second", "third")
  runs = [
    sweep.PlannedRun(name, (name,), tmp_path / "runs" / f"{name}.log")
    for name in names
  ]
  code = (
    "import sys; print(sys.argv[1]); sys.exit(3 * ('second' in sys.argv[1]))"
  )
  monkeypatch.setattr(
    sweep,
    "command",
    lambda run: [sys.executable, "-c", code, *run.arguments],
  )
  for jobs in (1, 2):
    assert sweep._run_all(runs, jobs) == errors.FAILURE
    assert capsys.readouterr().err.splitlines() == [
      "1 of 3: first done",
      "2 of 3: second ended with status 3",
      "3 of 3: third done",
      f"failed: {tmp_path / 'runs' / 'second.log'}",
    ]
  for one in runs:
    log = (tmp_path / "runs" / f"{one.name}.log").read_text()
    assert log == f"{one.arguments[0]}\n" * 2  # a log goes on
  assert sweep._run_all(runs[:1], 1) == 0


BASE_CONFIG = """
from experiments.configs import defaults
from helpers import small_run


def get_config():
  return defaults.with_base(
    small_run.config(steps=1), small_run.config("supervised", steps=1)
  )
"""


def flags_of(line):
  """Returns the flags of a printed command, without those of Python."""
  words = [word for word in shlex.split(line) if word.startswith("--")]
  return {word.partition("=")[0]: word.partition("=")[2] for word in words}


def planned_lines(file, runs, capsys, *more):
  args = ["--config", str(file), "--workdir", str(runs), "--seeds", "2", *more]
  assert sweep.main(args) == 0
  return [flags_of(line) for line in capsys.readouterr().out.splitlines()]


def test_runs_share_the_base_of_their_seed(file, tmp_path, capsys):
  """Two methods have one base a seed; another length of the base has others."""
  file.write_text(BASE_CONFIG)
  runs = tmp_path / "runs"
  axis = ["--product", "method=reinforce,rloo"]
  lines = planned_lines(file, runs, capsys, *axis)
  bases, starts = lines[:2], lines[2:]
  assert ["--base" in line for line in lines] == [True] * 2 + [False] * 4
  folders = [line["--workdir"] for line in bases]
  assert len(set(folders)) == 2
  assert [line["--config.seed"] for line in bases] == ["0", "1"]
  assert [line["--config.init_from"] for line in starts] == folders * 2
  assert not any("--config.init_from" in line for line in bases)
  assert not runs.exists()
  longer = planned_lines(
    file, runs, capsys, *axis, "--product", "base.steps=1,2"
  )
  assert sum("--base" in line for line in longer) == 4
  again = planned_lines(file, runs, capsys, *axis)
  assert again == lines  # hashes do not depend on the process or the order


def test_a_run_that_has_begun_keeps_its_base(file, tmp_path, capsys):
  """Seed 0 of an earlier version has its own; seed 1 began from another's."""
  file.write_text(BASE_CONFIG)
  runs = tmp_path / "runs"
  config = small_run.config("supervised", steps=1)
  begun = defaults.with_base(small_run.config(steps=1), config)
  begun = begun.copy_and_resolve_references()
  workdirs.write_config(runs / "seed_0", begun)
  first, second, third = planned_lines(file, runs, capsys)
  assert "--base" in first
  assert first["--config.seed"] == "1"
  assert second["--workdir"].endswith("seed_0")
  assert "--config.init_from" not in second
  assert third["--config.init_from"] == first["--workdir"]
  begun.seed = begun.base.seed = 1
  begun.init_from = str(tmp_path / "elsewhere")
  small_run.save_untrained(
    small_run.on_one_device(build.build(config)), epath.Path(begun.init_from)
  )
  workdirs.write_config(runs / "seed_1", begun)
  first, second = planned_lines(file, runs, capsys)
  assert "--config.init_from" not in first
  assert second["--config.init_from"] == begun.init_from


def test_runs_of_a_base_that_fails_are_not_started(
  tmp_path, capsys, monkeypatch
):
  names = {"bad": "", "good": "", "a": "bad", "b": "good", "c": "bad"}
  runs = [
    sweep.PlannedRun(name, (name,), tmp_path / f"{name}.log", base)
    for name, base in names.items()
  ]
  # `b` fails unless `good`, which takes its time, has ended before.
  code = (
    "import pathlib, sys, time; name, folder = sys.argv[1:]\n"
    "mark = pathlib.Path(folder, 'good')\n"
    "if name == 'bad': sys.exit(1)\n"
    "if name == 'good': time.sleep(0.5); mark.touch()\n"
    "if not mark.exists(): sys.exit(9)\n"
  )
  monkeypatch.setattr(
    sweep,
    "command",
    lambda run: [sys.executable, "-c", code, *run.arguments, str(tmp_path)],
  )
  for jobs in (1, 3):
    (tmp_path / "good").unlink(missing_ok=True)
    assert sweep._run_all(runs, jobs) == errors.FAILURE
    assert capsys.readouterr().err.splitlines() == [
      "1 of 5: bad ended with status 1",
      "2 of 5: good done",
      "3 of 5: a not started, because its base failed",
      "4 of 5: b done",
      "5 of 5: c not started, because its base failed",
      f"failed: {tmp_path / 'bad.log'}",
    ]
  assert not (tmp_path / "a.log").exists()


def test_a_base_is_run_alone_only_where_there_is_one(file, tmp_path, capsys):
  workdir = tmp_path / "base"
  words = ["run", f"--config={file}", f"--workdir={workdir}", "--base"]
  assert run.main(words) == errors.USAGE
  assert "no base to train; leave out --base" in capsys.readouterr().err
  assert not workdir.exists()


@pytest.mark.long
def test_a_shared_base_is_the_one_that_a_run_would_train(
  file, tmp_path, monkeypatch
):
  """One seed, in a sweep and by itself: the same parameters and metrics."""
  file.write_text(BASE_CONFIG)
  monkeypatch.setenv("XLA_FLAGS", small_run.environment()["XLA_FLAGS"])
  monkeypatch.setenv(
    "PYTHONPATH", str(pathlib.Path(small_run.__file__).parents[1])
  )
  runs = tmp_path / "runs"
  args = ["--config", str(file), "--workdir", str(runs), "--run"]
  assert sweep.main(args) == 0
  (base,) = runs.glob("base-seed_0-????????")
  log = (runs / "seed_0.log").read_text()
  assert f"starts from the parameters of {base}" in log
  assert not (runs / "seed_0" / "base").exists()
  alone = tmp_path / "alone"
  words = [f"--config={file}", f"--workdir={alone}", "--config.seed=0"]
  subprocess.run([sys.executable, "-m", "experiments.run", *words], check=True)
  for shared, own in ((base, alone / "base"), (runs / "seed_0", alone)):
    (old,) = json_files.read(shared / "metrics.jsonl")
    (new,) = json_files.read(own / "metrics.jsonl")
    measured = ("time/", "memory/", "perf/")
    same = [key for key in old if not key.startswith(measured)]
    assert "loss/total" in same
    assert [old[key] for key in same] == [new[key] for key in same]


@pytest.mark.long
def test_the_printed_commands_run_and_are_not_run_again(
  file, tmp_path, capsys, monkeypatch
):
  monkeypatch.setenv("XLA_FLAGS", small_run.environment()["XLA_FLAGS"])
  monkeypatch.syspath_prepend(str(tmp_path))
  monkeypatch.setenv(
    "PYTHONPATH", str(pathlib.Path(small_run.__file__).parents[1])
  )
  runs = tmp_path / "runs"
  args = ["--config", str(file), "--workdir", str(runs), "--run"]
  args += ["--product", "rollout.samples=2", "--set", "method=reinforce"]
  assert sweep.main(args) == 0
  (printed,) = capsys.readouterr().out.splitlines()
  assert "--config.method=reinforce" in printed
  run = runs / "samples_2-seed_0"
  assert summary.load(run / "evaluation.json").step == 1
  assert sweep.main(args) == 0
  log = (runs / "samples_2-seed_0.log").read_text()
  assert "complete at step 1" in log
