"""CARL by hand: where it branches, what a branch is worth, what is trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import scripted_batch, small_run, worked_example
from helpers.scripted_batch import ScriptedBatch

from experiments.training import placement, rollouts
from rl import methods, scoring, training_state, types
from rl.methods.sampling import carl, trees

# Sample 1 copies the first action of sample 0, and sample 3 the first two of
# sample 1. Sample 2 starts from the prompt.
CREATORS = np.array([[[0, 0, 0], [0, 1, 1], [2, 2, 2], [0, 1, 3]]])
COUNTS = np.array([[3, 3, 2, 3]])
SCORES = np.array([[1.0, 0.0, 0.5, 0.4]])
EXISTS = np.ones((1, 4), bool)

# The state of samples 1 and 3 before action 2 is worth (0 + 0.4) / 2 = 0.2;
# that of samples 0, 1 and 3 before action 1 is worth (1 + 0.2) / 2 = 0.6; and
# the prompt is worth (0.6 + 0.5) / 2 = 0.55, whatever the number of samples
# below.
VALUES = np.array(
  [
    [0.55, 0.6, 1, 1],
    [0.55, 0.6, 0.2, 0],
    [0.55, 0.5, 0.5, 0],
    [0.55, 0.6, 0.2, 0.4],
  ]
)
# Actions that were drawn for a sample, in a state with another drawn action.
TRAINED = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]], bool)
# At the tokens; action 1 of sample 0 has two tokens.
ADVANTAGES = np.array(
  [
    [0.05, 0.4, 0.4, 0],
    [0, -0.4, -0.2, 0],
    [-0.05, 0, 0, 0],
    [0, 0, 0.2, 0],
  ]
)


def tree():
  """Returns the rollout of this tree, as the sampler makes it."""
  rollout = worked_example.rollout(
    SCORES[0],
    steps=[[1, 2, 1], [1, 1, 1], [1, 3], [1, 1, 1]],
    step_mask=TRAINED[None],
    extras={"sampler/creators": CREATORS},
  )
  mask = ADVANTAGES[None] != 0
  return rollout.replace(tokens=rollout.tokens.replace(mask=mask))


@pytest.mark.worked_example("method:carl")
def test_values_and_advantages_of_a_tree():
  values = trees.state_values(SCORES, CREATORS, COUNTS, EXISTS)
  np.testing.assert_allclose(values, VALUES[None], atol=1e-6)
  actual = worked_example.advantages(methods.get("carl"), tree())
  np.testing.assert_allclose(actual[0], ADVANTAGES, atol=1e-6)


@pytest.mark.worked_example("method:carl")
def test_the_loss_is_ppo_clip_as_a_mean_over_the_trained_tokens():
  """7 of the 14 tokens are trained on; the ratio of each is clipped at 0.2."""
  old = np.full((1, 4, 4), np.log(0.2))
  rho = np.full((4, 4), 4.0)  # of tokens that are not trained on
  rho[0, :3] = [1.1, 1.3, 0.7]
  rho[1, 1:3] = [0.7, 1.3]
  rho[2, 0], rho[3, 2] = 0.9, 1.15
  m = methods.get("carl")
  loss, slopes = worked_example.loss(m, tree(), old + np.log(rho), old)
  a = ADVANTAGES
  values = np.minimum(rho * a, np.clip(rho, 0.8, 1.2) * a)
  np.testing.assert_allclose(loss, -values.sum() / 7, rtol=1e-5)
  is_clipped = ((a > 0) & (rho > 1.2)) | ((a < 0) & (rho < 0.8))
  expected = np.where(is_clipped, 0, -rho * a) / 7
  np.testing.assert_allclose(slopes[0], expected, atol=1e-6)


def test_a_sample_without_a_score_is_worth_nothing_to_the_others():
  exists = np.array([[True, False, True, True]])
  values = trees.state_values(SCORES, CREATORS, COUNTS, exists)
  # Action 1 of sample 1 is gone, and with it what is below it.
  np.testing.assert_allclose(values[0, 0], [0.75, 1, 1, 1], atol=1e-6)


@pytest.mark.worked_example("method:carl")
def test_it_branches_where_entropy_over_the_number_of_actions_is_largest():
  """The entropy of an action is the mean over its tokens."""
  batch = ScriptedBatch(
    [[2, 1, 2], [2, 1, 1], [3], [2, 1, 2]],
    [
      [-3, -3, -5, -1, -2],  # actions of 3, 5 and 1.5 nats
      [-3, -3, -2, -1.9],  # branches off before action 1
      [-1, -1, -1],  # from the prompt
      [-3, -3, -2, -1, -1],  # from sample 1, before action 2
    ],
  )
  sampler = methods.get("carl").sampler
  rollout = sampler.run(batch, "memory")
  # 1. 5 nats, before action 1 of sample 0.
  # 2. That state has (5 + 2) / 2 nats and two actions, 1.75; the prompt has 3.
  # 3. The prompt has (3 + 1) / 2 / 2 = 1; action 2 of sample 1 has 1.9.
  assert batch.calls == [([0], [2], 1), ([0], [0], 2), ([1], [3], 3)]
  creators = np.asarray(rollout.extras["sampler/creators"])
  assert creators.shape == (1, 4, 32)
  expected = [[0, 0, 0], [0, 1, 1], [2, 2, 2], [0, 1, 3]]
  np.testing.assert_array_equal(creators[0, :, :3], expected)
  trained = [[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]]
  np.testing.assert_array_equal(rollout.step_mask[0, :, :3], trained)
  assert not rollout.step_mask[..., 3:].any()
  np.testing.assert_array_equal(
    rollout.step_ids[0],
    [
      [0, 0, 1, 2, 2],
      [0, 0, 1, 2, -1],
      [0, 0, 0, -1, -1],
      [0, 0, 1, 2, 2],
    ],
  )
  np.testing.assert_array_equal(rollout.scored_lengths[0], [5, 4, 3, 5])
  m = methods.get("carl")
  np.testing.assert_array_equal(
    scripted_batch.in_loss(m, rollout)[0],
    [
      [1, 1, 1, 0, 0],
      [0, 0, 1, 1, 0],
      [1, 1, 1, 0, 0],
      [0, 0, 0, 1, 1],
    ],
  )
  assert rollout.memory == "memory"
  assert rollout.step_scores is None
  # 5 tokens, then 2, 3 and 2 that are not copies.
  assert rollout.extras["sampler/tokens"] == 12


def test_a_branch_starts_after_the_reply_of_a_tool():
  """Sample 0: an action of two tokens, a reply of two, and an action of one.

  Sample 1 copies the first four tokens, and goes on with an action of its own.
  """
  batch = ScriptedBatch([[2, 2, 1], [2, 2, 2]], [[-1, -1, 0, 0, -5], [-2] * 6])
  rollout = batch.sample("policy", 2)
  is_reply = np.isin(np.arange(6), [2, 3])
  batch.replace(
    step_ids=jnp.where(is_reply, -1, rollout.step_ids),
    tokens=rollout.tokens.replace(mask=rollout.mask & ~is_reply),
  )
  m = methods.get("carl", max_actions=3)
  rollout = m.sampler.run(batch, ())
  assert batch.calls == [([0], [4], 1)]
  np.testing.assert_array_equal(
    rollout.step_ids[0], [[0, 0, -1, -1, 1, -1], [0, 0, -1, -1, 1, 1]]
  )
  trained = scripted_batch.in_loss(m, rollout)
  np.testing.assert_array_equal(
    trained[0], [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]
  )
  # 3 tokens of sample 0, and 2 of sample 1 that are not copies.
  assert rollout.extras["sampler/tokens"] == 5


def test_initial_samples_share_the_prompt_and_late_steps_the_last_action():
  batch = ScriptedBatch(
    [[1, 1, 1], [1, 2], [1, 1, 1]], [[-1, -4, -2], [-2] * 3, [-2] * 3]
  )
  sampler = methods.get("carl", initial=2, max_actions=2).sampler
  rollout = sampler.run(batch, ())
  # Action 1 of sample 0 has two steps, with a mean of 3 nats; the prompt has
  # 1.5 nats and two actions.
  assert batch.calls == [([0], [1], 2)]
  np.testing.assert_array_equal(
    rollout.step_ids[0], [[0, 1, 1], [0, 1, 1], [0, 1, 1]]
  )
  np.testing.assert_array_equal(
    rollout.extras["sampler/creators"][0], [[0, 0], [1, 1], [0, 2]]
  )
  np.testing.assert_array_equal(
    rollout.step_mask[0], [[True, True], [True, False], [False, True]]
  )


def test_a_state_belongs_to_a_sample_that_exists():
  """Samples 0 and 1 start from the prompt; sample 0 does not exist."""
  creators = np.array([[[0, 0], [1, 1]]])
  entropies, counts = np.array([[[3.0, 1], [2, 1]]]), np.array([[2, 2]])
  exists = np.array([[False, True]])
  row, action = carl.select_state(entropies, creators, counts, exists)
  assert (row[0], action[0]) == (1, 0)


@pytest.mark.parametrize("name", ["initial", "max_actions"])
def test_hyper_parameters_are_positive(name):
  with pytest.raises(ValueError, match=f"{name} = 0 must be at least 1"):
    methods.get("carl", **{name: 0})


def test_a_task_without_steps_is_refused():
  e = small_run.experiment()
  with pytest.raises(ValueError, match="does not provide step_ids"):
    rollouts.abstract_rollout(
      e.task,
      e.policy,
      e.sampling,
      4,
      methods.get("carl"),
      placement.init_state(e).params,
      0,
    )


# A prompt and a completion have 6 + 20 tokens, of which 25 are read. The first
# decoder has other frequencies of rotary embedding for longer texts, and the
# second one has no positions for them.
@pytest.mark.parametrize(
  ("top_p", "decoder"),
  [
    (
      1.0,
      {
        "model__rope_scaling": {
          "kind": "dynamic",
          "factor": 4.0,
          "original": 8,
        }
      },
    ),
    (0.9, {"model__positions": "learned", "model__max_positions": 25}),
  ],
)
def test_branches_of_the_real_decoder(top_p, decoder):
  """A branch has the tokens, log-probs and support of its prefix."""
  e = small_run.experiment(
    task="chain(operations=2)",
    rollout__samples=6,
    rollout__top_p=top_p,
    **decoder,
  )
  method = methods.get("carl", initial=2)
  state = training_state.init(
    method, placement.init_state(e).params, e.txs, jax.random.key(0)
  )
  make = rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4, None, method)
  rollout = jax.device_get(jax.jit(make)(state))
  creators = rollout.extras["sampler/creators"]
  lengths, actions = rollout.tokens.lengths, rollout.step_ids
  arrays = [rollout.completions, rollout.behavior_log_probs]
  if top_p < 1:
    arrays.append(rollout.tokens.support)
  num_copied = 0
  for p, s in np.ndindex(4, 6):
    for t in range(lengths[p, s]):
      creator = creators[p, s, actions[p, s, t]]
      assert creator <= s
      num_copied += creator < s
      for array in arrays:
        np.testing.assert_array_equal(array[p, s, t], array[p, creator, t])
  assert num_copied
  assert (creators[:, :2] == np.arange(2)[:, None]).all()
  # No two samples that start in the same state continue with the same numbers.
  assert len({tuple(text) for text in rollout.completions.reshape(24, -1)}) > 20
  # The sampler's log-probs are those of the policy for the whole completions.
  exists = np.arange(rollout.mask.shape[-1]) < lengths[..., None]
  log_probs = scoring.read(
    e.policy,
    state.params,
    rollout.tokens.replace(mask=exists),
    [scoring.log_probs],
    types.Named(),
  )["log_probs"]
  np.testing.assert_allclose(
    log_probs[exists], rollout.behavior_log_probs[exists], atol=1e-4
  )
  assert not rollout.behavior_log_probs[~exists].any()
  # The task has scored the completions, and the trained tokens are not copies.
  total = np.where(exists, rollout.completions, 0).sum(-1)
  size = e.task.completion_length * e.task.vocab_size
  np.testing.assert_allclose(rollout.scores, total / size, rtol=1e-5)
  np.testing.assert_array_equal(rollout.mask, exists)
  trained = scripted_batch.in_loss(method, rollout)
  p, s, t = np.nonzero(trained)
  assert (creators[p, s, actions[p, s, t]] == s).all()
  assert rollout.extras["sampler/tokens"] == exists.sum() - num_copied
