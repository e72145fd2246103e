"""A mistake is one line, which names the line of code of a bug."""

import io
import os
import pathlib
import sys

import pytest

from experiments.cli import errors, spec
from rl import errors as rl_errors


def command(error, argv=()):
  @errors.command
  def main(argv):
    assert errors.TRACEBACK not in argv
    with errors.doing("checking", [os.path.realpath(__file__)]):
      raise error

  return main(argv)


@pytest.mark.parametrize(
  ("kind", "status"),
  [(errors.UsageError, 2), (errors.RunError, 1)],
)
def test_what_is_refused_is_one_line(kind, status, capsys):
  assert command(kind("k = 9 is too large;\n  nearest: 8")) == status
  out, err = capsys.readouterr()
  assert not out
  assert err == "error: k = 9 is too large; nearest: 8\n"


@pytest.mark.parametrize("kind", [ValueError, TypeError, NotADirectoryError])
def test_a_bug_shows_what_was_done_its_type_and_its_line(kind, capsys):
  assert command(kind("no int")) == 1
  line = capsys.readouterr().err
  assert line.startswith("error: checking: ")
  assert f": {kind.__name__}: no int; --traceback" in line
  assert f"{pathlib.Path(__file__).name}:" in line
  assert line.count("\n") == 1


def test_a_file_that_cannot_be_used_is_a_mistake_of_the_user(capsys):
  @errors.command
  def main(argv):
    with errors.doing("reading", []):
      pathlib.Path("/no/such/file").read_text()

  assert main([]) == 2
  line = capsys.readouterr().err
  assert line == "error: [Errno 2] No such file or directory: '/no/such/file'\n"


def test_a_bug_has_the_notes_of_what_was_done(capsys):
  error = KeyError("ours")
  error.add_note("after 3 training steps")
  assert command(error) == 1
  line = capsys.readouterr().err
  assert line.startswith("error: checking: after 3 training steps: ")
  assert ": KeyError: ours; " in line


def test_the_traceback_is_shown_on_demand(capsys):
  assert command(ValueError("ours"), ["--traceback"]) == 1
  err = capsys.readouterr().err
  assert "Traceback" in err
  assert "in main\n    raise error\n" in err


def test_the_line_is_that_of_the_file_of_the_user():
  # The exception is raised inside of a function of this project.
  with pytest.raises(errors.UsageError) as raised:
    spec.parse(")")
  here = os.path.realpath(__file__)
  assert rl_errors.locate(raised.value, [here]).file == here
  assert rl_errors.locate(raised.value).file.endswith("spec.py")


def test_a_command_that_succeeds_says_nothing(capsys):
  assert errors.command(lambda argv: 0)([]) == 0
  assert capsys.readouterr() == ("", "")


def test_a_printed_line_is_in_the_pipe_at_once(monkeypatch):
  written = io.BytesIO()
  monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))

  @errors.command
  def main(argv):
    print("loading ...")
    return len(written.getvalue())

  assert main() == len("loading ...\n")
