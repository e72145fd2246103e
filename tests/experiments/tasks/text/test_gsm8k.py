"""GSM8K: its files without TensorFlow, the trained tokenizer, and the task."""

import gzip
import json
import sys

import jax
import numpy as np
import pytest
import transformers
from helpers import small_chat, small_gsm8k, small_math

from experiments import tasks
from experiments.data import json_lines, split_files, tfds
from experiments.tasks.text import gsm8k
from models import tokenizer
from rewards.verifiers import numbers

ANSWER = (
  "Weng earns 12/60 = $<<12/60=0.2>>0.2 a minute.\n"
  "So 50 minutes pay 0.2 x 50 = $<<0.2*50=10>>10.\n#### 10"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return small_gsm8k.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
  return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def build(folder, cache):
  def build(**settings):
    defaults = {"vocab_size": 300, "prompt_length": 80}
    return tasks.get(
      "gsm8k",
      folder=str(folder),
      cache=str(cache),
      **{**defaults, **settings},
    )

  return build


@pytest.fixture(scope="module")
def task(build):
  return build()


def expected(split):
  first, n = {
    "train": (0, small_gsm8k.TRAIN),
    "test": (small_gsm8k.TRAIN, small_gsm8k.TEST),
  }[split]
  rows = [small_gsm8k.row(i) for i in range(first, first + n)]
  return [(row["question"], row["answer"]) for row in rows]


def test_lines_are_read_unchanged_and_in_order(folder, cache):
  splits = tfds.read(split_files.find("gsm8k", folder), cache, gsm8k.FIELDS)
  assert splits == {
    split: [
      (f"gsm8k_{split}.jsonl line {line}", texts)
      for line, texts in enumerate(expected(split), 1)
    ]
    for split in split_files.SPLITS
  }
  assert "tensorflow" not in sys.modules


def test_the_data_folder_is_only_read(folder, task):
  del task  # it was built, so all data was prepared
  assert sorted(path.name for path in folder.iterdir()) == [
    "gsm8k_test.jsonl",
    "gsm8k_train.jsonl",
  ]


def test_the_fingerprint_changes_with_the_content(tmp_path):
  files = split_files.find("gsm8k", small_gsm8k.write(tmp_path))
  before = json_lines.fingerprint(files)
  assert json_lines.fingerprint(files) == before
  line = json.dumps({"question": "1 + 1?", "answer": "#### 2"})
  files["test"].write_text(line)
  assert json_lines.fingerprint(files) != before


def test_missing_data_is_one_clear_line(tmp_path, monkeypatch):
  monkeypatch.delenv(split_files.DATA_VARIABLE, raising=False)
  with pytest.raises(ValueError, match=r"no data folder .* EXTREMUM_DATA"):
    split_files.find("gsm8k")
  absent = tmp_path / "absent"
  with pytest.raises(ValueError, match=f"{absent}.* is not a folder"):
    split_files.find("gsm8k", absent)
  monkeypatch.setenv(split_files.DATA_VARIABLE, str(tmp_path))
  (tmp_path / "gsm8k-train.jsonl").touch()
  with pytest.raises(
    ValueError, match="nearest name in this folder is 'gsm8k-train"
  ):
    split_files.find("gsm8k")


@pytest.mark.parametrize("line", ["{", "[]", '{"question": "?"}'])
def test_a_malformed_line_is_named(tmp_path, line):
  files = split_files.find("gsm8k", small_gsm8k.write(tmp_path / "data"))
  with files["train"].open("a") as out:
    out.write(line + "\n")
  message = f"gsm8k_train.jsonl line {small_gsm8k.TRAIN + 1} "
  with pytest.raises(ValueError, match=message):
    tfds.read(files, tmp_path / "cache", gsm8k.FIELDS)


def test_a_line_keeps_its_number_and_its_file_may_be_zipped(tmp_path):
  rows = [json.dumps(small_gsm8k.row(i)) for i in range(2)]
  file = tmp_path / "GSM8K.jsonl.gz"
  file.write_bytes(gzip.compress("\n\n".join(rows).encode()))
  files = split_files.find("gsm8k", tmp_path)
  lines = tfds.read(files, tmp_path / "cache", gsm8k.FIELDS)
  assert [location for location, _ in lines["test"]] == [
    "GSM8K.jsonl.gz line 1",
    "GSM8K.jsonl.gz line 3",
  ]


def test_renderings_keep_the_answer():
  assert gsm8k.equations(ANSWER) == "12/60=0.2\n0.2*50=10\n#### 10"
  assert gsm8k.prose(ANSWER).startswith("Weng earns 12/60 = $0.2 a minute.\n")
  assert gsm8k.annotated(ANSWER) == ANSWER
  assert gsm8k.equations("By counting.\n#### 3") == "#### 3"
  for render in gsm8k.SOLUTIONS.values():
    assert numbers.final_answer(render(ANSWER)) == "10"


@pytest.mark.parametrize("solution", gsm8k.SOLUTIONS)
def test_demonstrations_are_the_dataset_in_each_rendering(build, solution):
  task = build(solution=solution, completion_length=200)
  problems = task.train(jax.random.key(0), 0, 4)
  completions, lengths = task.demonstrate(None, problems)
  for i, row in enumerate(problems.facts["row"]):
    question, answer = expected("train")[row]
    assert task.decode(problems.prompts[i]) == f"{question}\n"
    text = gsm8k.SOLUTIONS[solution](answer)
    assert task.decode(completions[i, : lengths[i]]) == f"{text}<eos>"


def test_an_epoch_holds_every_problem_once(task):
  def rows(step, n=1, key=0):
    return task.train(jax.random.key(key), step, n).ids.tolist()

  size = small_gsm8k.TRAIN
  epochs = [[rows(e * size + i)[0] for i in range(size)] for e in (0, 1)]
  assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(size))
  assert epochs[0] != epochs[1]
  assert epochs[0] != [rows(i, key=1)[0] for i in range(size)]
  # A batch across the end of an epoch is the end of one and start of the next.
  assert rows(2, n=10) == (epochs[0] + epochs[1])[20:30]


