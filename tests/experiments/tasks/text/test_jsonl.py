"""A user's file and verifier: the forms they may have, and every mistake."""

import contextlib
import hashlib
import json
import pickle
import sys

import jax
import numpy as np
import pytest
from etils import epath
from helpers import small_chat, small_jsonl, small_run

from experiments import tasks
from experiments.evaluation import summary
from experiments.logging import json_files
from experiments.tasks.text import jsonl
from experiments.training import build
from experiments.training_run import loop
from models import tokenizer
from rewards.verifiers import Item, Outcome, each
from rewards.verifiers.pool import Pool
from rl import errors, registry

REWARDS = """
import time
from rewards.verifiers import Outcome, each

LEVEL = 3


@each
def letters(completion, letters):
  return min(1.0, len(completion) / letters)


@each
def everything(prompt, completion, answer, **meta):
  return float(completion == f"{prompt}|{answer}|{meta['letters']}")


@each
def returns(completion):
  return {"None": None, "1.5": 1.5, "-1": -1, "nan": float("nan"),
          "text": "1", "one": True, "half": 0.5}[completion]


def half(completion):
  return 0.5


halves = each(half)


@each
def hangs(completion):
  time.sleep(1000 if completion == "hang" else 0)
  return 1


@each
def raises(completion):
  raise KeyError("oops")


@each
def elsewhere(completion, lettres):
  return 1


def graded(items):
  return [
    Outcome(0.25, 0, "", -1, parts={"form": 0.75}) for _ in items
  ]


def unsure(items):
  return [Outcome(0.0, -1, "", -1) for _ in items]


def forgotten(completion, answer):
  return 1
"""


@pytest.fixture(scope="module", autouse=True)
def working_directory(tmp_path_factory):
  """A current folder with the user's module, on the path as by `python -m`."""
  folder = tmp_path_factory.mktemp("mine")
  (folder / "my_verifier.py").write_text(REWARDS)
  (folder / "my_broken.py").write_text("import nothing_of_the_kind\n")
  (folder / "my_syntax.py").write_text("def (:\n")
  with pytest.MonkeyPatch.context() as patched:
    patched.chdir(folder)
    patched.syspath_prepend(str(folder))
    yield folder
  for name in ("my_verifier", "my_broken", "my_syntax"):
    sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def pears(working_directory):
  return small_jsonl.write(working_directory)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
  folder = tmp_path_factory.mktemp("bare")
  small_chat.write(folder, template="")
  return str(folder)


@pytest.fixture(scope="module")
def make(bare):
  def make(file="", **settings):
    usual = {"tokenizer": bare, "workers": 1, "prompt_length": 40}
    usual |= {"completion_length": 40}
    return tasks.get("jsonl", file=str(file), **{**usual, **settings})

  return make


def write(folder, *rows, name="rows.jsonl"):
  """Writes a file, one line per row; a row that is a text is written as is."""
  lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
  path = folder / name
  path.write_text("\n".join(lines) + "\n")
  return str(path)


def only(folder, *rows):
  """Returns the settings of a task whose rows are all held out."""
  return {"test_file": write(folder, *rows)}


def judge(task, folder, *texts):
  """Judges texts as completions of the first problem."""
  rows = tokenizer.encode(
    tokenizer.load(folder), [f"{text}<eos>" for text in texts], ("<eos>",)
  )
  lengths = np.array([[len(row) for row in rows]], np.int32)
  completions = np.zeros((1, len(rows), lengths.max()), np.int32)
  for i, row in enumerate(rows):
    completions[0, i, : len(row)] = row
  return task.score(
    task.test(1), completions, lengths, np.ones(lengths.shape, bool)
  )


def verdicts(verify, *completions, **meta):
  items = [Item("?", text, "Pear", meta) for text in completions]
  return verify(items)


def test_the_default_verifier_ignores_case_and_punctuation(
  make, bare, tmp_path
):
  row = {"prompt": "Capital?", "answer": "Paris"}
  task = make(**only(tmp_path, row))
  judged = judge(task, bare, "Paris", "the paris.", "Answer: Paris", "Rome")
  assert judged.correct.tolist() == [[1, 1, 1, 0]]
  assert "file='rows.jsonl'" in task.name
  assert "match:normalized" in task.name


