"""HumanEval, instructions, tools, SQL and gym: files, prompts, scores, runs.

`test_tasks` tests the properties that every task has.
"""

import gzip
import json
import os
import pathlib
import sys

import jax
import numpy as np
import pytest
from helpers import (
  small_chat,
  small_humaneval,
  small_instructions,
  small_run,
  small_sql,
  small_tools,
)

from experiments import tasks
from experiments.data import json_lines, split_files
from experiments.logging import json_files
from experiments.training import build
from experiments.training_run import loop
from models import tokenizer
from rewards.verifiers import sandbox

FILES = {
  "humaneval": small_humaneval,
  "instructions": small_instructions,
  "tools": small_tools,
  "sql": small_sql,
}
COMPONENTS = {
  "humaneval": (),
  "instructions": ("strict", "loose", "all_loose"),
  "tools": ("format", "correctness"),
  "sql": ("execution", "syntax", "schema", "ngram", "format"),
  "gym": (),
}
WORKERS = {"instructions": 1, "sql": 1, "gym": 1}
LENGTHS = {"prompt_length": 160, "completion_length": 160}
MISSING = sandbox.missing_protections()
LACKS = f"this machine lacks {'; '.join(MISSING)}"
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=LACKS)
HUMANEVAL = pathlib.Path(
  os.environ.get("EXTREMUM_DATA", "/nonexistent"), "HumanEval.jsonl.gz"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """Tokenizer folders: no chat template, one, and several EOS tokens."""
  folders = {}
  for kind in ("text", "chat", "short"):
    folders[kind] = tmp_path_factory.mktemp(kind)
    template = small_chat.TEMPLATE if kind == "chat" else ""
    hf_tokenizer = small_chat.write(folders[kind], template)
  # Half of the tokens end a completion, so an untrained policy soon stops.
  stops = list(range(0, len(hf_tokenizer), 2))
  small_chat.write(folders["short"], "", stops)
  return folders


def make(name, files_folder, tokenizer_folder, **settings):
  """Builds a task on its small files, which are written to `files_folder`."""
  if name in FILES and "folder" not in settings:
    settings["folder"] = str(FILES[name].write(files_folder / name))
  if name in WORKERS:
    settings["workers"] = WORKERS[name]
  settings = {"instruction": "", **LENGTHS, **settings}
  return tasks.get(name, tokenizer=str(tokenizer_folder), **settings)


def judge(task, problems, texts, tokenizer_folder):
  """Judges one text per problem."""
  hf_tokenizer = tokenizer.load(tokenizer_folder)
  eos = task.eos_id
  ids = [[*i, eos] for i in tokenizer.encode(hf_tokenizer, texts)]
  lengths = np.array([[len(i)] for i in ids], np.int32)
  completions = np.full(
    (len(ids), 1, max(lengths.max(), 1)), task.pad_id, np.int32
  )
  for i, row in enumerate(ids):
    completions[i, 0, : len(row)] = row
  return task.score(
    problems, completions, lengths, np.ones(lengths.shape, bool)
  )


def first_prompts(task, n):
  """Returns the prompts of the first n test problems as texts."""
  return [task.decode(ids) for ids in task.test(n).prompts]


def check_refusal(folder, name, line, message, **settings):
  """Checks the error of a task whose files have this line alone."""
  (folder / "bad").mkdir(exist_ok=True)
  for split in ("train", "test"):
    (folder / "bad" / f"bad_{split}.jsonl").write_text(json.dumps(line) + "\n")
  with pytest.raises(ValueError, match=message) as caught:
    tasks.get(
      name,
      dataset="bad",
      folder=str(folder / "bad"),
      cache=str(folder),
      vocab_size=300,
      **settings,
    )
  assert "\n" not in str(caught.value)


# --- training ----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", COMPONENTS)
def test_a_tiny_policy_is_trained(name, folders, tmp_path):
  if name == "humaneval" and MISSING:
    pytest.skip(LACKS)
  settings = {**LENGTHS, "tokenizer": str(folders["short"]), "instruction": ""}
  changes = {}
  if name in WORKERS:
    settings["workers"] = WORKERS[name]
  if name in FILES:
    changes["data__folder"] = str(FILES[name].write(tmp_path / "data"))
  else:
    pytest.importorskip("reasoning_gym", reason="the extra .[gym]")
    settings |= {"problems": 20, "held_out": 6}
  written = ", ".join(f"{key}={value!r}" for key, value in settings.items())
  config = small_run.config(
    task=f"{name}({written})",
    rollout__max_tokens=4,
    rollout__samples=2,
    evaluation__problems=4,
    steps=2,
    **changes,
  )
  loop.run(small_run.on_one_device(build.build(config)), tmp_path / "run")
  lines = json_files.read(tmp_path / "run" / "metrics.jsonl")
  steps = [line for line in lines if "reward/mean" in line]
  assert len(steps) == 2
  for line in steps:
    assert 0 <= line["reward/mean"] <= 1
    assert line["length/mean"] >= 1
    assert line["verifier/unscored_frac"] == line["verifier/timeout_frac"] == 0
    for part in COMPONENTS[name]:
      assert np.isfinite(line[f"score/{part}/mean"])
    if name == "sql":
      assert line["score/execution/mean"] == line["accuracy/pass@1"]
    if name == "instructions":
      assert line["score/strict/mean"] == pytest.approx(line["reward/mean"])


# --- humaneval ---------------------------------------------------------------


@needs_sandbox
def test_humaneval_reads_the_published_file_name(folders, tmp_path):
  small_humaneval.write(tmp_path / "usual", train=False)
  text = (tmp_path / "usual" / "humaneval_test.jsonl").read_bytes()
  (tmp_path / "published").mkdir()
  zipped = gzip.compress(text)
  (tmp_path / "published" / "HumanEval.jsonl.gz").write_bytes(zipped)
  usual, published = (
    make("humaneval", tmp_path, folders["text"], folder=str(tmp_path / n))
    for n in ("usual", "published")
  )
  jax.tree.map(np.testing.assert_array_equal, published.test(6), usual.test(6))
  with pytest.raises(ValueError, match="humaneval has no train problems"):
    published.train(jax.random.key(0), 0, 2)


@needs_sandbox
def test_humaneval_continues_the_docstring_or_fences_the_function(
  folders, tmp_path
):
  continued = make("humaneval", tmp_path, folders["text"])
  chat = make("humaneval", tmp_path, folders["chat"], instruction=None)
  (prompt,), (fenced,) = first_prompts(continued, 1), first_prompts(chat, 1)
  assert prompt.startswith("import math\n\n\ndef add_")
  assert prompt.endswith('"""\n')
  assert f"```python\n{prompt}```" in fenced
  assert "in one block fenced as Python" in fenced
  for task in (continued, chat):
    problems = task.test(6)
    completions, lengths = task.gold(problems)
    judged = task.score(
      problems, completions[:, None], lengths[:, None], np.ones((6, 1), bool)
    )
    np.testing.assert_array_equal(judged.correct, 1)
  solution = chat.decode(chat.gold(chat.test(1))[0][0])
  assert f"```python\n{prompt}  return" in solution


@needs_sandbox
def test_humaneval_scores_assertions_and_counts_time_outs(folders, tmp_path):
  task = make("humaneval", tmp_path, folders["text"], timeout=2.0)
  problems = task.test(6)
  prompts = first_prompts(task, 6)
  plus = [int(text.split("plus ")[1].split(".")[0]) for text in prompts]
  texts = [
    f"  return x + {plus[0]}",
    f"  return {plus[1] + 1}",  # right for 1, the first of two assertions
    "  while True: pass",
    "  return None",
    prompts[4],
    "#" * 100,
  ]
  judged = judge(task, problems, texts, folders["text"])
  assert judged.correct[:, 0].tolist() == [1, 0, 0, 0, 0, 0]
  assert judged.scores[:, 0].tolist() == [1, 0.5, 0, 0, 0, 0]
  assert judged.extras["timeout"][:, 0].tolist() == [0, 0, 1, 0, 0, 0]
  assert judged.scored.all()


def test_humaneval_refuses_a_machine_without_protections(tmp_path, monkeypatch):
  monkeypatch.setattr(sandbox, "missing_protections", lambda: ("a lock",))
  with pytest.raises(ValueError, match=r"lacks a lock; allowed: .*allow_unpr"):
    make("humaneval", tmp_path, "")


@needs_sandbox
@pytest.mark.parametrize(
  ("key", "value", "message"),
  [
    (
      "test",
      None,
      r"bad_train.jsonl line 1 has no text under 'test'; its keys",
    ),
    ("entry_point", 3, "line 1 has no text under 'entry_point'"),
    ("prompt", " ", "line 1 has no text under 'prompt'"),
  ],
)
def test_humaneval_names_the_bad_line(key, value, message, tmp_path):
  check_refusal(
    tmp_path, "humaneval", {**small_humaneval.row(0), key: value}, message
  )


@needs_sandbox
def test_humaneval_refuses_no_time(tmp_path):
  check_refusal(
    tmp_path, "humaneval", {}, r"timeout=0 must be positive", timeout=0
  )


@needs_sandbox
@pytest.mark.skipif(not HUMANEVAL.exists(), reason="EXTREMUM_DATA lacks it")
def test_all_of_humaneval_is_read_and_its_solutions_are_right(folders):
  task = tasks.get(
    "humaneval",
    tokenizer=str(folders["text"]),
    prompt_length=2048,
  )
  problems = task.test(164)
  completions, lengths = task.gold(problems)
  finished = np.ones((164, 1), bool)
  judged = task.score(
    problems, completions[:, None], lengths[:, None], finished
  )
  assert judged.correct.sum() == judged.scores.sum() == 164


# --- instructions ------------------------------------------------------------


def test_instructions_score_the_share_and_forgive_an_introduction(
  folders, tmp_path
):
  task = make("instructions", tmp_path, folders["text"])
  problems = task.test(6)
  words = [text.split()[1] for text in first_prompts(task, 6)]
  texts = [
    f"{words[0]} {words[0]}",
    # The loose rule forgives the first line.
    f"Sure! Here it is:\n{words[1]} {words[1]}",
    f"{words[2]}, {words[2]}",
    first_prompts(task, 4)[3],
    "...\n\n---\n",
    words[5] * 40,
  ]
  judged = judge(task, problems, texts, folders["text"])
  third = 1 / 3
  np.testing.assert_allclose(
    judged.scores[:, 0], [1, 2 * third, 2 * third, third, 0, 2 * third]
  )
  assert judged.correct[:, 0].tolist() == [1, 0, 0, 0, 0, 0]
  parts = {
    name: part[:, 0].tolist() for name, part in judged.components.items()
  }
  assert parts["all_loose"] == [1, 1, 0, 0, 0, 0]
  assert parts["loose"][1] == 1
  np.testing.assert_array_equal(judged.components["strict"], judged.scores)


def test_instructions_without_solutions_cannot_be_imitated(folders, tmp_path):
  small_instructions.write(tmp_path)
  path = tmp_path / "ifeval_test.jsonl"
  rows = [json.loads(line) for line in path.read_text().splitlines()]
  text = "".join(json.dumps({**row, "solution": None}) + "\n" for row in rows)
  path.write_text(text)
  task = make("instructions", tmp_path, folders["text"], folder=str(tmp_path))
  task.demonstrate(jax.random.key(0), task.train(jax.random.key(0), 0, 4))
  with pytest.raises(ValueError, match=r"no solution to 'Say pear.*'solution'"):
    task.gold(task.test(2))


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (
      {"instruction_id_list": ["punctuation:no_coma"], "kwargs": [{}]},
      "line 1: unknown constraint 'punctuation:no_coma'; did you mean",
    ),
    (
      {"instruction_id_list": ["keywords:existence"], "kwargs": [{}]},
      "line 1: keywords:existence needs the argument 'keywords'",
    ),
    ({"kwargs": [{}]}, "line 1 has 3 instructions and 1 kwargs"),
    ({"instruction_id_list": [], "kwargs": []}, "has 0 instructions"),
    (
      {"kwargs": [1, 2, 3]},
      "line 1: 'kwargs' is .*; it must be a list of objects",
    ),
    ({"kwargs": None}, "line 1 has no lists 'instruction_id_list' and"),
    ({"solution": 3}, "line 1: 'solution' is a int; allowed: a text"),
  ],
)
def test_instructions_name_the_bad_line(change, message, tmp_path):
  line = {**small_instructions.row(0), **change}
  check_refusal(tmp_path, "instructions", line, message)


