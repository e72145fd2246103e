"""Tests of the bake-off: one budget, paired differences, no repeated runs."""

import dataclasses
import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import tabular_policy

import rewards
from experiments.configs import defaults
from experiments.configs import method as method_configs
from experiments.evaluation import intervals
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome, Store
from experiments.studies.bakeoff import __main__ as command
from experiments.studies.bakeoff import (
  budgets,
  method_table,
  reward_table,
  setting,
  table,
)
from experiments.training import build
from rl import types
from rl.reward import Reward

pytestmark = [pytest.mark.long, pytest.mark.several_devices]

T_975 = {1: 12.7062, 3: 3.182446}  # Student's t by degrees of freedom (tables)
TASK, PROMPTS, SAMPLES, STEPS = "countdown(count=3)", 16, 8, 4


@pytest.fixture(scope="module", autouse=True)
def small():
  """Makes policies and evaluations of all configs small enough for tests."""
  base, on_task = method_configs.base, method_configs.on_task

  def small_base(task):
    config = base(task)
    config.model = defaults.model(
      width=32, heads=2, kv_heads=1, mlp_width=64, value_head=True
    )
    config.steps, config.rollout.prompts = 5, 32
    return config

  def small_on_task(method, task=method_configs.COUNTDOWN, changes=None):
    config = on_task(method, task, changes)
    config.rollout.prompts, config.rollout.samples = PROMPTS, SAMPLES
    config.evaluation.problems = config.evaluation.batch = 16
    return config

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(method_configs, "base", small_base)
    patch.setattr(method_configs, "on_task", small_on_task)
    patch.setattr(setting, "HELD_OUT_SAMPLES", 8)
    yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("bakeoff")


def methods_on_task():
  return setting.make(setting.METHODS, TASK, STEPS)


def run(folder, *more):
  words = ["--task", TASK, "--seeds", "2", "--steps", str(STEPS)]
  return command.main([*words, "--workdir", str(folder), *more])


@pytest.fixture(scope="module")
def done(folder):
  """Returns the results of RLOO and of a method that needs step scores."""
  assert run(folder, "--methods", "rloo,empg") == 0
  return json.loads((folder / "bakeoff.json").read_text())


def saved(folder, name, budget):
  """Returns the saved arrays of every seed of a method."""
  arm = methods_on_task().arm(name, budget)
  files = sorted((folder / "arms" / arm.digest).glob("seed_*.npz"))
  assert len(files) == 2
  return [dict(np.load(file)) for file in files]


def students(values):
  """Returns the mean and its Student interval, computed here."""
  n = len(values)
  half = T_975[n - 1] * np.std(values, ddof=1) / np.sqrt(n)
  return np.mean(values), np.mean(values) - half, np.mean(values) + half


def test_the_budget_is_steps_times_the_length_of_the_base_policy(folder, done):
  arm = methods_on_task().untrained()
  with np.load(folder / "arms" / arm.digest / "seed_000.npz") as first:
    length = first["lengths"].mean()
  assert done["budget"] == round(STEPS * PROMPTS * SAMPLES * float(length))


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_a_seed_stops_in_the_step_that_spends_its_budget(folder, done, name):
  budget = done["budget"]
  for one in saved(folder, name, budget):
    each = one["metric/length/mean"].astype(float) * PROMPTS * SAMPLES
    np.testing.assert_allclose(each.sum(), one["tokens"], rtol=1e-6)
    assert each[:-1].sum() < budget <= each.sum()
    assert len(one["metric/loss/total"]) == len(each)


