"""Labels reasoning steps, and fits and evaluates a process reward model.

  python -m experiments.prm label --workdir DIR --policy RUN
    [--source "monte_carlo(least=2)"] [--problems N] [--samples S] ...
  python -m experiments.prm fit --workdir DIR [--loss two_class] [--steps N] ...
  python -m experiments.prm evaluate --workdir DIR [--task TASK] ...

A process reward model scores each reasoning step of a sample. RUN is the
workdir of a run whose task divides completions into steps, such as chain, or a
folder of a model with --task. `label` samples the policy, labels the steps
without people, and writes them to `DIR/labels.jsonl`. `fit` trains a copy of
the policy with a head on these lines, or on those of --data, and chooses the
threshold below which a score counts as an error on lines that it does not train
on. `evaluate` measures, on held-out problems or on the lines of --data, how
well the model finds the first error of a sample (F1, as ProcessBench), how well
it is calibrated, and the accuracy of the best of n samples by the worst, the
mean, the product and the last of their scores, beside a majority vote. `python
-m experiments.prm list` prints the label sources and the losses.

A line of labelled steps is a JSON object; people can write such files:

  {"prompt": TEXT, "steps": [TEXT, ...], "labels": [1, 0.5, null, ...]}

`experiments/prm/step_lines.py` has all keys. A command that was stopped
continues when it is started again.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import rich.table
from etils import epath
from rich.console import Console

from experiments.cli import arguments, errors, spec
from models import storage_paths
from rl import UsageError

if TYPE_CHECKING:
  from experiments.evaluation import policy_loader

METRICS_FILE = "metrics.json"


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, 1 without a readable checkpoint, or 2."""
  options = _parser().parse_args(argv)
  if options.command == "list":
    _print_names()
    return 0
  console = Console(highlight=False)
  workdir = storage_paths.parse(options.workdir)
  arguments.check_writable("--workdir", workdir / METRICS_FILE)
  commands = {"label": _label, "fit": _fit, "evaluate": _evaluate}
  commands[options.command](options, workdir, console)
  return 0


def _label(
  options: argparse.Namespace, workdir: epath.Path, console: Console
) -> None:
  """Runs `label`."""
  # Imported here, so that the command prints its first line at once.
  from experiments.logging import progress
  from experiments.prm import label

  arguments.check_counts(options, "problems", "samples", "batch")
  arguments.check_seed("--seed", options.seed)
  # All other flags are settings, by the same names.
  flags = set(vars(options)) - {"command", "workdir"}
  settings = label.Settings(**{name: getattr(options, name) for name in flags})
  label.check_settings(settings, workdir)
  print(f"loading {options.policy} ...")
  step = (label.read_record(workdir) or {}).get(label.POLICY_STEP)
  loaded = _load_policy(options.policy, options.task, step)
  with progress.bar_or_lines(console, "labels", options.problems) as update:
    record = label.run(settings, loaded, workdir, update)
  mean = record["sum"] / max(record["steps"], 1)
  unjudged = record.get("unjudged", 0)
  console.print(
    f"wrote {workdir / label.LINES_FILE}: {record['lines']} samples, "
    f"{record['steps']} labelled steps, {mean:.3f} on average; "
    f"{record['tokens']} tokens of continuations"
    + (f"; the judge left {unjudged} samples unjudged" if unjudged else ""),
    soft_wrap=True,
    markup=False,
  )


def _fit(
  options: argparse.Namespace, workdir: epath.Path, console: Console
) -> None:
  """Runs `fit`."""
  # Imported here, so that the command prints its first line at once.
  from experiments.logging import progress
  from experiments.prm import fit, step_lines

  arguments.check_counts(options, "steps", "batch", "max_steps")
  arguments.check_counts(options, "layers", minimum=0)
  arguments.check_seed("--seed", options.seed)
  fit.Settings(loss=options.loss).make_loss()  # refuses unknown names
  policy, task, step = _policy_of(options, workdir)
  file = _data_of(options, workdir)
  same = ("loss", "text", "batch", "learning_rate", "layers", "max_steps")
  settings = fit.Settings(
    policy=policy,
    task=task,
    data=str(file),
    data_digest=hashlib.sha256(file.read_bytes()).hexdigest()[:12],
    updates=options.steps,
    **{name: getattr(options, name) for name in (*same, "seed")},
  )
  fit.check_settings(settings, workdir)
  print(f"loading {policy} ...")
  loaded = _load_policy(policy, task, step)
  lines = step_lines.read(file, loaded.task, settings.max_steps)
  if lines.left_out:
    print(
      f"{file}: {lines.left_out} lines are longer than the task allows, and "
      "are left out"
    )
  with progress.Heartbeat(print) as heartbeat:
    heartbeat.start("compiling and making the first updates")

    def update(done: int) -> None:
      print(f"update {done} of {options.steps}")
      heartbeat.start("further updates", first_seconds=30.0)

    record = fit.fit(settings, loaded, lines.data, workdir, update)
  console.print(
    f"{workdir}: {record['examples']} examples, loss {record['loss']:.4f}, "
    f"threshold {record['threshold']:.3f}",
    soft_wrap=True,
    markup=False,
  )


