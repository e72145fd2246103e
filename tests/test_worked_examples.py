"""Every method and every reward has a test marked as a worked example.

See `helpers.worked_example`.
"""

import ast
import pathlib

import rewards
from experiments.catalogue import __main__ as catalogue
from rl import methods

TESTS = pathlib.Path(__file__).parent


def marked():
  """The names in `@pytest.mark.worked_example(...)` of all test files."""
  names = set()
  for path in TESTS.rglob("test_*.py"):
    for node in ast.walk(ast.parse(path.read_text())):
      function = getattr(node, "func", None)
      if getattr(function, "attr", "") == "worked_example":
        names |= {argument.value for argument in node.args}
  return names


def test_every_method_and_reward_has_a_worked_example():
  expected = {f"method:{name}" for name in methods.names()}
  expected |= {f"reward:{name}" for name in rewards.names()}
  expected |= {f"function:{name}" for name in catalogue.reward_functions()}
  assert marked() == expected
