"""Parts of the fit of a process reward model, without a fit."""

import types as python
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.prm import __main__ as command
from experiments.prm import fit


class Lines(NamedTuple):
  """The fields of lines that these functions read."""

  problems: np.ndarray
  values: np.ndarray
  weights: np.ndarray


class FakeModel:
  """A model whose score of a step is its label; `sizes` are of the calls."""

  def __init__(self):
    self.sizes = []

  def scores(self, params, data):
    self.sizes.append(len(data.problems))
    return params * data.values


def lines(count, problems=None):
  return Lines(
    problems=np.arange(count) if problems is None else np.array(problems),
    values=np.arange(count * 2, dtype=np.float32).reshape(count, 1, 2),
    weights=np.ones((count, 1, 2), np.float32),
  )


def test_the_last_problems_choose_the_threshold():
  """Three of twelve problems: a quarter; their lines stay together."""
  data = lines(24, np.arange(24) // 2 % 12 + 5)
  train, calibration = fit.split(data, 0.25)
  assert np.unique(calibration.problems).tolist() == [14, 15, 16]
  assert np.unique(train.problems).tolist() == list(range(5, 14))
  assert (len(train.values), len(calibration.values)) == (18, 6)
  train, calibration = fit.split(data, 0.0)
  assert (len(train.values), len(calibration.values)) == (24, 0)


def test_scores_do_not_depend_on_the_batch(monkeypatch):
  """Copies of the last line fill up the last batch, and are dropped."""
  monkeypatch.setattr(fit, "_jitted_scores", lambda model: model.scores)
  model, data = FakeModel(), lines(7)
  scores = fit.score(model, np.float32(2), data, batch=3)
  np.testing.assert_array_equal(scores, 2 * data.values)
  assert model.sizes == [3, 3, 3]


def calibrate(monkeypatch, values, weights, scores):
  monkeypatch.setattr(fit, "score", lambda model, params, data: scores)
  data = Lines(np.arange(len(values)), values, weights)
  return fit._calibrate("model", "params", data)


def test_the_threshold_separates_right_from_wrong_steps(monkeypatch):
  """A label below 1/2 is an error; a step without a label has no influence.

  The first line is right, and the second and the third ones are wrong in the
  second step. Their scores are .7 and .6, and -.2 and -.3.
  """
  values = np.array([[[1.0, 0.6]], [[1.0, 0.4]], [[0.0, 0.4]]], np.float32)
  weights = np.array([[[0.5, 0.5]], [[0.5, 0.5]], [[0.0, 0.5]]], np.float32)
  scores = np.array([[[0.7, 0.6]], [[0.7, -0.2]], [[-0.9, -0.3]]], np.float32)
  threshold = calibrate(monkeypatch, values, weights, scores)
  assert -0.2 < threshold <= 0.6


def test_without_labels_the_threshold_is_zero(monkeypatch):
  values = np.full((2, 1, 2), 0.25, np.float32)
  assert calibrate(monkeypatch, values, np.zeros_like(values), values) == 0


@pytest.mark.parametrize(
  ("updates", "warmup"), [(1000, 50), (400, 40), (30, 3), (5, 1)]
)
def test_the_learning_rate_rises_in_a_tenth_and_falls_to_a_tenth(
  updates, warmup, monkeypatch
):
  """The warmup has at most 50 updates."""
  monkeypatch.setattr(fit.reward_models, "optimizer", lambda rate: rate)
  rate = fit._optimizer(fit.Settings(updates=updates, learning_rate=0.01))
  assert rate(0) == 0
  assert rate(warmup) == pytest.approx(0.01)
  assert rate(warmup / 2) == pytest.approx(0.005)
  assert rate((updates + warmup) / 2) == pytest.approx(0.0055)
  assert rate(updates) == pytest.approx(0.001)


def test_a_fit_of_one_update_has_a_schedule(monkeypatch):
  monkeypatch.setattr(fit.reward_models, "optimizer", lambda rate: rate)
  rate = fit._optimizer(fit.Settings(updates=1, learning_rate=0.01))
  assert rate(1) == pytest.approx(0.01)
  assert rate(2) == pytest.approx(0.001)


def test_flags_have_the_defaults_of_the_settings():
  options = command._parser().parse_args(["fit", "--workdir", "x"])
  settings = fit.Settings()
  assert (settings.language_coefficient, settings.calibration) == (0.5, 0.125)
  names = ("policy", "task", "data", "loss", "text", "batch", "learning_rate")
  for name in (*names, "layers", "max_steps", "seed"):
    assert getattr(options, name) == getattr(settings, name), name
  assert options.steps == settings.updates
  # A checkpoint is possible only between two dispatches.
  assert settings.checkpoint_every % fit.DISPATCH == 0


def test_settings_can_be_compared_with_those_of_a_workdir(tmp_path):
  """A setting that the record lacks has its default value."""
  folder = fit.epath.Path(tmp_path)
  fit.check_settings(fit.Settings(batch=8), folder)  # nothing is fitted
  file = folder / fit.reward_models.RECORD_FILE
  fit.json_files.replace_object(file, {"settings": {"batch": 8, "layers": 2}})
  fit.check_settings(fit.Settings(batch=8, layers=2), folder)
  with pytest.raises(ValueError, match=r"layers = 2 \(now 1\); use another"):
    fit.check_settings(fit.Settings(batch=8), folder)
  with pytest.raises(ValueError, match=r"seed = 0 \(now 1\); use another"):
    fit.check_settings(fit.Settings(batch=8, layers=2, seed=1), folder)


def test_words_are_left_out_of_maths_alone():
  task = python.SimpleNamespace(word_ids=(3, 4), name="t")
  assert fit.Settings().left_out(task) == ()
  assert fit.Settings(text="maths").left_out(task) == (3, 4)


def test_compiled_scores_are_those_of_the_model():
  scores = fit._jitted_scores(FakeModel())(jnp.float32(2), lines(2))
  np.testing.assert_array_equal(scores, 2 * lines(2).values)