# --- tools -------------------------------------------------------------------


def block(*calls):
  return "\n".join(f"<tool_call>{json.dumps(c)}</tool_call>" for c in calls)


@pytest.fixture
def tools_case(folders, tmp_path):
  """A task of three lines, and its test problems in the order of the lines."""
  lines = [
    {"prompt": "Add 7.", "answer": [{"name": "add", "arguments": {"a": 7}}]},
    {
      "prompt": "Think, then add 1 and 2.",
      "tools": json.dumps(small_tools.TOOLS),
      "answer": "<think>so</think>\n<tool_call>\n"
      '{"name": "add", "parameters": {"a": 1}}\n'
      '{"name": "add", "parameters": {"a": 2}}\n</tool_call>',
    },
    {"prompt": "Hello!", "tools": small_tools.TOOLS, "answer": []},
  ]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  (tmp_path / "mine_test.jsonl").write_text(text)
  task = make(
    "tools",
    tmp_path,
    folders["text"],
    folder=str(tmp_path),
    dataset="mine",
  )
  order = np.argsort(task.test(3).ids)
  return task, jax.tree.map(lambda leaf: leaf[order], task.test(3))


@pytest.mark.parametrize(
  ("texts", "correct", "scores"),
  [
    (  # other spellings of the same calls
      [
        block({"name": "add", "parameters": {"a": 7.0}}),
        "<think>I add.</think><tool_call>"
        '[{"name": "add", "arguments": "{\\"a\\": 2}"}, '
        '{"function": {"name": "add", "arguments": {"a": 1}}}]</tool_call>',
        "Hello to you!",
      ],
      [1, 1, 1],
      [1, 1, 1],
    ),
    (  # a wrong value; one call of two; a call where none is to be made
      [
        block({"name": "add", "arguments": {"a": 8}}),
        block({"name": "add", "arguments": {"a": 1}}),
        block({"name": "add", "arguments": {"a": 1}}),
      ],
      [0, 0, 0],
      # 1 + 6 (1 + 1) / 3 of 7; 6 (1/2 + 1 + 1) / 5 of 7; no format
      [5 / 7, 3 / 7, 0],
    ),
    (  # no calls, which is right where no tool is needed
      ["add add add 7", '{"name": "add"', "add"],
      [0, 0, 1],
      [0, 0, 1],
    ),
    (
      ["<tool_call></tool_call>", "<tool_call>" * 9, "{"],
      [0] * 3,
      [1 / 7, 0, 0],
    ),
  ],
)
def test_tools_compare_calls(tools_case, folders, texts, correct, scores):
  task, problems = tools_case
  judged = judge(task, problems, texts, folders["text"])
  assert judged.correct[:, 0].tolist() == correct
  np.testing.assert_allclose(judged.scores[:, 0], scores, rtol=1e-6)
  terms = sum(judged.components[name] for name in ("format", "correctness"))
  np.testing.assert_allclose(  # the paper's reward, from -3 to 4, scaled
    judged.scores[:2], (terms[:2] + 3) / 7, rtol=1e-6
  )


