"""Chain: arithmetic modulo 10 whose every step can be checked.

The prompt is `a0 op d op d ... =`; a solution writes one step per operation,
`op d r ;` with r the running value after it, and then `ANS r EOS`. A step ends
at `;`, at EOS, or where a truncated completion stops.

  verdict   1 if the last step is `ANS r EOS` with r the true result, else 0
  step      +1 if the process reward model accepts it, else -1

A step of arithmetic is judged on the value stated before it, so an error is
punished where it is made and not in the steps that carry it on. Three process
reward models (PRMs) differ in what they overlook, which makes their hacks
measurable:

  clean   the next operation of the prompt, done right; the true answer after
          the last operation
  filler  any operation done right, `+ 0 r ;` forever included; the true answer
  local   as filler, and also any answer that repeats the running value

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
  """What is true of each step; `[..., K]` bool unless said otherwise.

  K equals T, since a step may be a lone separator.

  Attributes:
    ids: `[..., T]` int32, the step of each token, -1 outside.
    exists: which steps there are.
    sound: `op d r ;` whose r follows from the running value.
    following: `op d r ;` with the prompt's next operation, right or wrong.
    truthful: `ANS r EOS` with the true result.
    repeating: `ANS r EOS` with the running value.
    complete: every operation of the prompt was written in an earlier step.
    answer: `[...]` int32, the digit of a final `ANS r EOS`, else -1.
    correct: `[...]` bool, that digit is the true result.
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
  """`value op operand` modulo 10; 0 adds, 1 subtracts, 2 multiplies."""
  return (
    jnp.select(
      [operator == 0, operator == 1],
      [value + operand, value - operand],
      value * operand,
    )
    % 10
  )


def result(start: Array, operators: Array, operands: Array) -> Array:
  """True result of the whole chain: `[...]` and two `[..., N]` -> `[...]`."""
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
  """Splits completions into steps and finds out what is true of each.

  Token after token, and O(T log T) to find where steps end.

  Args:
    completions: `[..., T]` int32 token ids; what follows `lengths` is ignored.
    lengths: `[...]` int32, real tokens, EOS included.
    start: `[...]` int32, a0; leading axes broadcast against `completions`.
    operators, operands: `[..., N]` int32, the prompt's operations in order.

  Returns:
    `Steps`.
  """
  room = completions.shape[-1]
  batch = completions.shape[:-1]
  truth = jnp.broadcast_to(result(start, operators, operands), batch)
  # One more operation that no token can name: nothing follows the last.
  pad = [(0, 0)] * (operators.ndim - 1) + [(0, 1)]
  wanted = jnp.pad(operators, pad, constant_values=-1)
  wanted_operands = jnp.pad(operands, pad, constant_values=-1)

  positions = jnp.arange(room)
  real = positions < lengths[..., None]
  tokens = jnp.where(real, completions, PAD)
  separator = (tokens == END) | (tokens == EOS)
  ends = real & (separator | (positions == lengths[..., None] - 1))
  # Separators strictly before a token count the steps that it comes after.
  ids = jnp.where(real, jnp.cumsum(ends, -1) - ends, -1)
  before = jax.lax.cummax(
    jnp.where(ends, positions, -1), axis=completions.ndim - 1
  )
  shift = [(0, 0)] * len(batch) + [(1, 0)]
  before = jnp.pad(before, shift, constant_values=-1)[..., :-1]
  size = positions - before  # tokens from the step's first to this one

  def back(by: int) -> Array:
    return jnp.roll(tokens, by, -1)  # wraps only where `size` is too small

  operator, operand, digit = back(3) - PLUS, back(2) - DIGIT, back(1) - DIGIT
  is_digit = (digit >= 0) & (digit < 10)
  arithmetic = (
    (ends & (tokens == END) & (size == 4) & is_digit)
    & ((operator >= 0) & (operator <= TIMES - PLUS))
    & ((operand >= 0) & (operand < 10))
  )
  answers = (ends & (tokens == EOS) & (size == 3) & is_digit) & (
    back(2) == ANSWER
  )

  def walk(carry: tuple[Array, Array], at: tuple[Array, ...]) -> tuple:
    running, done = carry
    is_arithmetic, operator, operand, digit = at
    following = (
      is_arithmetic
      & (operator == _pick(wanted, done))
      & (operand == _pick(wanted_operands, done))
    )
    sound = is_arithmetic & (digit == apply(running, operator, operand))
    carry = jnp.where(is_arithmetic, digit, running), done + following
    return carry, (sound, following, running, done)

  first = jnp.broadcast_to(start, batch), jnp.zeros(batch, jnp.int32)
  moved = [
    jnp.moveaxis(x, -1, 0) for x in (arithmetic, operator, operand, digit)
  ]
  _, facts = jax.lax.scan(walk, first, tuple(moved))
  sound, following, running, done = (jnp.moveaxis(x, 0, -1) for x in facts)

  # Sorted, the places of the ends are those of steps 0, 1, ...
  last = jnp.sort(jnp.where(ends, positions, room), -1)
  exists, at = last < room, jnp.minimum(last, room - 1)
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
  """Accepts what a flawless solution would write here."""
  return (steps.sound & steps.following) | (steps.truthful & steps.complete)


def filler(steps: Steps) -> Array:
  """Accepts sound arithmetic, asked for or not, and the true answer."""
  return steps.sound | steps.truthful


def local(steps: Steps) -> Array:
  """Accepts as `filler`, and an answer that repeats the running value."""
  return steps.sound | steps.truthful | steps.repeating


PRM = Callable[[Steps], Array]
PRMS: dict[str, PRM] = {"clean": clean, "filler": filler, "local": local}


def step_scores(steps: Steps, prm: PRM) -> Array:
  """+1 on steps that `prm` accepts, -1 on others, 0 where there is no step.

  Args:
    steps: of `read`.
    prm: a process reward model, `Steps -> [..., K]` bool.

  Returns:
    `[..., K]` float32.
  """
  return jnp.where(steps.exists, jnp.where(prm(steps), 1.0, -1.0), 0.0)


def _pick(values: Array, index: Array) -> Array:
  """`values[..., index]`, the index being `[...]`."""
  values = jnp.broadcast_to(values, (*index.shape, values.shape[-1]))
  return jnp.take_along_axis(values, index[..., None], -1)[..., 0]
