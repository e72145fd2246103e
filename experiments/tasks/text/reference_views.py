r"""Views of completions: texts in which the reference answer follows a thought.

A view is a text whose likelihood the policy computes. In the view "reference"
the reference answer replaces the answer of a sample. Example: the completion
"2+3=6\n#### 6" has the thought "2+3=6\n"; with the reference answer 5 its view
is "2+3=6\n#### 5" and EOS, and the mask is True on the tokens of "#### 5" and
EOS. In the view "bare_reference" the answer follows the prompt, without a
thought. Thought and answer are tokenized separately.

Shapes: P problems of a batch, S samples per problem, L prompt tokens, R tokens
of the longest reference among all N problems.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from experiments.tasks.task import Problems, spec
from rl import types


@dataclasses.dataclass(frozen=True, eq=False)
class ReferenceViews:
  """Writes the views of a task.

  Attributes:
    mark: text at which the answer of a completion begins, such as "####".
    references: N lists of token ids, the reference answers with EOS.
    encode: `(thoughts) -> lists of token ids`.
    pad_id: token that fills arrays up.
    prompt_length: L.
    max_thought: largest number of tokens of a thought; further ones are cut
      off.
  """

  mark: str
  references: Sequence[list[int]]
  encode: Callable[[Sequence[str]], list[list[int]]]
  pad_id: int
  prompt_length: int
  max_thought: int

  def write(
    self, problems: Problems, texts: Sequence[str]
  ) -> dict[str, types.Tokens]:
    """Returns the views of P * S completions: first those of the first problem.

    The completions of "reference" are `[P, S, max_thought + R]`, and those of
    "bare_reference" `[P, 1, R]`.
    """
    # A thought is the text before the last mark, or all text without a mark.
    thoughts = [
      text.rpartition(self.mark)[0] if self.mark in text else text
      for text in texts
    ]
    no_thoughts = [""] * len(problems.ids)
    return {
      "reference": self._write(problems, thoughts, self.max_thought),
      "bare_reference": self._write(problems, no_thoughts, 0),
    }

  def spec(self, P: int, S: int) -> dict[str, types.Tokens]:
    """Returns the shapes and dtypes of the result of `write`."""

    def tokens(samples: int, max_thought: int) -> types.Tokens:
      width = max_thought + max(map(len, self.references))
      return types.Tokens(
        prompts=spec(np.int32, P, self.prompt_length),
        prompt_mask=spec(bool, P, self.prompt_length),
        completions=spec(np.int32, P, samples, width),
        lengths=spec(np.int32, P, samples),
        mask=spec(bool, P, samples, width),
      )

    return {
      "reference": tokens(S, self.max_thought),
      "bare_reference": tokens(1, 0),
    }

  def _write(
    self, problems: Problems, thoughts: Sequence[str], max_thought: int
  ) -> types.Tokens:
    """Returns a view in which the reference answer follows each thought."""
    samples = len(thoughts) // len(problems.ids)
    indices = np.repeat(np.asarray(problems.facts["row"]), samples)  # [P * S]
    width = max_thought + max(map(len, self.references))
    tokens = np.full((len(indices), width), self.pad_id, np.int32)
    lengths = np.zeros(len(indices), np.int32)
    mask = np.zeros(tokens.shape, bool)
    thought_ids = self.encode(thoughts)
    for i, index in enumerate(indices):
      thought = thought_ids[i][:max_thought]
      ids = [*thought, *self.references[index]]
      tokens[i, : len(ids)], lengths[i] = ids, len(ids)
      mask[i, len(thought) : len(ids)] = True
    grid = len(problems.ids), samples  # (P, S)
    return types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=tokens.reshape(*grid, width),
      lengths=lengths.reshape(grid),
      mask=mask.reshape(*grid, width),
    )
