"""Chain: arithmetic modulo 10 in which every step can be checked.

The task, scored on the device, for methods that give credit to single steps of
reasoning. A solution makes the operations of the prompt from left to right.
Each step has the operator, the operand and the result, which is the first
operand of the next step. The answer follows the last step:

  prompt     4 + 3 * 2 =
  solution   + 3 7 ; * 2 4 ; ANS 4 <eos>     4 + 3 = 7, 7 * 2 = 14, which is 4

`rewards.tasks.chain` has the rules. The score of the answer is exact; the step
scores come from one of three process reward models, which overlook different
mistakes.

The id of a problem is a number in base 30: the first digit of the prompt, then
one base-30 digit for the operator and the operand of each operation. Problems
whose id is a multiple of 7 are held out. Difficulty grows with `operations`.

Shapes: P problems, S samples per problem, L prompt tokens, T completion tokens,
K steps of reasoning, N operations.
"""

from __future__ import annotations

import functools
import string

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import numbered_problems
from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import chain as rules
from rl import UsageError, registry, types

Array = jax.Array

OPERATIONS = range(1, 6)  # with more operations, ids would leave int32
BASE = 30  # 3 operators times 10 operands
# Probabilities of the errors of a demonstration, per operation.
WRONG_RATE = 0.08
FILLER_RATE = 0.05
EARLY_RATE = 0.03


