"""Chain: arithmetic modulo 10, every step of which can be checked.

The embedded task for credit over reasoning steps. The prompt is `a0 op d op d
... =`, a solution works through the operations one by one (`rewards.tasks.chain` has
the rules). The outcome is exact; the step scores come from one of three process
reward models that overlook different things.

A problem is a number in base 30: a0, then one digit of operator and operand per
operation. The multiples of 7 are held out. Difficulty grows with `operations`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import chain as reward
from rl import choices, types

Array = jax.Array

OPERATIONS = range(1, 6)  # beyond five operations, ids would leave int32
CHOICES = 30  # 3 operators, 10 operands
HELD_OUT = 7  # ids divisible by it are test problems
WRONG = 0.08  # rates of a demonstration's errors, per operation
FILLER = 0.05
EARLY = 0.03
POOL = 8192  # draws of which `test` keeps the distinct ones


def chain(
  operations: int = 3, prm: str = "clean", reference: bool = False
) -> Task:
  """Chained arithmetic modulo 10 with exact step scores.

  A demonstration errs at each operation: with probability 0.08 its result is
  wrong and carried on, with 0.05 a filler step `+ 0 r ;` precedes it, and with
  0.03 the running value is given as the answer instead. T leaves every
  operation room for a filler. `answer_ids` are the digits answered: the
  majority is the commonest result.

  Args:
    operations: how many operations, 1 to 5; the difficulty.
    prm: process reward model: "clean", "filler" or "local". It makes
      `step_scores`, of which `scores` and `correct` know nothing.
    reference: whether to give the views "reference", the true `ANS r EOS` after
      what each sample says before its first `ANS` or EOS, and "bare_reference",
      the same after the prompt alone.

  Returns:
    The task: L = 2 operations + 2, T = 8 operations + 4, K = T.

  Raises:
    ValueError: `operations` is out of range or `prm` is unknown.
  """
  if operations not in OPERATIONS:
    nearest = min(OPERATIONS, key=lambda allowed: abs(allowed - operations))
    raise ValueError(
      f"operations={operations} is not a length of chain; allowed: "
      f"{OPERATIONS[0]} to {OPERATIONS[-1]}, the nearest is {nearest}"
    )
  if prm not in reward.PRMS:
    raise ValueError(choices.unknown("prm", prm, reward.PRMS))
  problems_in_all = 10 * CHOICES**operations
  held_out = -(-problems_in_all // HELD_OUT)
  room = 8 * operations + 4

  def train(key: Array, step: Array, n: int) -> Problems:
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
    draw = jax.vmap(
      lambda k: jax.random.randint(k, (), 0, problems_in_all - held_out)
    )
    nth = draw(keys)  # the nth number that 7 does not divide
    ids = nth // (HELD_OUT - 1) * HELD_OUT + nth % (HELD_OUT - 1) + 1
    return _problems(ids, operations)

  def test(n: int) -> Problems:
    draws = np.random.default_rng(0).integers(held_out, size=POOL)
    _, first = np.unique(draws, return_index=True)
    if n > first.size:
      raise ValueError(
        f"n={n} test problems, but chain(operations={operations}) has "
        f"{first.size}; ask for 1 to {first.size}"
      )
    ids = HELD_OUT * draws[np.sort(first)[:n]]
    return _problems(jnp.asarray(ids, jnp.int32), operations)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # an answer ends with EOS
    facts = {name: fact[:, None] for name, fact in problems.facts.items()}
    steps = reward.read(completions, lengths, **facts)
    views = {}
    if reference:
      truth = reward.result(**facts)
      closing = (completions == reward.ANSWER) | (completions == reward.EOS)
      at = jnp.where(closing.any(-1), jnp.argmax(closing, -1), lengths)
      thought = jnp.minimum(at, lengths)
      views["reference"] = _with_answer(problems, completions, thought, truth)
      views["bare_reference"] = _with_answer(
        problems, completions[:, :1, :0], 0 * thought[:, :1], truth
      )
    return Judged(
      scores=steps.correct.astype(jnp.float32),
      correct=steps.correct.astype(jnp.int8),
      answer_ids=steps.answer,
      components={"answered": (steps.answer >= 0).astype(jnp.float32)},
      step_ids=steps.ids,
      step_scores=reward.step_scores(steps, reward.PRMS[prm]),
      step_mask=steps.exists,
      views=views,
    )

  def gold(problems: Problems) -> tuple[Array, Array]:
    never = jnp.zeros(problems.facts["operators"].shape, bool)
    slips = jnp.zeros(never.shape, jnp.int32)
    return _write(problems, slips, never, never, room)

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    shape = problems.facts["operators"].shape
    wrong_key, slip_key, filler_key, early_key = jax.random.split(key, 4)
    wrong = jax.random.bernoulli(wrong_key, WRONG, shape)
    slips = jax.random.randint(slip_key, shape, 1, 10)
    return _write(
      problems,
      jnp.where(wrong, slips, 0),
      jax.random.bernoulli(filler_key, FILLER, shape),
      jax.random.bernoulli(early_key, EARLY, shape),
      room,
    )

  told = ", reference=True" if reference else ""
  return Task(
    name=f"chain(operations={operations}, prm={prm}{told})",
    vocab_size=reward.VOCAB_SIZE,
    eos_id=reward.EOS,
    pad_id=reward.PAD,
    prompt_length=2 * operations + 2,
    completion_length=room,
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
  """Reads ids `[P]` as problems."""
  ids = ids.astype(jnp.int32)
  powers = CHOICES ** jnp.arange(operations - 1, -1, -1)
  digits = ids[:, None] // powers % CHOICES
  operators, operands = digits // 10, digits % 10
  start = ids // CHOICES**operations
  pairs = jnp.stack([operators + reward.PLUS, operands + reward.DIGIT], -1)
  prompts = jnp.concatenate(
    [
      start[:, None] + reward.DIGIT,
      pairs.reshape(ids.size, 2 * operations),
      jnp.full((ids.size, 1), reward.EQUALS),
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
  problems: Problems, completions: Array, kept: Array, truth: Array
) -> types.Tokens:
  """The first `kept` tokens of each sample, then `ANS truth EOS`: the mask."""
  shape = completions.shape
  room = jnp.zeros((*shape[:-1], 3), completions.dtype)
  positions = jnp.arange(shape[-1] + 3)
  after = positions - kept[..., None]
  answer = jnp.stack(
    jnp.broadcast_arrays(
      reward.ANSWER, truth + reward.DIGIT, jnp.full(kept.shape, reward.EOS)
    ),
    -1,
  )
  said = jnp.concatenate([completions, room], -1)
  written = jnp.take_along_axis(answer, jnp.clip(after, 0, 2), -1)
  mask = (after >= 0) & (after < 3)
  return types.Tokens(
    prompts=problems.prompts,
    prompt_mask=problems.prompt_mask,
    completions=jnp.where(
      after < 0, said, jnp.where(mask, written, reward.PAD)
    ),
    lengths=kept + 3,
    mask=mask,
  )


def _write(
  problems: Problems, slips: Array, fillers: Array, early: Array, room: int
) -> tuple[Array, Array]:
  """Solutions with the given errors, compacted to the left.

  Args:
    problems: P problems of N operations.
    slips: `[P, N]` int32, added to each result; 0 leaves it right.
    fillers: `[P, N]` bool, a filler step precedes the operation.
    early: `[P, N]` bool, the answer comes instead of the operation.
    room: T.

  Returns:
    `(completions [P, T], lengths [P])`.
  """
  facts = problems.facts
  running = facts["start"]
  ones = jnp.ones_like(running)
  answered = jnp.zeros(running.shape, bool)
  tokens, kept = [], []
  for i in range(slips.shape[-1]):
    answered = answered | early[:, i]
    operator, operand = facts["operators"][:, i], facts["operands"][:, i]
    value = (reward.apply(running, operator, operand) + slips[:, i]) % 10
    zero, same, end = ones * reward.DIGIT, running + reward.DIGIT, reward.END
    tokens += [ones * reward.PLUS, zero, same, ones * end]
    kept += [fillers[:, i] & ~answered] * 4
    tokens += [operator + reward.PLUS, operand + reward.DIGIT]
    tokens += [value + reward.DIGIT, ones * end]
    kept += [~answered] * 4
    running = jnp.where(answered, running, value)
  tokens += [ones * reward.ANSWER, running + reward.DIGIT, ones * reward.EOS]
  kept += [jnp.ones_like(answered)] * 3
  tokens, kept = jnp.stack(tokens, -1), jnp.stack(kept, -1)
  first = jnp.argsort(~kept, axis=-1, stable=True)
  tokens = jnp.where(kept, tokens, reward.PAD)
  tokens = jnp.take_along_axis(tokens, first, -1)
  widths = [(0, 0), (0, room - tokens.shape[-1])]
  completions = jnp.pad(tokens, widths, constant_values=reward.PAD)
  return completions.astype(jnp.int32), kept.sum(-1).astype(jnp.int32)
