"""The task `programs` by hand."""

import jax
import numpy as np
import pytest
from helpers import judged_shapes

from experiments import tasks
from experiments.tasks import programs as module
from rewards.tasks import programs as rules
from rewards.verifiers import sandbox

if sandbox.missing_protections():
  pytest.skip(
    f"it lacks {'; '.join(sandbox.missing_protections())}",
    allow_module_level=True,
  )


@pytest.fixture(scope="module")
def task():
  return tasks.get("programs", operations=2)


def problem(*operations):
  """Returns one problem with these operations."""
  number = 0
  for operator, operand in operations:
    digit = 9 * rules.OPERATORS.index(operator) + rules.OPERANDS.index(operand)
    number = 36 * number + digit
  return module._problems(np.array([number]), len(operations))


def judge(task, problems, texts):
  """Judges the texts of one problem."""
  ids = [[rules.ID[word] for word in text.split()] for text in texts]
  completions = np.zeros((1, len(ids), task.completion_length), np.int32)
  for row, some in zip(completions[0], ids, strict=True):
    row[: len(some)] = some
  lengths = np.array([list(map(len, ids))])
  return task.score(problems, completions, lengths, None)


def test_programs_and_their_lines(task):
  problems = problem(("plus", "3"), ("times", "y"))
  assert task.prompt_texts(problems) == ["plus 3 times y :"]
  cases = {
    "x = x + 3 ; x *= y ; return x <eos>": (1, [1, 1, 1]),
    "x += 3 ; return y * x <eos>": (1, [1, 1]),
    "x = 3 + x ; x = x - y ; return x <eos>": (0, [1, -1, 1]),
    "x = x + ; x *= y ; return x <eos>": (0, [-1, 1, 1]),
    "x *= y ; x += 3 ; return x <eos>": (0, [-1, -1, 1]),
    "x += 3 ; x *= y ; return x ; return x <eos>": (1, [1, 1, 1, -1]),
    "x += 3 ; x *= y ; return x ;": (0, [1, 1, 1]),  # no end token
    "x += 3 ; x *= y ; return x": (0, [1, 1, 1]),
    "x += 3 ; x *=": (0, [1, -1]),
    "<eos>": (0, [-1]),
    "": (0, []),
  }
  judged = judge(task, problems, cases)
  for s, (correct, line_scores) in enumerate(cases.values()):
    assert judged.correct[0, s] == judged.scores[0, s] == correct
    count = len(line_scores)
    assert judged.step_scores[0, s, :count].tolist() == line_scores
    assert judged.step_mask[0, s].sum() == count
    assert not judged.step_scores[0, s, count:].any()
  assert judged.step_ids[0, 1, :10].tolist() == [0] * 4 + [1] * 5 + [-1]
  judged_shapes.check(task, judged)
  # A text without its end token is no answer.
  assert (judged.answer_ids[0] >= 0).tolist() == [True] * 6 + [False] * 5


def test_the_digits_of_an_id_are_the_prompt():
  """An operation is a digit in base 36: four operators times nine operands."""
  ids = np.array([0, (36 * 17 + 26) * 36 + 35], np.int64)
  problems = module._problems(ids, 3)
  assert [module.decode(row) for row in problems.prompts] == [
    "plus 2 plus 2 plus 2 :",
    "minus y times y from y :",
  ]
  assert problems.prompts.shape == problems.prompt_mask.shape == (2, 7)
  assert problems.prompt_mask.all()
  assert problems.facts["operators"].tolist() == [[0, 0, 0], [1, 2, 3]]
  assert problems.facts["operands"].tolist() == [[0, 0, 0], [8, 8, 8]]
  for array in (problems.prompts, problems.ids, *problems.facts.values()):
    assert array.dtype == np.int32


def test_sizes_and_names_follow_from_the_settings(task):
  assert tasks.get("programs").name == "programs(operations=4)"
  assert (task.prompt_length, task.completion_length) == (5, 21)
  assert not task.jittable
  ids = task.train(jax.random.key(0), 0, 200).ids
  assert 36 * 35 < ids.max() < 36**2
  for operations, nearest in ((0, 1), (6, 5), (11, 5)):
    with pytest.raises(ValueError, match=f"1 to 5, the nearest is {nearest}$"):
      tasks.get("programs", operations=operations)
  shortest = tasks.get("programs", operations=1)
  assert (shortest.prompt_length, shortest.completion_length) == (3, 15)