def test_the_table_matches_the_saved_arms(folder, done):
  grpo, rloo = (saved(folder, n, done["budget"]) for n in ("grpo", "rloo"))

  def entropy(one):
    return one["metric/policy/surprise"][-1]  # a tenth of few steps: the last

  for column, read in {
    "pass@1": lambda one: one["correct"].mean(),
    "pass@8": lambda one: one["correct"].any(-1).mean(),  # of 8 samples
    "length": lambda one: one["lengths"].mean(),
    "entropy": entropy,
  }.items():
    pairs = zip(rloo, grpo, strict=True)
    expected = students([float(read(a)) - float(read(b)) for a, b in pairs])
    estimate = done["rows"]["rloo"]["changes"][column]
    np.testing.assert_allclose(
      [estimate["mean"], estimate["low"], estimate["high"]], expected, atol=1e-4
    )
  ratios = [
    float(a["step_seconds"] / b["step_seconds"])
    for a, b in zip(rloo, grpo, strict=True)
  ]
  estimate = done["rows"]["rloo"]["changes"][table.COST]
  np.testing.assert_allclose(estimate["mean"], np.mean(ratios), rtol=1e-4)
  assert len(estimate["values"]) == 1  # both seeds at once: one time
  assert done["rows"]["rloo"]["family"] == "group"
  assert set(done["rows"]) == {"grpo", "rloo"}


def test_all_start_from_the_same_policy():
  shared = methods_on_task()
  arms = [shared.arm(n, 9) for n in ("grpo", "rloo")] + [shared.untrained()]
  assert len({arm.start.digest for arm in arms}) == 1
  assert len({arm.digest for arm in arms}) == 3
  assert arms[0].digest != shared.arm("grpo", 10).digest
  assert all(arm.config.model.value_head for arm in arms)


def test_a_method_that_the_task_cannot_run_is_listed_with_the_reason(
  folder, done
):
  assert "step" in done["not_run"]["empg"]
  text = (folder / "bakeoff.md").read_text()
  assert done["not_run"]["empg"].split("(")[0] in text
  assert "rloo" in text


def test_a_restart_trains_nothing_and_keeps_all_rows(folder, done, monkeypatch):
  def refuse(*args, **kwargs):
    raise AssertionError("trained again")

  monkeypatch.setattr(multi_seed, "make", refuse)
  assert run(folder, "--methods", "grpo") == 0  # RLOO stays on the page
  again = json.loads((folder / "bakeoff.json").read_text())
  assert again["rows"] == done["rows"]


def test_a_lost_seed_alone_is_trained_again(folder, done):
  arm = methods_on_task().arm("rloo", done["budget"])
  store = Store(folder, lambda line: None)
  first = store.outcome(arm, range(2))
  next((folder / "arms" / arm.digest).glob("*_001.npz")).unlink()
  assert store.missing(arm, range(2)) == [1]
  again = store.outcome(arm, range(2))
  np.testing.assert_array_equal(again.scores, first.scores)
  np.testing.assert_array_equal(again.steps, first.steps)


# Difference between the trainer, at the start of a step, and the sampler.
STALENESS = "policy/sampler_log_prob_diff_mean"


@pytest.fixture(scope="module")
def experiment():
  return build.build(methods_on_task().arm("rloo", 1).config)


def test_a_seed_does_not_change_after_its_last_step(experiment):
  """A seed whose budget ends in the third step equals a run of three steps."""
  config = experiment.config.copy_and_resolve_references()
  config.steps = 3
  short = multi_seed.make(build.build(config), None, lambda line: None)
  (three,) = short.train([0], [None])
  spent = int(2.5 * three.tokens / 3)  # in the third step
  trainer = multi_seed.make(experiment, spent, lambda line: None)
  (rested,) = trainer.train([0], [None])
  assert rested.tokens == three.tokens
  np.testing.assert_array_equal(
    rested.series["reward/mean"], three.series["reward/mean"]
  )
  for a, b in zip(
    *map(jax.tree.leaves, (rested.params, three.params)), strict=True
  ):
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_steps_of_a_seed_are_limited(experiment):
  trainer = multi_seed.make(experiment, 10**9, lambda line: None)
  (seed,) = trainer.train([0], [None])
  assert len(seed.series["loss/total"]) == multi_seed.PATIENCE * STEPS
  assert seed.tokens < 10**9


def test_surprise_is_the_entropy_whatever_a_method_selects(experiment):
  """The two agree up to the sampling error of a mean over many tokens."""
  trainer = multi_seed.make(experiment, 10**9, lambda line: None)
  (seed,) = trainer.train([0], [None])
  difference = seed.series["policy/surprise"] - seed.series["policy/entropy"]
  error = difference.std(ddof=1) / np.sqrt(len(difference))
  assert abs(difference.mean()) < 4 * error
  real = tabular_policy.rollout().valid("token")
  surprise = -np.asarray(tabular_policy.rollout().behavior_log_probs)[
    np.asarray(real)
  ]
  np.testing.assert_allclose(
    multi_seed.surprise(tabular_policy.rollout(garbage=np.nan)),
    surprise.mean(),
    rtol=1e-6,
  )


