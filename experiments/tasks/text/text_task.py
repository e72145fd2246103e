"""What tasks in natural language share: rows of text and a tokenizer -> a task.

A row is a question, a worked solution and the reference answer. The question
becomes a prompt (`experiments.tasks.text.prompting`), and a verifier of `rewards.verifiers` compares the end of the completion with the
reference, on the host. The id of a problem is its row of the train split, or
2^30 and its row of the test split, whether the train split is there or not.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from experiments.data import json_lines
from experiments.tasks.task import Judged, Problems, Task
from experiments.tasks.text import prompting
from experiments.tasks.text.prompting import check_disjoint
from models import tokenizer as tokenizers
from rewards.process import segmentation
from rewards.verifiers import Item, Outcome, equations
from rl import types

Array = np.ndarray
Tokenizer = tokenizers.Tokenizer
Verify = Callable[[Sequence[Item]], list[Outcome]]

TIMEOUT = "timeout"  # the part of an outcome that time ran out for
_TEST = 2**30  # the test split's first id


def build(
  name: str,
  splits: Mapping[str, Sequence[prompting.Row]],
  spoken: prompting.Language,
  prompting: prompting.Prompting,
  verify: Verify,
  shortest: Callable[[str], str],
  *,
  prompt_length: int,
  completion_length: int,
  files: Mapping[str, os.PathLike] = MappingProxyType({}),
  settings: str = "",
  parts: Sequence[str] = (),
  mark: str = "",
  steps: bool = False,
  max_steps: int = 16,
) -> Task:
  """A task over rows of text.

  Train problems whose solution has more than T tokens are left out, and what is
  done with prompts of more than L is `prompting`'s to say (`notes` counts). The
  test set is a fixed permutation of the test split less what was left out, and
  `test(n)` its first n. A completion that did not finish has no answer, for it
  may be cut in a number; it is wrong, as is an empty one, and the verifier is
  not asked. In a conversation, the token with which the template ends the
  assistant's turn is a stop too. `extras["timeout"]` is the part "timeout" of
  the outcomes, 1 where the verifier or a program that it ran took too long.

  With `steps`, lines are the steps of reasoning: each is scored 1 if all its
  equations are true, -1 if one is false, 0 if there is none, and the last line,
  which holds the answer, 1 or -1 by the verdict (0 of an unknown one).
  `rewards.verifiers.equations` reads the equations and says what this cannot
  see: a line such as `1 + 1 = 2` is true and useless, and scores 1. Lines of
  thoughts, before `</think>`, are steps like the others.

  Args:
    name: of the task, for messages.
    splits: `{"train": rows, "test": rows}`; without train it is a task for
      evaluation alone.
    spoken: tokenizer.
    prompting: from question to prompt.
    verify: of `rewards.verifiers`. Its attribute `note`, where there is one,
      is added to the task's notes.
    shortest: `(reference) -> completion` that answers and says nothing else.
    prompt_length: L.
    completion_length: T.
    files: file of each split, which the error about shared prompts names.
    settings: what else the task's name tells, "solution=plain".
    parts: of the verifier's `Outcome.parts`, those that become components; one
      that an outcome lacks is 0.
    mark: what an answer begins with, in a completion; where given, the task has
      the views "reference", `shortest(reference)` and the end after what stands
      before the last mark, both written in tokens anew, and "bare_reference",
      the same after the prompt alone.
    steps: whether to score steps.
    max_steps: K; what follows the K-th line belongs to it.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: a length or `max_steps` is not positive, no problem fits,
      prompts are too long and that is refused, or a test prompt is also in the
      train split (`language.check_disjoint`).
  """
  check_disjoint(name, splits, files)
  for what, length in (
    ("prompt_length", prompt_length),
    ("completion_length", completion_length),
    ("max_steps", max_steps),
  ):
    if length < 1:
      raise ValueError(f"{what}={length} must be at least 1; nearest: 1")
  tokenizer, stops = spoken.tokenizer, spoken.stop_ids
  chat = prompting.is_chat(tokenizer)
  end = tokenizers.turn_end_id(tokenizer, stops) if chat else None
  if end is not None:
    stops = tuple(dict.fromkeys((*stops, end)))
  eos = _end(tokenizer, stops) if end is None else end
  pad = tokenizer.pad_token_id
  pad = eos if pad is None else pad
  rows = [row for split in json_lines.SPLITS for row in splits.get(split, ())]
  prompts = prompting.encode(tokenizer, [row.question for row in rows])
  texts = [row.solution for row in rows]
  solutions = [[*ids, eos] for ids in tokenizers.encode(tokenizer, texts)]
  size = max(
    tokenizers.required_vocab_size(tokenizer, stops),
    1 + max(max(ids, default=0) for ids in (*prompts, *solutions)),
  )
  fits = np.array([len(ids) <= completion_length for ids in solutions])
  of_train = np.arange(len(splits.get("train", ())))
  of_test = np.arange(len(of_train), len(rows))
  identities = np.concatenate(
    [of_train, _TEST + np.arange(len(of_test))]
  ).astype(np.int32)
  kept, notes = {}, []
  for split, of_split, usable in (
    ("train", of_train, fits),
    ("test", of_test, np.ones_like(fits)),
  ):
    if len(of_split):
      what = f"{name} {split}"
      kept[split], note = _kept(
        what, of_split, prompts, usable, prompt_length, prompting.too_long
      )
      notes.append(note)
  if getattr(verify, "note", ""):  # what users must know of its verdicts
    notes.append(f"{name}: {verify.note}")
  order = np.random.default_rng(0).permutation(of_test)
  test_rows = order[np.isin(order, kept["test"])]
  separators = tokenizers.ids_containing(tokenizer, "\n") if steps else ()
  references: list[list[int]] = []
  if mark:
    found = tokenizers.encode(tokenizer, [shortest(row.answer) for row in rows])
    references = [[*ids, eos] for ids in found]
  widest = max(map(len, references), default=0)

  def problems(chosen: Array) -> Problems:
    tokens = np.full((len(chosen), prompt_length), pad, np.int32)
    mask = np.zeros(tokens.shape, bool)
    for i, row in enumerate(chosen):
      ids = _cut(prompts[row], prompt_length, tokenizer.bos_token_id)
      start = prompt_length - len(ids)
      tokens[i, start:], mask[i, start:] = ids, True
    chosen = np.asarray(chosen, np.int32)
    return Problems(tokens, mask, ids=identities[chosen], facts={"row": chosen})

  def train(key: Any, step: Any, n: int) -> Problems:
    if "train" not in kept:
      raise ValueError(
        f"{name} has no train problems here, only {len(test_rows)} to evaluate "
        "on; training needs a train file too"
      )
    places = int(step) * n + np.arange(n)
    return problems(_shuffled(kept["train"], key, places))

  def test(n: int) -> Problems:
    if n > len(test_rows):
      raise ValueError(
        f"n={n} test problems, but {name} has {len(test_rows)}; ask for 1 to "
        f"{len(test_rows)}"
      )
    return problems(test_rows[:n])

  def decode(ids: Any) -> str:
    ids = np.asarray(ids)
    real = np.flatnonzero(ids != pad)
    inside = ids[real[0] : real[-1] + 1] if len(real) else ids[:0]
    return tokenizer.decode(inside.tolist(), clean_up_tokenization_spaces=False)

  def score(
    problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    completions, lengths = np.asarray(completions), np.asarray(lengths)
    shape = lengths.shape
    ended = np.asarray(finished).reshape(-1)
    said = [
      ids[:length]
      for ids, length in zip(
        completions.reshape(lengths.size, -1), lengths.reshape(-1), strict=True
      )
    ]
    # A stop need not be special to the tokenizer, and would then be text.
    said = [i[:-1] if len(i) and i[-1] in stops else i for i in said]
    texts = tokenizers.decode(tokenizer, said, size)
    chosen = np.repeat(np.asarray(problems.facts["row"]), shape[1])
    items = [
      Item(
        rows[row].question,
        text,
        rows[row].answer,
        {**rows[row].meta, "row": int(row)},
      )
      for row, text in zip(chosen, texts, strict=True)
    ]
    asked = [
      i for i, item in enumerate(items) if ended[i] and item.completion.strip()
    ]
    outcomes = [Outcome(0.0, 0, "", -1)] * len(items)
    # Shapes are found with empty completions: a pool does not start for them.
    found = verify([items[i] for i in asked]) if asked else []
    for i, outcome in zip(asked, found, strict=True):
      outcomes[i] = outcome
    scores = np.array([o.score for o in outcomes], np.float32).reshape(shape)
    verdicts = np.array([o.verdict for o in outcomes], np.int8).reshape(shape)
    ids = np.array([o.answer_id for o in outcomes], np.int32).reshape(shape)
    named = {
      name: np.array(
        [o.parts.get(name, 0.0) for o in outcomes], np.float32
      ).reshape(shape)
      for name in (*parts, TIMEOUT)
    }
    views = {}
    if mark:
      thoughts = [
        text.rpartition(mark)[0] if mark in text else text for text in texts
      ]
      views["reference"] = referred(problems, thoughts, completion_length)
      nothing = [""] * len(problems.ids)
      views["bare_reference"] = referred(problems, nothing, 0)
    by_step = {}
    if steps:
      texts_of = functools.partial(
        tokenizers.decode, tokenizer, vocab_size=size
      )
      by_step = _steps(
        texts_of, completions, lengths, verdicts, separators, max_steps
      )
    return Judged(
      scores,
      verdicts,
      ids,
      scored=verdicts >= 0,
      components={
        "answered": (ids >= 0).astype(np.float32),
        **{name: named[name] for name in parts},
      },
      extras={TIMEOUT: named[TIMEOUT]},
      views=views,
      **by_step,
    )

  def referred(
    problems: Problems, thoughts: Sequence[str], room: int
  ) -> types.Tokens:
    """The reference after each thought of `room` tokens; it is the mask."""
    before = tokenizers.encode(tokenizer, thoughts)
    samples = len(thoughts) // len(problems.ids)
    chosen = np.repeat(np.asarray(problems.facts["row"]), samples)
    shape = len(chosen), room + widest
    tokens = np.full(shape, pad, np.int32)
    lengths = np.zeros(shape[:1], np.int32)
    mask = np.zeros(shape, bool)
    for i, (row, ids) in enumerate(zip(chosen, before, strict=True)):
      ids = ids[:room]
      whole = [*ids, *references[row]]
      tokens[i, : len(whole)], lengths[i] = whole, len(whole)
      mask[i, len(ids) : len(whole)] = True
    grid = len(problems.ids), samples
    return types.Tokens(
      problems.prompts,
      problems.prompt_mask,
      tokens.reshape(*grid, -1),
      lengths.reshape(grid),
      mask.reshape(*grid, -1),
    )

  def write(table: Sequence[list[int]]) -> tuple[Array, Array]:
    lengths = np.array([len(ids) for ids in table], np.int32)
    if lengths.max(initial=0) > completion_length:
      raise ValueError(
        f"completion_length={completion_length} cuts a solution of "
        f"{lengths.max()} tokens; allowed: {lengths.max()} or more"
      )
    tokens = np.full((len(table), completion_length), pad, np.int32)
    for i, ids in enumerate(table):
      tokens[i, : lengths[i]] = ids
    return tokens, lengths

  def demonstrate(key: Any, problems: Problems) -> tuple[Array, Array]:
    del key  # there is one solution a problem
    return write([solutions[row] for row in problems.facts["row"]])

  def gold(problems: Problems) -> tuple[Array, Array]:
    answers = [shortest(rows[row].answer) for row in problems.facts["row"]]
    found = tokenizers.encode(tokenizer, answers)
    return write([[*ids, eos] for ids in found])

  told = [settings, f"vocab_size={size}", "chat=True" if chat else ""]
  return Task(
    name=f"{name}({', '.join(filter(None, told))})",
    vocab_size=size,
    eos_id=eos,
    stop_ids=tuple(i for i in stops if i != eos),
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
    notes=tuple(notes),
    encode=lambda question: prompting.encode(tokenizer, [question])[0],
  )


def _end(tokenizer: Tokenizer, stops: Sequence[int]) -> int:
  """The stop with which a demonstration ends: the tokenizer's own, if it is."""
  own = tokenizer.eos_token_id
  return own if own in stops else stops[0]


