"""Tests of `rewards`: rewards by name."""

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