def _evaluate(
  options: argparse.Namespace, workdir: epath.Path, console: Console
) -> None:
  """Runs `evaluate`."""
  # Imported here, so that the command prints its first line at once.
  from experiments.logging import json_files
  from experiments.prm import evaluate, fit, label, search, step_lines
  from experiments.training import reward_models

  arguments.check_counts(options, "problems", "batch")
  arguments.check_counts(options, "samples", minimum=4)
  searching = None
  if options.search and options.data:
    raise UsageError(
      "--search samples held-out problems, and --data reads lines; use one "
      "of them"
    )
  if options.search:
    name, settings = spec.parse(options.search, "--search")
    searching = name, search.get(name, **settings)
  record = reward_models.read_record(workdir)
  policy, task = (record["settings"][name] for name in ("policy", "task"))
  print(f"loading {policy} ...")
  loaded = _load_policy(policy, task, record.get(label.POLICY_STEP))
  fitted = fit.load(workdir, loaded)
  if options.data:
    lines = step_lines.read(options.data, loaded.task, fitted.max_steps)
    if lines.left_out:
      print(f"{options.data}: {lines.left_out} lines do not fit")
    estimates = evaluate.on_lines(fitted, lines.data, lines.categories)
  else:
    judged_task = loaded.task
    if options.task:
      judged_task = _make_task(options.task, policy)
    ns = [2**i for i in range(1, 12) if 2**i <= options.samples // 2]
    estimates = evaluate.on_samples(
      *(fitted, loaded, judged_task, options.problems, options.samples),
      *(options.batch, ns, options.seed, searching),
    )
  labels = label.read_record(workdir) or {}
  metrics = {
    "loss": record["settings"]["loss"],
    "source": labels.get("settings", {}).get("source", ""),
    "label_tokens": labels.get("tokens", 0),
    "threshold": fitted.threshold,
    **estimates,
  }
  json_files.replace_object(workdir / METRICS_FILE, metrics)
  console.print(_table(metrics))
  console.print(f"wrote {workdir / METRICS_FILE}", soft_wrap=True, markup=False)


def _table(metrics: dict[str, Any]) -> rich.table.Table:
  """Returns the table of the content of `metrics.json`."""
  rich_table = rich.table.Table("", "mean", "95 % interval")
  for name, value in metrics.items():
    if not isinstance(value, dict):
      text = f"{value:.4f}" if isinstance(value, float) else str(value)
      rich_table.add_row(name, text, "")
      continue
    interval = ""
    if "low" in value:
      interval = f"{float(value['low']):+.4f} .. {float(value['high']):+.4f}"
    rich_table.add_row(name, f"{float(value['mean']):.4f}", interval)
  return rich_table


def _policy_of(
  options: argparse.Namespace, workdir: epath.Path
) -> tuple[str, str, int | None]:
  """Returns the policy, its task and its step of `label`, or of the flags."""
  # Imported here, so that the command prints its first line at once.
  from experiments.prm import label
  from experiments.training import reward_models

  # With --policy, only the step comes from the record of an earlier fit.
  if options.policy:
    fitted = workdir / reward_models.RECORD_FILE
    record = reward_models.read_record(workdir) if fitted.exists() else {}
    return options.policy, options.task, record.get(label.POLICY_STEP)
  record = label.read_record(workdir)
  if record is None:
    raise UsageError(
      f"{workdir} has no labels; run python -m experiments.prm label, or name "
      "a file with --data and the policy to start from with --policy"
    )
  policy, task = (record["settings"][name] for name in ("policy", "task"))
  return policy, options.task or task, record.get(label.POLICY_STEP)


def _data_of(options: argparse.Namespace, workdir: epath.Path) -> epath.Path:
  """Returns the file of the lines to train on."""
  # Imported here, so that the command prints its first line at once.
  from experiments.data import json_lines
  from experiments.prm import label

  if options.data:
    file = epath.Path(options.data).expanduser()
    json_lines.check_is_file(file)  # raises a UsageError if it is missing
    return file
  record = label.read_record(workdir)
  if record is None or not record["is_complete"]:
    raise UsageError(
      f"the labels in {workdir} are not complete; run the command label again"
    )
  return workdir / label.LINES_FILE


def _load_policy(
  policy: str, task: str, step: int | None
) -> policy_loader.LoadedPolicy:
  """Loads a run, or the model in a folder if it has no run."""
  # Imported here, so that the command prints its first line at once.
  from experiments.evaluation import policy_loader
  from experiments.training import workdirs

  # `policy` is the workdir of a run, the folder of a model, or a name in
  # `pretrained.MODELS`.
  folder = storage_paths.parse(policy)
  if workdirs.is_run(folder):
    # Without a step, the latest checkpoint of the run is loaded.
    loaded = policy_loader.load_from_run(folder, step, {}, cpu_devices=1)
    if task:  # otherwise the task of the run is used
      loaded = dataclasses.replace(loaded, task=_make_task(task, policy))
    return loaded
  if not task:
    raise UsageError(
      f"{policy} is no workdir of a run; a folder of a model needs a --task"
    )
  # `problems` counts test problems, which are not read here.
  return policy_loader.load_from_folder(policy, task, cpu_devices=1, problems=1)


def _make_task(text: str, folder: str) -> Any:
  # Imported here, so that the command prints its first line at once.
  from experiments.training import build

  return build.make_task_from_text(text, tokenizer=folder)


def _print_names() -> None:
  """Prints the label sources and the losses."""
  # Imported here, so that the command prints its first line at once.
  from rewards.process import label_sources, step_losses

  for title, package in (
    ("label sources", label_sources),
    ("losses", step_losses),
  ):
    print(f"{title}:")
    for name in package.names():
      print(f"  {name:20} {package.summary(name)}")


def _parser() -> argparse.ArgumentParser:
  parser = arguments.make_parser("prm", __doc__)
  commands = parser.add_subparsers(dest="command", required=True)
  commands.add_parser("list", help="print the label sources and the losses")
  label = commands.add_parser("label", help="sample a policy and label steps")
  fit = commands.add_parser("fit", help="train a model on labelled steps")
  evaluate = commands.add_parser("evaluate", help="evaluate a fitted model")
  add, default = arguments.add, "default: %(default)s"
  for command in (label, fit, evaluate):
    command.add_argument(
      "--workdir", required=True, help="folder of labels, model and metrics"
    )
    add(command, "--seed", 0, "default: 0")
  for command, is_required in ((label, True), (fit, False)):
    command.add_argument(
      "--policy",
      required=is_required,
      default="",
      help="workdir of a run, folder of a model, or name of a downloaded "
      "model; for fit, default: that of label",
    )
  for command, text in (
    (label, "task with its settings; default: that of the run"),
    (fit, "task with its settings; default: that of label or of the run"),
    (evaluate, "task whose checker judges the steps; default: that of label"),
  ):
    add(command, "--task", "", text)
  source = f"label source, with its settings; {default}"
  add(label, "--source", "monte_carlo(least=2)", source)
  second = "label source of second labels, for the loss dual_head"
  add(label, "--potentials", "", second)
  add(label, "--problems", 1024, default)
  add(label, "--samples", 8, f"samples of each problem; {default}")
  batch = f"problems that are labelled at a time; {default}"
  add(label, "--batch", 64, batch)
  judge = (
    "URL of an OpenAI-compatible API, such as http://localhost:8000/v1, for "
    "the sources judge and consensus"
  )
  add(label, "--judge", "", judge)
  add(label, "--judge_model", "", "name of the model on that server")
  key = "environment variable with the API key of that server"
  add(label, "--judge_key", "", key)
  add(label, "--temperature", 1.0, default)
  add(fit, "--data", "", "JSONL file to train on; default: that of label")
  add(fit, "--loss", "two_class", f"loss, with its settings; {default}")
  text = (
    "what the model reads of completions: all, or maths, which leaves out "
    f"words, on a task such as narrated_chain; {default}"
  )
  add(fit, "--text", "all", text)
  add(fit, "--steps", 600, f"updates; {default}")
  add(fit, "--batch", 64, f"examples of an update; {default}")
  add(fit, "--learning_rate", 2e-3, default)
  layers = f"layers that are added to the policy's; {default}"
  add(fit, "--layers", 1, layers)
  steps = f"largest number of steps of a sample; {default}"
  add(fit, "--max_steps", 32, steps)
  add(evaluate, "--data", "", "JSONL file of labelled steps to evaluate on")
  add(evaluate, "--problems", 512, f"held-out problems; {default}")
  add(evaluate, "--samples", 32, f"samples of each problem; {default}")
  search = (
    "search that the model guides, with its settings, such as "
    "step_beam(width=4, candidates=20) or refine; default: none"
  )
  add(evaluate, "--search", "", search)
  batch = f"problems that are sampled at a time; {default}"
  add(evaluate, "--batch", 64, batch)
  return parser


if __name__ == "__main__":
  sys.exit(main())