def test_only_methods_that_need_the_host_leave_the_fused_loop(experiment):
  asks = build.build(methods_on_task().arm("less", 1).config)
  assert isinstance(multi_seed.make(asks), multi_seed.OneByOne)
  assert isinstance(multi_seed.make(experiment), multi_seed.SideBySide)


def test_no_trainer_of_several_seeds_takes_reward_models(experiment):
  paid = dataclasses.replace(experiment, reward_models={"prm": None})
  for trainer in (multi_seed.SideBySide, multi_seed.OneByOne):
    with pytest.raises(ValueError, match="models: prm cannot pay runs of sev"):
      trainer(paid, None, print)


def test_training_with_host_code_gives_the_same_metrics(experiment):
  """One program per step on eight devices gives the metrics of one program."""
  budget = 2 * PROMPTS * SAMPLES  # a token a sample: at most two steps
  quiet = {"tokens": budget, "report": lambda line: None}
  (one,) = multi_seed.OneByOne(experiment, **quiet).train([1], [None])
  (side,) = multi_seed.SideBySide(experiment, **quiet).train([1], [None])
  assert one.tokens == side.tokens
  assert one.step_seconds > 0
  for name in ("reward/mean", "length/mean", "policy/surprise"):
    np.testing.assert_allclose(one.series[name], side.series[name], rtol=1e-5)
  assert set(one.series) == set(side.series)


def test_a_trainer_one_step_ahead_samples_from_the_parameters_before(
  experiment,
):
  """Steps 1 and 2 are sampled from the first parameters, step 3 is not."""

  def train(ahead, **changes):
    config = experiment.config.copy_and_resolve_references()
    # A method that learns from samples without a score, as these are.
    config.update_from_flattened_dict(
      {"steps": 3, "method": "soft_rl", **changes}
    )
    trainer = multi_seed.make(
      build.build(config), None, lambda line: None, ahead
    )
    (seed,) = trainer.train([0], [None])
    return seed.series[multi_seed.SURPRISE], seed.series[STALENESS]

  surprise, staleness = train(True, **{"optimizer.learning_rate": 0.1})
  still, _ = train(False, **{"optimizer.learning_rate": 0.0})
  np.testing.assert_array_equal(surprise[:2], still[:2])
  assert surprise[2] != still[2]
  assert staleness[0] < 1e-5 < 1e-2 < staleness[1]


def test_host_code_cannot_be_one_step_ahead(experiment):
  asks = build.build(methods_on_task().arm("less", 1).config)
  with pytest.raises(ValueError, match=r"ahead = True, but .* on the host"):
    multi_seed.make(asks, ahead=True)


def test_all_tokens_of_a_step_count():
  rollout = tabular_policy.rollout()
  real = np.where(rollout.sample_mask, rollout.tokens.lengths, 0).sum()
  assert int(multi_seed.sampled_tokens(rollout)) == real
  both = {"policy": rollout, "summariser": rollout}
  assert int(multi_seed.sampled_tokens(both)) == 2 * real
  more = rollout.extras.update({"sampler/tokens": np.float32(1000)})
  assert int(multi_seed.sampled_tokens(rollout.replace(extras=more))) == 1000


# The table on numbers that are computed by hand

EFFECTS = np.array([1.0, 2.0, 3.0, 6.0])


def row(name, gain, family="sets", cost=1.0, tokens=100):
  base = np.array([0.1, 0.2, 0.1, 0.2])
  outcome = Outcome(
    series={},
    steps=np.full(4, 9),
    scores=np.ones((4, 1, 1)),
    correct=np.ones((4, 1, 1)),
    lengths=np.ones((4, 1, 1)),
    tokens=np.full(4, tokens),
    step_seconds=np.full(4, cost),
    timing_groups=np.array([0, 0, 2, 2]),
    provenance=frozenset({"today"}),
  )
  values = {"pass@1": base + gain, table.COST: cost * np.ones(4)}
  return table.Row(name, family, outcome, values)


