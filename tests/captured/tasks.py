"""Records every task: its prompts, and what gold and empty answers score."""

from __future__ import annotations

import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from captured import code

PROBLEMS = 16
HELD_OUT_OF_FILES = 6  # that the small data of the tests hold
# Settings by the item's name; "name/variant" is a task at other settings.
TASKS: dict[str, dict[str, Any]] = {
  "countdown": {"count": 4},
  "countdown/easy": {"count": 2},
  "closeness": {"count": 3},
  "noisy": {"task": "countdown(count=3)"},
  "chain": {"operations": 3, "prm": "clean"},
  "chain/filler": {"operations": 2, "prm": "filler"},
  "chain/local": {"operations": 1, "prm": "local"},
  "chain/reference": {"operations": 2, "reference": True},
  "gsm8k": {"vocab_size": 300, "prompt_length": 64, "completion_length": 40},
  "gsm8k/steps": {
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 40,
    "steps": True,
    "max_steps": 4,
  },
  "gsm8k/chat": {"prompt_length": 200, "completion_length": 120},
  "math": {
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 80,
    "workers": 1,
  },
  "aime": {"prompt_length": 128, "completion_length": 48, "workers": 1},
  "amc": {"prompt_length": 128, "completion_length": 48, "workers": 1},
  "jsonl": {
    "vocab_size": 300,
    "prompt_length": 24,
    "completion_length": 16,
    "workers": 1,
  },
  "humaneval": {
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 16,
  },
  "instructions": {
    "vocab_size": 300,
    "prompt_length": 32,
    "completion_length": 16,
    "workers": 1,
  },
  "tools": {"vocab_size": 300, "prompt_length": 64, "completion_length": 96},
  "sql": {
    "vocab_size": 300,
    "prompt_length": 48,
    "completion_length": 24,
    "workers": 1,
  },
  "gym": {
    "problems": 40,
    "held_out": 16,
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 24,
    "workers": 1,
  },
}
# The module of the tests that writes a small dataset, and its attribute.
FILES = {
  "gsm8k": ("small_gsm8k", ""),
  "math": ("small_math", ""),
  "aime": ("small_contests", "AIME"),
  "amc": ("small_contests", "AMC"),
  "jsonl": ("small_jsonl", ""),
  "sql": ("small_sql", ""),
  "tools": ("small_tools", ""),
  "humaneval": ("small_humaneval", ""),
  "instructions": ("small_instructions", ""),
}
EVALUATED = ("aime", "amc")  # have no training problems
WITH_TOKENIZER = (*EVALUATED, "gsm8k/chat")


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  task_names = code.load("tasks").names()
  named = {name.partition("/")[0] for name in TASKS}
  rows = {**TASKS, **{name: {} for name in task_names if name not in named}}
  return {
    f"task:{name}": functools.partial(_task, name, settings)
    for name, settings in rows.items()
    if name.partition("/")[0] in task_names
  }


def write(name: str, folder: pathlib.Path) -> dict[str, str]:
  """Writes the data of a task; returns the settings that name it."""
  module, attribute = FILES[name.partition("/")[0]]
  writer = code.load(module)
  writer = getattr(writer, attribute) if attribute else writer
  data = str(writer.write(folder / "data"))
  task_name = name.partition("/")[0]
  where = code.present_setting(
    "path" if task_name == "jsonl" else "data_path",
    code.load("tasks").settings(task_name),
  )
  all_settings = {where: data, "cache": str(folder / "cache")}
  if name in WITH_TOKENIZER:
    code.load("small_chat").write(folder / "tokenizer")
    all_settings["tokenizer"] = str(folder / "tokenizer")
  return all_settings


def _task(name: str, settings: dict[str, Any]) -> dict[str, Any]:
  with tempfile.TemporaryDirectory() as folder:
    all_settings = dict(settings)
    is_read = name.partition("/")[0] in FILES
    if is_read:
      all_settings |= write(name, pathlib.Path(folder))
    elif name == "gym":
      all_settings["cache"] = folder
    is_small = is_read or name == "open_questions"
    held_out = HELD_OUT_OF_FILES if is_small else PROBLEMS
    task = code.load("tasks").get(name.partition("/")[0], **all_settings)
    results = {
      "sizes": {
        "vocabulary": task.vocab_size,
        "end": list(task.eos_ids),
        "padding": task.pad_id,
        "prompt": task.prompt_length,
        "completion": task.completion_length,
      },
      "test": _judged(task, task.test(held_out)),
    }
    if name not in EVALUATED:
      problems = task.train(jax.random.key(0), 3, PROBLEMS)
      results["train"] = _judged(task, problems)
    return results


def _judged(task: Any, problems: Any) -> dict[str, Any]:
  """Prompts, and the judgement of four completions of each.

  They are the gold answer, a demonstration, a spoilt demonstration that was cut
  off, and an answer that ends at once.
  """
  gold = [np.asarray(x) for x in task.gold(problems)]
  shown = [np.asarray(x) for x in task.demonstrate(jax.random.key(1), problems)]
  rng = np.random.default_rng(0)
  spoilt = shown[0].copy()
  hit = rng.random(spoilt.shape) < 0.2
  spoilt[hit] = rng.integers(2, task.vocab_size, hit.sum())
  empty = np.full_like(spoilt, task.pad_id)
  empty[:, 0] = task.eos_id
  completions = np.stack([gold[0], shown[0], spoilt, empty], 1)
  cut = rng.integers(0, shown[1] + 1)
  lengths = np.stack([gold[1], shown[1], cut, np.ones_like(cut)], 1)
  finished = np.array([[True, True, False, True]] * len(cut))
  judged = task.score(
    problems,
    completions.astype(np.int32),
    lengths.astype(np.int32),
    finished,
  )
  return {
    "prompts": problems.prompts,
    "prompt_mask": problems.prompt_mask,
    "ids": problems.ids,
    "gold": gold,
    "demonstrations": shown,
    "judged": judged,
    "text": [task.decode(row) for row in np.asarray(gold[0])],
  }
