"""TreeRPO by hand: the tree, the values of its nodes, what is trained."""

import inspect

import jax
import numpy as np
import pytest
from helpers import scripted_batch, small_run, worked_example
from helpers.scripted_batch import ScriptedBatch

from experiments.training import placement, rollouts
from rl import methods, training_state

# A tree of width 2 and depth 2: samples 0 and 1 start from the prompt, sample 2
# copies the first segment of sample 0, and sample 3 that of sample 1.
CREATORS = np.array([[[0, 0], [1, 1], [0, 2], [1, 3]]])
SCORES = np.array([1.0, 0.0, 0.0, 0.0])
LENGTHS = [3, 4, 4, 3]  # a segment has two tokens
DRAWN = np.array([[1, 1], [1, 1], [0, 1], [0, 1]], bool)
# Nodes of 1/2 and 0 after the first segment; the prompt is worth 1/4.
ROOT = np.sqrt(0.25 * 0.75)
ADVANTAGES = np.array(
  [
    [0.25 / ROOT, 0.25 / ROOT, 1, 0],
    [-0.25 / ROOT, -0.25 / ROOT, 0, 0],
    [0, 0, -1, -1],
    [0, 0, 0, 0],
  ]
)
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 0]], bool)
SETTINGS = {"width": 2, "depth": 2, "segment": 2}


def tree(scores=SCORES):
  """Returns the rollout of this tree, as the sampler makes it."""
  rollout = worked_example.rollout(
    scores,
    steps=[[2, 1], [2, 2], [2, 2], [2, 1]],
    step_mask=DRAWN[None],
    extras={"sampler/creators": CREATORS},
  )
  return rollout.replace(tokens=rollout.tokens.replace(mask=MASK[None]))


@pytest.mark.worked_example("method:treerpo")
def test_advantages_of_a_tree():
  m = methods.get("treerpo", **SETTINGS)
  actual = worked_example.advantages(m, tree())
  np.testing.assert_allclose(actual[0] * MASK, ADVANTAGES, rtol=1e-5)
  # Children of equal values: those of sample 1's node, and all at 1/2.
  equal = worked_example.advantages(m, tree(np.array([1.0, 1, 0, 0])))
  expected = np.zeros((4, 4))
  expected[0, 2], expected[1, 2:], expected[2, 2:], expected[3, 2] = (
    1,
    1,
    -1,
    -1,
  )
  np.testing.assert_allclose(equal[0] * MASK, expected, atol=1e-5)


def test_default_settings():
  """Eight children, three levels, and 1,152 tokens in three segments."""
  parameters = inspect.signature(methods.factory("treerpo")).parameters
  assert {name: p.default for name, p in parameters.items()} == {
    "width": 8,
    "depth": 3,
    "segment": 384,
    "clip": 0.2,
  }


@pytest.mark.parametrize("scores", [[4.0, 2, 1, 1], [-4.0, -2, -1, -1]])
def test_values_outside_of_0_and_1_are_not_trained_on(scores):
  m = methods.get("treerpo", **SETTINGS)
  actual = worked_example.advantages(m, tree(np.array(scores)))
  np.testing.assert_array_equal(actual[0] * MASK, np.zeros((4, 4)))


@pytest.mark.worked_example("method:treerpo")
def test_the_loss_is_ppo_clip_as_a_mean_over_the_drawn_tokens():
  """10 of the 14 tokens are drawn for their sample."""
  old = np.full((1, 4, 4), np.log(0.2))
  rho = np.full((4, 4), 4.0)  # of tokens that are not trained on
  rho[0, :3] = [1.1, 1.3, 0.7]
  rho[1] = [0.7, 0.9, 1, 1]
  rho[2, 2:] = [1.3, 0.7]
  loss, slopes = worked_example.loss(
    methods.get("treerpo", **SETTINGS), tree(), old + np.log(rho), old
  )
  a = ADVANTAGES
  values = np.minimum(rho * a, np.clip(rho, 0.8, 1.2) * a)
  np.testing.assert_allclose(loss, -values.sum() / 10, rtol=1e-5)
  is_clipped = ((a > 0) & (rho > 1.2)) | ((a < 0) & (rho < 0.8))
  expected = np.where(is_clipped, 0, -rho * a) / 10
  np.testing.assert_allclose(slopes[0], expected, atol=1e-6)


