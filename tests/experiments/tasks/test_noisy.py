"""Verdicts are flipped at their rates, independently, and never in the test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import tasks

P, S = 64, 48


def judge(task, problems, good):
  """Judges S gold completions of each problem, or S empty ones."""
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
    "noisy", task="countdown(count=3)", false_positive=0.1, false_negative=0.4
  )


@pytest.mark.parametrize(("good", "rate"), [(True, 0.6), (False, 0.1)])
def test_flips_come_at_their_rates(task, good, rate):
  problems = task.train(jax.random.key(0), 3, P)
  judged = judge(task, problems, good)
  sigma = np.sqrt(rate * (1 - rate) / (P * S))
  assert abs(float(judged.scores.mean()) - rate) < 4 * sigma
  np.testing.assert_array_equal(
    judged.correct, int(good)
  )  # the truth, not flipped
  # Equal samples have different flips, and so have equal problems.
  assert 0 < float(judged.scores[0].mean()) < 1
  assert len(np.unique(judged.scores, axis=0)) == P


def test_the_same_step_flips_the_same(task):
  key = jax.random.key(0)
  first, again, other = (
    judge(task, task.train(key, step, P), True).scores for step in (3, 3, 4)
  )
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()


def test_held_out_problems_have_no_flips(task):
  problems = task.test(P)
  np.testing.assert_array_equal(judge(task, problems, True).scores, 1.0)
  np.testing.assert_array_equal(judge(task, problems, False).scores, 0.0)


def test_a_rate_of_0_flips_nothing(task, monkeypatch):
  """Not even where the random number, which may be 0, is as small as it."""
  problems = task.test(P)

  def uniform(key, shape):
    del key
    return jnp.zeros(shape)

  monkeypatch.setattr(jax.random, "uniform", uniform)
  judged = judge(task, problems, True)
  np.testing.assert_array_equal(judged.scores, 1.0)
  np.testing.assert_array_equal(judged.components["flipped"], 0.0)


def test_held_out_problems_have_the_same_noise_in_every_run(task):
  noise = jax.random.key_data(jax.random.split(jax.random.key(0), P))
  np.testing.assert_array_equal(task.test(P).facts["noise"], noise)


def test_the_name_has_the_settings():
  assert tasks.get("noisy").name == (
    "noisy(task=countdown(count=4), false_positive=0.4, false_negative=0.4)"
  )
  name = tasks.get("noisy", false_positive=0.0, false_negative=1.0).name
  assert name.endswith("false_positive=0, false_negative=1)")


def test_the_problems_are_those_of_the_other_task(task):
  countdown = tasks.get("countdown", count=3)
  key = jax.random.key(1)
  np.testing.assert_array_equal(
    task.train(key, 0, 8).prompts, countdown.train(key, 0, 8).prompts
  )


def test_refusals(task):
  del task
  with pytest.raises(ValueError, match="probability"):
    tasks.get("noisy", false_positive=1.2)
  with pytest.raises(ValueError, match=r"false_negative=-0\.1 must be a prob"):
    tasks.get("noisy", false_negative=-0.1)
  with pytest.raises(ValueError, match="programs is scored on the host"):
    tasks.get("noisy", task="programs(allow_unprotected=True)")
  with pytest.raises(ValueError, match="countdown"):
    tasks.get("noisy", task="countdwn")
