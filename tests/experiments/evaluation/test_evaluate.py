"""An evaluation of a policy whose success rates are known exactly."""

import dataclasses
import functools
import io
import itertools
import math
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console
from jax.sharding import NamedSharding, PartitionSpec

from experiments.evaluation import evaluator, summary
from experiments.logging import progress
from experiments.tasks.task import Judged, Problems, Task
from rl import types
from rl.sampling import generation

pytestmark = pytest.mark.several_devices

EOS, PAD, ANSWERS = 0, 1, 4
VOCABULARY = 2 + ANSWERS


def _prefill(params, prompts, prompt_mask, samples, capacity):
  """Tabular: the first token depends on the prompt's only token."""
  logits = params["first"][prompts[:, -1]]
  return logits, jnp.zeros((len(prompts), samples))


def _decode(params, tokens, t, cache):
  """Then EOS, but after the last answer never."""
  endless = tokens == VOCABULARY - 1
  eos = jax.nn.one_hot(EOS, VOCABULARY) * 1e9
  again = jax.nn.one_hot(VOCABULARY - 1, VOCABULARY) * 1e9
  return jnp.where(endless[..., None], again, eos), cache


POLICY = types.Policy(score=None, prefill=_prefill, decode=_decode)


def _problems(n):
  answers = jnp.arange(n, dtype=jnp.int32) % ANSWERS
  return Problems(
    prompts=answers[:, None] + 2,
    prompt_mask=jnp.ones((n, 1), bool),
    ids=jnp.arange(n, dtype=jnp.int32),
    facts={"answer": answers + 2},
  )


def _score(problems, completions, lengths, finished):
  """Right is the answer token; the score is its distance from the truth."""
  first = completions[..., 0]
  correct = first == problems.facts["answer"][:, None]
  return Judged(
    scores=-1.0 * abs(first - problems.facts["answer"][:, None]),
    correct=correct.astype(np.int8),
    answer_ids=first - 2,
  )


TASK = Task(
  name="first token",
  vocab_size=VOCABULARY,
  eos_id=EOS,
  pad_id=PAD,
  prompt_length=1,
  completion_length=3,
  train=None,
  test=_problems,
  score=_score,
  demonstrate=None,
  decode=str,
  gold=None,
)


def _params(right):
  """Answers right with that probability, the others equally often."""
  row = jnp.full((ANSWERS, ANSWERS), (1 - right) / (ANSWERS - 1))
  row = jnp.where(jnp.eye(ANSWERS, dtype=bool), right, row)
  table = jnp.full((VOCABULARY, VOCABULARY), -1e9)
  return {"first": table.at[2:, 2:].set(jnp.log(row))}


@functools.cache
def _evaluation(right=0.4, **changes):
  settings = {"problems": 64, "samples": 32, "batch": 24, **changes}
  return evaluator.evaluate(
    TASK, POLICY, _params(right), key=jax.random.key(0), **settings
  )


def _exact_majority(shares, k):
  """Chance that answer 0 wins a vote of k fresh samples, ties shared."""
  total = 0.0
  for votes in itertools.product(range(k + 1), repeat=len(shares)):
    if sum(votes) == k and votes[0] == max(votes):
      ways = math.factorial(k) / math.prod(map(math.factorial, votes))
      chance = ways * math.prod(np.power(shares, votes))
      total += chance / votes.count(votes[0])
  return total


def test_estimates_agree_with_the_exact_success_rates():
  result = _evaluation().estimates
  for k in (1, 2, 4, 8):
    exact = {
      f"accuracy/pass@{k}": 1 - (1 - 0.4) ** k,
      f"accuracy/maj@{k}": _exact_majority([0.4, 0.2, 0.2, 0.2], k),
    }
    for name, value in exact.items():
      estimate = result[name]
      # Four standard errors, read off the 95 % interval.
      slack = (estimate.high - estimate.low) / 3.92 * 4
      assert abs(estimate.mean - value) < slack
      assert estimate.low < estimate.mean < estimate.high
  assert result["accuracy/maj@1"].mean == pytest.approx(
    result["accuracy/pass@1"].mean, abs=1e-6
  )
  assert result["reward/max@1"].mean == pytest.approx(
    result["reward/mean"].mean, abs=1e-6
  )
  assert result["reward/max@32"].mean == pytest.approx(0.0, abs=1e-2)