def test_the_test_set_is_the_test_file_permuted(task):
  size = small_gsm8k.TEST
  problems = task.test(size)
  ids = problems.ids.tolist()
  assert sorted(ids) == list(range(2**30, 2**30 + size))
  order = np.random.default_rng(0).permutation(size)
  np.testing.assert_array_equal(ids, 2**30 + order)
  assert task.test(3).ids.tolist() == ids[:3]
  for i, prompt in zip(ids, problems.prompts, strict=True):
    question, _ = expected("test")[i - 2**30]
    assert task.decode(prompt) == f"{question}\n"


def test_the_default_prompt_length_depends_on_the_tokenizer(
  folder, cache, tmp_path
):
  def build(**settings):
    return tasks.get("gsm8k", folder=str(folder), cache=str(cache), **settings)

  small_chat.write(tmp_path)
  trained, loaded = build(vocab_size=300), build(tokenizer=str(tmp_path))
  assert (trained.prompt_length, loaded.prompt_length) == (256, 512)
  assert build(vocab_size=300, prompt_length=99).prompt_length == 99


def test_two_tasks_may_read_other_fields_of_the_same_files(folder, cache):
  files = split_files.find("gsm8k", folder)
  assert json_lines.fingerprint(files) != json_lines.fingerprint(
    files, ("question",)
  )
  # GSM8K's fields and MATH's fields in the same lines.
  mixed = [{**small_gsm8k.row(i), **small_math.row(i)} for i in range(10)]
  for split, rows in zip(
    split_files.SPLITS, (mixed[:5], mixed[5:]), strict=True
  ):
    content = "\n".join(map(json.dumps, rows))
    (cache / f"gsm8k_{split}.jsonl").write_text(content)
  where = {"folder": str(cache), "cache": str(cache / "mixed")}
  settings = {**where, "vocab_size": 300}
  first = tasks.get("gsm8k", **settings)
  second = tasks.get("math", dataset="gsm8k", **settings)
  assert first.decode(first.test(1).prompts[0]).startswith("Ann has")
  assert second.decode(second.test(1).prompts[0]).startswith("What is")


def complete(task, problems, texts, finished=True):
  """Judges one text per problem, in tokens of the trained tokenizer."""
  decoded = {task.decode([i]): i for i in range(task.vocab_size)}
  ids = [[decoded[letter] for letter in text] for text in texts]
  lengths = np.array([[len(row)] for row in ids], np.int32)
  completions = np.full((len(ids), 1, lengths.max()), task.pad_id, np.int32)
  for i, row in enumerate(ids):
    completions[i, 0, : len(row)] = row
  return task.score(
    problems, completions, lengths, np.full(lengths.shape, finished)
  )


