"""A workdir, a report or data in a bucket are those of a disk.

Orbax is not tried: it writes arrays through a driver of its own, which knows
real buckets only; in the run here checkpoints are on disk.
"""

import ast
import functools
import gzip
import io
import json
import pathlib
import sys
import types

import jax
import ml_collections
import numpy as np
import pytest
import rich.console
from etils import epath
from etils.epath import backend
from helpers import (
  fake_bucket,
  small_chat,
  small_gsm8k,
  small_jsonl,
  small_run,
  small_sql,
)
from tensorboard.backend.event_processing import event_accumulator

from experiments import evaluate, report, tasks
from experiments.data import json_lines, split_files, tfds
from experiments.evaluation import summary
from experiments.logging import json_files, run_logger
from experiments.studies import arms
from experiments.studies.claims import results
from experiments.tasks.text import gsm8k
from experiments.training import checkpointing, workdirs
from experiments.training_run import loop, validate
from models import hf, storage_paths, transformer
from models.config import ModelConfig
from models.hf.__main__ import main as convert

pytestmark = pytest.mark.several_devices

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ModelConfig(
  vocab_size=64,
  width=16,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp_width=32,
  max_positions=64,
  family="llama",
)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
  """The folder that stands for `gs://`; a path mangled to a local one shows."""
  result, here = fake_bucket.Bucket(), tmp_path_factory.mktemp("here")
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(backend.fsspec_backend, "fs", lambda path: result)
    patched.chdir(here)
    yield result
    assert not list(here.iterdir())


@pytest.fixture(scope="module")
def run(bucket, tmp_path_factory):
  """A run of two steps in a bucket, resumed and trained to four steps."""
  saved, workdir = tmp_path_factory.mktemp("kept"), "gs://bucket/runs/one"
  on_disk = functools.partial(checkpointing.Checkpoints, saved)
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(
      checkpointing, "Checkpoints", lambda directory, **how: on_disk(**how)
    )
    for steps in (2, 4):
      config = small_run.config(
        sinks=("tensorboard",), steps=steps, checkpoint_every=2
      )
      config.rollouts_every = 2
      config.mesh.data = 8
      loop.run(validate.check_and_build(config, workdir), workdir)
  assert report.main([workdir]) == 0
  return workdir


def test_a_run_lives_in_a_bucket(run, bucket):
  name = run.removeprefix("gs://")
  files = {key.removeprefix(f"{name}/") for key in bucket.objects}
  assert files >= {
    "config.json",
    "model.json",
    "method.txt",
    "advantages.json",
    "metrics.jsonl",
    "evaluation_base.json",
    "evaluation_base.npz",
    "evaluation.json",
    "evaluation.npz",
    report.PAGE_FILE,
    "rollouts/step_000000.jsonl",
    "rollouts/step_000002.jsonl",
  }
  assert not [key for key in files if key.endswith(".partial")]
  steps, losses = run_logger.read_metrics(run)["loss/total"]
  assert steps.tolist() == [1, 2, 3, 4]
  assert np.isfinite(losses).all()
  result = report.read(run)
  assert result.config["steps"] == 4
  assert result.evaluations["base"].step == 0
  assert result.evaluations["trained"].step == 4
  written = bucket.objects[f"{name}/{report.PAGE_FILE}"]
  assert written.lower().startswith(b"<!doctype html>")


def test_its_events_are_read_by_tensorboard(run, bucket, tmp_path):
  folder = bucket.copied_to(tmp_path) / run.removeprefix("gs://")
  events = event_accumulator.EventAccumulator(str(folder / "tensorboard"))
  events.Reload()
  result = [event.value for event in events.Scalars("loss/total")]
  _, losses = run_logger.read_metrics(run)["loss/total"]
  np.testing.assert_allclose(result, losses, rtol=1e-6)


