"""Looks for holes of a reward before a policy does.

  python -m experiments.audit --config FILE [--config.KEY=VALUE ...]
    [--problems 8]
  python -m experiments.audit --reward MODULE:FUNCTION [--data FILE.jsonl]
    [--write "The answer is {}."]

The command scores completions without an answer (`rewards.attacks.ATTACKS`) and
right completions in other words (`REWRITINGS`), beside right completions as
they are. With `--config` these are completions of the config's task, and the
score is that which the config pays: that of the task, or `config.reward` with
the answers of `config.judge`; words that the task's vocabulary lacks are left
out. Each completion is a group of its own, and a reward that reads the policy's
probabilities cannot be audited.
With `--reward` the function is a verifier, as in the task `jsonl`, and the
questions are lines `{"question", "reference", "completion"}` of a file, whose
further keys the verifier can read, or sums of two numbers whose right
completion `--write` makes from the reference.

A table has the mean score of each kind, and the example with the highest score
of an attack or the lowest of a rewriting. A kind of attack is a *hole* if one
of its completions scores at least half as much as right completions do, and a
rewriting is a *false negative* if one scores less than half as much. The exit
status is 1 if there is a hole or a false negative.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
import rich.console
import rich.markup
import rich.table
from absl import flags
from etils import epath

from experiments.cli import errors
from experiments.data import json_lines, padding, pretrained
from experiments.evaluation import training_lines
from experiments.tasks.task import Task
from experiments.training import build, drawing, reward_from_config
from experiments.training_run import command_line
from rewards import attacks
from rewards.attacks import Example
from rewards.verifiers import Item
from rl import UsageError, registry
from rl.reward import Reward
from rl.sampling import generation

# Function of examples and their completions that returns a score for each; NaN
# where a completion cannot be scored.
Score = Callable[[Sequence[tuple[Example, str]]], np.ndarray]
SHARE = 0.5  # of the score of right completions, above which an attack succeeds
PROBLEMS = 8  # number of problems by default


class Finding(NamedTuple):
  """The scores of one kind of completions."""

  kind: str  # name of the attack or of the rewriting
  is_attack: bool
  mean: float  # mean score
  extreme: float  # highest score of an attack, or lowest score of a rewriting
  text: str  # the completion with this score
  count: int  # number of completions that were scored
  problem: str  # "hole", "false negative" or ""


def audit(score: Score, examples: Sequence[Example]) -> list[Finding]:
  """Scores right completions, attacks and rewritings.

  The first finding is about the right completions as they are. A kind of which
  no completion can be scored is left out.
  """
  right = score([(example, example.completion) for example in examples])
  if np.isnan(right).all() or not np.nanmean(right) > 0:
    raise UsageError(
      "the reward pays no right completion, so that nothing can be compared "
      f"with it; the first is {examples[0].completion!r:.200}"
    )
  paid = float(np.nanmean(right))
  lowest = int(np.nanargmin(right))
  text, scored = examples[lowest].completion, int((~np.isnan(right)).sum())
  extreme = float(right[lowest])
  findings = [
    Finding("right completion", False, paid, extreme, text, scored, "")
  ]
  for kind, make in (attacks.ATTACKS | attacks.REWRITINGS).items():
    is_attack = kind in attacks.ATTACKS
    pairs = [(example, text) for example in examples for text in make(example)]
    values = score(pairs) if pairs else np.array([])
    if not len(values) or np.isnan(values).all():
      continue
    place = int(np.nanargmax(values) if is_attack else np.nanargmin(values))
    extreme, mean = float(values[place]), float(np.nanmean(values))
    # An attack should fail, and a rewriting should succeed.
    problem = ""
    if (extreme >= SHARE * paid) == is_attack:
      problem = "hole" if is_attack else "false negative"
    text, scored = pairs[place][1], int((~np.isnan(values)).sum())
    findings.append(
      Finding(kind, is_attack, mean, extreme, text, scored, problem)
    )
  return findings


def _of_verifier(verify: Callable[..., list]) -> Score:
  """Returns the scores of a verifier; NaN where its verdict is unknown."""

  def score(pairs: Sequence[tuple[Example, str]]) -> np.ndarray:
    items = [
      Item(example.question, text, example.reference, dict(example.fields))
      for example, text in pairs
    ]
    outcomes = verify(items)
    return np.array([o.score if o.verdict >= 0 else np.nan for o in outcomes])

  return score


def _of_task(
  task: Task, count: int, reward: Reward | None = None
) -> tuple[Score, list[Example]]:
  """Returns the scores of a task or a reward, and examples of problems."""
  transforms = reward.transforms.values() if reward else ()
  for need in frozenset().union(*(t.needs for t in transforms)):
    if need.source != "task":
      raise UsageError(
        f"the reward reads {need}, which only a run computes; audit its other "
        "terms, without this one"
      )
  # The judge of a config is asked about train problems alone.
  problems = training_lines.distinct_problems(task, jax.random.key(0), count)
  if len(problems.ids) < 2:
    raise UsageError(
      "--problems: only one distinct problem was drawn; ask for more"
    )
  items = task.items(problems)
  golds, lengths = map(np.asarray, task.gold(problems))
  completions = [
    task.text_of(ids[:length])
    for ids, length in zip(golds, lengths, strict=True)
  ]
  judged = task.score(
    problems, golds[:, None], lengths[:, None], np.ones((len(golds), 1), bool)
  )
  answers = np.asarray(judged.answer_ids)[:, 0]
  examples = [
    Example(item.prompt, item.reference, text, items[other].reference)
    for item, text, other in zip(
      items, completions, _other_answers(answers), strict=True
    )
  ]
  row_of = {example: i for i, example in enumerate(examples)}

  def score(pairs: Sequence[tuple[Example, str]]) -> np.ndarray:
    scores = np.full(len(pairs), np.nan)
    places, samples = _encode_samples(task, [text for _, text in pairs])
    if not places:
      return scores
    rows = np.array([row_of[pairs[place][0]] for place in places])
    chosen = jax.tree.map(lambda x: np.asarray(x)[rows], problems)
    judged = task.score(
      chosen, samples.completions, samples.lengths, samples.finished
    )
    keys = jax.random.split(jax.random.key(0), len(rows))
    rollout = drawing.assemble(chosen, samples, judged, keys, np.int32(0))
    if reward:
      states = {name: t.init() for name, t in reward.transforms.items()}
      rollout, _ = reward.apply(rollout, states)
    scores[places] = np.where(
      rollout.sample_mask, rollout.scores, np.nan
    ).squeeze(1)
    return scores

  return score, examples


def _encode_samples(
  task: Task, texts: Sequence[str]
) -> tuple[list[int], generation.Samples]:
  """Returns the indices of the N texts that are samples, and these `[N, 1]`."""
  # A text with a word that the task has no token for is left out, and one that
  # is too long is cut and has no end.
  tokens, indices = [], []
  for index, text in enumerate(texts):
    try:
      tokens.append(task.completion_ids(text)[: task.completion_length])
    except UsageError:
      continue
    indices.append(index)
  padded = padding.on_right(tokens, task.completion_length, task.pad_id)
  completions, lengths = (array[:, None] for array in padded)
  finished = [[ids[-1] in task.eos_ids] for ids in tokens]
  samples = generation.Samples(
    completions=completions,
    lengths=lengths,
    log_probs=np.zeros(completions.shape, np.float32),
    finished=np.array(finished, bool),
  )
  return indices, samples


def _other_answers(answers: np.ndarray) -> list[int]:
  """Returns for each problem the next one with another answer."""
  result = []
  for i, answer in enumerate(answers):  # [N], ids of right answers
    # The problems after this one, and then those from the first one on.
    following = np.roll(np.arange(len(answers)), -i)[1:]
    others = following[answers[following] != answer]
    # If all answers are equal, the next problem is taken.
    result.append(int(others[0] if len(others) else following[0]))
  return result


def _sums(count: int, template: str) -> list[Example]:
  """Returns sums of two numbers, with completions made by a template."""
  if template.format("x") == template:
    raise UsageError(
      f"--write {template!r} must have the field {{}}, for the answer"
    )
  answers = [37 + 19 * i for i in range(count + 1)]
  return [
    Example(
      f"What is {answer - 12} + 12?",
      str(answer),
      template.format(answer),
      str(other),
    )
    for answer, other in itertools.pairwise(answers)
  ]


def _read_examples(file: str) -> list[Example]:
  """Returns the examples in a file of lines."""
  path = epath.Path(file).expanduser()
  json_lines.check_is_file(path)
  located_lines = json_lines.read(path)
  if len(located_lines) < 2:
    raise UsageError(f"{file} must have at least two lines")
  keys = ("question", "reference", "completion")
  for location, line in located_lines:
    for key in keys:
      if not isinstance(line.get(key), str):
        raise UsageError(f"{location}: {key!r} must be a text")
  lines = [dict(line) for _, line in located_lines]
  references = [line["reference"] for line in lines]
  return [
    Example(*(line.pop(key) for key in keys), other, tuple(line.items()))
    for line, other in zip(lines, [*references[1:], references[0]], strict=True)
  ]


def table(findings: Sequence[Finding]) -> rich.table.Table:
  """Returns the table that the command prints."""
  result = rich.table.Table(
    "completions", "number", "mean", "extreme", "", "example"
  )
  for finding in findings:
    text = " ".join(finding.text.split())
    result.add_row(
      finding.kind,
      str(finding.count),
      f"{finding.mean:.3f}",
      f"{finding.extreme:.3f}",
      finding.problem,
      rich.markup.escape(text if len(text) <= 60 else text[:57] + "..."),
    )
  return result


def _check_problems(count: int) -> int:
  if count < 2:
    raise UsageError(f"--problems {count} must be at least 2")
  return count


def _audit_config(argv: Sequence[str]) -> list[Finding]:
  """Audits what a config pays."""

  def define(values: flags.FlagValues) -> None:
    text = "number of problems"
    flags.DEFINE_integer("problems", PROBLEMS, text, flag_values=values)

  options = command_line.parse(argv, define, required=("config",))
  count = _check_problems(options.problems)
  reward = reward_from_config.make_reward(options.config)
  folder = pretrained.resolve(options.config.policy.path)
  task = build.make_task(options.config, folder)
  return audit(*_of_task(task, count, reward))


def _audit_verifier(argv: Sequence[str]) -> list[Finding]:
  """Audits a verifier."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.audit", usage=__doc__
  )
  parser.add_argument("--reward", required=True)
  parser.add_argument("--data", default="")
  parser.add_argument("--write", default="{}")
  parser.add_argument("--problems", type=int, default=PROBLEMS)
  options = parser.parse_args(argv[1:])
  count = _check_problems(options.problems)
  score = _of_verifier(registry.load("verifier", options.reward))
  examples = (
    _read_examples(options.data)
    if options.data
    else _sums(count, options.write)
  )
  return audit(score, examples)


@errors.command
def main(argv: Sequence[str]) -> int:
  """Runs the command; returns 0, 1 for a hole or a false negative, or 2."""
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  has_config = any(argument.startswith("--config") for argument in argv)
  findings = (_audit_config if has_config else _audit_verifier)(argv)
  console = rich.console.Console(highlight=False)
  console.print(table(findings))
  problems = [f"{f.kind} ({f.problem})" for f in findings if f.problem]
  if problems:
    print(f"found: {', '.join(problems)}")
    return 1
  print("found no hole and no false negative")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
