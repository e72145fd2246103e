"""Tests of the rules by which the checks of a test must run and hold."""

import ast

import pytest

from rewards.verifiers.sandbox.inside import assertions


def fail(kind):
  raise kind


def drive(coroutine):
  """Runs a coroutine that never waits."""
  with pytest.raises(StopIteration):
    coroutine.send(None)


class Manager:
  """An asynchronous context manager that does nothing."""

  async def __aenter__(self):
    return self

  async def __aexit__(self, *_):
    return False


NAMES = {"yes": True, "no": False, "none": [], "fail": fail}
NAMES |= {"drive": drive, "manager": Manager()}


def passes(source):
  """Returns whether a test without exceptions passes."""
  tree = ast.parse(source)
  test = assertions.Test([tree])
  exec(compile(tree, "test", "exec"), {**NAMES, **test.hooks})
  return test.holds()


UNREACHED = "for x in none:\n  assert x\n"  # an assertion that does not run


@pytest.mark.parametrize(
  ("source", "holds"),
  [
    ("assert yes", True),
    ("pass", True),
    (UNREACHED, False),
    ("assert yes\n" + UNREACHED, False),
    (UNREACHED + "assert yes", False),
    ("for x in [1, 2]:\n  assert x", True),
    ("assert True\nassert 1", True),  # constants are no checks
    ("self = type('', (), {'assertTrue': bool})\nself.assertTrue(no)", True),
    ("class A:\n  for x in none:\n    assert x", False),
    ("with open('/dev/null'):\n  for x in none:\n    assert x", False),
    # The `else` of a loop runs if no break ends the loop.
    ("for x in [1]:\n  assert yes\nelse:\n  assert yes", True),
    ("for x in [1]:\n  assert x\n  break\nelse:\n  assert x", True),
    ("for x in none:\n  assert x\nelse:\n  assert yes", False),
  ],
)
def test_sequences_and_loops(source, holds):
  assert passes(source) == holds


BRANCHES = """
for x in (1, 2):
  if x == 1:
    {}
  else:
    assert yes
"""


@pytest.mark.parametrize(
  ("source", "holds"),
  [
    ("if yes:\n  assert yes\nelse:\n  assert no", True),
    ("if no:\n  assert yes", False),
    ("if no:\n  pass\nelse:\n  assert yes", True),
    (BRANCHES.format("assert yes"), True),
    # One branch holds. The other was entered, but not all of its checks ran.
    (BRANCHES.format("assert yes\n    for y in none: assert y"), False),
    (
      BRANCHES.format(
        "try:\n      assert yes\n      for y in none: assert y\n"
        "    except ValueError: pass"
      ),
      False,
    ),
    ("match 1:\n  case 1:\n    assert yes\n  case _:\n    assert no", True),
    ("match 2:\n  case 1:\n    assert yes", False),
  ],
)
def test_branches(source, holds):
  assert passes(source) == holds


@pytest.mark.parametrize(
  ("body", "holds"),
  [
    ("if yes:\n  assert yes\n  return\nassert no", True),
    ("if no:\n  x = 1\n  return\nassert yes\nassert yes", True),
    ("if no:\n  return\nfor x in none:\n  assert x\nassert yes", False),
    ("x = 1\nif no:\n  return\nassert yes\nfor x in none:\n  assert x", False),
    ("if yes:\n  pass\nelse:\n  return\nassert yes", True),
    ("if no:\n  pass\nelse:\n  assert yes\n  return\nassert no", True),
    ("if yes:\n  return\nassert yes", False),
  ],
)
def test_statements_after_a_branch_with_a_jump(body, holds):
  indented = body.replace("\n", "\n  ")
  assert passes(f"def run():\n  {indented}\nrun()") == holds


