"""The forest of a real policy: prefixes, random numbers, verdicts."""

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.prm import policy_forest
from experiments.training import build, placement
from rewards.process import label_sources
from rewards.process.label_sources import base
from rewards.tasks import programs as rules
from rewards.verifiers import sandbox
from rl import scoring, types
from rl.sampling import generation


@pytest.fixture(scope="module")
def experiment():
  return small_run.on_one_device(
    build.build(
      small_run.config(
        task="chain(operations=2)",
        # Frequencies that depend on the length of the longest text.
        model__rope_scaling={"kind": "dynamic", "factor": 4.0, "original": 8},
      )
    )
  )


@pytest.fixture(scope="module")
def params(experiment):
  return placement.init_state(experiment).params


def make(e, params, problems=4, samples=3, **settings):
  train = jax.tree.map(np.asarray, e.task.train(jax.random.key(1), 0, problems))
  sampling = generation.Sampling(
    samples=samples,
    max_tokens=e.task.completion_length,
    eos_ids=e.task.eos_ids,
    pad_id=e.task.pad_id,
  )
  return policy_forest.PolicyForest(
    *(e.task, e.policy, params, train, jax.random.key(0), sampling),
    **settings,
  )


def test_branches_share_their_prefix_and_are_scored(experiment, params):
  e = experiment
  forest = make(e, params)
  first = forest.samples.select(np.arange(12))
  rows = np.flatnonzero(first.num_steps >= 2)[:4]
  steps = np.array([1, 0, 1, 1][: len(rows)])
  branches = forest.branch(rows, steps, 3)
  assert branches.shape == (len(rows), 3)
  samples = forest.samples
  num_sampled = 0
  for row, num_steps, new_rows in zip(rows, steps, branches, strict=True):
    end = (first.step_ids[row] < num_steps)[: first.lengths[row]].sum()
    texts = set()
    for new in new_rows:
      assert samples.parents[new] == row
      assert samples.num_shared[new] == num_steps
      assert samples.problems[new] == samples.problems[row]
      for name in ("completions", "log_probs", "step_ids"):
        np.testing.assert_array_equal(
          getattr(samples, name)[new, :end], getattr(samples, name)[row, :end]
        )
      texts.add(tuple(samples.completions[new]))
      num_sampled += samples.lengths[new] - end
      assert forest.state(int(new), int(num_steps)) == forest.state(
        int(row), int(num_steps)
      )
    assert len(texts) > 1
  assert forest.tokens == num_sampled
  # The log-probs are those of the policy for the whole completions.
  prompts = e.task.train(jax.random.key(1), 0, 4)
  index = samples.problems
  mask = np.arange(samples.completions.shape[-1]) < samples.lengths[:, None]
  tokens = types.Tokens(
    prompts=np.asarray(prompts.prompts)[index],
    prompt_mask=np.asarray(prompts.prompt_mask)[index],
    completions=samples.completions[:, None],
    lengths=samples.lengths[:, None],
    mask=mask[:, None],
  )
  values = scoring.read(
    e.policy, params, tokens, [scoring.log_probs], types.Named()
  )["log_probs"][:, 0]
  np.testing.assert_allclose(
    np.where(mask, values, 0), samples.log_probs, atol=1e-4
  )
  # The verdicts are those of the task for the whole completions.
  problems = jax.tree.map(lambda x: np.asarray(x)[index], prompts)
  judged = e.task.score(
    problems, samples.completions[:, None], samples.lengths[:, None], None
  )
  np.testing.assert_array_equal(judged.correct[:, 0], samples.correct)
  np.testing.assert_array_equal(judged.step_ids[:, 0], samples.step_ids)