def test_gold_is_the_first_way_of_writing(task):
  problems = problem(("plus", "3"), ("from", "y"))
  completions, lengths = task.gold(problems)
  first, second = (
    " ".join(rules.WORDS[i] for i in rules.writings(*operation)[0])
    for operation in (("plus", "3"), ("from", "y"))
  )
  text = f"{first} ; {second} ; return x <eos>"
  assert module.decode(completions[0]) == text
  assert lengths.tolist() == [len(text.split())]


def test_each_error_of_a_line_comes_at_its_rate():
  """Four standard deviations of 6000 lines."""

  def lines(operators, operands):
    return {
      tuple(line)
      for operator in operators
      for operand in operands
      for line in rules.writings(operator, operand)
    }

  right = lines(["times"], ["4"])
  expected = [
    (0.85, right),
    (0.05, lines({*rules.OPERATORS} - {"times"}, ["4"])),
    (0.05, lines(["times"], {*rules.OPERANDS} - {"4"})),
    (0.02, {line[:-1] for line in right}),
    (0.03, {None}),
  ]
  rng = np.random.default_rng(0)
  written = []
  for _ in range(6000):
    line = module._write(("times", "4"), rng)
    assert len(line) <= 1
    written.append(tuple(line[0]) if line else None)
  for rate, some in expected:
    share = np.mean([line in some for line in written])
    assert abs(share - rate) < 4 * (rate * (1 - rate) / 6000) ** 0.5
    assert some <= {*written}  # every way of this kind comes up


def test_a_failure_of_the_sandbox_is_not_scored(task, monkeypatch):
  report = sandbox.Report(-1, 0, 0, "no sandbox")
  monkeypatch.setattr(sandbox, "run", lambda *_, **__: report)
  texts = ["x += 3 ; return x <eos>", "x + ; return <eos>"]
  judged = judge(task, problem(("plus", "3"), ("plus", "4")), texts)
  assert judged.correct.tolist() == [[-1, 0]]
  assert judged.scored.tolist() == [[False, True]]
  assert judged.step_scores[0, :, :2].tolist() == [[0, 0], [-1, 0]]


def test_demonstrations_have_their_errors(task):
  """Four kinds of errors, 15 % per operation; three standard deviations."""
  problems = task.train(jax.random.key(0), 0, 600)
  completions, lengths = task.demonstrate(jax.random.key(1), problems)
  judged = task.score(problems, completions[:, None], lengths[:, None], None)
  assert abs(judged.correct.mean() - 0.85**2) < 0.055
  num_lines = judged.step_mask.sum(-1)[:, 0]
  assert abs((3 - num_lines).mean() - 2 * 0.03) < 0.03
  # In front of the error all lines are right.
  first = judged.step_scores[:, 0, 0] == 1
  assert abs(first.mean() - 0.85) < 0.045
  again = task.demonstrate(jax.random.key(1), problems)
  np.testing.assert_array_equal(again[0], completions)
  other, _ = task.demonstrate(jax.random.key(2), problems)
  assert (other != completions).any()


def test_changes_of_a_line_end_as_the_line():
  line = [rules.ID[word] for word in ("x", "-=", "3", ";")]
  changes = module.change_line(line)
  assert [module.decode(x) for x in changes.refactorings] == ["x = x - 3 ;"]
  assert all(x[-1] == rules.END for x in changes.mutations)
  last = module.change_line([rules.RETURN, rules.ID["x"]])
  assert last.refactorings == []
  assert "return y" in [module.decode(x) for x in last.mutations]


def test_a_machine_without_protections_is_refused(monkeypatch):
  monkeypatch.setattr(sandbox, "missing_protections", lambda: ("a lock",))
  with pytest.raises(RuntimeError, match=r"a lock.*allow_unprotected=True"):
    tasks.get("programs")
  tasks.get("programs", allow_unprotected=True)
