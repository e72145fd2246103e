"""The reference of preferences, computed once, is that of frozen parameters."""

import contextlib
import dataclasses
import json

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.cli import errors
from experiments.logging import json_files
from experiments.training import (
  build,
  iteration,
  placement,
  reference_policy,
  workdirs,
)
from experiments.training_run import loop, validate
from models import checkpoint_reader
from rl import learners, methods, scoring

METHOD = "dpo(beta=2.0,length_normalized=True,label_smoothing=0.1)"
NEED = scoring.Need("ref", scoring.log_probs)
LINES = 20  # 2.5 batches


def write_pairs(folder):
  """Pairs of completions of 3 and 4 tokens, EOS included."""
  path = folder / "pairs.jsonl"
  lines = [
    {
      "prompt": f"{1 + i % 9} {1 + i // 9} = d0 d{i % 10}",
      "chosen": f"{1 + i % 9} + {1 + i // 9}",
      "rejected": f"{1 + i // 9} *",
    }
    for i in range(LINES)
  ]
  path.write_text("".join(json.dumps(line) + "\n" for line in lines))
  return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
  return write_pairs(tmp_path_factory.mktemp("pairs"))


def config(pairs, **changes):
  return small_run.config(
    "preferences",
    method=METHOD,
    preferences=str(pairs),
    optimizer__warmup_steps=0,
    **changes,
  )


def test_it_equals_a_frozen_parameter_set(pairs, tmp_path):
  """Losses and parameters after each of four steps, more than an epoch."""
  e = small_run.on_one_device(build.build(config(pairs, steps=4)))
  name, hyper = "dpo", {"beta": 2.0, "length_normalized": True}
  with_set = methods.get(name, **hyper, label_smoothing=0.1)
  frozen = dataclasses.replace(e, methods=learners.by_learner(with_set))
  state, frozen_state = placement.init_state(e), placement.init_state(frozen)
  assert not state.parameter_sets
  assert list(frozen_state.parameter_sets) == ["ref"]
  extras = reference_policy.log_probs(e, tmp_path, state)
  assert extras[str(NEED)].shape == (LINES, 2, e.task.completion_length)
  rollout_fn = iteration.compile_rollout_fn(e, extras)
  advance = iteration.make_dispatch(e, rollout_fn)
  advance_frozen = iteration.make_dispatch(
    frozen, iteration.compile_rollout_fn(frozen)
  )
  losses = []
  for _ in range(4):
    rollout = rollout_fn(state)
    assert str(NEED) in rollout.extras
    state, metrics, *_ = advance(state)
    frozen_state, frozen_metrics, *_ = advance_frozen(frozen_state)
    losses.append(float(metrics["loss/total"]))
    for key in ("loss/total", "pairs/reward_margin", "optim/grad_norm"):
      np.testing.assert_allclose(
        metrics[key], frozen_metrics[key], rtol=1e-4, atol=1e-6, err_msg=key
      )
  np.testing.assert_allclose(losses[0], np.log(2), rtol=1e-5)
  assert losses[-1] < losses[0] - 0.01
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
    state.params,
    frozen_state.params,
  )


def test_a_resumed_run_reads_what_it_wrote(pairs, tmp_path, monkeypatch):
  e = small_run.on_one_device(build.build(config(pairs)))
  state = placement.init_state(e)
  finished = []

  @contextlib.contextmanager
  def lines(print_line, *args, **more):
    assert print_line is print
    yield finished.append

  monkeypatch.setattr(reference_policy.progress, "lines", lines)
  extras = reference_policy.log_probs(e, tmp_path, state)
  assert finished == [8, 16, LINES]
  # Padding is 0 and nothing else is.
  is_token = np.arange(e.task.completion_length) < e.texts.lengths[..., None]
  np.testing.assert_array_equal(extras[str(NEED)] < 0, is_token)
  np.testing.assert_array_equal(extras[str(NEED)] == 0, ~is_token)
  doubled = jax.tree.map(lambda p: 2 * p, state.params)
  later = state.with_policy(params=doubled).replace(step=state.step + 1)
  again = reference_policy.log_probs(e, tmp_path, later)
  np.testing.assert_array_equal(extras[str(NEED)], again[str(NEED)])

  other = tmp_path / "other.jsonl"
  other.write_text(pairs.read_text().replace("3 +", "4 +"))
  changed = small_run.on_one_device(build.build(config(other)))
  with pytest.raises(errors.RunError, match=r"other.jsonl has changed since"):
    reference_policy.log_probs(changed, tmp_path, later)
  with pytest.raises(errors.RunError, match=r"npz is missing, without which"):
    reference_policy.log_probs(e, tmp_path / "new", later)


def test_runs_of_other_kinds_have_none(tmp_path):
  e = small_run.experiment(method="dpo()")
  assert dict(e.method.parameter_sets)  # the frozen policy
  assert reference_policy.log_probs(e, tmp_path, None) == {}
  assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_run_is_evaluated_and_resumes_exactly(pairs, tmp_path):
  changes = {"checkpoint_every": 2, "rollouts_every": 2}

  def run(workdir, steps):
    e = validate.check_and_build(config(pairs, steps=6, **changes), workdir)
    short = e.config.copy_and_resolve_references()
    short.steps = steps
    loop.run(dataclasses.replace(e, config=short), workdir)

  for steps in (6,):
    run(tmp_path / "straight", steps)
  for steps in (4, 6):
    run(tmp_path / "resumed", steps)
  read = checkpoint_reader.restore_params
  e = build.build(config(pairs))
  straight, resumed = (
    read(
      tmp_path / name / checkpoint_reader.FOLDER,
      placement.abstract_state(e).params,
      6,
    )
    for name in ("straight", "resumed")
  )
  jax.tree.map(np.testing.assert_array_equal, straight, resumed)
  for name in ("straight", "resumed"):
    for file in (workdirs.BASE_EVALUATION_FILE, workdirs.EVALUATION_FILE):
      assert (tmp_path / name / file).exists()
    lines = json_files.read(tmp_path / name / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert {"pairs/accuracy", "pairs/reward_margin"} <= lines[0].keys()
    assert "reward/mean" not in lines[0]
    records = json_files.read(tmp_path / name / "rollouts/step_000002.jsonl")
    assert [record["score"] for record in records[:4]] == [1, 0, 1, 0]
