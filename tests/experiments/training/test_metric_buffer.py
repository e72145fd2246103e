"""Tests of the learning rates in a line of metrics."""

from experiments.training import metric_buffer


def test_each_learner_has_the_rate_of_its_own_updates():
  """Eight updates of the policy are 2 of its steps, of the critic 4."""
  schedules = {
    "policy": lambda step: 1.0 / (1 + step),
    "critic": lambda step: 10.0 * step,
  }
  rates = metric_buffer.learning_rates(
    schedules,
    {"policy": 8, "critic": 9},
    {"policy": 4, "critic": 2},
  )
  assert rates == {"optim/lr": 1 / 3, "critic/optim/lr": 40.0}
