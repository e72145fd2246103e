"""The command line: every mistake is one line, exit code 2, nothing written."""

import pathlib
import subprocess
import sys

import pytest
from helpers import small_gsm8k, small_run

from experiments import run
from experiments.cli import errors
from experiments.configs import smoke
from experiments.training import workdirs
from experiments.training_run import command_line

pytestmark = pytest.mark.several_devices

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "experiments" / "configs"
SMOKE = f"--config={CONFIGS / 'smoke.py'}"

# What is given -> what the line must say: value, what is allowed, nearest.
MISTAKES = {
  "method": (
    [SMOKE, "--config.method=maxatk(k=4)"],
    ["unknown method 'maxatk'", "did you mean 'max_at_k'?", "rloo"],
  ),
  "hyper-parameter": (
    [SMOKE, "--config.method=max_at_k(kk=4)"],
    ["unknown hyper-parameter of max_at_k 'kk'", "did you mean 'k'?", "clip"],
  ),
  "task": (
    [SMOKE, "--config.task=countdwn"],
    ["unknown task 'countdwn'", "did you mean 'countdown'?", "gsm8k"],
  ),
  "setting of a task": (
    [SMOKE, "--config.task=countdown(cuont=3)"],
    ["setting of task 'countdown' 'cuont'", "did you mean 'count'?"],
  ),
  "key": (
    [SMOKE, "--config.metod=grpo"],
    ["key of config 'metod'", "did you mean 'method'?", "task"],
  ),
  "nested key": (
    [SMOKE, "--config.rollout.sample=8"],
    ["key of config.rollout 'sample'", "did you mean 'samples'?", "min_p"],
  ),
  "a key that is not like another": (
    [SMOKE, "--config.optimizer.lr=1e-3"],
    ["key of config.optimizer 'lr'", "did you mean", "learning_rate"],
  ),
  "a key of a parent that is misspelled": (
    [SMOKE, "--config.optimizr.learning_rate=1e-3"],
    ["key of config 'optimizr'", "did you mean 'optimizer'?"],
  ),
  "a key of a number": (
    [SMOKE, "--config.steps.all=3"],
    ["key of config.steps 'all'", "available: none"],
  ),
  "flag": (
    [SMOKE, "--wrkdir=x"],
    ["Unknown command line flag 'wrkdir'", "Did you mean: workdir"],
  ),
  "word": ([SMOKE, "quickly"], ["'quickly'", "--"]),
  "value": ([SMOKE, "--config.steps=ten"], ["config.steps", "'ten'", "int"]),
  "config file": (
    [f"--config={CONFIGS / 'smok.py'}"],
    ["smok.py'", "did you mean", "smoke.py'"],
  ),
  "config file of another folder": (
    ["--config=experiments/configs/methods/grpo.py"],
    ["does not exist", "did you mean 'experiments/configs/method.py:grpo'"],
  ),
  "config file with a name": (
    [f"--config={CONFIGS / 'mehtod.py'}:grpo"],
    ["mehtod.py'", "did you mean", "/method.py:grpo'", "catalogue configs"],
  ),
  "name of a config": (
    [f"--config={CONFIGS / 'reward.py'}:majorty"],
    ["no config 'majorty'", "reward.py:majority", "catalogue configs"],
  ),
  "name of a method": (
    [f"--config={CONFIGS / 'method.py'}:gropo(beta=0.0)"],
    ["no config 'gropo'", "did you mean", "method.py:grpo?"],
  ),
  "setting of a method": (
    [f"--config={CONFIGS / 'method.py'}:grpo(bta=0.0)"],
    ["unknown hyper-parameter of grpo 'bta'", "did you mean 'beta'?"],
  ),
  "missing name": (
    [f"--config={CONFIGS / 'countdown.py'}"],
    [
      "must have a name after a colon",
      "countdown.py:base",
      "catalogue configs",
    ],
  ),
  "name after a file of one config": (
    [f"{SMOKE}:base"],
    ["the file defines one config", "leave out the colon"],
  ),
  "k above S": (
    [SMOKE, "--config.method=max_at_k(k=9)"],
    ["max_at_k(k=9)", "k = 9", "from 1 to the 8 samples"],
  ),
  "k above S of an override": (
    [SMOKE, "--config.rollout.samples", "2"],
    ["k = 4", "from 1 to the 2 samples"],
  ),
  "vocabulary": (
    [SMOKE, "--config.model.vocab_size=24"],
    ["model.vocab_size = 24", "25 tokens of countdown(count=3)", "at least 25"],
  ),
  "data path": (
    [SMOKE, "--config.task=gsm8k", "--config.data.folder=/no/such/folder"],
    ["'/no/such/folder'", "gsm8k_train.jsonl"],
  ),
  "batch on a mesh": (
    [SMOKE, "--config.rollout.prompts=12"],
    ["rollout.prompts = 12", "replica * data * fsdp = 8", "nearest: 16"],
  ),
  "samples on a mesh": (
    [SMOKE, "--config.mesh.context=8", "--config.rollout.samples=12"],
    ["rollout.samples = 12", "mesh.context = 8", "nearest: 16"],
  ),
  "attention on a mesh": (
    [SMOKE, "--config.mesh.context=2", "--config.model.attention=plain"],
    ["model.attention = 'plain'", "mesh.context = 2", "'blocked'"],
  ),
  "microbatches on a mesh": (
    [SMOKE, "--config.plan.microbatches=4"],
    ["microbatches) = 4", "replica * data * fsdp = 8", "nearest: 8"],
  ),
  "evaluation on a mesh": (
    [SMOKE, "--config.evaluation.batch=12"],
    ["evaluation.batch = 12", "replica * data * fsdp = 8", "nearest: 16"],
  ),
  "all sizes on a mesh": (
    [SMOKE, "--config.rollout.prompts=12", "--config.evaluation.batch=20"],
    ["rollout.prompts = 12 (nearest: 16)", "evaluation.batch = 20 (nearest: "],
  ),
  "mesh": (
    [SMOKE, "--config.mesh.tensor=3"],
    ["tensor=3", "8 devices", "nearest: 2"],
  ),
  "held-out problems": (
    [SMOKE, "--config.evaluation.problems=4096"],
    ["n=4096", "countdown(count=3)", "ask for 1 to"],
  ),
  "no problems": (
    [SMOKE, "--config.evaluation.problems=0"],
    ["evaluation.problems = 0", "at least 1"],
  ),
  "evaluation samples": (
    [SMOKE, "--config.evaluation.samples=0"],
    ["evaluation", "samples = 0", "the nearest valid value is 1"],
  ),
  "sink": (
    [SMOKE, "--config.sinks=('tensorbord',)"],
    ["unknown sink 'tensorbord'", "did you mean 'tensorboard'?", "wandb"],
  ),
  "cadence": (
    [SMOKE, "--config.steps_per_dispatch=5", "--config.steps=12"],
    ["steps = 12", "multiple of steps_per_dispatch = 5", "nearest: 10"],
  ),
  "fewer than no steps": (
    [SMOKE, "--config.steps=-3"],
    ["steps = -3 must be at least 0", "nearest: 0"],
  ),
  "an open bracket": (
    [SMOKE, "--config.task=countdown(count=3"],
    ["task: cannot read 'countdown(count=3'", '"countdown(count=4)"'],
  ),
  "a critic without a head": (
    [SMOKE, "--config.method=vapo"],
    ["vapo reads a value head", "add --config.model.value_head=True"],
  ),
  "positions of a chunk": (
    [SMOKE, "--config.plan.chunk=0"],
    ["plan.chunk = 0 must be at least 1 position", "nearest: 1"],
  ),
  "a base that is not trained": (
    [SMOKE, "--config.base.steps=0"],
    ["base.steps = 0 must be at least 1", "last checkpoint", "nearest: 1"],
  ),
  "a seed of more than 32 bits": (
    [SMOKE, "--config.seed=99999999999999999999"],
    [
      "seed = 99999999999999999999 must be",
      "the nearest valid seed is 4294967295",
    ],
  ),
  "a rollout of too many tokens": (
    [SMOKE, "--config.rollout.max_tokens=100000000"],
    ["rollout.max_tokens = 100000000", "2147483647 are allowed", "nearest: 1"],
  ),
  "log_every": ([SMOKE, "--config.log_every=0"], ["log_every = 0", "least 1"]),
  "init_from": (
    [SMOKE, "--config.init_from=/no/such/run"],
    ["init_from", "/no/such/run"],
  ),
  "step scores of a task without steps": (
    [SMOKE, "--config.method=min_form"],
    ["min_form", "step_scores"],
  ),
}


