"""Refusals of `validate` before a run starts, and their messages."""

import json
import math
import re

import pytest
from helpers import small_run

from experiments.configs import defaults
from experiments.training import validate

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
      {"reward__step_reward": "gains("},
      r"reward.step_reward: cannot read .*gains\(\)",
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
  ("key", "value", "message"),
  [
    ("clip_norm", -1.0, "at least 0 and finite, such as 0$"),
    ("learning_rate", -1e-3, "at least 0 and finite, such as 0$"),
    ("learning_rate", math.nan, "such as 0.00015$"),
    ("learning_rate", math.inf, "such as 0.00015$"),
    ("b1", 2.0, "at least 0 and below 1, such as 0.999$"),
    ("b2", 1.0, "at least 0 and below 1, such as 0.999$"),
    ("eps", -1.0, "at least 1e-30 and finite, such as 1e-08$"),
    ("weight_decay", -1.0, "such as 0$"),
    ("warmup_steps", -5, "such as 0$"),
    ("final_scale", -0.1, "such as 0$"),
  ],
)
def test_an_optimiser_of_no_sense_is_refused(key, value, message):
  config = defaults.rl()
  config.optimizer[key] = value
  start = re.escape(f"optimizer.{key} = {value} must be ")
  with pytest.raises(ValueError, match=f"{start}.*{message}"):
    validate.check_optimizers(config, ["policy"])


def test_a_run_that_ends_while_it_warms_up_meets_no_cosine():
  config = defaults.supervised(steps=20)  # of 50 steps of warm-up
  validate.check_optimizers(config, ["policy"])


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
