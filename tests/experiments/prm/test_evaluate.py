"""Tests of the evaluation of a fitted model on samples and on lines."""

import functools
import types as python
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from experiments.prm import evaluate, policy_forest
from rewards.process import forest
from rl.sampling import generation

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


def test_probabilities_of_steps_are_clipped():
  """Scores beyond 1 and -1 are the probabilities 1 and 1e-6."""
  products = evaluate.RULES["product"](
    np.array([[[1.5, 0.0], [-1.5, 1.0]]]), np.ones((1, 2, 2), bool)
  )
  np.testing.assert_allclose(products, [[np.log(0.5), np.log(1e-6)]], rtol=1e-5)


# Scores, truth and mask of four samples of three problems. With the threshold 0
# the model predicts the errors 1, 2, none and 0; the first ones are 1, 0, none
# and none.
JUDGED = (
  np.array([[0.5, -0.5, 0.9], [0.24, 0.7, -0.3], [0, 0.44, -1], [-0.58, 0, 0]]),
  np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]], bool),
  np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0]], bool),
  np.array([3, 3, 5, 9]),
)


def test_steps_are_judged_up_to_the_first_error():
  """Right steps up to it: .5, 0, .44, -.58; wrong ones: -.5, .24."""
  estimates = evaluate._judge_steps(*JUDGED, 0.0, [])
  assert estimates["first_error/erroneous"]["mean"] == 0.5
  assert estimates["first_error/correct"]["mean"] == 0.5
  assert estimates["first_error/f1"]["mean"] == 0.5
  # Of the six pairs that 0 and .44 and .5 are in, only (0, .24) is wrong.
  assert estimates["auc"]["mean"] == pytest.approx(5 / 8)
  # .75 and .72 against 1, .25 and .21 against 1/2, .62 against 0, .5 against 1.
  expected = (2 * 0.265 + 2 * 0.27 + 0.62 + 0.5) / 6
  assert estimates["calibration"]["mean"] == pytest.approx(expected)
  assert set(estimates) == {
    *("first_error/erroneous", "first_error/correct", "first_error/f1"),
    *("prm_score", "auc", "calibration"),
  }


def test_a_score_of_the_threshold_is_no_error():
  """The model accepts 6 steps, 5 of them right, and 1 of 3 others is wrong."""
  estimates = evaluate._judge_steps(*JUDGED, 0.0, ["a", "a", "", "a"])
  right, wrong = 2 * 5 / (6 + 7), 2 * 1 / (3 + 2)
  assert estimates["prm_score"]["mean"] == pytest.approx((right + wrong) / 2)
  # Without the sample that has no category, whose two steps are right.
  right = 2 * 3 / (4 + 5)
  assert estimates["prm_score/a"]["mean"] == pytest.approx((right + wrong) / 2)
  assert estimates["first_error/f1/a"]["mean"] == 0
  names = [name for name in estimates if name.count("/") == 2]
  assert names == ["first_error/f1/a"]


def test_intervals_of_first_errors_resample_problems():
  """Twelve problems; the first two have two samples, and the others one.

  A model of one step predicts the error 0 below the threshold, or none.
  """
  truth = np.array([-1, 0, 0, -1, 0, -1, 0, -1, 0, 0, -1, 0, -1, 0])
  predicted = np.array([-1, 0, -1, 0, 0, -1, -1, -1, 0, 0, 0, 0, -1, 0])
  problems = np.array([0, 0, 1, 1, *range(2, 12)])
  valid = np.ones((12, 2), bool)
  valid[2:, 1] = False

  def table(values):
    pairs = [[x, 0] for x in values[4:]]
    return np.array([[*values[:2]], [*values[2:4]], *pairs])

  low, high = evaluate.step_metrics.first_error_interval(
    table(predicted), table(truth), evaluate.jax.random.key(0), valid
  )
  estimates = evaluate._judge_steps(
    np.where(predicted < 0, 0.5, -0.5)[:, None],
    truth[:, None] < 0,
    np.ones((14, 1), bool),
    *(problems, 0.0, []),
  )
  for name in ("erroneous", "correct", "f1"):
    bounds = getattr(low, name), getattr(high, name)
    estimate = estimates[f"first_error/{name}"]
    np.testing.assert_array_equal([estimate["low"], estimate["high"]], bounds)


