"""Whole runs: resumed, killed, fused, on a host, from a base, read back."""

import collections
import dataclasses
import json
import logging
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import types as python

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_gsm8k, small_run

from experiments import evaluate, tasks
from experiments.configs import defaults
from experiments.evaluation import summary
from experiments.logging import json_files, profiler, progress, provenance
from experiments.report import command as report
from experiments.training import (
  build,
  cadence,
  checkpointing,
  initial_state,
  iteration,
  nan_guard,
  placement,
  workdirs,
)
from experiments.training.experiment import Experiment
from experiments.training_run import loop, validate
from models import checkpoint_reader

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS = 40
TASK = tasks.get("countdown", count=2)
# DESIGN section 8, as far as a run on a jittable task has them.
METRICS = {
  "reward/mean",
  "reward/std",
  "score/legal/mean",
  "accuracy/pass@1",
  f"accuracy/pass@{small_run.SAMPLES}",
  "group/zero_variance_frac",
  "group/solve_count_hist",
  "policy/entropy",
  "policy/sampler_log_prob_diff_mean",
  "policy/sampler_log_prob_diff_max",
  "length/mean",
  "length/max",
  "length/truncated_frac",
  "cost/sampled_tokens",
  "advantage/mean",
  "advantage/std",
  "advantage/abs_mean",
  "loss/total",
  "optim/grad_norm",
  "optim/lr",
  "optim/skipped",
  "guard/bad_prompt",
  "guard/bad_sample",
  "time/step_s",
  "perf/padding_frac/sampling",
  "perf/padding_frac/updating",
  "perf/tokens_per_s",
}
# In the line of the step after a save, an evaluation or a sample dump.
BETWEEN_STEPS = {"time/checkpoint_s", "time/evaluation_s", "time/samples_s"}
# How long things took is no result.
CLOCKS = ("time/", "perf/")


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
  """The workdir of 40 steps of a method with state, never interrupted."""
  workdir = tmp_path_factory.mktemp("runs") / "of today" / "straight"
  e = small_run.experiment(method="reinforce", steps=STEPS, rollouts_every=20)
  loop.run(e, workdir)
  return workdir


def final_state(e: Experiment, workdir: pathlib.Path):
  with checkpointing.Checkpoints(
    workdir / checkpoint_reader.FOLDER
  ) as checkpoints:
    state, _ = checkpoints.restore(placement.abstract_state(e))
  return jax.device_get(
    state.with_carried(key=jax.random.key_data(state.carried.key))
  )


def metrics(workdir: pathlib.Path) -> list[dict]:
  """The lines of `metrics.jsonl` without the clocks."""
  return [
    {k: v for k, v in line.items() if not k.startswith(CLOCKS)}
    for line in json_files.read(workdir / "metrics.jsonl")
  ]


@pytest.mark.long
def test_resuming_after_20_steps_is_bit_identical(straight, tmp_path):
  loop.run(small_run.experiment(method="reinforce", steps=20), tmp_path)
  assert [line["step"] for line in metrics(tmp_path)] == list(range(1, 21))
  e = small_run.experiment(method="reinforce", steps=STEPS)
  loop.run(e, tmp_path, profile=True)  # it changes nothing
  assert len(list((tmp_path / "profile").rglob("*.xplane.pb"))) == 1
  result, expected = final_state(e, tmp_path), final_state(e, straight)
  assert result.step == STEPS
  jax.tree.map(np.testing.assert_array_equal, result, expected)
  assert metrics(tmp_path) == metrics(straight)
  assert [line["step"] for line in metrics(tmp_path)] == list(range(1, 41))
  # Neither the policy nor the method's state stood still.
  begin = jax.device_get(placement.init_state(e))
  moved = jax.tree.map(
    lambda a, b: float(np.abs(a - b).max()),
    (result.params, result.policy.method_state),
    (begin.params, begin.policy.method_state),
  )
  assert min(jax.tree.leaves(moved)) > 0.0


def test_resuming_tells_code_that_has_changed(straight, tmp_path, capsys):
  workdir = shutil.copytree(straight, tmp_path / "run")
  file = workdir / provenance.CODE_FILE
  code = json.loads(file.read_text())
  code |= {loop.__file__: "other", "/deleted/my_method.py": "old"}
  json_files.replace_object(file, code)
  loop.run(small_run.experiment(method="reinforce", steps=STEPS + 1), workdir)
  text = capsys.readouterr().out
  assert f"changed since step {STEPS}: {loop.__file__}\n" in text
  assert "my_method" not in text
  assert loop.__file__ in json.loads(file.read_text())
  assert provenance.changed_files(workdir) == []


