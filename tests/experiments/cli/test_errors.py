"""A user's mistake is one line; a mistake of ours is a traceback."""

import pytest

from experiments.cli import errors


@errors.one_line_errors
def command(refusal=None, fault=None):
  with errors.usage_errors():
    if refusal:
      raise refusal
  if fault:
    raise fault
  return 0


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, ImportError])
def test_what_is_refused_is_one_line_and_status_2(kind, capsys):
  assert command(refusal=kind("k = 9 is too large;\n  nearest: 8")) == 2
  out, err = capsys.readouterr()
  assert not out
  assert err == "error: k = 9 is too large; nearest: 8\n"


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_what_fails_elsewhere_is_not_hidden(kind):
  with pytest.raises(kind):
    command(fault=kind("ours"))


def test_another_kind_of_error_is_not_a_refusal():
  with pytest.raises(TypeError):
    command(refusal=TypeError("ours"))


def test_a_command_that_succeeds_says_nothing(capsys):
  assert command() == 0
  assert capsys.readouterr() == ("", "")
