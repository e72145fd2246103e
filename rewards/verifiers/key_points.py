"""Reward chains: the keywords of the reference in their order, and the style.

The score is the mean of two parts, or the first one alone if the line has no
constraints:

  content  mean over key points of
           max over their lists of |LCS(a, b)| / max(|a|, |b|)
  style    share of the obeyed constraints of the line

a and b are the occurrences of a list's keywords in the completion and in the
reference, in order, |.| is a length, and LCS the longest common subsequence. A
keyword that a completion repeats makes |a| longer. A key point has several
lists if the same can be said in several ways. The line of a prompt has
`meta["key_points"]`, a list of key points, each a list of lists of keywords,
and may have `meta["constraints"]` in the form of
`rewards.verifiers.constraints`. A text that lists the keywords and says nothing
has the full content.

Usage:
  --config.task=jsonl --config.verifier=rewards.verifiers.key_points:verify
  {"prompt": "Tell of the Nile.", "answer": "The Nile flows north to Egypt.",
   "key_points": [[["Nile", "Egypt"]], [["north", "northward"]]]}

Source: Jiang et al. 2025, From Verifiable Dot to Reward Chain: Harnessing
Verifiable Reference-based Rewards for Reinforcement Learning of Open-ended
Generation (RLVRR), and its released code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewards.verifiers import (
  Item,
  Outcome,
  answer_id,
  constraints,
  round_ends,
  unscored,
)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Scores the content and the style of each completion.

  Args:
    items: completions with key points in `meta`, and references.

  Returns:
    Outcomes in order; the parts are "content" and "style". The verdict is 1 if
    the score is 1, and -1 if the key points or the constraints of a line cannot
    be read.
  """
  return [_outcome(item) for item in items]


def _outcome(item: Item) -> Outcome:
  text = str(item.completion)
  try:
    content = content_score(text, str(item.reference), item.meta["key_points"])
    rules = item.meta.get("constraints") or []
    obeyed = [constraints.obeys(text, rule) for rule in rules]
  except Exception as error:  # such as a line of another form
    return unscored(f"the key points or constraints cannot be read: {error}")
  style = sum(obeyed) / len(obeyed) if obeyed else content
  score = round_ends((content + style) / 2)
  answer = text.strip()
  return Outcome(
    score,
    int(score == 1),
    answer,
    answer_id(answer) if answer else -1,
    {"content": content, "style": style},
  )


def content_score(
  text: str, reference: str, key_points: Sequence[Sequence[Sequence[str]]]
) -> float:
  """Returns the content of the module docstring, from 0 to 1.

  Args:
    text: text to score.
    reference: text to compare with.
    key_points: list of key points; a key point is a list of alternative lists
      of keywords. A list whose keywords occur in neither text scores 0.

  Returns:
    The mean over the key points; 0 without any.

  Raises:
    TypeError: a key point has another form.
  """
  points = []
  for lists in key_points:
    scores = [0.0]
    for keywords in lists:
      if not keywords or isinstance(keywords, str):
        raise TypeError(f"{keywords!r:.80} is no list of keywords")
      any_of = "|".join(re.escape(word) for word in keywords)
      pattern = re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.I)
      a, b = (
        [m.lower() for m in pattern.findall(t)] for t in (text, reference)
      )
      if a or b:
        scores.append(longest_common_subsequence(a, b) / max(len(a), len(b)))
    points.append(max(scores))
  return sum(points) / len(points) if points else 0.0


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
  """Returns the length of the longest common subsequence.

  Hyyrö's bit-vector algorithm takes one step per entry of `a`, each on an
  integer with one bit per entry of `b`.

  Args:
    a: sequence of words; if it is empty, the length is 0.
    b: sequence of words; if it is empty, the length is 0.
  """
  positions: dict[str, int] = {}  # word -> integer with a 1 where b has it
  for i, word in enumerate(b):
    positions[word] = positions.get(word, 0) | 1 << i
  all_ones = (1 << len(b)) - 1
  # Bit j is 0 where entry j of b extends the longest common subsequence.
  row = all_ones
  for word in a:
    matches = row & positions.get(word, 0)
    row = ((row + matches) | (row - matches)) & all_ones
  return len(b) - row.bit_count()