def test_random_numbers_do_not_depend_on_the_call(
  experiment, params, monkeypatch
):
  """A state that is continued again gets other samples."""
  rows, steps = np.arange(6), np.zeros(6, int)
  together, apart = make(experiment, params), make(experiment, params)
  all_rows = together.branch(rows, steps, 2)
  monkeypatch.setattr(policy_forest, "STATES", 4)
  some = [apart.branch(rows[i : i + 3], steps[i : i + 3], 2) for i in (0, 3)]
  texts = [
    forest.samples.completions[np.concatenate(branches)]
    for forest, branches in ((together, [all_rows]), (apart, some))
  ]
  np.testing.assert_array_equal(*texts)
  again = together.branch(rows[:1], steps[:1], 2)
  assert (
    together.samples.completions[again]
    != together.samples.completions[all_rows[0]]
  ).any()


def test_after_the_last_step_there_is_nothing_to_sample(experiment, params):
  forest = make(experiment, params)
  rows = np.arange(12)
  branches = forest.branch(rows, forest.samples.num_steps, 2)
  np.testing.assert_array_equal(branches, np.repeat(rows[:, None], 2, 1))
  assert forest.tokens == 0


@pytest.mark.parametrize(
  "name",
  sorted(
    set(label_sources.names()) - {"judge", "consensus", "mixture", "mutation"}
  ),
)
def test_every_source_labels_samples_of_a_policy(name, experiment, params):
  # The untrained policy has no right sample; some sources need one.
  forest = make(experiment, params)
  forest.samples.correct = (np.arange(12) > 0).astype(np.int8)
  # Of one wrong sample, balance may leave nothing.
  settings = {"balance": False} if name == "self_denoised" else {}
  labels = label_sources.get(name, **settings)(forest)
  samples = forest.samples.select(labels.rows)
  exists = np.arange(forest.max_steps) < samples.num_steps[:, None]
  assert not labels.weights[~exists].any()
  assert ((labels.values >= 0) & (labels.values <= 1)).all()
  assert len(labels.rows) > 0


def test_a_task_without_changes_of_steps_is_refused(experiment, params):
  forest = make(experiment, params)
  forest.samples.correct = np.ones(12, np.int8)
  with pytest.raises(ValueError, match="has no changes of steps, which this"):
    label_sources.get("mutation")(forest)


def test_labels_of_changed_programs_are_those_of_their_execution(monkeypatch):
  """Samples of the policy are replaced by a right program of four lines."""
  if sandbox.missing_protections():
    pytest.skip(
      f"this machine lacks {'; '.join(sandbox.missing_protections())}"
    )
  e = small_run.on_one_device(
    build.build(small_run.config(task="programs(operations=3)"))
  )
  task = e.task
  forest = make(e, placement.init_state(e).params, problems=2, samples=1)
  # The gold programs in place of the samples of the untrained policy.
  completions, lengths = task.gold(forest.problems)
  finished = np.ones((2, 1), bool)
  judged = task.score(
    forest.problems, completions[:, None], lengths[:, None], finished
  )
  forest.samples.completions, forest.samples.lengths = completions, lengths
  forest.samples.correct = judged.correct[:, 0]
  forest.samples.step_ids = judged.step_ids[:, 0]
  forest.samples.num_steps = judged.step_mask.sum(-1)[:, 0]
  assert forest.samples.num_steps.tolist() == [4, 4]

  monkeypatch.setattr(policy_forest, "STATES", 10)  # several parts
  labels = label_sources.get("mutation", mutations=3)(forest)
  samples = forest.samples
  changed = np.flatnonzero(labels.rows >= 2)
  assert len(changed) > 2 * 4 * 3
  verdicts = set()
  for index in changed:
    row, values, weights = (field[index] for field in labels)
    step, parent = samples.num_shared[row], samples.parents[row]
    lines, old_lines = (
      rules.body(samples.completions[r][: samples.lengths[r] - 1]).split("\n")
      for r in (row, parent)
    )
    differs = [a != b for a, b in zip(lines, old_lines, strict=True)]
    assert np.flatnonzero(differs).tolist() == [step]
    operations = [
      (rules.OPERATORS[i], rules.OPERANDS[j])
      for i, j in zip(
        forest.problems.facts["operators"][samples.problems[row]],
        forest.problems.facts["operands"][samples.problems[row]],
        strict=True,
      )
    ]
    # An execution apart from the sandbox and from the task.
    try:
      namespace = {}
      exec("def f(x, y):\n  " + "\n  ".join(lines), namespace)
      verdict = all(
        namespace["f"](*arguments) == rules.result(operations, *arguments)
        for arguments in rules.INPUTS
      )
    except (SyntaxError, NameError, TypeError):
      verdict = False
    verdicts.add(verdict)
    assert values[: step + 1].tolist() == [1] * step + [verdict]
    assert weights.tolist() == [1] * (step + 1) + [0] * (
      len(weights) - step - 1
    )
    assert samples.completions[row][samples.lengths[row] - 1] == task.eos_id
  assert verdicts == {True, False}
  assert not samples.log_probs[2:].any()