@pytest.mark.parametrize("name", ["maths", "numbers"])
def test_a_reference_that_cannot_be_read_is_matched_as_text(
  make, bare, tmp_path, name
):
  row = {"prompt": "Sum?", "answer": "\\int x"}
  verifier = f"rewards.verifiers.{name}:verify"
  task = make(verifier=verifier, **only(tmp_path, row))
  answers = ("#### 7", "#### \\int x")
  judged = judge(task, bare, *answers)
  assert judged.correct.tolist() == [[0, 1]]
  assert judged.scored.all()
  (note,) = [note for note in task.notes if "only the same text" in note]
  assert note.startswith("jsonl: where a reference")


@pytest.mark.parametrize(
  ("row", "solution", "answer"),
  [
    ({"prompt": "?", "answer": 5}, "5", "5"),
    ({"question": " ? ", "answer": 2.5}, "2.5", "2.5"),
    ({"prompt": "?", "answer": "a", "solution": "so a"}, "so a", "a"),
    ({"prompt": "?", "answer": None, "solution": "b"}, "b", "b"),
  ],
)
def test_lines_have_a_prompt_and_a_reference(
  make, tmp_path, row, solution, answer
):
  task = make(**only(tmp_path, "", row, "  "))  # empty lines are skipped
  problem = task.test(1)
  assert task.decode(problem.prompts[0]) == "?\n"
  for write_out, text in ((task.demonstrate, solution), (task.gold, answer)):
    args = (problem,) if write_out is task.gold else (None, problem)
    completions, lengths = write_out(*args)
    assert task.decode(completions[0, : lengths[0]]) == f"{text}<eos>"


def test_a_hash_of_the_prompt_decides_who_is_held_out(make, tmp_path):
  """Appended lines move no problem, and equal prompts are on one side."""

  def sides(path):
    splits, *_ = jsonl._read_splits(path, "", 0.25, False)
    return {
      split: [example.question for _, example in examples]
      for split, examples in splits.items()
    }

  small = sides(str(small_jsonl.write(tmp_path / "small", 60)))
  large = sides(str(small_jsonl.write(tmp_path / "large", 400)))
  for split in ("train", "test"):
    assert large[split][: len(small[split])] == small[split]
  share = len(large["test"]) / 400
  assert abs(share - 0.25) < 4 * (0.25 * 0.75 / 400) ** 0.5
  rows = [small_jsonl.row(i % 40) for i in range(120)]
  twice = sides(write(tmp_path, *rows))
  assert not set(twice["train"]) & set(twice["test"])
  # So held-out problems keep their ids, by which runs are compared.
  short, long = (
    make(tmp_path / which / "pears.jsonl", test_fraction=0.25)
    for which in ("small", "large")
  )
  ids = np.sort(short.test(len(small["test"])).ids)
  assert set(ids) <= set(long.test(len(large["test"])).ids)


def test_prompts_that_differ_in_case_or_space_go_to_one_side(tmp_path):
  rows = [small_jsonl.row(i) for i in range(40)]
  variants = [{**row, "prompt": row["prompt"].upper()} for row in rows]
  variants += [
    {**row, "prompt": row["prompt"].replace(" ", "  ")} for row in rows
  ]
  path = write(tmp_path, *rows, *variants)
  splits, *_ = jsonl._read_splits(path, "", 0.25, False)
  test, train = (
    {" ".join(row.question.lower().split()) for _, row in splits[split]}
    for split in ("test", "train")
  )
  assert len(test) + len(train) == 40
  assert not test & train
  # The variants follow the first prompt, whose side does not change.
  alone, *_ = jsonl._read_splits(write(tmp_path, *rows), "", 0.25, False)
  assert splits["test"][: len(alone["test"])] == alone["test"]