def test_tools_stand_before_the_prompt(tools_case):
  task, problems = tools_case
  prompts = [task.decode(ids) for ids in problems.prompts]
  tool = json.dumps(small_tools.TOOLS[0])
  assert prompts == [
    "Add 7.\n",
    f"[{tool}]\n\nThink, then add 1 and 2.\n",
    f"{tool}\n\nHello!\n",
  ]


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"answer": None}, r"line 1 has no 'answer'.*\[\] where no call"),
    ({"answer": [{"arguments": {}}]}, "line 1: the calls of .* cannot be read"),
    ({"answer": "<tool_call>{</tool_call>"}, "the calls of .* cannot be read"),
    ({"tools": 3}, "line 1: 'tools' is a int; it must be a list or a text"),
    ({"prompt": ""}, "line 1 has no text under 'prompt'"),
  ],
)
def test_tools_name_the_bad_line(change, message, tmp_path):
  check_refusal(tmp_path, "tools", {**small_tools.row(1), **change}, message)


# --- sql ---------------------------------------------------------------------


def test_sql_runs_queries_on_scripts_and_files(folders, tmp_path):
  task = make("sql", tmp_path, folders["text"])
  problems = task.test(6)
  prompts = first_prompts(task, 6)
  pears = [int(text.rpartition("pear ")[2].split("?")[0]) for text in prompts]
  assert {i % 2 for i in pears} == {0, 1}  # databases from scripts and files
  assert all(text.startswith("CREATE TABLE pears (id INT") for text in prompts)
  assert not any("INSERT" in text for text in prompts)
  right = [f"SELECT grams FROM pears WHERE id IS {i}" for i in pears]
  judged = judge(task, problems, right, folders["text"])
  np.testing.assert_array_equal(judged.correct, 1)
  assert (judged.components["format"] == 0).all()  # they are not fenced
  assert (judged.components["ngram"] < 1).all()
  wrong = [
    "DROP TABLE pears",
    "SELECT 0",
    prompts[2],
    "```sql\n```",
    "select from where pears grams id " * 4,
    "SELECT id FROM pears",
  ]
  judged_wrong = judge(task, problems, wrong, folders["text"])
  np.testing.assert_array_equal(judged_wrong.correct, 0)
  assert judged_wrong.scores.max() < judged.scores.min()
  assert judged_wrong.components["syntax"][:, 0].tolist() == [0, 1, 0, 0, 0, 1]
  again = judge(task, problems, right, folders["text"])  # no table was dropped
  np.testing.assert_array_equal(again.correct, 1)


