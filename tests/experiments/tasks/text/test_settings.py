"""What text tasks pass on to `text_task.build` by default, from small files.

The defaults are part of the meaning of a task's name in a config or a log. No
tokenizer is trained, and no worker starts.
"""

import dataclasses
import math
import random
from types import SimpleNamespace

import pytest
from helpers import (
  small_contests,
  small_gsm8k,
  small_humaneval,
  small_instructions,
  small_jsonl,
  small_math,
  small_sql,
  small_tools,
)

from experiments import tasks
from experiments.tasks.task import Task
from experiments.tasks.text import (
  gym,
  numbered_lists,
  open_questions,
  prompting,
  short_texts,
  text_options,
  text_task,
)
from rewards.verifiers import sandbox

FILES = {
  "gsm8k": small_gsm8k,
  "math": small_math,
  "aime": small_contests.AIME,
  "amc": small_contests.AMC,
  "humaneval": small_humaneval,
  "instructions": small_instructions,
  "sql": small_sql,
  "tools": small_tools,
}


class Pool:
  """Stands for `rewards.verifiers.pool.Pool`."""

  def __init__(self, verify, **settings):
    self.verify, self.settings = verify, settings


@pytest.fixture
def build(monkeypatch, tmp_path):
  """Returns what a task passes to `text_task.build`."""

  def record(name, splits, options, verify, **rest):
    build.call = SimpleNamespace(
      name=name, splits=splits, options=options, verify=verify, **rest
    )
    fields = {f.name: None for f in dataclasses.fields(Task)}
    return Task(**fields | {"fingerprints": {}})

  def build(task, **settings):
    if task in FILES:
      settings["folder"] = str(FILES[task].write(tmp_path / task))
      settings["cache"] = str(tmp_path / "cache")
    module = tasks.module(task if task not in ("aime", "amc") else "math")
    if hasattr(module, "Pool"):
      monkeypatch.setattr(module, "Pool", Pool)
    tasks.get(task, **settings)
    return build.call

  monkeypatch.setattr(text_task, "build", record)
  return build


