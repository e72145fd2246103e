"""A mistake is one line, which names the line of code of a bug."""

import io
import os
import pathlib
import sys

import pytest

from experiments.cli import errors, spec
from rl import errors as rl_errors


def command(refusal=None, fault=None, argv=()):
  @errors.command
  def main(argv):
    assert errors.TRACEBACK not in argv
    with errors.usage_errors("checking"):
      if refusal:
        raise refusal
    if fault:
      raise fault
    return 0

  return main(argv)


@pytest.mark.parametrize("kind", [errors.UsageError, NotADirectoryError])
def test_what_is_refused_is_one_line_and_status_2(kind, capsys):
  assert command(refusal=kind("k = 9 is too large;\n  nearest: 8")) == 2
  out, err = capsys.readouterr()
  assert not out
  assert err.endswith("k = 9 is too large; nearest: 8\n")
  assert err.count("\n") == 1


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_a_bug_shows_what_was_done_its_type_and_its_line(kind, capsys):
  assert command(refusal=kind("no int")) == 2
  line = capsys.readouterr().err
  assert line.startswith(f"error: checking: {kind.__name__}: no int (")
  assert f"{pathlib.Path(__file__).name}:" in line
  assert line.count("\n") == 1


def test_a_bug_outside_of_a_check_has_status_1(capsys):
  error = KeyError("ours")
  error.add_note("after 3 training steps")
  assert command(fault=error) == 1
  line = capsys.readouterr().err
  assert line.startswith("error: after 3 training steps: KeyError: ours (")


def test_the_traceback_is_shown_on_demand(capsys):
  assert command(fault=ValueError("ours"), argv=["--traceback"]) == 1
  err = capsys.readouterr().err
  assert "Traceback" in err
  assert "in main\n    raise fault\n" in err


def test_the_line_is_that_of_the_file_of_the_user():
  # The exception is raised inside of a function of this project.
  with pytest.raises(errors.UsageError) as raised:
    spec.parse(")")
  here = os.path.realpath(__file__)
  assert rl_errors.locate(raised.value, [here]).file == here
  assert rl_errors.locate(raised.value).file.endswith("spec.py")


def test_a_command_that_succeeds_says_nothing(capsys):
  assert command() == 0
  assert capsys.readouterr() == ("", "")


def test_a_printed_line_is_in_the_pipe_at_once(monkeypatch):
  written = io.BytesIO()
  monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))

  @errors.command
  def main(argv):
    print("loading ...")
    return len(written.getvalue())

  assert main() == len("loading ...\n")
