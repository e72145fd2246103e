"""What to say of a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(kind: str, value: object, allowed: Iterable[str]) -> str:
  """One line: the value, the nearest valid choice, and all valid choices.

  Args:
    kind: of thing, "method" or "setting of task 'chain'".
    value: what was asked for.
    allowed: what there is.
  """
  allowed = [str(choice) for choice in allowed]
  near = difflib.get_close_matches(str(value), allowed, n=1, cutoff=0.3)
  guess = f"did you mean {near[0]!r}? " if near else ""
  return f"unknown {kind} {value!r}; {guess}available: {', '.join(allowed) or 'none'}"
