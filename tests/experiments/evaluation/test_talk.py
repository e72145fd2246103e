"""`sample` prints samples that are written by hand."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import rich.console

from experiments.evaluation import talk, user_prompts
from experiments.tasks.task import Problems
from rl import UsageError

END = 0


def _encode(text):
  if "?" in text:
    raise UsageError("a mistake")
  return [int(word) for word in text.split()]


def _encode_turns(turns):
  return [_encode(x["content"])[0] for x in turns]


TASK = SimpleNamespace(
  name="digits",
  prompt_length=3,
  pad_id=1,
  decode=lambda ids: " ".join(map(str, ids)),
  prompt_ids=_encode,
  encode_turns=_encode_turns,
)
LOADED = SimpleNamespace(task=TASK)


def _samples(length=2, finished=True):
  """Two samples: the first is [7, END], or its first tokens without an end."""
  return SimpleNamespace(
    completions=np.array([[[7, END, 1], [8, 9, 6]]]),
    lengths=np.array([[length, 3]]),
    finished=np.array([[finished, False]]),
  )


class Heartbeat:
  """Notes what it is told."""

  def __init__(self):
    self.events = []

  def start(self, *arguments):
    self.events.append(arguments)

  def stop(self):
    self.events.append("stop")


@pytest.fixture
def printer(monkeypatch):
  """A printer whose samples are `_samples()`; `problems` has its problems."""
  file = io.StringIO()
  result = talk.Printer(
    *(LOADED, "key", SimpleNamespace(samples=2)),
    # Long lines are not wrapped, also in a narrow terminal.
    rich.console.Console(file=file, width=20),
    Heartbeat(),
  )
  result.problems, result.answer, result.scores = [], _samples(), None

  def complete(loaded, problem, key, sampling):
    assert (loaded, key, sampling.samples) == (LOADED, "key", 2)
    result.problems.append(problem)
    return result.answer, result.scores

  monkeypatch.setattr(user_prompts, "complete", complete)
  result.lines = lambda: file.getvalue().splitlines()
  return result


def _problem(length=3):
  return Problems(
    prompts=np.array([[1, 4, 5, *[1] * (length - 3)]]),
    prompt_mask=np.array([[False, True, True, *[False] * (length - 3)]]),
    ids=np.zeros(1, int),
    facts={},
  )


def test_a_prompt_and_its_completions_are_printed(printer):
  printer(_problem())
  assert printer.lines() == ["", "4 5", "  7 0", "  8 9 6", _cut(3)]


def _cut(length, score=""):
  return f"  ({score}cut off at {length} tokens)"


def test_scores_and_the_users_prompt_are_printed(printer):
  """Square brackets are no markup, and long lines are not wrapped."""
  printer.scores = np.array([0.12345, np.nan])
  printer(_problem(), "a [bold]prompt[/bold] of more than twenty characters")
  assert printer.lines()[1:] == [
    "a [bold]prompt[/bold] of more than twenty characters",
    "  7 0",
    "  (score 0.123)",
    "  8 9 6",
    _cut(3, "not scored, "),
  ]


def test_a_new_length_is_compiled_and_a_known_one_answered(printer):
  """The heartbeat stops, also after an error, which compiles nothing."""
  printer.sample(_problem(3))
  printer.sample(_problem(4))
  printer.sample(_problem(3))
  compiling = "compiling for prompts of up to {} tokens, and sampling"
  events = printer._heartbeat.events
  assert events == [
    *((compiling.format(3),), "stop"),
    *((compiling.format(4),), "stop"),
    *(("sampling", 10.0), "stop"),
  ]
  printer._loaded = None  # the fake `complete` refuses it
  with pytest.raises(AssertionError):
    printer.sample(_problem(5))
  assert events[-1] == "stop"
  assert 5 not in printer._lengths


def test_each_line_is_a_prompt_with_its_own_random_numbers(
  printer, monkeypatch
):
  monkeypatch.setattr("sys.stdin", io.StringIO("4 5\n\n?\n6\n1 2 3 4\n"))
  talk.complete_lines(printer)
  assert [problem.ids.tolist() for problem in printer.problems] == [[0], [3]]
  prompts = [problem.prompts.tolist() for problem in printer.problems]
  assert prompts == [[[1, 4, 5]], [[1, 1, 6]]]
  lines = printer.lines()
  assert lines[0] == "Type one prompt per line; Ctrl-D ends the command."
  assert lines.count("a mistake") == 1
  assert any("the prompt has 4 tokens" in line for line in lines)


def test_a_conversation_is_answered_turn_after_turn(
  printer, monkeypatch, capsys
):
  """It drops the oldest turns, and says where an answer was cut."""
  text = "/new\n4\n5\n6\n?\n\n3\n"
  monkeypatch.setattr("sys.stdin", io.StringIO(text))
  talk.converse(printer)
  prompts = [problem.prompts.tolist() for problem in printer.problems]
  # The answer is 7. A third turn of the user is beyond the three tokens.
  assert prompts == [[[1, 1, 4]], [[4, 7, 5]], [[5, 7, 6]], [[1, 1, 3]]]
  assert printer.lines()[1:] == [
    "7",
    "7",
    "(the 2 oldest turns no longer fit and were dropped)",
    "7",
    "a mistake",
    "(a new conversation)",
    "7",
  ]
  # Piped input is echoed.
  echoed = capsys.readouterr().out
  assert echoed.replace("> ", "") == f"{text}\n"
  printer.answer = _samples(length=1, finished=False)
  monkeypatch.setattr("sys.stdin", io.StringIO("4\n"))
  talk.converse(printer)
  assert printer.lines()[-2:] == [
    "7",
    "(cut off at 1 tokens; --max_tokens sets the limit)",
  ]


def test_an_echoed_line_is_seen_before_its_answer(monkeypatch):
  """It is written with its own line, and not with the next prompt."""
  written = io.BytesIO()
  output = io.TextIOWrapper(written, line_buffering=True)  # as of a command
  monkeypatch.setattr("sys.stdin", io.StringIO("4\n"))
  monkeypatch.setattr("sys.stdout", output)
  assert talk._read_line() == "4"
  assert written.getvalue() == b"> 4\n"
  assert talk._read_line() is None
