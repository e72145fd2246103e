"""The task for a user's own prompts, made for the tokenizer of a folder."""

import json
from types import SimpleNamespace

import pytest
from helpers import small_chat

from experiments.tasks.text import free_prompts
from models import tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A chat tokenizer whose folder names three end tokens."""
  folder = tmp_path_factory.mktemp("chat")
  size = len(small_chat.write(folder))
  ids = {"eos_token_id": [1, size - 1, size - 2]}
  (folder / "generation_config.json").write_text(json.dumps(ids))
  return folder


def _model(size, **changes):
  usual = {"vocab_size": size, "positions": "rope", "max_positions": 40}
  return SimpleNamespace(**(usual | changes))


def test_a_completion_ends_at_any_end_token(folder):
  hf_tokenizer = tokenizer.load(str(folder))
  size = len(hf_tokenizer)
  task = free_prompts.make_task(str(folder), _model(size))
  turn_end = size - 2  # "<|end|>", before "<quick>"
  assert (task.eos_id, task.stop_ids) == (turn_end, (1, size - 1))
  assert (task.pad_id, task.vocab_size) == (0, size)
  assert (task.prompt_length, task.completion_length) == (2048, 256)
  assert not task.jittable
  ids = task.encode("7")
  assert hf_tokenizer.decode(ids) == "<|user|>7<|end|><|assistant|>"
  assert task.encode_turns is not None
  assert task.decode([*hf_tokenizer.encode("7"), turn_end]) == "7"


def test_learned_positions_hold_the_prompt_and_the_completion(folder):
  size = len(tokenizer.load(str(folder)))
  for positions, expected in ((40, (20, 20)), (1000, (744, 256))):
    model = _model(size, positions="learned", max_positions=positions)
    task = free_prompts.make_task(str(folder), model)
    assert (task.prompt_length, task.completion_length) == expected


def test_without_a_task_nothing_can_be_scored(folder):
  size = len(tokenizer.load(str(folder)))
  with pytest.raises(ValueError, match=f"the embedding has {size - 1} rows"):
    free_prompts.make_task(str(folder), _model(size - 1))
  task = free_prompts.make_task(str(folder), _model(size))
  for call in (task.train, task.test, task.score, task.gold):
    with pytest.raises(ValueError, match="name one with --task"):
      call(None)


def test_without_a_template_a_prompt_is_continued(tmp_path):
  """EOS is also the padding of a tokenizer that has none."""
  hf_tokenizer = small_chat.write(tmp_path, template="", stops=[1, 2])
  hf_tokenizer.pad_token = None
  hf_tokenizer.save_pretrained(tmp_path)
  task = free_prompts.make_task(str(tmp_path), _model(len(hf_tokenizer)))
  assert hf_tokenizer.decode(task.encode("7")) == "7"
  assert task.encode_turns is None
  assert (task.eos_id, task.stop_ids, task.pad_id) == (1, (2,), 1)
