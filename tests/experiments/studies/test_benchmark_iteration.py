"""Tests of whole iterations beside peers: checks of equal work."""

import dataclasses
import io
import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import (
  comparison,
  iteration,
  machine,
  ours,
  sides,
  sizes,
  update,
)

pytestmark = pytest.mark.long

TINY = sizes.Shape(sizes.decoder(1, 128, 64), 2, 4, 4, 8)
MIXED = dataclasses.replace(TINY, mean_length=4)
CONSOLE = rich.console.Console(file=io.StringIO())


def test_the_reward_is_the_share_of_even_ids_up_to_the_end():
  completions = jnp.array([[[4, 5, 2, 0], [3, 3, 3, 3]]])
  shares = ours.share_of_even(completions, jnp.array([[3, 4]]))
  np.testing.assert_allclose(shares, [[2 / 3, 0.0]], rtol=1e-6)


class Stub:
  """A side whose update moves the weights by a number of learning rates."""

  launch = sides.Launch("stub", "", {})

  def __init__(self, rates):
    self.rates, self.moved = rates, 0.0

  def ask(self, question):
    assert question == "changed"
    moved, self.moved = self.moved, 0.0
    return {"largest": moved}

  def run(self, number):
    self.moved = self.rates * iteration.LEARNING_RATE
    return call([[1]])


def call(lengths):
  counts = {"lengths": lengths}
  return sides.Call(1.0, 1.0, 1, int(np.sum(lengths)), counts)


def test_a_side_that_does_not_learn_at_the_rate_is_refused():
  assert iteration.check_learning(Stub(1.0)).tokens == 1
  for rates in (0.0, 100.0, float("nan")):
    with pytest.raises(errors.UsageError, match="learning rates"):
      iteration.check_learning(Stub(rates))


def test_different_lengths_are_refused():
  random = np.random.default_rng(0)

  def mixed(mean):
    return call(random.geometric(1 / mean, (16, 16)).tolist())

  same = call([[8, 8], [8, 8]])
  iteration.check_same_lengths(same, call([8, 8, 8, 8]))
  iteration.check_same_lengths(mixed(64), mixed(64))
  for one, other in (
    (same, call([[7, 7], [7, 7]])),
    (same, call([[8, 8]])),
    (mixed(64), mixed(128)),
  ):
    with pytest.raises(errors.UsageError, match="do not do the same"):
      iteration.check_same_lengths(one, other)


@pytest.mark.parametrize("name", sizes.ITERATION)
def test_microbatches_cut_the_prompts_evenly(name):
  shape = sizes.ITERATION[name]
  assert all(shape.prompts % n == 0 for n in iteration.microbatches(shape))


@pytest.mark.parametrize("mean_length", [0.0, 16.0])
def test_a_packed_update_beside_a_padded_one(monkeypatch, mean_length):
  """Both sides prove that they make the same update; then they are timed."""
  shape = sizes.Shape(sizes.decoder(1, 128, 64), 2, 8, 4, 64, mean_length)
  monkeypatch.setattr(sizes, "PACKING", {"tiny": shape})
  # The update of a small decoder is visible at a higher learning rate only.
  monkeypatch.setitem(update.OPTIMIZER, "learning_rate", 1e-3)
  limits = machine.Machine(1e11, 1e10)
  monkeypatch.setattr(machine, "measure", lambda tell: limits)
  output = io.StringIO()
  result = update.packing(rich.console.Console(file=output), calls=1)
  (row,) = result.results["rows"]
  # 2 prompts of 4 + 8 * 63 positions.
  room = "191" if mean_length else "all"
  assert f"room for {room} tokens of a prompt" in output.getvalue()
  assert row["limit"] == pytest.approx(1 / 0.45 if mean_length else 1 / 1.05)
  assert row["ratio"] > 0


def test_random_lengths_have_the_mean_that_is_asked_for():
  lengths = sizes.random_lengths((100_000,), 64, 16.0)
  assert lengths.min() == 1
  assert lengths.max() == 64
  # The standard deviation is about 14, so that of the mean is .045.
  assert lengths.mean() == pytest.approx(16.0, abs=0.2)
  assert (sizes.random_lengths((3,), 64, 0.0) == 64).all()


def test_our_iteration_without_a_peer(monkeypatch):
  """Runs from weights on disk to a row; the iteration has its own process."""
  monkeypatch.setattr(sizes, "ITERATION", {"tiny": TINY})
  options = {"devices": (1,), "micro": (1,), "chunk": (4,), "rows": (2,)}
  monkeypatch.setattr(iteration, "our_options", lambda shape: options)
  limits = machine.Machine(1e11, 1e10)
  monkeypatch.setattr(machine, "measure", lambda tell: limits)
  result = iteration.iteration(CONSOLE, peer="none", calls=2)
  assert result.limits_met
  (row,) = result.results["rows"]
  assert row["name"] == "iteration tiny"
  assert row["shape"] == str(TINY)
  assert row["ours"] > 0
  assert 0 < row["bound_fraction"] < 1
  assert row["ratio"] is None
  assert row["settings"]["ours"] == "devices 1, micro 1, chunk 4, rows 2"
  json.dumps(result.results)


@pytest.mark.parametrize("peer", ["trl"])
def test_a_peer_does_the_same_work(peer, tmp_path: pathlib.Path):
  """The checks of equal work hold for a real trainer in a separate process."""
  pytest.importorskip(peer)
  job = iteration.write_job(MIXED, tmp_path)
  launch = comparison.find_peer(peer, iteration.PEERS, {})
  launch = launch.with_job(**job, threads=1)
  with sides.Side(launch) as side:
    first = iteration.check_learning(side)
    again = iteration.check_learning(side)
  lengths = [np.ravel(one.counts["lengths"]) for one in (first, again)]
  assert [len(one) for one in lengths] == [8, 8]
  assert first.tokens == lengths[0].sum()
  assert all(((one >= 1) & (one <= MIXED.max_tokens)).all() for one in lengths)
