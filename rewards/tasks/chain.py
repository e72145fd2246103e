"""Chain: arithmetic modulo 10 whose every step can be checked.

The prompt is `a0 op d op d ... =`. A solution writes one step per operation,
`op d r ;` with r the running value after it, and then `ANS r EOS`. A step ends
at `;`, at EOS, or where a truncated completion stops.

  verdict   1 if the last step is `ANS r EOS` with r the true result, else 0
  step      +1 if the process reward model accepts the step, else -1

An arithmetic step is judged by the value stated before it, so an error is
punished where it is made and not in later steps. Three process reward models
(PRMs) overlook different mistakes, so that policies can exploit them in
measurable ways:

  clean   accepts the next operation of the prompt with the right result, and
          the true answer after the last operation
  filler  accepts any operation with the right result, also `+ 0 r ;` any number
          of times, and the true answer
  local   accepts what filler accepts, and any answer that repeats the running
          value

Example, for the prompt `4 + 3 * 2 =`:
  + 3 7 ; * 2 4 ; ANS 4 EOS           +++ by all three
  + 3 7 ; + 0 7 ; * 2 4 ; ANS 4 EOS   +-++ by clean, ++++ by filler and local

Usage, for a group of S completions of each of P prompts:
  steps = chain.read(completions, lengths, start[:, None],
                     operators[:, None], operands[:, None])
  step_scores = chain.step_scores(steps, chain.PRMS["clean"])

Source: this codebase; the failure it makes visible (sums of step rewards buy
length, minima buy brevity) is that of Cheng et al. 2025, "Stop Summation:
Min-Form Credit Assignment Is All Process Reward Model Needs for Reasoning".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

PAD, EOS, EQUALS, END, ANSWER, PLUS, MINUS, TIMES = range(8)
DIGIT = TIMES + 1  # the token of digit d is DIGIT + d
VOCAB_SIZE = DIGIT + 10


class Steps(NamedTuple):
  """Properties of each step; `[..., K]` bool unless stated otherwise.

  K equals T, since a step may be a single separator.

  Attributes:
    ids: `[..., T]` int32, the step of each token, -1 after the end.
    exists: mask of steps.
    sound: `op d r ;` with r the result for the running value.
    following: `op d r ;` with the prompt's next operation, right or wrong.
    truthful: `ANS r EOS` with the true result.
    repeating: `ANS r EOS` with the running value.
    complete: every operation of the prompt was written in an earlier step.
    answer: `[...]` int32, the digit of a final `ANS r EOS`, else -1.
    correct: `[...]` bool, whether that digit is the true result.
  """

  ids: Array
  exists: Array
  sound: Array
  following: Array
  truthful: Array
  repeating: Array
  complete: Array
  answer: Array
  correct: Array


def apply(value: Array, operator: Array, operand: Array) -> Array:
  """Returns `value op operand` modulo 10; 0 adds, 1 subtracts, 2 multiplies."""
  return (
    jnp.select(
      [operator == 0, operator == 1],
      [value + operand, value - operand],
      value * operand,
    )
    % 10
  )


def result(start: Array, operators: Array, operands: Array) -> Array:
  """The true result of the chain: `[...]` and two `[..., N]` -> `[...]`."""
  value = start
  for i in range(operators.shape[-1]):
    value = apply(value, operators[..., i], operands[..., i])
  return value


def read(
  completions: Array,
  lengths: Array,
  start: Array,
  operators: Array,
  operands: Array,
) -> Steps:
  """Splits completions into steps and computes the properties of each step.

  It scans over tokens; finding the ends of steps costs O(T log T).

  Args:
    completions: `[..., T]` int32 token ids; ids after `lengths` are ignored.
    lengths: `[...]` int32, number of tokens with EOS.
    start: `[...]` int32, a0; leading axes broadcast against `completions`.
    operators: `[..., N]` int32, operators of the prompt in order.
    operands: `[..., N]` int32, operands of the prompt in order.

  Returns:
    `Steps`.
  """
  size = completions.shape[-1]  # T
  batch = completions.shape[:-1]
  truth = jnp.broadcast_to(result(start, operators, operands), batch)
  # One more operation, -1, that no token can match: none follows the last.
  pad = [(0, 0)] * (operators.ndim - 1) + [(0, 1)]
  next_operators = jnp.pad(operators, pad, constant_values=-1)
  next_operands = jnp.pad(operands, pad, constant_values=-1)

  positions = jnp.arange(size)
  real = positions < lengths[..., None]
  tokens = jnp.where(real, completions, PAD)
  separator = (tokens == END) | (tokens == EOS)
  ends = real & (separator | (positions == lengths[..., None] - 1))
  # The step of a token is the number of ends before it.
  ids = jnp.where(real, jnp.cumsum(ends, -1) - ends, -1)
  before = jax.lax.cummax(
    jnp.where(ends, positions, -1), axis=completions.ndim - 1
  )
  shift = [(0, 0)] * len(batch) + [(1, 0)]
  before = jnp.pad(before, shift, constant_values=-1)[..., :-1]
  nth = positions - before  # 1 for the first token of a step

  def back(by: int) -> Array:
    # Wraps around only where `nth` is too small for a match.
    return jnp.roll(tokens, by, -1)

  operator, operand, digit = back(3) - PLUS, back(2) - DIGIT, back(1) - DIGIT
  is_digit = (digit >= 0) & (digit < 10)
  arithmetic = (
    (ends & (tokens == END) & (nth == 4) & is_digit)
    & ((operator >= 0) & (operator <= TIMES - PLUS))
    & ((operand >= 0) & (operand < 10))
  )
  answers = (ends & (tokens == EOS) & (nth == 3) & is_digit) & (
    back(2) == ANSWER
  )

  def walk(carry: tuple[Array, Array], token: tuple[Array, ...]) -> tuple:
    running, done = carry  # running value, number of operations written
    is_arithmetic, operator, operand, digit = token
    following = (
      is_arithmetic
      & (operator == _pick(next_operators, done))
      & (operand == _pick(next_operands, done))
    )
    sound = is_arithmetic & (digit == apply(running, operator, operand))
    carry = jnp.where(is_arithmetic, digit, running), done + following
    return carry, (sound, following, running, done)

  first = jnp.broadcast_to(start, batch), jnp.zeros(batch, jnp.int32)
  by_token = [  # the scanned axis T comes first
    jnp.moveaxis(x, -1, 0) for x in (arithmetic, operator, operand, digit)
  ]
  _, facts = jax.lax.scan(walk, first, tuple(by_token))
  sound, following, running, done = (jnp.moveaxis(x, 0, -1) for x in facts)

  # The sorted positions of ends are the last tokens of steps 0, 1, ...
  last = jnp.sort(jnp.where(ends, positions, size), -1)
  exists, at = last < size, jnp.minimum(last, size - 1)
  by_step = [
    exists & jnp.take_along_axis(fact, at, -1)
    for fact in (
      ends,
      sound,
      following,
      answers & (digit == truth[..., None]),
      answers & (digit == running),
      done == operators.shape[-1],
    )
  ]
  final = answers & (positions == lengths[..., None] - 1)
  answer = jnp.where(final, digit, -1).max(-1)
  return Steps(ids, *by_step, answer, answer == truth)


def clean(steps: Steps) -> Array:
  """Accepts the steps of a flawless solution."""
  return (steps.sound & steps.following) | (steps.truthful & steps.complete)


def filler(steps: Steps) -> Array:
  """Accepts arithmetic with the right result and the true answer."""
  return steps.sound | steps.truthful


def local(steps: Steps) -> Array:
  """Accepts the same as `filler`, and answers that repeat the running value."""
  return steps.sound | steps.truthful | steps.repeating


PRM = Callable[[Steps], Array]
PRMS: dict[str, PRM] = {"clean": clean, "filler": filler, "local": local}


def step_scores(steps: Steps, prm: PRM) -> Array:
  """+1 for steps that `prm` accepts, -1 for others, 0 where masked.

  Args:
    steps: properties of the steps, from `read`.
    prm: process reward model, `Steps -> [..., K]` bool.

  Returns:
    `[..., K]` float32.
  """
  return jnp.where(steps.exists, jnp.where(prm(steps), 1.0, -1.0), 0.0)


def _pick(values: Array, index: Array) -> Array:
  """Returns `values[..., index]` for an index `[...]`."""
  values = jnp.broadcast_to(values, (*index.shape, values.shape[-1]))
  return jnp.take_along_axis(values, index[..., None], -1)[..., 0]
