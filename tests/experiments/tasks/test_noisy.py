"""Flipped verdicts: at their rates, each sample alone, and never in the test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import tasks

P, S = 64, 64


def judged(task, problems, good):
  """Scores of gold solutions, or of empty ones."""
  gold, lengths = task.gold(problems)
  completions = jnp.repeat(gold[:, None], S, 1)
  lengths = jnp.repeat(lengths[:, None], S, 1)
  if not good:
    lengths = jnp.zeros_like(lengths)
  finished = jnp.ones(lengths.shape, bool)
  return task.score(problems, completions, lengths, finished)


@pytest.fixture(scope="module")
def task():
  return tasks.get(
    "noisy", of="countdown(count=3)", false_positive=0.1, false_negative=0.4
  )


@pytest.mark.parametrize(("good", "rate"), [(True, 0.6), (False, 0.1)])
def test_flips_come_at_their_rates(task, good, rate):
  problems = task.train(jax.random.key(0), 3, P)
  found = judged(task, problems, good)
  sigma = np.sqrt(rate * (1 - rate) / (P * S))
  assert abs(float(found.scores.mean()) - rate) < 4 * sigma
  np.testing.assert_array_equal(found.correct, int(good))  # the truth stays
  # Equal samples are flipped each alone, and so are equal problems.
  assert 0 < float(found.scores[0].mean()) < 1
  assert len(np.unique(found.scores, axis=0)) == P


def test_the_same_step_flips_the_same(task):
  key = jax.random.key(0)
  first, again, other = (
    judged(task, task.train(key, step, P), True).scores for step in (3, 3, 4)
  )
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()


def test_held_out_problems_are_judged_truly(task):
  problems = task.test(P)
  np.testing.assert_array_equal(judged(task, problems, True).scores, 1.0)
  np.testing.assert_array_equal(judged(task, problems, False).scores, 0.0)


def test_the_problems_are_the_other_tasks(task):
  plain = tasks.get("countdown", count=3)
  key = jax.random.key(1)
  np.testing.assert_array_equal(
    task.train(key, 0, 8).prompts, plain.train(key, 0, 8).prompts
  )


def test_refusals(task):
  del task
  with pytest.raises(ValueError, match="probability"):
    tasks.get("noisy", false_positive=1.2)
  with pytest.raises(ValueError, match="countdown"):
    tasks.get("noisy", of="countdwn")
