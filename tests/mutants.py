"""Flips signs and comparisons in the core, and counts what the tests notice.

  python tests/mutants.py [--jobs 2] [--only FILE:LINE] [--list] [--limit 0.9]

Each mutant is one change of one place: + and -, * and /, < and <=, > and >=, a
comparison turned round, == and !=, a minus sign left out, `minimum` and
`maximum`, `min` and `max`. It lives in a copy of `rl`, beside links to all
else, and the tests of its file run there until one fails. Exit status 1 where
fewer than `--limit` of the mutants are noticed. Some changes change nothing
that anybody could see, such as < and <= where equal values give the same.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import copy
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = {
  "rl/objectives.py": (
    "rl/test_objectives.py",
    "rl/methods/test_pass_at_k_variants.py",
    "rl/test_objectives_scale.py",
  ),
  "rl/credit.py": ("rl/test_credit.py", "rl/methods/test_pure.py"),
  "rl/advantages.py": (
    "rl/methods/test_group.py",
    "rl/methods/test_equalities.py",
  ),
}
OPERATORS = {
  ast.Add: ast.Sub,
  ast.Sub: ast.Add,
  ast.Mult: ast.Div,
  ast.Div: ast.Mult,
}
COMPARISONS = {
  ast.Lt: (ast.LtE, ast.Gt),
  ast.LtE: (ast.Lt, ast.GtE),
  ast.Gt: (ast.GtE, ast.Lt),
  ast.GtE: (ast.Gt, ast.LtE),
  ast.Eq: (ast.NotEq,),
  ast.NotEq: (ast.Eq,),
}
NAMES = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min"}


class Mutant(NamedTuple):
  """One change.

  Attributes:
    file: path of the repository.
    line: where.
    change: "before -> after".
    code: source of the whole file.
  """

  file: str
  line: int
  change: str
  code: str


def mutants(file: str) -> Iterator[Mutant]:
  """Every single change of a file."""
  tree = ast.parse((ROOT / file).read_text())
  for place, node in enumerate(ast.walk(tree)):
    for number in range(len(_changes(node))):
      changed = copy.deepcopy(tree)
      target = next(n for i, n in enumerate(ast.walk(changed)) if i == place)
      before = ast.unparse(target)
      _changes(target)[number]()
      after = ast.unparse(target)
      yield Mutant(
        file, node.lineno, f"{before} -> {after}", ast.unparse(changed)
      )


def _changes(node: ast.AST) -> list:
  """Returns the mutations of a node, each as a function that applies it."""
  if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
    if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
      return []
    other = OPERATORS[type(node.op)]
    return [lambda: setattr(node, "op", other())]
  if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
    return [
      lambda other=other: node.ops.__setitem__(0, other())
      for other in COMPARISONS[type(node.ops[0])]
    ]
  if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
    return [lambda: setattr(node, "op", ast.UAdd())]
  if isinstance(node, ast.Attribute) and node.attr in NAMES:
    return [lambda: setattr(node, "attr", NAMES[node.attr])]
  return []


def is_noticed(mutant: Mutant) -> bool:
  """Returns whether a test of the mutated file fails."""
  with tempfile.TemporaryDirectory(prefix="mutant_") as folder:
    house = pathlib.Path(folder)
    for path in ROOT.iterdir():
      if path.name == "rl":
        shutil.copytree(
          path, house / "rl", ignore=shutil.ignore_patterns("__pycache__")
        )
      elif not path.name.startswith("."):
        (house / path.name).symlink_to(path)
    (house / mutant.file).write_text(mutant.code)
    tests = [f"tests/{name}" for name in TESTS[mutant.file]]
    done = subprocess.run(
      [
        *(sys.executable, "-m", "pytest", "-x", "-q"),
        *("-p", "no:cacheprovider"),
        *tests,
      ],
      cwd=house,
      env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
      capture_output=True,
      text=True,
      check=False,
    )
  if done.returncode not in (0, 1, 2):
    raise RuntimeError(done.stdout + done.stderr)
  return done.returncode != 0


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--jobs", type=int, default=2)
  parser.add_argument("--only", default="", help="FILE or FILE:LINE")
  parser.add_argument("--list", action="store_true")
  parser.add_argument("--limit", type=float, default=0.9)
  arguments = parser.parse_args()
  result = [
    mutant
    for file in TESTS
    for mutant in mutants(file)
    if f"{mutant.file}:{mutant.line}".startswith(arguments.only)
  ]
  if arguments.list:
    for mutant in result:
      print(f"{mutant.file}:{mutant.line}: {mutant.change}")
    return 0
  noticed = 0
  with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
    results = threads.map(is_noticed, result)
    for done, (mutant, observed) in enumerate(
      zip(result, results, strict=True), 1
    ):
      noticed += observed
      if not observed:
        print(f"lives: {mutant.file}:{mutant.line}: {mutant.change}")
      if done % 10 == 0:
        print(f"{done} of {len(result)}: {noticed} noticed", flush=True)
  share = noticed / max(len(result), 1)
  print(f"{noticed} of {len(result)} mutants are noticed: {share:.1%}")
  return int(share < arguments.limit)


if __name__ == "__main__":
  sys.exit(main())
