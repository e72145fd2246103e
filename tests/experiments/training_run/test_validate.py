"""Refusals of `validate` before a run starts, and their messages."""

import dataclasses
import json
import math
import re
import types

import jax.numpy as jnp
import ml_collections
import pytest
from helpers import small_run

from experiments.configs import defaults
from experiments.evaluation import evaluator, trip_wires
from experiments.training_run import validate
from rl import UsageError
from rl.reward import Reward

PASS_AT_2 = "evaluation/accuracy/pass@2"


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"rollout__temperature": 0.0}, "rollout.temperature = 0.0"),
    ({"method": "rloo", "plan__epochs": 2}, "strictly on-policy"),
    ({"plan__max_mean_ratio": -1.0}, "max_mean_ratio = -1.0 must be above 1"),
    ({"plan__max_mean_ratio": math.nan}, "max_mean_ratio = nan must be above"),
    ({"stop_after_skips": -1}, "stop_after_skips = -1 must be at least 0"),
    ({"evaluate_every": -1}, "evaluate_every = -1 must be at least 0"),
    (
      {"rollout.sampler": "greedy("},
      r"rollout.sampler: cannot read .*prefix_values\(cont",
    ),
    (
      {"step_reward": "gains("},
      r"step_reward: cannot read .*gains\(\)",
    ),
    ({"method": "ppo"}, "add --config.model.value_head=True"),
    ({"method": "grpo(clip=-0.2)"}, "low = -0.2 must be at least 0"),
    ({"optimizer__schedule": "cosine"}, "usual value is 120, which is"),
    (
      {
        "optimizer__schedule": "cosine",
        "optimizer__warmup_steps": 50,
        "optimizer__decay_steps": 50,
      },
      "decay_steps = 50 must be .* falls to final_scale = 0.1 of its peak",
    ),
    (
      {"method": "prime", "learners": {"prm": {"b1": 2}}},
      r"learners.prm.b1 = 2 must .* below 1, such as 0.999",
    ),
    (
      {"method": "prime", "learners": {"prm": {"b1": "a"}}},
      r"learners.prm.b1 = 'a' must",
    ),
  ],
)
def test_what_cannot_learn_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(small_run.config(**changes))


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({}, "preferences is empty; name a file of lines with 'prompt', 'chosen'"),
    ({"method": "grpo()"}, "unknown method of kind = 'preferences' 'grpo'"),
    ({"method": "dpo(beta=-1.0)"}, "beta=-1.0 must be above 0"),
    ({"preferences": "/no/such.jsonl"}, "preferences: no file '/no/such.jsonl"),
  ],
)
def test_preferences_have_a_file_and_a_method_of_pairs(changes, message):
  config = small_run.config("preferences", **changes)
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(config)


@pytest.mark.parametrize("kind", ["supervised", "preferences"])
def test_lines_of_a_file_are_selected_on_the_host(kind, tmp_path):
  file = tmp_path / "lines.jsonl"
  line = {"prompt": "1 2 = d0 d3", "solution": "1 + 2"}
  line |= {"chosen": "1 + 2", "rejected": "2 * 1"}
  file.write_text(json.dumps(line))
  key = {"supervised": "demonstrations"}.get(kind, kind)
  config = small_run.config(
    kind, **{key: str(file)}, steps=4, steps_per_dispatch=2
  )
  config.optimizer.warmup_steps = 0
  config.rollout.prompts = 8
  with pytest.raises(ValueError, match=r"steps_per_dispatch = 2 must be 1"):
    validate.check_and_build(config)
  config.steps_per_dispatch = 1
  e = validate.check_and_build(config)
  assert e.abstract_rollout.scores.shape == (8, 2 if kind == key else 1)


RETENTION = [
  ({"keep_checkpoints": 0}, "keep_checkpoints = 0 must be at least 1"),
  (
    {"keep_every": 7, "checkpoint_every": 5},
    "keep_every = 7 must be a multiple of checkpoint_every = 5; nearest: 5",
  ),
  (
    {"keep_best": "evaluation/reward/maen", "evaluate_every": 5},
    "'evaluation/reward/maen'; did you mean 'evaluation/reward/mean'",
  ),
  ({"keep_best": "-los/total"}, "'los/total'; did you mean 'loss/total'"),
  (
    {"keep_best": PASS_AT_2, "checkpoint_every": 5, "evaluate_every": 10},
    "checkpoint_every = 5 must be a multiple of evaluate_every = 10",
  ),
  (
    {"keep_best": PASS_AT_2, "checkpoint_every": 5},
    "checkpoint_every = 5 must be a multiple of evaluate_every = 0",
  ),
]