POOL = {"workers": 4, "timeout": 10.0}
# Task -> dataset, L, T, size of the trained vocabulary, settings of the pool.
DEFAULTS = {
  "gsm8k": ("gsm8k", 256, 128, 2048, None),
  "math": ("math", 512, 1024, 2048, POOL),
  "aime": ("aime24", 1024, 4096, 2048, POOL),
  "amc": ("amc23", 1024, 4096, 2048, POOL),
  "instructions": ("ifeval", 512, 1024, 2048, POOL),
  "tools": ("tools", 2048, 512, 2048, None),
  "sql": ("sql", 2048, 512, 2048, {"workers": 4, "timeout": 30.0}),
  "short_texts": ("short_texts", 96, 64, 512, None),
  "numbered_lists": ("numbered_lists", 96, 96, 512, None),
  "open_questions": ("open_questions", 64, 128, 2048, None),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_lengths_and_limits_have_their_defaults(build, name):
  dataset, prompt_length, completion_length, vocab_size, pool = DEFAULTS[name]
  call = build(name)
  options = call.options
  assert call.name == dataset
  assert options.prompt_length == prompt_length
  assert options.completion_length == completion_length
  assert options.vocab_size == vocab_size
  assert (options.steps, options.max_steps) == (False, 16)
  assert getattr(call.verify, "settings", None) == pool
  # Without `reference=True` there are no views.
  assert not getattr(call, "answer_mark", "")


def test_gsm8k_has_longer_defaults_with_a_tokenizer_from_a_folder(build):
  options = build("gsm8k", tokenizer="folder").options
  assert (options.prompt_length, options.completion_length) == (512, 512)
  options = build("gsm8k", prompt_length=7, completion_length=9).options
  assert (options.prompt_length, options.completion_length) == (7, 9)
  call = build("gsm8k", reference=True)
  assert call.answer_mark == "####"
  assert call.write_answer("5") == "#### 5"
  assert call.description == "solution=equations"
  assert build("math", reference=True).answer_mark == "\\boxed{"


def test_humaneval_limits_programs_by_half_of_the_timeout(build, monkeypatch):
  monkeypatch.setattr(sandbox, "missing_protections", lambda: ())
  call = build("humaneval")
  options = call.options
  assert call.name == "humaneval"
  assert (options.prompt_length, options.completion_length) == (1024, 1024)
  for timeout, cpu_seconds in ((None, 5), (3.0, 2), (0.5, 1)):
    settings = {} if timeout is None else {"timeout": timeout}
    keywords = build("humaneval", **settings).verify.keywords
    assert keywords == {
      "limits": sandbox.Limits(
        seconds=timeout or 10.0, cpu_seconds=cpu_seconds
      ),
      "workers": None,
      "allow_unprotected": False,
    }
  for timeout in (0.0, -1.0, math.inf, math.nan):
    with pytest.raises(ValueError, match="must be positive and finite"):
      build("humaneval", timeout=timeout)


def test_jsonl_has_its_defaults(build, tmp_path):
  file = str(small_jsonl.write(tmp_path, 60))
  call = build("jsonl", file=file)
  options = call.options
  assert (options.prompt_length, options.completion_length) == (512, 512)
  assert call.verify.settings == {
    "workers": 4,
    "timeout": 10.0,
    "memory": 2**31,
    "start_timeout": 120.0,
  }
  assert call.parts == ()
  tenth = build("jsonl", file=file, test_fraction=0.1)
  assert call.splits == tenth.splits
  assert 0 < len(call.splits["test"]) < 15


def test_gym_has_its_defaults_and_other_seeds_in_the_test_split(
  build, monkeypatch
):
  """Questions repeat; a train question that is held out is left out."""
  made = []

  def make(dataset, seed, count, options):
    made.append((dataset, seed, count, options))
    numbers = range(7, 9) if seed else [0, 1, 0, 7, 2]
    return [{"question": f" {i}? ", "answer": f"{i} "} for i in numbers]

  monkeypatch.setattr(gym.puzzles, "make", make)
  call = build("gym")
  assert made == [
    ("chain_sum", 2**30, 200, {}),
    ("chain_sum", 0, 2000, {}),
  ]
  assert call.options.vocab_size == 512
  assert call.verify.settings == POOL
  assert call.verify.verify._arguments == ("chain_sum", {})
  texts = {
    split: [(x.question, x.solution, x.answer) for x in examples]
    for split, examples in call.splits.items()
  }
  assert texts == {
    "train": [(f"{i}?", f"<answer>{i}</answer>", str(i)) for i in range(3)],
    "test": [(f"{i}?", f"<answer>{i}</answer>", str(i)) for i in (7, 8)],
  }
  assert call.notes[0].startswith("2 train and 0 test questions came up")
  build("gym", problems=1, held_out=2**30)
  for settings in ({"problems": 0}, {"held_out": 2**30 + 1}):
    with pytest.raises(ValueError, match=r"must be from 1 to 2\^30"):
      build("gym", **settings)


def test_lists_are_all_combinations_in_the_order_of_a_seed(build):
  call = build("numbered_lists")
  assert call.description == "rules=5"
  questions = {
    split: [example.question for example in examples]
    for split, examples in call.splits.items()
  }
  subjects = numbered_lists.SUBJECTS
  held_out = [s for i, s in enumerate(subjects) if i % 5 == 4]
  for split, some in (
    ("train", [s for s in subjects if s not in held_out]),
    ("test", held_out),
  ):
    expected = [
      f"Write a numbered list of {number} {subject}. {rule.request}"
      for subject in some
      for number in ("three", "four", "five")
      for rule in numbered_lists.RULES.values()
    ]
    random.Random(0).shuffle(expected)
    assert questions[split] == expected
  by_question = {x.question: x for x in call.splits["test"]}
  words = ("wood", "stone", "water", "glass", "paper")
  for count, number in ((3, "three"), (4, "four"), (5, "five")):
    request = f"Write a numbered list of {number} {held_out[0]}. "
    example = by_question[f"{request}Every item is one word."]
    lines = [f"{i + 1}. {word}" for i, word in enumerate(words[:count])]
    assert example.solution == example.answer == "\n".join(lines)
    assert example.meta["items"] == count
  some = build("numbered_lists", rules=("capitals", "one_word"))
  assert some.description == "rules=('capitals', 'one_word')"
  for rules in ((), ("capitals", "capitals")):
    with pytest.raises(ValueError, match="one name or more, and no name twice"):
      build("numbered_lists", rules=rules)


def test_every_fourth_open_question_is_held_out(build):
  splits = build("open_questions").splits
  questions = [entry[0] for entry in open_questions.QUESTIONS]
  for split, is_test in (("train", False), ("test", True)):
    assert [x.question.partition("?")[0] + "?" for x in splits[split]] == [
      question
      for i, question in enumerate(questions)
      if (i % 4 == 3) == is_test
    ]


def test_short_texts_have_all_rules_alone_and_in_pairs(build):
  call = build("short_texts")
  assert call.description == "rules=24, rules_at_once=(1, 2)"
  for split, number in (("train", 2000), ("test", 256)):
    examples = call.splits[split]
    assert len(examples) == number
    counts = [len(example.meta["constraints"]) for example in examples]
    # One and two rules take turns.
    assert counts == [1, 2] * (number // 2)


def test_short_texts_combine_topics_and_rules_in_the_order_of_a_seed(build):
  names = ("capitals", "no_comma", "two_sentences")
  call = build("short_texts", rules=names, rules_at_once=(1,), problems=9)
  assert call.description == f"rules={names}, rules_at_once=(1,)"
  topics = short_texts.TOPICS
  for split, some, limit in (
    ("train", [t for i, t in enumerate(topics) if i % 5 != 4], 9),
    ("test", topics[4::5], 256),
  ):
    expected = [
      f"Write about {topic}. {short_texts.RULES[name].request}"
      for topic in some
      for name in names
    ]
    random.Random(0).shuffle(expected)
    questions = [example.question for example in call.splits[split]]
    assert questions == expected[:limit]
  one = build("short_texts", rules=names, problems=1, held_out=1)
  assert [len(one.splits[split]) for split in ("train", "test")] == [1, 1]
  for settings in ({"problems": 0}, {"held_out": 0}):
    with pytest.raises(ValueError, match="=0 must be at least 1"):
      build("short_texts", **settings)
  for settings in (
    {"rules": ()},
    {"rules": ("capitals", "capitals")},
    {"rules_at_once": (1, 1)},
  ):
    with pytest.raises(ValueError, match="and no value twice"):
      build("short_texts", **settings)


def test_rules_rewrite_a_text():
  text = "One two, three. Four five. Six."
  rules = short_texts.RULES
  three = "One two, three. Four five. Six."
  for name, expected in {
    "one_sentence": "One two, three.",
    "two_sentences": "One two, three. Four five.",
    "three_sentences": three,
    "at_most_15_words": "One two, three.",
    "at_most_25_words": "One two, three.",
    "20_to_30_words": " ".join([text] * 4),  # six words each
    "three_bullets": "* One two, three.\n* Four five.\n* Six.",
  }.items():
    assert rules[name].rewrite(text) == expected
  assert rules["three_sentences"].rewrite("A b. C.") == "A b. C. A b."
  assert rules["20_to_30_words"].rewrite("word") == " ".join(["word"] * 20)
  assert rules["20_to_30_words"].rewrite("") == " " * 19


@pytest.mark.parametrize(
  "value",
  [
    text_options.Example("?", "", ""),
    text_options.TextOptions(),
    next(iter(short_texts.RULES.values())),
    next(iter(numbered_lists.RULES.values())),
    prompting.Template(SimpleNamespace(added_tokens_decoder={}), False),
  ],
  ids=lambda value: type(value).__name__,
)
def test_values_of_text_tasks_cannot_be_changed(value):
  (name, *_) = (field.name for field in dataclasses.fields(value))
  with pytest.raises(dataclasses.FrozenInstanceError):
    setattr(value, name, None)


def test_lengths_are_at_least_1():
  one = {"prompt_length": 1, "completion_length": 1, "max_steps": 1}
  text_options.TextOptions(**one)
  for name in one:
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
      text_options.TextOptions(**{name: 0})
