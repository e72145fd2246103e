"""Functions of the forest of a policy that read arrays alone."""

import types as python

import jax
import numpy as np
import pytest

from experiments.prm import policy_forest
from experiments.tasks.task import Judged, Problems
from rewards.process import forest
from rl.sampling import generation

EOS, PAD = 1, 0


def test_a_prefix_ends_with_its_last_step():
  """Tokens outside of steps belong to a prefix if a later token does."""
  samples = python.SimpleNamespace(
    step_ids=np.array([[-1, 0, -1, 1, 1, 2], [0, 0, 1, -1, -1, -1]])
  )
  rows = [0, 0, 0, 0, 1, 1]
  both = python.SimpleNamespace(step_ids=samples.step_ids[rows])
  lengths = policy_forest.prefix_lengths(both, np.array([0, 1, 2, 3, 1, 2]))
  assert lengths.tolist() == [0, 2, 5, 6, 2, 3]
  assert lengths.dtype == np.int32


def completions(tokens):
  """Returns completions `[R, M, T]` that end with the last nonzero token."""
  tokens = np.array(tokens, np.int32)
  lengths = (tokens != PAD).sum(-1)
  return generation.Samples(
    completions=tokens,
    lengths=lengths,
    log_probs=-tokens.astype(np.float32),
    finished=np.ones(lengths.shape, bool),
  )


