"""Countdown: an expression over given numbers that reaches a target.

The embedded task with many distinct solutions per problem, so that pass@1 and
pass@k differ and can be traded against each other. Problems are generated,
solved and scored on the device. With count=3 a problem, a solution and a wrong
completion are

  prompt   2 3 4 = d2 d0
  right    2 + 3 * 4 <eos>     operators apply from left to right: 5 * 4 = 20
  wrong    4 + 2 * 3 <eos>     18

A problem is `count` numbers from 1 to 9, drawn with repeats and shown sorted
(their order would leak the solution), and a target from 1 to 99 that some
expression over them reaches. A multiset of numbers belongs to the held-out
problems when `(sum n + 3 sum n^2) % 7 == 0`, so a held-out problem shares its
numbers with no training problem. Difficulty grows with `count`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import countdown as rules

Array = jax.Array

COUNTS = range(2, 8)  # with more numbers, ids would leave int32
LARGEST_TARGET = 99  # two digits
OPERATOR_RATES = (0.5, 0.3, 0.2)  # rates of +, - and *
REDRAW_RATE = 0.1  # share of a demonstration's operators that is drawn anew
POOL = 8192  # draws from which `test` takes the distinct ones


def countdown(count: int = 4) -> Task:
  """Countdown with `count` numbers.

  A demonstration is the expression that generated the problem, each operator
  drawn anew with probability 0.1: a policy trained on them is imperfect and
  knows many ways. `answer_ids` identify the value that an expression reaches,
  so a majority vote picks the value that most expressions agree on. It can
  differ from the target, although a policy that reads the target needs no vote.

  Args:
    count: how many numbers, 2 to 7; the difficulty.

  Returns:
    The task, with L = count + 3 and T = 2 count.

  Raises:
    ValueError: if `count` is out of range.
  """
  if count not in COUNTS:
    nearest = min(COUNTS, key=lambda allowed: abs(allowed - count))
    raise ValueError(
      f"count={count} is not a number of countdown; allowed: {COUNTS[0]} to "
      f"{COUNTS[-1]}, the nearest is {nearest}"
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    return _draw(jax.random.fold_in(key, step), n, count, False)

  def test(n: int) -> Problems:
    pool = _draw(jax.random.key(0), POOL, count, True)
    _, first = np.unique(np.asarray(pool.ids), return_index=True)
    if n > first.size:
      raise ValueError(
        f"n={n} test problems, but countdown(count={count}) has {first.size}; "
        f"ask for 1 to {first.size}"
      )
    rows = np.sort(first)[:n]
    return jax.tree.map(lambda leaf: leaf[rows], pool)

  return Task(
    name=f"countdown(count={count})",
    vocab_size=rules.VOCAB_SIZE,
    eos_id=rules.EOS,
    pad_id=rules.PAD,
    prompt_length=count + 3,
    completion_length=2 * count,
    train=train,
    test=test,
    score=score,
    demonstrate=demonstrate,
    decode=decode,
    gold=gold,
  )


def score(
  problems: Problems, completions: Array, lengths: Array, finished: Array
) -> Judged:
  """Scores 1 for an exact hit, else 0; see `rewards.tasks.countdown`."""
  del finished  # a legal expression ends with EOS
  facts = problems.facts
  values, legal = rules.expression_value(
    completions, lengths, facts["numbers"][:, None]
  )  # [P, S] each
  scores = rules.exact_hit(values, legal, facts["target"][:, None])
  return Judged(
    scores=scores,
    correct=scores.astype(jnp.int8),
    answer_ids=answer_ids(values, legal),
    components={"legal": legal.astype(jnp.float32)},
  )


def answer_ids(values: Array, legal: Array) -> Array:
  """Returns values, which may be negative, as ids from 0; -1 where illegal."""
  return jnp.where(legal, 2 * jnp.abs(values) + (values < 0), -1)


def gold(problems: Problems) -> tuple[Array, Array]:
  """Returns the generating expressions."""
  facts = problems.facts
  return _write(facts["order"], facts["operators"])


def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
  """Returns the generating expressions with some operators drawn anew."""
  operators = problems.facts["operators"]  # [P, count - 1]
  redraw_key, operator_key = jax.random.split(key)
  redraw = jax.random.bernoulli(redraw_key, REDRAW_RATE, operators.shape)
  others = _operators(jax.random.uniform(operator_key, operators.shape))
  return _write(problems.facts["order"], jnp.where(redraw, others, operators))


def decode(ids: Array) -> str:
  """`2 + 3 * 4 <eos>`, or `2 3 4 = d2 d0` for a prompt; no padding around."""
  symbols = ["<pad>", "<eos>", "=", "+", "-", "*"]
  symbols += [str(n) for n in range(1, rules.LARGEST + 1)]
  symbols += [f"d{d}" for d in range(10)]
  inside = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(symbols[i] for i in inside)


def held_out(numbers: Array) -> Array:
  """Returns `[...]` bool, whether numbers `[..., count]` are test problems."""
  return (numbers + 3 * numbers**2).sum(-1) % 7 == 0


def _operators(uniform: Array) -> Array:
  """Operators at their rates, by inversion of the distribution function."""
  thresholds = jnp.cumsum(jnp.asarray(OPERATOR_RATES))[:-1]
  return (uniform[..., None] >= thresholds).sum(-1).astype(jnp.int32)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _draw(key: Array, n: int, count: int, is_test: bool) -> Problems:
  """Problems of one split; i depends on `key` and i alone, not on n.

  Args:
    key: PRNG key.
    n: number of problems.
    count: numbers in each problem.
    is_test: value of `held_out` for their numbers.

  Returns:
    The problems.
  """
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
  # order: [n, count] as drawn; operators: [n, count - 1]
  order, operators = jax.vmap(lambda k: _draw_one(k, count, is_test))(keys)
  numbers = jnp.sort(order, -1)
  target = rules.left_to_right(order, operators)  # [n]
  tens = jnp.stack([target // 10, target % 10], -1)
  equals = jnp.full((n, 1), rules.EQUALS)
  prompts = jnp.concatenate(
    [numbers + rules.NUMBER, equals, tens + rules.DIGIT], -1
  ).astype(jnp.int32)
  # The digits of an id are the problem: 3479 and 24 is number 347924.
  powers = 10 ** jnp.arange(count - 1, -1, -1)
  return Problems(
    prompts=prompts,
    prompt_mask=jnp.ones(prompts.shape, bool),
    ids=((numbers * powers).sum(-1) * 100 + target).astype(jnp.int32),
    facts={
      "numbers": numbers,
      "target": target,
      "order": order,
      "operators": operators,
    },
  )


def _draw_one(key: Array, count: int, is_test: bool) -> tuple[Array, Array]:
  """Proposes until the split and the target's range are right."""

  def propose(attempt: Array) -> tuple[Array, Array, Array]:
    # One draw for all: the generator is most of this loop to compile.
    uniform = jax.random.uniform(
      jax.random.fold_in(key, attempt), (2 * count - 1,)
    )
    numbers = 1 + (rules.LARGEST * uniform[:count]).astype(jnp.int32)
    return attempt + 1, numbers, _operators(uniform[count:])

  def is_refused(state: tuple[Array, Array, Array]) -> Array:
    _, numbers, operators = state
    target = rules.left_to_right(numbers, operators)
    in_range = (target >= 1) & (target <= LARGEST_TARGET)
    return ~in_range | (held_out(numbers) != is_test)

  _, numbers, operators = jax.lax.while_loop(
    is_refused, lambda state: propose(state[0]), propose(jnp.int32(0))
  )
  return numbers, operators


def _write(numbers: Array, operators: Array) -> tuple[Array, Array]:
  """`[P, C]` and `[P, C - 1]` as tokens `[P, 2C]` with EOS, and lengths."""
  rows, count = numbers.shape
  last = jnp.full((rows, 1), rules.EOS)
  # Each number is followed by an operator, the last one by EOS.
  seconds = jnp.concatenate([operators + rules.PLUS, last], -1)  # [P, C]
  pairs = jnp.stack([numbers + rules.NUMBER, seconds], -1)  # [P, C, 2]
  tokens = pairs.reshape(rows, 2 * count).astype(jnp.int32)
  return tokens, jnp.full(rows, 2 * count, jnp.int32)
