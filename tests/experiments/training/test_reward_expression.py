"""A reward is written as an expression, of which nothing is evaluated."""

import pytest

from experiments.training import reward_expression
from experiments.training.reward_expression import Schedule, Summand


@pytest.mark.parametrize(
  ("text", "calls", "summands", "rule"),
  [
    ("verdict()", {"verdict": "verdict()"}, [Summand("verdict")], "sum"),
    # The signs of a nested sum, and a product of numbers.
    (
      "task() - (2 * 3 * verdict() - 0.5 * quality)",
      {"task": "task()", "verdict": "verdict()"},
      [Summand("task"), Summand("verdict", -6.0), Summand("quality", 0.5)],
      "sum",
    ),
    (
      "task() - 2 * linear(1.0, -0.5, 40) * majority(threshold=0.5)",
      {"task": "task()", "majority": "majority(threshold=0.5)"},
      [
        Summand("task"),
        Summand("majority", Schedule("linear", -2.0, 1.0, 40)),
      ],
      "sum",
    ),
    # A reward that only gates, and one that only another one reads.
    (
      "ok = finished(); sure = negative_entropy(); "
      "3 * stratified(model='sure') * (ok > 0.25) * (answered > -1)",
      {
        "ok": "finished()",
        "sure": "negative_entropy()",
        "stratified": "stratified(model='sure')",
      },
      [Summand("stratified", 3.0, (("answered", -1.0), ("ok", 0.25)))],
      "sum",
    ),
    (
      "product(verdict(), 2 * mine.rewards:brevity(limit=3))",
      {"verdict": "verdict()", "brevity": "mine.rewards:brevity(limit=3)"},
      [Summand("verdict"), Summand("brevity", 2.0)],
      "product",
    ),
    # The colon within a text is none of a module.
    (
      "a = component(name='x:y'); a",
      {"a": "component(name='x:y')"},
      [Summand("a")],
      "sum",
    ),
  ],
)
def test_an_expression_is_parsed(text, calls, summands, rule):
  parsed = reward_expression.parse(text)
  assert parsed == (calls, tuple(summands), rule)
  assert list(parsed.calls) == list(calls)  # later ones read earlier ones


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "the last statement must be the reward"),
    ("a = task()", "the last statement must be the reward"),
    ("task() +", "invalid syntax"),
    ("task(", "EOF in multi-line statement; an example"),
    ("linaer(1.0, 0.0, 5) * task()", "did you mean 'linear'?"),
    ("mine.brief(room=3)", "is written mine:brief(...)"),
    ("task(); verdict()", "'task()' names no reward"),
    ("a = b = task(); a", "names no reward"),
    ("a = 3; a", "cannot read '3'"),
    ("task() * verdict()", "product(..., ...)"),
    ("0.5", "must have one reward"),
    ("'a' * task()", "neither a number, a reward"),
    ("task() / 2", "neither a number, a reward"),
    ("task() + task()", "two rewards have the name 'task'"),
    ("a = task(); a + a", "the part 'a' occurs twice"),
    ("task() * (verdict() > 0)", "nor a gate such as"),
    ("task() * (0 < right < 1)", "nor a gate such as"),
    ("task() * (right < 1)", "nor a gate such as"),
    ("linear(1, 0) * task()", "must have the first weight"),
    ("linear(1, 0, 0) * task()", "training steps: 1, 2, ..."),
    ("linear(1, 0, 4.5) * task()", "training steps: 1, 2, ..."),
    ("linear(1, 0, -4) * task()", "training steps: 1, 2, ..."),
    ("linear(1, 0, 2) * cosine(1, 0, 2) * task()", "at most one schedule"),
    ("task(__import__('os'))", "cannot read"),
  ],
)
def test_what_is_no_reward_is_refused(text, message):
  with pytest.raises(ValueError, match=r"^.+$") as error:
    reward_expression.parse(text)
  assert message in str(error.value)
