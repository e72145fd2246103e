"""Worked example of GRPO-CARE."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from experiments.configs import method as method_configs
from rl import methods
from rl.methods.pairs import grpo_care


@pytest.mark.worked_example("method:grpo_care")
def test_bonus_of_likely_right_answers():
  """p of the right samples: 0.95 (capped), 0.7, 0.795; their mean is 0.815."""
  steps = [[1, 1], [1, 2], [2, 1], [1, 1], [1, 1]]
  ema = np.full((1, 5, 3), np.log(0.05))
  ema[0, 0, 1] = np.log(0.99)
  ema[0, 1, 1:] = np.log([0.35, 1.4])  # the geometric mean is 0.7
  ema[0, 2, 2] = np.log(0.806)  # 0.8187 - 0.01 is the limit: no bonus
  ema[0, 3, 1] = ema[0, 4, 1] = np.log(0.9)
  rollout = worked_example.rollout(
    [0.8, 0.9, 1, 0.2, 3],
    steps=steps,
    correct=[1, 1, 1, 0, 1],
    sample_mask=np.array([[True, True, True, True, False]]),
    extras={"ema/log_probs": ema},
  )
  m = methods.get("grpo_care")

  def z_scores(scores):
    scores = np.array(scores)
    return (scores - scores.mean()) / (scores.std(ddof=1) + 1e-4)

  # The mean of p is (0.95 + 0.7 + 0.806) / 3 = 0.8187.
  actual = worked_example.advantages(m, rollout)
  target = z_scores([1.3, 0.9, 1, 0.2])
  np.testing.assert_allclose(actual, [[*target, 0]], atol=1e-6)
  # With p = 0.82 the mean is 0.8233, and 0.82 is within the margin 0.01.
  ema = np.where(np.isclose(ema, np.log(0.806)), np.log(0.82), ema)
  rollout = rollout.replace(
    extras=rollout.extras.update({"ema/log_probs": jnp.asarray(ema)})
  )
  actual = worked_example.advantages(m, rollout)
  target = z_scores([1.3, 0.9, 1.5, 0.2])
  np.testing.assert_allclose(actual, [[*target, 0]], atol=1e-6)


def test_answers_of_one_step_and_of_none():
  """p is 0.6 in the only step, 0.5 in the second, and 0 without a step."""
  ema = np.log([[[0.6, 0.1, 0.1], [0.1, 0.1, 0.5], [0.9, 0.9, 0.9]]])
  rollout = worked_example.rollout(
    [1, 1, 1],
    steps=[[1], [1, 1, 1], [3]],
    correct=[1, 1, 1],
    extras={"ema/log_probs": ema},
  )
  # The second step of sample 1 is its last; the ids of padding do not count.
  step_ids = jnp.asarray([[[0, 5, 5], [0, 0, 1], [-1, -1, -1]]])
  rollout = rollout.replace(step_ids=step_ids)

  def rewards(margin):
    t = grpo_care.consistency_bonus(0.5, 0.95, margin)
    return t.apply(rollout.scores, rollout, ())[0]

  # The mean of p is 1.1 / 3 = 0.367.
  np.testing.assert_allclose(rewards(0.01), [[1.5, 1.5, 1]])
  np.testing.assert_allclose(rewards(-0.2), [[1.5, 1, 1]])
  np.testing.assert_allclose(rewards(0.4), [[1.5, 1.5, 1.5]])
  # Samples that are as likely as their mean have the bonus at a margin of 0.
  rollout = rollout.replace(step_ids=jnp.full_like(step_ids, -1))
  np.testing.assert_allclose(rewards(0.0), [[1.5, 1.5, 1.5]])


@pytest.mark.worked_example("method:grpo_care")
def test_clip_and_moving_average():
  """The only right sample has the score 1.5: deviation 3/4."""
  a = [1.125 / 0.7501, *[-0.375 / 0.7501] * 3, 0]
  expected = clipped_group.objective(a, clipped_group.SAMPLE_MEAN, 0.8, 1.2)
  m = methods.get("grpo_care")
  group = clipped_group.group()
  steps = jnp.where(group.mask, 0, -1)
  clipped_group.check_loss(m, group.replace(step_ids=steps), expected)
  # 0.995 * old + 0.005 * new after every 10 training steps.
  update = dict(m.parameter_sets)["ema"].update
  averages = [update(jnp.ones(()), jnp.float32(3), i) for i in (8, 9, 10)]
  np.testing.assert_allclose(averages, [1, 1.01, 1], rtol=1e-6)


def test_a_task_without_steps_is_refused_and_the_config_has_another():
  rollout = worked_example.rollout(
    [1, 0], extras={"ema/log_probs": np.zeros((1, 2, 1))}
  )
  with pytest.raises(ValueError, match="the rollout has no steps, of which"):
    worked_example.advantages(methods.get("grpo_care"), rollout)
  config = method_configs.get_config("grpo_care")
  assert config.task == config.base.task == method_configs.CHAIN
