"""Data, tokenizers and a maker of tasks, for tests of text tasks."""

import pytest
from helpers import small_chat, small_gsm8k, small_math

from experiments import tasks


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  small_math.write(folder)
  small_math.write(folder, "math500", train=False)
  return small_gsm8k.write(folder)


@pytest.fixture(scope="module")
def make(data, tmp_path_factory):
  cache = tmp_path_factory.mktemp("cache")

  def make(name="gsm8k", **settings):
    usual = {"prompt_length": 200, "completion_length": 120}
    usual |= {"folder": str(data), "cache": str(cache)}
    usual |= {"workers": 1} if name == "math" else {}
    return tasks.get(name, **{**usual, **settings})

  return make


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
  """Folder of a chat model's tokenizer with two tokens that end completions."""
  folder = tmp_path_factory.mktemp("chat")
  hf_tokenizer = small_chat.write(folder)
  end = hf_tokenizer.convert_tokens_to_ids(small_chat.TURN)
  small_chat.write(folder, stops=[hf_tokenizer.eos_token_id, end])
  return str(folder)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
  """Folder of a tokenizer without a chat template and a generation config."""
  folder = tmp_path_factory.mktemp("bare")
  small_chat.write(folder, template="")
  return str(folder)