def test_it_is_reported_beside_another(run, bucket, capsys):
  bucket.objects |= {
    key.replace("runs/one", "runs/two"): content
    for key, content in list(bucket.objects.items())
    if key.startswith("bucket/runs/one/evaluation")
  }
  out = "gs://bucket/runs/both.png"
  assert report.main([run, "gs://bucket/runs/two", "--out", out]) == 0
  assert out in capsys.readouterr().out
  assert bucket.objects["bucket/runs/both.png"].startswith(b"\x89PNG")
  assert f"bucket/runs/two/{report.PAGE_FILE}" in bucket.objects


def test_its_config_is_kept_there_and_another_refused(bucket):
  config = small_run.config()
  workdir = "gs://bucket/configs"
  workdirs.check_config(workdir, config)
  workdirs.write_config(workdir, config)
  workdirs.check_config(workdir, config)
  config.seed = 1
  with pytest.raises(ValueError, match="gs://bucket/configs was made with"):
    workdirs.check_config(workdir, config)


def _logger(workdir, **how):
  console = rich.console.Console(file=io.StringIO())
  return run_logger.Logger(workdir, 40, sinks=(), console=console, **how)


def test_metrics_are_whole_whenever_they_are_looked_at(bucket, monkeypatch):
  """Tests that event files are sent on request and not at every step."""
  now = [0.0]
  clock = types.SimpleNamespace(monotonic=lambda: now[0])
  monkeypatch.setattr(json_files, "time", clock)
  workdir, name = "gs://bucket/metrics", "bucket/metrics/metrics.jsonl"
  sent = len(bucket.uploads)

  def steps(content):
    return [json.loads(line)["step"] for line in content.splitlines()]

  with _logger(workdir) as logger:
    for step in range(8):
      logger.log(step, {"x": step})
      now[0] += json_files.SECONDS_BETWEEN_UPLOADS / 4
    assert steps(bucket.objects[name]) == [0, 1, 2, 3, 4]
    logger.flush()
    assert steps(bucket.objects[name]) == list(range(8))
    logger.flush()
    logger.log(8, {"x": 8})
  uploads = [content for key, content in bucket.uploads[sent:] if key == name]
  assert [len(steps(content)) for content in uploads] == [0, 5, 8, 9]
  with _logger(workdir, resume_step=5) as logger:
    assert steps(bucket.objects[name]) == list(range(6))
    logger.log(6, {"x": -6})
  result, values = run_logger.read_metrics(workdir)["x"]
  np.testing.assert_array_equal(result, range(7))
  np.testing.assert_array_equal(values, [0, 1, 2, 3, 4, 5, -6])


def test_files_are_the_same_bytes_on_disk_and_in_a_bucket(bucket, tmp_path):
  records = [{"prompt": "π = ", "advantages": np.array([0.5, np.nan])}]
  for workdir in ("gs://bucket/same", tmp_path):
    run_logger.write_rollouts(workdir, 7, records)
    json_files.replace(epath.Path(workdir) / "page.html", "π")
    json_files.replace(epath.Path(workdir) / "page.html", "π, again")
    with _logger(workdir) as logger:
      logger.log(1, {"x": 0.1})
  for name in ("rollouts/step_000007.jsonl", "page.html", "metrics.jsonl"):
    here, existing = tmp_path / name, bucket.objects[f"bucket/same/{name}"]
    assert here.read_bytes() == existing, name


def test_wandb_keeps_its_own_files_on_disk(bucket, monkeypatch):
  runs = []
  run = types.SimpleNamespace(
    define_metric=lambda *_, **__: None, finish=lambda: None
  )
  fake = types.SimpleNamespace(init=lambda **how: runs.append(how) or run)
  monkeypatch.setitem(sys.modules, "wandb", fake)
  for name in ("a", "b"):
    run_logger.Logger(f"gs://bucket/{name}", 1, sinks=("wandb",)).close()
  assert [one["dir"] for one in runs] == [None, None]
  assert runs[0]["id"] != runs[1]["id"]