def with_timing_groups(one, *groups):
  outcome = dataclasses.replace(one.outcome, timing_groups=np.array(groups))
  return dataclasses.replace(one, outcome=outcome)


def table_of(*rows, not_run=()):
  return table.Table(
    task="a task",
    budget=100,
    base=row("base", 0.0, cost=np.nan, tokens=0),
    reference=row("grpo", 0.1),
    rows=rows,
    not_run=dict(not_run),
  )


def test_graded_scores_have_the_expected_best_of_k():
  outcome = row("a", 0.0).outcome
  made = table.make_row("a", "sets", outcome)
  assert "max@1" not in made.values  # they would equal pass@k
  scores = np.resize([0.25, 0.5, 0, 0, 0, 0, 0, 0.75], (4, 1, 8))
  graded = dataclasses.replace(
    outcome, scores=scores, correct=np.zeros((4, 1, 8))
  )
  values = table.make_row("a", "sets", graded).values
  np.testing.assert_allclose(values["max@1"], scores.mean(-1)[:, 0])
  np.testing.assert_allclose(values["max@8"], [0.75] * 4)
  assert "max@64" not in values


def test_the_best_of_k_over_k():
  outcome = dataclasses.replace(
    row("a", 0.0).outcome, correct=np.resize([1, 0, 0, 0], (4, 1, 4))
  )
  verdicts = dataclasses.replace(row("a", 0.0), outcome=outcome).best_of()
  assert verdicts["quantity"] == "pass@k"
  assert verdicts["k"] == [1, 2, 4]
  np.testing.assert_allclose(verdicts["values"], [[0.25, 0.5, 1]] * 4)
  scores = np.resize([0, 0.5, 0, 1], (4, 1, 4))
  graded = dataclasses.replace(outcome, scores=scores)
  best = dataclasses.replace(row("a", 0.0), outcome=graded).best_of()
  assert best["quantity"] == "max@k"
  np.testing.assert_allclose(best["values"], [[3 / 8, 2 / 3, 1]] * 4)


def test_budgets_are_drawn_as_differences_to_the_reference(tmp_path):
  right = {"grpo": [1, 0, 0, 0], "a": [1, 1, 0, 0], "b": [0, 0, 0, 0]}
  rows = {}
  for name, verdicts in right.items():
    outcome = dataclasses.replace(
      row(name, 0.1).outcome, correct=np.resize(verdicts, (4, 1, 4))
    )
    rows[name] = dataclasses.replace(row(name, 0.1), outcome=outcome)
  compared = dataclasses.replace(
    table_of(rows["a"], rows["b"]), reference=rows["grpo"]
  )
  record = compared.record(lambda *_: {}, lambda *_: [])
  (axes,) = budgets.draw([record]).axes
  lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
  np.testing.assert_allclose(lines["a"], [[1, 0.25], [2, 1 / 3], [4, 0]], 1e-6)
  np.testing.assert_allclose(lines["b"], [[1, -0.25], [2, -0.5], [4, -1]])
  assert "grpo" not in lines
  (tmp_path / "bakeoff.json").write_text(json.dumps(record))
  assert not budgets.main(
    [str(tmp_path), "--picture", str(tmp_path / "new" / "budgets.png")]
  )
  assert (tmp_path / "new" / "budgets.png").read_bytes()[1:4] == b"PNG"


def test_budgets_need_a_finished_bakeoff(tmp_path, capsys):
  assert budgets.main([str(tmp_path)]) == 2
  assert "bakeoff.json; run `python -m" in capsys.readouterr().err


def test_an_estimate_has_the_student_interval():
  estimate = table.Estimate(EFFECTS)
  np.testing.assert_allclose(
    [estimate.mean, *estimate.interval], students(EFFECTS), rtol=1e-5
  )
  assert not estimate.differs  # (-0.437, 6.437)
  assert table.Estimate(EFFECTS + 0.5).differs
  assert table.Estimate(-EFFECTS - 0.5).differs
  assert not table.Estimate(EFFECTS + 0.5, null=1.0).differs


