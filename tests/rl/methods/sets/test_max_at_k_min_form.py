"""max@k of the worst step: by enumeration, and by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
  clip_example,
  process_example,
  subset_example,
  tabular_policy,
  worked_example,
)

from rl import method_loss, methods, types
from rl.methods.sets import max_at_k_min_form
from rl.update_plan import Plan

# A policy of two steps of one token each. The second token depends on the
# first, and so does its score.
LOGITS = {
  "first": np.array([0.4, -0.2, 0.1]),
  "second": np.array([[0.2, -0.5, 0.3], [0.0, 0.6, -0.1], [-0.3, 0.2, 0.5]]),
}
FIRST_SCORES = np.array([0.9, 0.2, 0.5])
SECOND_SCORES = np.array([[0.1, 1.0, 0.6], [0.8, 0.15, 0.4], [0.3, 0.7, 0.5]])


def softmax(z):
  e = np.exp(z - z.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


def true_gradient(k):
  """Gradient of E[max over k of min(first score, second score)]."""
  pairs = np.array(list(itertools.product(range(3), repeat=2)))
  worst = np.minimum(FIRST_SCORES[pairs[:, 0]], SECOND_SCORES[tuple(pairs.T)])

  def value(logits):
    first = jax.nn.softmax(logits["first"])
    second = jax.nn.softmax(logits["second"])
    p = first[pairs[:, 0]] * second[pairs[:, 0], pairs[:, 1]]
    total = 0.0
    # Sorted by score, Pr(max <= x) = Pr(score <= x)^k.
    order = np.argsort(worst)
    cumulative = jnp.cumsum(p[order])
    power = cumulative**k
    increments = jnp.diff(power, prepend=0.0)
    return total + (increments * worst[order]).sum()

  return jax.grad(value)(jax.tree.map(jnp.asarray, LOGITS))


@pytest.mark.worked_example("method:max_at_k_min_form")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_expected_gradient_is_that_of_the_objective(k):
  n = 3
  m = methods.get("max_at_k_min_form", k=k)
  samples = np.array(list(itertools.product(range(9), repeat=n)))
  actions = np.stack([samples // 3, samples % 3], -1)  # [groups, n, 2]
  p_first = softmax(LOGITS["first"])[actions[..., 0]]
  p_second = softmax(LOGITS["second"])[actions[..., 0], actions[..., 1]]
  probability = (p_first * p_second).prod(-1)
  step_scores = np.stack(
    [
      FIRST_SCORES[actions[..., 0]],
      SECOND_SCORES[actions[..., 0], actions[..., 1]],
    ],
    -1,
  )
  base = tabular_policy.rollout(p=1, s=n, t=2, k=2, ragged=False)

  def score(params, tokens):
    first = jnp.broadcast_to(params["first"], (1, n, 3))
    second = params["second"][tokens.completions[..., 0]]
    hidden = jnp.stack([first, second], 2)
    return types.Scored(hidden, {"logits": lambda h: h})

  policy = dataclasses.replace(tabular_policy.policy, score=score)

  @jax.jit
  @jax.vmap
  def gradient(actions, step_scores):
    rollout = base.replace(
      tokens=base.tokens.replace(
        completions=actions[None],
        lengths=jnp.full((1, n), 2),
        mask=jnp.ones((1, n, 2), bool),
      ),
      step_ids=jnp.broadcast_to(jnp.arange(2), (1, n, 2)),
      step_mask=jnp.ones((1, n, 2), bool),
      step_scores=step_scores[None],
    )
    params = jax.tree.map(jnp.asarray, LOGITS)
    batch, weights, _ = method_loss.prepare(m, rollout, m.init())
    actual, _ = method_loss.gradient(m, policy, params, batch, weights, Plan())
    return jax.tree.map(jnp.negative, actual)

  gradients = gradient(actions, step_scores)
  for name, expected in true_gradient(k).items():
    mean = np.tensordot(probability, np.asarray(gradients[name]), 1)
    np.testing.assert_allclose(mean, expected, atol=2e-6)


@pytest.mark.worked_example("method:max_at_k_min_form")
def test_steps_of_four_samples():
  """Worst steps -0.3, -0.2, 0.1 and 0.5; the second slot is empty."""
  rollout = process_example.rollout()
  m = methods.get("max_at_k_min_form", k=2)
  # C(4, 2) = 6: W(x) is the sum of max(x - y, 0) over the others y, over 6.
  rewards = [
    # 0.6 and -0.3, beside -0.2, 0.1, 0.5: W = (0.8 + 0.5 + 0.1) / 6 and 0.
    [1.4 / 6, -1.4 / 6],
    [0, 0],
    # -0.2 and then 0.8, beside -0.3, 0.1, 0.5: W = 0.1 / 6, and no change.
    [0.1 / 6, 0],
    # 0.9, 0.1, 0.4 beside -0.3, -0.2, 0.5: W = (1.2 + 1.1 + 0.4) / 6, then
    # (0.4 + 0.3) / 6.
    [2.7 / 6, -2 / 6, 0],
    # 0.5 beside -0.3, -0.2, 0.1.
    [1.9 / 6],
  ]
  advantages = process_example.to_go(process_example.at_step_ends(rewards))
  clip_example.check_advantages(m, rollout, advantages)


@pytest.mark.worked_example("method:max_at_k_min_form")
def test_a_set_of_one_sample():
  """W(x) = x / 4: the rewards are a quarter of the changes of the minimum."""
  rollout = process_example.rollout()
  m = methods.get("max_at_k_min_form", k=1, clip=0.1)
  rewards = np.array(
    [[0.6, -0.9, 0], [0, 0, 0], [-0.2, 0, 0], [0.9, -0.8, 0], [0.5, 0, 0]]
  )
  rewards = [
    row[: len(steps)] / 4
    for row, steps in zip(rewards, process_example.STEPS, strict=True)
  ]
  advantages = process_example.to_go(process_example.at_step_ends(rewards))
  clip_example.check_advantages(m, rollout, advantages)
  # The sum over the tokens of one prompt.
  weights = process_example.MASK * (process_example.LENGTHS > 0)[:, None]
  clip_example.check_clip(m, rollout, advantages, weights, 0.1, 0.1)
  m = methods.get("max_at_k_min_form", k=1)
  clip_example.check_clip(
    m, rollout, advantages, weights, 0.2, 0.2, sides="below"
  )


@pytest.mark.worked_example("method:max_at_k_min_form")
def test_a_set_of_all_four_samples():
  """The default k = 4: W(x) is what x exceeds the best other worst step by."""
  rewards = [[0.1, -0.1], [0, 0], [0, 0], [0.4, -0.4, 0], [0.4]]
  clip_example.check_advantages(
    methods.get("max_at_k_min_form"),
    process_example.rollout(),
    process_example.to_go(process_example.at_step_ends(rewards)),
  )


def test_steps_that_do_not_exist_have_no_increment():
  rollout = process_example.rollout()
  transform = max_at_k_min_form.increments_of_running_minimum(k=1)
  increments, _ = transform.apply(
    rollout.step_scores, rollout, transform.init()
  )
  assert not np.asarray(increments)[~np.asarray(rollout.valid("step"))].any()


def test_with_one_step_it_is_max_at_k():
  scores = subset_example.SCORES
  rollout = clip_example.rollout(scores)
  one_step = rollout.replace(
    step_ids=jnp.where(rollout.tokens.mask, 0, -1),
    step_mask=jnp.ones((*scores.shape, 1), bool),
    step_scores=rollout.scores[..., None],
  )
  advantages = subset_example.by_group(subset_example.gains, 3)
  clip_example.check_advantages(
    methods.get("max_at_k_min_form", k=3),
    one_step,
    advantages[..., None] * clip_example.mask(rollout),
  )


@pytest.mark.parametrize("k", [0, 6])
def test_k_is_at_most_the_number_of_samples(k):
  m = methods.get("max_at_k_min_form", k=k)
  with pytest.raises(ValueError, match=f"k = {k} must be from 1 to the 5"):
    worked_example.advantages(m, process_example.rollout())