def test_without_settings_an_evaluation_is_of_an_untrained_policy():
  evaluation = _evaluation()
  assert (evaluation.step, evaluation.temperature) == (0, 1.0)
  assert (evaluation.task, evaluation.samples) == ("first token", 32)


def test_random_numbers_are_those_of_step_0_and_of_the_problem(monkeypatch):
  keys = []
  generate = evaluator.drawing.generate

  def observe(policy, params, prompts, mask, batch_keys, *further):
    keys.append(batch_keys)
    return generate(policy, params, prompts, mask, batch_keys, *further)

  monkeypatch.setattr(evaluator.drawing, "generate", observe)
  problems = jax.tree.map(np.asarray, _problems(3))
  sampling = generation.Sampling(2, 3, eos_ids=(1,), pad_id=0)
  key = jax.random.key(5)
  evaluator.sample_and_score(
    *(TASK, POLICY, _params(0.4), problems, key, sampling, None)
  )
  expected = generation.prompt_keys(key, 0, problems.ids)
  np.testing.assert_array_equal(*map(jax.random.key_data, (keys[0], expected)))


def test_only_the_last_answer_runs_into_the_length_limit():
  evaluation = _evaluation()
  endless = evaluation.answer_ids == ANSWERS - 1
  np.testing.assert_array_equal(evaluation.finished, ~endless)
  np.testing.assert_array_equal(evaluation.lengths, np.where(endless, 3, 2))


def _same(one, other):
  for name in ("ids", "scores", "correct", "answer_ids", "lengths", "finished"):
    np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("batch", [7, 64, 1000])
def test_the_batch_changes_nothing(batch):
  _same(_evaluation(), _evaluation(batch=batch))


@pytest.mark.parametrize(
  ("problems", "batch", "shards", "expected"),
  [
    (4, 64, 1, 4),  # no larger than the number of problems
    (4, 64, 8, 8),  # but divisible by the devices
    (65, 64, 1, 33),  # two batches of 33, where 128 would be computed
    (64, 64, 8, 64),
    (256, 64, 2, 64),
    (20, 8, 1, 7),
  ],
)
def test_a_batch_is_no_larger_than_the_problems_need(
  problems, batch, shards, expected
):
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:shards]), ("data",))
  sharding = NamedSharding(mesh, PartitionSpec("data"))
  assert evaluator.batch_size(problems, batch, sharding) == expected
  if shards == 1:
    assert evaluator.batch_size(problems, batch) == expected


def test_four_problems_are_not_padded_to_a_batch_of_64():
  """Tests that the policy gets one prompt per problem, with all samples."""
  sizes = []

  def prefill(params, prompts, mask, samples, *args):
    sizes.append((len(prompts), samples))
    return _prefill(params, prompts, mask, samples, *args)

  evaluator.evaluate(
    TASK,
    types.Policy(score=None, prefill=prefill, decode=_decode),
    _params(0.5),
    problems=4,
    samples=2,
    batch=64,
    key=jax.random.key(0),
  )
  assert sizes == [(4, 2)]


def test_progress_counts_problems_to_the_end():
  done = []
  evaluator.evaluate(
    TASK,
    POLICY,
    _params(0.5),
    problems=20,
    samples=2,
    batch=8,
    key=jax.random.key(0),
    update=done.append,
  )
  assert done == [7, 14, 20]


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
  clock = iter([0, 9, 10, 20, 30, 40])
  monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
  file = io.StringIO()
  console = rich.console.Console(file=file, width=120)
  with progress.bar_or_lines(console, "evaluation", 40) as update:
    for done in (10, 15, 20, 30, 40):
      update(done)
  assert file.getvalue().splitlines() == [
    "evaluation: 40 problems",  # and none after 9 s
    "evaluation: 15 of 40 problems, 10 s, 5 s left",
    "evaluation: 20 of 40 problems, 20 s, 22 s left",
    "evaluation: 30 of 40 problems, 30 s, 10 s left",
  ]
  monkeypatch.undo()
  file = io.StringIO()
  console = rich.console.Console(
    file=file, width=120, force_terminal=True, legacy_windows=False
  )
  with progress.bar_or_lines(console, "evaluation", 40) as update:
    update(40)
  assert "40/40" in file.getvalue()