def judge(problems, tokens, lengths, finished, **changes):
  """Scores completions of steps of two tokens; the first token is right."""
  t = np.arange(tokens.shape[-1])
  step_ids = np.where(t < np.asarray(lengths)[..., None], t // 2, -1)
  return Judged(
    scores=np.zeros(lengths.shape, np.float32),
    correct=(tokens[..., 0] > 5).astype(np.int8),
    answer_ids=tokens[..., 1],
    step_ids=step_ids,
    step_mask=np.arange(3) < step_ids.max(-1)[..., None] + 1,
    **changes,
  )


def test_rows_follow_each_other_by_state():
  """Two states with two continuations each; two have no verdict."""
  samples = completions(
    [[[6, 3, 0, 0], [2, 4, 5, 0]], [[7, 2, 8, 9], [8, 8, 0, 0]]]
  )
  judged = judge(
    None,
    *(samples.completions, samples.lengths, samples.finished),
    scored=np.array([[True, False], [True, True]]),
  )
  numbers = np.arange(4)
  rows = policy_forest._rows(samples, judged, numbers, numbers + 4, numbers + 8)
  assert rows.completions.tolist() == [
    [6, 3, 0, 0],
    [2, 4, 5, 0],
    [7, 2, 8, 9],
    [8, 8, 0, 0],
  ]
  np.testing.assert_array_equal(rows.log_probs, -rows.completions)
  assert rows.correct.tolist() == [1, -1, 1, 1]
  assert rows.answer_ids.tolist() == [3, 4, 2, 8]
  assert rows.lengths.tolist() == [2, 3, 4, 2]
  assert rows.num_steps.tolist() == [1, 2, 2, 1]
  assert rows.problems.tolist() == [0, 1, 2, 3]
  assert rows.parents.tolist() == [4, 5, 6, 7]
  assert rows.num_shared.tolist() == [8, 9, 10, 11]
  # A checker without scores of steps judges none.
  assert rows.step_scores.tolist() == [[0, 0, 0]] * 4


@pytest.fixture
def grown():
  """A forest of two samples of two problems, in which steps have two tokens.

  No policy is asked.
  """
  first = completions([[[6, 3, 4, 4, EOS, 0]], [[2, 4, 5, 5, 6, 6]]])
  judged = judge(None, first.completions, first.lengths, first.finished)
  none = np.full(2, -1)
  new = policy_forest.PolicyForest.__new__(policy_forest.PolicyForest)
  rows = policy_forest._rows(first, judged, np.array([0, 1]), none, none * 0)
  forest.Forest.__init__(new, rows, max_steps=3)
  new.problems = Problems(
    prompts=np.array([[5], [9]]),
    prompt_mask=np.ones((2, 1), bool),
    ids=np.array([5, 9]),
    facts={},
  )
  new._policy = None
  new._task = python.SimpleNamespace(
    name="t",
    jittable=False,
    score=judge,
    pad_id=PAD,
    eos_id=EOS,
    eos_ids=(EOS,),
    step_changes=lambda ids: ([[7, *ids]], [[8], [8] * 3]),
    prompt_texts=lambda problems: [f"q{x}" for x in problems.prompts[:, 0]],
    text_of=lambda ids: " ".join(map(str, ids)),
  )
  return new


def test_changes_of_a_step_fit_into_the_completion(grown):
  """The first sample has room for one more token, and the second for none.

  The end token is no part of the step.
  """
  changes = grown.step_changes(0, 1)
  assert changes.mutations == [[7, 4, 4]]
  assert changes.refactorings == [[8], [8, 8, 8]]
  changes = grown.step_changes(0, 2)
  assert changes.mutations == [[7]]
  assert changes.refactorings == [[8]]
  changes = grown.step_changes(1, 1)
  assert changes.mutations == []
  assert changes.refactorings == [[8]]


@pytest.mark.parametrize("states", [1, 2, 4])
def test_a_step_is_replaced(states, grown, monkeypatch):
  """The tokens before and after the step stay, and so does the end token."""
  monkeypatch.setattr(policy_forest, "STATES", states)
  sizes = []

  def score(problems, tokens, lengths, finished):
    sizes.append(len(tokens))
    # The problems are those of the samples.
    wanted = np.where(tokens[:, 0, -1] == 6, 9, 5)
    assert problems.ids.tolist() == wanted.tolist()
    assert finished[:, 0].tolist() == (wanted == 5).tolist()
    return judge(problems, tokens, lengths, finished)

  grown._task.score = score
  rows, steps = np.array([0, 1, 0]), np.array([0, 1, 2])
  new = grown.write(rows, steps, [[7], [8, 8], [9]])
  assert new.completions.tolist() == [
    [7, 4, 4, EOS, 0, 0],
    [2, 4, 8, 8, 6, 6],
    [6, 3, 4, 4, 9, EOS],
  ]
  assert new.lengths.tolist() == [4, 6, 6]
  assert new.parents.tolist() == [0, 1, 0]
  assert new.num_shared.tolist() == [0, 1, 2]
  assert new.problems.tolist() == [0, 1, 0]
  assert new.correct.tolist() == [1, 0, 1]
  assert not new.log_probs.any()
  assert set(sizes) == {states}


def test_states_are_continued_in_parts(grown, monkeypatch):
  """Five states in parts of two."""
  monkeypatch.setattr(policy_forest, "STATES", 2)
  parts = []

  def proceed(rows, steps, count):
    parts.append((rows.tolist(), steps.tolist(), count))
    return grown.samples.select(rows)

  grown._continue = proceed
  rows = np.array([0, 1, 1, 0, 1])
  new = grown.sample(rows, np.array([0, 1, 2, 1, 0]), 3)
  assert parts == [([0, 1], [0, 1], 3), ([1, 0], [2, 1], 3), ([1], [0], 3)]
  assert new.problems.tolist() == rows.tolist()


def test_a_judge_reads_questions_and_steps(grown):
  """It has no verdict about the second sample."""
  solutions = []

  def ask(asked_solutions):
    solutions.extend(asked_solutions)
    return [1, policy_forest.step_judge.UNKNOWN]

  grown._judge, grown.unjudged = ask, 0
  first = grown.first_errors(np.array([0, 1]))
  assert first.tolist() == [1, policy_forest.step_judge.UNKNOWN]
  assert grown.unjudged == 1
  assert [(x.question, list(x.steps)) for x in solutions] == [
    ("q5", ["6 3", "4 4", "1"]),
    ("q9", ["2 4", "5 5", "6 6"]),
  ]


def test_log_probs_of_a_continuation_join_those_of_its_prefix(monkeypatch):
  """One state of one token, with two continuations of three and one token."""
  samples = generation.Samples(
    completions=np.array([[[7, 8, EOS], [EOS, 0, 0]]], np.int32),
    lengths=np.array([[3, 1]], np.int32),
    log_probs=np.array([[[-0.1, -0.2, -0.3], [-0.4, -9.0, -9.0]]], np.float32),
    finished=np.ones((1, 2), bool),
  )
  monkeypatch.setattr(
    policy_forest.drawing, "generate", lambda *arguments: samples
  )
  sampling = generation.Sampling(
    samples=2, max_tokens=5, eos_ids=(EOS,), pad_id=PAD
  )
  with jax.disable_jit():
    joined = policy_forest._extend.__wrapped__(
      *("policy", "params"),
      *(np.array([[5]], np.int32), np.ones((1, 1), bool)),
      np.array([[6, 3, 4, 4, EOS]], np.int32),
      np.array([[-0.5, -0.6, -0.7, -0.8, -0.9]], np.float32),
      np.array([1], np.int32),
      jax.random.split(jax.random.key(0), 1),
      np.zeros((3, 1), int),
      sampling,
    )
  assert joined.completions.tolist() == [[[6, 7, 8, EOS, 0], [6, EOS, 0, 0, 0]]]
  np.testing.assert_allclose(
    joined.log_probs,
    [[[-0.5, -0.1, -0.2, -0.3, 0], [-0.5, -0.4, 0, 0, 0]]],
    rtol=1e-6,
  )