def test_two_files_are_train_and_test(make, tmp_path):
  rows = [small_jsonl.row(i) for i in range(8)]
  first = write(tmp_path, *rows[:5], name="a.jsonl")
  second = write(tmp_path, *rows[5:], name="b.jsonl")
  task = make(first, test_file=second)
  problems = task.train(jax.random.key(0), 0, 5)
  texts = sorted(task.decode(prompt) for prompt in problems.prompts)
  assert texts == [f"Name pear {i}!\n" for i in range(5)]
  texts = sorted(task.decode(prompt) for prompt in task.test(3).prompts)
  assert texts == [f"Name pear {i}!\n" for i in range(5, 8)]
  both = write(tmp_path, *rows[3:], name="c.jsonl")
  message = (
    r"a\.jsonl and .*c\.jsonl share 2 of the 5 test prompts.*'Name pear 3!'"
  )
  with pytest.raises(ValueError, match=message):
    make(first, test_file=both)
  alone = make(test_file=second)
  with pytest.raises(ValueError, match="jsonl has no train problems"):
    alone.train(jax.random.key(0), 0, 1)


def test_a_verifier_receives_the_values_that_it_names(make, bare, tmp_path):
  rows = only(tmp_path, {"prompt": "Tree?", "answer": "a", "letters": 4})
  task = make(verifier="my_verifier:letters", **rows)
  judged = judge(task, bare, "12", "1234", "12345", "")
  assert judged.scores.tolist() == [[0.5, 1, 1, 0]]
  assert judged.correct.tolist() == [[0, 1, 1, 0]]
  assert judged.answer_ids[0, 3] == -1
  assert len(set(judged.answer_ids[0].tolist())) == 4
  task = make(verifier="my_verifier:everything", **rows)
  judged = judge(task, bare, "Tree?|a|4", "Tree?|a|5")
  assert judged.scores.tolist() == [[1, 0]]


def test_a_verifier_of_items_may_have_parts(make, bare, tmp_path):
  rows = only(tmp_path, {"prompt": "Tree?"})  # the verifier needs no reference
  task = make(verifier="my_verifier:graded", parts=("form",), **rows)
  judged = judge(task, bare, "a", "b")
  assert judged.scores.tolist() == [[0.25, 0.25]]
  assert judged.components["form"].tolist() == [[0.75, 0.75]]


@pytest.mark.parametrize(
  ("verifier", "parts", "message"),
  [
    ("graded", ("form", "nosuch"), "unknown part 'nosuch'.*available: form"),
    ("letters", ("nosuch",), "unknown part 'nosuch'.*available: none"),
    ("graded", "form", r"must be a tuple of names, such as \('form',\)"),
  ],
)
def test_a_part_that_the_verifier_does_not_have_is_refused(
  make, tmp_path, verifier, parts, message
):
  rows = only(tmp_path, {"prompt": "Tree?", "answer": "a", "letters": 4})
  with pytest.raises(ValueError, match=message) as error:
    make(verifier=f"my_verifier:{verifier}", parts=parts, **rows)
  assert "\n" not in str(error.value)


def test_parts_are_looked_for_in_a_few_references_of_each_split():
  """The first four of each split, with their indices among all problems."""
  judged = []

  def pool(items):
    judged.extend(items)
    return [Outcome(1.0, 1, "", 0, parts={"form": 1.0}) for _ in items]

  def example(i):
    solution = "" if i % 2 else f"s{i}"
    return jsonl.Example(f"q{i}", solution, f"a{i}", {"least": i})

  examples = [(f"line {i}", example(i)) for i in range(11)]
  splits = {"test": examples[6:], "train": examples[:6]}
  jsonl._check_parts("mine", pool, pool, ("form",), splits)
  expected = [(i, i % 2 == 0) for i in (0, 1, 2, 3, 6, 7, 8, 9)]
  assert [item.prompt for item in judged] == [f"q{i}" for i, _ in expected]
  assert [item.text for item in judged] == [
    f"s{i}" if has_solution else f"q{i}" for i, has_solution in expected
  ]
  assert [item.reference for item in judged] == [f"a{i}" for i, _ in expected]
  assert [item.meta for item in judged] == [
    {"least": i, "row": i} for i, _ in expected
  ]


