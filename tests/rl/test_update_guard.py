"""Tests of `rl.update_guard`, case by case of its docstring."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rl import update_guard
from rl.update_plan import Plan

update_guard = compiled.functions(update_guard)

NAN, INF = float("nan"), float("inf")
SOUND = {"loss/total": jnp.float32(0.5)}
TOKENS = (jnp.ones((1, 2, 3), bool),)
NO_TOKENS = (jnp.zeros((1, 2, 3), bool),)


def _first_bad(rollout):
  check = update_guard.check_scores(rollout)
  return int(check.prompt_id), int(check.sample)


def test_the_first_sample_whose_score_is_not_finite_is_found():
  """In the order of the array; a prompt is named by its id."""
  scores = np.zeros((3, 4))
  ids = jnp.array([7, 8, 9])
  clean = worked_example.rollout(scores, prompt_ids=ids)
  assert _first_bad(clean) == (-1, -1)
  assert bool(update_guard.check_scores(clean).passes)
  for value in (NAN, INF, -INF):
    bad = scores.copy()
    bad[1, 3] = bad[2, 0] = value
    rollout = worked_example.rollout(bad, prompt_ids=ids)
    assert _first_bad(rollout) == (8, 3)
    assert not bool(update_guard.check_scores(rollout).passes)


def test_a_sample_that_does_not_exist_is_not_looked_at():
  scores = np.array([[0.0, NAN, 0.0, NAN]])
  mask = jnp.array([[True, False, True, True]])
  assert _first_bad(worked_example.rollout(scores, sample_mask=mask)) == (0, 3)
  mask = mask.at[0, 3].set(False)
  assert _first_bad(worked_example.rollout(scores, sample_mask=mask)) == (
    -1,
    -1,
  )


def test_step_scores_count_where_there_is_a_step():
  rollout = worked_example.rollout(
    [0.0, 0.0],
    steps=[[1, 2], [3]],
    step_scores=[[0.5, 0.5], [0.5]],
  )
  padding = rollout.step_scores.at[0, 1, 1].set(NAN)
  assert _first_bad(rollout.replace(step_scores=padding)) == (-1, -1)
  last = rollout.step_scores.at[0, 0, 1].set(NAN)
  assert _first_bad(rollout.replace(step_scores=last)) == (0, 0)


def test_a_check_that_passes_gives_way_to_the_other():
  sound = update_guard.ScoreCheck(jnp.int32(-1), jnp.int32(-1))
  first = update_guard.ScoreCheck(jnp.int32(4), jnp.int32(0))
  second = update_guard.ScoreCheck(jnp.int32(5), jnp.int32(1))
  assert int(sound.otherwise(second).prompt_id) == 5
  assert int(first.otherwise(second).prompt_id) == 4
  assert first.metrics() == {"guard/bad_prompt": 4, "guard/bad_sample": 0}


@pytest.mark.parametrize(
  ("change", "expected"),
  [
    ({}, True),
    ({"metrics": {"loss/total": jnp.float32(NAN)}}, False),
    ({"metrics": {**SOUND, "policy/ratio_mean": jnp.float32(3)}}, True),
    ({"metrics": {**SOUND, "policy/ratio_mean": jnp.float32(3.5)}}, False),
    ({"masks": NO_TOKENS}, False),
    ({"masks": NO_TOKENS + TOKENS}, True),
  ],
)
def test_an_update_is_sound_unless_one_of_the_cases_holds(change, expected):
  """The limit of the mean ratio, 3 here, is allowed itself."""
  arguments = {
    "metrics": SOUND,
    "masks": TOKENS,
    "plan": Plan(max_mean_ratio=3.0),
  }
  sound = update_guard.is_sound(**{**arguments, **change})
  assert bool(sound) is expected


def test_a_condition_selects_all_leaves_of_a_tree():
  new, old = (
    {"a": jnp.ones(2), "b": jnp.ones(())},
    {
      "a": jnp.zeros(2),
      "b": jnp.zeros(()),
    },
  )
  for condition, expected in ((True, 1.0), (False, 0.0)):
    tree = update_guard.select(jnp.asarray(condition), new, old)
    assert float(tree["a"].sum() / 2) == float(tree["b"]) == expected