def test_probabilities_above_one_are_one_in_the_calibration():
  one = np.ones((1, 1), bool)
  estimates = evaluate._judge_steps(
    np.array([[1.2]]), one, one, np.zeros(1, int), 0.0, []
  )
  assert estimates["calibration"]["mean"] == 0


def test_signs_of_learnt_outcomes_are_shares_of_some_samples():
  """The last step is the worst one in one of four samples of several steps.

  Right answers with a wrong step are the first two samples. The model does not
  see the step of the first one, which scores the threshold.
  """
  scores = np.array(
    [
      [0.5, 0.3, 9, 9],
      [0.3, 0.1, 0.2, 9],
      [0.1, 9, 9, -9],
      [0.0, 0.6, -9, 9],
      [0.1, 0.9, -9, -9],
    ]
  )
  num_steps = np.array([2, 3, 1, 2, 2])
  mask = np.arange(4) < num_steps[:, None]
  truth = np.array(
    [[1, -1, 0, 0], [-1, 1, 1, 0], [0, -1, 0, 0], [-1, 1, 0, 0], [1, 1, 0, -1]]
  )
  correct = np.array([1, 1, 1, 0, 1])
  shares = evaluate._diagnose(
    *(x[None] for x in (scores, mask, truth, correct)), 0.3
  )
  assert shares == {
    "worst_is_last": {"mean": 0.25},
    "accuracy/right_answer_wrong_step": {"mean": 0.5},
  }


@pytest.mark.parametrize(
  ("p", "is_right", "expected"),
  [
    # The tenth from .9 to 1 has 1 itself.
    ([0.92, 1.0], [True, False], 0.46),
    ([0.5, 0.95], [False, True], (0.5 + 0.05) / 2),
    ([0.7], [True], 0.3),
    ([], [], 0.0),
  ],
)
def test_tenths_of_the_probability(p, is_right, expected):
  error = evaluate._calibration_error(np.array(p), np.array(is_right, bool))
  assert error == pytest.approx(expected)


class Problems(NamedTuple):
  """Problems whose prompt is their number."""

  prompts: np.ndarray
  prompt_mask: np.ndarray


# Numbers of tokens of the steps of the two samples of each problem, and the
# truth of these steps.
TOKENS = [[[8, 6], [4]], [[3], [9]], [[9], [2, 3]], [[8, 2], [4]]]
TRUTH = [[[1, 1], [-1]], [[0], [1]], [[-1], [1, 1]], [[1, -1], [1]]]
CORRECT = [[1, 0], [1, -1], [0, 1], [1, 0]]


class FakeForest:
  """Two samples of each problem, as above."""

  made: ClassVar[list] = []

  def __init__(
    self, task, policy, params, problems, key, sampling, num_problems
  ):
    assert (policy, params) == ("policy", "params")
    assert sampling.samples == 2
    self.made.append((problems.prompts[:, 0].tolist(), num_problems, key))
    numbers = problems.prompts[:num_problems, 0]
    tokens, truth = (
      [steps for p in numbers for steps in table[p]]
      for table in (TOKENS, TRUTH)
    )
    step_ids = np.full((len(tokens), 16), -1)
    step_scores = np.zeros((len(tokens), 3), np.float32)
    for row, (counts, values) in enumerate(zip(tokens, truth, strict=True)):
      step_ids[row, : sum(counts)] = np.repeat(np.arange(len(counts)), counts)
      step_scores[row, : len(values)] = values
    self.problems, self.tokens = problems, 7
    self.samples = forest.Samples(
      problems=np.repeat(np.arange(num_problems), 2),
      completions=np.zeros(step_ids.shape, int),
      lengths=(step_ids >= 0).sum(-1),
      log_probs=np.zeros(step_ids.shape, np.float32),
      step_ids=step_ids,
      num_steps=np.array(list(map(len, tokens))),
      step_scores=step_scores,
      correct=np.array([CORRECT[p] for p in numbers], np.int8).ravel(),
      answer_ids=np.arange(len(tokens)),
      parents=np.full(len(tokens), -1),
      num_shared=np.zeros(len(tokens), int),
    )