@pytest.mark.parametrize(
  ("verdicts", "is_refused"),
  [((-1, -1), False), ((-1, 0), True), ((0, 0), True), ((1, -1), True)],
)
def test_a_part_is_refused_if_a_reference_was_judged_without_it(
  verdicts, is_refused
):
  def pool(items):
    assert len(items) == 2
    return [Outcome(0.0, verdict, "", -1) for verdict in verdicts]

  examples = [(f"line {i}", jsonl.Example(str(i), "", "")) for i in range(2)]
  expected = contextlib.nullcontext()
  if is_refused:
    expected = pytest.raises(ValueError, match="unknown part 'form'")
  with expected:
    jsonl._check_parts("mine", pool, pool, ("form",), {"test": examples})


def test_a_hash_is_a_number_from_0_to_1():
  for prompt in ("a", "Name a prime.", "é"):
    digits = hashlib.blake2b(prompt.encode()).hexdigest()[:12]
    assert jsonl._hash_to_unit(prompt) == int(digits, 16) / 16**12


def test_a_prompt_is_held_out_below_the_fraction(monkeypatch):
  monkeypatch.setattr(jsonl, "_hash_to_unit", float)
  examples = [
    (f"line {text}", jsonl.Example(text, "", ""))
    for text in ("0.1", "0.5", "0.9")
  ]
  train, test = jsonl._hold_out(examples, 0.5)
  assert (train, test) == (examples[1:], examples[:1])
  for fraction in (0.0, 1.0, -0.5, 1.5):
    with pytest.raises(ValueError, match="between 0 and 1, both excluded"):
      jsonl._hold_out(examples, fraction)


def test_a_verifier_of_this_codebase_is_the_nearest_module():
  with pytest.raises(
    ValueError, match=r"did you mean 'rewards\.verifiers\.match'"
  ):
    registry.load("verifier", "rewards.verifiers.mach:normalized")


def test_parts_are_accepted_where_no_reference_can_be_judged(make, tmp_path):
  rows = only(tmp_path, {"prompt": "Tree?", "answer": "a"})
  make(verifier="my_verifier:unsure", parts=("form",), **rows)


def test_invalid_returns_are_unscored_and_the_reason_is_logged(
  make, bare, tmp_path, caplog
):
  rows = only(tmp_path, {"prompt": "Tree?"})
  task = make(verifier="my_verifier:returns", **rows)
  texts = ("None", "1.5", "-1", "nan", "text", "what", "one", "half")
  judged = judge(task, bare, *texts)
  assert judged.scored.tolist() == [[False] * 6 + [True] * 2]
  assert judged.scores.tolist() == [[0] * 6 + [1, 0.5]]
  (line,) = caplog.messages
  assert line == (
    "my_verifier.returns: 6 of 8 items unscored; item 0: the verifier returned "
    "None, not a number from 0 to 1"
  )


def test_a_verifier_that_hangs_is_ended(make, bare, tmp_path):
  rows = only(tmp_path, {"prompt": "Tree?"})
  task = make(verifier="my_verifier:hangs", timeout=1.0, **rows)
  judged = judge(task, bare, "a", "hang", "b")
  assert judged.correct.tolist() == [[1, -1, 1]]
  assert judged.extras["timeout"].tolist() == [[0, 1, 0]]


def test_each_may_be_sent_to_another_process():
  """It is used as a decorator, and called on a function of another name."""
  import my_verifier

  for verify, text, score in (
    (my_verifier.letters, "12", 0.5),
    (my_verifier.halves, "a", 0.5),
  ):
    again = pickle.loads(pickle.dumps(verify))
    assert verdicts(again, text, letters=4)[0].score == score
    with Pool(verify, workers=1) as pool:
      assert verdicts(pool, text, letters=4) == verdicts(
        verify, text, letters=4
      )


def test_each_never_raises_over_what_an_item_says():
  @each
  def fails(completion):
    raise KeyError(completion)

  (outcome,) = verdicts(fails, "x")
  assert (outcome.verdict, outcome.score) == (-1, 0)
  place = errors.Place(__file__, fails.__wrapped__.__code__.co_firstlineno + 2)
  assert outcome.reason == f"KeyError: 'x' ({place})"

  @each
  def lacks(colour):
    return 1

  assert "colour" in verdicts(lacks, "x")[0].reason
  assert verdicts(lacks, "x", colour="red")[0].verdict == 1
  for value in (np.float32(1), np.bool_(True), 1, 1.0):
    assert each(lambda value=value: value)([Item("", "a", "")])[0].verdict == 1
  with pytest.raises(ValueError, match=r"'x' cannot be passed by name"):
    each(lambda x, /: 1)
  with pytest.raises(ValueError, match="'args' cannot be passed by name"):
    each(lambda *args: 1)