def test_a_changed_step_fits_into_the_completion():
  if sandbox.missing_protections():
    pytest.skip(
      f"this machine lacks {'; '.join(sandbox.missing_protections())}"
    )
  e = small_run.on_one_device(
    build.build(small_run.config(task="programs(operations=1)"))
  )
  forest = make(e, placement.init_state(e).params, problems=1, samples=1)
  forest.samples = forest.samples.select(np.array([0]))  # a copy
  # x += 2 ; x += 2 ; x += 2 ; return EOS has 14 of 15 tokens.
  line = [rules.ID[word] for word in ("x", "+=", "2", ";")]
  ids = [*line * 3, rules.RETURN, rules.EOS]
  forest.samples.completions[0, : len(ids)] = ids
  forest.samples.lengths[0] = len(ids)
  forest.samples.step_ids[0, : len(ids)] = np.arange(len(ids)) // 4
  assert forest.step_changes(0, 1).refactorings == []
  assert forest.step_changes(0, 1).mutations == [
    [*x, rules.END] for x in rules.mutations(line[:-1])
  ]
  forest.samples.completions[0, 4:10] = forest.samples.completions[0, 8:14]
  forest.samples.lengths[0] = 10
  assert len(forest.step_changes(0, 1).refactorings) == 2


def test_a_judge_reads_the_texts_of_the_steps(experiment, params):
  seen = []

  def judge(solutions):
    seen.extend(solutions)
    return [-2, *([0] * (len(solutions) - 1))]

  forest = make(experiment, params, judge=judge)
  labels = label_sources.get("judge")(forest)
  rows = base.root_rows(forest)
  assert labels.rows.tolist() == rows[1:].tolist()
  assert not labels.values.any()
  assert (labels.weights.sum(-1) == 1).all()
  assert forest.unjudged == 1
  forest = make(experiment, params, judge=lambda x: [-2] * len(x))
  with pytest.raises(ValueError, match="no verdict about any of"):
    label_sources.get("judge")(forest)
  prompts = experiment.task.prompt_texts(forest.problems)
  for row, solution in zip(rows, seen, strict=True):
    assert solution.question == prompts[forest.samples.problems[row]]
    ids = forest.samples.completions[row]
    in_step = forest.samples.step_ids[row] >= 0
    # The untrained policy writes padding, which has no text.
    nothing = [*experiment.task.eos_ids, experiment.task.pad_id]
    ids = ids[in_step & ~np.isin(ids, nothing)]
    words = " ".join(solution.steps).split()
    words = [word for word in words if word != "<pad>"]
    assert words == experiment.task.decode(ids).split()
    assert len(solution.steps) == forest.samples.num_steps[row]


def test_a_task_without_steps_is_refused():
  e = small_run.on_one_device(build.build(small_run.config()))
  with pytest.raises(
    ValueError, match="does not divide completions into steps"
  ):
    make(e, placement.init_state(e).params)
