"""Measures how often the base model obeys the rules of the two tasks.

A task is useful for RL if the base model is right sometimes. `measure` samples
held-out problems of every variant of `short_texts` (each rule alone, and mixes
of one, two or three of all rules at once) and of `numbered_lists` (each rule
alone, and all rules).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from experiments.evaluation import evaluator, policy_loader
from experiments.logging import json_files, provenance
from experiments.studies.real_model.unit import STUDY
from experiments.tasks.text import numbered_lists, short_texts
from experiments.training import build, prng_keys

FILE = STUDY.results / "variants.json"
_SAMPLES = 16


def variants() -> dict[str, tuple[str, int]]:
  """Returns the task of each variant and the number of problems to sample.

  A single rule of `short_texts` has one problem for each of the twelve held-out
  topics.
  """
  settings = {
    f"{name} alone": (f"short_texts(rules=({name!r},), rules_at_once=(1,))", 12)
    for name in short_texts.RULES
  }
  for counts in ((1,), (2,), (3,), (1, 2), (1, 2, 3)):
    name = f"{' or '.join(map(str, counts))} of all rules"
    settings[name] = (f"short_texts(rules_at_once={counts})", 48)
  for name in numbered_lists.RULES:
    settings[f"lists, {name}"] = (f"numbered_lists(rules=({name!r},))", 12)
  settings["lists, all rules"] = ("numbered_lists()", 48)
  return settings


def measure(policy: str, report: Callable[[str], None]) -> None:
  """Evaluates a model on every variant, and writes the results.

  Args:
    policy: folder of the model, or a name in `pretrained.MODELS`.
    report: function that prints a line.

  Raises:
    UsageError: the model has not been downloaded.
  """
  loaded = policy_loader.load_from_folder(policy, "short_texts", cpu_devices=1)
  rows = {}
  for name, (text, problems) in variants().items():
    task = build.make_task_from_text(text, tokenizer=loaded.name)
    start = time.perf_counter()
    evaluation = evaluator.evaluate(
      task,
      loaded.policy,
      loaded.params,
      problems=problems,
      samples=_SAMPLES,
      # One shape for all variants, which the devices divide.
      batch=12 if loaded.sharding.mesh.size == 1 else 48,
      key=prng_keys.from_seed(0),
      sharding=loaded.sharding,
    )
    estimates = evaluation.estimates
    rows[name] = {
      "task": text,
      "problems": problems,
      "pass@1": round(estimates["accuracy/pass@1"].mean, 3),
      "pass@16": round(estimates["accuracy/pass@16"].mean, 3),
      "score": round(estimates["reward/mean"].mean, 3),
      "length": round(estimates["length/mean"].mean, 1),
      "truncated": round(estimates["length/truncated_frac"].mean, 3),
    }
    seconds = time.perf_counter() - start
    report(f"{name}: {rows[name]} ({seconds:.0f} s)")
  record = {"run": provenance.describe(), "variants": rows}
  FILE.parent.mkdir(exist_ok=True)
  json_files.replace(FILE, json.dumps(record, indent=1) + "\n")
