"""Sweeps: which runs they are, what they refuse, and that they run."""

import pathlib
import shlex
import sys

import pytest
from helpers import small_run

from experiments import sweep
from experiments.cli import errors
from experiments.evaluation import summary

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
    sweep.PlannedRun(name, (f"--workdir={tmp_path / 'runs' / name}",))
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
  for run in runs:
    log = (tmp_path / "runs" / f"{run.name}.log").read_text()
    assert log == f"{run.arguments[0]}\n" * 2  # a log goes on
  assert sweep._run_all(runs[:1], 1) == 0


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
