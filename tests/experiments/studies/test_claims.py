"""Tests of claims: verdicts from constructed effects, and stored arms."""

import json
import pathlib
import subprocess
import sys

import jax
import matplotlib.figure
import numpy as np
import pytest

from experiments.configs import defaults, smoke
from experiments.report import picture
from experiments.studies.arms import Arm, Outcome, Store
from experiments.studies.claims import __main__ as command
from experiments.studies.claims import definitions, plots, results, settings
from experiments.studies.claims.claim import (
  Claim,
  Comparison,
  Difference,
  Measure,
  verdict,
)
from experiments.training import build, method_from_config

# Student's t, 0.975 and 0.8 quantiles with 3 degrees of freedom (tables).
T_975, T_80 = 3.182446, 0.978472
EFFECTS = np.array([1.0, 2.0, 3.0, 6.0])  # mean 3, s.e. 1.0801


def test_the_interval_is_students():
  comparison = Comparison("", EFFECTS)
  error = np.sqrt(14 / 3) / 2
  assert comparison.mean == 3
  np.testing.assert_allclose(
    comparison.interval, [3 - T_975 * error, 3 + T_975 * error], rtol=1e-4
  )
  np.testing.assert_allclose(
    comparison.detectable, (T_975 + T_80) * error, rtol=1e-4
  )


@pytest.mark.parametrize(
  ("region", "bound", "holds"),
  [
    ("above", -1.0, True),
    ("above", 0.0, None),
    ("above", 7.0, False),
    ("below", 7.0, True),
    ("below", 6.0, None),
    ("below", -1.0, False),
    ("reported", 0.0, None),
  ],
)
def test_a_region_holds_when_the_interval_is_inside(region, bound, holds):
  # The interval is (-0.437, 6.437).
  assert Comparison("", EFFECTS, region, bound).holds is holds


def test_the_verdict_combines_all_comparisons():
  holds, fails = Comparison("", EFFECTS + 9), Comparison("", -EFFECTS - 9)
  undecided = Comparison("", EFFECTS)
  assert verdict([holds, holds]) == "reproduced"
  assert verdict([holds, undecided]) == "inconclusive"
  assert verdict([holds, undecided, fails]) == "not reproduced"
  reported = Comparison("", -EFFECTS - 9, "reported")
  assert verdict([holds, reported]) == "reproduced"
  with pytest.raises(ValueError, match="at least one"):
    verdict([reported])


def test_an_interval_needs_two_seeds():
  with pytest.raises(ValueError, match="at least 2"):
    Comparison("one seed", np.ones(1))


@pytest.mark.parametrize("name", definitions.NAMES)
def test_every_claim_can_be_built(name):
  claim = definitions.get(name)
  assert claim.name == name
  assert claim.statement.endswith(".")
  for arm in claim.arms.values():
    config = arm.config
    method_from_config.make_method(config.method)
    build.make_task(config)
    updates = config.steps * config.plan.epochs * config.plan.minibatches
    assert updates >= 150 or config.steps == 0
    # With 256 samples the estimate of pass@64 averages over many groups of 64.
    assert config.evaluation.samples >= 256


@pytest.mark.parametrize("name", definitions.NAMES)
def test_effects_are_zero_if_all_arms_have_the_same_outcome(name):
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 2, (3, 4, 256)).astype(np.float32)
  series = {
    "policy/entropy": np.ones((3, 20)),
    "policy/sample_log_ratio": np.zeros((3, 20)),
  }
  outcome = make_outcome(scores, scores > 0, series)
  claim = definitions.get(name)
  comparisons = claim.test(dict.fromkeys(claim.arms, outcome))
  assert any(c.region != "reported" for c in comparisons)
  for comparison in comparisons:
    # "x - half of base" is not the difference of two arms.
    if "half of" not in comparison.label:
      np.testing.assert_allclose(comparison.effects, 0, atol=1e-6)


def make_outcome(scores, correct, series):
  """Returns an outcome whose samples have one token."""
  zeros = np.zeros(len(scores))
  lengths = np.ones(scores.shape, int)
  none = frozenset()
  return Outcome(
    series,
    zeros.astype(int) + 20,
    scores,
    correct,
    lengths,
    zeros,
    zeros,
    zeros,
    none,
  )


def test_a_sample_without_a_verdict_does_not_count_as_wrong():
  scores = np.array([[[1, np.nan, 0, np.nan]]], np.float32)
  verdicts = np.array([[[1, -1, 0, -1]]], np.int8)
  outcome = make_outcome(scores, verdicts, {})
  np.testing.assert_allclose(outcome.pass_curve([1, 2]), [[0.5, 1.0]])
  np.testing.assert_allclose(outcome.max_curve([1, 2]), [[0.5, 1.0]])


def test_an_unknown_claim_is_refused(capsys):
  assert command.main(["pass_at_k_trainin"]) == 2
  assert "did you mean 'pass_at_k_training'" in capsys.readouterr().err
  assert command.main(["--seeds", "1"]) == 2
  assert "at least 2" in capsys.readouterr().err


