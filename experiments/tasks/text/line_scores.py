r"""Scores the lines of a completion as its steps of reasoning.

A function scores a line. In most tasks (`score_equations`) a line scores 1 if
all its equations are true, -1 if one is false, and 0 if it has no equation. The
last line of a completion counts as its answer, whatever it contains: it scores
1, -1 or 0 if the verdict is right, wrong or unknown. The wrong completion

  "2+3=5\n5*2=11\nSo it is\n#### 11"

scores 1, -1, 0, -1. `rewards.verifiers.equations` reads the equations and lists
the limits of this score: the line `1 + 1 = 2`, for example, is true and
useless, and scores 1. Lines before `</think>` are steps like the lines after
it. Every token that contains a line break ends a line.

Shapes: P problems, S completions per problem, T tokens, K steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np

from experiments.tasks.task import spec
from experiments.tasks.text.text_options import Example
from rewards.process import segmentation
from rewards.verifiers import equations

Array = np.ndarray
# `(line, example) -> score`, the score of a line as a step of reasoning.
ScoreLine = Callable[[str, Example], float]


def score_equations(line: str, example: Example) -> float:
  """Returns 1 if all equations of a line are true, -1 if one is false, else 0.

  `rewards.verifiers.equations` reads the equations.
  """
  del example  # an equation is true or false in any problem
  return equations.score(line)


@dataclasses.dataclass(frozen=True)
class LineScores:
  """Scores completions line by line.

  Attributes:
    score_line: scores a line.
    separators: ids of the tokens that contain a line break.
    max_steps: K; the lines from the K-th to the end are one step.
    decode: `(parts of completions as token ids) -> texts`, without end tokens.
  """

  score_line: ScoreLine
  separators: tuple[int, ...]
  max_steps: int
  decode: Callable[[Iterable[Array]], list[str]]

  def score(
    self,
    examples: Sequence[Example],
    completions: Array,
    lengths: Array,
    verdicts: Array,
  ) -> dict[str, Array]:
    """Returns the steps of completions, by the names of fields of `Judged`.

    Args:
      examples: P problems.
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, number of tokens without padding.
      verdicts: `[P, S]`, 1 right, 0 wrong, -1 unknown.
    """
    step_ids = segmentation.segment_steps(
      completions, lengths, self.separators, self.max_steps
    )
    mask = np.asarray(segmentation.step_mask(step_ids, self.max_steps))
    step_ids = np.asarray(step_ids)
    positions = np.argwhere(mask)  # of the lines, each (p, s, k)
    lines = self.decode(
      completions[p, s][step_ids[p, s] == k] for p, s, k in positions
    )
    scores = np.zeros(mask.shape, np.float32)
    scores[mask] = [
      self.score_line(line, examples[p])
      for line, (p, _, _) in zip(lines, positions, strict=True)
    ]
    # Position in P, and position in S, of each sample that has a line.
    prompt, sample = np.nonzero(mask.any(-1))
    last_line = step_ids.max(-1)[prompt, sample]
    verdict = verdicts.astype(np.int32)[prompt, sample]
    # Verdict 1 scores 1, verdict 0 scores -1, and verdict -1 scores 0.
    answer_score = np.where(verdict < 0, 0, 2 * verdict - 1)
    scores[prompt, sample, last_line] = answer_score
    return {"step_ids": step_ids, "step_scores": scores, "step_mask": mask}

  def spec(self, P: int, S: int, T: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes and dtypes of the result of `score`."""
    return {
      "step_ids": spec(np.int32, P, S, T),
      "step_scores": spec(np.float32, P, S, self.max_steps),
      "step_mask": spec(bool, P, S, self.max_steps),
    }
