"""Rollouts: what samplers ask for, and how its results are put together.

The policy is a function that returns given samples, so that every number is
known.
"""

import dataclasses
import itertools
import types as python_types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example
from helpers.rollout_parts import (
  assert_keys,
  clocked_timer,
  fold,
  problems,
  rollout_state,
)

from experiments import tasks
from experiments.tasks.task import Judged
from experiments.training import drawing, rollouts
from rl import types
from rl.sampling import generation, samplers

# Number of the key of a prompt that no sample has (the largest int32).
LAST = np.iinfo(np.int32).max
PAD = 9
SAMPLING = generation.Sampling(3, 4, eos_ids=(1,), pad_id=PAD)


def sampled():
  """Three samples of two prompts, with at most four tokens."""
  tokens = 20 + np.arange(24, dtype=np.int32).reshape(2, 3, 4)
  rollout = worked_example.rollout(
    np.zeros((2, 3)),
    [[4, 2, 3], [1, 4, 4]],
    behavior_log_probs=-1.0 - np.arange(24.0).reshape(2, 3, 4),
    sample_mask=np.array([[True, True, False], [True, True, True]]),
    prompt_ids=np.array([40, 50], np.int32),
    step=np.int32(5),
  )
  return rollout.replace(
    tokens=rollout.tokens.replace(
      prompts=problems().prompts,
      prompt_mask=problems().prompt_mask,
      completions=tokens,
      support=np.arange(48, dtype=np.uint32).reshape(2, 3, 4, 2),
    )
  )


def samples(n, m, lengths, support=False):
  """The given number of samples of n prompts, whose tokens count from 60."""
  size = n * m * 4
  return generation.Samples(
    completions=60 + np.arange(size, dtype=np.int32).reshape(n, m, 4),
    lengths=np.asarray(lengths, np.int32).reshape(n, m),
    log_probs=-100.0 - np.arange(size, dtype=np.float32).reshape(n, m, 4),
    finished=np.arange(n * m).reshape(n, m) % 5 != 1,
    support=1000 + np.arange(2 * size, dtype=np.uint32).reshape(n, m, 4, 2)
    if support
    else None,
  )


def run(ask, result, scored=None):
  """Runs a sampler that asks once, on a policy that samples the result.

  Args:
    ask: `(batch, before) -> rollout`, the sampler, with the rollout `sampled`.
    result: the samples that the policy returns.
    scored: the samples that the task scored, see `Judged`.

  Returns:
    The rollout; the arguments of the policy and of the score, by name; and the
    keys of the prompts.
  """
  keys = jax.random.split(jax.random.key(3), 2)
  calls = {}

  @jax.jit
  def make(before, result, keys):
    arrays = {}

    def run_sampler(batch, memory):
      return ask(batch, before)

    class Batch(drawing.Batch):
      """Records what is asked for, and returns the given result."""

      def generate(
        self,
        params,
        prompts,
        prompt_mask,
        keys,
        sampling,
        first=0,
        active=None,
        environment=None,
        facts=(),
      ):
        assert (environment, facts) == (None, ())
        calls.update(params=params, sampling=sampling, first=first)
        arrays.update(prompts=prompts, mask=prompt_mask, keys=keys)
        calls["is_active"] = active is not None
        if active is not None:
          arrays["active"] = active
        return result

      def score(self, completions, lengths, finished):
        arrays.update(texts=completions, lengths=lengths, finished=finished)
        number = jnp.arange(lengths.size).reshape(lengths.shape)
        return Judged(
          scores=number / 2,
          correct=number % 3 - 1,
          answer_ids=number,
          scored=scored,
        )

    rollout = rollouts.sample_rollout(
      Batch(
        python_types.SimpleNamespace(
          answer_cue=(),
          environment=None,
          check_single_turn=lambda purpose: None,
        ),
        types.Policy(None, None, None),
        problems(),
      ),
      sampler=samplers.Sampler("asks", run_sampler),
      memory=(),
      params="policy",
      parameter_sets={},
      sampling=SAMPLING,
      keys=keys,
      step=np.int32(5),
    )
    return rollout, arrays

  rollout, arrays = make(sampled(), result, keys)
  return rollout, calls | arrays, keys


def test_a_sample_is_put_together_from_the_problem_and_its_score():
  result = samples(2, 2, [[4, 1], [2, 3]])
  rollout, calls, keys = run(
    lambda batch, before: batch.sample("other", 2), result
  )
  assert calls["params"] == "other"
  assert (calls["first"], calls["is_active"]) == (0, False)
  assert calls["sampling"] == dataclasses.replace(SAMPLING, samples=2)
  np.testing.assert_array_equal(
    rollout.mask,
    [
      [[True, True, True, True], [True, False, False, False]],
      [[True, True, False, False], [True, True, True, False]],
    ],
  )
  np.testing.assert_array_equal(rollout.scores, [[0.0, 0.5], [1.0, 1.5]])
  np.testing.assert_array_equal(rollout.correct, [[-1, 0], [1, -1]])
  assert rollout.correct.dtype == jnp.int8
  np.testing.assert_array_equal(
    rollout.extras["task/answer_ids"], [[0, 1], [2, 3]]
  )
  np.testing.assert_array_equal(rollout.prompt_ids, [40, 50])
  assert rollout.sample_mask.all()
  assert_keys(rollout.keys, [fold(key, LAST) for key in keys])


