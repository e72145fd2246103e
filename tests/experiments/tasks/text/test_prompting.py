"""How a prompt is cut, and where a trained tokenizer is kept."""

import hashlib
import json

import pytest

from experiments.tasks.text import prompting, text_options
from models import tokenizer


@pytest.mark.parametrize(
  ("ids", "length", "bos_id", "expected"),
  [
    ([1, 5, 6, 7], 2, 1, [1, 7]),
    ([1, 5, 6, 7], 3, 1, [1, 6, 7]),
    ([1, 5, 6, 7], 1, 1, [1]),
    ([1, 5, 6, 7], 4, 1, [1, 5, 6, 7]),
    ([1, 5, 6, 7], 9, 1, [1, 5, 6, 7]),
    ([1, 5, 6, 7], 2, None, [6, 7]),
    ([1, 5, 6, 7], 3, None, [5, 6, 7]),
    # The token of BOS is not the first one.
    ([5, 1, 6, 7], 2, 1, [6, 7]),
    ([5, 1, 6, 7], 3, 1, [1, 6, 7]),
  ],
)
def test_a_prompt_keeps_its_bos_and_its_last_tokens(
  ids, length, bos_id, expected
):
  assert prompting.shorten(ids, length, bos_id) == expected


def test_a_tokenizer_is_trained_once_and_kept_under_a_hash(
  tmp_path, monkeypatch
):
  texts = ["one two", "é"]
  digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
  cache = tmp_path / "a" / "b"
  folder = prompting.train_tokenizer(texts, 270, cache)
  assert folder == cache / f"tokenizer-{digest[:16]}-270"
  assert tokenizer.load(folder).decode(
    tokenizer.load(folder)("é").input_ids
  ) == ("é")
  assert [path.name for path in cache.iterdir()] == [folder.name]
  other = prompting.train_tokenizer(texts, 280, cache)
  assert other != folder
  monkeypatch.setattr(tokenizer, "train", None)
  assert prompting.train_tokenizer(tuple(texts), 270, cache) == folder


def test_a_tokenizer_that_was_saved_in_the_meantime_is_kept(tmp_path):
  hf_tokenizer = tokenizer.train(["one two"], 270)
  folder = tmp_path / "tokenizer"
  prompting._save_atomically(hf_tokenizer, folder)
  (folder / "mark").touch()
  prompting._save_atomically(hf_tokenizer, folder)
  assert (folder / "mark").exists()
  (tmp_path / "file").touch()
  with pytest.raises(OSError, match="file"):
    prompting._save_atomically(hf_tokenizer, tmp_path / "file")


def test_a_tokenizer_is_trained_on_questions_and_solutions(
  tmp_path, monkeypatch
):
  """A question ends with a line break, as in a prompt."""
  seen = []
  train = tokenizer.train
  monkeypatch.setattr(
    tokenizer,
    "train",
    lambda texts, size: seen.append(texts) or train(texts, size),
  )
  examples = [text_options.Example("2+3?", "5\n#### 5", "5")]
  options = text_options.TextOptions(vocab_size=260, cache=tmp_path)
  template, _ = prompting.load_template(examples, options, "Think.")
  assert seen == [["2+3?\n", "5\n#### 5"]]
  assert template.instruction == ""  # of a tokenizer that never saw it