@pytest.mark.long
@pytest.mark.several_devices
def test_a_run_goes_on_on_another_mesh(tmp_path):
  """Up to rounding, as if it had stayed on the first."""

  def visited(workdir, steps, **mesh):
    e = small_run.experiment(method="reinforce", steps=steps, **mesh)
    loop.run(e, workdir)
    return final_state(e, workdir)

  first = {"mesh__data": 2, "mesh__fsdp": 4}
  visited(tmp_path / "moved", 4, **first)
  result = visited(tmp_path / "moved", 8, mesh__data=4, mesh__context=2)
  expected = visited(tmp_path / "stayed", 8, **first)
  assert result.step == expected.step == 8
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), result, expected
  )


def test_a_finished_run_changes_nothing(straight):
  def contents():
    return {
      path: path.read_bytes()
      for path in straight.rglob("*")
      if path.is_file() and path.suffix != ".png"
    }

  before = contents()
  loop.run(
    small_run.experiment(method="reinforce", steps=STEPS, rollouts_every=20),
    straight,
  )
  assert contents() == before


@pytest.mark.long
def test_fused_steps_are_the_staged_steps(straight, tmp_path):
  """Up to rounding: one program need not sum in the order of two."""
  e = small_run.experiment(
    method="reinforce", steps=STEPS, steps_per_dispatch=5
  )
  loop.run(e, tmp_path)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6),
    final_state(e, tmp_path).params,
    final_state(e, straight).params,
  )
  for fused, staged in zip(metrics(tmp_path), metrics(straight), strict=True):
    assert fused.keys() == staged.keys()
    for name, value in fused.items():
      np.testing.assert_allclose(
        value, staged[name], rtol=1e-5, atol=1e-6, err_msg=name
      )


def test_metrics_have_the_documented_names(straight):
  """And no trace is written that nobody has asked for."""
  assert not (straight / profiler.FOLDER).exists()
  for line in json_files.read(straight / "metrics.jsonl"):
    assert line.keys() >= METRICS
    undocumented = line.keys() - METRICS - BETWEEN_STEPS - {"step"}
    assert all(name.startswith("loss/") for name in undocumented)
    # The only save is after the last step, of which no further line tells.
    assert "time/checkpoint_s" not in line
    assert ("time/samples_s" in line) == (line["step"] in (1, 21))


def test_a_heartbeat_waits_for_what_is_done_soon():
  """The first dispatch compiles, and the second one waits for the first."""
  config = python.SimpleNamespace(steps=99, steps_per_dispatch=4)
  e = python.SimpleNamespace(config=config)
  soon, late = progress.FIRST_SECONDS, progress.MAX_SECONDS
  for done, expected in (
    (8, ("step 9 of 99: compiling and running", soon)),
    (12, ("step 13 of 99: running", soon)),
    (16, ("step 17 of 99: running", late)),
  ):
    assert loop._describe_work(e, done, 8) == expected


def test_work_is_due_at_multiples():
  assert [n for n in range(7) if cadence.is_due(n, 3)] == [0, 3, 6]
  assert not any(cadence.is_due(n, 0) for n in range(7))


def test_the_rollout_written_is_the_one_learned_from(straight):
  for step in (0, 20):
    result = json_files.read(straight / "rollouts" / f"step_{step:06d}.jsonl")
    assert len(result) == small_run.PROMPTS * small_run.SAMPLES
    groups = collections.Counter(
      (record["prompt_id"], record["prompt"]) for record in result
    )
    assert all(count % small_run.SAMPLES == 0 for count in groups.values())
    logged = metrics(straight)[step]
    assert logged["step"] == step + 1
    scores = [record["score"] for record in result]
    assert np.mean(scores) == pytest.approx(logged["reward/mean"], abs=1e-6)
    tokens = sum(len(record["tokens"]) for record in result)
    assert tokens / len(result) == pytest.approx(logged["length/mean"])
    baselines = []
    for record in result:
      assert record["completion"] == TASK.decode(record["tokens"])
      assert len(record["advantages"]) == len(record["tokens"])
      baselines += [record["score"] - a for a in record["advantages"]]
    # REINFORCE subtracts one running mean from all.
    assert np.ptp(baselines) < 1e-6


def test_another_run_can_be_the_start(straight, tmp_path):
  """Its base is evaluated on the same draws as the policy that it was."""
  e = small_run.experiment(method="reinforce", steps=1, init_from=str(straight))
  loop.run(e, tmp_path)
  existing = summary.load(straight / "evaluation.json")
  here = summary.load(tmp_path / "evaluation_base.json")
  assert (existing.step, here.step) == (STEPS, 0)
  for name in ("ids", "scores", "lengths", "answer_ids"):
    np.testing.assert_array_equal(getattr(here, name), getattr(existing, name))


