"""Measures a verifier, or a judge, on labelled responses.

  python -m experiments.verify --data FILE.jsonl --reward MODULE:FUNCTION
  python -m experiments.verify --data FILE.jsonl --judge URL --judge_model NAME
    [--judge_key VARIABLE] [--question "agrees()"] [--threshold 0.5]
  python -m experiments.verify --data FILE.jsonl --judge_policy FOLDER
    [--question "p_yes(yes='1', no='0', gated=False)"] [--threshold 0.5]
  ... [--answer_only] [--attacks]

A line is `{"question", "reference", "response", "label"}`, the label true or
false, with an optional "category". With `--answer_only` the verifier reads the
line's "answer", the final answer alone, in place of the whole response. With
`--attacks` every question also gets responses that say nothing, such as
"Thought process:", whose label is false; they are the row "(attacks)", and 1
less their accuracy is the rate of false acceptance. The command prints, for all
lines and for each category,

  accuracy    share of the lines with a verdict that is the label
  precision   share of the accepted lines that are right
  recall      share of the right lines that are accepted
  unknown     number of lines without a verdict, which are left out of the rest

Sources: Yan et al. 2025, VerifyBench: Benchmarking Reference-based Reward
Systems for Large Language Models; Li et al. 2025, VerifyBench: A Systematic
Benchmark for Evaluating Reasoning Verifiers Across Domains (answer alone or
whole response); Zhao et al. 2025, One Token to Fool LLM-as-a-Judge (attacks).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import rich.console
import rich.markup
import rich.table

from experiments.cli import arguments, errors, spec
from experiments.data import labelled_responses
from rewards import judged
from rewards.verifiers import Item, llm_judge
from rl import UsageError, registry

_WORKERS = 8  # requests at a time


class Quality(NamedTuple):
  """The agreement of verdicts with labels, as the module's docstring says."""

  # Shares; NaN if there is no line to take it of.
  accuracy: float
  precision: float
  recall: float
  unknown: int  # number of lines without a verdict
  count: int  # number of lines


def quality(verdicts: np.ndarray, labels: np.ndarray) -> Quality:
  """Compares verdicts `[N]` (1, 0, or -1 for unknown) with labels `[N]`."""
  is_known = verdicts >= 0
  accepts, is_right = verdicts[is_known] == 1, labels[is_known]

  def share(hits: np.ndarray) -> float:
    return float(hits.mean()) if len(hits) else float("nan")

  return Quality(
    accuracy=share(accepts == is_right),
    precision=share(is_right[accepts]),
    recall=share(accepts[is_right]),
    unknown=int((~is_known).sum()),
    count=len(verdicts),
  )


def attacks(lines: Sequence[dict]) -> tuple[list[Item], list[dict]]:
  """Returns responses that say nothing, to every question of the lines."""
  questions = dict.fromkeys(
    (line["question"], line["reference"]) for line in lines
  )
  items = [
    Item(question, text, reference)
    for question, reference in questions
    for text in llm_judge.ATTACKS
  ]
  line = {"label": False, "category": labelled_responses.ATTACKS}
  return items, [line] * len(items)


def _by_category(
  verdicts: np.ndarray, lines: Sequence[dict]
) -> dict[str, Quality]:
  """Returns the quality over all lines, and over those of each category."""
  labels = np.array([line["label"] for line in lines], bool)
  categories = np.array([line.get("category", "") for line in lines])
  result = {labelled_responses.ALL_LINES: quality(verdicts, labels)}
  for name in sorted(set(categories) - {""}):
    rows = categories == name
    result[str(name)] = quality(verdicts[rows], labels[rows])
  return result


def _verdicts(options: argparse.Namespace, items: list[Item]) -> np.ndarray:
  """Returns the verdicts of the verifier or of the judge, `[N]`."""
  if options.reward:
    verify = registry.load("verifier", options.reward)
    return np.array([outcome.verdict for outcome in verify(items)])
  name, settings = spec.parse(options.question, "--question")
  question = judged.get(name, **settings)
  if question.about != judged.base.SAMPLES:
    raise UsageError(
      f"--question {options.question} is about {question.about}, not samples"
    )
  if question.embeds and options.judge_policy:
    raise UsageError(
      f"--question {options.question} asks for embeddings, which a policy has "
      "not; name a server by --judge"
    )
  if options.judge_policy:
    # Imported here, since it loads transformers.
    from experiments.training import build, policy_judge

    complete = policy_judge.PolicyJudge(
      options.judge_policy, batch=_WORKERS, build=build.build
    )
  else:
    complete = llm_judge.Endpoint(
      options.judge, options.judge_model, key_variable=options.judge_key
    )
  groups = [[item] for item in items]
  scores = question.ask(groups, complete, _WORKERS)[:, 0]
  return np.where(np.isnan(scores), -1, scores >= options.threshold).astype(int)


def table(results: dict[str, Quality]) -> rich.table.Table:
  """Returns the table that the command prints."""
  columns = ("accuracy", "precision", "recall")
  rich_table = rich.table.Table("", "lines", *columns, "unknown")
  for name, value in results.items():
    shares = (f"{getattr(value, column):.3f}" for column in columns)
    label = rich.markup.escape(name)
    rich_table.add_row(label, str(value.count), *shares, str(value.unknown))
  return rich_table


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, 1 without any verdict, or 2 for a mistake."""
  parser = arguments.make_parser("verify", __doc__)
  add = parser.add_argument
  add("--data", required=True, help="JSONL file of labelled responses")
  add("--reward", default="", help="verifier, MODULE:FUNCTION")
  add("--judge", default="", help="URL of an OpenAI-compatible API")
  add("--judge_model", default="", help="name of the model on that server")
  add("--judge_policy", default="", help="model folder or workdir of a judge")
  add("--judge_key", default="", help="environment variable with the API key")
  add("--question", default="agrees()", help="default: %(default)s")
  add("--threshold", type=float, default=0.5, help="default: %(default)s")
  add("--answer_only", action="store_true", help="judge the answer alone")
  add("--attacks", action="store_true", help="add responses that say nothing")
  options = parser.parse_args(argv)
  judges = options.reward, options.judge, options.judge_policy
  if sum(map(bool, judges)) != 1:
    raise UsageError("give one of --reward, --judge and --judge_policy")
  keys, read_key = labelled_responses.KEYS, "response"
  if options.answer_only:
    keys = labelled_responses.KEYS | {"answer": str}
    read_key = "answer"
  items, lines = labelled_responses.read(options.data, keys, read_key)
  if options.attacks:
    more_items, more_lines = attacks(lines)
    items, lines = items + more_items, lines + more_lines
  print(f"judging {len(items)} lines ...")
  results = _by_category(_verdicts(options, items), lines)
  rich.console.Console(highlight=False).print(table(results))
  if results[labelled_responses.ALL_LINES].unknown == len(items):
    judge_name = options.reward or options.judge or options.judge_policy
    print(
      f"error: {judge_name} judged none of the {len(items)} lines; see the "
      "messages above",
      file=sys.stderr,
    )
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
