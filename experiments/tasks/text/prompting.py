"""From a question to the tokens of a prompt.

A row is a question, a worked solution and the reference answer. A tokenizer is
that of a folder, or is learnt from the rows. The question becomes a plain text,
or a conversation where the tokenizer has a chat template.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from models import tokenizer as tokenizers
from rl import choices

Tokenizer = tokenizers.Tokenizer

TOO_LONG = ("drop", "cut", "refuse")


class Row(NamedTuple):
  """A problem.

  Attributes:
    question: what is asked, stripped.
    solution: what imitation is shown, stripped; "" if there is none.
    answer: the reference, as the verifier reads it.
    meta: what else the verifier reads (tests, constraints), as `Item.meta`.
  """

  question: str
  solution: str
  answer: str
  meta: Mapping[str, Any] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Language:
  """A tokenizer and the tokens that mean something to a task.

  Attributes:
    tokenizer: texts to ids and back.
    stop_ids: tokens that end a completion.
    own: whether it was learnt from the task's own text, so that the policy
      reads nothing else.
  """

  tokenizer: Tokenizer
  stop_ids: tuple[int, ...]
  own: bool


@dataclasses.dataclass(frozen=True)
class Prompting:
  """How a question becomes a prompt.

  Attributes:
    chat: True writes a conversation with the tokenizer's chat template, False
      the text alone, "auto" the former where there is a template.
    instruction: a line after the question.
    system: the conversation's system turn, or the beginning of a plain text.
    thinking: what the template gets as `enable_thinking`; None: nothing.
    too_long: what is done with a prompt beyond the room for it: "drop" leaves
      the problem out, "refuse" raises, "cut" keeps the prompt's end after the
      BOS that it begins with, if it does: what goes is the beginning of the
      conversation, the system turn and the header of the user's included.

  Raises:
    ValueError: `chat` or `too_long` is none of these.
  """

  chat: bool | str = "auto"
  instruction: str = ""
  system: str = ""
  thinking: bool | None = None
  too_long: str = "drop"

  def __post_init__(self) -> None:
    if isinstance(self.chat, str) and self.chat != "auto":
      allowed = ("True", "False", "auto")
      raise ValueError(choices.unknown("chat", self.chat, allowed))
    if self.too_long not in TOO_LONG:
      raise ValueError(choices.unknown("too_long", self.too_long, TOO_LONG))

  def is_chat(self, tokenizer: Tokenizer) -> bool:
    """Whether prompts are conversations.

    Raises:
      ValueError: they must be, and the tokenizer has no chat template.
    """
    there = bool(tokenizer.chat_template)
    if self.chat is True and not there:
      raise ValueError(
        "chat=True, but the tokenizer has no chat template; allowed: "
        "chat=False or chat='auto'"
      )
    return there and self.chat is not False

  def encode(
    self, tokenizer: Tokenizer, questions: Sequence[str]
  ) -> list[list[int]]:
    """Ids of the prompt of each question."""
    after = f"\n{self.instruction}" if self.instruction else ""
    asked = [question + after for question in questions]
    if not self.is_chat(tokenizer):
      before = f"{self.system}\n" if self.system else ""
      texts = [f"{before}{text}\n" for text in asked]
      return tokenizers.text_prompts(tokenizer, texts)
    system = [{"role": "system", "content": self.system}]
    system = system if self.system else []
    conversations = [
      [*system, {"role": "user", "content": text}] for text in asked
    ]
    options = {}
    if self.thinking is not None:
      options["enable_thinking"] = self.thinking
    return tokenizers.chat_prompts(tokenizer, conversations, **options)


def normalized(question: str) -> str:
  """Returns a question without the differences that do not change the problem.

  Letter case, runs of white space and the Unicode form of accents are removed.
  Two questions with the same normalized form count as the same problem.

  Args:
    question: text of the question.
  """
  composed = unicodedata.normalize("NFC", question)
  return " ".join(composed.casefold().split())


def check_disjoint(
  name: str,
  splits: Mapping[str, Sequence[Row]],
  files: Mapping[str, os.PathLike],
) -> None:
  """Checks that no train question is also a test question.

  Questions are compared in their normalized form.

  Args:
    name: name of the task, for the message.
    splits: rows by split. A task without a train split passes.
    files: file of each split, for the message. A split without a file is named
      by the task.

  Raises:
    ValueError: if the splits share a question. The message names both files and
      the number of shared test questions.
  """
  test = {normalized(row.question) for row in splits.get("test", ())}
  shared = [
    row.question
    for row in splits.get("train", ())
    if normalized(row.question) in test
  ]
  if not shared:
    return
  train_file, test_file = (
    files.get(split, f"the {split} split of {name}")
    for split in ("train", "test")
  )
  count = len({normalized(question) for question in shared})
  raise ValueError(
    f"{train_file} and {test_file} share {count} of the {len(test)} test "
    f"prompts (letter case and white space ignored), the first is "
    f"{shared[0][:60]!r}. A test prompt must not be trained on; remove the "
    "shared prompts from the train file"
  )


def find(
  folder: str,
  splits: Mapping[str, Sequence[Row]],
  vocab_size: int,
  cache: Path,
) -> Language:
  """The tokenizer of a folder, or one learnt from the train split.

  Args:
    folder: of a Hugging Face tokenizer or model; "" learns a byte-level BPE.
    splits: its `train` is what is learnt from.
    vocab_size: largest number of tokens of the BPE.
    cache: folder that keeps the BPE, made once.

  Raises:
    ValueError: no tokenizer there, none of its tokens ends a completion, or
      there is nothing to learn from.
  """
  if folder:
    tokenizer = tokenizers.load(folder)
    stops = tokenizers.stop_ids(tokenizer, folder)
    return Language(tokenizer, stops, own=False)
  if "train" not in splits:
    raise ValueError(
      "there are no train problems to learn a tokenizer from; name a folder, "
      "tokenizer='FOLDER'"
    )
  if not cache.is_dir():
    texts = [
      text
      for row in splits["train"]
      for text in (f"{row.question}\n", row.solution)
    ]
    _keep_tokenizer(tokenizers.train(texts, vocab_size), cache)
  tokenizer = tokenizers.load(cache)
  return Language(tokenizer, (tokenizer.eos_token_id,), own=True)


def _keep_tokenizer(trained: Tokenizer, folder: Path) -> None:
  """Saves a tokenizer; another process may be doing the same."""
  with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
    whole = Path(scratch) / "tokenizer"
    tokenizers.save(trained, whole)
    try:  # a rename is atomic: no other process ever reads half a folder
      os.rename(whole, folder)
    except OSError:
      if not folder.is_dir():  # else another process was first
        raise
