"""No key of a config overwrites another one that is set too."""

import itertools

import pytest

from experiments.configs import defaults
from experiments.training_run import command_line
from rl import UsageError

FOLDER = "experiments/configs"
# (config file, two overrides, followers): the second key of the overrides
# follows the first one unless it is set; the followers are further keys, with
# their values.
OVERRIDES = {
  "the schedule of a base": (
    "smoke.py",
    {"base.steps": 3, "base.optimizer.decay_steps": 7},
    {"steps": 10},
  ),
  "the schedule of preferences": (
    "tulu3.py:dpo",
    {"steps": 100, "optimizer.decay_steps": 7},
    {"optimizer.warmup_steps": 10},
  ),
  "the warm-up of preferences": (
    "tulu3.py:dpo",
    {"steps": 100, "optimizer.warmup_steps": 4},
    {"optimizer.decay_steps": 100},
  ),
  "the warm-up of Tulu 3": (
    "tulu3.py:sft",
    {"steps": 200, "optimizer.warmup_steps": 4},
    {"optimizer.decay_steps": 200},
  ),
  "the schedule of RL": (
    "tulu3.py:rlvr",
    {"steps": 200, "optimizer.decay_steps": 7},
    {},
  ),
  "the seed": ("smoke.py", {"seed": 3, "base.seed": 7}, {}),
  "the task": (
    "smoke.py",
    {"task": "countdown(count=4)", "base.task": "chain"},
    {},
  ),
  "the verifier": ("smoke.py", {"verifier": "a:b", "base.verifier": "c:d"}, {}),
  "the devices": ("smoke.py", {"cpu_devices": 2, "base.cpu_devices": 4}, {}),
  "the data": ("smoke.py", {"data.file": "a", "base.data.file": "b"}, {}),
  "the model": (
    "smoke.py",
    {"model.width": 16, "base.model.width": 64},
    {"base.model.layers": 2},
  ),
  # Without a value, in the file.
  "the mesh": ("smoke.py", {"mesh.fsdp": 2, "base.mesh.fsdp": 4}, {}),
}


def parse(file, overrides):
  flags = [f"--config.{key}={value}" for key, value in overrides]
  words = ["run", f"--config={FOLDER}/{file}", *flags]
  return command_line.parse(words, lambda values: None, ()).config


def value_of(config, dotted_key):
  for key in dotted_key.split("."):
    config = config[key]
  return config


@pytest.mark.parametrize("name", OVERRIDES)
def test_each_of_two_overrides_counts_in_any_order(name):
  file, overrides, followers = OVERRIDES[name]
  for order in itertools.permutations(overrides.items()):
    config = parse(file, order)
    for key, value in (overrides | followers).items():
      assert value_of(config, key) == value, (order, key)


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_changes_no_key_that_does_not_follow(name):
  """The second key of a pair follows the first one, not the other way."""
  file, overrides, _ = OVERRIDES[name]
  first, second = overrides
  before = value_of(parse(file, []), first)
  config = parse(file, [(second, overrides[second])])
  assert value_of(config, first) == before
  assert value_of(config, second) == overrides[second]


@pytest.mark.parametrize(
  ("file", "key", "value", "followers"),
  [
    ("smoke.py", "base.steps", 3, {"base.optimizer.decay_steps": 3}),
    ("smoke.py", "seed", 3, {"base.seed": 3}),
    ("smoke.py", "task", "chain", {"base.task": "chain"}),
    ("smoke.py", "mesh.fsdp", 2, {"base.mesh.fsdp": 2}),
    ("smoke.py", "model.attention", "dense", {"base.model.attention": "dense"}),
    ("smoke.py", "model.width", 16, {"base.model.width": 16}),
    ("smoke.py", "data.cache", "c", {"base.data.cache": "c"}),
    # 3 % and 10 % of warm-up, rounded down.
    (
      "tulu3.py:sft",
      "steps",
      250,
      {"optimizer.decay_steps": 250, "optimizer.warmup_steps": 7},
    ),
    (
      "tulu3.py:dpo",
      "steps",
      59,
      {"optimizer.decay_steps": 59, "optimizer.warmup_steps": 5},
    ),
  ],
)
def test_a_key_that_is_not_set_follows_another(file, key, value, followers):
  config = parse(file, [(key, value)])
  for follower, expected in followers.items():
    assert value_of(config, follower) == expected


def test_a_block_in_a_block_of_a_base_follows_too():
  base = defaults.supervised()
  base.model = defaults.model(rope_scaling={"kind": "linear", "factor": 2.0})
  config = defaults.with_base(defaults.rl(), base)
  config.model.rope_scaling.factor = 3.0
  assert config.base.model.rope_scaling.factor == 3.0
  config.base.model.rope_scaling.factor = 4.0
  assert config.model.rope_scaling.factor == 3.0


def test_one_setting_of_a_call_is_replaced():
  """The method's others stay; the base has the task of the run."""
  overrides = [
    ("method", "max_at_k(k=4, baseline='none')"),
    ("method.k", "2"),
    ("method.clip", "0.5"),
    ("task.count", "3"),
  ]
  config = parse("smoke.py", overrides)
  assert config.method == "max_at_k(k=2, baseline='none', clip=0.5)"
  assert config.task == config.base.task == "countdown(count=3)"


def test_a_text_is_a_setting_and_other_keys_have_no_settings():
  config = parse("smoke.py", [("method.baseline", "none")])
  assert "baseline='none'" in config.method
  with pytest.raises(UsageError, match="unknown key of config 'method'"):
    parse("chain.py:base", [("method.k", "2")])
  with pytest.raises(UsageError, match=r"ahead has been replaced by inference"):
    parse("smoke.py", [("sampling.ahead", "1")])