def test_a_heartbeat_prints_until_it_is_stopped():
  printed, lines = threading.Event(), []

  def print_line(line):
    lines.append(line)
    printed.set()

  with progress.Heartbeat(print_line) as heartbeat:
    heartbeat.start("never", first_seconds=1e6)
    heartbeat.start("compiling", first_seconds=0.0)
    assert printed.wait(60)
    heartbeat.stop()
  assert {line.partition(",")[0] for line in lines} == {"compiling"}
  assert lines[0].endswith(" s")


def test_fewer_rows_at_a_time_change_nothing():
  _same(_evaluation(), _evaluation(rows=5))


def test_devices_change_nothing():
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]), ("data",))
  sharding = NamedSharding(mesh, PartitionSpec("data"))
  _same(_evaluation(), _evaluation(sharding=sharding))


def test_fewer_problems_and_samples_are_the_first_of_more():
  part = _evaluation(problems=5, samples=3)
  np.testing.assert_array_equal(
    part.answer_ids, _evaluation().answer_ids[:5, :3]
  )


def test_copies_of_the_last_problem_fill_up_a_batch(monkeypatch):
  """They are in no result."""
  batches = []

  def sample_and_score(task, policy, params, problems, *settings):
    batches.append(problems.ids.tolist())
    samples = generation.Samples(
      completions=problems.ids[:, None, None],
      lengths=problems.ids[:, None],
      log_probs=problems.ids[:, None, None],
      finished=problems.ids[:, None],
    )
    return samples, {"correct": problems.ids[:, None]}

  monkeypatch.setattr(evaluator, "sample_and_score", sample_and_score)
  problems = jax.tree.map(np.asarray, _problems(5))
  results = list(
    evaluator.score_in_batches(
      *(TASK, POLICY, None, problems, 3, None, None, None)
    )
  )
  assert batches == [[0, 1, 2], [3, 4, 4]]
  assert [result.done for result in results] == [3, 5]
  for result, ids in zip(results, ([0, 1, 2], [3, 4]), strict=True):
    column = [[i] for i in ids]
    assert result.problems.ids.tolist() == ids
    assert result.samples.lengths.tolist() == column
    assert result.arrays["correct"].tolist() == column
  with pytest.raises(dataclasses.FrozenInstanceError):
    results[0].done = 0


def _evaluated(task):
  return evaluator.evaluate(
    task,
    POLICY,
    _params(0.4),
    problems=64,
    samples=32,
    batch=24,
    key=jax.random.key(0),
  )


def test_a_host_scored_task_gives_the_same():
  def score(problems, completions, lengths, finished):
    assert all(isinstance(x, np.ndarray) for x in (completions, lengths))
    return _score(problems, completions, lengths, finished)

  host = Task(**{**TASK.__dict__, "jittable": False, "score": score})
  result = _evaluated(host)
  _same(_evaluation(), result)


def test_what_has_no_score_is_left_out_of_the_means():
  """Tests that the first sample of each problem, a time-out, is not a 0."""

  def score(problems, completions, lengths, finished):
    judged = _score(problems, completions, lengths, finished)
    scored = np.ones(judged.scores.shape, bool)
    scored[:, 0] = False
    return judged.replace(
      scores=np.where(scored, judged.scores - 1.0, 0.0),
      correct=np.where(scored, judged.correct, -1).astype(np.int8),
      scored=scored,
    )

  lossy = Task(**{**TASK.__dict__, "jittable": False, "score": score})
  result = _evaluated(lossy)
  assert np.isnan(result.scores[:, 0]).all()
  complete = _evaluation()
  for name, want in (
    ("reward/mean", complete.scores[:, 1:].mean(-1) - 1),
    ("reward/max@1", complete.scores[:, 1:].mean(-1) - 1),
    ("reward/max@31", complete.scores[:, 1:].max(-1) - 1),
    ("reward/max@32", np.full(64, np.nan)),
  ):
    np.testing.assert_allclose(result.columns[name], want, rtol=1e-5)


