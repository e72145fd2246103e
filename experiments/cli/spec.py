"""Names with settings, as one writes them: `max_at_k(k=8)`.

Configs name a task or a method by a call in Python's syntax, so that one string
on the command line, in a sweep or in a log says all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from experiments.cli import arguments

# What one may write at a key of a config, by the key's last word.
EXAMPLES = {
  "method": "max_at_k(k=8, baseline='none')",
  "task": "countdown(count=4)",
  "stage": "prefix_values(continuations=4)",
  "reward": "majority(threshold=0.5)",
  "steps": "gains()",
}


def parse(text: str, key: str = "") -> tuple[str, dict[str, Any]]:
  """`"grpo"` -> `("grpo", {})`, `"max_at_k(k=8)"` -> `("max_at_k", {"k": 8})`.

  Values are Python literals; nothing is evaluated.

  Args:
    text: a name, or a name with settings.
    key: of the config where it stands, "mix.steps" say, for the message.

  Raises:
    ValueError: the text is no name or call with literal keyword settings, a
      setting is given twice, or a setting `seed` is not a seed.
  """
  example = EXAMPLES.get(key.rpartition(".")[-1], EXAMPLES["method"])
  problem = ValueError(
    f"{key and f'{key}: '}cannot read {text!r}: write a name, or a name with "
    f'settings such as "{example}"'
  )
  try:
    node = ast.parse(text.strip(), mode="eval").body
  except SyntaxError:
    raise problem from None
  if isinstance(node, ast.Name):
    return node.id, {}
  is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
  if not is_call or node.args or any(k.arg is None for k in node.keywords):
    raise problem
  try:
    settings = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
  except (ValueError, TypeError):  # a dict's key that cannot be one
    raise problem from None
  where = key and f"{key}: "
  repeated = _find_repeated(node)
  if repeated:
    raise ValueError(
      f"{where}{text!r} gives {repeated} twice; give each setting once"
    )
  if "seed" in settings:
    arguments.check_seed(f"{where}{node.func.id}: seed", settings["seed"])
  return node.func.id, settings


def write(name: str, settings: Mapping[str, Any]) -> str:
  """Returns the text that `parse` reads as this name and these settings."""
  values = ", ".join(f"{key}={value!r}" for key, value in settings.items())
  return f"{name}({values})" if settings else name


def _find_repeated(call: ast.Call) -> str:
  """Returns a setting, or a key of a dict, that stands twice; "" if none."""
  # Python's parser accepts a repeated keyword; only its compiler refuses it.
  groups = [[keyword.arg for keyword in call.keywords]]
  groups += [
    [ast.literal_eval(key) for key in node.keys]
    for node in ast.walk(call)
    if isinstance(node, ast.Dict)
  ]
  for names in groups:
    for name in names:
      if names.count(name) > 1:
        return str(name)
  return ""
