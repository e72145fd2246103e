"""Tokenizers of Hugging Face folders, and a small one trained here.

From any folder: texts and conversations to ids and back, and which ids end a
completion, pad, or hold a line break.

The one trained here is a byte-level BPE. Digits are tokens of their own, so a
number is written place by place and no vocabulary entry hides its digits. Every
byte has a token: there is no unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

from models import buckets

PAD, EOS = "<pad>", "<eos>"
SMALLEST = 256 + len((PAD, EOS))  # every byte and the specials

# Put before a chat template: what it writes must not change with the day.
_DATE = (
  "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}"
  "\n"  # not rendered: it ends a line of a block
)
_REPLY = "Nineteen."  # an assistant's, to see what a template writes after it

Tokenizer = transformers.PreTrainedTokenizerBase


def train(texts: Iterable[str], vocab_size: int) -> Tokenizer:
  """Trains a BPE; the same texts in the same order give the same tokenizer.

  Args:
    texts: what to learn from.
    vocab_size: largest number of tokens, specials included; fewer are made
      where the texts have no more pairs to merge.

  Returns:
    A tokenizer whose pad id is 0 and whose EOS id is 1.

  Raises:
    ValueError: the bytes alone do not fit into `vocab_size`.
  """
  if vocab_size < SMALLEST:
    raise ValueError(
      f"vocab_size={vocab_size} cannot hold 256 bytes and the special tokens; "
      f"allowed: {SMALLEST} or more, the nearest is {SMALLEST}"
    )
  bpe = tokenizers.Tokenizer(models.BPE())
  bpe.pre_tokenizer = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Digits(individual_digits=True),
      pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
  )
  bpe.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
    vocab_size=vocab_size,
    special_tokens=[PAD, EOS],
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    show_progress=False,
  )
  bpe.train_from_iterator(texts, trainer)
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=bpe,
    pad_token=PAD,
    eos_token=EOS,
    clean_up_tokenization_spaces=False,
    padding_side="left",
  )


def save(tokenizer: Tokenizer, folder: str | Path) -> None:
  """Writes a folder that `load` and `AutoTokenizer` read."""
  tokenizer.save_pretrained(str(folder))


def load(folder: str | Path) -> Tokenizer:
  """Reads a tokenizer's folder, this file's or any of Hugging Face's.

  Raises:
    ValueError: there is no such folder, or no tokenizer in it.
  """
  if not buckets.local(folder, "tokenizer").is_dir():
    raise ValueError(f"no tokenizer at {str(folder)!r}; expected a folder")
  try:
    return transformers.AutoTokenizer.from_pretrained(
      str(folder), local_files_only=True
    )
  except ImportError:  # of a package that this tokenizer needs
    raise
  except Exception as error:  # the reader in Rust raises no narrower one
    raise ValueError(
      f"no readable tokenizer in {str(folder)!r} (tokenizer.json, "
      f"tokenizer_config.json): {error}"
    ) from None


def size(tokenizer: Tokenizer, stops: Iterable[int] = ()) -> int:
  """Rows that an embedding needs: one more than the largest id in use.

  Special tokens at the end of the vocabulary that nothing names are passed
  over: neither the chat template's text, nor `stops`, nor the tokenizer as its
  BOS, EOS, pad or unknown. Published folders have such ones beyond their
  embedding (Gemma 3's `<image_soft_token>`). A text that spells one out has its
  id all the same.

  Args:
    tokenizer: of any folder.
    stops: tokens that end a completion.
  """
  named = {
    tokenizer.bos_token_id,
    tokenizer.eos_token_id,
    tokenizer.pad_token_id,
    tokenizer.unk_token_id,
    *stops,
  }
  template = str(tokenizer.chat_template or "")
  added = tokenizer.added_tokens_decoder
  spare = {
    i for i in _special(tokenizer) - named if added[i].content not in template
  }
  ids = sorted(tokenizer.get_vocab().values())
  while ids[-1] in spare:
    ids.pop()
  return 1 + ids[-1]


def _special(tokenizer: Tokenizer) -> set[int]:
  added = tokenizer.added_tokens_decoder
  return {i for i, token in added.items() if token.special}


def stop_ids(tokenizer: Tokenizer, folder: str | Path) -> tuple[int, ...]:
  """The tokens that end a completion.

  They are those of the folder's `generation_config.json` (an instruction model
  often has several), else of its `config.json`, else the tokenizer's EOS.

  Raises:
    ValueError: there is none.
  """
  found = None
  for name in ("generation_config.json", "config.json"):
    path = Path(folder) / name
    if found is None and path.is_file():
      try:
        found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
      except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not a JSON object: {error}") from None
  if isinstance(found, int):
    found = [found]
  known = set(tokenizer.get_vocab().values())
  ids = [i for i in found or () if isinstance(i, int) and i in known]
  if not ids and tokenizer.eos_token_id is not None:
    ids = [tokenizer.eos_token_id]
  if not ids:
    raise ValueError(
      f"the tokenizer in {str(folder)!r} has no EOS, so nothing would end a "
      "completion; set eos_token in tokenizer_config.json or eos_token_id in "
      "generation_config.json"
    )
  return tuple(dict.fromkeys(ids))


def turn_end(tokenizer: Tokenizer, stops: Sequence[int]) -> int | None:
  """The token with which the chat template ends an assistant's turn.

  It is the first that the template writes after the reply and that is special
  or one of `stops`. A base model's folder has it in its template and not in
  its generation config.

  Returns:
    Its id; None if the template writes none there.
  """
  turns = [
    {"role": "user", "content": "?"},
    {"role": "assistant", "content": _REPLY},
  ]
  (text,) = _render(tokenizer, [turns], False, {})
  _, there, after = text.rpartition(_REPLY)
  if not there:
    return None
  ends = {*stops, *_special(tokenizer)}
  return next((i for i in encode(tokenizer, [after])[0] if i in ends), None)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
  """Ids of each text as it stands: no special token is added."""
  if not texts:
    return []
  return tokenizer(
    list(texts),
    add_special_tokens=False,
    return_attention_mask=False,
    verbose=False,  # too long for the model is for the caller to say
  )["input_ids"]


def plain_prompts(
  tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
  """Ids of texts to be continued: after BOS where the tokenizer adds it."""
  bos = tokenizer("")["input_ids"][:1]
  if bos != [tokenizer.bos_token_id]:
    bos = []
  return [bos + ids for ids in encode(tokenizer, texts)]


def chat_prompts(
  tokenizer: Tokenizer,
  conversations: Sequence[Sequence[Mapping[str, str]]],
  **options: object,
) -> list[list[int]]:
  """Ids of conversations up to where the assistant is to answer.

  Where a template asks for today's date (Llama 3.2, SmolLM3), it is told
  `26 Jul 2024` in whatever format, Llama 3.2's own for want of a date: prompts
  are the same on every day.

  Args:
    tokenizer: has a chat template.
    conversations: turns `{"role": ..., "content": ...}`.
    **options: what the template reads besides, such as `enable_thinking`.

  Raises:
    ValueError: there is no template, or it refuses (a system turn, say).
  """
  texts = _render(tokenizer, conversations, True, options)
  return encode(tokenizer, texts)  # the template wrote all special tokens


def _render(
  tokenizer: Tokenizer,
  conversations: Sequence[Sequence[Mapping[str, str]]],
  add_generation_prompt: bool,
  options: Mapping[str, object],
) -> list[str]:
  if not conversations:
    return []
  try:
    return tokenizer.apply_chat_template(
      [list(turns) for turns in conversations],
      chat_template=_DATE + tokenizer.get_chat_template(),
      add_generation_prompt=add_generation_prompt,
      tokenize=False,
      **options,
    )
  except ImportError:  # jinja2
    raise
  except Exception as error:  # a template is somebody's program
    raise ValueError(f"the chat template refuses: {error}") from None


def decode(
  tokenizer: Tokenizer, rows: Iterable[Sequence[int]], known: int
) -> list[str]:
  """The text of each row of ids, without special tokens.

  Args:
    tokenizer: of the ids.
    rows: ids.
    known: its `size`; larger ids, of an embedding with spare rows or of special
      tokens not in use, are passed over.
  """
  rows = [np.asarray(row, np.int64) for row in rows]
  return tokenizer.batch_decode(
    [row[(row >= 0) & (row < known)].tolist() for row in rows],
    skip_special_tokens=True,
    clean_up_tokenization_spaces=False,
  )


def holding(tokenizer: Tokenizer, separator: str) -> tuple[int, ...]:
  """Ids of every token whose own text contains the separator."""
  known = size(tokenizer)
  texts = decode(tokenizer, np.arange(known)[:, None], known)
  return tuple(i for i, text in enumerate(texts) if separator in text)
