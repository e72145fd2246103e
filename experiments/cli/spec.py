"""Names with settings, such as `max_at_k(k=8)`.

Configs name a task, a method or a reward by a call in Python's syntax, so that
one string describes it on the command line, in a sweep and in a log.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from experiments.cli import arguments

# An example of the value of a config key, by the last part of the key.
EXAMPLES = {
  "method": "max_at_k(k=8, baseline='none')",
  "task": "countdown(count=4)",
  "sampler": "prefix_values(continuations=4)",
  "reward": "majority(threshold=0.5)",
  "steps": "gains()",
}


def parse(text: str, key: str = "") -> tuple[str, dict[str, Any]]:
  """Parses a name, or a name with settings.

  `"grpo"` becomes `("grpo", {})`, and `"max_at_k(k=8)"` becomes
  `("max_at_k", {"k": 8})`. Values are Python literals; nothing is evaluated.

  Args:
    text: text to parse.
    key: config key whose value the text is, such as "mix.steps", for the
      message.

  Raises:
    ValueError: if the text is neither a name nor a call with literal keyword
      settings, a setting stands twice, or a setting `seed` is not a seed.
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
  except (ValueError, TypeError):  # TypeError: a dict key is not hashable
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
