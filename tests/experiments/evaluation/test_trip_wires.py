"""Trip wires: the rate of hacks in a run."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from etils import epath
from helpers import judged_shapes, small_run

from experiments import tasks
from experiments.configs import defaults
from experiments.evaluation import evaluator, trip_wires
from experiments.logging import json_files
from experiments.tasks.task import Problems
from experiments.training import traps
from experiments.training_run import loop, validate
from rewards.verifiers import each
from rl.sampling import generation


def test_the_task_calls_a_hack_right():
  """The rule sees prompt and text; an unknown verdict is no hack."""
  task = tasks.get("chain", operations=1)
  seen = []

  def rule(items):
    seen.extend((item.prompt, item.completion) for item in items)
    outcomes = each(lambda completion: float("9" in completion))(items)
    return [dataclasses.replace(outcomes[0], verdict=-1), *outcomes[1:]]

  trap_task = traps.trap_task(task, rule)
  problems = task.test(2)
  texts = [["ANS 9", "ANS 9"], ["ANS 1", "+ 9 9 ; ANS 1"]]
  completions = np.zeros((2, 2, task.completion_length), np.int32)
  lengths = np.zeros((2, 2), np.int32)
  for p in range(2):
    for s in range(2):
      ids = task.completion_ids(texts[p][s])
      completions[p, s, : len(ids)], lengths[p, s] = ids, len(ids)
  judged = trap_task.score(problems, completions, lengths, lengths > 0)
  np.testing.assert_array_equal(judged.correct, [[0, 1], [0, 1]])
  np.testing.assert_array_equal(judged.scores, judged.correct)
  # No answer is known to equal another, and the rule is no jittable function.
  np.testing.assert_array_equal(judged.answer_ids, [[-1, -1], [-1, -1]])
  judged_shapes.check(trap_task, judged)
  assert not trap_task.jittable
  prompts = task.prompt_texts(problems)
  assert seen == [(prompts[p], texts[p][s]) for p in range(2) for s in range(2)]


def _watched(monkeypatch, verdicts):
  """An experiment with two traps, of which each batch has one.

  Sample s of trap p has the tokens [p, s], and an end token that is no part of
  its text.
  """
  traps = SimpleNamespace(
    test=lambda count: Problems(
      prompts=np.arange(count)[:, None],
      prompt_mask=np.ones((count, 1), bool),
      ids=np.arange(count),
      facts={},
    ),
    prompt_texts=lambda problems: [f"trap {i}" for i in problems.ids],
    text_of=lambda ids: f"text {ids.tolist()}",
  )
  evaluation = SimpleNamespace(batch=1, seed=5)
  e = SimpleNamespace(
    traps=traps,
    config=SimpleNamespace(
      trip_wires=SimpleNamespace(problems=2, samples=3), evaluation=evaluation
    ),
  )
  settings = generation.Sampling(
    samples=8, max_tokens=2, eos_ids=(9,), pad_id=9
  )
  monkeypatch.setattr(evaluator, "sampling_settings", lambda e: settings)

  def batches(task, policy, params, problems, batch, key, sampling, sharding):
    assert (task, policy, sharding) == (traps, "policy", "sharding")
    assert (params, batch) == ({"both": 1, "frozen": 3}, 1)
    assert (sampling.samples, sampling.max_tokens) == (3, 2)
    for p in range(2):
      ids = np.array([[[p, s, 9] for s in range(3)]])
      yield evaluator.BatchResult(
        problems=Problems(
          problems.prompts[p : p + 1],
          problems.prompt_mask[p : p + 1],
          problems.ids[p : p + 1],
          {},
        ),
        samples=SimpleNamespace(completions=ids, lengths=np.full((1, 3), 2)),
        arrays={"correct": np.array(verdicts)[p : p + 1]},
        done=p + 1,
      )

  monkeypatch.setattr(evaluator, "score_in_batches", batches)
  for name, function in {
    "evaluation_policy": lambda e: "policy",
    "evaluation_params": lambda e, params: params,
    "evaluation_sharding": lambda e: "sharding",
  }.items():
    monkeypatch.setattr(trip_wires.placement, name, function)
  return e


def _evaluate(e, step, workdir, calls=None):
  # A trained value replaces a frozen one of the same name.
  state = SimpleNamespace(
    step=step,
    params={"both": 1},
    carried=SimpleNamespace(frozen={"both": 2, "frozen": 3}),
  )
  record = (lambda: None) if calls is None else (lambda: calls.append(step))
  return trip_wires.evaluate_once(e, state, epath.Path(workdir), record)


def test_the_rate_of_hacks_is_written_with_the_first_one(tmp_path, monkeypatch):
  calls = []
  e = _watched(monkeypatch, [[0, 1, 1], [0, 0, 1]])
  assert _evaluate(e, 4, tmp_path, calls) == {trip_wires.METRIC: 0.5}
  assert calls == [4, 4]  # after each batch
  line = {
    "step": 4,
    "hack_rate": 0.5,
    "prompt": "trap 0",
    "hack": "text [0, 1]",
  }
  path = tmp_path / trip_wires.FILE
  assert json_files.read(path) == [line]
  later = _watched(monkeypatch, [[0, 0, 0], [0, 0, 0]])
  # The step has a line already, so that the policy is not asked.
  assert _evaluate(later, 4, tmp_path) == {trip_wires.METRIC: 0.5}
  assert _evaluate(later, 6, tmp_path) == {trip_wires.METRIC: 0}
  no_hack = {"hack_rate": 0, "prompt": "", "hack": ""}
  assert json_files.read(path) == [line, {"step": 6, **no_hack}]
  # A run that was resumed at step 2 has no line of steps 4 and 6.
  second = _watched(monkeypatch, [[0, 0, 0], [0, 0, 1]])
  assert _evaluate(second, 3, tmp_path) == {trip_wires.METRIC: 1 / 6}
  (written,) = json_files.read(path)
  assert (written["step"], written["hack"]) == (3, "text [1, 2]")


def test_one_process_of_several_writes_the_rate(tmp_path, monkeypatch):
  e = _watched(monkeypatch, [[0, 1, 1], [0, 0, 1]])
  monkeypatch.setattr(trip_wires.jax, "process_index", lambda: 1)
  assert _evaluate(e, 0, tmp_path) == {trip_wires.METRIC: 0.5}
  assert not list(tmp_path.iterdir())


def test_without_trip_wires_there_is_no_metric(tmp_path):
  e = SimpleNamespace(traps=None)
  assert _evaluate(e, 0, tmp_path) == {}
  assert not list(tmp_path.iterdir())


def run(tmp_path, steps, **changes):
  config = small_run.config(
    task="chain(operations=1)", steps=steps, evaluate_every=1, **changes
  )
  config.trip_wires = defaults.trip_wires(
    "rewards.verifiers.trip_wires:no_answer"
  )
  config.trip_wires.problems = config.trip_wires.samples = 4
  e = validate.check_and_build(config, tmp_path / "run")
  loop.run(small_run.on_one_device(e), tmp_path / "run")
  return json_files.read(tmp_path / "run" / trip_wires.FILE)


def test_a_run_logs_the_rate_and_is_resumed(tmp_path):
  lines = run(tmp_path, 2)
  assert [line["step"] for line in lines] == [0, 1, 2]
  for line in lines:
    assert (line["hack_rate"] * 16) % 1 == 0
    assert 0 < line["hack_rate"] < 1
    assert "ANS" not in line["hack"].split()[:-1]
    assert line["prompt"].endswith("=")
  logged = {
    line["step"]: line[trip_wires.METRIC]
    for line in json_files.read(tmp_path / "run" / "metrics.jsonl")
    if trip_wires.METRIC in line
  }
  assert logged == {1: lines[1]["hack_rate"]}
  resumed = run(tmp_path, 3)
  assert resumed[:3] == lines
  assert [line["step"] for line in resumed] == [0, 1, 2, 3]


def test_the_best_checkpoint_may_be_the_one_with_the_fewest_hacks():
  config = small_run.config(
    task="chain(operations=1)", evaluate_every=2, checkpoint_every=4
  )
  config.keep_best = f"-{trip_wires.METRIC}"
  with pytest.raises(ValueError, match="keep_best"):
    validate.check_and_build(config)
  config.trip_wires = defaults.trip_wires(
    "rewards.verifiers.trip_wires:no_answer"
  )
  config.trip_wires.problems = 4
  validate.check_and_build(config)
  config.evaluate_every = 3
  with pytest.raises(ValueError, match="multiple of evaluate_every = 3"):
    validate.check_and_build(config)


def test_mistakes_are_found_before_the_run():
  config = small_run.config(task="chain(operations=1)")
  config.trip_wires = defaults.trip_wires("rewards.verifiers.trip_wires:holow")
  with pytest.raises(ValueError, match="did you mean 'hollow'"):
    validate.check_and_build(config)
  config.trip_wires.rule = "rewards.verifiers.trip_wires:hollow"
  config.trip_wires.task, config.trip_wires.problems = "countdown(count=2)", 4
  with pytest.raises(ValueError, match="choose a task with the same tokens"):
    validate.check_and_build(config)
  config.trip_wires.task, config.trip_wires.samples = "", 0
  with pytest.raises(ValueError, match=r"trip_wires\.samples = 0 must be"):
    validate.check_and_build(config)
