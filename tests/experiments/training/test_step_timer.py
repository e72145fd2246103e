"""Where the time of a dispatch goes, by a scripted clock."""

import jax.numpy as jnp
import pytest
from helpers.rollout_parts import clocked_timer


def test_the_time_of_an_inner_block_counts_for_it_alone(monkeypatch):
  timer = clocked_timer(monkeypatch, 1, 2, 4, 8, 16, 32)
  with timer.measure("outer"):
    with timer.measure("inner"):
      pass
    with timer.measure("inner"):
      pass
  assert timer.metrics == {"outer": 1 + 4 + 16, "inner": 2 + 8}


def test_a_block_of_the_same_name_and_time_between_blocks(monkeypatch):
  timer = clocked_timer(monkeypatch, 1, 2, 4, 8)
  with timer.measure("a"):
    pass
  with timer.measure("a"):
    pass
  assert timer.metrics == {"a": 1 + 4}


def test_an_error_ends_the_measurement(monkeypatch):
  timer = clocked_timer(monkeypatch, 1, 2, 4, 8)
  with pytest.raises(KeyError), timer.measure("a"):
    raise KeyError
  with timer.measure("b"):
    pass
  assert timer.metrics == {"a": 1, "b": 4}


def test_the_first_wait_for_the_state_counts(monkeypatch):
  timer = clocked_timer(monkeypatch, 3, 5)
  assert timer.state_ready is None
  timer.wait_for(jnp.zeros(2))
  timer.wait_for(jnp.zeros(2))
  assert timer.state_ready == 3
  assert timer.metrics == {}
