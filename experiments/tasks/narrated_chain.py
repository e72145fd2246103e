"""Narrated chain: chained arithmetic whose steps begin with a thought in words.

The problems are those of `chain`. Before the maths of a step, a solution says
in words what it does:

  prompt     4 + 3 * 2 =
  solution   add three + 3 7 ; multiply two * 2 4 ; so ANS 4 <eos>

Words are not judged: a completion has the scores that `chain` gives its maths,
and a word belongs to the step of the maths after it. A completion without maths
is one wrong step. A reward model can read the steps with the words or without
them (`rewards.process.text_filter`).

Shapes: P problems, S samples per problem, T completion tokens, N operations.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import chain as chains
from experiments.tasks.task import Judged, Problems, Task
from rewards.process import text_filter
from rewards.tasks import chain as rules

Array = jax.Array

VERBS = ("add", "subtract", "multiply")
NUMBERS = (
  *("zero", "one", "two", "three", "four"),
  *("five", "six", "seven", "eight", "nine"),
)
WORDS = (*VERBS, *NUMBERS, "so")
VERB = rules.VOCAB_SIZE  # token of the first verb
NUMBER = VERB + len(VERBS)  # token of "zero"
SO = NUMBER + len(NUMBERS)
# Probability that the thought of a demonstration names a random number.
SLIP_RATE = 0.1


def narrated_chain(operations: int = 3, prm: str = "clean") -> Task:
  """Builds the task of chained arithmetic with thoughts in words.

  The maths of a demonstration has the errors of `chain`. The thought before an
  operation names a random number with probability 0.1, whether or not the maths
  is right.

  Args:
    operations: N, number of operations, 1 to 5.
    prm: process reward model that makes `step_scores`, same as in `chain`.

  Returns:
    The task, with L = 2 N + 2, T = 12 N + 5, and K = T.

  Raises:
    UsageError: `operations` is out of range, or `prm` is unknown.
  """
  base = chains.chain(operations, prm)
  # A demonstration has up to 2 N operations with two words each, and "so".
  length = base.completion_length + 4 * operations + 1
  word_ids = tuple(range(VERB, SO + 1))

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    order, maths_lengths = text_filter.order_of(completions, lengths, word_ids)
    maths = jnp.take_along_axis(completions, order, -1)
    judged = base.score(problems, maths, maths_lengths, finished)
    # The number of maths tokens before each token is the place of the next one.
    is_maths = ~jnp.isin(completions, jnp.asarray(word_ids))
    place = jnp.cumsum(is_maths, -1) - is_maths
    # Without maths it is -1, and all ids are -1.
    last = maths_lengths[..., None] - 1
    step_ids = jnp.take_along_axis(
      judged.step_ids, jnp.minimum(place, last), -1
    )
    exists = jnp.arange(completions.shape[-1]) < lengths[..., None]
    # True at step 0 of completions without maths.
    is_bare = (
      jnp.zeros_like(judged.step_mask)
      .at[..., 0]
      .set((maths_lengths == 0) & (lengths > 0))
    )
    return judged.replace(
      step_ids=jnp.where(exists, jnp.maximum(step_ids, 0), -1),
      step_scores=jnp.where(is_bare, -1.0, judged.step_scores),
      step_mask=judged.step_mask | is_bare,
    )

  def gold(problems: Problems) -> tuple[Array, Array]:
    completions, lengths = base.gold(problems)
    return _narrate(completions, lengths, jnp.zeros_like(completions), length)

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    maths_key, slip_key, number_key = jax.random.split(key, 3)
    completions, lengths = base.demonstrate(maths_key, problems)
    shape = completions.shape
    slips = jnp.where(
      jax.random.bernoulli(slip_key, SLIP_RATE, shape),
      jax.random.randint(number_key, shape, 1, 10),
      0,
    )
    return _narrate(completions, lengths, slips, length)

  return dataclasses.replace(
    base,
    name=f"narrated_chain(operations={operations}, prm={prm})",
    vocab_size=rules.VOCAB_SIZE + len(WORDS),
    completion_length=length,
    score=score,
    demonstrate=demonstrate,
    decode=decode,
    gold=gold,
    word_ids=word_ids,
  )


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `so ANS 7 <eos>`, unpadded."""
  inside = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(
    WORDS[i - VERB] if i >= VERB else chains.decode(np.array([i]))
    for i in inside
  )


def _narrate(
  completions: Array,  # [P, T0], demonstrations of `chain`
  lengths: Array,  # [P]
  slips: Array,  # [P, T0]
  length: int,  # T
) -> tuple[Array, Array]:
  """Writes the thoughts before the maths of demonstrations."""
  exists = jnp.arange(completions.shape[-1]) < lengths[:, None]
  is_operator = (completions >= rules.PLUS) & (completions <= rules.TIMES)
  operand = jnp.roll(completions, -1, -1) - rules.DIGIT
  # Two places for words before each token, and the token.
  first = jnp.where(is_operator, VERB + completions - rules.PLUS, SO)
  # `slips` is added to the number that is named before an operator; 0 names
  # that of the maths.
  second = NUMBER + (operand + slips) % 10
  tokens = jnp.stack([first, second, completions], -1)
  mask = exists[..., None] & jnp.stack(
    [
      is_operator | (completions == rules.ANSWER),
      is_operator,
      jnp.ones_like(exists),
    ],
    -1,
  )
  tokens, mask = (x.reshape(len(completions), -1) for x in (tokens, mask))
  # A stable sort moves the tokens in use to the left, in their order.
  order = jnp.argsort(~mask, axis=-1, stable=True)
  tokens = jnp.where(mask, tokens, rules.PAD)
  tokens = jnp.take_along_axis(tokens, order, -1)[:, :length]
  # completions [P, T], lengths [P]
  return tokens.astype(jnp.int32), mask.sum(-1).astype(jnp.int32)
