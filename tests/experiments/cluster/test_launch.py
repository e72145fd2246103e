"""The launch scripts, against the machines of `fake_machines`."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from helpers import fake_machines

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = fake_machines.SCRIPTS
RUN = [
  "--config",
  "experiments/configs/demo.py",
  "--workdir=gs://bucket/a run",
  "--config.method=max_at_k(k=8)",
  '--config.reward=it\'s "$HOME" & *\\',
]
SLICE = ["--name=pod", "--zone=us-west4-a", "--project", "mine"]
TYPED = [*SLICE, "--type=v5litepod-16"]


@pytest.fixture
def world(tmp_path):
  return fake_machines.World(tmp_path)


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
  """A world where nothing may be done."""
  built = fake_machines.World(tmp_path_factory.mktemp("idle"))
  yield built
  assert built.calls() == []


def messages(calls):
  """Returns the arguments of each process of experiments.run."""
  return [
    call[3:]
    for call in calls
    if call[0] == "python" and call[1:3] == ["-m", "experiments.run"]
  ]


def verbs(calls):
  """Returns the commands that gcloud received, shortened."""
  return [
    " ".join([call[4], *(w for w in call if w.startswith("--worker"))])
    for call in calls
    if call[0] == "gcloud"
  ]


def test_shellcheck_is_content():
  beside = str(pathlib.Path(sys.executable).parent)
  result = shutil.which("shellcheck", path=f"{beside}:{os.environ['PATH']}")
  assert result, "shellcheck is missing: pip install -e '.[test]'"
  done = subprocess.run(
    [result, "-x", "-P", "SCRIPTDIR", *SCRIPTS, ROOT / ".ci" / "run"],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(path):
  done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
  assert (done.returncode, done.stderr) == (0, "")


COMMANDS = {
  "create": "gcloud compute tpus tpu-vm create pod --zone=us-west4-a "
  "--project=mine --accelerator-type=v5litepod-16 "
  "--version=v2-alpha-tpuv5-lite\n",
  "create --version=x --queued": "gcloud compute tpus queued-resources create "
  "pod --zone=us-west4-a --project=mine --node-id=pod "
  "--accelerator-type=v5litepod-16 --runtime-version=x\n"
  "gcloud compute tpus queued-resources describe pod --zone=us-west4-a "
  "--project=mine '--format=value(state.state)'\n",
  "delete": "gcloud compute tpus tpu-vm delete pod --zone=us-west4-a "
  "--project=mine --quiet\n",
  "delete --spot": "gcloud compute tpus queued-resources delete pod "
  "--zone=us-west4-a --project=mine --force --quiet\n",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_dry_run_prints_the_commands_and_does_nothing(idle, words):
  action, *flags = words.split()
  status, out, _ = idle.script(
    "run_tpu.sh", action, *TYPED, *flags, "--dry-run"
  )
  assert (status, out) == (0, COMMANDS[words])
  assert idle.calls() == []


@pytest.mark.parametrize("chip", ["v4-8", "v5p-8", "v6e-256"])
def test_the_image_follows_from_the_type(idle, chip):
  image = {
    "v4-8": "tpu-ubuntu2204-base",
    "v5p-8": "v2-alpha-tpuv5",
    "v6e-256": "v2-alpha-tpuv6e",
  }[chip]
  # Flags by the environment, as the usage promises.
  env = {"NAME": "pod", "ZONE": "z", "TYPE": chip, "DRY_RUN": "1"}
  status, out, _ = idle.script("run_tpu.sh", "create", **env)
  assert (status, out.split()[-1]) == (0, f"--version={image}")


def test_what_a_dry_run_prints_does_what_the_script_does(world):
  """Pasted into a shell; and the words arrive as they were given."""
  words = ["all", *TYPED, "--spot", "--", *RUN]
  status, out, _ = world.script("run_tpu.sh", *words, DRY_RUN="1")
  assert (status, world.calls()) == (0, [])
  status, _, err = world.do("bash", "-ec", out)
  assert status == 0, err
  pasted = world.calls()
  assert messages(pasted) == [["--distributed", *RUN]] * 2
  assert [call[1] for call in pasted if call[0] == "uv"] == ["venv", "pip"] * 2
  for worker in ("w0", "w1"):
    assert (
      world.folder / worker / "extremum/experiments/cluster/run_tpu.sh"
    ).exists()
  status, _, err = world.script("run_tpu.sh", *words)
  assert status == 0, err
  assert sorted(world.calls()) == sorted(pasted)  # workers go side by side


def test_a_slice_that_is_taken_away_is_made_again_and_the_run_goes_on(world):
  world.runs_end(w0=["taken"], w1=[134])
  words = [*TYPED, "--spot", "--keep", "--", *RUN]
  status, _, err = world.script("run_tpu.sh", "all", *words)
  assert status == 0, err
  calls = world.calls()
  built = ["create", "describe", "scp --worker=all", "ssh --worker=all"]
  run = ["ssh --worker=all", "ssh --worker=0"]
  result = ["ssh --worker=0", "describe"]  # how it ended, the state
  assert verbs(calls) == [*built, *run, *result, "delete", *built, *run]
  assert messages(calls) == [["--distributed", *RUN]] * 4


def test_a_run_that_fails_on_a_slice_that_is_there_is_not_started_again(world):
  world.runs_end(w0=[3], w1=[3])
  words = [*TYPED, "--keep", "--repo", world.root, "--", *RUN]
  status, _, err = world.script("run_tpu.sh", "all", *words)
  assert status == 3
  assert "the run: 3; the slice: READY" in err
  calls = world.calls()
  assert len(messages(calls)) == 2
  assert "delete" not in verbs(calls)


def test_all_workers_begin_again_where_one_was_restarted(world):
  world.runs_end(w0=["killed"])
  words = [*TYPED, "--keep", "--", *RUN]
  status, _, err = world.script("run_tpu.sh", "all", *words)
  assert status == 0, err
  assert "the run: killed; the slice: READY" in err
  calls = world.calls()
  assert messages(calls) == [["--distributed", *RUN]] * 4
  stop, *run = ["ssh --worker=all", "ssh --worker=all", "ssh --worker=0"]
  assert verbs(calls)[-4:] == ["describe", stop, *run]


def test_a_run_that_goes_is_followed_not_started_and_stops(world):
  world.runs_end(w0=["long"], w1=["long"])
  world.script("run_tpu.sh", "create", *TYPED)
  world.script("run_tpu.sh", "setup", *TYPED)
  keeper = world.root / "experiments" / "cluster" / "run_tpu.sh"
  process = world.start(keeper, "run", *TYPED, "--keep", "--", *RUN)
  assert process.stdout.readline() == "step 1\n"
  status, out, _ = world.script("run_tpu.sh", "status", *SLICE)
  assert (status, out.count(": running")) == (0, 2)
  again = world.start(keeper, "run", *SLICE, "--", *RUN)
  assert again.stdout.readline() == "already running\n"
  world.script("run_tpu.sh", "stop", *SLICE)
  assert process.wait(30) == 143
  assert "the run: stopped" in process.stderr.read()
  assert again.wait(30) == 143
  assert len(messages(world.calls())) == 2


# What is given -> what its one line must say.
MISTAKES = {
  "run_tpu.sh": {
    "": ["unknown command ''", "create", "delete"],
    "crate --name=a": ["unknown command 'crate'", "create"],
    "create --zone=z": ["--name is missing", "NAME="],
    "create --name=a --zone=z": ["--type is missing"],
    "create --name=a --zone=z --type=v5e-8": ["'v5e-8'", "v5litepod-N"],
    "create --nam=a": ["unknown flag '--nam=a'", "--name"],
    "create --name": ["--name needs a value"],
    "run --name=a --zone=z": ["--config is missing after --"],
    "run --name=a --zone=z -- --config=c": ["--workdir is missing after --"],
    "run --name=a --zone=z --type=v4-8 --keep -- --config c --workdir /w": [
      "--keep",
      "gs://",
    ],
  },
  "run_gpu.sh": {
    "strat": ["unknown command 'strat'", "setup", "slurm"],
    "run": ["--config is missing after --"],
    "status": ["--hosts is missing"],
    "setup --port=x": ["--port=x", "whole number"],
  },
}


@pytest.mark.parametrize(
  ("script", "words"), [(s, w) for s, cases in MISTAKES.items() for w in cases]
)
def test_a_mistake_is_one_line(idle, script, words):
  status, out, err = idle.script(script, *words.split())
  assert (status, out, err.count("\n")) == (2, "", 1)
  for part in MISTAKES[script][words]:
    assert part in err
  assert idle.calls() == []


@pytest.mark.parametrize("script", sorted(MISTAKES))
def test_help_names_every_command_and_flag(idle, script):
  status, out, _ = idle.script(script, "--help")
  assert status == 0
  text = (ROOT / "experiments" / "cluster" / script).read_text()
  for kind, mark in [
    ("COMMANDS", "\n  "),
    ("VALUED", "--"),
    ("SWITCHES", "--"),
  ]:
    listed = text.split(f'{kind}="')[1].split('"')[0].split()
    assert listed
    assert all(mark + word in out for word in listed)


def test_hosts_meet_at_the_first(world):
  words = ["--hosts=me@a b", "--", *RUN]
  for action in ("setup", "run"):
    status, _, err = world.script("run_gpu.sh", action, *words)
    assert status == 0, err
  meeting = ["--coordinator=a:8476", "--processes=2"]
  assert sorted(messages(world.calls())) == [
    [*meeting, f"--process={i}", *RUN] for i in range(2)
  ]


def test_a_single_machine_needs_no_meeting(world):
  for hosts in ([], ["--hosts=a"]):
    for action in ("setup", "run"):
      words = [action, *hosts, "--", *RUN]
      status, out, err = world.script("run_gpu.sh", *words)
      assert status == 0, err
    assert out.endswith("step 1\n")
    assert messages(world.calls()) == [RUN]


def test_the_status_of_a_run_is_the_scripts(world):
  world.runs_end(a=[3])
  world.script("run_gpu.sh", "setup", "--hosts=a")
  status, *_ = world.script("run_gpu.sh", "run", "--hosts=a", "--", *RUN)
  assert status == 3


def test_a_batch_script_runs_one_process_a_node_with_all_its_gpus(world):
  world.script("run_gpu.sh", "setup")
  flags = ["--nodes=3", "--gpus=4", "--", *RUN]
  status, out, _ = world.script("run_gpu.sh", "slurm", *flags)
  assert status == 0
  assert "#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=1\n" in out
  assert "JAX_LOCAL_DEVICE_IDS=0,1,2,3\n" in out
  status, _, err = world.do("bash", "-ec", out)
  assert status == 0, err
  assert messages(world.calls()) == [["--distributed", *RUN]]


def test_the_commands_of_the_readme_are_ones(idle):
  text = (
    (ROOT / "experiments/cluster/README.md").read_text().replace("\\\n", " ")
  )
  lines = re.findall(r"^experiments/cluster/run_\w+\.sh .*", text, re.M)
  assert len(lines) > 4
  for line in lines:
    status, _, err = idle.do(
      "bash", "-c", f"cd checkout && {line}", DRY_RUN="1"
    )
    assert status == 0, (line, err)