GOOD = {"prompt": "?", "answer": "a"}
VERIFIER_MISTAKES = {
  "my_verifier": (
    "has not the form 'module:function', such as 'my_verifier:large'"
  ),
  "my_verifier:": "has not the form 'module:function'",
  "my_verifier:a b": "has not the form 'module:function'",
  "my_verifiers:letters": "'my_verifiers'; did you mean 'my_verifier'",
  "my_verifier.py:letters": r"'my_verifier.py'; did you mean 'my_verifier'",
  "my_verifier:leters": "'leters'; did you mean 'letters'",
  "my_verifier:LEVEL": "unknown function of my_verifier 'LEVEL'",
  "my_broken:f": "cannot be imported: ModuleNotFoundError: No module",
  "my_syntax:f": "cannot be imported: SyntaxError",
  "my_verifier:forgotten": "cannot be called with a list of items .* @each",
  "my_verifier:elsewhere": (
    r"rows.jsonl line 1: unknown parameter 'lettres'; did you mean 'letters'"
  ),
}


@pytest.mark.parametrize("verifier", VERIFIER_MISTAKES)
def test_a_mistake_in_the_verifier_is_one_line(make, tmp_path, verifier):
  rows = only(tmp_path, {**GOOD, "letters": 3})
  with pytest.raises(ValueError, match=VERIFIER_MISTAKES[verifier]) as caught:
    make(verifier=verifier, **rows)
  assert "\n" not in str(caught.value)


def test_a_verifier_with_an_answer_refuses_lines_without_one(make, tmp_path):
  """With the answer "", `answer in completion` would always be true."""
  rows = only(tmp_path, {"prompt": "?", "Answer": "a", "letters": 3})
  with pytest.raises(ValueError, match=r"line 1: .*'answer'.*'Answer'"):
    make(verifier="my_verifier:everything", **rows)


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("{", "rows.jsonl line 2 is not JSON"),
    ("[" * 100_000, "rows.jsonl line 2 is not JSON"),
    ("[1]", r"line 2 is not a JSON object: \[1\]"),
    ({"answer": "a"}, "line 2 has no text under 'prompt' .*keys: 'answer'"),
    ({"prompt": " ", "answer": "a"}, "line 2 has no text under 'prompt'"),
    ({"prompt": ["?"], "answer": "a"}, "line 2 has no text under 'prompt'"),
    (
      {"prompt": "?", "answer": "a", "row": 1},
      "the key 'row' is reserved",
    ),
    ({}, "line 2 has no text under .* its keys: none"),
    ({"prompt": "?", "answer": ["a"]}, "line 2: 'answer' is a list; allowed"),
    ({"prompt": "?", "answer": True}, "line 2: 'answer' is a bool"),
    ({"prompt": "?", "solution": {}}, "line 2: 'solution' is a dict"),
    ({"prompt": "?"}, "line 2 has neither 'answer' nor 'solution', with which"),
    ('{"prompt": "?", "answer": NaN}', "line 2 is not JSON: NaN is no number"),
    (
      '{"prompt": "?", "answer": 1, "answer": 2}',
      "line 2 is not JSON: the key 'answer' occurs twice",
    ),
  ],
)
def test_a_mistake_in_a_line_is_named(make, tmp_path, line, message):
  with pytest.raises(ValueError, match=message) as caught:
    make(**only(tmp_path, GOOD, line))
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("number", "text"),
  [
    ("0.00001", "0.00001"),
    ("1e-7", "0.0000001"),
    ("-2.5E+3", "-2500.0"),
    ("1e22", "10000000000000000000000"),
    ("72.0", "72.0"),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
    ('" 1e-05 "', "1e-05"),  # a text is as it was written
  ],
)
def test_a_number_as_answer_is_a_plain_decimal(tmp_path, number, text):
  file = tmp_path / "rows.jsonl"
  file.write_text(f'{{"prompt": "?", "answer": {number}}}\n')
  ((_, example),) = jsonl._read_examples(epath.Path(file), True)
  assert example.answer == text


