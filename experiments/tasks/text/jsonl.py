"""Your own problems and your own reward, without touching this code.

A line of the file is a JSON object: `prompt` (or `question`), and where there is
one an `answer` that the reward compares with, a number or a text, and a
`solution` that imitation is shown. All other keys reach the reward.

  {"prompt": "Capital of France?", "answer": "Paris"}
  {"prompt": "Name three primes.", "least": 100}

The reward is `module:function`, a module that Python finds from the current
directory, with the interface of `rewards.verifiers`. Of a function of one item
`each` makes such a verifier; it is given by name what it has parameters for:

  # my_reward.py
  from rewards.verifiers import each

  @each
  def large(completion, least):
    said = completion.split()
    read = [int(n) for n in said if n.isdecimal() and len(n) < 20]
    return float(len(read) == len(said) and min(read) >= least)

It runs in worker processes with a time-out, so it may hang or crash. What it
raises over is unscored: left out of training, counted, and the reason logged. A
completion that cannot be read should score 0 instead, or garbage would never be
punished. With `rewards.verifiers.maths:verify`, where a reference cannot be read,
and with `rewards.verifiers.numbers:verify`, where it is not a number, only the
same text is right; the notes of the task say so. Completions that did not finish,
and blank ones, score 0 without asking it.

A tenth of the problems are held out: those whose prompt has a small hash, so
that appending lines moves none of them, and no prompt stands on both sides.

Usage:
  python -m experiments.run --config experiments/configs/recipe.py:NAME \\
    --config.policy.path=FOLDER --config.task=jsonl \\
    --config.data.path=problems.jsonl --config.reward=my_reward:large \\
    --config.evaluation.problems=32
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath

from experiments.data import json_lines
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from models import storage_paths
from rewards.verifiers import Each, Item
from rewards.verifiers.pool import Pool
from rl import choices

REWARD = "rewards.verifiers.match:normalized"
PROMPTS = ("prompt", "question")
_PROBES = 4  # rows of each split that are judged to learn the reward's parts


def jsonl(
  path: str = "",
  reward: str = "",
  test_path: str = "",
  test_fraction: float = 0.1,
  cache: str = "~/.cache/extremum",
  parts: Sequence[str] = (),
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 512,
  completion_length: int = 512,
  chat: bool | str = "auto",
  instruction: str = "",
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  workers: int = 4,
  timeout: float = 10.0,
  memory: int = 2 << 30,
  start_timeout: float = 120.0,
) -> Task:
  """Problems of a file, judged by a function that is named.

  The reference is the `answer`, or else the `solution`; it is also the gold
  completion. Without either the reward has to do without.

  Args:
    path: the file to train on; "" is a task for evaluation alone.
    reward: "module:function"; "" is `rewards.verifiers.match:normalized`, the
      same words whatever their case and punctuation.
    test_path: a file of what is held out; "" holds out a part of `path`.
    test_fraction: of all prompts, how many are held out; unused with
      `test_path`.
    cache: folder for the task's own tokenizer.
    parts: names in the reward's `Outcome.parts` that become components. Where
      any are named, a few references are judged when the task is made, to check
      that the reward has such parts.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, instruction, system, thinking, too_long: as of `language.Prompting`.
    workers: processes that judge completions.
    timeout: seconds that one completion may take, and is unscored beyond.
    memory: bytes of address space of one process, all that the reward imports
      included.
    start_timeout: seconds that a process may take to import it.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: a file or a reward that is not there or of another form, a part
      that the reward does not have, no problem held out, or what `math` refuses
      of the same settings.
  """
  reward = reward or REWARD
  verify = load(reward)
  splits, files = _splits(path, test_path, test_fraction, reward == REWARD)
  for found in splits.values():
    _check(reward, verify, found)
  pool = Pool(
    verify,
    workers=workers,
    timeout=timeout,
    memory=memory,
    start_timeout=start_timeout,
  )
  if parts:
    _check_parts(reward, verify, pool, parts, splits)
  folder = storage_paths.require_local(cache, "cache").expanduser() / (
    f"jsonl-{json_lines.fingerprint(files)}-{test_fraction:g}"
  )
  if not tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
  rows = {split: [row for _, row in found] for split, found in splits.items()}
  spoken = prompting.find(
    tokenizer, rows, vocab_size, folder / f"tokenizer-{vocab_size}"
  )
  names = [
    f"{key}={epath.Path(name).name!r}"
    for key, name in (("path", path), ("test_path", test_path))
    if name
  ]
  return text_task.build(
    "jsonl",
    rows,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    pool,
    shortest=str,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    settings=", ".join([*names, f"reward={reward!r}"]),
    parts=parts,
  )


def load(reward: str) -> Callable[..., Any]:
  """The function that `module:function` names.

  Raises:
    ValueError: the text is of another form, the module cannot be imported, or
      has no such function.
  """
  where, _, name = reward.partition(":")
  if not (where and name.isidentifier()):
    raise ValueError(
      f"reward {reward!r} is no 'module:function'; allowed: "
      f"'my_reward:large', say, or {REWARD!r}"
    )
  try:
    module = importlib.import_module(where)
  except (Exception, SystemExit) as error:
    missing = getattr(error, "name", None)
    if isinstance(error, ModuleNotFoundError) and f"{where}.".startswith(
      f"{missing}."
    ):
      here = sorted(file.stem for file in epath.Path().glob("*.py"))
      known = [*here, REWARD.partition(":")[0]]
      what = choices.unknown("module", where, known)
    else:
      said = " ".join(str(error).split())
      what = f"importing {where!r} raises {type(error).__name__}: {said}"
    raise ValueError(f"reward {reward!r}: {what}") from error
  if not hasattr(module, name):
    public = [
      key
      for key, value in vars(module).items()
      if callable(value) and not key.startswith("_")
    ]
    what = choices.unknown(f"function of {where}", name, public)
    raise ValueError(f"reward {reward!r}: {what}")
  found = getattr(module, name)
  if not callable(found):
    raise ValueError(
      f"reward {reward!r} is {found!r}, which cannot be called; allowed: a "
      "function"
    )
  return found


# Rows, each with the words for where it stands.
_Rows = list[tuple[str, prompting.Row]]


def _splits(
  path: str, test_path: str, test_fraction: float, answered: bool
) -> tuple[dict[str, _Rows], dict[str, epath.Path]]:
  """Train and test rows, and the file of each."""
  if not (path or test_path):
    raise ValueError(
      "jsonl has no file; allowed: --config.data.path=FILE, or "
      "'jsonl(path=FILE)', of lines with 'prompt' and 'answer'"
    )
  files = {
    split: epath.Path(name).expanduser()
    for split, name in (("train", path), ("test", test_path))
    if name
  }
  found = {split: _read(file, answered) for split, file in files.items()}
  if not path:
    return found, files
  if test_path:
    return found, files  # `text.build` checks that they share no prompt
  if not 0 < test_fraction < 1:
    raise ValueError(
      f"test_fraction={test_fraction} must lie between 0 and 1; 0.1 is usual"
    )
  split = {"train": [], "test": []}
  # Prompts that differ only in case or white space go to one side, that of the
  # first of them, so that appended lines do not move earlier ones.
  places: dict[str, float] = {}
  for where, row in found["train"]:
    place = places.setdefault(
      prompting.normalized(row.question), _place(row.question)
    )
    part = "test" if place < test_fraction else "train"
    split[part].append((where, row))
  for part, rows in split.items():
    if not rows:
      raise ValueError(
        f"test_fraction={test_fraction} of the {len(found['train'])} problems "
        f"of {files['train'].name} leaves none to {part}; change it, or name a "
        "test_path"
      )
  return split, dict.fromkeys(split, files["train"])


def _place(prompt: str) -> float:
  """A number of [0, 1) for a prompt, the same in every run."""
  digest = hashlib.blake2b(prompt.encode("utf-8", "backslashreplace"))
  return int.from_bytes(digest.digest()[:6], "big") / 2**48


def _read(file: epath.Path, answered: bool) -> _Rows:
  """The rows of a file; with `answered`, each must have a reference."""
  if file.is_dir():
    there = sorted(each.name for each in file.glob("*.jsonl*"))
    names = ", ".join(map(repr, there[:3])) or "none ends in .jsonl"
    raise ValueError(f"{str(file)!r} is a folder; name a file in it: {names}")
  if not file.is_file():
    there = sorted(each.name for each in file.parent.glob("*"))
    near = difflib.get_close_matches(file.name, there, 1)
    guess = f"; the nearest name there is {near[0]!r}" if near else ""
    raise ValueError(f"no file {str(file)!r}{guess}")
  return [
    (where, _row(where, dict(found), answered))
    for where, found in json_lines.read(file)
  ]


def _row(where: str, found: dict[str, Any], answered: bool) -> prompting.Row:
  keys = ", ".join(map(repr, found)) or "none"
  if "row" in found:
    raise ValueError(f"{where}: 'row' is the line's own number; rename the key")
  prompt = next((found.pop(key) for key in PROMPTS if key in found), None)
  if not isinstance(prompt, str) or not prompt.strip():
    raise ValueError(
      f"{where} has no text under 'prompt' or 'question'; its keys: {keys}"
    )
  answer = _text(where, "answer", found.pop("answer", None))
  solution = _text(where, "solution", found.pop("solution", None))
  if answered and not (answer or solution):
    raise ValueError(
      f"{where} has neither 'answer' nor 'solution', with which {REWARD!r} "
      "compares; name a reward that needs none"
    )
  reference = answer or solution
  return prompting.Row(prompt.strip(), solution or answer, reference, found)


def _text(where: str, key: str, value: Any) -> str:
  if value is None:
    return ""
  if isinstance(value, bool) or not isinstance(value, str | int | float):
    raise ValueError(
      f"{where}: {key!r} is a {type(value).__name__}; allowed: a text or a "
      "number, and anything under other keys"
    )
  return str(value).strip()


def _check_parts(
  reward: str,
  verify: Callable[..., Any],
  pool: Pool,
  parts: Sequence[str],
  splits: Mapping[str, _Rows],
) -> None:
  """Checks that the reward has the named parts, by judging a few references.

  A part that some outcome has is accepted. If no reference could be judged, the
  names cannot be checked and are accepted.

  Args:
    reward: name of the reward, for the message.
    verify: the reward. A function under `each` has no parts.
    pool: the reward in worker processes, as the task will call it.
    parts: names to check.
    splits: rows of which the first few are judged.

  Raises:
    ValueError: if a part is in no outcome.
  """
  if isinstance(parts, str):
    raise ValueError(
      f"parts={parts!r} must be a tuple of names; nearest: ({parts!r},)"
    )
  known: set[str] = set()
  if not isinstance(verify, Each):
    items = []
    first_row = 0
    for split in json_lines.SPLITS:
      rows = [row for _, row in splits.get(split, ())]
      for i, row in enumerate(rows[:_PROBES]):
        meta = {**row.meta, "row": first_row + i}
        completion = row.solution or row.question
        items.append(Item(row.question, completion, row.answer, meta))
      first_row += len(rows)
    try:
      outcomes = pool(items)
    except RuntimeError as error:  # the worker processes do not start
      raise ValueError(f"reward {reward!r}: {error}") from None
    judged = [outcome for outcome in outcomes if outcome.verdict >= 0]
    if not judged and not any(outcome.parts for outcome in outcomes):
      return
    known = {name for outcome in outcomes for name in outcome.parts}
  for name in parts:
    if name not in known:
      what = choices.unknown("part", name, sorted(known))
      raise ValueError(f"reward {reward!r}: {what}")


def _check(reward: str, verify: Callable[..., Any], rows: _Rows) -> None:
  """That the reward can be called with what the lines hold."""
  if not isinstance(verify, Each):
    try:
      inspect.signature(verify).bind([])
    except TypeError:
      raise ValueError(
        f"reward {reward!r} does not take a list of items alone; allowed: "
        "verify(items), or a function of one item under @each of "
        "rewards.verifiers"
      ) from None
    except ValueError:  # one without a signature, of C
      pass
    return
  for where, row in rows:
    usual = ("prompt", "completion", "row", *(("answer",) * bool(row.answer)))
    there = (*usual, *row.meta)
    for name in verify.required:
      if name not in there:
        what = choices.unknown("parameter", name, there)
        raise ValueError(f"reward {reward!r}, {where}: {what}")