def test_sql_leaves_out_references_without_rows(folders, tmp_path):
  rows = [small_sql.row(i) for i in (0, 2, 4)]
  rows[1]["query"] = "SELECT grams FROM pears WHERE id = -1"
  rows[2]["query"] = "SELECT grams FROM apples"
  rows.append({**small_sql.row(6), "evidence": "Six is heavy."})
  text = "".join(json.dumps(row) + "\n" for row in rows)
  (tmp_path / "sql_test.jsonl").write_text(text)
  task = make("sql", tmp_path, folders["text"], folder=str(tmp_path))
  (note,) = [note for note in task.notes if "references" in note]
  assert note.startswith("sql test: 2 of 4 references")
  zero, six = sorted(first_prompts(task, 2))
  assert zero.endswith(";\n\nGrams of pear 0?\n")
  assert six.endswith(";\n\nSix is heavy.\n\nGrams of pear 6?\n")


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (
      {"schema": None},
      "line 1 must have exactly one of 'schema' and 'database'; it has neither",
    ),
    (
      {"database": "x"},
      "line 1 must have exactly one of .* it has schema and database",
    ),
    ({"schema": None, "database": "x.db"}, "line 1: no database 'x.db' in"),
    ({"schema": "CREATE pears"}, "line 1: no database: near"),
    ({"query": None}, "line 1 has no text under 'query'"),
    (
      {"query": "SELECT 1 WHERE 0"},
      "bad train: 1 of 1 references return no rows",
    ),
  ],
)
def test_sql_names_the_bad_line(change, message, tmp_path):
  check_refusal(tmp_path, "sql", {**small_sql.row(0), **change}, message)


