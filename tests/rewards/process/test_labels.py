"""Labels of steps: continuations, counts, binary search, exact rules."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.process import continuations, labels
from rl import types
from rl.sampling import generation


@pytest.mark.parametrize(
  ("settings", "values"), [((), [1, 0, 1]), ((2,), [0, 0, 1])]
)
def test_one_success_is_enough_by_default(settings, values):
  successes = jnp.array([[[[1, 0], [0, 0], [1, 1]]]], bool)
  mask = jnp.ones((1, 1, 3), bool)
  result = labels.hard_labels(successes, mask, *settings)
  np.testing.assert_array_equal(result.values[0, 0], values)
  with pytest.raises(ValueError, match=r"least = 0.*nearest valid value is 1"):
    labels.hard_labels(successes, mask, 0)


@pytest.mark.parametrize(
  ("settings", "errors", "prefixes"),
  [
    ((), [[2, -1], [-1, 0]], [[2, 1], [1, 2]]),
    ((2,), [[1, 2], [0, 0]], [[3, 2], [1, 2]]),
  ],
)
def test_a_step_with_just_enough_successes_is_not_hopeless(
  settings, errors, prefixes
):
  """Successes of two continuations, after 3, 3, 1 and 2 steps."""
  counts = np.array([[2, 1, 0], [2, 2, 1], [1, 0, 0], [0, 0, 0]])
  mask = np.arange(3) < np.array([[[3], [3]], [[1], [2]]])
  looks = []

  def evaluate(rows, steps):
    looks.append(len(rows))
    assert len(looks) < 9
    return np.arange(2) < counts[rows, steps][:, None]

  first, evaluated = labels.first_error_by_binary_search(
    evaluate, mask, *settings
  )
  np.testing.assert_array_equal(first, errors)
  np.testing.assert_array_equal(evaluated, prefixes)
  with pytest.raises(ValueError, match=r"least = 3.*between 1 and 2"):
    labels.first_error_by_binary_search(evaluate, mask, 3)


@pytest.mark.parametrize("capacity", [1, 2, 7, 8])
def test_binary_search_finds_what_a_scan_finds(capacity):
  """Every monotone sequence of every length, in 1 + ceil(log2 n) looks."""
  cases = [(n, e) for n in range(capacity + 1) for e in range(n + 1)]
  lengths, errors = np.array(cases).T
  mask = np.arange(capacity) < lengths[:, None]
  looks = []

  def evaluate(rows, steps):
    assert mask[rows, steps].all()
    looks.append(len(rows))
    return np.repeat((steps < errors[rows])[:, None], 3, -1)

  first, requested = labels.first_error_by_binary_search(evaluate, mask[None])
  want = np.where(errors < lengths, errors, -1)
  np.testing.assert_array_equal(first[0], want)
  bound = 1 + np.ceil(np.log2(np.maximum(lengths, 1)))
  assert (requested[0] <= np.where(lengths, bound, 0)).all()
  assert (requested[0][(want < 0) & (lengths > 0)] == 1).all()
  assert len(looks) <= 1 + math.ceil(math.log2(capacity))
  assert sum(looks) == requested.sum()


def test_labels_up_to_the_first_error():
  """An error in step 0, 2 and 1 of 3, 4 and 2 steps, and one of none in 2."""
  mask = np.arange(4) < np.array([[[3], [4]], [[2], [2]]])
  result = labels.from_first_error(jnp.array([[0, 2], [-1, 1]]), mask)
  values = [[[0, 0, 0, 0], [1, 1, 0, 0]], [[1, 1, 0, 0], [1, 0, 0, 0]]]
  weights = [[[1, 0, 0, 0], [1, 1, 1, 0]], [[1, 1, 0, 0], [1, 1, 0, 0]]]
  np.testing.assert_array_equal(result.values, values)
  np.testing.assert_array_equal(result.weights, weights)


def test_a_step_without_a_label_is_no_error():
  """The first label of 0 is that of step 3; step 1 has no label."""
  labelled = labels.Labels(
    values=jnp.array([[[1, 0, 1, 0, 1, 1.0]]]),
    weights=jnp.array([[[0.5, 0, 0.25, 0.75, 3, 0]]]),
  )
  result = labels.drop_after_error(labelled)
  np.testing.assert_array_equal(result.values, labelled.values)
  np.testing.assert_array_equal(result.weights, [[[0.5, 0, 0.25, 0.75, 0, 0]]])


def test_exact_labels_and_what_follows_an_error():
  scores = jnp.array([[[1.0, -1.0, 1.0, 9.0], [0.5, 0.0, jnp.nan, jnp.nan]]])
  mask = jnp.array([[[True, True, True, False], [True, True, False, False]]])
  result = labels.from_checker(scores, mask)
  np.testing.assert_array_equal(result.values[0], [[1, 0, 1, 0], [1, 0, 0, 0]])
  np.testing.assert_array_equal(result.weights, mask)
  remaining = labels.drop_after_error(result)
  np.testing.assert_array_equal(
    remaining.weights[0], [[1, 1, 0, 0], [1, 1, 0, 0]]
  )


def test_a_hard_label_asks_for_its_successes():
  """P(label = 1) over all outcomes of M fair continuations is binomial."""
  M = 5
  outcomes = np.array(list(itertools.product([False, True], repeat=M)))
  mask = np.ones((1, 1, 2**M), bool)
  for minimum in range(1, M + 1):
    result = labels.hard_labels(outcomes[None, None], mask, minimum)
    tail = sum(math.comb(M, i) for i in range(minimum, M + 1)) / 2**M
    assert result.values.mean() == pytest.approx(tail)
  with pytest.raises(
    ValueError, match=r"least = 6.*between 1 and 5.*nearest valid value is 5"
  ):
    labels.hard_labels(outcomes[None, None], mask, 6)


class Table:
  """A Markov policy on {0 pad, 1 EOS, 2 lost, 3 well}; success: never lost.

  Well goes on with chance 1/2, is lost or ends with 1/4 each; lost stays lost
  or ends. So the chance of success is known by counting.
  """

  law = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 2, 2, 0], [0, 1, 1, 2]]) / [
    [1],
    [1],
    [4],
    [4],
  ]
  sampling = generation.Sampling(
    samples=256, max_tokens=5, eos_ids=(1,), pad_id=0
  )

  @classmethod
  def policy(cls):
    logits = jnp.log(jnp.asarray(cls.law, jnp.float32))
    return types.Policy(
      score=None,
      prefill=lambda params, prompts, mask, samples, capacity: (
        logits[prompts[:, -1]],
        (),
      ),
      decode=lambda params, tokens, t, cache: (logits[tokens], cache),
    )

  @staticmethod
  def chance(state, capacity):
    """Returns the chance of success from a state with some tokens left."""
    total = 0.0
    for length in range(1, capacity + 1):
      for path in itertools.product((2, 3), repeat=length - 1):
        steps = [state, *path, 1]
        if state != 2 and 2 not in path:
          total += math.prod(
            Table.law[a, b] for a, b in itertools.pairwise(steps)
          )
    return total

  @staticmethod
  def judge(prompts, completions, lengths, finished):
    return finished & (completions != 2).all(-1)


@pytest.fixture(scope="module")
def counts():
  """Rollouts of the table whose every token is a step, and their successes."""
  completions = jnp.array(
    [
      [[3, 3, 3, 3, 3], [3, 1, 0, 0, 0], [3, 3, 2, 1, 0]],
      [[2, 2, 1, 0, 0], [3, 3, 3, 3, 1], [3, 2, 2, 2, 2]],
    ]
  )
  mask = completions != 0
  finished = (completions == 1).any(-1)
  correct = Table.judge(None, completions, None, finished)
  rollout = types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.array([[0, 3], [3, 3]]),
      prompt_mask=jnp.array([[False, True], [True, True]]),
      completions=completions,
      lengths=mask.sum(-1),
      mask=mask,
    ),
    sample_mask=jnp.ones((2, 3), bool),
    behavior_log_probs=jnp.zeros((2, 3, 5)),
    finished=finished,
    scores=correct.astype(jnp.float32),
    correct=correct.astype(jnp.int8),
    prompt_ids=jnp.arange(2),
    keys=jax.random.split(jax.random.key(0), 2),
    step=jnp.int32(0),
    step_ids=jnp.where(mask, jnp.arange(5), -1),
    step_mask=mask,
  )
  evaluate = continuations.evaluator(
    Table.policy(), (), rollout, Table.judge, Table.sampling, batch=8
  )
  return rollout, evaluate, labels.monte_carlo(evaluate, mask)


def test_prefixes_are_prompts_padded_on_the_left(counts):
  tokens = counts[0].tokens
  result, mask = continuations.prefix_prompts(
    tokens, jnp.array([2, 4]), jnp.array([3, 1])
  )
  np.testing.assert_array_equal(result[0], [0, 0, 0, 3, 3, 3, 2])
  np.testing.assert_array_equal(mask[0], [False] * 3 + [True] * 4)
  np.testing.assert_array_equal(result[1], [0, 0, 0, 0, 3, 3, 3])
  np.testing.assert_array_equal(mask[1], [False] * 4 + [True] * 3)


def test_completions_continue_their_prefix(counts):
  rollout = counts[0]
  rows, remaining = jnp.array([0, 4, 5]), jnp.array([2, 4, 1])
  completions, lengths, finished = jax.jit(
    lambda keys: continuations.complete(
      Table.policy(), (), rollout.tokens, rows, remaining, keys, Table.sampling
    )
  )(jax.random.split(jax.random.key(1), 3))
  arguments = rollout.completions.reshape(6, 5)[rows]
  for i, cut in enumerate(remaining):
    assert (completions[i, :, :cut] == arguments[i, :cut]).all()
  ended = (completions == 1).any(-1)
  np.testing.assert_array_equal(finished, ended)
  np.testing.assert_array_equal(lengths, (completions != 0).sum(-1))
  assert (lengths[~finished] == 5).all()  # cut by the room alone
  assert finished.any()
  assert not finished.all()


def test_monte_carlo_labels_estimate_the_enumerated_chance(counts):
  rollout, _, successes = counts
  M = successes.shape[-1]
  soft = labels.soft_labels(successes, rollout.step_mask)
  hard = labels.hard_labels(successes, rollout.step_mask)
  for p, s, k in zip(*np.nonzero(rollout.step_mask), strict=True):
    tokens = np.asarray(rollout.completions[p, s])
    full = k + 1 == rollout.tokens.lengths[p, s]
    lost = (tokens[: k + 1] == 2).any()
    exact = 0.0 if lost else Table.chance(tokens[k], 4 - k)
    if full:
      exact = float(rollout.correct[p, s])
    error = math.sqrt(exact * (1 - exact) / M)
    assert soft.values[p, s, k] == pytest.approx(exact, abs=4 * error)
    assert hard.values[p, s, k] == (exact > 0)
    assert soft.weights[p, s, k] == 1
  assert (soft.weights.sum(-1) == rollout.tokens.lengths).all()


def test_a_prefix_has_the_same_continuations_in_any_batch(counts):
  _, evaluate, successes = counts
  rows, steps = np.array([3, 0, 4, 0]), np.array([0, 3, 1, 0])
  np.testing.assert_array_equal(
    evaluate(rows, steps), successes.reshape(6, 5, -1)[rows, steps]
  )


def test_search_and_count_agree_on_the_same_continuations(counts):
  rollout, evaluate, successes = counts
  mask = rollout.step_mask
  hard = labels.drop_after_error(labels.hard_labels(successes, mask))
  first, _ = labels.first_error_by_binary_search(evaluate, mask)
  result = labels.from_first_error(first, mask)
  np.testing.assert_array_equal(result.values, hard.values)
  np.testing.assert_array_equal(result.weights, hard.weights)