@pytest.mark.parametrize(("changes", "message"), RETENTION)
def test_what_would_keep_nothing_is_refused(changes, message, tmp_path):
  config = small_run.config(**changes)
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(config, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def with_base(**base_changes):
  """Config of a run that starts from a supervised base."""
  base = small_run.config("supervised", **base_changes)
  return defaults.with_base(small_run.config(), base)


@pytest.mark.parametrize(
  ("base_changes", "message"),
  [
    ({"steps": 0}, "base.steps = 0 must be at least 1"),
    ({"plan__chunk": 0}, "base: plan.chunk = 0 must be at least 1 position"),
  ],
)
def test_a_base_is_checked_before_it_is_trained(
  base_changes, message, tmp_path
):
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(with_base(**base_changes), tmp_path / "new")
  assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_has_at_least_one_position(chunk):
  config = small_run.config(plan__chunk=chunk)
  with pytest.raises(ValueError, match=f"plan.chunk = {chunk} must be at leas"):
    validate.check_and_build(config)


@pytest.mark.parametrize("key", ["seed", "evaluation.seed"])
def test_a_seed_that_jax_would_cut_is_refused(key):
  config = small_run.config()
  config.unlock()
  config.update_from_flattened_dict({key: 99999999999999999999})
  with pytest.raises(ValueError, match=f"^{key} = 99999999999999999999 must"):
    validate.check_and_build(config)


def test_a_rollout_that_no_index_reaches_is_refused():
  config = small_run.config(rollout__max_tokens=100_000_000)
  message = r"rollout.max_tokens = 100000000: with 8 prompts and 4 samples"
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(config)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"plan__max_mean_ratio": 1.0}, "max_mean_ratio = 1.0 must be above 1"),
    ({"steps_per_dispatch": 0}, "steps_per_dispatch = 0 must be at least 1"),
    ({"log_every": 0}, "log_every = 0 must be at least 1"),
    ({"steps": 11, "steps_per_dispatch": 4}, "nearest: 12"),
    ({"steps": 1, "steps_per_dispatch": 4}, "nearest: 4"),
    ({"keep_every": 13, "checkpoint_every": 5}, "nearest: 15"),
    ({"keep_every": 2, "checkpoint_every": 5}, "nearest: 5"),
    ({"keep_every": -1}, "checkpoint_every = 0; nearest: 0"),
    (
      {"task": "jsonl(file='a')", "data__file": "b"},
      "sets file='a', and the key of the config is 'b'",
    ),
  ],
)
def test_wrong_values_of_a_config_are_refused(changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_config(small_run.config(**changes))


@pytest.mark.parametrize(
  "changes",
  [
    {"plan__chunk": 1},
    {"plan__max_mean_ratio": 1.5},
    {"stop_after_skips": 0},
    {"steps": 12, "steps_per_dispatch": 4},
    {"keep_checkpoints": 1, "keep_every": 10, "checkpoint_every": 5},
    {"task": "jsonl(file='a')", "data__file": "a"},
    {"task": "jsonl", "data__file": "b"},
    {"rollout__sampler": "greedy()", "method": "grpo()"},
  ],
)
def test_values_at_the_border_are_allowed(changes):
  validate.check_config(small_run.config(**changes))


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({}, None),
    ({"problems": 0}, "evaluation.problems = 0 must be at least 1"),
    ({"trap_problems": 0}, "trip_wires.problems = 0 must be at least 1"),
    ({"trap_samples": 0}, "trip_wires.samples = 0 must be at least 1"),
    ({"trap_tokens": 9}, "has a vocabulary of 9 tokens, and .* of 8"),
  ],
)
def test_an_evaluation_has_at_least_one_problem(changes, message, monkeypatch):
  monkeypatch.setattr(evaluator, "sampling_settings", lambda e: None)
  config = ml_collections.ConfigDict(
    {
      "evaluation": {"problems": changes.get("problems", 1)},
      "trip_wires": {
        "task": "traps",
        "problems": changes.get("trap_problems", 1),
        "samples": changes.get("trap_samples", 1),
      },
    }
  )
  e = types.SimpleNamespace(
    config=config,
    task=types.SimpleNamespace(test=lambda n: None, vocab_size=8),
    traps=types.SimpleNamespace(
      test=lambda n: None, vocab_size=changes.get("trap_tokens", 8)
    ),
  )

  def check():
    evaluator.check(e)
    trip_wires.check(e)

  if message is None:
    check()
    return
  with pytest.raises(ValueError, match=message):
    check()


@pytest.mark.parametrize("shape", [(), (8,), (4, 8)])
def test_a_component_that_is_not_by_sample_is_refused_by_name(shape):
  """8 prompts with 4 samples each."""
  reward = Reward(
    (), lambda _, rollout: (rollout.scores, {"bonus": jnp.zeros(shape)})
  )
  e = small_run.experiment()
  method = dataclasses.replace(e.method, reward=reward)
  e = dataclasses.replace(e, methods={"policy": method})
  message = (
    f"the component 'bonus' of the score has the shape {shape}, but it must "
    "be [P, S] = (8, 4)"
  )
  with pytest.raises(UsageError, match=re.escape(message)):
    validate.check_experiment(e)


def test_a_component_of_a_task_that_is_a_number_is_refused():
  e = small_run.experiment()
  task = e.task

  def score(*arguments):
    judged = task.score(*arguments)
    return judged.replace(components={"bonus": jnp.float32(1)})

  e = dataclasses.replace(e, task=dataclasses.replace(task, score=score))
  with pytest.raises(UsageError, match="component 'bonus' of the score has"):
    validate.check_experiment(e)