def one_line(stderr: str) -> str:
  """The message, once it is certain that it is a single line."""
  assert stderr.startswith("error: "), stderr
  assert stderr.count("\n") == 1, stderr
  return stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_writes_nothing(name, tmp_path, capsys):
  args, expected = MISTAKES[name]
  workdir = tmp_path / "run"
  code = run.main(["run", *args, f"--workdir={workdir}"])
  assert code == 2
  out, err = capsys.readouterr()
  line = one_line(err)
  for part in expected:
    assert part in line, line
  assert out in ("", f"{workdir}: loading JAX ...\n")
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("line", "expected"),
  [
    (
      "config.optimizer.lr = 1e-3",
      ["of config.optimizer 'lr'", "learning_rate"],
    ),
    (
      "config.rollout.sample = 3",
      ["key of config.rollout 'sample'", "did you mean 'samples'?"],
    ),
    (
      "config.evaluate_evry = 7",
      ["key of config 'evaluate_evry'", "did you mean 'evaluate_every'?"],
    ),
    (
      "config.base.rollout.promts = 7",
      ["key of config.base.rollout 'promts'", "did you mean 'prompts'?"],
    ),
  ],
)
def test_a_typo_in_a_file_is_one_line_too(line, expected, tmp_path, capsys):
  text = (CONFIGS / "forkme.py").read_text()
  assert text.endswith("  return config\n")
  file = tmp_path / "mine.py"
  file.write_text(
    text.replace("  return config\n", f"  {line}\n  return config\n")
  )
  workdir = tmp_path / "run"
  assert run.main(["run", f"--config={file}", f"--workdir={workdir}"]) == 2
  output = one_line(capsys.readouterr().err)
  for part in expected:
    assert part in output, output
  assert not workdir.exists()
  with pytest.raises(errors.UsageError, match="unknown key of config"):
    command_line.parse(["aot", f"--config={file}"], lambda _: None, ("config",))


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    (
      "def get_config(\n",
      "SyntaxError: '(' was never closed (mine.py, line 1)",
    ),
    ("x = 1\n", "the file defines no function get_config()"),
    ("def get_config():\n  raise RuntimeError('no')\n", "RuntimeError: no; "),
    ("def get_config():\n  return 1 / 0\n", "division by zero; "),
    ("def get_config():\n  raise SystemExit(0)\n", "SystemExit: 0; "),
    ("def get_config():\n  return None\n", "get_config() returned None"),
    ("import nosuchmodule\n", "No module named 'nosuchmodule'; "),
  ],
)
def test_a_config_file_that_fails_is_one_line(
  text, expected, tmp_path, capsys, monkeypatch
):
  # ml_collections loads every config file into the same module.
  monkeypatch.delitem(sys.modules, "config_config", raising=False)
  file = tmp_path / "mine.py"
  file.write_text(text)
  workdir = tmp_path / "run"
  assert run.main(["run", f"--config={file}", f"--workdir={workdir}"]) == 2
  line = one_line(capsys.readouterr().err)
  assert line.startswith("error: --config: ")
  assert expected in line
  if expected.endswith("; "):
    assert f"{file}:" in line
  assert not workdir.exists()