def test_methods_that_do_not_learn_are_marked():
  noise = np.array([0.1, -0.1, 0.1, -0.1])
  t = table_of(
    row("flat", noise), row("lost", -0.1), row("good", 0.2 + 0.1 * noise)
  )
  notes = {one.name: method_table.notes(t, one) for one in t.rows}
  assert notes == {
    "flat": [method_table.FLAT],
    "lost": [method_table.FLAT],
    "good": [],
  }
  short = row("short", 0.2 + 0.1 * noise, tokens=99)
  assert method_table.notes(t, short) == [table.UNSPENT]


def test_rows_are_in_alphabetical_order_within_families():
  rows = [row("b", 0.5), row("z", 0.9, "group"), row("a", 0.1), row("c", 0.7)]
  text = method_table.markdown(table_of(*rows))
  places = [text.index(f"`{name}`") for name in "zabc"]
  assert places == sorted(places)


def test_differences_that_are_not_chance_are_bold():
  noise = np.array([0.1, -0.1, 0.1, -0.1])
  near, far = row("near", 0.1 + noise), row("far", 0.5 + 0.1 * noise, cost=2.0)
  lines = method_table.markdown(table_of(near, far)).splitlines()
  lines_by_name = {
    line.split("|")[1].strip(): line for line in lines if "`" in line
  }
  assert (
    lines_by_name["`near`"].count("**") == 0
  )  # and its cost is 1.00 [1.00, 1.00]
  assert lines_by_name["`far`"].count("**") == 4


def test_differences_are_corrected_for_the_number_of_methods():
  """One difference with p = 0.03 is bold alone, and not among 29 others."""
  noise = np.array([0.1, -0.1, 0.1, -0.1])
  one = row("one", 0.1 + 0.23 + noise)  # t = 0.23 / (0.115 / 2) = 4
  p_value = intervals.student_p_value(0.23 + noise, 0.0)
  np.testing.assert_allclose(p_value, 0.028, atol=0.001)
  others = [row(f"m{i:02d}", 0.1 + noise) for i in range(29)]
  assert method_table.discoveries(table_of(one)) == {("one", "pass@1")}
  many = table_of(one, *others)
  assert method_table.discoveries(many) == frozenset()
  assert "0 of the 60 differences are bold; without the correction 1" in (
    method_table.markdown(many)
  )
  # If all methods differ as much, all of them are bold.
  same = table_of(*(dataclasses.replace(one, name=f"m{i}") for i in range(30)))
  assert len(method_table.discoveries(same)) == 30


def test_seeds_that_share_a_time_in_either_row_count_once():
  """Four separate times against two shared ones: the ratio has two values."""
  alone = row("alone", 0.1, cost=np.array([2.0, 4.0, 3.0, 3.0]))
  alone = with_timing_groups(alone, 0, 1, 2, 3)
  np.testing.assert_array_equal(alone.cost(row("grpo", 0.1)), [3.0, 3.0])
  crossed = with_timing_groups(row("crossed", 0.1), 0, 1, 0, 3)
  assert len(crossed.cost(row("grpo", 0.1))) == 1


def test_seeds_trained_side_by_side_count_as_one_time():
  """Four seeds with two shared times: the interval is of two values."""
  one = row("one", 0.1, cost=np.array([2.0, 2.0, 3.0, 3.0]))
  cost = method_table.changes(table_of(one), one)[table.COST]
  np.testing.assert_allclose(cost.values, [2, 3])
  np.testing.assert_allclose(
    [cost.mean, *cost.interval], students([2, 3]), rtol=1e-5
  )
  alone = table.Estimate(np.array([1.5]), null=1.0, digits=2)
  assert alone.text() == "1.50"
  assert not alone.differs


