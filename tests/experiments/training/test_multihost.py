"""Two real processes of four devices each do what one of eight does."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import zlib

import jax
import numpy as np
import pytest
from helpers import small_jsonl, small_run
from jax.sharding import NamedSharding, PartitionSpec

from experiments.logging import json_files
from experiments.training import multihost

TESTS = pathlib.Path(__file__).resolve().parents[2]
DEVICES = 8
# Each says which process it serves: the pool's workers are its children.
REWARD = """
import os, pathlib
from rewards.verifiers import each

@each
def letters(completion, letters):
  pathlib.Path(os.environ["SEEN"], str(os.getppid())).touch()
  return 1 / (1 + abs(len(completion) - letters))
"""


def config(folder, **changes):
  """A config file of `small_run.config(**changes)`."""
  path = folder / "config.py"
  path.write_text(
    textwrap.dedent(f"""\
      from helpers import small_run

      def get_config():
        return small_run.config(**{changes!r})
    """)
  )
  return path


def start(words, more):
  """A process of the command, and not yet its end."""
  path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
  return subprocess.Popen(
    [sys.executable, "-m", "experiments.run", *map(str, words)],
    env=small_run.environment() | {"PYTHONPATH": path} | more,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )


def begin(file, workdir, processes=1, **more):
  """Starts the command in `count` processes, which share eight devices."""
  words = [f"--config={file}", f"--workdir={workdir}"]
  words.append(f"--config.cpu_devices={DEVICES // processes}")
  if processes == 1:
    return [start(words, more)]
  with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
  words += [f"--coordinator=localhost:{port}", f"--processes={processes}"]
  return [start([*words, f"--process={i}"], more) for i in range(processes)]


def end(started, status=0):
  """Returns the outputs of all processes, which must exit with `status`."""
  output = [one.communicate(timeout=500)[0] for one in started]
  for one, text in zip(started, output, strict=True):
    assert one.returncode == status, text
  return output


def run(file, workdir, processes=1, **more):
  return end(begin(file, workdir, processes, **more))


def lines(workdir, *starts):
  """The metrics of every step whose names start so."""
  result = json_files.read(workdir / "metrics.jsonl")
  return [
    {
      name: float(value)
      for name, value in line.items()
      if name.startswith(starts) and not isinstance(value, list)
    }
    for line in result
  ]


def assert_near(result, expected, error):
  assert len(result) == len(expected) > 0
  for step, (one, other) in enumerate(zip(result, expected, strict=True)):
    assert one.keys() == other.keys()
    for name, value in other.items():
      near = pytest.approx(value, rel=error, abs=error, nan_ok=True)
      assert one[name] == near, (step, name)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
  """Demonstrations, which no rounding changes."""
  return config(
    tmp_path_factory.mktemp("fixed"),
    kind="supervised",
    steps=20,
    checkpoint_every=10,
    mesh__data=2,
    mesh__fsdp=4,
    model__vocab_size=26,  # the task's 25 rows do not split in two
  )


@pytest.fixture(scope="module")
def one(file, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("one")
  run(file, workdir)
  return workdir


@pytest.fixture(scope="module")
def two(file, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("two")
  output = run(file, workdir, processes=2)
  assert "run folder" in output[0]
  assert "run folder" not in output[1]  # process 0 speaks
  return workdir


@pytest.mark.long
def test_losses_are_equal_over_20_steps(one, two):
  result, expected = (lines(each, "loss/", "optim/") for each in (two, one))
  assert len(result) == 20
  assert_near(result, expected, 1e-5)


@pytest.mark.long
def test_a_checkpoint_goes_on_on_another_mesh_of_one_process(
  one, two, file, tmp_path
):
  workdir = tmp_path / "moved"
  shutil.copytree(two, workdir)
  shutil.rmtree(workdir / "checkpoints" / "20")
  changes = json.loads((workdir / "config.json").read_text())
  assert changes["mesh"]["fsdp"] == 4
  text = file.read_text().replace("'mesh__data': 2", "'mesh__data': 4")
  moved = tmp_path / "config.py"
  moved.write_text(text.replace("'mesh__fsdp': 4", "'mesh__tensor': 2"))
  output = run(moved, workdir)
  assert "resumed after step 10 of 20" in output[0]
  result, expected = (lines(each, "loss/", "step") for each in (workdir, one))
  assert [line["step"] for line in result] == list(range(1, 21))
  assert_near(result, expected, 1e-5)


@pytest.mark.long
def test_samples_are_equal_in_float64(tmp_path):
  """Samples, scores and trains in one program; evaluates before and after."""
  file = config(
    tmp_path,
    steps=5,
    method="max_at_k(k=2)",
    mesh__fsdp=2,
    model__dtype="float64",
    model__param_dtype="float64",
    rollouts_every=5,
  )
  wide = {"JAX_ENABLE_X64": "1"}
  run(file, tmp_path / "one", **wide)
  run(file, tmp_path / "two", processes=2, **wide)
  names = ("loss/", "reward/", "policy/", "optim/", "length/", "accuracy/")
  result, expected = (lines(tmp_path / n, *names) for n in ("two", "one"))
  assert_near(result, expected, 1e-8)
  for file in ("evaluation.json", "evaluation_base.json"):
    one, two = (
      json.loads((tmp_path / n / file).read_text()) for n in ("one", "two")
    )
    assert one == two
  samples = [
    [
      line["tokens"]
      for line in json_files.read(tmp_path / n / "rollouts/step_000000.jsonl")
    ]
    for n in ("one", "two")
  ]
  assert samples[0] == samples[1]


@pytest.mark.long
def test_hosts_verify_what_their_devices_sampled(tmp_path):
  """Both ask their own workers, and all know all."""
  pears = small_jsonl.write(tmp_path)
  (tmp_path / "pear_verifier.py").write_text(REWARD)
  path = os.pathsep.join(map(str, (TESTS, TESTS.parent, tmp_path)))
  settings = "prompt_length=24, completion_length=6, vocab_size=300, workers=1"
  file = config(
    tmp_path,
    task=f"jsonl({settings})",
    verifier="pear_verifier:letters",
    data__file=str(pears),
    data__cache=str(tmp_path / "cache"),
    steps=3,
  )
  observed = {}
  for name, processes in (("one", 1), ("two", 2)):
    observed[name] = tmp_path / f"seen_{name}"
    observed[name].mkdir()
    more = {"SEEN": str(observed[name]), "PYTHONPATH": path}
    run(file, tmp_path / name, processes, **more)
  assert [len(list(folder.iterdir())) for folder in observed.values()] == [1, 2]
  names = ("loss/", "reward/", "length/", "accuracy/", "verifier/")
  result, expected = (lines(tmp_path / n, *names) for n in ("two", "one"))
  assert_near(result, expected, 1e-5)


def until(workdir, count, started):
  """Waits until `metrics.jsonl` has a number of lines."""
  while len(json_files.read(workdir / "metrics.jsonl")) < count:
    for one in started:
      assert one.poll() is None, one.communicate()[0]
    time.sleep(0.02)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
  return config(tmp_path_factory.mktemp("long"), kind="supervised", steps=400)


@pytest.mark.long
def test_sigterm_to_one_of_two_saves_the_same_step_of_both(long, tmp_path):
  started = begin(long, tmp_path, processes=2)
  until(tmp_path, 5, started)
  started[1].send_signal(signal.SIGTERM)
  end(started, status=143)
  done = len(json_files.read(tmp_path / "metrics.jsonl"))
  assert 5 <= done < 400
  assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == [str(done)]


@pytest.mark.long
@pytest.mark.parametrize("killed", [0, 1])
def test_when_one_dies_the_other_ends_and_says_why(killed, long, tmp_path):
  started = begin(long, tmp_path, processes=2)
  until(tmp_path, 5, started)
  started[killed].kill()
  began = time.monotonic()
  output, _ = started[1 - killed].communicate(timeout=120)
  assert time.monotonic() - began < 60  # the promise
  assert started[1 - killed].returncode != 0
  assert re.search("heartbeat|connection|another task died", output), output


class TestShares:
  """Who judges what, of an array that lies on devices of several processes."""

  class Place:
    """A sharding of four devices of two processes."""

    def __init__(self, *rows):
      self.rows = rows

    def devices_indices_map(self, shape):
      device = lambda i: type("Device", (), {"process_index": i // 2})  # noqa: E731
      return {device(i): (slice(*row),) for i, row in enumerate(self.rows)}

  @pytest.mark.parametrize(
    ("rows", "expected"),
    [
      # Prompts of its own on each device.
      ([(0, 2), (2, 4), (4, 6), (6, 8)], [[0, 1, 2, 3], [4, 5, 6, 7]]),
      # Two devices of a process have the same.
      ([(0, 4), (0, 4), (4, 8), (4, 8)], [[0, 1, 2, 3], [4, 5, 6, 7]]),
      # All have all: the processes share it.
      ([(0, 8)] * 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
      # An odd number: one is judged by both, for all must give as many.
      ([(None, None)] * 4, [[0, 1, 2], [2, 3, 4]]),
    ],
  )
  def test_every_prompt_has_a_judge(self, rows, expected, monkeypatch):
    monkeypatch.setattr(multihost.jax, "process_count", lambda: 2)
    count = 5 if rows[0][0] is None else 8
    array = type(
      "Array", (), {"sharding": self.Place(*rows), "shape": (count,)}
    )
    shares = multihost._divide_prompts(array)
    assert [rows.tolist() for rows in shares] == expected
    parts = np.stack(
      [np.stack([share, share * 10, share + 7], -1) for share in shares]
    )
    joined = multihost._merge(parts, shares)
    expected = [[i, 10 * i, i + 7] for i in range(count)]
    assert joined.tolist() == expected


@pytest.mark.parametrize(
  ("words", "says"),
  [
    ({"process": 0}, "--coordinator, --processes is missing"),
    (
      {"coordinator": "here", "processes": 2, "process": 0},
      "--coordinator=here must be HOST:PORT; nearest: here:8476",
    ),
    (
      {"coordinator": ":8476", "processes": 2, "process": 0},
      "--coordinator=:8476 must be HOST:PORT; nearest: localhost:8476",
    ),
    (
      {"coordinator": "here:1", "processes": 2, "process": 2},
      "--process=2 must be one of 0 to 1",
    ),
    (
      {"coordinator": "here:1", "processes": 0, "process": 0},
      "--processes=0 must be at least 1",
    ),
  ],
)
def test_mistakes_of_who_one_is(words, says):
  usual = {"distributed": False, "coordinator": None}
  usual |= {"processes": None, "process": None}
  with pytest.raises(ValueError, match=says):
    multihost.connect_processes(**(usual | words))


def test_the_flags_say_how_processes_find_each_other(monkeypatch):
  """One that ends is noticed within the minute that users are promised."""
  calls = []
  monkeypatch.setattr(
    jax.distributed,
    "initialize",
    lambda *addresses, heartbeat_timeout_seconds: calls.append(
      (*addresses, heartbeat_timeout_seconds < 60)
    ),
  )
  multihost.connect_processes(False, None, None, None)
  assert calls == []  # a run of one process
  multihost.connect_processes(True, None, None, None)
  multihost.connect_processes(False, "here:1", 2, 1)
  multihost.connect_processes(False, "here:1", 1, 0)
  assert calls == [(True,), ("here:1", 2, 1, True), ("here:1", 1, 0, True)]


@pytest.mark.parametrize(
  ("count", "backend", "keeps_programs"),
  [(2, "cpu", False), (1, "cpu", True), (2, "gpu", True)],
)
def test_no_programs_are_kept_of_several_processes_on_cpus(
  monkeypatch, count, backend, keeps_programs
):
  """Loaded programs run their collectives in another order in each process."""
  changes = []
  monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: None)
  monkeypatch.setattr(jax, "process_count", lambda: count)
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  monkeypatch.setattr(jax.config, "update", lambda *args: changes.append(args))
  multihost.connect_processes(False, "here:1", count, 0)
  expected = [] if keeps_programs else [("jax_enable_compilation_cache", False)]
  assert changes == expected


def test_all_processes_have_to_agree(monkeypatch):
  monkeypatch.setattr(
    multihost.multihost_utils,
    "process_allgather",
    lambda value, **_: np.array([value, *answers]),
  )
  answers = [True]
  assert multihost.is_true_everywhere(True)
  answers = [False]
  assert not multihost.is_true_everywhere(True)
  answers = [zlib.crc32(b"run"), zlib.crc32(b"walk")]
  with pytest.raises(ValueError, match="--workdir of process 2 is not that of"):
    multihost.check_same("--workdir", "run")
  with pytest.raises(
    ValueError, match=r"process 1, 2 is not that of process 0"
  ):
    multihost.check_same("--workdir", "fly")
  answers = [zlib.crc32(b"run")]
  multihost.check_same("--workdir", "run")


def test_shards_of_other_processes_are_joined(monkeypatch):
  """Without a new axis of processes."""

  class Remote:
    is_fully_addressable = False

  def gather(array, *, tiled):
    return np.arange(6 if tiled else 12).reshape(-1, 6)

  monkeypatch.setattr(multihost.jax, "Array", Remote)
  monkeypatch.setattr(multihost.multihost_utils, "process_allgather", gather)
  fetched = multihost.fetch({"a": Remote(), "b": 3})
  np.testing.assert_array_equal(fetched["a"], [np.arange(6)])
  assert fetched["b"] == 3


@pytest.mark.several_devices
def test_samples_on_several_devices_are_scored_in_their_order(monkeypatch):
  """Eight prompts, two of them on each of four devices."""
  mesh = jax.make_mesh((4,), ("prompts",), devices=jax.devices()[:4])
  sharding = NamedSharding(mesh, PartitionSpec("prompts"))
  divide, divided = multihost._divide_prompts, []

  def spy(array):
    divided.append(array.sharding)
    return divide(array)

  monkeypatch.setattr(multihost, "_divide_prompts", spy)
  completions = np.arange(48).reshape(8, 2, 3)
  lengths = np.arange(16).reshape(8, 2)
  problems = {"target": np.arange(8) * 100}

  def score(problems, completions, lengths):
    total = completions.sum(-1) + 1000 * lengths
    return {"score": total + problems["target"][:, None]}

  expected = score(problems, completions, lengths)["score"]
  samples = [jax.device_put(x) for x in (completions, lengths)]
  for place in (sharding, None):
    judged = multihost.score_on_hosts(score, problems, samples, place)
    np.testing.assert_array_equal(judged["score"], expected)
  assert divided == [sharding, samples[0].sharding]


ONE_CANNOT_READ = """
import sys
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from experiments.training import checkpointing