def test_a_temperature_turns_the_truncations_off():
  sampling = dataclasses.replace(SAMPLING, top_k=2, top_p=0.5, min_p=0.25)
  assert rollouts._with_samples(sampling, 7) == dataclasses.replace(
    sampling, samples=7
  )
  # 1 for top-p and 0 for the others keep all tokens.
  assert rollouts._with_samples(sampling, 7, 0.5) == dataclasses.replace(
    SAMPLING, samples=7, temperature=0.5
  )


# The number of tokens in the prefix of each sample.
PREFIXES = np.array([[0, 1, 2], [1, 3, 4]], np.int32)


@pytest.mark.parametrize("scored", [None, (0, 7)])
def test_continuations_are_scored_with_their_prefixes(scored):
  """Two continuations of a prefix of each of the six samples."""
  lengths = [[4, 4], [3, 4], [2, 4], [4, 1], [1, 2], [1, 4]]
  result = samples(6, 2, lengths, support=True)
  if scored is not None:
    scored = ~np.isin(np.arange(12), scored).reshape(2, 6)
  before = sampled()
  active = np.array([[True, False, True], [True, True, False]])

  def ask(batch, before):
    is_active = None if scored is None else active
    return batch.extend("other", before, PREFIXES, 2, is_active)

  rollout, calls, keys = run(ask, result, scored)
  assert (calls["params"], calls["first"]) == ("other", 0)
  # A text has room for 2 tokens of a prompt and 4 of a completion.
  assert calls["sampling"] == dataclasses.replace(
    SAMPLING, samples=2, max_length=6
  )
  if scored is not None:
    np.testing.assert_array_equal(
      calls["active"], [[x, x] for x in active.ravel()]
    )
  else:
    assert not calls["is_active"]

  prompts = [[7], [5, 6]]
  expected_keys = []
  rows = itertools.product(range(2), range(3))
  for row, (p, s) in enumerate(rows):
    length = PREFIXES[p, s]
    prefix = before.completions[p, s, :length].tolist()
    text = prompts[p] + prefix
    np.testing.assert_array_equal(
      rollout.tokens.prompts[row], [0] * (6 - len(text)) + text
    )
    np.testing.assert_array_equal(
      rollout.tokens.prompt_mask[row], np.arange(6) >= 6 - len(text)
    )
    expected_keys.append(fold(fold(keys[p], LAST - 1 - s), length))
    for m in range(2):
      column = 2 * s + m
      added = result.completions[row, m, : lengths[row][m]].tolist()
      text = (prefix + added)[:4]
      np.testing.assert_array_equal(
        calls["texts"][p, column], text + [PAD] * (4 - len(text))
      )
      assert calls["lengths"][p, column] == len(text)
      is_whole = result.finished[row, m] and len(prefix + added) <= 4
      assert calls["finished"][p, column] == is_whole
      assert rollout.finished[row, m] == is_whole
      # Tokens of the continuation beyond the fourth of the text are cut off.
      count = len(text) - len(prefix)
      assert rollout.tokens.lengths[row, m] == count
      np.testing.assert_array_equal(rollout.mask[row, m], np.arange(4) < count)
      number = 6 * p + column
      assert rollout.scores[row, m] == number / 2
      assert rollout.correct[row, m] == number % 3 - 1
      is_scored = True if scored is None else scored[p, column]
      assert rollout.sample_mask[row, m] == (is_scored and (p, s) != (0, 2))
  assert_keys(rollout.keys, expected_keys)
  np.testing.assert_array_equal(rollout.extras["sampler/drawn"], lengths)
  np.testing.assert_array_equal(rollout.prompt_ids, [40] * 3 + [50] * 3)
  assert (rollout.step, rollout.tokens.max_length) == (5, 6)
  assert (rollout.scores.dtype, rollout.correct.dtype) == ("float32", "int8")


