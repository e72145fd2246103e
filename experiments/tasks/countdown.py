"""Countdown: an expression over given numbers that reaches a target.

Problems have many different solutions, so that pass@1 and pass@k differ, and a
method may raise one and lower the other. Completions are scored by jittable
code on the device. With count=3 a prompt, a right completion and a wrong one
are

  prompt   2 3 4 = d2 d0
  right    2 + 3 * 4 <eos>     operators apply from left to right: 5 * 4 = 20
  wrong    4 + 2 * 3 <eos>     18

The prompt has `count` numbers, `=` and the two digits of the target (`d2 d0` is
20). A legal expression uses each number once.
The numbers are 1 to 9 and may repeat. A random expression of them generates the
target, from 1 to 99; the prompt shows the numbers sorted, because their order
in this expression would reveal a solution. A problem is held out if
`(sum n + 3 * sum n^2) % 7 == 0`, where the sums run over its numbers n: about
one in seven, whatever the order of the numbers, so that no training problem has
the numbers of a held-out problem. Difficulty grows with `count`.

Shapes: P problems, S samples per problem, L prompt tokens, T completion tokens.
"""

from __future__ import annotations

import functools
import string

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import countdown as rules
from rl import UsageError

Array = jax.Array

COUNTS = range(2, 8)  # with more numbers, problem ids would overflow int32
LARGEST_TARGET = 99  # two digits
OPERATOR_RATES = (0.5, 0.3, 0.2)  # probabilities of +, - and *
REDRAW_RATE = 0.1  # probability that an operator of a demonstration is redrawn
POOL = 8192  # random test problems of which `test` takes the distinct ones


