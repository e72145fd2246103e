"""Labels the reasoning steps of a policy's samples, and writes them as lines.

Problems are labelled in batches. After each batch its lines are added to
`labels.jsonl`, and `label.json` records how many bytes of the file are
complete, so that a command that was stopped continues with the next batch.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import jax
import numpy as np
from etils import epath

from experiments.cli import spec
from experiments.evaluation import policy_loader, training_lines
from experiments.logging import json_files, progress
from experiments.prm import policy_forest, step_lines
from experiments.training import prng_keys
from rewards.process import label_sources
from rewards.verifiers import llm_judge, step_judge
from rl import UsageError

LINES_FILE = "labels.jsonl"
RECORD_FILE = "label.json"
# Key of the records of `label` and `fit`: the training step of the checkpoint
# of the policy. A run may save further ones.
POLICY_STEP = "policy_step"


@dataclasses.dataclass(frozen=True)
class Settings:
  """Settings of `label`.

  Attributes:
    policy: workdir of a run, or folder of a model.
    task: task with its settings; "" takes that of the run.
    source: label source with its settings, such as "monte_carlo(least=2)".
    potentials: label source of the second labels; "" makes none.
    problems: number of problems.
    samples: samples of each problem.
    batch: problems that are labelled at a time.
    temperature: sampling temperature.
    seed: seed of the problems and of all samples.
    judge: URL of an OpenAI-compatible API, for sources that ask a judge; ""
      without a judge.
    judge_model: name of the model on this server.
    judge_key: environment variable with the API key; "" sends no key.
  """

  policy: str
  task: str
  source: str
  potentials: str
  problems: int
  samples: int
  batch: int
  temperature: float
  seed: int
  judge: str = ""
  judge_model: str = ""
  judge_key: str = ""

  def make_judge(self) -> policy_forest.Judge | None:
    """Returns the judge; None without one."""
    if not self.judge:
      return None
    endpoint = llm_judge.Endpoint(self.judge, self.judge_model, self.judge_key)
    return functools.partial(step_judge.first_errors, complete=endpoint)

  def make_sources(self) -> list[label_sources.Source]:
    """Returns the label source, and that of the potentials if there is one."""
    sources = []
    for text in filter(None, (self.source, self.potentials)):
      name, settings = spec.parse(text, "--source")
      sources.append(label_sources.get(name, **settings))
    return sources


def read_record(workdir: epath.Path) -> dict[str, Any] | None:
  """Returns the content of `label.json`; None if there is none."""
  path = workdir / RECORD_FILE
  return json.loads(path.read_text()) if path.exists() else None


def check_settings(settings: Settings, workdir: epath.Path) -> None:
  """Refuses settings that cannot be used, and a workdir with other ones."""
  asks = any(map(label_sources.reads_judge, settings.make_sources()))
  if asks != bool(settings.make_judge()):
    raise UsageError(
      f"--source {settings.source} asks a judge; name the URL of an "
      "OpenAI-compatible API with --judge and its model with --judge_model"
      if asks
      else f"--source {settings.source} asks no judge; leave --judge out"
    )
  if asks and not settings.judge_model:
    raise UsageError("--judge needs the name of its model, --judge_model")
  record = read_record(workdir)
  if record is None:
    return
  changed = [
    f"{name} = {record['settings'].get(name)!r} (now {value!r})"
    for name, value in dataclasses.asdict(settings).items()
    if record["settings"].get(name, value) != value
  ]
  if changed:
    raise UsageError(
      f"{workdir} has labels that were made with {', '.join(changed[:3])}; use "
      "another --workdir"
    )


def run(
  settings: Settings,
  loaded: policy_loader.LoadedPolicy,
  workdir: epath.Path,
  update: progress.Update,
) -> dict[str, Any]:
  """Labels all problems, or those that are left.

  Args:
    settings: the settings.
    loaded: the policy and its task.
    workdir: folder of the two files; created if missing.
    update: function called after each batch with the number of finished
      problems.

  Returns:
    The content of `label.json`: "settings", "policy_step", whether it
    "is_complete", the number of "problems" that are finished, "lines", "bytes"
    of the lines, "tokens" that continuations have sampled, number of samples
    that the judge left "unjudged", "steps" with a label, and the "sum" of the
    labels.

  Raises:
    UsageError: the task does not divide completions into steps.
  """
  task = loaded.task
  key = prng_keys.from_seed(settings.seed)
  problems = training_lines.distinct_problems(task, key, settings.problems)
  sampling = task.sampling(settings.samples, temperature=settings.temperature)
  sources = settings.make_sources()
  counts = ("problems", "lines", "bytes", "tokens", "unjudged", "steps")
  record = read_record(workdir) or {
    "settings": dataclasses.asdict(settings),
    POLICY_STEP: loaded.step,
    "is_complete": False,
    **dict.fromkeys(counts, 0),
    "sum": 0.0,
  }
  workdir.mkdir(parents=True, exist_ok=True)
  path = workdir / LINES_FILE
  content = path.read_bytes()[: record["bytes"]] if path.exists() else b""
  if len(content) < record["bytes"]:
    raise UsageError(
      f"{path} has lost lines; remove {workdir / RECORD_FILE} to label anew"
    )
  count = len(problems.ids)
  while record["problems"] < count:
    start = record["problems"]
    # Copies of the last problem fill up the shape of the compiled program.
    rows = np.minimum(np.arange(start, start + settings.batch), count - 1)
    forest = policy_forest.PolicyForest(
      *(task, loaded.policy, loaded.params),
      jax.tree.map(lambda x, rows=rows: x[rows], problems),
      *(key, sampling),
      judge=settings.make_judge(),
      num_problems=min(settings.batch, count - start),
    )
    labels = [source(forest) for source in sources]
    lines = list(
      step_lines.make_lines(task, forest.problems, forest.samples, *labels)
    )
    content += "".join(map(json_files.dump, lines)).encode()
    json_files.replace(path, content)
    values = [
      label
      for line in lines
      for label in line[step_lines.LABELS]
      if label is not None
    ]
    record |= {
      "problems": min(start + settings.batch, count),
      "is_complete": start + settings.batch >= count,
      "lines": record["lines"] + len(lines),
      "bytes": len(content),
      "tokens": record["tokens"] + forest.tokens,
      "unjudged": record.get("unjudged", 0) + forest.unjudged,
      "steps": record["steps"] + len(values),
      "sum": record["sum"] + sum(values),
    }
    json_files.replace_object(workdir / RECORD_FILE, record)
    update(record["problems"])
  return record