def test_arms_and_their_table_are_kept_there(bucket):
  config = {"seed": 0, "policy": {"path": ""}, "model": {"lora_rank": 0}}
  arm = arms.Arm(ml_collections.ConfigDict(config))
  store = arms.Store(epath.Path("gs://bucket/claims"))
  assert store.missing(arm, [0, 1]) == [0, 1]
  saved = {arms.PARAMS + "a/b": np.arange(3.0), "tokens": np.asarray(2)}
  store._write(arm, 1, saved)
  assert store.missing(arm, [0, 1]) == [0]
  np.testing.assert_array_equal(store._params(arm, 1)["a"]["b"], [0, 1, 2])
  results.write([], epath.Path("gs://bucket/claims"))
  assert json.loads(bucket.objects["bucket/claims/claims.json"]) == {}


# Data of the user's.


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
  folder = tmp_path_factory.mktemp("bare")
  small_chat.write(folder, template="")
  return str(folder)


def test_own_problems_are_read_from_a_bucket(bucket, bare, tmp_path):
  local = small_jsonl.write(tmp_path)
  bucket.take(tmp_path, "bucket/mine")
  make = functools.partial(
    tasks.get, "jsonl", tokenizer=bare, prompt_length=40, completion_length=40
  )
  here, existing = (
    make(file=str(path)) for path in (local, "gs://bucket/mine/pears.jsonl")
  )
  assert here.name == existing.name
  assert here.notes == existing.notes
  jax.tree.map(np.testing.assert_array_equal, here.test(4), existing.test(4))
  with pytest.raises(
    ValueError, match=r"nearest name in this folder is 'pears\.jsonl'"
  ):
    make(file="gs://bucket/mine/pear.jsonl")


def test_prepared_data_and_databases_have_to_be_local(bucket, tmp_path):
  folder = bucket.take(small_gsm8k.write(tmp_path / "gsm8k"), "bucket/gsm8k")
  rows = tfds.read(
    split_files.find("gsm8k", folder), tmp_path / "prepared", gsm8k.FIELDS
  )
  assert len(rows["train"]) == small_gsm8k.TRAIN
  assert rows["test"][0][1][0] == small_gsm8k.row(small_gsm8k.TRAIN)["question"]
  with pytest.raises(ValueError, match="cache 'gs://bucket/cache' lies in a"):
    tasks.get("gsm8k", folder=folder, cache="gs://bucket/cache")
  folder = bucket.take(small_sql.write(tmp_path / "sql"), "bucket/sql")
  with pytest.raises(ValueError, match=r"line 2: the database .* in a bucket"):
    tasks.get("sql", folder=folder, cache=str(tmp_path))


def test_gzipped_lines_are_read_from_a_bucket(bucket):
  content = gzip.compress(b'{"a": 1}\n\n{"a": "\xcf\x80"}\n')
  bucket.objects["bucket/lines/Odd.jsonl.gz"] = content
  result = json_lines.read(split_files.find("odd", "gs://bucket/lines")["test"])
  assert [line for _, line in result] == [{"a": 1}, {"a": "π"}]


# Evaluations, and models.


@pytest.fixture(scope="module")
def model(bucket, tmp_path_factory):
  folder = tmp_path_factory.mktemp("models") / "model"
  hf.save(MODEL, transformer.init(MODEL, jax.random.key(0)), folder)
  return str(folder)


def test_an_evaluation_is_written_to_a_bucket(bucket, model, capsys):
  out = "gs://bucket/evaluations/model.json"
  words = ["--policy", model, "--task", "countdown(count=2)", "--out", out]
  words += ["--problems", "8", "--samples", "2", "--batch", "8"]
  assert evaluate.main(words) == 0
  assert f"wrote {out}" in capsys.readouterr().out
  result = summary.load(out)
  assert result.scores.shape == (8, 2)
  assert result.task.startswith("countdown")