@pytest.mark.parametrize(
  ("source", "holds"),
  [
    ("try:\n  assert yes\nexcept ValueError:\n  pass", True),
    ("try:\n  for x in none: assert x\nexcept ValueError:\n  pass", False),
    ("try:\n  pass\nexcept ValueError:\n  pass\nelse:\n  assert yes", True),
    ("try:\n  assert yes\nfinally:\n  for x in none: assert x", False),
    # A handler that could not have caught an AssertionError allows its error.
    ("try:\n  assert fail(KeyError)\nexcept KeyError:\n  pass", True),
    ("try:\n  assert fail(OSError)\nexcept (KeyError, OSError):\n  pass", True),
    ("for x in 1, 2:\n  try:\n    assert fail(KeyError)\n"
     "  except KeyError:\n    continue", True),
    ("try:\n  assert fail(KeyError)\nexcept LookupError:\n  pass", True),
    ("try:\n  assert fail(KeyError)\nexcept Exception:\n  pass", False),
    ("try:\n  assert fail(KeyError)\nexcept:\n  pass", False),
    ("try:\n  assert no\nexcept AssertionError:\n  pass", False),
    ("try:\n  assert no\nexcept (KeyError, AssertionError):\n  pass", False),
    # A later assertion that holds does not make up for it.
    ("try:\n  assert no\nexcept AssertionError:\n  pass\nassert yes", False),
    ("try:\n  assert fail(KeyError)\nexcept KeyError:\n  pass\n" + UNREACHED,
     False),
    # The checks of a handler decide in place of those of the `try` block.
    ("try:\n  assert no\nexcept AssertionError:\n  assert yes", True),
    ("try:\n  assert no\nexcept AssertionError:\n"
     "  for x in none: assert x", False),
    ("try:\n  assert yes\nexcept AssertionError:\n  assert no", True),
    ("for kind in (KeyError, OSError):\n  try:\n    fail(kind)\n"
     "  except KeyError:\n    assert yes\n"
     "  except OSError:\n    for x in none: assert x", False),
    # An error that is no assertion's.
    ("try:\n  fail(KeyError)\nexcept KeyError:\n  assert yes", True),
    ("assert yes\ntry:\n  fail(KeyError)\n  assert yes\n"
     "except KeyError:\n  pass", True),
    ("assert yes\ntry:\n  fail(KeyError)\n  assert yes\n"
     "except Exception:\n  pass", False),
    # No assertion is reached at all.
    ("try:\n  fail(KeyError)\n  assert yes\nexcept KeyError:\n  pass", False),
    ("try:\n  for x in none: assert x\nexcept* ValueError:\n  pass", False),
    # Something else than classes is no handler of any error.
    ("try:\n  try:\n    fail(KeyError)\n  except 3:\n    assert no\n"
     "except TypeError:\n  assert yes", True),
    # A handler's expression is evaluated only if there is an error.
    ("def kind():\n  assert yes\n  return KeyError\n"
     "try:\n  assert yes\nexcept kind():\n  pass", True),
  ],
)  # fmt: skip
def test_handlers(source, holds):
  assert passes(source) == holds


@pytest.mark.parametrize(
  ("body", "holds"),
  [
    # A handler with checks and a jump replaces the statements after the `try`.
    (
      "try:\n  fail(KeyError)\nexcept OSError:\n  pass\n"
      "except KeyError:\n  assert yes\n  return\nassert yes",
      True,
    ),
    (
      "try:\n  pass\nexcept KeyError:\n  assert yes\n  return\n" + UNREACHED,
      False,
    ),
    (
      "try:\n  fail(KeyError)\nexcept KeyError:\n  return\nassert yes",
      False,
    ),
    (
      "try:\n  fail(KeyError)\nexcept KeyError:\n  assert yes\n" + UNREACHED,
      False,
    ),
    (
      "for kind in (KeyError, OSError):\n  try:\n    fail(kind)\n"
      "  except KeyError:\n    assert yes\n    continue\n"
      "  except OSError:\n    assert yes\n  for x in none: assert x",
      True,
    ),
  ],
)
def test_statements_after_a_handler_with_a_jump(body, holds):
  indented = body.replace("\n", "\n  ")
  assert passes(f"def run():\n  {indented}\nrun()") == holds


SAME = "def same(a):\n  assert a\n  return True\n"
METHOD = "class Checker:\n  def same(self, a):\n    assert a\n"


