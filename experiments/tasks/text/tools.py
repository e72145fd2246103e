"""Tool calls: the right functions with the right arguments, as JSON.

A line of the data has a prompt, the available tools, and the calls to make:

  {"prompt": "Is it raining in Oslo?",
   "tools": [{"name": "weather", "parameters": {"city": {"type": "string"}}}],
   "answer": [{"name": "weather", "arguments": {"city": "Oslo"}}]}

The tools are a list of objects of any form, or a text. They are written before
the prompt, one object a line. The answer has one of these forms:

  list of calls   Each call becomes a block
                  `<tool_call>\\n{...}\\n</tool_call>`, as in the chat templates
                  of Hermes and Qwen.
  text            The complete reference completion, with its tags (`<think>`,
                  `<tool_call>`, `<response>`). The format is right if a
                  completion has exactly the tags of the reference: thoughts in
                  `<think>` are a wrong format if the reference has none.
  []              No tool must be called. Every text without a call is right.

`rewards.verifiers.tools` compares the calls. A completion is right if it makes
the same calls, in any order; the score grades names, parameters and values. The
components are the two terms of the paper's reward, "format" in {0, 1} and
"correctness" in [-3, 3].

Usage:
  python -m experiments.evaluate --policy FOLDER --task tools

Source: Qian et al. 2025, "ToolRL: Reward is All Tool Learning Needs".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.data import json_lines, split_files
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import tools as calls
from rl import UsageError

INSTRUCTION = (
  "Call what is needed, one block a call and nothing around them: "
  '<tool_call>{"name": NAME, "arguments": {...}}</tool_call>. If no tool is '
  "needed, answer without one."
)
PARTS = ("format", "correctness")
NO_CALL = "No tool is needed."


@text_options.with_text_options(prompt_length=2048)
def tools(
  options: TextOptions,
  folder: str | None = None,
  dataset: str = "tools",
) -> Task:
  """Prompts, tools and reference calls from local files.

  Args:
    options: settings of all text tasks.
    folder: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names; see `split_files.find`. The test
      file is enough for evaluation with a tokenizer from a folder.

  Raises:
    UsageError: if data is missing, a line has another form, the calls of an
      answer cannot be read, or `text_task.build` refuses the problems.
  """
  files = split_files.find(dataset, folder)
  return text_task.build(
    dataset,
    {
      split: [_example(*line) for line in json_lines.read(file)]
      for split, file in files.items()
    },
    options,
    calls.verify,
    instruction=INSTRUCTION,
    write_answer=lambda answer: answer or NO_CALL,
    parts=PARTS,
    files=files,
  )


def _example(location: str, line: Mapping[str, Any]) -> Example:
  """Makes an example from a line of the data."""
  prompt = json_lines.required_text(location, line, "prompt").strip()
  available = line.get("tools") or ""
  if isinstance(available, list):
    texts = [json.dumps(tool, ensure_ascii=False) for tool in available]
    available = "\n".join(texts)
  if not isinstance(available, str):
    kind = type(available).__name__
    raise UsageError(
      f"{location}: 'tools' is a {kind}; it must be a list or a text"
    )
  answer = _answer(location, line)
  question = f"{available.strip()}\n\n{prompt}".strip()
  solution = json_lines.optional_text(location, line, "solution").strip()
  return Example(
    question, solution=solution or answer or NO_CALL, answer=answer
  )


def _answer(location: str, line: Mapping[str, Any]) -> str:
  """Returns the reference calls of a line as text; "" if there are none."""
  answer = line.get("answer")
  if isinstance(answer, dict):
    answer = [answer]
  if isinstance(answer, list):
    texts = [json.dumps(call, ensure_ascii=False) for call in answer]
    answer = "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)
  if not isinstance(answer, str):
    raise UsageError(
      f"{location} has no 'answer'; expected a list of calls or a text, or [] "
      "where no call is to be made"
    )
  answer = answer.strip()
  if calls.parse(answer) is None:
    raise UsageError(
      f"{location}: the calls of {answer[:80]!r} cannot be read; write "
      '[{"name": ..., "arguments": {...}}], or the text of a completion'
    )
  return answer
