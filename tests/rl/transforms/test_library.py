"""Tests of `rl.transforms.library`: each transform on a few numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import best_of_k, scoring, transforms
from rl.sampling import random_keys
from rl.transforms import chain

close = np.testing.assert_allclose
NAN = float("nan")
# One prompt with samples of three, one and two steps, and a sample that does
# not exist. The second token of the first sample is that of a tool, and its
# last two tokens are in no step.
STEPS = [[1, 2, 1], [2], [1, 3], [1]]
STEP_SCORES = [[4.0, -1.0, 2.0], [5.0], [-3.0, 7.0], [NAN]]
BASE = worked_example.rollout(
  [1.0, 2.0, 4.0, 8.0],
  steps=STEPS,
  step_scores=STEP_SCORES,
  correct=[1, 0, -1, 1],
  sample_mask=jnp.array([[True, True, True, False]]),
)
STEP_IDS = jnp.array(
  [[[0, 0, 1, 2], [0, 0, -1, -1], [0, 1, 1, 1], [-1, -1, -1, -1]]]
)
MASK = jnp.array(
  [[[1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]], bool
)
ROLLOUT = BASE.replace(tokens=BASE.tokens.replace(mask=MASK), step_ids=STEP_IDS)


def _value(*links, rollout=ROLLOUT):
  return worked_example.apply(chain(*links), rollout)


# Sources.


def test_sources_read_the_rollout():
  close(_value(transforms.scores()), [[1, 2, 4, 8]])
  verdicts = _value(transforms.verdicts())
  assert verdicts.dtype == np.float32
  close(verdicts, [[1, 0, 0, 1]])
  close(_value(transforms.step_scores())[0, 2], [-3, 7, 0])
  with pytest.raises(ValueError, match="the rollout has no step scores"):
    _value(transforms.step_scores(), rollout=ROLLOUT.replace(step_scores=None))


def test_components_are_stacked_in_the_given_order():
  parts = {"a": [1.0, 2.0, 3.0, 4.0], "b": [5.0, 6.0, 7.0, 8.0]}
  rollout = ROLLOUT.replace(
    components={name: jnp.array([value]) for name, value in parts.items()}
  )
  stacked = transforms.components(("b", "a"))
  close(_value(stacked, rollout=rollout), [[parts["b"]], [parts["a"]]])
  weighted = transforms.weighted_sum((10.0, -1.0))
  close(_value(stacked, weighted, rollout=rollout), [[49, 58, 67, 76]])
  with pytest.raises(ValueError, match=r"no components \['c'\]; .*'a', 'b'\]"):
    _value(transforms.components(("a", "c")), rollout=rollout)


def test_a_probe_reads_a_need_at_its_level():
  need = scoring.provided("task", "durations")
  rollout = ROLLOUT.replace(
    extras=ROLLOUT.extras.update({"task/durations": jnp.ones((1, 4, 4))})
  )
  source = transforms.probe(need)
  assert (str(source), source.gives) == ("probe(task/durations)", "token")
  assert source.needs == {need}
  assert _value(source, rollout=rollout).shape == (1, 4, 4)
  assert transforms.probe(need, "step").gives == "step"


def test_log_ratios_are_0_where_no_token_is_scored():
  table = jnp.arange(16.0).reshape(1, 4, 4)
  rollout = ROLLOUT.replace(
    extras=ROLLOUT.extras.update(
      {"old/log_probs": 3 * table, "ref/log_probs": table}
    )
  )
  source = transforms.log_ratios("old", "ref")
  assert set(map(str, source.needs)) == {"old/log_probs", "ref/log_probs"}
  exists = np.asarray(MASK).copy()
  exists[0, 3] = False
  ratios = _value(source, rollout=rollout)
  close(ratios, np.where(exists, 2 * np.asarray(table), 0))


# Baselines.


def test_baselines_are_those_of_the_samples_that_exist():
  close(
    _value(transforms.scores(), transforms.center()),
    [[-4 / 3, -1 / 3, 5 / 3, 0]],
    rtol=1e-6,
  )
  close(
    _value(transforms.scores(), transforms.leave_one_out()),
    [[-2, -0.5, 2.5, 0]],
    rtol=1e-6,
  )
  z = _value(transforms.scores(), transforms.group_normalize(ddof=0, eps=0.0))
  close(z, np.array([[-4, -1, 5, 0]]) / np.sqrt(14), rtol=1e-6)
  close(
    _value(transforms.scores(), transforms.max_at_k_weights(k=1)),
    [[1 / 3, 2 / 3, 4 / 3, 0]],
    rtol=1e-6,
  )


def test_bootstrap_advantages_have_a_key_per_prompt():
  keys = jax.random.split(jax.random.key(3), 2)
  scores = jnp.array([[0.0, 1.0, 3.0, 0.0, 9.0]] * 2)
  valid = jnp.array([[True] * 5, [True, True, True, True, False]])
  rollout = worked_example.rollout(scores, keys=keys, sample_mask=valid)
  transform = transforms.pass_at_k_advantages(2, form="bootstrap")
  advantages = _value(transforms.scores(), transform, rollout=rollout)
  drawn = random_keys.keys(keys, "pass_at_k_advantages")
  for p in range(2):
    want = best_of_k.pass_at_k_advantages(
      scores[p], 2, valid[p], "bootstrap", drawn[p]
    )
    close(advantages[p], want, rtol=1e-6)
    assert advantages[p].any()
  analytic = transforms.pass_at_k_advantages(2)
  assert str(analytic) == "pass_at_k_advantages(k=2, form=analytic)"
  close(
    _value(transforms.scores(), analytic, rollout=rollout),
    best_of_k.pass_at_k_advantages(scores, 2, valid),
    rtol=1e-6,
  )


def test_a_moving_average_has_no_bias_of_its_start():
  state = {"mean": jnp.zeros(2), "weight": jnp.zeros(())}
  assert transforms.moving_average_value(state).tolist() == [0, 0]
  yes, no = jnp.array(True), jnp.array(False)
  update = transforms.update_moving_average
  state = update(state, jnp.array([4.0, 8.0]), 0.75, yes)
  assert state["mean"].tolist() == [1, 2]
  assert state["weight"] == 0.25
  assert transforms.moving_average_value(state).tolist() == [4, 8]
  again = update(state, jnp.array([NAN, 0.0]), 0.75, no)
  assert again["weight"] == 0.25
  assert again["mean"][1] == 2
  state = update(state, jnp.array([0.0, 16.0]), 0.75, yes)
  assert state["mean"].tolist() == [0.75, 5.5]
  assert state["weight"] == 0.4375
  close(transforms.moving_average_value(state), [12 / 7, 88 / 7], rtol=1e-6)


def test_the_running_mean_is_that_of_earlier_batches():
  """Over all samples that exist, of two prompts here."""
  rollout = worked_example.rollout(
    [[1.0, NAN], [3.0, 8.0]],
    sample_mask=jnp.array([[True, False], [True, True]]),
  )
  transform = transforms.minus_running_mean()
  assert str(transform) == "minus_running_mean(decay=0.95)"
  state = transform.init()
  first, state = transform.apply(rollout.scores, rollout, state)
  assert first.tolist() == [[1, 0], [3, 8]]
  close(state["mean"], 0.05 * 4, rtol=1e-5)
  close(state["weight"], 0.05, rtol=1e-5)
  second, state = transform.apply(2 * rollout.scores, rollout, state)
  close(second, [[2 - 4, 0], [6 - 4, 16 - 4]], atol=1e-5)
  # A batch without samples changes no state.
  empty = rollout.replace(sample_mask=jnp.zeros((2, 2), bool))
  third, same = transform.apply(rollout.scores, empty, state)
  assert not third.any()
  assert same == state


def test_whitening_is_over_all_entries_of_a_level_that_exist():
  white = _value(transforms.scores(), transforms.whiten())
  close(white, np.array([[-4, -1, 5, 0]]) / np.sqrt(14), rtol=1e-5)
  white = _value(transforms.scores(), transforms.whiten(ddof=1, eps=7 / 3))
  close(white, np.array([[-4, -1, 5, 0]]) / np.sqrt(42), rtol=1e-5)
  # The deviations from 7/3 of 4, -1, 2, 5, -3 and 7, in thirds.
  white = _value(transforms.step_scores(), transforms.whiten())
  thirds = np.array([[[5, -10, -1], [8, 0, 0], [-16, 14, 0], [0, 0, 0]]], float)
  close(white, thirds / np.sqrt((thirds**2).sum() / 6), rtol=1e-5)
  # The default eps is 1e-8.
  tiny = worked_example.rollout([0.0, 2e-4])
  white = _value(transforms.scores(), transforms.whiten(), rollout=tiny)
  close(white, [[-(0.5**0.5), 0.5**0.5]], rtol=1e-3)


# Credit.


def test_credit_of_steps_is_over_the_steps_that_exist():
  returns = _value(transforms.step_scores(), transforms.returns_to_go())
  close(returns[0, :3], [[5, 1, 2], [5, 0, 0], [4, 7, 0]])
  discounted = transforms.returns_to_go(0.5)
  returns = _value(transforms.step_scores(), discounted)
  close(returns[0, :3], [[4, 0, 2], [5, 0, 0], [0.5, 7, 0]])
  lowest = transforms.returns_to_go(1.0, reduce="min")
  returns = _value(transforms.step_scores(), lowest)
  close(returns[0, :3], [[-1, -1, 2], [5, 0, 0], [-3, 7, 0]])
  soft = transforms.min_form_rewards(temperature=1.0)
  rewards = _value(transforms.step_scores(), soft)
  weights = np.exp([-4.0, 1.0, -2.0])
  want = weights / weights.sum() * [4, -1, 2]
  close(rewards[0, 0], want, rtol=1e-5)
  close(rewards[0, 1], [5, 0, 0])


def test_gae_reads_values_turns_and_scored_tokens():
  values = jnp.array([[[0.5, 9.0, 2.0, 1.0]] + [[0.0] * 4] * 3])
  turns = jnp.array([[[0, -1, 0, 1]] + [[0] * 4] * 3])
  rollout = ROLLOUT.replace(
    extras=ROLLOUT.extras.update({"old/values": values}), turns=turns
  )
  source = chain(transforms.scores(), transforms.place_last())
  gae = transforms.gae(gamma=0.5, lam=0.25)
  assert set(map(str, gae.needs)) == {"old/values"}
  advantages = _value(source, gae, rollout=rollout)
  # Rewards 0, 0 and 1 on the tokens 0, 2 and 3.
  close(advantages[0, 0], [0.5 + 0.125 * -1.5, 0, -1.5, 0])
  # The second sample has the reward 2 on its second token.
  close(advantages[0, 1], [0.25, 2, 0, 0])
  # Token 3 is another turn.
  gae = transforms.gae(gamma=0.5, lam=0.25, cut=True)
  advantages = _value(source, gae, rollout=rollout)
  close(advantages[0, 0], [0.5 + 0.125 * -2, 0, -2, 0])


# From one level to another.


def test_values_of_samples_are_copied_to_tokens_or_put_on_the_last_one():
  scores = transforms.scores()
  close(
    _value(scores, transforms.broadcast()),
    [[[1, 0, 1, 1], [2, 2, 0, 0], [4, 4, 4, 4], [0] * 4]],
  )
  close(
    _value(scores, transforms.place_last()),
    [[[0, 0, 0, 1], [0, 2, 0, 0], [0, 0, 0, 4], [0] * 4]],
  )
  ends = transforms.sample_ends(ROLLOUT)
  assert ends.astype(int).tolist() == [
    [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1], [0] * 4]
  ]


def test_values_of_steps_are_copied_to_tokens_or_put_on_the_last_one():
  """The second token of the first sample is not scored."""
  close(
    _value(transforms.step_scores(), transforms.broadcast_steps()),
    [[[4, 0, -1, 2], [5, 5, 0, 0], [-3, 7, 7, 7], [0] * 4]],
  )
  close(
    _value(transforms.step_scores(), transforms.place_at_step_ends()),
    [[[4, 0, -1, 2], [0, 5, 0, 0], [-3, 0, 0, 7], [0] * 4]],
  )
  ends = transforms.step_ends(ROLLOUT)
  assert ends.astype(int).tolist() == [
    [[1, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1], [0] * 4]
  ]
  # Scored tokens outside of steps have 0; steps beyond K have the last value.
  outside = ROLLOUT.replace(
    step_ids=STEP_IDS.at[0, 0, 0].set(-1).at[0, 2, 3].set(5)
  )
  copied = _value(
    transforms.step_scores(), transforms.broadcast_steps(), rollout=outside
  )
  close(copied[0, 0], [0, 0, -1, 2])
  close(copied[0, 2], [-3, 7, 7, 0])  # the third of its steps is padding


@pytest.mark.parametrize(
  ("reduction", "expected"),
  [
    (transforms.sum_steps, [5, 5, 4, 0]),
    (transforms.min_steps, [-1, 5, -3, 0]),
    (transforms.last_step, [2, 5, 7, 0]),
  ],
)
def test_steps_are_reduced_to_samples(reduction, expected):
  close(_value(transforms.step_scores(), reduction()), [expected])


def test_the_last_step_may_be_the_first_or_have_another_step_before_it():
  step_mask = jnp.array([[[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1]]], bool)
  scores = jnp.arange(10.0, 22).reshape(1, 4, 3)
  rollout = ROLLOUT.replace(step_mask=step_mask, step_scores=scores)
  last = _value(
    transforms.step_scores(), transforms.last_step(), rollout=rollout
  )
  close(last, [[10, 15, 0, 0]])


def test_tokens_are_reduced_to_samples():
  table = jnp.where(MASK, jnp.arange(16.0).reshape(1, 4, 4), NAN)
  need = scoring.provided("task", "table")
  rollout = ROLLOUT.replace(extras=ROLLOUT.extras.update({"task/table": table}))
  source = transforms.probe(need)
  total = _value(source, transforms.sum_tokens(), rollout=rollout)
  close(total, [[0 + 2 + 3, 4 + 5, 8 + 9 + 10 + 11, 0]])
  mean = _value(source, transforms.mean_tokens(), rollout=rollout)
  close(mean, [[5 / 3, 4.5, 9.5, 0]], rtol=1e-6)