def tiny(method="rloo", steps=4):
  """Returns an arm that trains for a few seconds, with a supervised base."""
  config = smoke.get_config()
  base = config.base
  base.evaluation = config.evaluation
  base.steps = 10
  config.base = {}
  config.task, config.method, config.steps = base.task, method, steps
  config.steps_per_dispatch = base.steps_per_dispatch = 1
  config.checkpoint_every = config.rollouts_every = 0
  return Arm(config, Arm(base))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("claims")


@pytest.fixture(scope="module")
def outcome(folder):
  lines = []
  result = Store(folder, lines.append).outcome(tiny(), range(3))
  assert any("4 of 4" in line for line in lines)
  return result


def test_shapes_of_an_outcome_and_differences_of_its_seeds(outcome):
  assert outcome.scores.shape == (3, 16, 8)
  assert outcome.series["reward/mean"].shape == (3, 4)
  assert not np.array_equal(outcome.lengths[0], outcome.lengths[1])
  np.testing.assert_allclose(
    outcome.pass_at(1), outcome.correct.mean((1, 2)), atol=1e-6
  )
  np.testing.assert_allclose(
    outcome.max_at(8), outcome.scores.max(-1).mean(-1), atol=1e-6
  )


def test_finished_seeds_are_not_run_again(folder, outcome):
  def refuse(line):
    raise AssertionError(line)

  again = Store(folder, refuse).outcome(tiny(), range(3))
  np.testing.assert_array_equal(again.scores, outcome.scores)


def test_a_seed_that_is_trained_again_is_identical(folder, outcome):
  """The result of a seed does not depend on the seeds trained beside it."""
  del outcome  # only makes sure that the base is trained
  store = Store(folder, lambda line: None)
  first = store.outcome(tiny(), range(3))
  next(folder.glob(f"arms/{tiny().digest}/*_002.npz")).unlink()
  assert store.missing(tiny(), range(3)) == [2]
  again = store.outcome(tiny(), range(3))
  np.testing.assert_array_equal(again.scores, first.scores)
  for name, values in first.series.items():
    np.testing.assert_array_equal(again.series[name], values)


def test_the_digest_identifies_an_arm_without_its_seed():
  assert tiny().digest == tiny().digest
  seeded = tiny()
  seeded.config.seed = 5
  assert seeded.digest == tiny().digest
  others = [tiny("grpo"), tiny(steps=5), Arm(tiny().config)]
  changed_base = tiny()
  changed_base.start.config.steps = 11
  digests = {arm.digest for arm in (tiny(), changed_base, *others)}
  assert len(digests) == 5


def test_an_untrained_arm_has_no_steps(folder, outcome):
  del outcome  # only makes sure that the base is trained
  untrained = Store(folder, lambda line: None).outcome(tiny(steps=0), range(2))
  assert not untrained.series
  assert untrained.scores.shape == (2, 16, 8)


def test_an_arm_refuses_initial_parameters_from_its_config():
  config = tiny().config
  config.init_from = "elsewhere"
  with pytest.raises(ValueError, match=r"config\.init_from"):
    Arm(config)
  with pytest.raises(ValueError, match=r"kind = 'preferences'.*'supervised'"):
    Arm(defaults.preferences())


def test_the_provenance_of_a_seed_is_stored(folder, outcome):
  del outcome  # only makes sure that the arm is trained
  store = Store(folder, lambda line: None)
  (provenance,) = store.outcome(tiny(), range(3)).provenance
  assert f"jax {jax.__version__} on 1 cpu" in provenance


def test_the_files_have_the_verdict_and_the_numbers(tmp_path, outcome):
  arms = {"base": tiny(steps=0), "trained": tiny()}
  measure = Measure("gain", lambda outcome: outcome.pass_at(1) - 2)
  claim = Claim(
    "tiny",
    "A statement.",
    "a paper",
    "a setting",
    arms,
    [Difference(measure, "trained", "", "below", label="trained - base")],
    plots.pass_at_k,
  )
  outcomes = {"base": outcome, "trained": outcome}
  comparisons = claim.test(outcomes)
  png = picture.png(plots.figure(claim, outcomes, comparisons))
  assert png.startswith(b"\x89PNG")
  result = results.Result(claim, comparisons, 3, ["today"], png)
  results.write([result], tmp_path)
  assert (tmp_path / "tiny.png").read_bytes() == png
  saved = json.loads((tmp_path / "claims.json").read_text())["tiny"]
  assert saved["verdict"] == "reproduced"
  assert saved["comparisons"][0]["mean"] == pytest.approx(comparisons[0].mean)
  assert saved["setting"] == "a setting"
  text = (tmp_path / "claims.md").read_text()
  assert "| A statement. | | | | **reproduced** |" in text
  assert "| | trained - base | -" in text


@pytest.mark.parametrize(
  "plot", [plots.pass_at_k, plots.max_at_k, plots.accuracies, plots.entropies]
)
def test_every_plot_draws_lines(plot, outcome):
  axes = matplotlib.figure.Figure().subplots()
  plot(axes, {"base": outcome, "trained": outcome})
  assert axes.lines


def test_the_list_names_every_claim():
  process = subprocess.run(
    [sys.executable, "-m", "experiments.studies.claims", "--list"],
    cwd=pathlib.Path(__file__).parents[3],
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr
  for name in definitions.NAMES:
    assert name in process.stdout
  assert settings.STEPS >= 150
