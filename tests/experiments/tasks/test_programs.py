"""The task `programs` by hand."""

import jax
import numpy as np
import pytest

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
  # A text without its end token is no answer.
  assert (judged.answer_ids[0] >= 0).tolist() == [True] * 6 + [False] * 5


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
