"""Chain: arithmetic modulo 10 whose every step can be checked.

The prompt is `a0 op d op d ... =`, with digits a0 and d and operators op. A
solution has one step per operation, `op d r ;`, where r is the running value
after it, and then `ANS r EOS`. A step ends at `;`, at EOS, or at the last token
of a truncated completion.

  verdict     1 if the last step is `ANS r EOS` with r the true result, else 0
  step score  +1 if the process reward model accepts the step, else -1

An arithmetic step is judged by the running value that was stated before it, so
an error costs only in the step in which it is made. Three process reward models
(PRMs), which are rules here, overlook different mistakes, so that the
exploitation of a PRM by a policy can be measured:

  clean   accepts the next operation of the prompt with the right result, and
          the true answer after the last operation
  filler  accepts any operation with the right result, also `+ 0 r ;` any number
          of times, and the true answer
  local   accepts the same as filler, and any answer that repeats the running
          value

Example, for the prompt `4 + 3 * 2 =`:
  + 3 7 ; * 2 4 ; ANS 4 EOS           +++ by all three
  + 3 7 ; + 0 7 ; * 2 4 ; ANS 4 EOS   +-++ by clean, ++++ by filler and local

Usage, for a group of S completions of each of P prompts:
  steps = chain.read(completions, lengths, start[:, None],
                     operators[:, None], operands[:, None])
  step_scores = chain.step_scores(steps, chain.PRMS["clean"])

Source: this codebase; the task shows the effect that sums of step rewards favor
long completions and minima short ones, of Cheng et al. 2025, "Stop Summation:
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

  K equals T, the number of tokens, since a step may be a single separator.

  Attributes:
    ids: `[..., T]` int32, the step of each token, -1 after the end.
    exists: whether the step exists.
    sound: whether it is `op d r ;` with r the result for the running value.
    following: whether it is `op d r ;` with the prompt's next operation, with
      any digit r.
    truthful: whether it is `ANS r EOS` with the true result.
    repeating: whether it is `ANS r EOS` with the running value.
    complete: whether all operations of the prompt were written before it.
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
  """Returns the true result of a chain of N operations, `[...]`."""
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
  # One more operator, -1, that no token can match: none follows the last.
  pad = [(0, 0)] * (operators.ndim - 1) + [(0, 1)]
  next_operators = jnp.pad(operators, pad, constant_values=-1)
  next_operands = jnp.pad(operands, pad)

  positions = jnp.arange(size)
  real = positions < lengths[..., None]
  separator = (completions == END) | (completions == EOS)
  ends = real & (separator | (positions == lengths[..., None] - 1))
  # The step of a token is the number of ends before it.
  ids = jnp.where(real, jnp.cumsum(ends, -1) - ends, -1)
  # Position of the last token of the step before.
  previous_end = jax.lax.cummax(
    jnp.where(ends, positions, -1), axis=completions.ndim - 1
  )
  shift = [(0, 0)] * len(batch) + [(1, 0)]
  previous_end = jnp.pad(previous_end, shift, constant_values=-1)[..., :-1]
  nth = positions - previous_end  # 1 for the first token of a step

  def earlier(distance: int) -> Array:
    """Returns, at position t, the token at position t - `distance`."""
    # Wraps around only where `nth` is too small for a match.
    return jnp.roll(completions, distance, -1)

  operator, operand = earlier(3) - PLUS, earlier(2) - DIGIT
  digit = earlier(1) - DIGIT
  is_digit = (digit >= 0) & (digit < 10)
  arithmetic = (
    (ends & (completions == END) & (nth == 4) & is_digit)
    & ((operator >= 0) & (operator <= TIMES - PLUS))
    & ((operand >= 0) & (operand < 10))
  )
  answers = (ends & (completions == EOS) & (nth == 3) & is_digit) & (
    earlier(2) == ANSWER
  )

  def walk(carry: tuple[Array, Array], token: tuple[Array, ...]) -> tuple:
    # The running value, and the number of the prompt's operations written.
    running, done = carry
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
  _, outputs = jax.lax.scan(walk, first, tuple(by_token))
  sound, following, running, done = (jnp.moveaxis(x, 0, -1) for x in outputs)

  # The sorted positions of ends are the last tokens of steps 0, 1, ...
  last = jnp.sort(jnp.where(ends, positions, size), -1)
  exists = last < size
  # In the order of the attributes of `Steps`, from `exists` to `complete`.
  by_step = [
    exists & jnp.take_along_axis(x, last, -1)
    for x in (
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
  """Accepts the prompt's next operation if right, and the final true answer."""
  return (steps.sound & steps.following) | (steps.truthful & steps.complete)


def filler(steps: Steps) -> Array:
  """Accepts any operation with the right result, and the true answer."""
  return steps.sound | steps.truthful


def local(steps: Steps) -> Array:
  """Accepts the same as `filler`, and answers that repeat the running value."""
  return steps.sound | steps.truthful | steps.repeating


PRM = Callable[[Steps], Array]
PRMS: dict[str, PRM] = {"clean": clean, "filler": filler, "local": local}


def step_scores(steps: Steps, prm: PRM) -> Array:
  """Returns +1 for steps that `prm` accepts, and -1 for others.

  Args:
    steps: properties of the steps, from `read`.
    prm: process reward model, `Steps -> [..., K]` bool.

  Returns:
    `[..., K]` float32; 0 for steps that do not exist.
  """
  return jnp.where(steps.exists, jnp.where(prm(steps), 1.0, -1.0), 0.0)


def _pick(values: Array, index: Array) -> Array:
  """Returns `values[..., index]` for an index `[...]`."""
  values = jnp.broadcast_to(values, (*index.shape, values.shape[-1]))
  return jnp.take_along_axis(values, index[..., None], -1)[..., 0]
