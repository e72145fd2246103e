"""The config of an earlier run is read under the keys of today."""

import pytest

from experiments.configs import renamed_keys
from experiments.training import reward_expression

TERM = {
  "reward": "verdict()",
  "weight": 1.0,
  "schedule": "constant",
  "final": 0.0,
  "schedule_steps": 0,
  "gates": [],
  "threshold": 0.5,
}


def test_the_block_sampling_is_inference():
  old = {"sampling": {"devices": 2, "truncation": 3.0}, "seed": 1}
  new = renamed_keys.update(old)
  assert new == {"inference": {"devices": 2, "importance_cap": 3.0}, "seed": 1}
  assert renamed_keys.update(new) == new
  assert "sampling" in old  # it is not changed


@pytest.mark.parametrize(
  ("block", "expected"),
  [
    ({"terms": {}, "order": [], "rule": "sum", "step_reward": "gains()"}, ""),
    (
      {
        "order": ["right", "sure", "brief", "quality"],
        "terms": {
          "right": TERM | {"threshold": 0.25},
          "sure": TERM | {"reward": "negative_entropy()", "weight": 0.0},
          "brief": TERM
          | {
            "reward": "length_charge()",
            "schedule": "linear",
            "weight": 2.0,
            "final": 0.5,
            "schedule_steps": 9,
          },
          "quality": TERM
          | {"reward": "", "weight": 0.1, "gates": ["right", "answered"]},
        },
      },
      "right = verdict(); sure = negative_entropy(); brief = length_charge(); "
      "1.0 * right + linear(2.0, 0.5, 9) * brief"
      " + 0.1 * quality * (right > 0.25) * (answered > 0.5)",
    ),
    (
      {"order": ["a", "b"], "terms": {"a": TERM, "b": TERM}, "rule": "min"},
      "a = verdict(); b = verdict(); min(1.0 * a, 1.0 * b)",
    ),
  ],
)
def test_the_block_of_a_reward_is_an_expression(block, expected):
  new = renamed_keys.update({"reward": block})
  assert new["reward"] == expected
  assert new["step_reward"] == block.get("step_reward", "")
  if expected:
    parsed = reward_expression.parse(expected)
    used = [n for n, t in block["terms"].items() if t["weight"]]
    assert [summand.name for summand in parsed.summands] == used


def test_a_message_names_the_new_key():
  assert renamed_keys.replacement("config.base.sampling.data") == (
    "inference.data"
  )
  assert renamed_keys.replacement("sampling.truncation").endswith("_cap")
  assert not renamed_keys.replacement("config.seed")


@pytest.mark.parametrize(
  ("key", "new"),
  [
    ("config.sampling.ahead", "inference.ahead"),
    ("config.base.sampler.truncation", "inference.importance_cap"),
    ("config.stage", "rollout.sampler"),
    ("config.data.path", "data.file"),
    ("config.data.file", ""),
  ],
)
def test_an_old_key_has_its_new_one(key, new):
  assert renamed_keys.replacement(key) == new
