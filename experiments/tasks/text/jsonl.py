"""A user's own problems, judged by a user's own function, without a new task.

A line of the file is a JSON object with a `prompt` (or `question`). Optional
keys are `answer`, the reference answer of the verifier, a number or a text;
`solution`, the completion that demonstrations show; and any other keys, whose
values the verifier can read (`least` in the example).

  {"prompt": "Capital of France?", "answer": "Paris"}
  {"prompt": "Name three primes.", "least": 100}

The verifier is named as `module:function`; Python must find the module from the
current directory. The function is a verifier: it has the interface of
`rewards.verifiers`. The decorator `each` makes a verifier from a function that
scores a single completion. Its parameters are `completion`, `thoughts` (what
precedes it, up to `</think>`), `prompt`, `answer`, or keys of the line, and it
is called with those that it has:

  # my_verifier.py
  from rewards.verifiers import each

  @each
  def large(completion, least):
    words = completion.split()
    numbers = [int(x) for x in words if x.isdecimal() and len(x) < 20]
    return float(len(numbers) == len(words) and min(numbers) >= least)

The verifier runs in worker processes with a time limit, so it may hang or
crash. A completion for which it computes for too long is wrong. A completion
for which it raises an error is unscored: it is left out of training, counted,
and the reason is logged. For a completion that it cannot read, the verifier
should return 0 instead, since leaving it out lowers no probability. A
completion without an end token, with a blank text, or whose thoughts do not end
scores 0 without a call of the verifier.

`rewards.verifiers.maths:verify` cannot read some references (no mathematics),
nor can `rewards.verifiers.numbers:verify` (no number). Then only the same text
is right, and the notes of the task say so.

By default a tenth of the problems is held out: those whose prompt has a hash
below 0.1, in [0, 1). Lines that are appended to the file therefore move no
problem from one split to the other, and equal prompts are in the same split.

Usage:
  python -m experiments.run --config experiments/configs/recipe.py:NAME \\
    --config.policy.path=FOLDER --config.task=jsonl \\
    --config.data.file=problems.jsonl --config.verifier=my_verifier:large \\
    --config.evaluation.problems=32
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath

from experiments.data import json_lines, overlap, split_files
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import Each, Item
from rewards.verifiers.pool import Pool
from rl import UsageError, registry

DEFAULT_VERIFIER = "rewards.verifiers.match:normalized"
PROMPT_KEYS = ("prompt", "question")
# Examples of each split that are judged to find out which parts a verifier has.
_NUM_PROBES = 4

# Examples, each with its location "NAME line 3" for messages.
_Located = list[tuple[str, Example]]


@text_options.with_text_options()
def jsonl(
  options: TextOptions,
  file: str = "",
  verifier: str = "",
  test_file: str = "",
  test_fraction: float = 0.1,
  parts: Sequence[str] = (),
  workers: int = 4,
  timeout: float = 10.0,
  memory: int = 2 << 30,
  start_timeout: float = 120.0,
) -> Task:
  """Builds a task of problems from a file, judged by a named function.

  The reference answer of a line is its `answer`, or else its `solution`; it is
  also the gold completion. A line needs neither if the verifier does not read a
  reference.

  Args:
    options: settings of all text tasks.
    file: file of the problems to train on. "" makes a task for evaluation
      alone.
    verifier: "module:function". "" is `rewards.verifiers.match:normalized`: a
      completion is right if its answer has the words, numbers and symbols of
      the reference, in any letter case and with any punctuation.
    test_file: file of the held-out problems. "" holds out a part of `file`.
    test_fraction: share of the prompts of `file` that is held out; unused with
      `test_file`.
    parts: names in the verifier's `Outcome.parts` that are logged as
      components. If there are any, a few references are judged when the task
      is built, to check that the verifier has these parts.
    workers: number of processes that judge completions.
    timeout: seconds to judge one completion. A completion that takes longer is
      wrong if the worker process computed for half of that time, else unscored.
    memory: bytes of address space of one process, including the modules that
      the verifier imports.
    start_timeout: seconds for a process to import the verifier.

  Raises:
    UsageError: if a file or the verifier is missing or has another form, the
      verifier lacks a part, no problem is held out, or `text_task.build`
      refuses the problems.
  """
  verifier = verifier or DEFAULT_VERIFIER
  verify = registry.load("verifier", verifier)
  splits, files, notes = _read_splits(
    file, test_file, test_fraction, needs_answer=verifier == DEFAULT_VERIFIER
  )
  for examples in splits.values():
    _check_verifier(verifier, verify, examples)
  pool = Pool(
    verify,
    workers=workers,
    timeout=timeout,
    memory=memory,
    start_timeout=start_timeout,
  )
  if parts:
    _check_parts(verifier, verify, pool, parts, splits)
  description = [
    f"{name}={epath.Path(value).name!r}"
    for name, value in (("file", file), ("test_file", test_file))
    if value
  ]
  return text_task.build(
    "jsonl",
    {
      split: [example for _, example in examples]
      for split, examples in splits.items()
    },
    options,
    pool,
    parts=parts,
    files=files,
    notes=notes,
    description=", ".join([*description, f"verifier={verifier!r}"]),
  )


# --- The verifier -------------------------------------------------------------


def _check_verifier(
  verifier: str, verify: Callable[..., Any], examples: _Located
) -> None:
  """Checks that the verifier can be called with the values of every line."""
  if not isinstance(verify, Each):
    try:
      inspect.signature(verify).bind([])
    except TypeError:
      raise UsageError(
        f"verifier {verifier!r} cannot be called with a list of items alone; "
        "allowed: verify(items), or a function of one item with the decorator "
        "@each of rewards.verifiers"
      ) from None
    except ValueError:  # a function written in C may have no signature
      pass
    return
  for location, example in examples:
    names = ["prompt", "completion", "thoughts", "row"]
    if example.answer:
      names.append("answer")
    names += example.meta
    for name in verify.required:
      if name not in names:
        problem = registry.describe_unknown("parameter", name, names)
        raise UsageError(f"verifier {verifier!r}, {location}: {problem}")


def _check_parts(
  verifier: str,
  verify: Callable[..., Any],
  pool: Pool,
  parts: Sequence[str],
  splits: Mapping[str, _Located],
) -> None:
  """Checks that the verifier has certain parts, by judging a few references."""
  if isinstance(parts, str):
    raise UsageError(
      f"parts={parts!r} must be a tuple of names, such as ({parts!r},)"
    )
  available: set[str] = set()
  # A reward that `each` made has no parts, so every name is refused.
  if not isinstance(verify, Each):
    items = []
    first_index = 0  # index of the first problem of a split, among all problems
    for split in split_files.SPLITS:
      examples = [example for _, example in splits.get(split, ())]
      for i, example in enumerate(examples[:_NUM_PROBES]):
        meta = {**example.meta, "row": first_index + i}
        # The solution is judged, or else the question.
        completion = example.solution or example.question
        items.append(Item(example.question, completion, example.answer, meta))
      first_index += len(examples)
    try:
      outcomes = pool(items)
    except RuntimeError as error:  # the worker processes do not start
      raise UsageError(f"verifier {verifier!r}: {error}") from None
    # A part is accepted if at least one outcome has it.
    available = {name for outcome in outcomes for name in outcome.parts}
    # If all verdicts are unknown, the names cannot be checked and are accepted.
    if not available and all(outcome.verdict < 0 for outcome in outcomes):
      return
  for name in parts:
    if name not in available:
      problem = registry.describe_unknown("part", name, sorted(available))
      raise UsageError(f"verifier {verifier!r}: {problem}")


# --- The file -----------------------------------------------------------------


def _read_splits(
  file: str, test_file: str, test_fraction: float, needs_answer: bool
) -> tuple[dict[str, _Located], dict[str, epath.Path], list[str]]:
  """Returns the examples of each split, the file of each split, and notes."""
  if not (file or test_file):
    raise UsageError(
      "jsonl has no file; allowed: --config.data.file=FILE, or "
      "'jsonl(file=FILE)', of lines with 'prompt' and 'answer'"
    )
  files = {
    split: epath.Path(name).expanduser()
    for split, name in (("train", file), ("test", test_file))
    if name
  }
  # `needs_answer` is whether every line must have a reference answer.
  splits = {
    split: _read_examples(file, needs_answer) for split, file in files.items()
  }
  notes = _contradictions(splits)
  if test_file:
    # `text_task.build` checks that two files share no prompt.
    return splits, files, notes
  train, test = _hold_out(splits["train"], test_fraction)
  splits = {"train": train, "test": test}
  for split, examples in splits.items():
    if not examples:
      raise UsageError(
        f"test_fraction={test_fraction} of the {len(train) + len(test)} "
        f"problems of {files['train'].name} leaves none for the {split} split; "
        "change test_fraction, or name a test_file"
      )
  return splits, dict.fromkeys(splits, files["train"]), notes


def _contradictions(splits: Mapping[str, _Located]) -> list[str]:
  """Returns a note for each split in which one prompt has several answers."""
  notes = []
  for examples in splits.values():
    first: dict[str, tuple[str, Example]] = {}
    pairs = []
    for location, example in examples:
      earlier = first.setdefault(example.question, (location, example))
      if earlier[1].answer != example.answer:
        pairs.append((earlier[0], location))
    if pairs:
      notes.append(
        f"{len(pairs)} lines have the prompt of an earlier line and another "
        f"answer, such as {pairs[0][0]} and {pairs[0][1]}; each is judged by "
        "its own answer"
      )
  return notes


def _hold_out(
  examples: _Located, test_fraction: float
) -> tuple[_Located, _Located]:
  """Divides examples into train and test by a hash of their prompts."""
  if not 0 < test_fraction < 1:
    raise UsageError(
      f"test_fraction={test_fraction} must lie between 0 and 1, both excluded; "
      "0.1 is usual"
    )
  train, test = [], []
  # Prompts that differ only in case or white space are in one split. The hash
  # of the first of them decides, so that appended lines do not move earlier
  # ones.
  hashes: dict[str, float] = {}
  for location, example in examples:
    prompt_hash = hashes.setdefault(
      overlap.normalize(example.question), _hash_to_unit(example.question)
    )
    split = test if prompt_hash < test_fraction else train
    split.append((location, example))
  return train, test


def _hash_to_unit(prompt: str) -> float:
  """Returns a hash of a prompt in [0, 1), the same in every run."""
  digest = hashlib.blake2b(prompt.encode("utf-8", "backslashreplace"))
  # 48 bits, which a float represents exactly.
  return int.from_bytes(digest.digest()[:6], "big") / 2**48


def _read_examples(file: epath.Path, needs_answer: bool) -> _Located:
  """Reads a file; with `needs_answer`, each line must have a reference."""
  json_lines.check_is_file(file)
  return [
    (location, _example(location, dict(line), needs_answer))
    for location, line in json_lines.read(file)
  ]


def _example(
  location: str, line: dict[str, Any], needs_answer: bool
) -> Example:
  """Makes an example from a line; the keys that are not read become `meta`."""
  keys = ", ".join(map(repr, line)) or "none"
  if "row" in line:
    raise UsageError(
      f"{location}: the key 'row' is reserved for the index of the problem; "
      "rename it"
    )
  prompt = next((line.pop(key) for key in PROMPT_KEYS if key in line), None)
  if not isinstance(prompt, str) or not prompt.strip():
    raise UsageError(
      f"{location} has no text under 'prompt' or 'question'; its keys: {keys}"
    )
  answer = _text_or_number(location, "answer", line.pop("answer", None))
  solution = _text_or_number(location, "solution", line.pop("solution", None))
  if needs_answer and not (answer or solution):
    raise UsageError(
      f"{location} has neither 'answer' nor 'solution', with which "
      f"{DEFAULT_VERIFIER!r} compares; name a verifier that needs none"
    )
  return Example(
    prompt.strip(),
    solution=solution or answer,
    answer=answer or solution,
    meta=line,
  )


def _text_or_number(location: str, key: str, value: Any) -> str:
  """Returns a value as text; "" if it is missing."""
  if value is None:
    return ""
  if isinstance(value, bool) or not isinstance(value, str | int | float):
    raise UsageError(
      f"{location}: {key!r} is a {type(value).__name__}; allowed: a text or a "
      "number (other keys may have values of any kind)"
    )
  if isinstance(value, str):
    return value.strip()
  return json_lines.number_text(value)