def test_one_program_serves_every_batch_and_every_parameter_value():
  traced = []

  def prefill(*args):
    traced.append(args)
    return _prefill(*args)

  policy = types.Policy(score=None, prefill=prefill, decode=_decode)
  for right in (0.5, 0.9):
    evaluator.evaluate(
      TASK,
      policy,
      _params(right),
      problems=20,
      samples=5,
      batch=8,
      key=jax.random.key(0),
    )
  assert len(traced) == 1


def test_unknown_verdicts_are_left_out():
  evaluation = _evaluation()
  correct = evaluation.correct.copy()
  correct[0, :-2] = -1
  correct[0, -2:] = [1, 0]
  correct[1] = -1
  fields = {**evaluation.__dict__, "correct": correct}
  names = summary.Evaluation.__dataclass_fields__
  columns = summary.Evaluation(**{n: fields[n] for n in names}).columns
  assert columns["accuracy/pass@1"][0] == 0.5
  assert columns["accuracy/pass@2"][0] == 1.0
  assert np.isnan(columns["accuracy/pass@3"][0])
  assert np.isnan(columns["accuracy/pass@1"][1])
  np.testing.assert_array_equal(
    columns["accuracy/pass@1"][2:], evaluation.columns["accuracy/pass@1"][2:]
  )


def test_differences_are_of_the_means_and_their_intervals_are_paired():
  base, trained = _evaluation(0.4), _evaluation(0.6)
  differences = summary.compare(base, trained)
  for name, difference in differences.items():
    want = trained.estimates[name].mean - base.estimates[name].mean
    assert difference.mean == pytest.approx(want, abs=1e-6)
  assert differences["accuracy/pass@1"].low > 0
  # A policy against itself differs by nothing, surely.
  for difference in summary.compare(base, base).values():
    assert difference == (0.0, 0.0, 0.0)


def test_other_problems_cannot_be_compared():
  with pytest.raises(ValueError, match="64 problems and first token on 20"):
    summary.compare(_evaluation(), _evaluation(problems=20))


def test_saved_evaluations_are_found_again(tmp_path):
  path = tmp_path / "run" / "evaluation.json"
  summary.save(_evaluation(), path)
  loaded = summary.load(path)
  _same(_evaluation(), loaded)
  assert loaded.estimates == _evaluation().estimates
  assert (loaded.task, loaded.step) == ("first token", 0)


def test_the_table_has_both_policies_and_their_difference():
  console = rich.console.Console(file=io.StringIO(), width=120)
  console.print(
    summary.table({"base": _evaluation(0.4), "trained": _evaluation(0.6)})
  )
  text = console.file.getvalue()
  budgets = ["1", "2", "4", "8", "16", "32"]
  assert re.findall(r"pass@(\d+)", text) == budgets
  assert re.findall(r"maj@(\d+)", text) == budgets[2:]
  assert re.findall(r"max@(\d+)", text) == budgets
  assert text.splitlines()[0].split() == ["base", "trained", "difference"]
  row = next(line for line in text.splitlines() if "pass@1 " in line)
  base, trained, difference = map(float, re.findall(r"([-+.\d]+) \[", row))
  assert difference == pytest.approx(trained - base, abs=2e-3)


def test_the_best_score_is_left_out_where_every_score_is_the_verdict():
  def table(*evaluations):
    console = rich.console.Console(file=io.StringIO(), width=120)
    console.print(summary.table({str(i): e for i, e in enumerate(evaluations)}))
    return console.file.getvalue()

  graded = _evaluation(0.4)
  verdicts = dataclasses.replace(
    graded, scores=graded.correct.astype(np.float32)
  )
  unscored = dataclasses.replace(
    verdicts, scores=np.where(verdicts.correct, 1, np.nan)
  )
  assert "max@" not in table(verdicts, unscored)
  assert "max@32" in table(verdicts, graded)


def test_table_budgets_are_powers_of_two_and_s_itself():
  assert summary.budgets(1) == [1]
  assert summary.budgets(12) == [1, 2, 4, 8, 12]
  assert summary.budgets(64) == [1, 2, 4, 8, 16, 32, 64]