def evaluate_samples(monkeypatch, is_probability=True, searching=None):
  """Evaluates a model that scores a step by its tokens, in tenths."""

  def score(model, params, data):
    return np.stack(
      [(data.step_ids == k).sum(-1) / 10 for k in range(3)], -1
    ).astype(np.float32)

  monkeypatch.setattr(evaluate.fit, "score", score)
  monkeypatch.setattr(evaluate.policy_forest, "PolicyForest", FakeForest)
  monkeypatch.setattr(FakeForest, "made", [])
  task = python.SimpleNamespace(
    test=lambda n: Problems(np.arange(n)[:, None], np.ones((n, 1), bool)),
    sampling=functools.partial(
      generation.Sampling, max_tokens=16, eos_ids=(1,), pad_id=0
    ),
  )
  fitted = python.SimpleNamespace(
    model=python.SimpleNamespace(
      loss=python.SimpleNamespace(is_probability=is_probability)
    ),
    params=None,
    max_steps=3,
    threshold=np.float32(0.3),
  )
  loaded = python.SimpleNamespace(policy="policy", params="params")
  return evaluate.on_samples(
    *(fitted, loaded, task, 4, 2, 3, (2,), 7), searching=searching
  )


def test_samples_of_held_out_problems_are_evaluated(monkeypatch):
  """The second problem has a sample without a verdict.

  Of the three samples with an error, the model finds that of the last problem;
  of the other five it calls one wrong, whose step scores .2.
  """
  estimates = evaluate_samples(monkeypatch)
  means = {name: estimate["mean"] for name, estimate in estimates.items()}
  assert means["first_error/erroneous"] == pytest.approx(1 / 3)
  assert means["first_error/correct"] == pytest.approx(4 / 5)
  assert means["worst_is_last"] == pytest.approx(2 / 3)
  assert means["accuracy/right_answer_wrong_step"] == 1
  expected = {"pass@1": 1 / 2, "maj@2": 1 / 2}
  # Best of the first, third and fourth problem, by hand.
  expected |= {"worst@2": 1 / 3, "mean@2": 2 / 3}
  expected |= {"product@2": 1 / 3, "last@2": 1 / 3}
  expected |= dict.fromkeys(
    ["weighted@2", "hybrid_majority@2", "reward_frequency@2"], 2 / 3
  )
  for name, mean in expected.items():
    assert means[f"accuracy/{name}"] == pytest.approx(mean), name
    estimate = estimates[f"accuracy/{name}"]
    assert estimate["low"] <= mean <= estimate["high"]
  for rule in evaluate.RULES:
    uplift = expected[f"{rule}@2"] - 1 / 2
    assert means[f"uplift/{rule}@2"] == pytest.approx(uplift)
  assert "search_tokens" not in means
  # Copies of the last problem fill up the second batch.
  (first, first_number, key), (second, second_number, same_key) = (
    FakeForest.made
  )
  assert (first, first_number) == ([0, 1, 2], 3)
  assert (second, second_number) == ([3, 3, 3], 1)
  assert key == same_key
  # Apart from the numbers of the model and of the batches, 3 and 4.
  seed = evaluate.prng_keys.from_seed(7)
  assert key == evaluate.jax.random.fold_in(seed, 5)


def test_scores_that_are_no_probabilities_have_no_product(monkeypatch):
  names = evaluate_samples(monkeypatch, is_probability=False).keys()
  assert {"accuracy/mean@2", "accuracy/hybrid_majority@2"} < names
  excluded = {"calibration", "accuracy/product@2", "accuracy/weighted@2"}
  assert not excluded & names


def test_answers_of_a_search_are_judged(monkeypatch):
  """It chooses the first sample of each problem; the second is left out."""

  def choose(forest, score_states, threshold):
    assert threshold == np.float32(0.3)
    rows = np.arange(0, len(forest.samples.problems), 2)
    states = score_states(rows, np.ones_like(rows))
    np.testing.assert_allclose(
      states, np.array([[0.8], [0.3], [0.9]])[: len(rows), 0], atol=1e-6
    )
    return rows

  estimates = evaluate_samples(monkeypatch, searching=("first", choose))
  assert estimates["accuracy/first"]["mean"] == pytest.approx(2 / 3)
  assert estimates["search_tokens"]["mean"] == 2 * 7 / 4


def test_samples_without_verdicts_have_no_accuracy(monkeypatch):
  monkeypatch.setattr(f"{__name__}.CORRECT", [[-1, 1]] * 4)
  names = evaluate_samples(monkeypatch).keys()
  assert "worst_is_last" in names
  assert "accuracy/pass@1" not in names
