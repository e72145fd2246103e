"""Attempts: countdown, with another attempt after a wrong one.

A task of several turns, on the device. With the level "feedback" the
environment says what an attempt evaluates to, or that it is invalid, and the
episode ends with a right one:

  prompt     2 3 4 = d2 d0
  episode    4 + 2 * 3 <eos> = d0 d1 d8 2 + 3 * 4 <eos>

With the level "verify" the policy judges its attempts itself. It hears nothing
about them, writes another one only after it has said `wrong`, and ends the
episode by saying `right`:

  episode    4 + 2 * 3 <eos> check wrong <eos> retry 2 + 3 * 4 <eos>

The score is the verdict of the last attempt. The components `first`,
`wrong_to_right` and `right_to_wrong` are the measures of the literature on
self-correction: of the first attempt, and of the changes up to the last.

Shapes: P problems; C numbers of a problem.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import countdown, turns
from experiments.tasks.task import Problems, Task
from rewards.tasks import countdown as rules
from rl import UsageError, registry
from rl.sampling.environment import Environment, Outcome, Reply

Array = jax.Array
LEVELS = ("feedback", "verify")
INVALID, CHECK, RETRY, RIGHT, WRONG = range(
  rules.VOCAB_SIZE, rules.VOCAB_SIZE + 5
)
WORDS = ("invalid", "check", "retry", "right", "wrong")
# Rates at which the expert redraws an operator, and judges wrongly.
REDRAW_RATE, MISTAKE_RATE = 0.7, 0.2


def attempts(
  count: int = 3, attempts: int = 3, level: str = "feedback"
) -> Task:
  """Builds countdown with several attempts.

  The reward of an attempt is its verdict, and that of a judgement is 1 if it
  agrees with the verdict of the attempt before it. The expert writes the
  expression that generated the problem with each operator drawn anew with
  probability 0.7, and its judgements are wrong with probability 0.2.

  Args:
    count: C, number of numbers, 2 to 7. Difficulty grows with it.
    attempts: largest number of attempts, at least 1.
    level: "feedback" or "verify".

  Returns:
    The task, with L = C + 3 and T = attempts * (3 C + 2), or attempts * (2 C +
    4) with the level "verify".

  Raises:
    UsageError: a setting is out of range.
  """
  registry.check_known("level", level, LEVELS)
  if attempts < 1:
    raise UsageError(f"attempts={attempts} must be at least 1")
  single = countdown.countdown(count)
  verifies = level == "verify"
  environment = make_environment(count, attempts, verifies)
  length = attempts * (2 * count + 4 if verifies else 3 * count + 2)

  def gold(problems: Problems) -> tuple[Array, Array]:
    texts, lengths = single.gold(problems)
    if verifies and attempts > 1:
      judgement = jnp.tile(
        jnp.array([CHECK, RIGHT, rules.EOS]), (len(texts), 1)
      )
      texts, lengths = jnp.concatenate([texts, judgement], -1), lengths + 3
    return jnp.pad(texts, ((0, 0), (0, length - texts.shape[-1]))), lengths

  return turns.make_task(
    environment,
    name=f"attempts(count={count}, attempts={attempts}, level={level})",
    vocab_size=WRONG + 1,
    eos_id=rules.EOS,
    pad_id=rules.PAD,
    prompt_length=single.prompt_length,
    completion_length=length,
    train=single.train,
    test=single.test,
    decode=decode,
    gold=gold,
  )


def make_environment(count: int, attempts: int, verifies: bool) -> Environment:
  """Returns the environment; its state has the verdicts of the attempts."""
  size = 2 * count  # tokens of an attempt

  def reset(facts: dict[str, Array]) -> dict[str, Array]:
    verdicts = {"first": jnp.bool_(False), "last": jnp.bool_(False)}
    counts = {"attempts": jnp.int32(0), "judgements": jnp.int32(0)}
    return {**facts, **verdicts, **counts, "answer": jnp.int32(-1)}

  def attempt(state, tokens: Array, start: Array, end: Array) -> Reply:
    text = jnp.take(tokens, start + jnp.arange(size), mode="fill", fill_value=0)
    value, legal = rules.expression_value(text, end - start, state["numbers"])
    right = legal & (value == state["target"])
    number = state["attempts"] + 1
    powers = 10 ** jnp.arange(count - 1, -1, -1)
    digits = jnp.abs(value) // powers % 10 + rules.DIGIT
    sign = jnp.array([rules.EQUALS, rules.MINUS])
    # = [-] and one digit for each number of the problem
    says = jnp.where(
      value < 0,
      jnp.concatenate([sign, digits]),
      jnp.concatenate([sign[:1], digits, sign[1:]]),
    )
    says = jnp.where(legal, says, INVALID)
    length = jnp.where(legal, 1 + (value < 0) + count, 1)
    if verifies:
      says, length = jnp.full_like(says, CHECK), jnp.int32(1)
    is_last = number == attempts
    return Reply(
      state={
        **state,
        "first": jnp.where(number == 1, right, state["first"]),
        "last": right,
        "attempts": number,
        "answer": countdown.answer_ids(value, legal),
      },
      tokens=says,
      length=length,
      reward=right.astype(jnp.float32),
      done=is_last if verifies else is_last | right,
    )

  def judge(state, tokens: Array, start: Array, end: Array) -> Reply:
    is_valid = end == start + 2
    is_positive = is_valid & (tokens[start] == RIGHT)
    is_negative = is_valid & (tokens[start] == WRONG)
    agrees = jnp.where(state["last"], is_positive, is_negative)
    return Reply(
      state={**state, "judgements": state["judgements"] + 1},
      tokens=jnp.full(count + 2, RETRY),
      length=jnp.int32(1),
      reward=agrees.astype(jnp.float32),
      # A text that is not a judgement ends the episode, too.
      done=~is_negative,
    )

  def step(state, tokens: Array, start: Array, end: Array) -> Reply:
    if not verifies:
      return attempt(state, tokens, start, end)
    is_judgement = state["attempts"] > state["judgements"]
    return jax.tree.map(
      lambda a, b: jnp.where(is_judgement, a, b),
      judge(state, tokens, start, end),
      attempt(state, tokens, start, end),
    )

  def outcome(state, end: Array) -> Outcome:
    del end
    first, last = state["first"], state["last"]
    return Outcome(
      score=last.astype(jnp.float32),
      correct=last.astype(jnp.int8),
      answer_id=state["answer"],
      components={
        "first": first.astype(jnp.float32),
        "wrong_to_right": (~first & last).astype(jnp.float32),
        "right_to_wrong": (first & ~last).astype(jnp.float32),
      },
    )

  def act(state, key: Array) -> tuple[Array, Array]:
    redraw_key, operator_key, judge_key = jax.random.split(key, 3)
    operators = state["operators"]
    redraw = jax.random.bernoulli(redraw_key, REDRAW_RATE, operators.shape)
    drawn = jax.random.randint(operator_key, operators.shape, 0, 3)
    operators = jnp.where(redraw, drawn, operators) + rules.PLUS
    pairs = state["order"] + rules.NUMBER, jnp.append(operators, rules.EOS)
    text = jnp.stack(pairs, -1).reshape(size)
    if not verifies:
      return text, jnp.int32(size)
    is_mistaken = jax.random.bernoulli(judge_key, MISTAKE_RATE)
    verdict = jnp.where(state["last"] ^ is_mistaken, RIGHT, WRONG)
    judgement = jnp.stack([verdict, rules.EOS])
    judgement = jnp.pad(judgement, (0, size - 2))
    is_judgement = state["attempts"] > state["judgements"]
    return (
      jnp.where(is_judgement, judgement, text),
      jnp.where(is_judgement, 2, size),
    )

  turns_of_episode = 2 * attempts - 1 if verifies else attempts
  return Environment(turns_of_episode, reset, step, outcome, act)


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `2 + 3 <eos> = d0 d5`, unpadded."""
  words = []
  for i in np.trim_zeros(np.asarray(ids)):
    is_new = i >= rules.VOCAB_SIZE  # not a token of countdown
    words.append(
      WORDS[i - rules.VOCAB_SIZE] if is_new else countdown.decode(np.array([i]))
    )
  return " ".join(words)
