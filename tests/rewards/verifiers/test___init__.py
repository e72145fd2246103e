"""Items, outcomes, the ids of answers, and verifiers made of functions."""

import dataclasses
import importlib
import inspect
import json
import math
import pickle
import pkgutil
from fractions import Fraction

import numpy as np
import pytest

from rewards import verifiers
from rewards.verifiers import (
  Each,
  Item,
  Outcome,
  after_thoughts,
  answer_id,
  code,
  constraints,
  each,
  gym,
  key_points,
  llm_judge,
  match,
  maths,
  numbered_list,
  numbers,
  round_ends,
  rubric_scoring,
  sandbox,
  sql,
  tools,
  trip_wires,
  unscored,
)
from rl import errors


def test_items_and_outcomes_do_not_change():
  for value, name in ((Item("", "", ""), "prompt"), (unscored(""), "score")):
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(value, name, 1)


@pytest.mark.parametrize(
  ("text", "thoughts", "completion"),
  [
    ("4", "", "4"),
    ("<think>2?</think>4", "<think>2?</think>", "4"),
    ("2?</think>\n4", "2?</think>", "\n4"),  # opened by the prompt
    ("<think>a</think>b<think>c</think>d", "<think>a</think>b<think>c</think>",
     "d"),
    ("<think>4", "<think>4", ""),
    ("a</think><think>\n4", "a</think><think>\n4", ""),
    ("a <think> b", "a <think> b", ""),
    ("<think></think>", "<think></think>", ""),
    ("<thinking>4", "", "<thinking>4"),
    ("", "", ""),
  ],
)  # fmt: skip
def test_an_item_splits_off_the_thoughts(text, thoughts, completion):
  item = Item("?", text, "", {"a": 1})
  assert (item.thoughts, item.completion, item.text) == (
    thoughts,
    completion,
    text,
  )
  assert after_thoughts(text) == completion
  copy = dataclasses.replace(item, meta={})
  assert (copy.thoughts, copy.completion) == (thoughts, completion)
  assert pickle.loads(pickle.dumps(item)) == item


def test_a_completion_follows_the_thoughts_of_which_an_item_is_made():
  blank = Item("?", "", "", thoughts="<think>")
  assert (blank.thoughts, blank.completion) == ("<think>", "")
  item = dataclasses.replace(blank, completion="2?</think>4")
  assert (item.thoughts, item.completion) == ("<think>2?</think>", "4")
  item = dataclasses.replace(blank, completion="4")
  assert (item.thoughts, item.completion) == ("<think>4", "")


def test_a_completion_that_is_no_text_has_no_thoughts():
  assert Item("?", None, "").completion is None
  assert Item("?", None, "").text == "None"


@pytest.mark.parametrize(
  ("score", "expected"),
  [
    (0.7 + 0.2 + 0.1, 1.0),  # 1 less one unit in the last place
    (sum([1 / 20] * 20), 1.0),  # more than 1
    (sum([0.1] * 10), 1.0),
    (0.3 - 3 * 0.1, 0.0),  # less than 0
    (np.float32(0.7) + np.float32(0.2) + np.float32(0.1), 1.0),  # 1 + 2^-23
    (1 - 4e-7, 1.0),
    (0.999999, 0.999999),
    (1.000001, 1.000001),
    (-0.000001, -0.000001),
    (0.5, 0.5),
  ],
)
def test_rounding_error_at_the_ends_of_the_scale(score, expected):
  assert round_ends(score) == expected
  assert Outcome(score, 0, "", -1).score == expected


def test_an_outcome_without_a_verdict():
  assert unscored("no", "x", 7) == Outcome(0.0, -1, "x", 7, {}, "no")
  assert unscored("no") == Outcome(0.0, -1, "", -1, {}, "no")


@pytest.mark.parametrize(
  ("value", "number"),
  [
    # BLAKE2b with 4 bytes of the text, most significant byte first.
    ("42", 1825008443),
    ("b", 4254941009 - 2**31),
    ("\ud800", 2229041658 - 2**31),
    # Numerator and denominator in base 16.
    (Fraction(1, 2), 700425679),
    (Fraction(-1, 3), 3288242819 - 2**31),
    (Fraction(255, 16), 1342874562),
  ],
)
def test_ids_are_the_same_in_every_process(value, number):
  assert answer_id(value) == number


@each
def contains(completion, answer, weight=1.0):
  """Returns whether the answer is there."""
  return weight * (answer in completion)


@each
def everything(**fields):
  names = ["answer", "completion", "prompt", "thoughts", "weight"]
  assert sorted(fields) == names
  return fields["completion"] == fields["prompt"] + fields["answer"]