def test_prompts_with_several_answers_are_counted_in_a_note(make, tmp_path):
  rows = [
    {"prompt": "Largest?", "answer": "9"},
    {"prompt": "Smallest?", "answer": "1"},
    {"prompt": "Largest?", "answer": "9"},
    {"prompt": "Largest?", "answer": "8"},
  ]
  notes = make(**only(tmp_path, *rows)).notes
  (note,) = [note for note in notes if "another answer" in note]
  assert note.startswith("1 lines have the prompt of an earlier line")
  assert "rows.jsonl line 1 and rows.jsonl line 4" in note
  assert not any(
    "another answer" in note for note in make(**only(tmp_path, *rows[:3])).notes
  )


def test_a_mistake_in_the_file_is_named(make, pears, tmp_path):
  with pytest.raises(ValueError, match=r"no file '.*nearest.* 'pears.jsonl'"):
    make(pears.with_name("peers.jsonl"))
  with pytest.raises(ValueError, match=r"is a folder; .* 'pears\.jsonl'"):
    make(pears.parent)
  with pytest.raises(ValueError, match=r"rows.jsonl is empty"):
    make(**only(tmp_path, "", " "))
  with pytest.raises(ValueError, match=r"jsonl has no file; .*data\.file=FILE"):
    make()
  (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9", "answer": 1}')
  with pytest.raises(ValueError, match=r"latin\.jsonl cannot be read"):
    make(tmp_path / "latin.jsonl")
  for fraction in (0, 1, -0.5):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
      make(pears, test_fraction=fraction)
  few = write(tmp_path, GOOD)
  with pytest.raises(ValueError, match=r"of the 1 problems .* none for t"):
    make(few)
  with pytest.raises(ValueError, match="no train problems to train a token"):
    make(tokenizer="", **only(tmp_path, GOOD))
  with pytest.raises(ValueError, match="timeout is 0"):
    make(pears, timeout=0)


def judged_by(verifier, file, tmp_path, steps):
  """Returns a run on a file; half of the tokens end a completion."""
  hf_tokenizer = small_chat.write(tmp_path / "tokenizer", template="")
  stops = list(range(0, len(hf_tokenizer), 2))
  small_chat.write(tmp_path / "tokenizer", template="", stops=stops)
  config = small_run.config(
    task=f"jsonl(tokenizer={str(tmp_path / 'tokenizer')!r}, workers=1, "
    "prompt_length=24, completion_length=16)",
    data__file=str(file),
    verifier=verifier,
    rollout__max_tokens=4,
    rollout__samples=2,
    evaluation__problems=4,
    steps=steps,
  )
  return small_run.on_one_device(build.build(config))


def test_a_policy_trains_on_a_file_by_a_verifier(bare, pears, tmp_path):
  """The run of the README."""
  experiment = judged_by("my_verifier:letters", pears, tmp_path, steps=2)
  assert "my_verifier:letters" in experiment.task.name
  loop.run(experiment, tmp_path / "run")
  lines = json_files.read(tmp_path / "run" / "metrics.jsonl")
  earned = [line["reward/mean"] for line in lines if "reward/mean" in line]
  assert len(earned) == 2
  assert all(
    0 < mean < 1 for mean in earned
  )  # about half of the completions are blank


def test_a_verifier_that_always_raises_is_no_accuracy_of_zero(
  bare, pears, tmp_path, caplog, capsys
):
  """The warnings name its line, and the run what is not known."""
  experiment = judged_by("my_verifier:raises", pears, tmp_path, steps=1)
  assert experiment.task.needs_end
  loop.run(experiment, tmp_path / "run")
  line = REWARDS.splitlines().index('  raise KeyError("oops")') + 1
  warning = f"items unscored; item 0: KeyError: 'oops' (my_verifier.py:{line})"
  assert caplog.messages
  assert all(warning in message for message in caplog.messages)
  output = capsys.readouterr().out
  for step in (0, 1):
    assert f"the verifier judged no sample of step {step}, so" in output
  evaluation = summary.load(tmp_path / "run" / "evaluation.json")
  assert np.isnan(evaluation.estimates["accuracy/pass@1"].mean)
