"""Tokenizers: those of Hugging Face folders, and a small BPE that is trained.

For any tokenizer, this module converts texts and conversations to ids and back,
and finds the ids that end a completion. A text of a user, of a dataset or of a
policy never becomes a special token: `<|im_end|>` in it is encoded as the
letters that it has, unless the caller names it.

`train` trains a byte-level BPE with the special tokens pad and EOS. In it, each
digit is a token of its own and is not merged with others. Each byte is a token,
so that there are no unknown tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

from models import storage_paths
from rl import UsageError

PAD, EOS = "<pad>", "<eos>"
MIN_VOCAB_SIZE = 256 + len((PAD, EOS))  # all bytes and the special tokens

# Jinja code that is put before each chat template. Templates that write today's
# date call `strftime_now`; a fixed date gives the same prompts on every day.
# The newline is not rendered: chat templates drop a newline after a block.
_FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}\n"
# A reply of the assistant with which `turn_end_id` finds out what a chat
# template writes after a reply; a word that no template contains.
_EXAMPLE_REPLY = "Nineteen."
# Longest word that a BPE is trained on, in characters.
_LONGEST_WORD = 10_000
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD},}}|\s{{{_LONGEST_WORD},}}")
# Character that stands for a special token in a content: one of private use.
_MARK = "\uf8ff"

Tokenizer = transformers.PreTrainedTokenizerBase


def train(texts: Iterable[str], vocab_size: int) -> Tokenizer:
  """Trains a byte-level BPE tokenizer; the result depends on the texts' order.

  Of a word of more than 10,000 characters (or of as much white space) the first
  10,000 are used: the time of training is quadratic in the length of a word.

  Args:
    texts: the training texts.
    vocab_size: the largest number of tokens, special tokens included. There are
      fewer if the texts have no more pairs to merge.

  Returns:
    A tokenizer whose pad id is 0 and whose EOS id is 1.

  Raises:
    UsageError: `vocab_size` is too small for all bytes and the special tokens.
  """
  if vocab_size < MIN_VOCAB_SIZE:
    raise UsageError(
      f"vocab_size={vocab_size} has no room for 256 bytes and the special "
      f"tokens; it must be at least {MIN_VOCAB_SIZE}"
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
  bpe.train_from_iterator(
    (_LONG_WORD.sub(lambda match: match[0][:_LONGEST_WORD], t) for t in texts),
    trainer,
  )
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=bpe,
    pad_token=PAD,
    eos_token=EOS,
    clean_up_tokenization_spaces=False,
    padding_side="left",
  )


def load(folder: str | Path) -> Tokenizer:
  """Reads the tokenizer of a folder that `save_pretrained` wrote.

  Raises:
    UsageError: the folder does not exist or has no readable tokenizer.
  """
  if not storage_paths.require_local(folder, "tokenizer").is_dir():
    raise UsageError(
      f"there is no tokenizer at {str(folder)!r}; it must be a folder"
    )
  try:
    return transformers.AutoTokenizer.from_pretrained(
      str(folder), local_files_only=True
    )
  except ImportError:  # some tokenizers need an additional package
    raise
  except Exception as error:  # the Rust library raises bare `Exception`
    raise UsageError(
      f"no readable tokenizer in {str(folder)!r} (tokenizer.json, "
      f"tokenizer_config.json): {error}"
    ) from None


def required_vocab_size(tokenizer: Tokenizer, stops: Iterable[int] = ()) -> int:
  """Returns the number of embedding rows that a tokenizer needs.

  This is its largest id + 1, without unused special tokens at the end of the
  vocabulary, because some published models have no embedding rows for these
  (Gemma 3's `<image_soft_token>`). A special token is used if it is in `stops`,
  in the chat template, or the tokenizer's BOS, EOS, pad or unknown token. One
  that a caller of `encode` names may have a larger id.

  Args:
    tokenizer: the tokenizer.
    stops: ids of tokens that end a completion.
  """
  used = {
    tokenizer.bos_token_id,
    tokenizer.eos_token_id,
    tokenizer.pad_token_id,
    tokenizer.unk_token_id,
    *stops,
  }
  template = str(tokenizer.chat_template or "")
  added = tokenizer.added_tokens_decoder
  unused = {
    i
    for i in _special_ids(tokenizer) - used
    if added[i].content not in template
  }
  ids = sorted(tokenizer.get_vocab().values())
  while ids[-1] in unused:
    ids.pop()
  return 1 + ids[-1]


def fingerprint(tokenizer: Tokenizer) -> str:
  """Returns 16 hex digits that change with the meaning of the ids.

  They are the hash of the texts of all tokens.
  """
  vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
  return hashlib.sha256(json.dumps(vocab).encode()).hexdigest()[:16]


def _special_ids(tokenizer: Tokenizer) -> set[int]:
  """Returns the ids of special tokens."""
  added = tokenizer.added_tokens_decoder
  return {i for i, token in added.items() if token.special}


def stop_ids(tokenizer: Tokenizer, folder: str | Path) -> tuple[int, ...]:
  """Returns the ids of the tokens that end a completion.

  They are the `eos_token_id` of the folder's `generation_config.json`, where an
  instruction-tuned model often has several; if it has none, that of
  `config.json`; and if none of these ids is in the vocabulary, the tokenizer's
  EOS.

  Args:
    tokenizer: the tokenizer of the folder.
    folder: folder of the tokenizer.

  Raises:
    UsageError: no such id exists, or a file is not a JSON object.
  """
  eos_ids = None
  for name in ("generation_config.json", "config.json"):
    path = Path(folder) / name
    if eos_ids is None and path.is_file():
      try:
        text = path.read_text(encoding="utf-8")
        eos_ids = json.loads(text).get("eos_token_id")
      except (ValueError, AttributeError) as error:
        raise UsageError(f"{path} is not a JSON object: {error}") from None
  if isinstance(eos_ids, int):
    eos_ids = [eos_ids]
  vocab = set(tokenizer.get_vocab().values())
  ids = [i for i in eos_ids or () if isinstance(i, int) and i in vocab]
  if not ids and tokenizer.eos_token_id is not None:
    ids = [tokenizer.eos_token_id]
  if not ids:
    raise UsageError(
      f"the tokenizer in {str(folder)!r} has no EOS, so nothing would end a "
      "completion; set eos_token in tokenizer_config.json or eos_token_id in "
      "generation_config.json"
    )
  return tuple(dict.fromkeys(ids))  # without duplicates


def turn_end_id(tokenizer: Tokenizer, stops: Sequence[int]) -> int | None:
  """Returns the id with which the chat template ends an assistant's turn.

  It is the first token after the reply that is special or in `stops`. The
  folder of a base model may have this token in its chat template only, not in
  its `generation_config.json`.

  Args:
    tokenizer: a tokenizer with a chat template.
    stops: ids of tokens that end a completion.

  Returns:
    The id, or None if the template writes no such token or not the reply.
  """
  turns = [
    {"role": "user", "content": "?"},
    {"role": "assistant", "content": _EXAMPLE_REPLY},
  ]
  (text,) = _render(tokenizer, [turns], add_generation_prompt=False, options={})
  _, reply, text_after_reply = text.rpartition(_EXAMPLE_REPLY)
  if not reply:
    return None
  end_ids = {*stops, *_special_ids(tokenizer)}
  (ids,) = _convert(tokenizer, [text_after_reply], splits=False)
  return next((i for i in ids if i in end_ids), None)


def encode(
  tokenizer: Tokenizer, texts: Sequence[str], special: Collection[str] = ()
) -> list[list[int]]:
  """Converts texts to ids, one list per text; adds no special tokens.

  Args:
    tokenizer: the tokenizer.
    texts: the texts.
    special: texts of special tokens that become these tokens where they occur.
      Others are encoded as ordinary text.
  """
  rows = _convert(tokenizer, texts, splits=True)
  if special:
    pattern = _any_of(special)
    for i, text in enumerate(texts):
      if pattern.search(text):
        parts = [(each, each not in special) for each in _cut(text, pattern)]
        rows[i] = _encode_parts(tokenizer, parts)
  return rows


def encode_continuation(
  tokenizer: Tokenizer, texts: Sequence[str], special: Collection[str] = ()
) -> list[list[int]]:
  """Converts texts that continue another text to ids.

  These ids have no space before the text, which a tokenizer like that of Llama
  2 adds. The arguments are those of `encode`.
  """
  skipped = _ids_of_line_break(tokenizer)
  start = "\n" if skipped else ""
  rows = encode(tokenizer, [start + text for text in texts], special)
  return [ids[len(skipped) :] for ids in rows]


def _ids_of_line_break(tokenizer: Tokenizer) -> list[int]:
  """Returns the ids of a line break if texts begin with a space, else []."""
  letter, line, both = _convert(tokenizer, ["a", "\n", "\na"], splits=True)
  # No token of a tokenizer that adds a space before a text has a line break and
  # other characters, so that these ids can be cut off.
  return line if both[-len(letter) :] != letter else []


# The setting that decides about special tokens belongs to the tokenizer, and
# several threads of a judge share one.
_CONVERTS = threading.Lock()


def _convert(
  tokenizer: Tokenizer, texts: Sequence[str], splits: bool
) -> list[list[int]]:
  """Converts texts to ids; texts of special tokens are ordinary if `splits`."""
  if not texts:
    return []
  with _CONVERTS:
    return tokenizer(
      list(texts),
      add_special_tokens=False,
      return_attention_mask=False,
      split_special_tokens=splits,
      verbose=False,  # no warnings about length; callers check it
    )["input_ids"]


def _any_of(texts: Collection[str]) -> re.Pattern[str]:
  """Returns a pattern whose only group matches the longest of the texts."""
  longest_first = sorted(texts, key=len, reverse=True)
  return re.compile(f"({'|'.join(map(re.escape, longest_first))})")


def _cut(text: str, pattern: re.Pattern[str]) -> list[str]:
  """Returns the matches of `_any_of` and the texts between them, in order."""
  return [part for part in pattern.split(text) if part]


def _encode_parts(
  tokenizer: Tokenizer, parts: Sequence[tuple[str, bool]]
) -> list[int]:
  """Returns the ids of texts, each of which continues the one before."""
  skipped = _ids_of_line_break(tokenizer)
  ids: list[int] = []
  # With `splits`, the texts of special tokens are ordinary text.
  for number, (text, splits) in enumerate(parts):
    if number and skipped:
      (row,) = _convert(tokenizer, [f"\n{text}"], splits)
      ids += row[len(skipped) :]
    else:
      ids += _convert(tokenizer, [text], splits)[0]
  return ids


def text_prompts(
  tokenizer: Tokenizer, texts: Sequence[str], special: Collection[str] = ()
) -> list[list[int]]:
  """Converts texts to ids of prompts, with BOS if the tokenizer adds it.

  The arguments are those of `encode`.
  """
  bos = tokenizer("")["input_ids"][:1]
  if bos != [tokenizer.bos_token_id]:
    bos = []
  return [bos + ids for ids in encode(tokenizer, texts, special)]


def chat_prompts(
  tokenizer: Tokenizer,
  conversations: Sequence[Sequence[Mapping[str, str]]],
  special: Collection[str] = (),
  **options: object,
) -> list[list[int]]:
  """Converts conversations to ids of prompts that the assistant answers.

  Special tokens come from the template alone: a turn whose content is
  `Hi<|end|>` does not end there. The ids are those of the whole text, unless a
  content has the text of a special token, which is then encoded by itself.

  Templates that write today's date (Llama 3.2, SmolLM3) write 26 Jul 2024
  instead, so that prompts are the same on every day. Llama 3.2's template uses
  this date if it cannot get today's.

  Args:
    tokenizer: a tokenizer with a chat template.
    conversations: lists of turns `{"role": ..., "content": ...}`.
    special: texts of special tokens that become these tokens in a content, too.
    **options: further variables of the template, such as `enable_thinking`.

  Raises:
    UsageError: there is no template, or it raises an error, for example because
      it does not support a system turn.
  """
  added = tokenizer.added_tokens_decoder
  refused = {added[i].content for i in _special_ids(tokenizer)} - {*special}
  # While the template is applied, a mark stands in the place of each of them.
  marks = {text: f"{_MARK}{i}{_MARK}" for i, text in enumerate(sorted(refused))}
  marks[_MARK] = f"{_MARK}{_MARK}"
  hidden = _any_of(marks)
  texts = _render(
    tokenizer,
    [
      [
        turn
        | {
          "content": hidden.sub(lambda match: marks[match[0]], turn["content"])
        }
        for turn in turns
      ]
      for turns in conversations
    ],
    add_generation_prompt=True,
    options=options,
  )
  rows = _convert(tokenizer, texts, splits=False)
  contents = {mark: text for text, mark in marks.items()}
  pattern = _any_of(contents)
  for i, text in enumerate(texts):
    if _MARK in text:
      parts = _cut(text, pattern)
      rows[i] = _encode_parts(
        tokenizer,
        [(contents.get(part, part), part in contents) for part in parts],
      )
  return rows


def _render(
  tokenizer: Tokenizer,
  # Each is a list of turns `{"role": ..., "content": ...}`.
  conversations: Sequence[Sequence[Mapping[str, str]]],
  add_generation_prompt: bool,  # whether to begin a reply at the end
  options: Mapping[str, object],  # further variables of the template
) -> list[str]:
  """Applies the chat template to conversations, with the fixed date."""
  if not conversations:
    return []
  try:
    return tokenizer.apply_chat_template(
      [list(turns) for turns in conversations],
      chat_template=_FIXED_DATE + tokenizer.get_chat_template(),
      add_generation_prompt=add_generation_prompt,
      tokenize=False,
      **options,
    )
  except ImportError:  # jinja2 is not installed
    raise
  except Exception as error:  # a template is a program, and may raise anything
    raise UsageError(
      f"the chat template refuses the conversation: {error}"
    ) from None


def decode(
  tokenizer: Tokenizer,
  rows: Iterable[Sequence[int]],
  ends: Collection[int] = (),
) -> list[str]:
  """Converts rows of ids, which continue other texts, to texts.

  Padding, BOS, EOS and the tokens in `ends` are left out. Other special tokens
  are part of the text, since a tokenizer may have `<think>` as one. A space
  before the first word is kept, which some tokenizers drop (Llama 2).

  Args:
    tokenizer: the tokenizer.
    rows: ids of each text. Those of no token, for which an embedding may have
      rows, are left out.
    ends: ids of further tokens that end a completion.
  """
  dropped = [
    *(tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id),
    *ends,
  ]
  dropped = [i for i in dropped if i is not None]
  # A decoder may drop the space before the first word of all, so that each text
  # is decoded after a word.
  (before,) = encode(tokenizer, ["a"])
  rows = [np.asarray(row, int) for row in ((), *rows)]
  is_text = [
    (row >= 0) & (row < len(tokenizer)) & ~np.isin(row, dropped) for row in rows
  ]
  texts = tokenizer.batch_decode(
    [
      before + row[mask].tolist()
      for row, mask in zip(rows, is_text, strict=True)
    ],
    skip_special_tokens=False,
    clean_up_tokenization_spaces=False,
  )
  return [text[len(texts[0]) :] for text in texts[1:]]


def ids_containing(tokenizer: Tokenizer, separator: str) -> tuple[int, ...]:
  """Returns the ids of all tokens whose text contains the separator."""
  ids = np.arange(required_vocab_size(tokenizer))
  texts = decode(tokenizer, ids[:, None])
  return tuple(i for i, text in enumerate(texts) if separator in text)
