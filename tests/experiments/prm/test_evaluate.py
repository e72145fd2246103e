"""Tests of the evaluation of a fitted model on samples and on lines."""

import types as python

import numpy as np
import pytest

from experiments.prm import evaluate, policy_forest
from rewards.process import forest

MAX_STEPS = 2


@pytest.fixture
def fitted(monkeypatch):
  """A model whose score of a step is the number of its tokens, in tenths."""

  def score(model, params, data):
    assert (model, params) == ("model", "params")
    assert data.tokens.prompts.tolist() == [
      [row] for row in (10 * data.problems).tolist()
    ]
    is_read = data.tokens.mask
    assert (is_read.sum(-1) == data.tokens.lengths).all()
    assert (data.step_ids[~is_read] == -1).all()
    return np.stack(
      [(data.step_ids == k).sum(-1) / 10 for k in range(MAX_STEPS)], -1
    )

  monkeypatch.setattr(evaluate.fit, "score", score)
  return python.SimpleNamespace(
    model="model", params="params", max_steps=MAX_STEPS
  )


@pytest.fixture
def samples():
  """Two samples of each of two problems, with one to four steps."""
  step_ids = np.array(
    [
      [0, 0, 1, 2, 3, -1],
      [0, 1, 1, 1, -1, -1],
      [0, 0, 0, 1, 2, 2],
      [0, -1, -1, -1, -1, -1],
    ]
  )
  rows = forest.Samples(
    problems=np.array([0, 0, 1, 1]),
    completions=np.arange(24).reshape(4, 6),
    lengths=np.array([6, 5, 6, 2]),
    log_probs=np.zeros((4, 6), np.float32),
    step_ids=step_ids,
    num_steps=np.array([4, 2, 3, 1]),
    step_scores=np.array(
      [[1, 1, 1, -1], [1, -1, 0, 0], [1, 1, 1, 0], [-1, 0, 0, 0]], np.float32
    ),
    correct=np.array([0, 0, 1, -1], np.int8),
    answer_ids=np.array([5, 6, 7, 8]),
    parents=np.full(4, -1),
    num_shared=np.zeros(4, int),
  )
  return python.SimpleNamespace(
    samples=rows,
    problems=python.SimpleNamespace(
      prompts=np.array([[0], [10]]), prompt_mask=np.ones((2, 1), bool)
    ),
  )


def test_steps_beyond_the_largest_number_belong_to_the_last(fitted, samples):
  """A last step is wrong if one of those that belong to it is."""
  scores, mask, truth, correct, answers = evaluate._score_forest(
    fitted, samples, 2
  )
  expected = [[[0.2, 0.3], [0.1, 0.3]], [[0.3, 0.3], [0.1, 0]]]
  np.testing.assert_allclose(scores, expected)
  assert mask.tolist() == [
    [[True, True], [True, True]],
    [[True, True], [True, False]],
  ]
  assert truth.tolist() == [[[1, -1], [1, -1]], [[1, 1], [-1, 0]]]
  assert correct.tolist() == [[0, 0], [1, -1]]
  assert answers.tolist() == [[5, 6], [7, 8]]


def test_a_model_of_more_steps_than_the_samples_have(
  fitted, samples, monkeypatch
):
  """Steps that do not exist are not scored, and count as wrong."""
  fitted.max_steps = 6
  rows = samples.samples
  assert rows.step_scores.shape[-1] == 4

  def score(model, params, data):
    return np.zeros((len(data.problems), 1, 6))

  monkeypatch.setattr(evaluate.fit, "score", score)
  _, mask, truth, *_ = evaluate._score_forest(fitted, samples, 2)
  assert truth.reshape(4, 6)[:, :4].tolist() == rows.step_scores.tolist()
  assert (truth[..., 4:] == -1).all()
  assert mask.sum(-1).tolist() == [[4, 2], [3, 1]]


def test_a_state_is_scored_without_what_follows(fitted, samples):
  """States of 0 to 3 steps; the third belongs to the second."""
  rows, steps = np.array([0, 0, 0, 2, 2]), np.array([0, 1, 2, 3, 1])
  scores = evaluate._score_states(fitted, samples, rows, steps)
  np.testing.assert_allclose(scores, [-np.inf, 0.2, 0.1, 0.3, 0.3])
  lengths = policy_forest.prefix_lengths(samples.samples.select(rows), steps)
  assert lengths.tolist() == [0, 2, 3, 6, 3]


def test_rules_that_aggregate_the_scores_of_steps():
  """Probabilities .75, .5 and (below -1) 0, which counts as 1e-6."""
  scores = np.array([[[0.5, 0.0, 0.9], [0.5, 0.0, -1.0], [1.0, 1.0, 1.0]]])
  mask = np.array([[[1, 1, 0], [1, 1, 1], [1, 1, 1]]], bool)
  expected = {
    "worst": [0, -1, 1],
    "mean": [0.25, -1 / 6, 1],
    "product": [np.log(0.375), np.log(0.375e-6), 0],
    "last": [0, -1, 1],
  }
  assert set(evaluate.RULES) == set(expected)
  for name, values in expected.items():
    np.testing.assert_allclose(
      evaluate.RULES[name](scores, mask)[0], values, rtol=1e-5, atol=1e-6
    )


def test_labels_of_lines_are_errors_below_one_half(monkeypatch):
  """Three lines; the second label of the first is unknown."""
  data = python.SimpleNamespace(
    values=np.array([[[1.0, 0.2]], [[0.5, 0.49]], [[1.0, 1.0]]]),
    weights=np.array([[[1.0, 0.0]], [[1.0, 2.0]], [[1.0, 1.0]]]),
    problems=np.arange(3),
  )
  scores = np.array([[[0.9, -0.9]], [[0.3, -0.3]], [[0.2, 0.1]]])
  monkeypatch.setattr(evaluate.fit, "score", lambda *_: scores)
  loss = python.SimpleNamespace(is_probability=False)
  model = python.SimpleNamespace(
    model=python.SimpleNamespace(loss=loss), params=None, threshold=0.0
  )
  estimates = evaluate.on_lines(model, data, ["a", "b", ""])
  assert estimates["first_error/f1"]["mean"] == 1
  assert estimates["auc"]["mean"] == 1
  assert {"prm_score/a", "prm_score/b"} < set(estimates)
  assert "calibration" not in estimates
