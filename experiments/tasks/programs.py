"""Programs: a short function in Python for a list of operations.

The task, scored on the host by execution, for rewards of single lines of a
program. Each statement of a completion is one line of the function, and one
step:

  prompt     plus 3 times y :
  solution   x = x + 3 ; x *= y ; return x <eos>

which is the function

  def f(x, y):
    x = x + 3
    x *= y
    return x

A completion is right if its function has the right values for a few arguments;
`rewards.tasks.programs` has the rules, and executes the functions in the
sandbox. Each operation can be written in one to three ways.

The id of a problem is a number in base 36, one digit for each operation and its
operand. Problems whose id is a multiple of 7 are held out. Difficulty grows
with `operations`.

Shapes: P problems, S samples per problem, L prompt tokens, T completion tokens,
K lines, N operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from experiments.data import padding
from experiments.tasks import numbered_problems
from experiments.tasks.task import Judged, Problems, Task, spec
from rewards.process.forest import StepChanges
from rewards.tasks import programs as rules
from rewards.verifiers import answer_id, sandbox
from rl import UsageError

Array = jax.Array

OPERATIONS = range(1, 6)
BASE = len(rules.OPERATORS) * len(rules.OPERANDS)  # 36
# Probabilities of the errors of a demonstration, per operation. At most one of
# them happens.
ERROR_RATES = {"operator": 0.05, "operand": 0.05, "missing": 0.03, "cut": 0.02}


def programs(operations: int = 4, allow_unprotected: bool = False) -> Task:
  """Builds the task of short programs.

  A demonstration chooses the way in which it writes an operation at random. At
  each operation it makes one of four errors: another operator (probability
  0.05), another operand (0.05), no line (0.03), or a line that lacks its last
  token and is no Python (0.02). T has room for one line more than a solution.
  `answer_ids` identify texts.

  Args:
    operations: N, number of operations, 1 to 5.
    allow_unprotected: whether to run programs on a machine that lacks some of
      the sandbox's protections.

  Returns:
    The task, with L = 2 N + 1, T = 6 N + 9, and K = T.

  Raises:
    UsageError: `operations` is out of range.
    RuntimeError: protections are missing and `allow_unprotected` is False.
  """
  if operations not in OPERATIONS:
    nearest = min(max(operations, OPERATIONS[0]), OPERATIONS[-1])
    raise UsageError(
      f"operations={operations} is not a length of a program; allowed: "
      f"{OPERATIONS[0]} to {OPERATIONS[-1]}, the nearest is {nearest}"
    )
  missing = () if allow_unprotected else sandbox.missing_protections()
  if missing:
    raise RuntimeError(
      f"programs needs protections that this machine lacks: "
      f"{'; '.join(missing)}. Set allow_unprotected=True where nothing can be "
      "harmed"
    )
  num_problems = BASE**operations
  completion_length = 6 * operations + 9

  def train(key: Array, step: Array, n: int) -> Problems:
    ids = numbered_problems.train_ids(key, step, n, num_problems)
    return _problems(np.asarray(ids), operations)

  def test(n: int) -> Problems:
    name = f"programs(operations={operations})"
    return _problems(
      numbered_problems.test_ids(n, num_problems, name), operations
    )

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # a program ends with EOS
    return _score(
      problems,
      np.asarray(completions),
      np.asarray(lengths),
      allow_unprotected,
    )

  def gold(problems: Problems) -> tuple[Array, Array]:
    return padding.on_right(
      [
        _join([rules.writings(*operation)[0] for operation in row])
        for row in _operations(problems)
      ],
      *(completion_length, rules.PAD),
    )

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    return padding.on_right(
      [
        _join([line for operation in row for line in _write(operation, rng)])
        for row in _operations(problems)
      ],
      *(completion_length, rules.PAD),
    )

  return Task(
    name=f"programs(operations={operations})",
    vocab_size=len(rules.WORDS),
    eos_id=rules.EOS,
    pad_id=rules.PAD,
    prompt_length=2 * operations + 1,
    completion_length=completion_length,
    train=train,
    test=test,
    score=score,
    demonstrate=demonstrate,
    decode=decode,
    gold=gold,
    judged_spec=_judged_spec,
    jittable=False,
    step_changes=change_line,
  )


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `x += 3 ; return x <eos>`, unpadded."""
  return " ".join(rules.WORDS[i] for i in np.trim_zeros(np.asarray(ids)))


def change_line(ids: Sequence[int]) -> StepChanges:
  """Returns the mutations and refactorings of a line; `;` stays at its end."""
  end = [rules.END] if list(ids[-1:]) == [rules.END] else []
  line = list(ids[: len(ids) - len(end)])
  return StepChanges(
    mutations=[[*other, *end] for other in rules.mutations(line)],
    refactorings=[[*other, *end] for other in rules.refactorings(line)],
  )


