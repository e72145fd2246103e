"""Tool calls: the right functions with the right arguments, as JSON.

A line has a prompt, the tools that there are, and the calls to make:

  {"prompt": "Is it raining in Oslo?",
   "tools": [{"name": "weather", "parameters": {"city": {"type": "string"}}}],
   "answer": [{"name": "weather", "arguments": {"city": "Oslo"}}]}

The tools, a list of any objects or a text, stand before the prompt. The answer
is a list of calls, each then in a `<tool_call>` block of its own, as in the
chat templates of Hermes and Qwen; or a text, the reference as it is to be
written, its tags (`<think>`, `<tool_call>`, `<response>`) included. Its tags
are those that the format asks for: a policy that writes its thoughts in
`<think>` lacks the format of a reference without them. Where `answer` is `[]`
no tool is to be called, and every text without a call is right.

`rewards.verifiers.tools` compares: right is the same multiset of calls, and the
score grades names, parameters and values. The components are the paper's two
terms, "format" in {0, 1} and "correctness" in [-3, 3].

Usage:
  python -m experiments.evaluate --policy FOLDER --task tools

Source: Qian et al. 2025, "ToolRL: Reward is All Tool Learning Needs".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.data import json_lines
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from rewards.verifiers import tools as calls

INSTRUCTION = (
  "Call what is needed, one block a call and nothing around them: "
  '<tool_call>{"name": NAME, "arguments": {...}}</tool_call>. If no tool is '
  "needed, answer without one."
)
PARTS = ("format", "correctness")
NO_CALL = "No tool is needed."


def tools(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  dataset: str = "tools",
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 2048,
  completion_length: int = 512,
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
) -> Task:
  """Prompts, tools and reference calls from local files.

  Args:
    data_path: folder of the files; None reads `$EXTREMUM_DATA`.
    cache: folder for the task's own tokenizer.
    dataset: how the files' names begin, as of `lines.find`. The test file is
      enough to evaluate, with a tokenizer.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the prompt; None is one that says how to call,
      and nothing with the own BPE.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, a line of another form, an answer whose calls
      cannot be read, or what `math` refuses of the same settings.
  """
  files = json_lines.find(dataset, data_path)
  splits = {
    split: [_row(*line) for line in json_lines.read(file)]
    for split, file in files.items()
  }
  kept = json_lines.tokenizer_folder(
    tokenizer, cache, files, dataset, vocab_size
  )
  spoken = prompting.find(tokenizer, splits, vocab_size, kept)
  if instruction is None:
    instruction = "" if spoken.own else INSTRUCTION
  return text_task.build(
    dataset,
    splits,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    calls.verify,
    shortest=lambda answer: answer or NO_CALL,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    parts=PARTS,
  )


def _row(where: str, line: Mapping[str, Any]) -> prompting.Row:
  prompt = json_lines.text(where, line, "prompt").strip()
  there = line.get("tools") or ""
  if isinstance(there, list):
    there = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in there)
  if not isinstance(there, str):
    kind = type(there).__name__
    raise ValueError(f"{where}: 'tools' is a {kind}; allowed: a list or a text")
  answer = line.get("answer")
  if isinstance(answer, dict):
    answer = [answer]
  if isinstance(answer, list):
    blocks = [json.dumps(call, ensure_ascii=False) for call in answer]
    answer = "\n".join(f"<tool_call>\n{b}\n</tool_call>" for b in blocks)
  if not isinstance(answer, str):
    raise ValueError(
      f"{where} has no 'answer', a list of calls or a text; [] is none to make"
    )
  answer = answer.strip()
  if calls.parse(answer) is None:
    raise ValueError(
      f"{where}: the calls of {answer[:80]!r} cannot be read; allowed: "
      '[{"name": ..., "arguments": {...}}], or their text'
    )
  question = f"{there.strip()}\n\n{prompt}".strip()
  solution = json_lines.optional(where, line, "solution").strip()
  return prompting.Row(question, solution or answer or NO_CALL, answer)
