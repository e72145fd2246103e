"""A tokenizer as a chat model's folder has it, made of a few texts."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import small_gsm8k, small_math
from models import tokenizer

TURN = "<|end|>"
TEMPLATE = (
  "{% for turn in messages %}"
  "<|{{ turn.role }}|>{{ turn.content }}<|end|>"
  "{% endfor %}"
  "{% if add_generation_prompt %}<|assistant|>"
  "{% if enable_thinking is defined and not enable_thinking %}<quick>{% endif %}"
  "{% endif %}"
)


def write(
  folder: Path, template: str = TEMPLATE, stops: object = None
) -> tokenizer.Tokenizer:
  """Writes the files into `folder`.

  Args:
    folder: made where missing.
    template: of conversations; "" is none.
    stops: `eos_token_id` of the generation config; None writes no config.

  Returns:
    The tokenizer: pad 0, EOS 1, and the turns' tokens last.
  """
  rows = [small_gsm8k.row(i) for i in range(3)]
  texts = [row["question"] + row["answer"] for row in rows]
  texts += [small_math.row(i)["solution"] for i in range(3)]
  made = tokenizer.train(texts, 320)
  turns = ["<|user|>", "<|assistant|>", "<|system|>", TURN, "<quick>"]
  made.add_special_tokens({"additional_special_tokens": turns})
  made.chat_template = template or None
  folder.mkdir(parents=True, exist_ok=True)
  tokenizer.save(made, folder)
  if stops is not None:
    text = json.dumps({"eos_token_id": stops})
    (folder / "generation_config.json").write_text(text)
  return made
