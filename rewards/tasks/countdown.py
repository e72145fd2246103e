"""Countdown: reach a target with an expression that uses every number once.

A legal completion is `n op n op ... n EOS`, with each number n of the prompt
exactly once and operators op `+`, `-` and `*`. It is evaluated from left to
right without precedence, so 2 + 3 * 4 is 20. The value of a prefix then does
not depend on later tokens, so that a policy of two layers can learn the task.

  score = 1 if the completion is legal and its value is the target, else 0

Usage, for a group of S completions of each of P prompts:
  values, legal = countdown.expression_value(
    completions, lengths, numbers[:, None])
  scores = countdown.exact_hit(values, legal, target[:, None])

Source: the numbers round of the television game, as a reinforcement learning
task in Gandhi et al. 2024, "Stream of Search" (there with division, and
precedence by parentheses).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array

PAD, EOS, EQUALS, PLUS, MINUS, TIMES = range(6)
LARGEST = 9  # numbers run from 1 to 9, one token each
NUMBER = TIMES  # the token of number n is NUMBER + n
# Digits of the target have other tokens than numbers. Otherwise a policy that
# attends to the unused numbers would attend to these digits too.
DIGIT = NUMBER + LARGEST + 1  # the token of digit d is DIGIT + d
VOCAB_SIZE = DIGIT + 10


def left_to_right(numbers: Array, operators: Array) -> Array:
  """Returns the value of a chain of operations without precedence.

  Args:
    numbers: `[..., C]` int32, the C numbers of the chain.
    operators: `[..., C - 1]` int32; 0 adds, 1 subtracts, 2 multiplies.

  Returns:
    `[...]` int32.
  """
  value = numbers[..., 0]
  for i in range(1, numbers.shape[-1]):
    number, operator = numbers[..., i], operators[..., i - 1]
    value = jnp.select(
      [operator == 0, operator == 1],
      [value + number, value - number],
      value * number,
    )
  return value


def expression_value(
  completions: Array, lengths: Array, numbers: Array
) -> tuple[Array, Array]:
  """Evaluates completions and checks that they obey the rules.

  Args:
    completions: `[..., T]` int32 token ids; ids after `lengths` are ignored.
    lengths: `[...]` int32, number of tokens with EOS.
    numbers: `[..., C]` int32, the numbers to use, in any order; leading axes
      broadcast against those of `completions`.

  Returns:
    The values, `[...]` int32, 0 for illegal completions; and whether the
    completion is legal, `[...]` bool: it alternates numbers and operators, uses
    each number of the prompt exactly once and ends with EOS.
  """
  count = numbers.shape[-1]
  size = 2 * count
  # Completions that are too short are padded, which makes them illegal.
  widths = [(0, 0)] * (completions.ndim - 1) + [(0, size)]
  tokens = jnp.pad(completions, widths, constant_values=PAD)[..., :size]
  used = tokens[..., 0::2] - NUMBER
  operators = tokens[..., 1:-1:2] - PLUS
  legal = (
    (lengths == size)
    & (tokens[..., -1] == EOS)
    & ((operators >= 0) & (operators <= TIMES - PLUS)).all(-1)
    & (jnp.sort(used, axis=-1) == jnp.sort(numbers, axis=-1)).all(-1)
  )
  return jnp.where(legal, left_to_right(used, operators), 0), legal


def exact_hit(values: Array, legal: Array, target: Array) -> Array:
  """Returns 1 for legal expressions whose value is the target, else 0.

  Args:
    values: `[...]` int32, from `expression_value`.
    legal: `[...]` bool, from `expression_value`.
    target: `[...]` int32, broadcast against `values`.

  Returns:
    `[...]` float32.
  """
  return (legal & (values == target)).astype(jnp.float32)
