"""A small tokenizer in the folder of a chat model."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import small_gsm8k, small_math
from models import tokenizer

TURN = "<|end|>"  # ends a turn of a conversation
TEMPLATE = (
  "{% for turn in messages %}"
  "<|{{ turn.role }}|>{{ turn.content }}<|end|>"
  "{% endfor %}"
  "{% if add_generation_prompt %}<|assistant|>"
  "{% if enable_thinking is defined and not enable_thinking %}"
  "<quick>{% endif %}"
  "{% endif %}"
)


def write(
  folder: Path, template: str = TEMPLATE, stops: object = None
) -> tokenizer.Tokenizer:
  """Trains a tokenizer on a few texts and writes its folder.

  Args:
    folder: folder of the tokenizer, created if missing.
    template: chat template; "" writes none.
    stops: `eos_token_id` of the generation config. None writes no config.

  Returns:
    The tokenizer. Padding is 0, EOS is 1, and the tokens of turns are the last.
  """
  rows = [small_gsm8k.row(i) for i in range(3)]
  texts = [row["question"] + row["answer"] for row in rows]
  texts += [small_math.row(i)["solution"] for i in range(3)]
  hf_tokenizer = tokenizer.train(texts, 320)
  turns = ["<|user|>", "<|assistant|>", "<|system|>", TURN, "<quick>"]
  hf_tokenizer.add_special_tokens({"additional_special_tokens": turns})
  hf_tokenizer.chat_template = template or None
  folder.mkdir(parents=True, exist_ok=True)
  hf_tokenizer.save_pretrained(folder)
  if stops is not None:
    text = json.dumps({"eos_token_id": stops})
    (folder / "generation_config.json").write_text(text)
  return hf_tokenizer
