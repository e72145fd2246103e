"""A small byte-level BPE: trained, saved and reloaded as a Hugging Face folder.

Digits are tokens of their own, so a number is written place by place and no
vocabulary entry hides its digits. Every byte has a token: there is no unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

PAD, EOS = "<pad>", "<eos>"
SMALLEST = 256 + len((PAD, EOS))  # every byte and the specials

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
    ValueError: there is no such folder.
  """
  if not Path(folder).is_dir():
    raise ValueError(f"no tokenizer at {str(folder)!r}; expected a folder")
  return transformers.AutoTokenizer.from_pretrained(
    str(folder), local_files_only=True
  )
