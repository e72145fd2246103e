"""Scores completions with a verifier, and adds steps and views to the scores.

Shapes: P problems, S samples (completions) per problem, T completion tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from experiments.tasks.task import Judged, Problems, spec
from experiments.tasks.text.line_scores import LineScores
from experiments.tasks.text.reference_views import ReferenceViews
from experiments.tasks.text.text_options import Example
from rewards.verifiers import Item, Outcome

Array = np.ndarray
Verify = Callable[[Sequence[Item]], list[Outcome]]

TIMEOUT = "timeout"  # part of an `Outcome`: 1 if judging ran out of time
# Outcome of a completion that has no end token or is blank: wrong, no answer.
NO_ANSWER = Outcome(score=0.0, verdict=0, answer="", answer_id=-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Scorer:
  """Scores completions of a text task.

  Attributes:
    examples: the N problems of the task.
    decode: `(completions as token ids) -> texts`, without end tokens.
    verify: judges completions.
    parts: names of the parts of an outcome that are logged.
    views: writes the views of completions; None: there are none.
    lines: scores the lines of completions; None: they are no steps.
  """

  examples: Sequence[Example]
  decode: Callable[[Iterable[Array]], list[str]]
  verify: Verify
  parts: tuple[str, ...] = ()
  views: ReferenceViews | None = None
  lines: LineScores | None = None

  def score(
    self, problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    """Judges completions with the verifier.

    A completion that has no end token, a blank text, or thoughts that do not
    end, is wrong and has no answer; the verifier does not judge it. Without an
    end token it may be cut inside a number.

    `Judged.extras["timeout"]` is 1 where the verifier, or a program that it
    ran, ran out of time, and else 0.

    Args:
      problems: P problems.
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, number of tokens without padding.
      finished: `[P, S]` bool, whether an end token ends the completion.
    """
    completions, lengths = np.asarray(completions), np.asarray(lengths)
    grid = lengths.shape  # (P, S)
    texts = self.decode(
      ids[:length]
      for ids, length in zip(
        completions.reshape(lengths.size, -1), lengths.ravel(), strict=True
      )
    )  # P * S
    indices = np.repeat(np.asarray(problems.facts["row"]), grid[1])  # P * S
    items = []
    for index, text in zip(indices, texts, strict=True):
      example = self.examples[index]
      meta = {**example.meta, "row": int(index)}
      items.append(Item(example.question, text, example.answer, meta))
    judged = [
      i
      for i, is_finished in enumerate(np.asarray(finished).ravel())
      if is_finished and items[i].completion.strip()
    ]
    outcomes = [NO_ANSWER] * len(items)
    # Without an answer there is no need to start a pool of worker processes.
    if judged:
      results = self.verify([items[i] for i in judged])
      for i, outcome in zip(judged, results, strict=True):
        outcomes[i] = outcome

    def as_array(values: Sequence[Any], dtype: Any) -> Array:
      return np.array(values, dtype).reshape(grid)

    verdicts = as_array([outcome.verdict for outcome in outcomes], np.int8)
    answer_ids = as_array([outcome.answer_id for outcome in outcomes], np.int32)
    parts = {
      name: as_array(
        [outcome.parts.get(name, 0.0) for outcome in outcomes], np.float32
      )
      for name in (*self.parts, TIMEOUT)
    }
    views = self.views.write(problems, texts) if self.views else {}
    steps = {}
    if self.lines:
      examples = [self.examples[i] for i in problems.facts["row"]]
      steps = self.lines.score(examples, completions, lengths, verdicts)
    return Judged(
      scores=as_array([outcome.score for outcome in outcomes], np.float32),
      correct=verdicts,
      answer_ids=answer_ids,
      scored=verdicts >= 0,
      components={
        "answered": (answer_ids >= 0).astype(np.float32),
        **{name: parts[name] for name in self.parts},
      },
      extras={TIMEOUT: parts[TIMEOUT]},
      views=views,
      **steps,
    )

  def judged_spec(self, P: int, S: int, T: int) -> Judged:
    """Returns the shapes and dtypes of the result of `score`."""
    values = spec(np.float32, P, S)
    return Judged(
      scores=values,
      correct=spec(np.int8, P, S),
      answer_ids=spec(np.int32, P, S),
      scored=spec(bool, P, S),
      components=dict.fromkeys(("answered", *self.parts), values),
      extras={TIMEOUT: values},
      views=self.views.spec(P, S) if self.views else {},
      **(self.lines.spec(P, S, T) if self.lines else {}),
    )