def test_a_workdir_that_cannot_be_created_is_one_line(capsys):
  assert run.main(["run", SMOKE, "--workdir=/proc/run"]) == 2
  line = one_line(capsys.readouterr().err)
  assert "workdir /proc/run cannot be created" in line


def test_no_data_folder_names_the_variable(tmp_path, capsys, monkeypatch):
  monkeypatch.delenv("EXTREMUM_DATA", raising=False)
  args = [SMOKE, "--config.task=gsm8k", f"--workdir={tmp_path / 'run'}"]
  assert run.main(["run", *args]) == 2
  line = one_line(capsys.readouterr().err)
  assert "'gsm8k'" in line
  assert "EXTREMUM_DATA" in line
  assert not list(tmp_path.iterdir())


def test_a_vocabulary_below_the_tokenizers(tmp_path, capsys):
  data = small_gsm8k.write(tmp_path / "data")
  args = [
    SMOKE,
    "--config.task=gsm8k(vocab_size=300)",
    f"--config.data.folder={data}",
    f"--config.data.cache={tmp_path / 'cache'}",
    "--config.model.vocab_size=100",
    f"--workdir={tmp_path / 'run'}",
  ]
  assert run.main(["run", *args]) == 2
  line = one_line(capsys.readouterr().err)
  assert "model.vocab_size = 100" in line
  assert "gsm8k" in line
  assert "at least" in line
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("missing", ["config", "workdir"])
def test_a_missing_flag_is_named(missing, capsys):
  args = {"config": SMOKE, "workdir": "--workdir=/no/such/run"}
  del args[missing]
  assert run.main(["run", *args.values()]) == 2
  assert f"--{missing} is missing" in one_line(capsys.readouterr().err)