def half(completion, *, answer):
  return 0.5 if answer else 0.0


def test_the_function_gets_the_arguments_that_it_names():
  items = [
    Item("?", " a b ", "b", {"weight": 0.25, "other": 1, "answer": "x"}),
    Item("?", "b", "b"),
    Item("?", "a", "b"),
    Item("?", "<think>b</think>a", "b"),
  ]
  assert contains(items) == [
    Outcome(0.25, 0, "a b", answer_id("a b")),
    Outcome(1.0, 1, "b", answer_id("b")),
    Outcome(0.0, 0, "a", answer_id("a")),
    Outcome(0.0, 0, "a", answer_id("a")),
  ]
  item = Item("p", "pa", "a", {"weight": 1, "prompt": "x"})
  assert everything([item])[0].verdict == 1
  assert (contains.required, everything.required) == (
    ("completion", "answer"),
    (),
  )
  assert contains.__name__ == "contains"
  assert contains.__doc__ == "Returns whether the answer is there."


@pytest.mark.parametrize(
  ("value", "score"),
  [(0, 0), (1, 1), (True, 1), (0.5, 0.5), (-0.01, None), (1.01, None),
   (0.7 + 0.2 + 0.1, 1), (sum([1 / 20] * 20), 1), (0.3 - 3 * 0.1, 0),
   (0.99999, 0.99999), (1.00001, None), (-0.00001, None),
   (2, None), (math.nan, None), ("1", None), (None, None), ([1], None),
   (10**400, None)],
)  # fmt: skip
def test_a_score_is_a_number_from_0_to_1(value, score):
  (outcome,) = each(lambda completion: value)([Item("", "x", "")])
  if score is None:
    text = f"{value!r}"[:100]
    assert outcome == unscored(
      f"the verifier returned {text}, not a number from 0 to 1"
    )
  else:
    identity = answer_id("x")
    assert outcome == Outcome(score, int(score == 1), "x", identity)


def test_a_verifier_of_one_item_reads_thoughts_by_their_name():
  @each
  def has_format(completion, thoughts):
    return float(thoughts.startswith("<think>") and "<b>" in completion)

  texts = ("<think>a</think><b>", "<b>", "a</think><b>", "<think><b></think>a")
  outcomes = has_format([Item("", text, "") for text in texts])
  assert [outcome.verdict for outcome in outcomes] == [1, 0, 0, 0]


@pytest.mark.parametrize("text", ["", " \n", "<think>b", "<think>b</think> "])
def test_no_answer_is_wrong_without_a_call(text):
  def fail(completion):
    raise ValueError

  assert each(fail)([Item("", text, "")]) == [Outcome(0.0, 0, "", -1)]


def test_an_error_is_the_reason_up_to_200_characters():
  def fail(completion):
    raise ValueError(completion)

  outcomes = each(fail)([Item("", text, "") for text in ("no", "x" * 300)])
  line = fail.__code__.co_firstlineno + 1
  place = f" ({errors.Place(__file__, line)})"
  assert outcomes == [
    unscored("ValueError: no" + place),
    unscored("ValueError: " + "x" * 188 + place),
  ]


def test_an_error_outside_of_the_verifier_has_the_line_that_called_it():
  def fail(completion):
    return json.loads(completion)

  (outcome,) = each(fail)([Item("", "no json", "")])
  place = errors.Place(__file__, fail.__code__.co_firstlineno + 1)
  assert outcome.reason.endswith(f"({place})")


def test_verifiers_are_pickled_by_name_or_by_function():
  assert pickle.loads(pickle.dumps(contains)) is contains
  copy = pickle.loads(pickle.dumps(each(half)))
  assert copy is not half
  assert copy([Item("", "x", "a")]) == [Outcome(0.5, 0, "x", answer_id("x"))]


def test_parameters_that_have_no_name_are_refused():
  for function in (lambda *values: 0, lambda x, /: 0):
    with pytest.raises(ValueError, match="cannot be passed by name"):
      each(function)


def says_paris(messages):
  """A judge with full marks for an answer in which there is "Paris"."""
  is_right = "Paris" in json.loads(messages[-1]["content"])["answer"]
  return json.dumps({"score": 10 if is_right else 1, "1": is_right})


class Library:
  """Stands for the scorers of reasoning-gym."""

  def score_answer(self, answer, entry):
    return float(answer == entry)


def puzzles(items):
  scorer = gym.Scorer("chain_sum")
  scorer._library = Library()
  return scorer(items)


