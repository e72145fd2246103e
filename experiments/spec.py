"""Names with settings, as one writes them: `max_at_k(k=8)`.

Configs name a task or a method by a call in Python's syntax, so that one string
on the command line, in a sweep or in a log says all of it.
"""

from __future__ import annotations

import ast
from typing import Any


def parse(text: str) -> tuple[str, dict[str, Any]]:
  """`"grpo"` -> `("grpo", {})`, `"max_at_k(k=8)"` -> `("max_at_k", {"k": 8})`.

  Values are Python literals; nothing is evaluated.

  Raises:
    ValueError: the text is no name or call with literal keyword settings.
  """
  problem = ValueError(
    f"cannot read {text!r}: write a name, or a name with settings such as "
    "\"max_at_k(k=8, baseline='none')\""
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
  return node.func.id, settings
