"""Tests of `rl.step`: a training step by hand, rewards, memory and errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import worked_example

from rl import parameter_sets, step, training_state, transforms
from rl.losses import surrogates, terms
from rl.method import Method
from rl.reward import Reward
from rl.sampling import samplers
from rl.transforms import chain, scores, transform
from rl.update_plan import Plan

close = np.testing.assert_allclose
SCORES = np.array([[2.0, -1.0], [4.0, 3.0]], np.float32)
ROLLOUT = worked_example.rollout(SCORES, prompt_ids=jnp.array([7, 8]))
LOG_PROBS = np.array([[-1.0, -2.0], [-0.5, -3.0]], np.float32)[..., None]
PARAMS = {
  "log_probs": jnp.asarray(LOG_PROBS),
  "values": jnp.zeros((2, 2, 1)),
}
TX = optax.sgd(0.5)
ON_POLICY = terms.policy_gradient(surrogates.reinforce())
PPO = terms.policy_gradient(surrogates.ppo_clip(0.5, 10.0))
PLAIN = Method(ON_POLICY, chain(scores()))


def _step(method, rollout=ROLLOUT, plan=None, state=None):
  """Returns the state before and after a training step, and the metrics."""
  if state is None:
    state = training_state.init(method, PARAMS, TX, jax.random.key(1))
  plan = plan or Plan()
  train_step = jax.jit(step.make(method, worked_example.POLICY, TX, plan))
  return (state, *train_step(state, rollout))


def test_a_step_descends_the_loss_and_logs_what_it_did():
  before, after, metrics = _step(PLAIN)
  # The loss is the mean of - A log pi over four tokens.
  close(after.params["log_probs"][..., 0], LOG_PROBS[..., 0] + 0.5 * SCORES / 4)
  assert (int(before.step), int(after.step)) == (0, 1)
  assert before.step.dtype == jnp.int32
  assert after.carried.key == before.carried.key
  expected = {
    "loss/total": -(SCORES * LOG_PROBS[..., 0]).mean(),
    "optim/grad_norm": np.sqrt(30) / 4,
    "optim/skipped": 0,
    "advantage/mean": 2,
    "advantage/abs_mean": 2.5,
    "reward/mean": 2,
    "guard/bad_prompt": -1,
    "guard/bad_sample": -1,
  }
  for name, value in expected.items():
    close(metrics[name], value, rtol=1e-5, err_msg=name)
  # One update needs no pass, and nothing but a reward logs a reward.
  assert not [name for name in metrics if name.endswith("old_tokens")]
  assert "reward/task" not in metrics
  # A term without a signal logs no advantage.
  _, _, metrics = _step(Method(terms.nll()))
  assert not [name for name in metrics if name.startswith("advantage/")]


def test_each_minibatch_of_each_epoch_makes_an_update():
  method = Method(PPO, chain(scores()))
  plan = Plan(epochs=2, minibatches=2)
  small = SCORES / 10
  rollout = ROLLOUT.replace(scores=jnp.asarray(small))
  _, after, metrics = _step(method, rollout, plan)
  # A minibatch is a prompt, of two tokens. In the second epoch, the ratios to
  # the policy before the step multiply the slopes; none is clipped.
  first = LOG_PROBS[..., 0] + 0.5 * small / 2
  slope = small * np.exp(first - LOG_PROBS[..., 0])
  close(after.params["log_probs"][..., 0], first + 0.5 * slope / 2, rtol=1e-5)
  norms = [np.linalg.norm(g[p]) / 2 for g in (small, slope) for p in (0, 1)]
  close(metrics["optim/grad_norm"], np.mean(norms), rtol=1e-5)
  # Two prompt tokens and four completion tokens are read by the old policy.
  assert metrics["cost/old_tokens"] == 6


def test_a_state_starts_from_the_parameters_and_the_method():
  method = dataclasses.replace(
    PLAIN,
    advantage=chain(scores(), transforms.minus_running_mean()),
    parameter_sets=(("ref", parameter_sets.frozen()),),
    sampler=samplers.second_pass(1, lambda *_: None, "two", lambda: "memory"),
  )
  key = jax.random.key(1)
  state = training_state.init(method, PARAMS, optax.adam(0.1), key)
  assert state.params is PARAMS
  assert state.carried.memory == "memory"
  assert state.carried.key is key
  assert (state.carried.frozen, state.carried.models) == ({}, {})
  assert list(state.learners) == ["policy"]
  close(state.parameter_sets["ref"]["log_probs"], LOG_PROBS)
  assert jax.tree.leaves(state.policy.method_state) == [0, 0]
  assert state.policy.opt_state[0].count == 0
  frozen = {"other": 1}
  assert (
    training_state.init(method, PARAMS, TX, key, frozen).carried.frozen
    is frozen
  )


def test_frozen_parameters_are_joined_with_the_trained_ones():
  state = training_state.init(
    PLAIN,
    {"log_probs": PARAMS["log_probs"]},
    TX,
    jax.random.key(1),
    {"values": PARAMS["values"]},
  )
  _, after, _ = _step(PLAIN, state=state)
  assert set(after.params) == {"log_probs"}
  jax.tree.map(
    np.testing.assert_array_equal, after.carried.frozen, state.carried.frozen
  )
  close(after.params["log_probs"][..., 0], LOG_PROBS[..., 0] + SCORES / 8)


@transform(takes="none", gives="sample", init=lambda value: jnp.float32(value))
def bonus(_, rollout, state, *, value):
  """A growing bonus for the second sample of each prompt."""
  del rollout
  return jnp.array([[0.0, 1.0]] * 2) * state, state + 1


def _add(components, rollout):
  return rollout.scores + components["bonus"], components


def _rewarded(value):
  return dataclasses.replace(
    PLAIN,
    reward=Reward(
      (("bonus", bonus(value)),),
      _add,
      weights=lambda number: {"bonus": number + 10.0},
    ),
  )


def test_metrics_of_a_reward_are_logged_beside_those_of_the_task():
  rollout = ROLLOUT.replace(step=jnp.int32(3))
  _, after, metrics = _step(_rewarded(5.0), rollout)
  assert metrics["reward/task"] == 2
  assert metrics["reward/mean"] == 4.5
  assert metrics["score/bonus/mean"] == 2.5
  assert metrics["reward/weight/bonus"] == 13
  assert after.policy.method_state["reward/bonus"] == 6
  paid = SCORES + np.array([0, 5.0])
  close(after.params["log_probs"][..., 0], LOG_PROBS[..., 0] + paid / 8)


def test_a_reward_that_is_not_finite_changes_nothing():
  before, after, metrics = _step(_rewarded(float("nan")))
  assert metrics["optim/skipped"] == 1
  # A score of the task that is not finite is named first.
  assert (metrics["guard/bad_prompt"], metrics["guard/bad_sample"]) == (7, 0)
  np.testing.assert_array_equal(
    after.params["log_probs"], before.params["log_probs"]
  )
  scores_of_task = ROLLOUT.scores.at[1, 1].set(float("nan"))
  broken = ROLLOUT.replace(scores=scores_of_task)
  before, after, metrics = _step(_rewarded(5.0), broken)
  assert (metrics["guard/bad_prompt"], metrics["guard/bad_sample"]) == (8, 1)
  assert after.policy.method_state["reward/bonus"] == 5


def test_a_sampler_remembers_a_rollout_with_finite_scores():
  state = training_state.init(PLAIN, PARAMS, TX, jax.random.key(1))
  state = state.with_carried(memory=jnp.float32(1.0))
  rollout = ROLLOUT.replace(memory=jnp.float32(2.0))
  assert _step(PLAIN, rollout, state=state)[1].carried.memory == 2
  broken = rollout.replace(scores=rollout.scores.at[0, 1].set(jnp.inf))
  _, after, metrics = _step(PLAIN, broken, state=state)
  assert after.carried.memory == 1
  assert metrics["guard/bad_sample"] == 1


@pytest.mark.parametrize("plan", [Plan(epochs=2), Plan(minibatches=2)])
def test_a_loss_without_a_ratio_makes_one_update(plan):
  with pytest.raises(ValueError, match="make 2 updates per rollout; set both"):
    step.make(PLAIN, worked_example.POLICY, TX, plan)
  step.make(Method(PPO, chain(scores())), worked_example.POLICY, TX, plan)


def test_prompts_that_cannot_be_cut_are_refused():
  plan = Plan(minibatches=2)
  rollout = worked_example.rollout(np.ones((3, 2)))
  with pytest.raises(
    ValueError, match="3 prompts cannot be cut into 2 miniba"
  ) as error:
    _step(Method(PPO, chain(scores())), rollout, plan)
  assert "nearest multiple is 4 (rollout.prompts), and plan.minibatches" in str(
    error.value
  )