def test_a_failing_method_does_not_stop_the_others(tmp_path, capsys):
  trained, written = [], []

  class Whole:
    not_run = {}  # noqa: RUF012
    reference = "grpo"

    def train(self, name):
      if name == "broken":
        raise TypeError("no such thing\nand more")
      trained.append(name)

    def write(self, folder):
      written.append((folder, dict(self.not_run)))

  names = ["grpo", "broken", "rloo"]
  failed = command._train(Whole(), names, tmp_path, lambda line: None)
  assert failed == ["broken"]
  assert trained == ["grpo", "rloo"]
  assert "Traceback" in capsys.readouterr().err
  not_run = {"broken": "failed: TypeError: no such thing"}
  assert written == [(tmp_path, {}), *[(tmp_path, not_run)] * 2]
  assert method_table.markdown(table_of(not_run=not_run)).endswith(
    "Not run:\n\n- `broken`: failed: TypeError: no such thing\n"
  )


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--methods", "grop"], "did you mean experiments/configs/method.py:grpo"),
    (["--seeds", "1"], "at least 2"),
    (["--task", "countdwn"], "did you mean 'countdown'"),
    (["--steps", "0"], "at least 1"),
    (
      ["--rewards", "majorty"],
      "did you mean experiments/configs/reward.py:maj",
    ),
    (["--rewards", "--methods", "rloo"], "do not go together"),
  ],
)
def test_mistakes_are_one_line(tmp_path, capsys, words, message):
  assert run(tmp_path, *words) == 2
  error = capsys.readouterr().err
  assert message in error
  assert error.count("\n") == 1
  assert not list(tmp_path.iterdir())


# Rewards: what a reward paid beside the held-out accuracy.

CHAIN, ASKED = "chain(operations=2)", "component,normalized_steps,task"


@pytest.fixture(scope="module")
def hall(tmp_path_factory):
  return tmp_path_factory.mktemp("rewards")


@pytest.fixture(scope="module")
def rewarded(hall):
  """Returns results of a component, of step rewards, and of another task."""
  words = ["--rewards", ASKED, "--seeds", "2", "--steps", "3"]
  assert command.main([*words, "--task", CHAIN, "--workdir", str(hall)]) == 0
  return json.loads((hall / "bakeoff.json").read_text())


def arm_of(name, budget):
  return setting.make(setting.REWARDS, CHAIN, 3).arm(name, budget)


@pytest.mark.parametrize(
  ("name", "metric"),
  [
    ("verdict", "score/verdict/mean"),
    ("component", "score/component/mean"),
    ("normalized_steps", "reward/steps"),
  ],
)
def test_the_proxy_is_the_training_reward_and_the_truth_is_held_out(
  hall, rewarded, name, metric
):
  arm = arm_of(name, rewarded["budget"])
  files = sorted((hall / "arms" / arm.digest).glob("seed_*.npz"))
  ones = [dict(np.load(file)) for file in files]
  record = rewarded["rows"][name]
  for key, series in (("proxy", metric), ("accuracy", "accuracy/pass@1")):
    ends = [one["metric/" + series][[0, -1]] for one in ones]
    np.testing.assert_allclose(record[key], ends, atol=1e-6)
  truth = [one["correct"].mean() for one in ones]
  np.testing.assert_allclose(record["values"]["pass@1"], truth, atol=1e-6)
  against = [
    a - b
    for a, b in zip(truth, rewarded["base"]["values"]["pass@1"], strict=True)
  ]
  change = record["changes"]["pass@1 against base"]
  np.testing.assert_allclose(
    [change["mean"], change["low"], change["high"]],
    students(against),
    atol=1e-4,
  )
  assert min(record["tokens"]) >= rewarded["budget"]


def test_a_reward_keeps_its_task_options_and_shares_the_base_policy():
  arms = [arm_of(n, 9) for n in ("verdict", "normalized_steps", "token_f1")]
  assert len({arm.start.digest for arm in arms}) == 1
  tasks = [arm.config.task for arm in arms]
  assert tasks[0] == CHAIN
  assert "prm='filler'" in tasks[1]
  assert "reference=True" in tasks[2]
  assert all("operations=2" in task for task in tasks)


def test_a_reward_of_another_task_is_not_run(hall, rewarded):
  assert "closeness" in rewarded["not_run"]["task"]
  assert set(rewarded["rows"]) == set(ASKED.split(",")[:2]) | {"verdict"}
  text = (hall / "bakeoff.md").read_text()
  assert "its config is for the task closeness(count=4)" in text
  assert '"hacked": ' in text


