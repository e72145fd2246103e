"""Chain: arithmetic modulo 10 in which every step can be checked.

The embedded task for credit over steps of reasoning. A solution works through
the operations of the prompt one by one, each on the value before it, and then
gives the answer:

  prompt     4 + 3 * 2 =
  solution   + 3 7 ; * 2 4 ; ANS 4 <eos>     4 + 3 = 7, 7 * 2 = 14, which is 4

`rewards.tasks.chain` has the rules. The outcome is exact; the step scores come
from one of three process reward models, which overlook different mistakes.

The id of a problem is a number in base 30: the first digit of the prompt, then
one digit of operator and operand per operation. Multiples of 7 are held out.
Difficulty grows with `operations`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import chain as rules
from rl import registry, types

Array = jax.Array

OPERATIONS = range(1, 6)  # with more operations, ids would leave int32
BASE = 30  # 3 operators times 10 operands
HELD_OUT_DIVISOR = 7  # ids divisible by it are test problems
# Rates of a demonstration's errors, per operation.
WRONG_RATE = 0.08
FILLER_RATE = 0.05
EARLY_RATE = 0.03
POOL = 8192  # draws from which `test` takes the distinct ones


def chain(
  operations: int = 3, prm: str = "clean", reference: bool = False
) -> Task:
  """Chained arithmetic modulo 10 with exact step scores.

  Every operation of a demonstration may have errors: its result is wrong, and
  carried on, with probability 0.08; a filler step `+ 0 r ;` precedes it with
  probability 0.05; and the running value is given as the answer instead with
  probability 0.03. T has room for a filler before every operation. `answer_ids`
  are the digits that are answered, so a majority vote picks the most common
  result.

  Args:
    operations: how many operations, 1 to 5; the difficulty.
    prm: process reward model, "clean", "filler" or "local", that makes
      `step_scores`. It does not affect `scores` and `correct`.
    reference: whether the task has the views "reference", the true `ANS r EOS`
      after the tokens of a sample before its first `ANS` or EOS, and
      "bare_reference", the same after the prompt alone.

  Returns:
    The task, with L = 2 operations + 2, T = 8 operations + 4, and K = T.

  Raises:
    ValueError: if `operations` is out of range or `prm` is unknown.
  """
  if operations not in OPERATIONS:
    nearest = min(OPERATIONS, key=lambda allowed: abs(allowed - operations))
    raise ValueError(
      f"operations={operations} is not a length of chain; allowed: "
      f"{OPERATIONS[0]} to {OPERATIONS[-1]}, the nearest is {nearest}"
    )
  if prm not in rules.PRMS:
    raise ValueError(registry.describe_unknown("prm", prm, rules.PRMS))
  num_problems = 10 * BASE**operations
  num_test = -(
    -num_problems // HELD_OUT_DIVISOR
  )  # rounded up: 0 is one of them
  completion_length = 8 * operations + 4

  def train(key: Array, step: Array, n: int) -> Problems:
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
    draw = jax.vmap(
      lambda k: jax.random.randint(k, (), 0, num_problems - num_test)
    )
    nth = draw(keys)  # [n]
    # The nth number, from 0, that 7 does not divide: 1 to 6, 8 to 13, ...
    per_block = HELD_OUT_DIVISOR - 1
    ids = nth // per_block * HELD_OUT_DIVISOR + nth % per_block + 1
    return _problems(ids, operations)

  def test(n: int) -> Problems:
    draws = np.random.default_rng(0).integers(num_test, size=POOL)
    _, first = np.unique(draws, return_index=True)
    if n > first.size:
      raise ValueError(
        f"n={n} test problems, but chain(operations={operations}) has "
        f"{first.size}; ask for 1 to {first.size}"
      )
    ids = HELD_OUT_DIVISOR * draws[np.sort(first)[:n]]
    return _problems(jnp.asarray(ids, jnp.int32), operations)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # an answer ends with EOS
    facts = {name: fact[:, None] for name, fact in problems.facts.items()}
    steps = rules.read(completions, lengths, **facts)
    views = {}
    if reference:
      truth = rules.result(**facts)  # [P, 1]
      is_end = (completions == rules.ANSWER) | (completions == rules.EOS)
      first_end = jnp.where(is_end.any(-1), jnp.argmax(is_end, -1), lengths)
      thought_lengths = jnp.minimum(first_end, lengths)  # [P, S]
      views["reference"] = _with_answer(
        problems, completions, thought_lengths, truth
      )
      views["bare_reference"] = _with_answer(
        problems, completions[:, :1, :0], 0 * thought_lengths[:, :1], truth
      )
    return Judged(
      scores=steps.correct.astype(jnp.float32),
      correct=steps.correct.astype(jnp.int8),
      answer_ids=steps.answer,
      components={"answered": (steps.answer >= 0).astype(jnp.float32)},
      step_ids=steps.ids,
      step_scores=rules.step_scores(steps, rules.PRMS[prm]),
      step_mask=steps.exists,
      views=views,
    )

  def gold(problems: Problems) -> tuple[Array, Array]:
    never = jnp.zeros(problems.facts["operators"].shape, bool)
    no_slips = jnp.zeros(never.shape, jnp.int32)
    return _write(problems, no_slips, never, never, completion_length)

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    shape = problems.facts["operators"].shape  # [P, N]
    wrong_key, slip_key, filler_key, early_key = jax.random.split(key, 4)
    wrong = jax.random.bernoulli(wrong_key, WRONG_RATE, shape)
    slips = jax.random.randint(slip_key, shape, 1, 10)
    return _write(
      problems,
      jnp.where(wrong, slips, 0),
      jax.random.bernoulli(filler_key, FILLER_RATE, shape),
      jax.random.bernoulli(early_key, EARLY_RATE, shape),
      completion_length,
    )

  suffix = ", reference=True" if reference else ""
  return Task(
    name=f"chain(operations={operations}, prm={prm}{suffix})",
    vocab_size=rules.VOCAB_SIZE,
    eos_id=rules.EOS,
    pad_id=rules.PAD,
    prompt_length=2 * operations + 2,
    completion_length=completion_length,
    train=train,
    test=test,
    score=score,
    demonstrate=demonstrate,
    decode=decode,
    gold=gold,
  )


def decode(ids: Array) -> str:
  """`+ 3 7 ; ANS 7 <eos>`, or `4 + 3 =` for a prompt; no padding around."""
  symbols = ["<pad>", "<eos>", "=", ";", "ANS", "+", "-", "*"]
  symbols += [str(d) for d in range(10)]
  inside = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(symbols[i] for i in inside)


@functools.partial(jax.jit, static_argnums=1)
def _problems(ids: Array, operations: int) -> Problems:
  """The problems with ids `[P]`."""
  ids = ids.astype(jnp.int32)
  powers = BASE ** jnp.arange(operations - 1, -1, -1)
  digits = ids[:, None] // powers % BASE  # [P, N]
  operators, operands = digits // 10, digits % 10
  start = ids // BASE**operations  # [P], the first digit of the prompt
  pairs = jnp.stack([operators + rules.PLUS, operands + rules.DIGIT], -1)
  prompts = jnp.concatenate(
    [
      start[:, None] + rules.DIGIT,
      pairs.reshape(ids.size, 2 * operations),
      jnp.full((ids.size, 1), rules.EQUALS),
    ],
    -1,
  )
  return Problems(
    prompts=prompts,
    prompt_mask=jnp.ones(prompts.shape, bool),
    ids=ids,
    facts={"start": start, "operators": operators, "operands": operands},
  )


def _with_answer(
  problems: Problems, completions: Array, thought_lengths: Array, truth: Array
) -> types.Tokens:
  """The first tokens of each sample, then `ANS truth EOS`, which is the mask.

  Args:
    problems: P problems.
    completions: `[P, S, T]`.
    thought_lengths: `[P, S]`, number of first tokens.
    truth: `[P, 1]`, right answers.

  Returns:
    Completions `[P, S, T + 3]`.
  """
  *grid, length = completions.shape
  answer = jnp.stack(
    jnp.broadcast_arrays(
      rules.ANSWER,
      truth + rules.DIGIT,
      jnp.full(thought_lengths.shape, rules.EOS),
    ),
    -1,
  )  # [P, S, 3]
  # Position of each token in the answer: negative before it, 3 or more after.
  position = jnp.arange(length + 3) - thought_lengths[..., None]
  mask = (position >= 0) & (position < 3)
  answer_tokens = jnp.take_along_axis(answer, jnp.clip(position, 0, 2), -1)
  space = jnp.zeros((*grid, 3), completions.dtype)
  thought_tokens = jnp.concatenate([completions, space], -1)
  return types.Tokens(
    prompts=problems.prompts,
    prompt_mask=problems.prompt_mask,
    completions=jnp.where(
      position < 0, thought_tokens, jnp.where(mask, answer_tokens, rules.PAD)
    ),
    lengths=thought_lengths + 3,
    mask=mask,
  )


def _write(
  problems: Problems,
  slips: Array,
  fillers: Array,
  early: Array,
  completion_length: int,
) -> tuple[Array, Array]:
  """Writes solutions with some errors.

  Every step that a solution may have is written at a fixed place, with a mask
  of the tokens that it does have; these are then moved to the left.

  Args:
    problems: P problems of N operations.
    slips: `[P, N]` int32, added to each result; 0 leaves it right.
    fillers: `[P, N]` bool, a filler step precedes the operation.
    early: `[P, N]` bool, the answer comes instead of the operation.
    completion_length: T.

  Returns:
    `(completions [P, T], lengths [P])`.
  """
  facts = problems.facts
  value = facts["start"]  # [P], the running value
  ones = jnp.ones_like(value)
  answered = jnp.zeros(value.shape, bool)
  columns, masks = [], []  # of all possible tokens, each [P]
  for i in range(slips.shape[-1]):
    answered = answered | early[:, i]
    operator, operand = facts["operators"][:, i], facts["operands"][:, i]
    result = (rules.apply(value, operator, operand) + slips[:, i]) % 10
    end = ones * rules.END
    # Filler: + 0 value ;
    columns += [ones * rules.PLUS, ones * rules.DIGIT, value + rules.DIGIT, end]
    masks += [fillers[:, i] & ~answered] * 4
    # Operation: operator operand result ;
    columns += [operator + rules.PLUS, operand + rules.DIGIT]
    columns += [result + rules.DIGIT, end]
    masks += [~answered] * 4
    value = jnp.where(answered, value, result)
  # Answer: ANS value EOS
  columns += [ones * rules.ANSWER, value + rules.DIGIT, ones * rules.EOS]
  masks += [jnp.ones_like(answered)] * 3
  tokens, mask = jnp.stack(columns, -1), jnp.stack(masks, -1)  # [P, 8 N + 3]
  # A stable sort moves the tokens in use to the left, in their order.
  order = jnp.argsort(~mask, axis=-1, stable=True)
  tokens = jnp.where(mask, tokens, rules.PAD)
  tokens = jnp.take_along_axis(tokens, order, -1)
  widths = [(0, 0), (0, completion_length - tokens.shape[-1])]
  completions = jnp.pad(tokens, widths, constant_values=rules.PAD)
  return completions.astype(jnp.int32), mask.sum(-1).astype(jnp.int32)