def chain(
  operations: int = 3,
  prm: str = "clean",
  reference: bool = False,
  reworded: bool = False,
) -> Task:
  """Builds the task of chained arithmetic modulo 10.

  At every operation of a demonstration three errors may happen, independently:
  its result is wrong, and the next operation uses it, with probability 0.08; a
  filler step `+ 0 r ;`, where r is the running value, precedes it with
  probability 0.05; and the demonstration answers with the running value and
  ends before the operation, with probability 0.03. T has room for a filler step
  before every operation. `answer_ids` are the digits of the answers.

  Args:
    operations: N, number of operations, 1 to 5.
    prm: process reward model that makes `step_scores`: "clean", "filler" or
      "local" of `rewards.tasks.chain`. It does not affect `scores` and
      `correct`.
    reference: whether the task has views for the likelihood of the right answer
      r. "reference" has `ANS r EOS` after the tokens of a sample before its
      first `ANS` or EOS, "bare_reference" has it after the prompt, and
      "step_references" `[P, S M]` has it after each of the first M = 2 N steps
      of a sample.
    reworded: whether training problems come in pairs of two wordings with the
      same answer: `4 + 3 * 2 =` is followed by `3 + 4 * 2 =`. A problem that
      begins with a subtraction, or whose other wording is held out, is followed
      by itself. "task/paraphrase_answer_ids" `[P, S]` has the answers to the
      other wording. The number of problems of a step must be even.

  Returns:
    The task, with L = 2 N + 2, T = 8 N + 4, and K = T.

  Raises:
    UsageError: if `operations` is out of range or `prm` is unknown.
  """
  if operations not in OPERATIONS:
    nearest = min(OPERATIONS, key=lambda allowed: abs(allowed - operations))
    raise UsageError(
      f"operations={operations} is not a length of chain; allowed: "
      f"{OPERATIONS[0]} to {OPERATIONS[-1]}, the nearest is {nearest}"
    )
  if prm not in rules.PRMS:
    raise UsageError(registry.describe_unknown("prm", prm, rules.PRMS))
  num_problems = 10 * BASE**operations
  completion_length = 8 * operations + 4

  def train(key: Array, step: Array, n: int) -> Problems:
    ids = numbered_problems.train_ids(key, step, n, num_problems)
    if reworded:
      if n % 2:
        raise UsageError(
          f"chain(reworded=True) has pairs of problems, so that {n} problems "
          f"are none; the nearest even number is {n + 1}"
        )
      ids = ids[: n // 2]
      pairs = jnp.stack([ids, _other_wording(ids, operations)], -1)
      ids = pairs.reshape(n)
    return _problems(ids, operations)

  def test(n: int) -> Problems:
    ids = numbered_problems.test_ids(
      n, num_problems, f"chain(operations={operations})"
    )
    return _problems(jnp.asarray(ids, jnp.int32), operations)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # `rules.read` accepts an answer only with EOS
    facts = {name: fact[:, None] for name, fact in problems.facts.items()}
    steps = rules.read(completions, lengths, **facts)
    views = {}
    if reference:
      truth = rules.result(**facts)  # [P, 1], the right answers
      thought_lengths = lengths_of_thoughts(completions, lengths)
      views["reference"] = with_answer(
        problems, completions, thought_lengths, truth
      )
      no_tokens = jnp.zeros((*truth.shape, 0), completions.dtype)  # [P, 1, 0]
      views["bare_reference"] = with_answer(
        problems, no_tokens, jnp.zeros_like(truth), truth
      )
      # [P, S, M], number of tokens in the first steps of each thought.
      step_counts = 1 + jnp.arange(2 * operations)
      in_first_steps = (steps.ids >= 0)[..., None, :] & (
        steps.ids[..., None, :] < step_counts[:, None]
      )
      first_lengths = jnp.minimum(
        in_first_steps.sum(-1), thought_lengths[..., None]
      )
      views["step_references"] = with_answer(
        problems,
        jnp.repeat(completions, 2 * operations, axis=1),
        first_lengths.reshape(len(completions), -1),
        truth,
      )
    extras = {}
    if reworded:
      # The problems 2 i and 2 i + 1 are two wordings.
      partners = jnp.arange(len(completions)) ^ 1
      extras["paraphrase_answer_ids"] = steps.answer.at[partners].get(
        mode="fill", fill_value=-1
      )
    return Judged(
      scores=steps.correct.astype(jnp.float32),
      correct=steps.correct.astype(jnp.int8),
      answer_ids=steps.answer,
      components={"answered": (steps.answer >= 0).astype(jnp.float32)},
      step_ids=steps.ids,
      step_scores=rules.step_scores(steps, rules.PRMS[prm]),
      step_mask=steps.exists,
      extras=extras,
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
  suffix += ", reworded=True" if reworded else ""
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
    answer_cue=(rules.ANSWER,),
  )


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `+ 3 7 ; ANS 7 <eos>`, unpadded."""
  symbols = ["<pad>", "<eos>", "=", ";", "ANS", "+", "-", "*", *string.digits]
  inside = np.trim_zeros(np.asarray(ids))  # PAD is 0
  return " ".join(symbols[i] for i in inside)


@functools.partial(jax.jit, static_argnums=1)
def _problems(ids: Array, operations: int) -> Problems:
  """Returns the problems with the ids `[P]`."""
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


def _other_wording(ids: Array, operations: int) -> Array:
  """Returns the ids of problems with the first two operands exchanged."""
  facts = _problems(ids, operations).facts
  start, first = facts["start"], facts["operands"][:, 0]  # [P] each
  unit = BASE ** (operations - 1)  # of the first operation's digit of an id
  other = ids + (first - start) * BASE * unit + (start - first) * unit
  commutes = facts["operators"][:, 0] != rules.MINUS - rules.PLUS
  is_trained = other % numbered_problems.DIVISOR != 0
  # The id stays the same where this would change the answer, or would be the id
  # of a held-out problem.
  return jnp.where(commutes & is_trained, other, ids)


def lengths_of_thoughts(completions: Array, lengths: Array) -> Array:
  """Returns the number of tokens before the first `ANS` or EOS, `[P, S]`.

  Args:
    completions: `[P, S, T]`.
    lengths: `[P, S]`, which is the result for a sample without either.
  """
  is_end = (completions == rules.ANSWER) | (completions == rules.EOS)
  first_end = jnp.where(is_end.any(-1), jnp.argmax(is_end, -1), lengths)
  return jnp.minimum(first_end, lengths)


def with_answer(
  problems: Problems, completions: Array, thought_lengths: Array, truth: Array
) -> types.Tokens:
  """Returns the first tokens of each sample, followed by `ANS truth EOS`.

  Args:
    problems: P problems.
    completions: `[P, S, T]`.
    thought_lengths: `[P, S]`, number of tokens of each sample that remain.
    truth: digits of the answers, broadcast against `thought_lengths`.

  Returns:
    Tokens with completions `[P, S, T + 3]`. The mask is True on the three
    tokens `ANS truth EOS`.
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
  # [P, S, T + 3], position of each token in the answer: negative before the
  # answer, and 3 or more after it.
  position = jnp.arange(length + 3) - thought_lengths[..., None]
  mask = (position >= 0) & (position < 3)
  # Any number where the mask is False.
  answer_tokens = jnp.take_along_axis(answer, position, -1)
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
  problems: Problems,  # P problems of N operations
  slips: Array,  # [P, N] int32, added to each result; 0 leaves it right
  fillers: Array,  # [P, N] bool, True where a filler precedes the operation
  early: Array,  # [P, N] bool, True where the answer precedes the operation
  completion_length: int,  # T
) -> tuple[Array, Array]:
  """Writes solutions, `[P, T]`, with the errors that the arguments choose."""
  facts = problems.facts
  value = facts["start"]  # [P], the running value
  fill = functools.partial(jnp.full_like, value)  # token -> [P]
  answered = jnp.zeros(value.shape, bool)
  # Every token that some solution may have is first written at a fixed
  # position. A mask is True on the tokens that a solution has; these are then
  # moved to the left.
  columns, masks = [], []  # one array [P] for each possible token
  for i in range(slips.shape[-1]):
    answered = answered | early[:, i]
    operator, operand = facts["operators"][:, i], facts["operands"][:, i]
    result = (rules.apply(value, operator, operand) + slips[:, i]) % 10
    end = fill(rules.END)
    # Filler: + 0 value ;
    columns += [fill(rules.PLUS), fill(rules.DIGIT), value + rules.DIGIT, end]
    masks += [fillers[:, i] & ~answered] * 4
    # Operation: operator operand result ;
    columns += [operator + rules.PLUS, operand + rules.DIGIT]
    columns += [result + rules.DIGIT, end]
    masks += [~answered] * 4
    value = jnp.where(answered, value, result)
  # Answer: ANS value EOS
  columns += [fill(rules.ANSWER), value + rules.DIGIT, fill(rules.EOS)]
  masks += [jnp.ones_like(answered)] * 3
  tokens, mask = jnp.stack(columns, -1), jnp.stack(masks, -1)  # [P, 8 N + 3]
  # A stable sort moves the tokens in use to the left, in their order.
  order = jnp.argsort(~mask, axis=-1, stable=True)
  tokens = jnp.where(mask, tokens, rules.PAD)
  tokens = jnp.take_along_axis(tokens, order, -1)
  widths = [(0, 0), (0, completion_length - tokens.shape[-1])]
  completions = jnp.pad(tokens, widths, constant_values=rules.PAD)
  # completions [P, T], lengths [P]
  return completions.astype(jnp.int32), mask.sum(-1).astype(jnp.int32)