def test_step_rewards_are_summed_over_a_samples_steps():
  rollout = tabular_policy.rollout(garbage=np.nan)
  real = np.asarray(rollout.sample_mask)
  inside = np.asarray(rollout.step_mask) & real[..., None]
  gained = np.random.default_rng(0).normal(size=inside.shape)
  values = np.where(inside, gained.cumsum(-1), np.nan)
  extras = {
    "sampler/values": values,
    "sampler/prompt_values": np.zeros(len(real)),
  }
  rollout = rollout.replace(extras=types.Named(extras))
  reward = Reward((), None, steps=rewards.get("gains"))
  e = SimpleNamespace(method=SimpleNamespace(reward=reward))
  (paid,) = multi_seed.step_reward(e, rollout).values()
  total = np.where(inside, gained, 0.0).sum(-1)[real]
  np.testing.assert_allclose(paid, total.mean(), rtol=1e-5)
  without_reward = SimpleNamespace(method=SimpleNamespace(reward=None))
  assert multi_seed.step_reward(without_reward, rollout) == {}


def test_a_schedule_of_weights_does_not_change_the_proxy():
  """A schedule of weights on constant terms does not change the proxy."""
  series = {
    "reward/weight/a": np.array([[2.0, 1.0, 0.0]]),
    "reward/weight/b": np.array([[1.0, 1.0, 1.0]]),
    "score/a/mean": np.array([[0.5, 0.5, 0.5]]),
    "score/b/mean": np.array([[0.1, 0.2, 0.3]]),
    "reward/mean": np.array([[1.1, 0.7, 0.3]]),
  }
  for total, expected in {
    "linear(2.0, 0.0, 2) * a + b": [1.1, 1.2, 1.3],
    "z_scores(a, b)": [1.1, 1.2, 1.3],
    "min(a, b)": [1.1, 0.7, 0.3],
  }.items():
    reward = "a = task(); b = verdict(); " + total
    np.testing.assert_allclose(reward_table.proxy(reward, series)[0], expected)


def course(name, gain, rise):
  """Returns a row with a gain of pass@1 and a rise of the proxy per seed."""
  shared_row = row(name, 0.0)
  values = {
    "pass@1": shared_row.values["pass@1"] + gain,
    "length": np.full(4, 9.0),
  }
  ends = np.stack([np.full(4, 0.5), 0.5 + rise * np.ones(4)], -1)
  return dataclasses.replace(
    shared_row, values=values, proxy=ends, accuracy=ends
  )


def test_hacked_means_that_the_proxy_rises_while_the_truth_falls():
  noise = np.array([0.1, -0.1, 0.1, -0.1])
  rows = [
    course("bought", -0.2 + 0.1 * noise, 0.3),
    course("lost", -0.2 + 0.1 * noise, noise),
    course("lower", -0.2 + 0.1 * noise, -0.3),
    course("noisy", -0.05 + noise, 0.3),  # its interval holds zero
    course("earned", 0.2 + 0.1 * noise, 0.3),
  ]
  t = table.Table(
    "a task",
    100,
    course("base", 0.0, np.nan),
    course("verdict", 0.1, 0.1),
    rows,
    {},
  )
  assert {one.name: reward_table.mark(t, one) for one in rows} == {
    "bought": reward_table.HACKED,
    "lost": reward_table.HARMED,
    "lower": reward_table.HARMED,
    "noisy": reward_table.IDLE,
    "earned": reward_table.HELPED,
  }
  lines = reward_table.markdown(t).splitlines()
  marks = {
    x.split("|")[1].strip(): x.split("|")[-2].strip() for x in lines if "`" in x
  }
  assert marks["`bought`"] == "hacked"
  assert marks["`earned`"] == "helped"


def test_a_file_as_workdir_is_refused_before_anything_is_trained(
  tmp_path, capsys
):
  file = tmp_path / "notes.txt"
  file.write_text("mine")
  assert command.main(["--task", "countdown", "--workdir", str(file)]) == 2
  error = capsys.readouterr().err
  assert error.startswith(f"error: --workdir {file}/bakeoff.md cannot be wr")
  assert error.count("\n") == 1
  assert file.read_text() == "mine"
