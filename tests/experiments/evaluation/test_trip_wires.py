"""Trip wires: the rate of hacks in a run."""

import dataclasses

import numpy as np
import pytest
from helpers import small_run

from experiments import tasks
from experiments.configs import defaults
from experiments.evaluation import trip_wires
from experiments.logging import json_files
from experiments.training import loop, traps, validate
from rewards.verifiers import each


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
  assert not trap_task.jittable
  prompts = task.prompt_texts(problems)
  assert seen == [(prompts[p], texts[p][s]) for p in range(2) for s in range(2)]


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