def test_every_node_gets_further_children():
  """Width 2, depth 3, segments of two tokens."""
  batch = ScriptedBatch([[6], [6], [5], [7], [6], [6], [6], [6]])
  m = methods.get("treerpo", width=2, depth=3, segment=2)
  rollout = m.sampler.run(batch, "memory")
  assert batch.calls == [
    ([0, 1], [2, 2], 2),
    ([0, 1, 2, 3], [4, 4, 4, 4], 4),
  ]
  np.testing.assert_array_equal(
    rollout.extras["sampler/creators"][0],
    [
      *([0, 0, 0], [1, 1, 1], [0, 2, 2], [1, 3, 3]),
      *([0, 0, 4], [1, 1, 5], [0, 2, 6], [1, 3, 7]),
    ],
  )
  # The last segment has all tokens that are left.
  np.testing.assert_array_equal(
    rollout.step_ids[0, 2:4], [[0, 0, 1, 1, 2, -1, -1], [0, 0, 1, 1, 2, 2, 2]]
  )
  # Samples of 5 to 7 tokens, of which these were drawn for them.
  trained = scripted_batch.in_loss(m, rollout)
  np.testing.assert_array_equal(trained[0].sum(-1), [6, 6, 3, 5, 2, 2, 2, 2])
  np.testing.assert_array_equal(
    rollout.scored_lengths[0], [6, 6, 5, 7, 6, 6, 6, 6]
  )
  assert rollout.extras["sampler/tokens"] == 28
  assert rollout.memory == "memory"
  assert rollout.sample_mask.all()


def test_nothing_branches_from_a_sample_that_has_ended():
  """Sample 0 ends with its first segment, and sample 3 with its second."""
  batch = ScriptedBatch([[2], [6], [2], [4], [2], [6], [2], [4]])
  m = methods.get("treerpo", width=2, depth=3, segment=2)
  rollout = m.sampler.run(batch, ())
  assert batch.calls[1] == ([0, 1, 2, 3], [2, 4, 0, 4], 4)
  exists = np.array([1, 1, 0, 1, 0, 1, 0, 0], bool)
  np.testing.assert_array_equal(rollout.sample_mask[0], exists)
  np.testing.assert_array_equal(
    rollout.step_mask[0],
    [
      *([1, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0]),
      *([0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]),
    ],
  )
  # What is decoded after an end does not exist.
  lengths = [2, 6, 0, 4, 0, 6, 0, 0]
  np.testing.assert_array_equal(rollout.tokens.lengths[0], lengths)
  np.testing.assert_array_equal(rollout.scored_lengths[0], lengths)
  # 2 tokens, 6, 2 of sample 3 and 2 of sample 5.
  assert rollout.extras["sampler/tokens"] == 12


def test_rewards_read_the_copies_too():
  """A price of 1 per token beyond 4, and 5 in the text of a sample."""
  rollout = methods.get("treerpo", **SETTINGS).sampler.run(
    ScriptedBatch([[6], [4], [6], [5]]), ()
  )
  charge = worked_example.reward("length_charge", rollout, free=4, price=1.0)
  np.testing.assert_array_equal(charge[0], [-2, 0, -2, -1])
  texts = np.zeros((1, 4, 6), int)
  texts[0, 0, 1] = texts[0, 2, 1] = 5  # in the segment that sample 2 copies
  texts[0, 1, 3] = 5  # in the other segment of sample 1
  texts[0, 3, 5] = 5  # after the end of sample 3
  tokens = rollout.tokens.replace(completions=texts)
  says = worked_example.reward(
    "says", rollout.replace(tokens=tokens), phrases=(((5,),),)
  )
  np.testing.assert_array_equal(says[0], [1, 1, 1, 0])


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"width": 1}, "width = 1 must be at least 2"),
    ({"depth": 0}, "depth = 0 must be at least 1"),
    ({"segment": 0}, "segment = 0 must be at least 1"),
  ],
)
def test_settings_are_checked(settings, message):
  with pytest.raises(ValueError, match=message):
    methods.get("treerpo", **settings)


def test_trees_of_the_real_decoder():
  """Four leaves; another number of samples is refused."""
  e = small_run.experiment(task="chain(operations=2)", rollout__samples=4)
  method = methods.get("treerpo", width=2, depth=2, segment=3)
  state = training_state.init(
    method, placement.init_state(e).params, e.txs, jax.random.key(0)
  )
  make = rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4, None, method)
  rollout = jax.device_get(jax.jit(make)(state))
  goes_on = rollout.tokens.lengths[:, :2] > 3
  assert goes_on.sum() >= 4
  np.testing.assert_array_equal(rollout.sample_mask[:, 2:], goes_on)
  for array in (rollout.completions, rollout.behavior_log_probs):
    parents, children = (array[:, rows][goes_on] for rows in ([0, 1], [2, 3]))
    np.testing.assert_array_equal(parents[:, :3], children[:, :3])
    assert (parents[:, 3:] != children[:, 3:]).any(-1).sum() >= 3
  with pytest.raises(ValueError, match=r"rollout.samples = 4 must be .* = 9"):
    rollouts.abstract_rollout(
      *(e.task, e.policy, e.sampling, 4),
      *(
        methods.get("treerpo", width=3, depth=2),
        placement.init_state(e).params,
        0,
      ),
    )
