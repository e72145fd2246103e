"""Claims: what the test says of known numbers, and arms that are kept."""

import json
import pathlib
import re
import subprocess
import sys

import jax
import matplotlib.figure
import numpy as np
import pytest

from experiments.configs import smoke
from experiments.report import picture
from experiments.studies import claims
from experiments.studies.arms import Arm, Outcome, Store
from experiments.studies.claims import __main__ as command
from experiments.studies.claims import draw, page, settings
from experiments.studies.claims.claim import Claim, Comparison, verdict
from experiments.training import build

# Student's t, 0.975 and 0.8 quantiles with 3 degrees of freedom (tables).
T_975, T_80 = 3.182446, 0.978472
EFFECTS = np.array([1.0, 2.0, 3.0, 6.0])  # mean 3, s.e. 1.0801


def test_the_interval_is_students():
  result = Comparison("", EFFECTS)
  error = np.sqrt(14 / 3) / 2
  assert result.mean == 3
  np.testing.assert_allclose(
    result.interval, [3 - T_975 * error, 3 + T_975 * error], rtol=1e-4
  )
  np.testing.assert_allclose(
    result.detectable, (T_975 + T_80) * error, rtol=1e-4
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


def test_all_parts_make_the_verdict():
  yes, no = Comparison("", EFFECTS + 9), Comparison("", -EFFECTS - 9)
  perhaps = Comparison("", EFFECTS)
  assert verdict([yes, yes]) == "reproduced"
  assert verdict([yes, perhaps]) == "inconclusive"
  assert verdict([yes, perhaps, no]) == "not reproduced"
  aside = Comparison("", -EFFECTS - 9, "reported")
  assert verdict([yes, aside]) == "reproduced"
  with pytest.raises(ValueError, match="at least one"):
    verdict([aside])


def test_an_interval_needs_two_seeds():
  with pytest.raises(ValueError, match="at least 2"):
    Comparison("one seed", np.ones(1))


@pytest.mark.parametrize("name", claims.NAMES)
def test_every_claim_can_be_built(name):
  claim = claims.get(name)
  assert claim.name == name
  assert claim.statement.endswith(".")
  for arm in claim.arms.values():
    config = arm.config
    build.make_method(config.method)
    build.make_task(config)
    updates = config.steps * config.plan.epochs * config.plan.minibatches
    assert updates >= 150 or config.steps == 0
    assert config.evaluation.samples >= 256  # pass@64 is no extreme of it


@pytest.mark.parametrize("name", claims.NAMES)
def test_the_tests_read_what_the_arms_left(name):
  """On outcomes where all arms are alike, every difference of two is 0."""
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 2, (3, 4, 256)).astype(np.float32)
  entropy = {"policy/entropy": np.ones((3, 20))}
  lengths, steps = np.ones(scores.shape, int), np.full(3, 20)
  alike = Outcome(entropy, steps, scores, scores > 0, lengths)
  claim = claims.get(name)
  result = claim.test(dict.fromkeys(claim.arms, alike))
  assert any(c.region != "reported" for c in result)
  for comparison in result:
    if "half of" not in comparison.label:
      np.testing.assert_allclose(comparison.effects, 0, atol=1e-6)


def test_a_sample_without_a_verdict_is_not_a_wrong_one():
  scores = np.array([[[1, np.nan, 0, np.nan]]], np.float32)
  verdicts = np.array([[[1, -1, 0, -1]]], np.int8)
  result = Outcome({}, np.ones(1), scores, verdicts, np.ones_like(scores))
  np.testing.assert_allclose(result.pass_curve([1, 2]), [[0.5, 1.0]])
  np.testing.assert_allclose(result.max_curve([1, 2]), [[0.5, 1.0]])


def test_an_unknown_claim_is_refused(capsys):
  assert command.main(["pass_at_k_trainin"]) == 2
  assert "did you mean 'pass_at_k_training'" in capsys.readouterr().err
  assert command.main(["--seeds", "1"]) == 2
  assert "at least 2" in capsys.readouterr().err


def tiny(method="rloo", steps=4):
  """An arm of seconds and its base."""
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


def test_seeds_differ_and_are_shaped(outcome):
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


def test_a_lost_seed_comes_back_the_same(folder, outcome):
  """Whatever runs beside it: a seed is a function of its number."""
  del outcome  # the base is there
  store = Store(folder, lambda line: None)
  complete = store.outcome(tiny(), range(3))
  next(folder.glob(f"arms/{tiny().digest}/*_002.npz")).unlink()
  assert store.missing(tiny(), range(3)) == [2]
  again = store.outcome(tiny(), range(3))
  np.testing.assert_array_equal(again.scores, complete.scores)
  for name, values in complete.series.items():
    np.testing.assert_array_equal(again.series[name], values)


def test_the_same_arm_has_the_same_name_and_another_has_not():
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
  del outcome  # the base is there
  idle = Store(folder, lambda line: None).outcome(tiny(steps=0), range(2))
  assert not idle.series
  assert idle.scores.shape == (2, 16, 8)


def test_an_arm_starts_from_an_arm():
  config = tiny().config
  config.init_from = "elsewhere"
  with pytest.raises(ValueError, match=r"config\.init_from"):
    Arm(config)


def test_what_was_made_by_what_is_kept(folder, outcome):
  del outcome
  store = Store(folder, lambda line: None)
  (built,) = store.made(tiny(), range(3))
  assert f"jax {jax.__version__} on 8 cpu" in built
  assert store.seconds(tiny(), range(3)) > 0


def test_the_page_says_what_the_test_said(tmp_path, outcome):
  arms = {"base": tiny(steps=0), "trained": tiny()}
  claim = Claim(
    "tiny",
    "A <statement>.",
    "a paper",
    "a setting",
    arms,
    lambda outcomes: [
      Comparison("trained - base", outcomes["trained"].pass_at(1) - 2, "below"),
    ],
    draw.pass_at_k,
  )
  outcomes = {"base": outcome, "trained": outcome}
  result = claim.test(outcomes)
  sampled = picture.png(draw.figure(claim, outcomes, result))
  assert sampled.startswith(b"\x89PNG")
  page.write([page.Tried(claim, result, 3, ["today"], sampled)], tmp_path)
  text = (tmp_path / "index.html").read_text()
  assert "A &lt;statement&gt;." in text
  assert "<strong class='reproduced'>" in text
  assert "src='data:image/png;base64," in text
  written = re.sub(r"base64,[^']*", "", text)
  assert "http" not in written  # nothing is fetched
  saved = json.loads((tmp_path / "claims.json").read_text())["tiny"]
  assert saved["verdict"] == "reproduced"
  assert saved["comparisons"][0]["mean"] == pytest.approx(result[0].mean)
  assert "**reproduced**" in (tmp_path / "claims.md").read_text()


@pytest.mark.parametrize(
  "panel", [draw.pass_at_k, draw.max_at_k, draw.accuracies, draw.entropies]
)
def test_panels_draw(panel, outcome):
  axes = matplotlib.figure.Figure().subplots()
  panel(axes, {"base": outcome, "trained": outcome})
  assert axes.lines


def test_the_list_says_every_statement():
  done = subprocess.run(
    [sys.executable, "-m", "experiments.studies.claims", "--list"],
    cwd=pathlib.Path(__file__).parents[3],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  for name in claims.NAMES:
    assert name in done.stdout
  assert settings.STEPS >= 150