jax.config.update("jax_num_cpu_devices", 2)
folder, address, me = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(address, 2, me)
mesh = jax.make_mesh((4,), ("fsdp",))
place = NamedSharding(mesh, PartitionSpec("fsdp"))
state = {"params": jax.device_put(jnp.arange(8.0), place)}
with checkpointing.Checkpoints(folder) as checkpoints:
  for step in (1, 2):
    checkpoints.save(step, state, {"step": step})
  checkpoints.wait()
  whole = checkpoints._read

  def read(step, target):
    if me == 1 and step == 2:
      raise OSError("a bad sector")
    return whole(step, target)

  checkpoints._read = read
  _, meta = checkpoints.restore_newest(state, lambda line: print(line))
  print("restored", meta["step"])
"""


@pytest.mark.long
def test_what_one_process_cannot_read_all_set_aside(tmp_path):
  with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"
  words = [sys.executable, "-c", ONE_CANNOT_READ, str(tmp_path / "c"), address]
  started = [
    subprocess.Popen(
      [*words, str(i)],
      env=small_run.environment() | {"PYTHONPATH": str(TESTS.parent)},
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for i in range(2)
  ]
  for output, reason in zip(
    end(started),
    ("another process cannot read it", "a bad sector"),
    strict=True,
  ):
    assert f"damaged ({reason})" in output
    assert "restored 1" in output
  assert (tmp_path / "checkpoints_damaged" / "2_0").is_dir()
