r"""Turns questions into the tokens of prompts.

The parts of this file are in the order in which a task needs them:

  tokenizer    from a Hugging Face folder, or a BPE trained on the task's texts
  template     the text around the question, of one of two kinds:
                 text          "2 + 3?\nBe brief.\n"
                 conversation  "<|user|>2 + 3?\nBe brief.<|end|><|assistant|>"
               A conversation is what the tokenizer's chat template writes.
  end tokens   the tokens that end a completion: EOS, <|end|>
  length       how a prompt that is too long is cut
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Sequence

from experiments.tasks.text.text_options import Example, TextOptions
from models import storage_paths, tokenizer
from rl import UsageError, registry

# A turn of a conversation: "role" ("user" or "assistant") and "content".
Turn = dict[str, str]

# --- Tokenizer ----------------------------------------------------------------


def train_tokenizer(
  texts: Sequence[str], vocab_size: int, cache: str | os.PathLike
) -> pathlib.Path:
  """Trains a byte-level BPE, unless the cache has it, and returns its folder.

  Args:
    texts: texts to train on. The folder's name has a hash of the texts and
      `vocab_size`, so a second call with both the same trains nothing.
    vocab_size: largest number of tokens.
    cache: local folder of all trained tokenizers.

  Raises:
    UsageError: if there are no texts, `vocab_size` has no room for the 256
      bytes, or `cache` is in a bucket.
  """
  if not texts:
    raise UsageError(
      "there are no train problems to train a tokenizer on; name the folder of "
      "a tokenizer with the setting tokenizer='FOLDER'"
    )
  digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]
  folder = storage_paths.require_local(cache, "cache").expanduser()
  folder /= f"tokenizer-{digest}-{vocab_size}"
  if not folder.is_dir():
    _save_atomically(tokenizer.train(texts, vocab_size), folder)
  return folder


def _save_atomically(
  hf_tokenizer: tokenizer.Tokenizer, folder: pathlib.Path
) -> None:
  """Saves a tokenizer so that no other process reads an incomplete folder."""
  folder.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
    complete = pathlib.Path(scratch) / "tokenizer"
    hf_tokenizer.save_pretrained(str(complete))
    try:
      os.rename(complete, folder)  # atomic within a file system
    except OSError:
      # Another process may have saved the same tokenizer first.
      if not folder.is_dir():
        raise


# --- Template -----------------------------------------------------------------


def is_conversation(
  hf_tokenizer: tokenizer.Tokenizer, chat: bool | str
) -> bool:
  """Returns whether prompts are conversations (True) or texts (False).

  Args:
    hf_tokenizer: the tokenizer, with or without a chat template.
    chat: True for a conversation, False for a text, "auto" for a conversation
      where the tokenizer has a chat template.

  Raises:
    UsageError: if `chat` is True and the tokenizer has no chat template.
  """
  has_template = bool(hf_tokenizer.chat_template)
  if chat is True and not has_template:
    raise UsageError(
      "chat=True, but the tokenizer has no chat template; allowed: "
      "chat=False or chat='auto'"
    )
  return has_template and chat is not False


@dataclasses.dataclass(frozen=True)
class Template:
  """The text around a question, and its tokens.

  Attributes:
    tokenizer: the tokenizer, with a chat template if `conversation`.
    conversation: True if a prompt is a conversation, False if it is a text.
    instruction: line after the question; "" adds none.
    system: system turn of a conversation, or first line of a text; "" adds
      none.
    thinking: value of the chat template's variable `enable_thinking`. None
      leaves the variable undefined.
    special_tokens: texts of special tokens that become these tokens in a
      question, a turn or a completion. Other ones become ordinary text there.
  """

  tokenizer: tokenizer.Tokenizer
  conversation: bool
  instruction: str = ""
  system: str = ""
  thinking: bool | None = None
  special_tokens: tuple[str, ...] = ()

  def __post_init__(self):
    added = self.tokenizer.added_tokens_decoder.values()
    known_tokens = sorted(token.content for token in added if token.special)
    for text in self.special_tokens:
      registry.check_known("special token", text, known_tokens)

  def encode(self, questions: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of one prompt per question.

    Raises:
      UsageError: if the chat template refuses a turn, such as the system turn.
    """
    if self.conversation:
      return self._encode_conversations(
        [[{"role": "user", "content": question}] for question in questions]
      )
    first_line = f"{self.system}\n" if self.system else ""
    texts = [
      f"{first_line}{self._request(question)}\n" for question in questions
    ]
    return tokenizer.text_prompts(self.tokenizer, texts, self.special_tokens)

  def encode_completions(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of texts that follow a prompt, without end token.

    A text that a policy continues has no space before its completion, and a
    turn of a conversation begins as the tokenizer begins a text.
    """
    encode = (
      tokenizer.encode if self.conversation else tokenizer.encode_continuation
    )
    return encode(self.tokenizer, texts, self.special_tokens)

  def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
    """Returns the token ids of a prompt that continues a conversation.

    Args:
      turns: turns of the user and the assistant in turn, the last one of the
        user. The instruction is added to each turn of the user, and the system
        turn is put before them.

    Raises:
      UsageError: if the chat template refuses a turn, or `conversation` is
        False.
    """
    if not self.conversation:
      raise UsageError("prompts are texts, which have no turns")
    return self._encode_conversations([turns])[0]

  def _encode_conversations(
    self, conversations: Sequence[Sequence[Turn]]
  ) -> list[list[int]]:
    """Returns the token ids of one prompt per conversation."""
    system_turns = []
    if self.system:
      system_turns = [{"role": "system", "content": self.system}]
    variables = {}
    if self.thinking is not None:
      variables["enable_thinking"] = self.thinking
    complete = [
      [
        *system_turns,
        *(
          turn | {"content": self._request(turn["content"])}
          if turn["role"] == "user"
          else turn
          for turn in turns
        ),
      ]
      for turns in conversations
    ]
    return tokenizer.chat_prompts(
      self.tokenizer, complete, self.special_tokens, **variables
    )

  def _request(self, question: str) -> str:
    """Returns a question with the instruction after it."""
    return f"{question}\n{self.instruction}" if self.instruction else question


# --- End tokens ---------------------------------------------------------------


def end_ids(template: Template, folder: str | os.PathLike) -> tuple[int, ...]:
  """Returns the tokens that end a completion.

  Demonstrations end with the first of them. The tokenizer's folder names some
  end tokens in its generation config. The assistant's turn of a conversation
  ends with another one (`<|end|>` above), which the folder of a base model
  names only in its chat template.

  Args:
    template: template of the prompts.
    folder: folder of its tokenizer.

  Returns:
    Token ids without repeats. The first is the end of the assistant's turn in a
    conversation whose template has one, or else EOS if the folder names it, or
    else the first end token that the folder names. The others follow.

  Raises:
    UsageError: if the folder names no token that ends a completion.
  """
  ids = tokenizer.stop_ids(template.tokenizer, folder)
  first_id = template.tokenizer.eos_token_id
  if first_id not in ids:
    first_id = ids[0]
  if template.conversation:
    turn_end_id = tokenizer.turn_end_id(template.tokenizer, ids)
    first_id = first_id if turn_end_id is None else turn_end_id
  return tuple(dict.fromkeys((first_id, *ids)))


def load_template(
  examples: Sequence[Example], options: TextOptions, instruction: str
) -> tuple[Template, tuple[int, ...]]:
  """Returns the template of prompts, with its tokenizer, and the end tokens.

  Without a tokenizer from a folder, a BPE is trained on the train examples.

  Args:
    examples: the train examples.
    options: the shared settings.
    instruction: the task's own line after the question.
  """
  folder = options.tokenizer
  if not folder:
    texts = []
    for example in examples:
      texts += [f"{example.question}\n", example.solution]
    folder = train_tokenizer(texts, options.vocab_size, options.cache)
    instruction = ""
  if options.instruction is not None:
    instruction = options.instruction
  hf_tokenizer = tokenizer.load(folder)
  template = Template(
    tokenizer=hf_tokenizer,
    conversation=is_conversation(hf_tokenizer, options.chat),
    instruction=instruction,
    system=options.system,
    thinking=options.thinking,
    special_tokens=tuple(options.special_tokens),
  )
  return template, end_ids(template, folder)


# --- Length -------------------------------------------------------------------


def shorten(ids: list[int], length: int, bos_id: int | None) -> list[int]:
  """Returns the last tokens of a prompt, at most `length`, with its BOS.

  The first tokens after BOS are cut, in a conversation the system turn and the
  header of the user's turn. With BOS 1,
  `shorten([1, 5, 6, 7], 2, 1)` is `[1, 7]`. A prompt of at most `length` tokens
  is returned as it is.

  Args:
    ids: token ids of the prompt.
    length: largest number of tokens, BOS included.
    bos_id: id of BOS; None if the tokenizer has none.
  """
  if len(ids) <= length:
    return ids
  bos = ids[:1] if ids[0] == bos_id else []
  return bos + ids[len(ids) - length + len(bos) :]