def test_models_have_to_be_local_and_paths_stay_what_they_are(
  bucket, model, capsys
):
  def says(command, *words):
    assert command(words) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    return output

  folder = "gs://bucket/model"
  task = ("--task", "countdown(count=2)")
  refusal = f"model folder '{folder}' lies in a bucket"
  assert refusal in says(evaluate.main, "--policy", folder, *task)
  assert refusal in says(convert, "import", folder, "gs://bucket/imported")
  assert refusal in says(convert, "export", "gs://bucket/imported", folder)
  with pytest.raises(ValueError, match="lies in a bucket"):
    hf.save(MODEL, transformer.init(MODEL, jax.random.key(0)), folder)
  for output in (
    says(evaluate.main, "--workdir", "gs://bucket/none"),
    says(report.main, "gs://bucket/none"),
    says(convert, "export", "gs://bucket/none", "out"),
  ):
    assert "gs://bucket/none" in output
  assert not [name for name in bucket.objects if "model" in name.split("/")]


def test_a_path_is_absolute_where_it_is(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert str(storage_paths.absolute("gs://b/run")) == "gs://b/run"
  assert str(storage_paths.absolute("run")) == str(tmp_path / "run")
  assert storage_paths.is_remote(epath.Path("gs://b") / "run")
  with pytest.raises(
    ValueError, match="unknown scheme 'gcs'; did you mean 'gs'"
  ):
    storage_paths.absolute("gcs://b/run")
  assert not storage_paths.is_remote(tmp_path)


def test_a_missing_package_is_named_in_one_line(monkeypatch, capsys):
  backends = backend.fsspec_backend
  monkeypatch.setattr(
    backends, "fs", functools.partial(type(backends).fs, backends)
  )
  monkeypatch.setitem(sys.modules, "gcsfs", None)
  assert report.main(["gs://bucket/run"]) == 2
  output = capsys.readouterr().err
  assert output == "error: Please install gcsfs to access Google Storage\n"


# Modules and packages that reach files on this machine without `epath`, and
# which files these are.
LOCAL = {
  "aot": "a report of this machine's compiler",
  "catalogue/__main__.py": "pages of the checkout",
  "catalogue/alive.py": "the checkout",
  "catalogue/papers.py": "the checkout",
  "cli/arguments.py": "whether two paths are one file, through links",
  "cli/cache_folders.py": "compiled programs, models, measurements",
  "cli/cpu_devices.py": "a measurement in the cache, and device files",
  "cli/devices.py": "compiled programs in the cache",
  "data/pretrained.py": "a download, and the cache",
  "logging/json_files.py": "a rename, which replaces a local file at once",
  "logging/provenance.py": "the checkout",
  "run.py": "the checkout",
  "studies/benchmark": "folders and programs of the two sides",
  "studies/faults": "runs, to be broken",
  "studies/judge_cures": "results in the checkout",
  "studies/objectives.py": "a picture in the checkout",
  "studies/process_rewards": "results in the checkout",
  "studies/real_model": "results in the checkout",
  "studies/seed_results.py": "results of studies, which lie in the checkout",
  "studies/units.py": "results of studies, which lie in the checkout",
  "sweep.py": "logs of the processes that it starts",
  "tasks/text/prompting.py": "the cache of a tokenizer, saved by a rename",
  "training/policy_judge.py": "when a model folder was last changed",
  "training/workdir_lock.py": "a lock of the kernel, which buckets lack",
  "training_run/command_line.py": "config files, which are imported",
}


def _reaches_files(tree):
  """Returns whether a module opens files by anything but `epath`."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      names = {node.module}
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
      names = {node.func.id} & {"open"}
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
      names = {f"{node.value.id}.{node.attr}"}
    else:
      continue
    if names & {"pathlib", "shutil", "glob", "open", "os.path"}:
      return True
  return False


def test_experiments_reach_files_through_epath():
  folder = ROOT / "experiments"
  local = set()
  for path in sorted(folder.rglob("*.py")):
    if _reaches_files(ast.parse(path.read_text())):
      name = path.relative_to(folder)
      names = {str(part) for part in (name, *name.parents)}
      local.add(next(iter(names & set(LOCAL)), str(name)))
  assert local == set(LOCAL)
