"""A user's mistake is one line; a mistake of ours is a traceback."""

import io
import sys

import pytest

from experiments.cli import errors


@errors.command
def command(refusal=None, fault=None):
  with errors.usage_errors():
    if refusal:
      raise refusal
  if fault:
    raise fault
  return 0


@pytest.mark.parametrize("kind", [ValueError, NotADirectoryError, ImportError])
def test_what_is_refused_is_one_line_and_status_2(kind, capsys):
  assert command(refusal=kind("k = 9 is too large;\n  nearest: 8")) == 2
  out, err = capsys.readouterr()
  assert not out
  assert err == "error: k = 9 is too large; nearest: 8\n"


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_what_fails_elsewhere_is_not_hidden(kind):
  with pytest.raises(kind):
    command(fault=kind("ours"))


def test_another_kind_of_error_names_its_type_and_its_place(capsys):
  assert command(refusal=TypeError("no int")) == 2
  line = capsys.readouterr().err
  assert line.startswith(f"error: TypeError: no int ({__file__}:")
  assert line.count("\n") == 1


def test_a_command_that_succeeds_says_nothing(capsys):
  assert command() == 0
  assert capsys.readouterr() == ("", "")


def test_a_printed_line_is_in_the_pipe_at_once(monkeypatch):
  written = io.BytesIO()
  monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))

  @errors.command
  def main():
    print("loading ...")
    return len(written.getvalue())

  assert main() == len("loading ...\n")
