"""Tests of `rl.registry`: names, types of settings and failing imports."""

import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rl import methods, registry
from rl.methods.group import rloo


@pytest.mark.parametrize(
  ("value", "allowed", "message"),
  [
    (
      "grop",
      ["rloo", "grpo"],
      "unknown method 'grop'; did you mean 'grpo'? available: rloo, grpo",
    ),
    # The case of letters does not count, and the original name is given.
    ("MAXK", ["MaxK"], "unknown method 'MAXK'; did you mean 'MaxK'? avail"),
    # The last is more similar than the first two.
    ("mean", ["men_x", "mx_ean", "meant"], "did you mean 'meant'?"),
    # Equally similar names: that with the same first letter.
    ("bc", ["cb", "ba"], "did you mean 'ba'?"),
    ("bc", ["ba", "cb"], "did you mean 'ba'?"),
    # A share of 0.4 of equal letters is enough, and 0.25 is not.
    ("abcde", ["abxyz"], "did you mean 'abxyz'?"),
    ("abcd", ["axyz"], "unknown method 'abcd'; available: axyz"),
    ("x", [], "unknown method 'x'; available: none"),
    (3, ["a"], "unknown method 3; available: a"),
  ],
)
def test_an_unknown_name_is_compared_with_all_others(value, allowed, message):
  assert message in registry.describe_unknown("method", value, allowed)


def test_a_more_similar_name_comes_before_one_with_the_same_first_letter():
  message = registry.describe_unknown("x", "ratio", ["rat_xx", "aratio"])
  assert "did you mean 'aratio'" in message


def _refused(annotation, value, default=None):
  def make(a=default):
    del a

  make.__annotations__["a"] = annotation
  try:
    registry.check_settings("setting", "task 't'", make, {"a": value})
  except ValueError as error:
    return str(error)
  return ""


@pytest.mark.parametrize(
  ("annotation", "accepted", "refused"),
  [
    (int, [3, np.int32(3)], [3.0, True, "3", None]),
    (float, [0.5, 3, np.float32(1)], [True, "0.5", None]),
    (bool, [True, False], [1, "yes"]),
    (str, ["a", pathlib.Path("a")], [1, None]),
    ("int | None", [1, None], [0.5, "a"]),
    (int | str, [1, "a"], [0.5, None]),
    (tuple, [(1, "a"), [1]], [1, "ab"]),
    (tuple[int, ...], [(1, 2), [], [3]], [("a",), (1, "a"), ("a", 1), 1]),
    (tuple[int, str], [(1, "a"), [1, "a"]], [(1,), ("a", 1), (1, "a", 2)]),
    (tuple[float, float], [(0.0, 1)], [(0.0, "a"), ("a", 0.0)]),
    (Any, [1, None, "a"], []),
    ("Missing", [1, None, "a"], []),  # a name for type checkers only
    (Callable[[int], int], [abs, 1], []),  # not checked
    (list[int] | None, [None, [1]], []),
    (os.PathLike | int, [pathlib.Path("a"), 1], ["a", 0.5]),
  ],
)
def test_values_must_have_the_annotated_type(annotation, accepted, refused):
  for value in accepted:
    assert not _refused(annotation, value), value
  for value in refused:
    assert f"task 't': a = {value!r} must be" in _refused(annotation, value)


def test_a_message_has_an_example_of_the_right_type():
  assert _refused(int, 4.0, 7).endswith("a = 4.0 must be int, for example 4")
  assert _refused(int, 4.5, 7).endswith("must be int, for example 7")
  assert _refused("tuple[int, ...]", 1, (2,)).endswith(
    "must be tuple[int, ...], for example (2,)"
  )


def test_settings_are_checked_against_all_named_parameters():
  def make(a: int, *more, b: int = 1, c=None):
    del a, more, b, c

  def open_to_all(a: int, **others):
    del a, others

  assert list(registry.named_parameters(make)) == ["a", "b", "c"]
  check = registry.check_settings
  check("setting", "it", make, {"a": 1, "c": object()})
  with pytest.raises(ValueError, match=r"setting of it 'd'; .* a, b, c"):
    check("setting", "it", make, {"a": 1, "d": 2})
  with pytest.raises(ValueError, match="it needs a value of 'a'"):
    check("setting", "it", make, {"b": 1})
  check("setting", "it", open_to_all, {"a": 1, "d": 2})
  with pytest.raises(ValueError, match=r"a = 'x' must be int$"):
    check("setting", "it", open_to_all, {"a": "x"})


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      "x = 1\n\nraise OSError('no disk')",
      "line 3, cannot be imported: OSError: no disk; mend the file, or",
    ),
    (
      "import there_is_no_such_module",
      "line 1, cannot be imported: ModuleNotFoundError: .*; install the pack",
    ),
    ("a = 1\nb = = 2", "line 2, cannot be imported: SyntaxError: invalid"),
    # The last line of a module of the project, not of the function it called.
    (
      "def fail():\n  return {}['key']\n\nfail()",
      "line 4, cannot be imported: KeyError: 'key'; mend",
    ),
    # The import of another file that fails is located in that file.
    (
      "x = 1\nimport inner_of_registry_test",
      "inner_of_registry_test.py, line 2, cannot be imported: ZeroDivision",
    ),
  ],
)
def test_a_failing_import_is_located(tmp_path, monkeypatch, text, message):
  monkeypatch.syspath_prepend(tmp_path)
  (tmp_path / "outer_of_registry_test.py").write_text(text)
  (tmp_path / "inner_of_registry_test.py").write_text("\n1 / 0")
  with pytest.raises(ValueError, match=message) as error:
    registry.import_module("outer_of_registry_test")
  assert str(error.value).startswith(str(tmp_path))
  sys.modules.pop("outer_of_registry_test", None)


def test_files_of_the_project_are_named_relative_to_it(monkeypatch, tmp_path):
  monkeypatch.setattr(registry, "_ROOT", tmp_path)
  monkeypatch.syspath_prepend(tmp_path)
  (tmp_path / "outer_of_registry_test.py").write_text("1 / 0")
  with pytest.raises(ValueError, match=r"^outer_of_registry_test.py, line 1"):
    registry.import_module("outer_of_registry_test")


def test_a_module_that_can_be_imported_is_returned():
  root = pathlib.Path(registry.__file__).parent.parent
  assert registry.import_module("rl.registry") is registry
  assert root.resolve() == registry._ROOT


def test_two_methods_of_one_name_are_an_error(tmp_path, monkeypatch):
  """A copy of a method's file in another folder of the package."""
  monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
  (tmp_path / "copied_family").mkdir()
  (tmp_path / "copied_family" / "__init__.py").touch()
  copy = tmp_path / "copied_family" / "rloo.py"
  copy.write_text(pathlib.Path(rloo.__file__).read_text())
  with pytest.raises(ValueError, match="two methods have the name") as error:
    methods.names()
  for name in list(sys.modules):
    if "copied_family" in name:
      sys.modules.pop(name)
  assert str(copy) in str(error.value)
  assert "rl/methods/group/rloo.py" in str(error.value)
