"""Equalities between methods and with the true gradient."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import best_of_k, method_loss, methods, types
from rl.update_plan import Plan

LOGITS = np.array([0.3, -0.4, 0.1])
REWARDS = np.array([0.2, 1.0, -0.5])


def expected_gradient(name, n, sampler=LOGITS, **hyper):
  """Mean over all groups of n one-token samples of minus the gradient."""
  m = methods.get(name, **hyper)
  tuples = np.array(list(itertools.product(range(3), repeat=n)))
  p = np.exp(sampler) / np.exp(sampler).sum()
  base = tabular_policy.rollout(p=1, s=n, t=1, k=1, ragged=False)

  def score(params, tokens):
    hidden = jnp.broadcast_to(params["logits"], (*tokens.completions.shape, 3))
    return types.Scored(hidden, {"logits": lambda h: h})

  policy = dataclasses.replace(tabular_policy.policy, score=score)

  @jax.jit
  @jax.vmap
  def one(actions):
    rollout = base.replace(
      tokens=base.tokens.replace(
        completions=actions[None, :, None], mask=jnp.ones((1, n, 1), bool)
      ),
      scores=jnp.asarray(REWARDS, jnp.float32)[actions][None],
      behavior_log_probs=jnp.log(jnp.asarray(p, jnp.float32))[
        actions[None, :, None]
      ],
    )
    params = {"logits": jnp.asarray(LOGITS, jnp.float32)}
    batch, scales, _ = method_loss.prepare(m, rollout, m.init())
    actual, _ = method_loss.gradient(m, policy, params, batch, scales, Plan())
    return -actual["logits"]

  return p[tuples].prod(-1) @ np.asarray(one(jnp.asarray(tuples)))


def true_gradient(k):
  tuples = np.array(list(itertools.product(range(3), repeat=k)))
  p = np.exp(LOGITS) / np.exp(LOGITS).sum()
  score = (np.eye(3)[tuples] - p).sum(1)
  best = REWARDS[tuples].max(-1)
  return np.einsum("g,g,gv->v", p[tuples].prod(-1), best, score)


@pytest.mark.parametrize(
  ("name", "k", "hyper"),
  [
    ("max_at_k", 1, {"k": 1}),
    ("max_at_k", 2, {"k": 2}),
    ("max_at_k", 3, {"k": 3, "baseline": "leave_one_out"}),
    ("max_at_k", 3, {"k": 3, "baseline": "centered"}),
    ("rloo", 1, {}),
    ("reinforce", 1, {}),
  ],
)
def test_the_whole_method_is_unbiased(name, k, hyper):
  """The gradient of the parameters from a rollout, against enumeration."""
  np.testing.assert_allclose(
    expected_gradient(name, 4, **hyper), true_gradient(k), atol=2e-6
  )


@pytest.mark.parametrize("k", [1, 3])
def test_off_policy_max_at_k_is_unbiased_under_another_sampler(k):
  got = expected_gradient(
    "max_at_k_off_policy", 4, np.array([0.1, 0.5, -0.2]), k=k
  )
  np.testing.assert_allclose(got, true_gradient(k), atol=2e-6)


def test_the_bias_of_the_first_order_form_is_of_second_order():
  """At half the distance: a quarter of its bias, half of zeroth's."""
  exact, away = true_gradient(2), np.array([-0.3, 1.0, -0.4])
  shrinks = {}
  for order in ("first", "zeroth"):
    far, near = (
      np.abs(
        expected_gradient(
          "max_at_k_off_policy", 4, LOGITS + d * away, k=2, order=order
        )
        - exact
      )
      for d in (0.2, 0.1)
    )
    shrinks[order] = far.max() / near.max()
  assert abs(shrinks["first"] - 4) < 0.5
  assert abs(shrinks["zeroth"] - 2) < 0.3


def test_a_sample_beyond_the_bound_rests():
  """Beyond the bound there is a gradient against the direction of A alone."""
  m = methods.get("max_at_k_off_policy", k=2, bound=1.0)
  rollout = tabular_policy.rollout(p=1, s=3, t=1, k=1, ragged=False).replace(
    scores=jnp.array([[0.0, 1.0, 2.0]])
  )
  (term,) = m.loss.terms

  def gradient(moved):
    now = jnp.zeros((1, 3, 1))
    batch = rollout.replace(behavior_log_probs=now - jnp.array(moved)[:, None])

    def value(log_probs):
      named = types.Named({"log_probs": log_probs})
      values, metrics = term.fn(rollout.scores, named, batch)
      distance = metrics["policy/sample_log_ratio"]
      np.testing.assert_allclose(distance[0], np.abs(moved), rtol=1e-6)
      return values.sum()

    return np.asarray(jax.grad(value)(now))[0, :, 0]

  inside = gradient([0.0, 0.9, 0.9])
  assert not inside[0]  # the worst of a group adds nothing to any pair
  assert (inside[1:] < 0).all()
  beyond = gradient([0.0, 0.9, 1.1])
  assert beyond[1] < 0 == beyond[2]
  assert (gradient([0.0, 0.9, -1.1])[1:] < 0).all()


