"""A forest whose samples are words, for label sources.

A sample is a word such as "abb", each letter of which is a step of one token.
Continuations are read from a script, and a rule says which words are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rewards.process import forest


class WordForest(forest.Forest):
  """A forest of words.

  Attributes:
    looks: `[(prefix, count)]`, the states that were sampled, in order.
  """

  def __init__(
    self,
    words: Sequence[str],
    is_right: Callable[[str], bool],
    continuations: Mapping[str, Sequence[str]] | None = None,
    problems: Sequence[int] | None = None,
    is_good: Callable[[str], bool] = lambda prefix: True,
    max_steps: int = 6,
    log_prob: Callable[[str], float] = lambda prefix: -1.0,
    changes: Mapping[str, tuple[str, str]] | None = None,
  ) -> None:
    """Makes the forest.

    Args:
      words: the samples from the prompts.
      is_right: `word -> verdict`.
      continuations: `{prefix: words}`; each look at a prefix takes the next
        ones of its words, and begins anew after the last one.
      problems: problem of each word; None: all are of problem 0.
      is_good: `prefix -> whether the checker calls its last step good`.
      max_steps: K, and the largest length of a word.
      log_prob: `prefix -> log-prob of its last letter`.
      changes: `{letter: (its mutations, its refactorings)}`, as words of these
        letters; None: the forest cannot change steps.
    """
    self._is_right, self._is_good, self._log_prob = is_right, is_good, log_prob
    self._script, self._next = dict(continuations or {}), {}
    self._size, self._changes = max_steps, changes
    self.looks: list[tuple[str, int]] = []
    problems = [0] * len(words) if problems is None else problems
    none = [-1] * len(words)
    super().__init__(
      self._rows(words, problems, none, [0] * len(words)), max_steps
    )

  def word(self, row: int) -> str:
    """Returns the word of a sample."""
    ids = self.samples.completions[row][: self.samples.lengths[row]]
    return "".join(map(chr, ids))

  def sample(self, rows, steps, count):
    words, problems, parents, shared = [], [], [], []
    for row, num_steps in zip(rows, steps, strict=True):
      prefix = self.word(row)[:num_steps]
      self.looks.append((prefix, count))
      for _ in range(count):
        index = self._next.get(prefix, 0)
        self._next[prefix] = index + 1
        script = self._script[prefix]
        word = script[index % len(script)]
        assert word.startswith(prefix)
        assert word != prefix
        words.append(word)
      problems += [self.samples.problems[row]] * count
      parents += [row] * count
      shared += [num_steps] * count
    return self._rows(words, problems, parents, shared)

  def step_changes(self, row, step):
    if self._changes is None:
      return super().step_changes(row, step)
    letters = self._changes.get(self.word(row)[step], ("", ""))
    return forest.StepChanges(*([[ord(x)] for x in some] for some in letters))

  def write(self, rows, steps, texts):
    words = []
    for row, step, text in zip(rows, steps, texts, strict=True):
      letters = list(self.word(row))
      letters[step] = "".join(map(chr, text))
      words.append("".join(letters))
    problems = self.samples.problems[rows]
    return self._rows(words, problems, rows, steps)

  def _rows(self, words, problems, parents, shared) -> forest.Samples:
    size, n = self._size, len(words)
    lengths = np.array([len(word) for word in words])
    table = np.zeros((n, size), np.int32)
    log_probs = np.zeros((n, size), np.float32)
    step_scores = np.zeros((n, size), np.float32)
    for i, word in enumerate(words):
      for t in range(len(word)):
        prefix = word[: t + 1]
        table[i, t] = ord(word[t])
        log_probs[i, t] = self._log_prob(prefix)
        step_scores[i, t] = 1.0 if self._is_good(prefix) else -1.0
    steps = np.arange(size)
    return forest.Samples(
      problems=np.array(problems),
      correct=np.array([self._is_right(word) for word in words], np.int8),
      answer_ids=np.full(n, -1),
      completions=table,
      log_probs=log_probs,
      lengths=lengths,
      step_ids=np.where(steps < lengths[:, None], steps, -1),
      num_steps=lengths.copy(),
      parents=np.array(parents),
      num_shared=np.array(shared),
      step_scores=step_scores,
    )


class RatedForest(WordForest):
  """A forest of words with given success rates.

  Attributes:
    rates: `{prefix: success rate}`.
  """

  def __init__(self, words, is_right, rates, **settings) -> None:
    super().__init__(words, is_right, **settings)
    self.rates = rates

  def success_rates(self, rows, steps, count):
    result = []
    for row, num_steps in zip(rows, steps, strict=True):
      prefix = self.word(row)[:num_steps]
      self.looks.append((prefix, count))
      finished = num_steps == self.samples.num_steps[row]
      verdict = float(self.samples.correct[row] == 1)
      result.append(verdict if finished else self.rates[prefix])
    return np.array(result)
