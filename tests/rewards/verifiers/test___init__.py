"""Items, outcomes, the ids of answers, and verifiers made of functions."""

import dataclasses
import math
import pickle
from fractions import Fraction

import pytest

from rewards.verifiers import Item, Outcome, answer_id, each, unscored


def test_items_and_outcomes_do_not_change():
  for value, name in ((Item("", "", ""), "prompt"), (unscored(""), "score")):
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(value, name, 1)


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
  assert sorted(fields) == ["answer", "completion", "prompt", "weight"]
  return fields["completion"] == fields["prompt"] + fields["answer"]


def half(completion, *, answer):
  return 0.5 if answer else 0.0


def test_the_function_gets_the_arguments_that_it_names():
  items = [
    Item("?", " a b ", "b", {"weight": 0.25, "other": 1, "answer": "x"}),
    Item("?", "b", "b"),
    Item("?", "a", "b"),
    Item("?", " ", " "),
  ]
  assert contains(items) == [
    Outcome(0.25, 0, "a b", answer_id("a b")),
    Outcome(1.0, 1, "b", answer_id("b")),
    Outcome(0.0, 0, "a", answer_id("a")),
    Outcome(1.0, 1, "", -1),
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


def test_an_error_is_the_reason_up_to_200_characters():
  def fail(completion):
    raise ValueError(completion)

  outcomes = each(fail)([Item("", text, "") for text in ("no", "x" * 300)])
  assert outcomes == [
    unscored("ValueError: no"),
    unscored("ValueError: " + "x" * 188),
  ]


def test_verifiers_are_pickled_by_name_or_by_function():
  assert pickle.loads(pickle.dumps(contains)) is contains
  copy = pickle.loads(pickle.dumps(each(half)))
  assert copy is not half
  assert copy([Item("", "x", "a")]) == [Outcome(0.5, 0, "x", answer_id("x"))]


def test_parameters_that_have_no_name_are_refused():
  for function in (lambda *values: 0, lambda x, /: 0):
    with pytest.raises(ValueError, match="cannot be passed by name"):
      each(function)