def test_only_the_final_number_of_a_finished_text_counts(task):
  problems = task.test(3)
  truth = [
    numbers.final_answer(expected("test")[r - small_gsm8k.TRAIN][1])
    for r in problems.facts["row"]
  ]
  right = [f"2+2=5\n#### {t}.0" for t in truth]
  judged = complete(task, problems, right)
  assert judged.correct.tolist() == [[1], [1], [1]]
  assert judged.scores.tolist() == [[1.0], [1.0], [1.0]]
  cut = complete(task, problems, right, finished=False)
  assert cut.correct.tolist() == [[0], [0], [0]]
  assert cut.answer_ids.tolist() == [[-1], [-1], [-1]]
  wrong = complete(task, problems, [f"#### {t}1" for t in truth])
  assert wrong.correct.tolist() == [[0], [0], [0]]
  assert (wrong.answer_ids >= 0).all()
  assert (wrong.components["answered"] == 1.0).all()


def test_equal_numbers_vote_together(task):
  problems = task.test(4)
  judged = complete(task, problems, ["#### 7", "#### 7.0", "#### 8", "seven"])
  a, b, c, d = judged.answer_ids[:, 0].tolist()
  assert a == b != c
  assert d == -1


def test_problems_with_long_solutions_are_left_out_of_training(build):
  lengths = build().demonstrate(None, build().train(jax.random.key(0), 0, 23))[
    1
  ]
  shorter = int(lengths.max()) - 1
  assert lengths.min() < lengths.max()
  task = build(completion_length=shorter)
  trained_on = {
    i for step in range(23) for i in task.train(jax.random.key(0), step, 1).ids
  }
  assert len(trained_on) == (lengths <= shorter).sum() < 23
  # The test set does not change with the length of solutions.
  everything = task.test(small_gsm8k.TEST)
  assert len(everything.ids) == small_gsm8k.TEST
  with pytest.raises(ValueError, match=f"completion_length={shorter} is too"):
    task.demonstrate(None, everything)
  with pytest.raises(ValueError, match="no train problem of gsm8k fits"):
    build(completion_length=2)


def test_bad_settings_name_the_nearest_valid_choice(build):
  with pytest.raises(ValueError, match="'equation'; did you mean 'equations'"):
    build(solution="equation")
  with pytest.raises(ValueError, match=r"vocab_size=100 .* be at least 258"):
    build(vocab_size=100)


@pytest.fixture(scope="module")
def bpe():
  return tokenizer.train([q + a for q, a in expected("train")], 320)


@pytest.mark.parametrize(
  "text", ["Ann has 1,234 pears.\n#### 5", "  two  spaces ", "é ☃ 数", ""]
)
def test_any_text_survives_the_tokenizer(bpe, text):
  ids = bpe(text)["input_ids"]
  assert bpe.decode(ids) == text
  assert not {bpe.pad_token_id, bpe.eos_token_id} & set(ids)


def test_each_digit_has_its_token(bpe):
  ids = bpe("5 2024 16+5=21")["input_ids"]
  digits = [
    t for t in bpe.convert_ids_to_tokens(ids) if any(map(str.isdigit, t))
  ]
  assert digits == list("5202416521")


def test_training_is_deterministic_and_bounded(bpe):
  again = tokenizer.train([q + a for q, a in expected("train")], 320)
  assert again.get_vocab() == bpe.get_vocab()
  assert tokenizer.MIN_VOCAB_SIZE < len(bpe) <= 320
  assert (bpe.pad_token_id, bpe.eos_token_id) == (0, 1)


def test_a_saved_tokenizer_is_any_hugging_face_tokenizer(bpe, tmp_path):
  bpe.save_pretrained(tmp_path / "bpe")
  for load in (tokenizer.load, transformers.AutoTokenizer.from_pretrained):
    loaded = load(tmp_path / "bpe")
    text = "Then 16 + 5 = 21.\n#### 21"
    assert loaded(text)["input_ids"] == bpe(text)["input_ids"]
    assert loaded.pad_token_id == bpe.pad_token_id
    assert loaded.eos_token_id == bpe.eos_token_id
  with pytest.raises(ValueError, match=r"no tokenizer at .*absent"):
    tokenizer.load(tmp_path / "absent")


@pytest.mark.parametrize("text", ["{", "[]", "null"])
@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_an_unreadable_tokenizer_is_one_clear_error(bpe, tmp_path, file, text):
  bpe.save_pretrained(tmp_path)
  (tmp_path / file).write_text(text)
  with pytest.raises(ValueError, match="no readable tokenizer in"):
    tokenizer.load(tmp_path)