def _cut(ids: list[int], room: int, bos: int | None) -> list[int]:
  """The end of a prompt, and its BOS."""
  if len(ids) <= room:
    return ids
  first = ids[:1] if ids[0] == bos else []
  return first + ids[len(ids) - room + len(first) :]


def _kept(
  what: str,
  rows: Array,
  prompts: Sequence[list[int]],
  usable: Array,
  room: int,
  too_long: str,
) -> tuple[Array, str]:
  """The rows that stay, and a line that counts the others."""
  lengths = np.array([len(prompts[row]) for row in rows])
  beyond = lengths > room
  if too_long == "refuse" and beyond.any():
    raise ValueError(
      f"{beyond.sum()} prompts of {what} are longer than prompt_length={room}; "
      f"the longest has {lengths.max()} tokens: allow as many, or say "
      "too_long='drop' or 'cut'"
    )
  stays = usable[rows]
  if too_long == "drop":
    stays = stays & ~beyond
  kept = rows[stays]
  if not len(kept):
    raise ValueError(
      f"no {' problem of '.join(reversed(what.split()))} fits; allow a longer "
      "prompt_length or completion_length"
    )
  left_out = len(rows) - len(kept)
  note = f"{what}: {len(kept)} problems, {left_out} too long and left out"
  cut = int((beyond & stays).sum())
  return kept, note + (f", {cut} prompts cut to {room} tokens" if cut else "")


def _steps(
  texts_of: Callable[[Sequence[Array]], list[str]],
  completions: Array,
  lengths: Array,
  verdicts: Array,
  separators: tuple[int, ...],
  max_steps: int,
) -> dict[str, Array]:
  """`step_ids`, `step_scores` and `step_mask` of `[P, S, T]` completions."""
  # The shapes of a rollout are found by calling this under a trace.
  with jax.ensure_compile_time_eval():
    ids = segmentation.segment_steps(
      completions, lengths, separators, max_steps
    )
    mask = np.asarray(segmentation.step_mask(ids, max_steps))
    ids = np.asarray(ids)
  places = np.argwhere(mask)
  texts = texts_of([completions[p, s][ids[p, s] == k] for p, s, k in places])
  scores = np.zeros(mask.shape, np.float32)
  scores[mask] = [equations.score(text) for text in texts]
  p, s = np.nonzero(mask.any(-1))
  verdicts = verdicts.astype(np.int32)[p, s]
  scores[p, s, ids.max(-1)[p, s]] = np.where(verdicts < 0, 0, 2 * verdicts - 1)
  return {"step_ids": ids, "step_scores": scores, "step_mask": mask}


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