class Compilations(logging.Handler):
  """Counts what `jax.log_compiles` reports, by the program's name."""

  def __init__(self):
    super().__init__()
    self.count = collections.Counter()

  def emit(self, record):
    words = record.getMessage().split()
    if words[0] == "Compiling":
      self.count[words[1]] += 1


@pytest.mark.long
@pytest.mark.several_devices
def test_ten_steps_on_a_2x2x2_mesh_compile_each_program_once():
  mesh = {"mesh__data": 2, "mesh__fsdp": 2, "mesh__tensor": 2}
  mesh["model__vocab_size"] = 26  # the task's 25 rows do not split in two
  e = build.build(small_run.config(method="reinforce", **mesh))
  state = placement.init_state(e)
  advance = iteration.make_dispatch(e, iteration.compile_rollout_fn(e))
  observed = Compilations()
  logger = logging.getLogger("jax")
  logger.addHandler(observed)
  try:
    with jax.log_compiles():
      for _ in range(10):
        state, _, *_ = advance(state)
  finally:
    logger.removeHandler(observed)
  assert int(state.step) == 10
  assert observed.count["jit(train_step)"] == 1
  assert observed.count["jit(rollout_fn)"] == 1


def command(workdir, config_file) -> subprocess.Popen:
  args = ("--config", str(config_file), "--workdir", str(workdir))
  return subprocess.Popen(
    [sys.executable, "-m", "experiments.run", *args],
    cwd=ROOT,
    env=small_run.environment(),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_was(tmp_path):
  config_file = tmp_path / "config.py"
  config_file.write_text(
    f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\n"
    "from helpers import small_run\n\n\ndef get_config():\n"
    f'  return small_run.config("supervised", steps={STEPS}, '
    "checkpoint_every=1)\n"
  )
  workdir = tmp_path / "killed"
  process = command(workdir, config_file)
  saved = workdir / checkpoint_reader.FOLDER / "2"
  while not saved.exists() and process.poll() is None:
    time.sleep(0.002)
  process.kill()
  out, _ = process.communicate()
  assert process.returncode == -signal.SIGKILL, out
  again = command(workdir, config_file)
  out, _ = again.communicate(timeout=120)
  assert again.returncode == 0, out
  assert "resumed after step" in out
  assert [line["step"] for line in metrics(workdir)] == list(
    range(1, STEPS + 1)
  )
  e = small_run.experiment("supervised", steps=STEPS)
  loop.run(e, tmp_path / "whole")
  result, expected = (
    final_state(e, workdir),
    final_state(e, tmp_path / "whole"),
  )
  jax.tree.map(np.testing.assert_array_equal, result, expected)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  """A base and an RL run on word problems, whose answers the host checks."""
  folder = tmp_path_factory.mktemp("text")
  shape = "vocab_size=300, prompt_length=64, completion_length=24"
  changes = {
    "task": f"gsm8k({shape})",
    "data__folder": str(small_gsm8k.write(folder / "data")),
    "data__cache": str(folder / "cache"),
    "evaluation__problems": small_gsm8k.TEST,
  }
  learning = {"optimizer__warmup_steps": 0, "optimizer__learning_rate": 1e-2}
  base = small_run.config("supervised", steps=8, **learning, **changes)
  config = defaults.with_base(small_run.config(steps=2, **changes), base)
  config.method = "max_at_k(k=2)"
  loop.run(small_run.on_one_device(build.build(config)), folder / "run")
  return folder / "run"


@pytest.mark.long
def test_text_scored_on_the_host_runs_end_to_end(text):
  losses = [
    line["loss/total"] for line in metrics(text / initial_state.BASE_FOLDER)
  ]
  assert len(losses) == 8
  assert losses[-1] < losses[0]
  for line in json_files.read(text / "metrics.jsonl"):
    assert line.keys() >= {
      "time/rollout_s",
      "time/score_s",
      "time/step_s",
      "score/answered/mean",
      "policy/ratio_mean",
      "policy/ratio_max",
      "policy/clip_frac_low",
      "policy/clip_frac_high",
    }
  for name in ("evaluation_base.json", "evaluation.json"):
    result = summary.load(text / name)
    assert result.scores.shape == (small_gsm8k.TEST, 2)
    assert set(np.unique(result.scores)) <= {0.0, 1.0}
  assert "max_at_k(k=2)" in (text / "method.txt").read_text()
  advantages = json.loads((text / "advantages.json").read_text())
  assert len(advantages["right"]) == small_run.SAMPLES + 1


@pytest.mark.several_devices
def test_the_command_evaluates_any_checkpoint(text, tmp_path, capsys):
  """The base on eight devices draws what it drew on one, as the run began."""
  out = tmp_path / "evaluation.json"
  code = evaluate.main(
    [f"--workdir={text / initial_state.BASE_FOLDER}", f"--out={out}"]
  )
  assert code == 0
  shown = capsys.readouterr().out
  assert "step 8" in shown
  assert "pass@2" in shown
  result, base = (
    summary.load(out),
    summary.load(text / "evaluation_base.json"),
  )
  assert result.step == 8
  np.testing.assert_array_equal(result.scores, base.scores)
  np.testing.assert_array_equal(result.lengths, base.lengths)


@pytest.mark.several_devices
def test_a_run_from_before_a_key_existed_goes_on_and_is_read(
  text, tmp_path, capsys
):
  workdir = tmp_path / "run"
  shutil.copytree(text, workdir)
  config = workdirs.read_config(workdir)
  path = workdir / workdirs.CONFIG_FILE
  saved = json.loads(path.read_text())
  del saved["stop_after_skips"], saved["verifier"]
  del saved["evaluation"]["rows"], saved["base"]["evaluation"]["seed"]
  path.write_text(json.dumps(saved))
  config.evaluation.samples = 3
  with pytest.raises(ValueError, match=r"samples is 2 there, 3 here\. Use an"):
    validate.check_and_build(config, workdir)
  config.evaluation.samples = 2
  assert evaluate.main([f"--workdir={workdir}", "--problems=2"]) == 0
  assert report.main([str(workdir)]) == 0
  assert "pass@2" in capsys.readouterr().out
  config.steps = 3
  loop.run(
    small_run.on_one_device(validate.check_and_build(config, workdir)), workdir
  )
  assert [line["step"] for line in metrics(workdir)] == [1, 2, 3]


@pytest.mark.parametrize(
  ("args", "expected"),
  [
    (["--workdir=/no/such/run"], "/no/such/run holds no run"),
    (["--step=3"], "no checkpoint of step 3"),
    (["--samples=0"], "--samples 0 must be at least 1"),
    (["--problems=8"], "n=8 test problems, but gsm8k has 7"),
    (["--out=table.txt"], "for example table.json"),
  ],
)
def test_a_mistaken_evaluation_is_one_line(text, capsys, args, expected):
  assert evaluate.main([f"--workdir={text}", *args]) == 2
  out, err = capsys.readouterr()
  assert expected in err
  assert err.count("\n") == 1
  assert out in ("", f"loading {text} ...\n", "loading /no/such/run ...\n")


@pytest.mark.long
@pytest.mark.parametrize(
  ("task", "method"),
  [
    ("chain(operations=1)", "min_form(verifiable=1.0)"),
    ("chain(operations=1)", "sum_form"),
    ("closeness(count=2)", "max_at_k(k=2)"),
  ],
)
def test_every_kind_of_credit_trains(task, method):
  changes = {"rollout__max_tokens": 6} if "chain" in task else {}
  e = small_run.on_one_device(
    validate.check_and_build(
      small_run.config(task=task, method=method, **changes)
    )
  )
  state = placement.init_state(e)
  advance = iteration.make_dispatch(e, iteration.compile_rollout_fn(e))
  for _ in range(2):
    state, result, *_ = advance(state)
  result = jax.device_get(result)
  assert int(state.step) == 2
  assert result["optim/skipped"] == 0
  assert all(np.isfinite(value).all() for value in result.values())
  if "chain" in task:
    assert result["length/steps_mean"] > 0
    assert result["advantage/abs_mean"] > 0
    assert result["optim/grad_norm"] > 0


def test_a_score_that_is_not_finite_stops_the_run_and_names_its_sample(
  tmp_path,
):
  """The device skips the update; the host raises when it reads of it."""
  e = small_run.experiment(steps=3)

  def score(problems, completions, lengths, finished):
    judged = e.task.score(problems, completions, lengths, finished)
    if (
      completions.shape[1] != small_run.SAMPLES
    ):  # the evaluation is left alone
      return judged
    scores = jnp.asarray(judged.scores).at[3, 1].set(np.nan)
    return judged.replace(scores=scores)

  spoilt = dataclasses.replace(e, task=dataclasses.replace(e.task, score=score))
  with pytest.raises(
    nan_guard.Stopped, match=r"step 1: .* sample 1 of the prompt"
  ):
    loop.run(spoilt, tmp_path)
  assert [line["optim/skipped"] for line in metrics(tmp_path)] == [1.0]