def _problems(ids: np.ndarray, operations: int) -> Problems:
  """Returns the problems with the ids `[P]`, as numpy arrays."""
  powers = BASE ** np.arange(operations - 1, -1, -1)
  digits = ids[:, None] // powers % BASE  # [P, N]
  operators, operands = np.divmod(digits, len(rules.OPERANDS))
  words = np.stack(
    [
      np.array([rules.ID[word] for word in rules.OPERATORS])[operators],
      np.array([rules.ID[word] for word in rules.OPERANDS])[operands],
    ],
    -1,
  )
  colon = np.full((len(ids), 1), rules.COLON)
  prompts = np.concatenate([words.reshape(len(ids), -1), colon], -1)
  return Problems(
    prompts=prompts.astype(np.int32),
    prompt_mask=np.ones(prompts.shape, bool),
    ids=ids.astype(np.int32),
    facts={
      "operators": operators.astype(np.int32),
      "operands": operands.astype(np.int32),
    },
  )


def _operations(problems: Problems) -> list[rules.Operations]:
  """Returns the operations of P problems."""
  facts = (
    np.asarray(problems.facts[name]).tolist()
    for name in ("operators", "operands")
  )
  return [
    tuple(
      (rules.OPERATORS[i], rules.OPERANDS[j]) for i, j in zip(*row, strict=True)
    )
    for row in zip(*facts, strict=True)
  ]


def _write(
  operation: tuple[str, str], rng: np.random.Generator
) -> list[list[int]]:
  """Returns the line of a demonstration for an operation, or no line."""
  rates = list(ERROR_RATES.values())
  kind = rng.choice([*ERROR_RATES, ""], p=[*rates, 1 - sum(rates)])
  operator, operand = operation
  if kind == "missing":
    return []
  if kind == "operator":
    operator = rng.choice([x for x in rules.OPERATORS if x != operator])
  if kind == "operand":
    operand = rng.choice([x for x in rules.OPERANDS if x != operand])
  ways = rules.writings(operator, operand)
  line = ways[rng.integers(len(ways))]
  return [line[:-1] if kind == "cut" else line]


def _join(lines: Sequence[Sequence[int]]) -> list[int]:
  """Returns the tokens of a program that ends with `return x`."""
  body = [token for line in lines for token in (*line, rules.END)]
  return [*body, rules.RETURN, rules.ID["x"], rules.EOS]


def _judged_spec(P: int, S: int, T: int) -> Judged:
  """Returns the shapes and dtypes of the result of `_score`."""
  return Judged(
    scores=spec(np.float32, P, S),
    correct=spec(np.int8, P, S),
    answer_ids=spec(np.int32, P, S),
    scored=spec(bool, P, S),
    step_ids=spec(np.int32, P, S, T),
    step_scores=spec(np.float32, P, S, T),  # K = T
    step_mask=spec(bool, P, S, T),
  )


def _score(
  problems: Problems,
  completions: np.ndarray,
  lengths: np.ndarray,
  allow_unprotected: bool,
) -> Judged:
  """Executes programs `[P, S, T]`, and each of their lines."""
  size = completions.shape[-1]
  at = np.arange(size)
  inside = at < lengths[..., None]
  separators = (completions == rules.END) | (completions == rules.EOS)
  ends = inside & (separators | (at == lengths[..., None] - 1))
  # The line of a token is the number of ends before it.
  step_ids = np.where(inside, np.cumsum(ends, -1) - ends, -1).astype(np.int32)
  step_mask = at < ends.sum(-1)[..., None]  # [P, S, K], with K = T

  # Jobs of all programs, then jobs of lines: place in the result -> job.
  programs: dict[tuple[int, ...], rules.Job] = {}
  lines: dict[tuple[int, ...], rules.Job] = {}
  answers = np.full(lengths.shape, -1, np.int32)
  for p, operations in enumerate(_operations(problems)):
    for s in range(lengths.shape[1]):
      ids = completions[p, s, : lengths[p, s]]
      is_finished = ids[-1:].tolist() == [rules.EOS]
      body = rules.body(ids[: len(ids) - is_finished])
      if is_finished and body:
        programs[p, s] = rules.Job(body, operations)
        answers[p, s] = answer_id(body)
      for k, line in enumerate(body.split("\n")[: ends[p, s].sum()]):
        job = rules.line_job(line, k, operations)
        if job is not None:
          lines[p, s, k] = job
  values = rules.verdicts(
    [*programs.values(), *lines.values()], allow_unprotected=allow_unprotected
  )
  verdicts = dict(zip([*programs, *lines], values, strict=True))
  correct = np.zeros(lengths.shape, np.int8)
  step_scores = np.where(step_mask, -1.0, 0.0).astype(np.float32)
  for place, verdict in verdicts.items():
    if place in programs:
      correct[place] = verdict
    else:
      # 0 judges nothing.
      step_scores[place] = {1: 1.0, 0: -1.0, -1: 0.0}[verdict]
  return Judged(
    scores=(correct == 1).astype(np.float32),
    correct=correct,
    answer_ids=answers,
    scored=correct >= 0,
    step_ids=step_ids,
    step_scores=step_scores,
    step_mask=step_mask,
  )
