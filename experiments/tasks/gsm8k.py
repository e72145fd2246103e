"""GSM8K: grade-school word problems, answered in text, scored on the host.

The prompt is the question and a line break, the completion a solution that ends
in `#### 18` and EOS. `rewards.verifiers.numbers` compares the answer with the
dataset's. Problem r is line r of the train file, and the test file follows it.

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import data
from experiments.tasks.task import Judged, Problems, Task
from models import tokenizer as bpe
from rewards.verifiers import Item, numbers
from rl import choices

Array = np.ndarray
_CALCULATION = re.compile(r"<<(.*?)>>")


def equations(answer: str) -> str:
  """The calculations alone, one a line: `48/2=24`, `48+24=72`, `#### 72`."""
  body, mark, final = answer.rpartition(numbers.MARK)
  lines = [line.strip() for line in _CALCULATION.findall(body)]
  return "\n".join([*lines, mark + final])


def plain(answer: str) -> str:
  """The prose without its calculator annotations."""
  return _CALCULATION.sub("", answer)


def annotated(answer: str) -> str:
  """The answer as the dataset has it."""
  return answer


SOLUTIONS: dict[str, Callable[[str], str]] = {
  "equations": equations,
  "plain": plain,
  "annotated": annotated,
}


def gsm8k(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  solution: str = "equations",
  vocab_size: int = 2048,
  prompt_length: int = 256,
  completion_length: int = 128,
) -> Task:
  """GSM8K from local jsonl files, with a tokenizer of its own.

  Solutions are by default the dataset's calculator annotations without the
  prose around them. The prose is not what is checked, it is three quarters of
  the tokens, and a policy of a few million parameters spends its capacity on
  it; the equations keep the reasoning and are as exact to check (small models
  were trained so on GSM8K by Deng et al. 2023, "Implicit Chain of Thought
  Reasoning via Knowledge Distillation"). The 1 % of answers without annotations
  become the bare `#### 18`.

  Nothing is ever cut: train problems whose question or solution is too long
  are left out, test problems only when the question is (`notes` counts). The
  test set is a fixed permutation of the test file, and `test(n)` its first n.
  `answer_ids` are the numbers answered: equal numbers vote together. A
  completion that did not finish has no answer, for its number may be cut.

  Args:
    data_path: folder of `gsm8k_train.jsonl` and `gsm8k_test.jsonl`; None reads
      `$EXTREMUM_DATA`.
    cache: folder for prepared data and the tokenizer, made once per content.
    solution: what the policy writes: "equations", "plain" or "annotated".
    vocab_size: largest number of tokens of the BPE.
    prompt_length: L; 256 holds every test question at `vocab_size` 2048.
    completion_length: T; 128 holds every test solution as equations, 512 every
      one as prose.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, an unknown solution, a vocabulary without room for
      the bytes, or lengths that no problem fits.
  """
  if solution not in SOLUTIONS:
    raise ValueError(choices.unknown("solution", solution, SOLUTIONS))
  files = data.find("gsm8k", data_path)
  folder = Path(cache).expanduser() / f"gsm8k-{data.fingerprint(files)}"
  splits = data.read(files, folder)
  render = SOLUTIONS[solution]
  pairs = [
    (f"{question.strip()}\n", render(answer.strip()))
    for split in data.SPLITS
    for question, answer in splits[split]
  ]
  answers = [numbers.final_answer(text) for _, text in pairs]
  train_rows = np.arange(len(splits["train"]))
  test_rows = np.arange(len(splits["train"]), len(pairs))
  tokenizer = _tokenizer(
    folder / f"tokenizer-{solution}-{vocab_size}",
    [text for row in train_rows for text in pairs[row]],
    vocab_size,
  )
  pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id

  def encode(texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]

  prompts = encode([question for question, _ in pairs])
  solutions = [[*ids, eos] for ids in encode([text for _, text in pairs])]
  shortest = [
    [*ids, eos] for ids in encode([f"{numbers.MARK} {a}" for a in answers])
  ]
  asks = np.array([len(ids) <= prompt_length for ids in prompts])
  fits = np.array([len(ids) <= completion_length for ids in solutions])
  train_rows, train_note = _keep("train", train_rows, asks & fits)
  test_rows, test_note = _keep("test", test_rows, asks)
  test_rows = np.random.default_rng(0).permutation(test_rows)

  def problems(rows: Array) -> Problems:
    tokens = np.full((len(rows), prompt_length), pad, np.int32)
    mask = np.zeros(tokens.shape, bool)
    for i, row in enumerate(rows):
      start = prompt_length - len(prompts[row])
      tokens[i, start:], mask[i, start:] = prompts[row], True
    rows = np.asarray(rows, np.int32)
    return Problems(tokens, mask, ids=rows, facts={"row": rows})

  def train(key: Any, step: Any, n: int) -> Problems:
    places = int(step) * n + np.arange(n)
    return problems(_shuffled(train_rows, key, places))

  def test(n: int) -> Problems:
    if n > len(test_rows):
      raise ValueError(
        f"n={n} test problems, but gsm8k has {len(test_rows)}; ask for 1 to "
        f"{len(test_rows)}"
      )
    return problems(test_rows[:n])

  def decode(ids: Any) -> str:
    return tokenizer.decode(np.trim_zeros(np.asarray(ids)).tolist())  # PAD is 0

  def score(
    problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    lengths, finished = np.asarray(lengths), np.asarray(finished)
    shape = lengths.shape
    texts = tokenizer.batch_decode(
      [
        row[:length].tolist()
        for row, length in zip(
          np.asarray(completions).reshape(lengths.size, -1),
          lengths.reshape(-1),
          strict=True,
        )
      ],
      skip_special_tokens=True,
    )
    rows = np.repeat(np.asarray(problems.facts["row"]), shape[1])
    items = [
      Item(pairs[row][0], text if ended else "", answers[row], {"row": row})
      for row, text, ended in zip(
        rows, texts, finished.reshape(-1), strict=True
      )
    ]
    outcomes = numbers.verify(items)
    scores = np.array([o.score for o in outcomes], np.float32).reshape(shape)
    verdicts = np.array([o.verdict for o in outcomes], np.int8).reshape(shape)
    ids = np.array([o.answer_id for o in outcomes], np.int32).reshape(shape)
    answered = (ids >= 0).astype(np.float32)
    return Judged(
      scores,
      verdicts,
      ids,
      scored=verdicts >= 0,
      components={"answered": answered},
    )

  def write(table: list[list[int]], rows: Array) -> tuple[Array, Array]:
    lengths = np.array([len(table[row]) for row in rows], np.int32)
    if lengths.max(initial=0) > completion_length:
      raise ValueError(
        f"completion_length={completion_length} cuts a solution of "
        f"{lengths.max()} tokens; allowed: {lengths.max()} or more"
      )
    tokens = np.full((len(rows), completion_length), pad, np.int32)
    for i, row in enumerate(rows):
      tokens[i, : lengths[i]] = table[row]
    return tokens, lengths

  def demonstrate(key: Any, problems: Problems) -> tuple[Array, Array]:
    del key  # the dataset has one solution a problem
    return write(solutions, problems.facts["row"])

  def gold(problems: Problems) -> tuple[Array, Array]:
    return write(shortest, problems.facts["row"])

  return Task(
    name=f"gsm8k(solution={solution}, vocab_size={len(tokenizer)})",
    vocab_size=len(tokenizer),
    eos_id=eos,
    pad_id=pad,
    prompt_length=prompt_length,
    completion_length=completion_length,
    train=train,
    test=test,
    score=score,
    demonstrate=demonstrate,
    decode=decode,
    gold=gold,
    jittable=False,
    notes=(train_note, test_note),
  )


def _keep(split: str, rows: Array, fits: Array) -> tuple[Array, str]:
  """The rows that fit, and a line that counts the others."""
  kept = rows[fits[rows]]
  if not len(kept):
    raise ValueError(
      f"no {split} problem of gsm8k fits; allow a longer prompt_length or "
      "completion_length"
    )
  left_out = len(rows) - len(kept)
  return kept, (
    f"gsm8k {split}: {len(kept)} problems, {left_out} too long and left out"
  )


def _shuffled(rows: Array, key: Any, places: Array) -> Array:
  """Entries `places` of an endless series of permutations of `rows`.

  Every epoch holds each row once, and any place is found without the ones
  before it.
  """
  seed = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
  picked = np.empty(len(places), rows.dtype)
  epochs, within = np.divmod(places, len(rows))
  for epoch in np.unique(epochs):
    order = np.random.default_rng([*seed, int(epoch)]).permutation(rows)
    picked[epochs == epoch] = order[within[epochs == epoch]]
  return picked


def _tokenizer(
  folder: Path, texts: Sequence[str], vocab_size: int
) -> bpe.Tokenizer:
  """Reads the tokenizer of the cache, after training it if it is not there."""
  if not folder.is_dir():
    trained = bpe.train(texts, vocab_size)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
      whole = Path(scratch) / "tokenizer"
      bpe.save(trained, whole)
      try:  # a rename is atomic: no other process ever reads half a folder
        os.rename(whole, folder)
      except OSError:
        if not folder.is_dir():  # else another process was first
          raise
  return bpe.load(folder)
