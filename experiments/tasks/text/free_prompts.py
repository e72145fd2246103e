"""A task for a user's own prompts, without problems and scores.

With a chat template in the tokenizer's folder, a prompt is the user's turn of a
conversation. Otherwise it is a text that the policy continues. Completions
cannot be scored.
"""

from __future__ import annotations

from typing import Any, NoReturn

from experiments.tasks.task import Task
from experiments.tasks.text import prompting
from models import hf, tokenizer
from models.config import ModelConfig
from rl import UsageError

NAME = "free prompts"
# Largest number of tokens of a prompt with earlier turns, and of a completion.
PROMPT_LENGTH, COMPLETION_LENGTH = 2048, 256


def make_task(folder: str, model: ModelConfig) -> Task:
  """Makes the task for the tokenizer of a model folder.

  Args:
    folder: folder with the tokenizer.
    model: shape of the decoder; learned positions limit both lengths.

  Raises:
    UsageError: the folder has no tokenizer, or its vocabulary is larger than
      that of the model.
  """
  hf_tokenizer = tokenizer.load(folder)
  template = prompting.Template(
    tokenizer=hf_tokenizer,
    conversation=prompting.is_conversation(hf_tokenizer, "auto"),
  )
  end_ids = prompting.end_ids(template, folder)
  vocab_size = tokenizer.required_vocab_size(hf_tokenizer, end_ids)
  hf.check_tokenizer(model, vocab_size, folder)
  prompt_length, completion_length = PROMPT_LENGTH, COMPLETION_LENGTH
  if model.positions == "learned":
    completion_length = min(completion_length, model.max_positions // 2)
    prompt_length = min(prompt_length, model.max_positions - completion_length)

  def encode(text: str) -> list[int]:
    if template.conversation:
      return template.encode([text])[0]
    return tokenizer.text_prompts(hf_tokenizer, [text])[0]

  def decode(ids: Any) -> str:
    return tokenizer.decode(hf_tokenizer, [ids], end_ids)[0]

  pad_id = hf_tokenizer.pad_token_id
  return Task(
    name=NAME,
    vocab_size=vocab_size,
    eos_id=end_ids[0],
    stop_ids=end_ids[1:],
    pad_id=end_ids[0] if pad_id is None else pad_id,
    prompt_length=prompt_length,
    completion_length=completion_length,
    train=_refuse,
    test=_refuse,
    score=_refuse,
    demonstrate=_refuse,
    gold=_refuse,
    decode=decode,
    encode=encode,
    encode_turns=template.encode_turns if template.conversation else None,
    judged_spec=_refuse,
    jittable=False,
  )


def _refuse(*_: Any) -> NoReturn:
  raise UsageError(
    "without a task there are no held-out problems and no scores; name one "
    "with --task"
  )