@pytest.mark.parametrize(
  ("source", "holds"),
  [
    (SAME + "same(1)", True),
    (SAME + "for x in none:\n  same(x)", False),
    (SAME + "def also(a):\n  same(a)\nfor x in none:\n  also(x)", False),
    (SAME + "assert yes", True),  # nobody refers to it
    (SAME + "if yes:\n  assert yes\nelse:\n  same(1)", True),
    (SAME + "assert yes\nlist(map(same, none))", False),
    (SAME + "list(map(same, [1]))", True),
    (METHOD + "Checker().same(1)", True),
    (METHOD + "assert yes\nlist(map(Checker().same, none))", False),
    # Both are called; the loop of the second runs over nothing.
    (SAME + "def each(a):\n  for x in a:\n    assert x\nsame(1)\neach([])",
     False),
    # Python calls a decorated function and special methods by other names.
    ("def keep(f): return f\n@keep\ndef same(a):\n  assert a\nassert yes",
     False),
    ("class A:\n  def __len__(self):\n    assert yes\n    return 1\n"
     "len(A())", True),
    ("class A:\n  def __len__(self):\n    assert yes\n    return 1\n"
     "assert A", False),
    ("class A:\n  def test_one(self):\n    assert yes\nassert A", False),
    ("class A:\n  def one(self):\n    assert yes\nassert A", True),
    # A guard is evaluated only if its pattern is reached.
    (SAME + "match 1:\n  case 1:\n    assert yes\n"
     "  case x if same(x):\n    assert yes", True),
    ("async def run():\n  async with manager:\n"
     "    for x in none: assert x\n  assert yes\ndrive(run())", False),
    ("async def run():\n  async with manager:\n    assert yes\n"
     "drive(run())", True),
  ],
)  # fmt: skip
def test_functions_and_methods(source, holds):
  assert passes(source) == holds


def test_trees_are_separate_tests_and_a_reset_forgets():
  trees = [ast.parse(each) for each in ("assert yes", UNREACHED, "x = 1")]
  test = assertions.Test(trees)
  assert test.count == 2
  namespace = {**NAMES, **test.hooks}
  results = []
  for index, tree in enumerate(trees):
    test.reset()
    exec(compile(tree, "test", "exec"), namespace)
    results.append(test.holds(index))
  assert results == [True, False, True]


@pytest.mark.parametrize(
  ("source", "kind"),
  [
    ("assert no, 'told'", AssertionError),
    ("assert fail(KeyError)", KeyError),
    ("try:\n  assert no\nfinally:\n  pass", AssertionError),
  ],
)
def test_a_failed_assertion_raises_its_error(source, kind):
  with pytest.raises(kind):
    passes(source)


CHECK = """
def check(f):
  assert f
  assert fail(ValueError)
  for x in (1, 0, 1):
    assert x
  try:
    assert fail(KeyError)
  except KeyError:
    pass
  try:
    assert no
  except AssertionError:
    pass
  try:
    assert fail(OSError)
  except* TypeError:
    pass
"""


def test_a_graded_test_goes_on_and_records_its_assertions():
  """Assertions are numbered by their depth, and by their order at a depth."""
  records = []
  tree = ast.parse(CHECK)
  test = assertions.Test([tree], "check", lambda *each: records.append(each))
  assert test.count == 6
  exec(compile(tree, "test", "exec"), namespace := {**NAMES, **test.hooks})
  test.graded = True
  # A failed assertion in a `try` block is raised, too.
  with pytest.raises(OSError):  # noqa: PT011
    namespace["check"](1)
  assert records == [(0, True), (1, False), (2, True), (2, False), (2, True)]
  # Allowed by its handler; swallowed; not caught.
  test.close()
  assert records[5:] == [(3, True), (4, False), (5, False)]


@pytest.mark.parametrize(
  ("source", "holds"),
  [
    ("def check(f):\n  assert f", True),
    ("def check(f):\n  return", True),
    # Python keeps the last definition.
    (
      "def check(f):\n  for x in none: assert x\ndef check(f):\n  assert f",
      True,
    ),
    # Other functions count if `check` refers to them.
    (SAME + "def check(f):\n  same(f)\n  for x in none: assert x", False),
    (SAME + "def check(f):\n  assert f", True),
    (SAME + "def check(f):\n  return", False),
    (
      "def make():\n  def check(f):\n    assert f\n  return check\n"
      "check = make()",
      True,
    ),
  ],
)
def test_the_function_that_is_the_test(source, holds):
  tree = ast.parse(source)
  test = assertions.Test([tree], "check")
  namespace = {**NAMES, **test.hooks}
  exec(compile(tree, "test", "exec"), namespace)
  test.reset()
  namespace["check"](1)
  assert test.holds() == holds