def test_help_shows_a_command_that_can_be_typed(capsys):
  assert run.main(["run", "--help"]) == 0
  assert "python -m experiments.run --config" in capsys.readouterr().out


def test_without_flags_a_run_is_neither_traced_nor_debugged_nor_multihost():
  options = command_line.parse(
    ["run", SMOKE, "--workdir", "runs/new"],
    run._define_flags,
    required=("config", "workdir"),
  )
  assert not options.profile
  assert not options.debug
  assert not options.explain
  assert not options.distributed
  assert options.cache
  assert options.coordinator is options.processes is options.process is None


def command(*args: str) -> subprocess.CompletedProcess:
  """The real command, on one device."""
  return subprocess.run(
    [sys.executable, "-m", "experiments.run", *args],
    cwd=ROOT,
    env=small_run.environment(),
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )


def test_explain_says_where_everything_lies_and_runs_nothing(tmp_path, capsys):
  args = [SMOKE, "--config.mesh.data=2", "--config.mesh.fsdp=4", "--explain"]
  assert run.main(["run", *args, f"--workdir={tmp_path / 'new'}"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0].startswith("mesh: replica 1, data 2, fsdp 4")
  result = {line.split()[0]: line.split() for line in lines}
  for name in (
    # 2 x 32 x 64 floats, on four devices
    "learners.policy.params.layers.mlp.up.kernel",
    "learners.policy.opt_state.1.0.mu.layers.mlp.up.kernel",
  ):
    assert result[name][-3:] == ["1:", "fsdp", f"{2 * 32 * 64 * 4 // 4:,}"]
  assert lines[-1].startswith("while sampling: keys and values")
  assert not (tmp_path / "new").exists()


def test_the_process_exits_with_2_and_makes_no_folder(tmp_path):
  workdir = tmp_path / "run"
  result = command(SMOKE, f"--workdir={workdir}", "--config.method=grppo")
  assert result.returncode == 2
  assert "did you mean 'grpo'?" in one_line(result.stderr)
  assert result.stdout == f"{workdir}: loading JAX ...\n"
  assert not workdir.exists()


def test_a_workdir_of_another_config_stays_byte_identical(tmp_path):
  workdir = tmp_path / "run"
  workdirs.write_config(workdir, smoke.get_config())
  (workdir / "metrics.jsonl").write_text('{"step": 1}\n')
  before = {path: path.read_bytes() for path in workdir.rglob("*")}
  result = command(SMOKE, f"--workdir={workdir}", "--config.seed=7")
  assert result.returncode == 2
  line = one_line(result.stderr)
  assert "seed is 0 there, 7 here" in line
  assert "another workdir" in line
  assert {path: path.read_bytes() for path in workdir.rglob("*")} == before


def test_a_mistake_is_said_before_that_the_workdir_is_anothers(
  tmp_path, capsys
):
  workdirs.write_config(tmp_path, smoke.get_config())
  args = [SMOKE, "--config.method=max_at_q", f"--workdir={tmp_path}"]
  assert run.main(["run", *args]) == 2
  assert "did you mean 'max_at_k'?" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_is_no_workdir(below, tmp_path, capsys):
  file = tmp_path / "notes.txt"
  file.write_text("mine")
  assert run.main(["run", SMOKE, f"--workdir={file / below}"]) == 2
  assert f"{file} is a file; name a folder" in one_line(capsys.readouterr().err)
  assert file.read_text() == "mine"
