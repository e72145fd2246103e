"""A text task refuses a train file that holds prompts of its test file."""

import json

import pytest
from helpers import (
  small_chat,
  small_gsm8k,
  small_humaneval,
  small_instructions,
  small_math,
  small_sql,
  small_tools,
)

from experiments import tasks
from experiments.data import overlap

# Task -> the module that writes its files, the dataset's name, the key of the
# question, and the settings that the task needs in a test.
TASKS = {
  "gsm8k": (small_gsm8k, "gsm8k", "question", {}),
  "math": (small_math, "math", "problem", {}),
  "aime": (small_math, "aime24", "problem", {}),
  "amc": (small_math, "amc23", "problem", {}),
  "humaneval": (
    small_humaneval,
    "humaneval",
    "prompt",
    {"allow_unprotected": True},
  ),
  "instructions": (small_instructions, "ifeval", "prompt", {}),
  "sql": (small_sql, "sql", "question", {}),
  "tools": (small_tools, "tools", "prompt", {}),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  folder = tmp_path_factory.mktemp("tokenizer")
  small_chat.write(folder, template="")
  return str(folder)


def make(name, folder, tokenizer):
  """Builds a task from the files in `folder`."""
  return tasks.get(
    name,
    folder=str(folder),
    cache=str(folder / "cache"),
    tokenizer=tokenizer,
    **TASKS[name][3],
  )


@pytest.mark.parametrize("name", TASKS)
def test_a_shared_prompt_is_refused_with_both_files(name, tmp_path, tokenizer):
  small, dataset, key, _ = TASKS[name]
  arguments = () if dataset == "gsm8k" else (dataset,)
  small.write(tmp_path, *arguments)
  make(name, tmp_path, tokenizer)  # The files as written share no prompt.
  train = tmp_path / f"{dataset}_train.jsonl"
  test = tmp_path / f"{dataset}_test.jsonl"
  lines = [json.loads(line) for line in test.read_text().splitlines()[:2]]
  # Letter case is not compared, except that SQL and programs must still run.
  lines[0][key] = f" {lines[0][key]}"
  if name not in ("sql", "humaneval"):
    lines[1][key] = lines[1][key].replace(" ", "\n", 1).upper()
  with train.open("a") as file:
    file.writelines(json.dumps(line) + "\n" for line in lines)
  with pytest.raises(ValueError, match="share 2 of the") as error:
    make(name, tmp_path, tokenizer)
  assert str(train) in str(error.value)
  assert str(test) in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["gsm8k", "math"])
def test_a_test_file_equal_to_the_train_file_is_refused(
  name, tmp_path, tokenizer
):
  small, dataset, _, _ = TASKS[name]
  small.write(tmp_path)
  train = tmp_path / f"{dataset}_train.jsonl"
  (tmp_path / f"{dataset}_test.jsonl").write_bytes(train.read_bytes())
  count = small.TRAIN
  with pytest.raises(ValueError, match=f"share {count} of the {count} test"):
    make(name, tmp_path, tokenizer)


def test_a_normalized_question_ignores_case_space_and_composition():
  for one, other in (
    ("What  is\n2?", "what is 2? "),
    ("Caf\u00e9", "Cafe\u0301"),
    ("STRASSE", "straße"),
  ):
    assert overlap.normalize(one) == overlap.normalize(other)
  assert overlap.normalize("2 + 3") != overlap.normalize("2 + 4")
  # Superscripts are kept: x squared is not x2.
  assert overlap.normalize("x²") != overlap.normalize("x2")