@pytest.mark.parametrize("support", [True, False])
def test_a_branch_keeps_the_prefix_of_a_sample(support):
  """Two further samples of each prompt, numbers 3 and 4."""
  rows = np.array([[2, 0], [1, 1]], np.int32)
  cuts = np.array([[2, 0], [3, 1]], np.int32)
  lengths = [[1], [4], [3], [2]]
  result = samples(4, 1, lengths, support)
  before = sampled()
  rollout, calls, keys = run(
    lambda batch, before: batch.branch("other", before, rows, cuts, 3), result
  )
  assert (calls["params"], calls["first"]) == ("other", 0)
  assert not calls["is_active"]
  assert calls["sampling"] == dataclasses.replace(
    SAMPLING, samples=1, max_length=6
  )
  assert_keys(
    calls["keys"],
    [fold(keys[p], LAST - 1 - 3 - b) for p in range(2) for b in range(2)],
  )
  np.testing.assert_array_equal(
    calls["mask"].sum(-1), [1 + 2, 1 + 0, 2 + 3, 2 + 1]
  )
  np.testing.assert_array_equal(
    calls["prompts"][0], [0, 0, 0, 7, *before.completions[0, 2, :2]]
  )

  def joined(old, new, fill):
    """Prefixes of old, followed by new, and filled up to four tokens."""
    texts = []
    for n, (p, b) in enumerate(itertools.product(range(2), range(2))):
      text = [*old[p, rows[p, b], : cuts[p, b]], *new[n, 0, : lengths[n][0]]]
      texts.append((text + [fill] * 4)[:4])
    return np.reshape(texts, (2, 2, 4, *np.shape(old)[3:]))

  texts = joined(before.completions, result.completions, PAD)
  np.testing.assert_array_equal(rollout.completions, texts)
  np.testing.assert_array_equal(calls["texts"], texts)
  np.testing.assert_array_equal(rollout.tokens.lengths, [[3, 4], [4, 3]])
  np.testing.assert_array_equal(
    rollout.finished, [[True, False], [False, True]]
  )
  np.testing.assert_array_equal(
    rollout.behavior_log_probs,
    joined(before.behavior_log_probs, result.log_probs, 0.0),
  )
  if support:
    none = np.zeros(2, np.uint32)
    np.testing.assert_array_equal(
      rollout.tokens.support,
      joined(before.tokens.support, result.support, none),
    )
  else:
    assert rollout.tokens.support is None
  np.testing.assert_array_equal(rollout.prompt_ids, [40, 50])


def test_the_time_of_a_score_is_not_part_of_the_time_of_a_rollout(monkeypatch):
  """It starts at 10, scores from 13 to 15 and from 18 to 22, ends at 27."""
  judged = Judged(
    scores=np.zeros((2, 1), np.float32),
    correct=np.zeros((2, 1), np.int8),
    answer_ids=np.zeros((2, 1), np.int32),
  )
  task = python_types.SimpleNamespace(
    train=lambda key, step, n: problems(),
    score=lambda problems, *texts: judged,
    jittable=False,
    answer_cue=(),
    environment=None,
  )
  policy = types.Policy(None, None, None)
  result = jax.tree.map(jnp.asarray, samples(2, 1, [1, 2]))
  monkeypatch.setattr(drawing, "generate", lambda *arguments: result)

  def twice(batch, memory):
    batch.sample(batch.params, 1)
    return batch.sample(batch.params, 1)

  method = python_types.SimpleNamespace(
    behavior="policy", sampler=samplers.Sampler("twice", twice)
  )
  make = rollouts.make_host_rollout_fn(task, policy, SAMPLING, 2, None, method)
  # The state is ready when the clock starts.
  timer = clocked_timer(monkeypatch, 10, 10, 13, 15, 18, 22, 27)
  rollout = make(rollout_state(), timer)
  assert timer.state_ready == 10.0
  assert timer.metrics == {
    "time/rollout_s": 17.0 - 2.0 - 4.0,
    "time/score_s": 6.0,
  }
  np.testing.assert_array_equal(rollout.mask.sum(-1), [[1], [2]])


def test_the_shapes_of_a_rollout_are_known_before_it_is_drawn():
  """A sampler may draw with the parameters of the method, by their names."""

  def shapes_of(sampling, method):
    return rollouts.abstract_rollout(
      tasks.get("countdown", count=2),
      *(types.Policy(None, None, None), sampling, 2, method, None, 70),
    )

  shapes = shapes_of(SAMPLING, None)
  assert shapes.completions.shape == (2, 3, 4)
  assert shapes.tokens.lengths.shape == shapes.finished.shape == (2, 3)
  assert shapes.memory == ()
  assert shapes.tokens.support is None
  with_support = dataclasses.replace(SAMPLING, top_k=2, returns_support=True)
  shapes = shapes_of(with_support, None)
  assert shapes.tokens.support.shape == (2, 3, 4, 3)  # 70 bits in words of 32

  def run(batch, memory):
    rollout = batch.sample(batch.parameter_sets["ref"], 3)
    return rollout.replace(memory=memory + 1)

  method = python_types.SimpleNamespace(
    sampler=samplers.Sampler("s", run, lambda: jnp.zeros((), jnp.int32)),
    parameter_sets=(("ref", None),),
  )
  shapes = shapes_of(SAMPLING, method)
  assert shapes.completions.shape == (2, 3, 4)
  assert shapes.memory.shape == ()
