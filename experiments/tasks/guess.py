"""Guess: find a hidden number with the replies higher and lower.

A task of several turns, on the device. In each turn the policy writes a number,
and the environment replies whether the hidden one is higher or lower:

  prompt     guess
  episode    32 <eos> higher 48 <eos> lower 40 <eos>

The prompt does not show the number, so that a policy which knows the rules can
only search: with 4 guesses of 64 numbers the best policy finds 15 of them, and
with 6 guesses 63. What is random over samples may find more with several
samples: of 4 samples with 4 guesses each, the best that independent samples of
one policy reach is .656, whereas a deterministic policy repeats itself.

The reward of a turn is the share of the numbers that were possible before and
are not after it, and that of the last turn is the outcome.

Shapes: P problems; A tokens of a turn.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import turns
from experiments.tasks.task import Problems, Task
from rl import UsageError
from rl.sampling.environment import Environment, Outcome, Reply

Array = jax.Array
PAD, EOS, GUESS, HIGHER, LOWER, INVALID = range(6)
NUMBER = INVALID  # the token of number n is NUMBER + n
WORDS = ("<pad>", "<eos>", "guess", "higher", "lower", "invalid")


def guess(numbers: int = 64, guesses: int = 4) -> Task:
  """Builds the task of guessing a number from 1 to N.

  A turn that is not one number has the reply "invalid", costs a guess, and has
  the reward 0. The expert guesses uniformly from 1 to N whatever the replies.
  Training and test problems are the same N numbers, which no prompt shows.

  Args:
    numbers: N, at least 2. Difficulty grows with it.
    guesses: K, number of turns, at least 1. Difficulty falls with it.

  Returns:
    The task, with L = 1 and T = 4 K.

  Raises:
    UsageError: a setting is out of range.
  """
  for name, value, least in (("numbers", numbers, 2), ("guesses", guesses, 1)):
    if value < least:
      raise UsageError(f"{name}={value} must be at least {least}")
  length = 4 * guesses
  environment = make_environment(numbers, guesses)

  def problems(ids: Array) -> Problems:
    return Problems(
      prompts=jnp.full((len(ids), 1), GUESS),
      prompt_mask=jnp.ones((len(ids), 1), bool),
      ids=ids,
      facts={"number": ids + 1},
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    key = jax.random.fold_in(key, step)
    return problems(jax.random.randint(key, (n,), 0, numbers))

  def test(n: int) -> Problems:
    if n > numbers:
      raise UsageError(
        f"n={n} test problems, but guess has {numbers}; ask for 1 to {numbers}"
      )
    return problems(jnp.arange(n, dtype=jnp.int32))

  def gold(problems: Problems) -> tuple[Array, Array]:
    number = problems.facts["number"][:, None] + NUMBER
    texts = jnp.concatenate([number, jnp.full_like(number, EOS)], -1)
    lengths = jnp.full(len(texts), 2)
    return jnp.pad(texts, ((0, 0), (0, length - 2))), lengths

  return turns.make_task(
    environment,
    name=f"guess(numbers={numbers}, guesses={guesses})",
    vocab_size=NUMBER + numbers + 1,
    eos_id=EOS,
    pad_id=PAD,
    prompt_length=1,
    completion_length=length,
    train=train,
    test=test,
    decode=decode,
    gold=gold,
  )


def make_environment(numbers: int, guesses: int) -> Environment:
  """Returns the environment; its state is the numbers that are possible."""

  def reset(facts: dict[str, Array]) -> dict[str, Array]:
    return {
      "number": facts["number"],
      "low": jnp.int32(1),
      "high": jnp.int32(numbers),
      "turn": jnp.int32(0),
      "right": jnp.bool_(False),
    }

  def step(state, tokens: Array, start: Array, end: Array) -> Reply:
    number, low, high = state["number"], state["low"], state["high"]
    value = tokens[start] - NUMBER
    is_valid = (end == start + 2) & (value >= 1) & (value <= numbers)
    is_higher, is_right = number > value, is_valid & (number == value)
    new_low = jnp.where(is_higher, jnp.maximum(low, value + 1), low)
    new_high = jnp.where(is_higher, high, jnp.minimum(high, value - 1))
    new_low = jnp.where(is_valid & ~is_right, new_low, low)
    new_high = jnp.where(is_valid & ~is_right, new_high, high)
    turn = state["turn"] + 1
    done = is_right | (turn == guesses)
    ruled_out = 1 - (new_high - new_low + 1) / (high - low + 1)
    word = jnp.where(is_higher, HIGHER, LOWER)
    return Reply(
      state={
        "number": number,
        "low": new_low,
        "high": new_high,
        "turn": turn,
        "right": is_right,
      },
      tokens=jnp.where(is_valid, word, INVALID)[None],
      length=jnp.int32(1),
      reward=jnp.where(done, is_right.astype(jnp.float32), ruled_out),
      done=done,
    )

  def outcome(state, end: Array) -> Outcome:
    del end
    right = state["right"]
    answer = jnp.where(right, state["number"], -1)
    return Outcome(right.astype(jnp.float32), right.astype(jnp.int8), answer)

  def act(state, key: Array) -> tuple[Array, Array]:
    del state
    value = jax.random.randint(key, (), 1, numbers + 1)
    return jnp.stack([value + NUMBER, EOS]), jnp.int32(2)

  return Environment(guesses, reset, step, outcome, act)


def optimum(numbers: int, guesses: int, k: int = 1) -> float:
  """Returns the largest probability that one of k samples finds the number.

  In K guesses a policy finds at most 2^K - 1 of the N numbers. k independent
  samples of one policy find most if each number is found equally often.
  """
  share = min(2**guesses - 1, numbers) / numbers
  return 1 - (1 - share) ** k


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `32 <eos> higher`, unpadded."""
  inside = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(
    WORDS[i] if i < len(WORDS) else str(i - NUMBER) for i in inside
  )
