"""Parses and writes names with settings, such as `max_at_k(k=8)`.

A config chooses a task, a method, a sampler or a reward by such a text, in the
syntax of a Python call. The same text is used on the command line and in logs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from experiments.cli import arguments
from rl import UsageError

# Examples for error messages, by the last part of the config key.
EXAMPLES = {
  "method": "max_at_k(k=8, baseline='none')",
  "task": "countdown(count=4)",
  "sampler": "prefix_values(continuations=4)",
  "reward": "majority(threshold=0.5)",
  "step_reward": "gains()",
}


def parse(text: str, key: str = "") -> tuple[str, dict[str, Any]]:
  """Parses a name, or a name with settings.

  `"grpo"` becomes `("grpo", {})`, and `"max_at_k(k=8)"` becomes
  `("max_at_k", {"k": 8})`. Values are Python literals; nothing is evaluated.
  The name may be "module:function", for a function of a module of one's own.

  Args:
    text: text to parse.
    key: config key whose value the text is, such as "reward.step_reward", for
      messages; "" if there is none.

  Raises:
    UsageError: the text is neither a name nor a call with literal keyword
      arguments, a keyword or a key of a dict occurs twice, or the value of a
      setting `seed` is not a valid seed.
  """
  example = EXAMPLES.get(key.rpartition(".")[-1], EXAMPLES["method"])
  where = key and f"{key}: "
  syntax_error = UsageError(
    f"{where}cannot read {text!r}: write a name, or a name with settings such "
    f'as "{example}", each with its name, and texts in quotation marks'
  )
  module = re.match(r"\s*([\w.]+:)?", text)
  try:
    node = ast.parse(text[module.end() :].strip(), mode="eval").body
  except SyntaxError:
    raise syntax_error from None
  prefix = module[1] or ""
  if isinstance(node, ast.Name):
    return prefix + node.id, {}
  is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
  # `arg` is None for `**settings`.
  if not is_call or node.args or any(k.arg is None for k in node.keywords):
    raise syntax_error
  try:
    settings = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
  except (ValueError, TypeError):  # TypeError: a dict key is not hashable
    raise syntax_error from None
  repeated = _find_repeated(node)
  if repeated:
    raise UsageError(
      f"{where}{text!r} sets {repeated} twice; set each name once"
    )
  if "seed" in settings:
    arguments.check_seed(f"{where}{node.func.id}: seed", settings["seed"])
  return prefix + node.func.id, settings


def write(name: str, settings: Mapping[str, Any]) -> str:
  """Returns the text from which `parse` reads this name and these settings."""
  values = ", ".join(f"{key}={value!r}" for key, value in settings.items())
  return f"{name}({values})" if settings else name


def _find_repeated(call: ast.Call) -> str:
  """Returns a keyword or a dict key that occurs twice; "" if none does."""
  # `ast.parse` accepts a repeated keyword; only Python's compiler refuses it.
  name_lists = [[keyword.arg for keyword in call.keywords]]
  name_lists += [
    [ast.literal_eval(key) for key in node.keys]
    for node in ast.walk(call)
    if isinstance(node, ast.Dict)
  ]
  for names in name_lists:
    for name in names:
      if names.count(name) > 1:
        return str(name)
  return ""