def countdown(count: int = 4) -> Task:
  """Builds the task with `count` numbers per problem.

  A demonstration is the expression that generated the problem, in which each
  operator is drawn anew with probability 0.1. A policy trained on such
  demonstrations has errors left for RL to mend, and samples different
  expressions. `answer_ids`
  identify the value of an expression, so the answer of a majority vote is the
  most common value, which may differ from the target.

  Args:
    count: number of numbers, 2 to 7.

  Returns:
    The task, with L = count + 3 and T = 2 * count.

  Raises:
    UsageError: if `count` is out of range.
  """
  if count not in COUNTS:
    nearest = min(COUNTS, key=lambda allowed: abs(allowed - count))
    raise UsageError(
      f"countdown has no problems with count={count} numbers; allowed: "
      f"{COUNTS[0]} to {COUNTS[-1]}, the nearest is {nearest}"
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    return _draw(jax.random.fold_in(key, step), n, count, False)

  def test(n: int) -> Problems:
    problems = _test_problems(count)
    size = len(problems.ids)
    if n > size:
      raise UsageError(
        f"n={n} test problems, but countdown(count={count}) has {size}; "
        f"ask for 1 to {size}"
      )
    return jax.tree.map(lambda leaf: leaf[:n], problems)

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


@functools.cache  # to draw them takes half a second
def _test_problems(count: int) -> Problems:
  """Returns all distinct test problems, as numpy arrays."""
  pool = jax.device_get(_draw(jax.random.key(0), POOL, count, True))
  _, distinct = np.unique(pool.ids, return_index=True)
  # In the order of the pool, so that more problems extend fewer problems.
  positions = np.sort(distinct)
  return jax.tree.map(lambda leaf: leaf[positions], pool)


def score(
  problems: Problems, completions: Array, lengths: Array, finished: Array
) -> Judged:
  """Scores 1 for a legal expression with the target as its value, else 0."""
  del finished  # an expression is legal only with EOS
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
  """Maps values, which may be negative, to ids from 0; -1 where illegal."""
  return jnp.where(legal, 2 * jnp.abs(values) + (values < 0), -1)


def gold(problems: Problems) -> tuple[Array, Array]:
  """Returns the expressions that generated the problems, with EOS."""
  facts = problems.facts
  return _write(facts["order"], facts["operators"])


def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
  """Returns the generating expressions with some operators drawn anew."""
  operators = problems.facts["operators"]  # [P, count - 1]
  redraw_key, operator_key = jax.random.split(key)
  redraw = jax.random.bernoulli(redraw_key, REDRAW_RATE, operators.shape)
  redrawn = _operators(jax.random.uniform(operator_key, operators.shape))
  return _write(problems.facts["order"], jnp.where(redraw, redrawn, operators))


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `2 + 3 * 4 <eos>`, without padding."""
  # In the order of the token ids in `rewards.tasks.countdown`.
  symbols = ["<pad>", "<eos>", "=", "+", "-", "*"]
  symbols += [str(n) for n in range(1, rules.LARGEST + 1)]
  symbols += [f"d{d}" for d in string.digits]
  ids_without_padding = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(symbols[i] for i in ids_without_padding)


def held_out(numbers: Array) -> Array:
  """Returns `[...]` bool, whether numbers `[..., count]` are test problems."""
  return (numbers + 3 * numbers**2).sum(-1) % 7 == 0


def _operators(uniform: Array) -> Array:
  """Maps numbers in [0, 1) to operators 0, 1 and 2, for +, - and *."""
  # Uniform numbers give the operators with the probabilities `OPERATOR_RATES`.
  thresholds = jnp.cumsum(jnp.asarray(OPERATOR_RATES))[:-1]
  return (uniform[..., None] >= thresholds).sum(-1).astype(jnp.int32)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _draw(key: Array, n: int, count: int, is_test: bool) -> Problems:
  """Draws n problems of one split; problem i is the same for every n."""
  # `count` is the number of numbers in each problem.
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
  # order: [n, count] numbers as drawn; operators: [n, count - 1]
  order, operators = jax.vmap(lambda key: _draw_one(key, count, is_test))(keys)
  numbers = jnp.sort(order, -1)
  target = rules.left_to_right(order, operators)  # [n]
  tens = jnp.stack([target // 10, target % 10], -1)
  equals = jnp.full((n, 1), rules.EQUALS)
  prompts = jnp.concatenate(
    [numbers + rules.NUMBER, equals, tens + rules.DIGIT], -1
  ).astype(jnp.int32)
  # The digits of an id: the numbers 3, 4, 7, 9 with the target 24 are 347924.
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
  """Draws the numbers and operators of one problem by rejection sampling."""

  def propose(attempt: Array) -> tuple[Array, Array, Array]:
    # One call draws numbers and operators, because compiling the random number
    # generator takes most of the time to compile this loop.
    uniform = jax.random.uniform(
      jax.random.fold_in(key, attempt), (2 * count - 1,)
    )
    numbers = 1 + (rules.LARGEST * uniform[:count]).astype(jnp.int32)
    return attempt + 1, numbers, _operators(uniform[count:])

  _, numbers, operators = jax.lax.while_loop(
    lambda state: _is_refused(*state[1:], is_test),
    lambda state: propose(state[0]),
    propose(jnp.int32(0)),
  )
  return numbers, operators


def _is_refused(
  numbers: Array,  # [..., count]
  operators: Array,  # [..., count - 1]
  is_test: bool,  # whether the split is the held-out one
) -> Array:
  """Returns whether an expression is no problem of a split, `[...]`."""
  target = rules.left_to_right(numbers, operators)
  in_range = (target >= 1) & (target <= LARGEST_TARGET)
  return ~in_range | (held_out(numbers) != is_test)


def _write(
  numbers: Array,  # [P, count], in the order of the expression
  operators: Array,  # [P, count - 1]
) -> tuple[Array, Array]:
  """Encodes expressions as completions."""
  num_problems, count = numbers.shape
  eos = jnp.full((num_problems, 1), rules.EOS)
  # An operator follows each number, and EOS follows the last number.
  followers = jnp.concatenate([operators + rules.PLUS, eos], -1)  # [P, count]
  pairs = jnp.stack([numbers + rules.NUMBER, followers], -1)  # [P, count, 2]
  tokens = pairs.reshape(num_problems, 2 * count).astype(jnp.int32)
  # completions [P, 2 * count], lengths [P]; EOS is included
  return tokens, jnp.full(num_problems, 2 * count, jnp.int32)