# --- gym: see test_gym, which needs the library -----------------------------


def test_a_missing_library_is_named(monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, "reasoning_gym", None)
  with pytest.raises(ValueError, match=r"pip install 'extremum\[gym\]'"):
    tasks.get("gym", cache=str(tmp_path))


# --- files -------------------------------------------------------------------


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a_test.jsonl", b"", r"a_test.jsonl is empty; expected a JSON object"),
    ("a_test.jsonl", b'{"x": 1}\n\n[1]', r"line 3 is not a JSON object: \[1\]"),
    ("a_test.jsonl", b"\n{x}", r"a_test.jsonl line 2 is not JSON"),
    ("a_test.jsonl", b"\xff\xfe", r"a_test.jsonl cannot be read: "),
    ("a_test.jsonl.gz", b"no zip", r"a_test.jsonl.gz cannot be read: "),
    (
      "a_test.jsonl.gz",
      gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 30,
      r"a_test.jsonl.gz cannot be read: ",
    ),
    (
      "b_test.jsonl",
      b"{}",
      r"no 'a_test.jsonl' .*nearest name .*'b_test.jsonl'",
    ),
  ],
)
def test_files_that_cannot_be_read_are_named(name, content, message, tmp_path):
  (tmp_path / name).write_bytes(content)

  def read():
    return [
      json_lines.read(each)
      for each in split_files.find("a", str(tmp_path)).values()
    ]

  with pytest.raises(ValueError, match=message):
    read()


def test_a_folder_is_needed(tmp_path, monkeypatch):
  monkeypatch.delenv("EXTREMUM_DATA", raising=False)
  with pytest.raises(ValueError, match="no data folder for 'a': name a folder"):
    split_files.find("a")
  with pytest.raises(ValueError, match=r"nowhere' is not a folder"):
    split_files.find("a", str(tmp_path / "nowhere"))


def test_train_comes_before_test_and_a_file_before_its_gz(tmp_path):
  names = ("a_test.jsonl", "a_test.jsonl.gz", "A.jsonl", "a_train.jsonl.gz")
  for name in names:
    (tmp_path / name).write_text("")
  files = split_files.find("a", str(tmp_path))
  assert [(split, path.name) for split, path in files.items()] == [
    ("train", "a_train.jsonl.gz"),
    ("test", "a_test.jsonl"),
  ]