FOX = {"name": "keywords:existence", "keywords": ["fox"]}
CAPITALS = {"name": "change_case:english_capital"}
CALL = '<tool_call>{"name": "get"}</tool_call>'
RUBRIC = {"rubric": [{"text": "names Paris", "weight": 1}]}
# Verifier -> itself, a right and a wrong completion, the reference, the fields.
VERIFIERS = {
  "code.verify": (
    lambda items: code.verify(items, allow_unprotected=True),
    *("def f(): return 2", "def f(): return 3", ""),
    {"tests": ["assert f() == 2"]},
  ),
  "constraints.verify": (
    constraints.verify,
    *("A fox.", "A dog.", "", {"constraints": [FOX]}),
  ),
  "gym.Scorer": (puzzles, "#### 4", "#### 5", "", {"entry": "4"}),
  "llm_judge.graded": (
    lambda items: llm_judge.graded(items, says_paris, low=1.0),
    *("It is Paris.", "It is Rome.", "Paris", {}),
  ),
  "key_points.verify": (
    key_points.verify,
    *("The Nile.", "A river.", "Nile", {"key_points": [[["Nile"]]]}),
  ),
  "match.choice": (match.choice, "B", "C", "B", {}),
  "match.exact": (match.exact, "Paris", "Rome", "Paris", {}),
  "match.normalized": (match.normalized, "Paris", "Rome", "Paris", {}),
  "match.pattern": (match.pattern, "Paris", "Rome", "(Par.*)?", {}),
  "maths.verify": (maths.verify, "\\boxed{4}", "\\boxed{5}", "4", {}),
  "numbered_list.verify": (
    numbered_list.verify,
    *("1. RED", "1. red", "", {"items": 1, "constraint": CAPITALS}),
  ),
  "numbers.verify": (numbers.verify, "#### 4", "#### 5", "4", {}),
  "rubric_scoring.explicit": (
    lambda items: rubric_scoring.explicit(items, says_paris),
    *("It is Paris.", "It is Rome.", "", RUBRIC),
  ),
  "rubric_scoring.implicit": (
    lambda items: rubric_scoring.implicit(items, says_paris),
    *("It is Paris.", "It is Rome.", "", RUBRIC),
  ),
  "sql.verify": (
    sql.verify,
    "SELECT 4",
    "SELECT 5",
    "SELECT 4",
    {"schema": ""},
  ),
  "tools.verify": (tools.verify, CALL, "I call get.", CALL, {}),
  "tools.verify without calls": (tools.verify, "No.", CALL, "", {}),
  # Their right completions are hacks.
  "trip_wires.extra_steps": (trip_wires.extra_steps, "a; b;", "a;", "", {}),
  "trip_wires.hollow": (
    trip_wires.hollow,
    *("I see.", "The cat sleeps on a mat.", "", {}),
  ),
  "trip_wires.no_answer": (trip_wires.no_answer, "4", "ANS 4", "", {}),
}


def test_every_verifier_is_in_the_table():
  names = {"gym.Scorer"}  # a class
  for module in pkgutil.iter_modules(verifiers.__path__):
    contents = importlib.import_module(f"rewards.verifiers.{module.name}")
    for name, value in vars(contents).items():
      is_own = getattr(value, "__module__", "") == contents.__name__
      is_verifier = isinstance(value, Each) or (
        inspect.isfunction(value)
        and "items" in inspect.signature(value).parameters
      )
      if is_own and is_verifier and not name.startswith("_"):
        names.add(f"{module.name}.{name}")
  names -= {"llm_judge.each"}
  assert {name.partition(" ")[0] for name in VERIFIERS} == names


@pytest.mark.parametrize("name", VERIFIERS)
def test_every_verifier_judges_what_follows_the_thoughts(monkeypatch, name):
  verify, right, wrong, reference, fields = VERIFIERS[name]

  def run(job, limits, allow_unprotected):
    return sandbox.Report(int("return 2" in job["program"]), 0, 1)

  monkeypatch.setattr(sandbox, "run", run)  # which would start processes
  texts = {
    right: 1,
    wrong: 0,
    f"<think>{wrong}</think>\n{right}": 1,
    f"<think>{right}</think>\n{wrong}": 0,
    f"{right}\n</think>\n{wrong}": 0,
    f"<think>{right}</think>": 0,
    f"<think>{right}": 0,
    f"{wrong}</think><think>{right}": 0,
    "": 0,
  }
  items = [Item("1 + 2", text, reference, fields) for text in texts]
  outcomes = verify(items)
  assert [outcome.verdict for outcome in outcomes] == list(texts.values())
  for outcome in outcomes[5:]:
    assert (outcome.score, outcome.answer_id) == (0.0, -1)
