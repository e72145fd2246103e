"""What to say of a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(kind: str, value: object, allowed: Iterable[str]) -> str:
  """One line: the value, the nearest valid choice, and all valid choices.

  Which one is nearest is found without regard to case.

  Args:
    kind: of thing, "method" or "setting of task 'chain'".
    value: what was asked for.
    allowed: what there is.
  """
  allowed = [str(choice) for choice in allowed]
  given, lowered = str(value).lower(), {each.lower(): each for each in allowed}
  near = difflib.get_close_matches(given, lowered, n=3, cutoff=0.3)
  # Of equally near ones, that which begins alike.
  near.sort(key=lambda choice: -_likeness(given, choice))
  guess = f"did you mean {lowered[near[0]]!r}? " if near else ""
  return f"unknown {kind} {value!r}; {guess}available: {', '.join(allowed) or 'none'}"


def _likeness(value: str, choice: str) -> float:
  match = difflib.SequenceMatcher(a=value, b=choice)
  # The first letter decides between equals.
  return match.ratio() + 0.01 * match.find_longest_match(0, 1, 0, 1).size