def test_the_orders_are_one_at_the_first_update():
  """Sampler and policy agree: every order is max_at_k without a baseline."""
  want = expected_gradient("max_at_k", 4, k=3, baseline="none")
  for order in best_of_k.ORDERS:
    got = expected_gradient("max_at_k_off_policy", 4, k=3, order=order)
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_bon_mean_turns_the_sign_of_the_second_best():
  """GRPO rewards both 0.7s; the best of two does not."""
  rollout = tabular_policy.rollout(p=1, s=4, ragged=False).replace(
    scores=jnp.array([[0.1, 0.7, 0.7, 1.0]])
  )

  def advantage(m):
    return worked_example.advantages(m, rollout)

  np.testing.assert_allclose(
    advantage(methods.get("bon_mean", k=2)),
    [[-0.577, -0.577, -0.577, 1.732]],
    atol=1e-3,
  )
  np.testing.assert_allclose(
    advantage(methods.get("grpo", ddof=0)),
    [[-1.606, 0.229, 0.229, 1.147]],
    atol=1e-3,
  )


def test_dr_grpo_is_rloo_scaled_by_the_group_and_the_horizon():
  n, horizon = 4, 5
  np.testing.assert_allclose(
    expected_gradient("dr_grpo", n, horizon=horizon) * horizon,
    expected_gradient("rloo", n) * (n - 1) / n,
    atol=1e-6,
  )


def test_pass_at_1_is_grpo_with_ddof_0():
  rollout = tabular_policy.rollout()

  def advantage(m):
    return worked_example.advantages(m, rollout)

  np.testing.assert_allclose(
    advantage(methods.get("pass_at_k", k=1)),
    advantage(methods.get("grpo", ddof=0, eps=0.0)),
    atol=2e-6,
  )


def test_min_and_sum_form_agree_on_samples_of_one_step():
  rollout = tabular_policy.rollout(k=1)
  forms = [methods.get(name) for name in ("min_form", "sum_form")]
  a, b = (
    jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())[0]
    for m in forms
  )
  np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_process_advantage_of_pure_worked_by_hand():
  """Worked by hand: lengths 8, 6, 8 of at most 8; temperature 0.1."""
  steps = [[3, 2, 3], [2, 4], [2, 2, 2, 2]]
  scores = [[0.9, 0.2, 0.7], [0.8, 0.6], [-0.5, 0.9, 0.9, 0.9]]
  ids = np.full((1, 3, 8), -1)
  values, exists = np.zeros((1, 3, 4)), np.zeros((1, 3, 4), bool)
  for i, (lengths, s) in enumerate(zip(steps, scores, strict=True)):
    ids[0, i, : sum(lengths)] = np.repeat(np.arange(len(lengths)), lengths)
    values[0, i, : len(s)], exists[0, i, : len(s)] = s, True
  base = tabular_policy.rollout(p=1, s=3, t=8, k=4, ragged=False)
  rollout = base.replace(
    tokens=base.tokens.replace(mask=jnp.asarray(ids >= 0)),
    step_ids=jnp.asarray(ids),
    step_scores=jnp.asarray(values, jnp.float32),
    step_mask=jnp.asarray(exists),
    correct=jnp.array([[1, 1, 0]], jnp.int8),
  )
  process = [
    [0.056376] * 3 + [0.055562] * 2 + [-0.14292] * 3,
    [0.621821] * 2 + [0.526459] * 4 + [0] * 2,
    [-0.774615] * 2 + [-0.274617] * 6,
  ]
  outcome = [[0.5] * 8, [0.5] * 6 + [0] * 2, [-1] * 8]
  for verifiable in (0.0, 1.0):
    m = methods.get("min_form", verifiable=verifiable)
    got, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
    want = np.array(process) + verifiable * np.array(outcome)
    np.testing.assert_allclose(got[0], want, atol=2e-6)


def test_dapo_drops_groups_by_verdict_and_truncated_samples():
  rollout = tabular_policy.rollout()
  m, params = methods.get("dapo"), tabular_policy.params()
  batch, scales, _ = method_loss.prepare(m, rollout, m.init())
  actual, _ = method_loss.gradient(
    m, tabular_policy.policy, params, batch, scales, Plan()
  )
  g = np.asarray(actual["hidden"])
  correct = np.asarray(rollout.correct)
  real = np.asarray(rollout.sample_mask)
  for p in range(tabular_policy.P):
    mixed = len(set(correct[p, real[p]])) == 2
    trained = g[p].any((-2, -1))
    finished = np.asarray(rollout.finished)[p]
    assert not trained[~(finished & real[p] & mixed)].any()
