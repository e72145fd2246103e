"""Tests of `rewards`: rewards by name."""

import pathlib
import sys

import pytest

import rewards
from rewards.agreement import majority


def test_rewards_are_found_in_the_files_of_every_topic():
  factories = rewards.factories()
  assert rewards.names() == sorted(factories)
  assert factories["majority"] is majority.majority
  topics = {factory.__module__.split(".")[1] for factory in factories.values()}
  assert topics >= {"agreement", "controls", "length", "outcome", "steps"}
  assert "verifiers" not in topics  # these read texts


def test_mistakes_in_names_and_settings_are_named():
  with pytest.raises(ValueError, match="did you mean 'majority'"):
    rewards.get("majorty")
  with pytest.raises(ValueError, match="did you mean 'threshold'"):
    rewards.get("majority", treshold=0.5)
  with pytest.raises(ValueError, match="thought_end"):
    rewards.get("phase_entropy")


def test_two_rewards_of_one_name_are_an_error(tmp_path, monkeypatch):
  """A copy of a reward in another folder, under the name of the original."""
  source = pathlib.Path(majority.__file__).read_text()
  (tmp_path / "copied_reward.py").write_text(source)
  monkeypatch.setattr(rewards, "__path__", [*rewards.__path__, str(tmp_path)])
  with pytest.raises(ValueError, match="two rewards have the name") as error:
    rewards.names()
  sys.modules.pop("rewards.copied_reward", None)
  assert "'majority'" in str(error.value)
  assert "rewards/agreement/majority.py" in str(error.value)
  assert str(tmp_path / "copied_reward.py") in str(error.value)


def test_a_function_without_the_decorator_is_told_of_it(tmp_path, monkeypatch):
  text = "def plain(_, rollout):\n  return rollout.scores\n"
  (tmp_path / "plain_reward.py").write_text(text)
  monkeypatch.syspath_prepend(str(tmp_path))
  with pytest.raises(
    ValueError, match=r"takes a rollout: decorate .*transform"
  ):
    rewards.get("plain_reward:plain")
  sys.modules.pop("plain_reward", None)
