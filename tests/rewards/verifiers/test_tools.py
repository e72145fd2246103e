"""Tool calls: the card's number, bounds, invariances, and what is no call."""

import dataclasses
import itertools
import json
import random
import time

import pytest

from rewards.verifiers import Item, tools


def call(name, **parameters):
  return json.dumps({"name": name, "parameters": parameters})


def tagged(*calls, thought="I need a tool.", response=None):
  text = f"<think>{thought}</think>\n<tool_call>\n"
  text += "\n".join(calls) + "\n</tool_call>"
  return (
    text if response is None else f"{text}\n<response>{response}</response>"
  )


def correctness(calls, reference):
  return tools.correctness(tools.parse(calls), tools.parse(reference))


def outcome(completion, reference):
  return tools.verify([Item("?", completion, reference)])[0]


def test_the_cards_number():
  """One tool, two parameters, one value wrong: (1 + 1 + 1) of 4, so 1.5."""
  result = correctness(call("get", a=1, b=3), call("get", a=1, b=2))
  assert result == 6 * 3 / 4 - 3 == 1.5


def test_worked_by_hand():
  reference = call("get", a=1) + call("put", b=2)
  # names 1/2, get 1 + 1, put nothing: 2.5 of 1 + 2 + 2
  assert correctness(call("get", a=1), reference) == pytest.approx(0.0)
  # names 2/3 of a multiset, get 1/2 + 1 of 2 parameters
  twice = call("get", a=1, c=1) + call("get", c=1) + call("put", b=2)
  assert correctness(twice, reference) == pytest.approx(
    6 * (2 / 3 + 1.5 + 2) / 5 - 3
  )
  assert correctness(call("set", a=1), call("get", a=1)) == -3
  assert correctness(call("get"), call("get")) == 3
  assert correctness(call("get", a=1), call("get")) == 6 * (1 + 0) / 2 - 3


def test_format_and_correctness_are_named_and_bounded():
  right = tagged(call("get", a=1))
  bare = call("get", a=1)
  broken = tagged("{get a}")
  for text, format_score, correctness_score in (
    (right, 1.0, 3.0),
    (bare, 0.0, 3.0),
    (broken, 1.0, -3.0),
    ("So: " + right, 0.0, 3.0),
  ):
    parts = {"format": format_score, "correctness": correctness_score}
    assert outcome(text, right).parts == parts
  assert outcome(right, broken).verdict == -1


def test_no_call_to_make():
  reference = "<think>None is needed.</think>\n<response>Hello.</response>"
  assert outcome(reference, reference).verdict == 1
  assert outcome("<think>a</think><response>b</response>", reference).score == 1
  assert outcome(tagged(call("get", a=1)), reference).verdict == 0
  assert outcome(tagged(call("get", a=1)), reference).score == 0
  for completion in (call("get", a=1), "Hi."):
    parts = outcome(completion, reference).parts
    assert parts == {"format": 0.0, "correctness": 0.0}


@pytest.mark.parametrize(
  "completion",
  [
    "<think>a</think>\n<tool_call>x</tool_call>\n<tool_call>y</tool_call>",
    "<tool_call>x</tool_call>",
    "<tool_call>x</tool_call><think>a</think>",
    "So: <think>a</think><tool_call>x</tool_call>",
    "<think>a</think><tool_call>x</tool_call> Done.",
    "<think>a<tool_call>x</think></tool_call>",
    "<think>a</think>",
    "",
  ],
)
def test_the_format_is_the_references(completion):
  reference = tagged(call("get", a=1))
  assert tools.format_score(completion, reference) == 0.0
  assert (
    tools.format_score("<think>\n</think> <tool_call>x</tool_call>", reference)
    == 1.0
  )


@pytest.mark.parametrize(
  "reference",
  ["<think>a", "</think>a", "</think><think>", "<think><think>a</think>b"],
)
def test_a_reference_with_an_open_block_has_no_format(reference):
  assert tools.format_score(reference, reference) == 0.0


def test_without_tags_the_format_is_whether_there_is_a_call():
  calls = ("Hi.", call("get", a=1), "{get a}")
  assert [tools.format_score(text, "Hello.") for text in calls] == [1, 0, 0]
  assert [tools.format_score(text, call("put")) for text in calls] == [0, 1, 0]
  tagged_call = tagged(call("get", a=1))
  assert tools.format_score(tagged_call, "Hello.") == 0.0
  assert tools.format_score(tagged_call, call("put")) == 0.0


def test_a_text_has_at_most_256_calls():
  assert len(tools.parse(call("f") * 256)) == 256
  assert tools.parse(call("f") * 257) is None


def test_a_call_does_not_change():
  (parsed,) = tools.parse(call("f"))
  with pytest.raises(dataclasses.FrozenInstanceError):
    parsed.name = "g"


def random_calls(generator, maximum=4):
  names, keys, values = "fg", "ab", [0, 1, "x", None, [1, {"k": 2}]]
  return [
    call(generator.choice(names), **{
      key: generator.choice(values)
      for key in keys
      if generator.random() < 0.7
    })
    for _ in range(generator.randrange(1, maximum))
  ]  # fmt: skip


def test_bounds_and_invariance_under_order():
  generator = random.Random(0)
  for _ in range(200):
    calls, reference = random_calls(generator), random_calls(generator)
    value = correctness("\n".join(calls), "\n".join(reference))
    assert -3 <= value <= 3
    same = outcome("\n".join(calls), "\n".join(reference))
    assert (value == pytest.approx(3)) == (same.verdict == 1)
    for order in itertools.permutations(calls):
      assert correctness("\n".join(order), "\n".join(reference)) == value
    for order in itertools.permutations(reference):
      assert correctness("\n".join(calls), "\n".join(order)) == pytest.approx(
        value
      )


def greedy(calls, reference):
  """The source's rule: the reference's calls take the best that is left."""
  total = tools.jaccard((c.name for c in calls), (c.name for c in reference))
  left = list(calls)
  for truth in reference:
    ranked = [(tools._match(c, truth), -i) for i, c in enumerate(left)]
    best, place = max(ranked, default=(0.0, 0))
    if best > 0:
      total += best
      left.pop(-place)
  return 6 * total / (1 + sum(1 + len(c.parameters) for c in reference)) - 3


def test_never_below_the_greedy_rule_and_equal_with_one_call_of_each_tool():
  generator = random.Random(1)
  above = 0
  for _ in range(400):
    calls, truth = (
      tools.parse("\n".join(random_calls(generator))) for _ in range(2)
    )
    best, rule = tools.correctness(calls, truth), greedy(calls, truth)
    assert best >= rule - 1e-12
    if len({c.name for c in truth}) == len(truth):
      assert best == pytest.approx(rule)
    above += best > rule + 1e-9
  assert above  # the two do differ


def test_one_call_in_all_its_spellings():
  truth = call("get", a=1, b={"x": [1, 2], "y": None})
  arguments = {"b": {"y": None, "x": [1.0, 2]}, "a": 1}
  spellings = [
    json.dumps({"name": "get", "arguments": arguments}),
    json.dumps({"name": "get", "arguments": json.dumps(arguments)}),
    json.dumps([{"parameters": arguments, "name": "get"}]),
    json.dumps({"function": {"name": "get", "arguments": arguments}}),
    "```json\n" + truth + "\n```",
    f"<tool_call>{truth}</tool_call>",
    f"<think>First.</think>\n{truth}",
  ]
  ids = set()
  for spelling in spellings:
    result = outcome(spelling, truth)
    assert (result.verdict, result.answer != "") == (1, True), spelling
    ids.add(result.answer_id)
  assert len(ids) == 1


def test_a_multiset():
  one, two = call("f", a=1), call("f", a=2)
  assert outcome(two + one, one + two).verdict == 1
  assert outcome(one + one, one).verdict == 0
  assert outcome(one, one + one).verdict == 0
  assert outcome(one + one, one + one).verdict == 1
  blocks = f"<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>"
  assert (
    outcome(blocks, f"<tool_call>\n{two}\n{one}\n</tool_call>").verdict == 1
  )


@pytest.mark.parametrize(
  ("result", "truth"),
  [(True, 1), ("1", 1), (1.5, 1), (None, 0), (False, 0), ("", None), ([1], [])],
)
def test_values_of_different_kinds_differ(result, truth):
  assert outcome(call("f", a=result), call("f", a=truth)).verdict == 0


MALFORMED = [
  "<tool_call>",
  "</tool_call>",
  "<tool_call>{}</tool_call>",
  "<tool_call>get(a=1)</tool_call>",
  "<tool_call>" + call("f") + "</tool_call></tool_call>",
  "<tool_call><tool_call>" + call("f") + "</tool_call>",
  "</tool_call>" + call("f") + "<tool_call>",
  '{"name": "f", "parameters": [1]}',
  '{"name": "f", "parameters": "a"}',
  '{"name": 1, "parameters": {}}',
  '{"name": "f", "name": "g", "parameters": {}}',
  '{"name": "f", "parameters": {"a": 1, "a": 2}}',
  '{"name": "f", "parameters": {"a": NaN}}',
  '{"name": "f"} and so on',
  '{"name": "f"',
  '{"function": "f"}',
  "[{}]",
  '{"a":' * 20_000,
  "{" + "9" * 10**5,
  '{"name": "f", "parameters": {"a": ' + "9" * 10**5 + "}}",
  call("f") * 300,
]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_is_wrong_and_as_a_reference_unknown(text):
  assert tools.parse(text) is None
  result = outcome(text, call("f", a=1))
  assert (result.verdict, result.answer_id) == (0, -1)
  assert result.score <= 1 / 7
  unknown = outcome(call("f"), text)
  assert (unknown.verdict, unknown.score) == (-1, 0.0)
  assert unknown.reason


def test_null_audit():
  reference = tagged(call("get", city="Rome"), call("put", key="k", value=1))
  prompt = "Tools: get(city), put(key, value). Get Rome, put 1 at k."
  names = " ".join(["get", "put", "city", "key", "value", "Rome"] * 100)
  shells = ["get", "put"]
  nulls = [
    "",
    "yes",
    prompt,
    "<think></think><tool_call></tool_call>",
    "<tool_call></tool_call>" * 100,
    "\n" * 100,
    names,
    tagged(names),
    tagged(*[call(name) for name in shells]),
    tagged(*[call(n, city="", key="", value="") for n in shells]),
    tagged(*[call("get", city="Rome")] * 200),
    "x" * 10**5,
  ]
  right = outcome(reference, reference)
  assert (right.score, right.verdict) == (1.0, 1)
  unmodified = call("get", city="Rome") + call("put", key="k", value=1)
  for text in nulls:
    result = outcome(text, reference)
    assert result.verdict == 0
    assert result.score < outcome(unmodified, reference).score < 1


@pytest.mark.parametrize(
  "text",
  [
    "<tool_call>" * 9000,
    "</tool_call>" * 8000,
    "<think>" * 14_000,
    "```json " * 12_000,
    tagged(*[call("get", a=i) for i in range(2500)]),
    tagged(call("get", a="x" * 10**5)),
    "[" * 10**5,
    "[" + call("f") + ", " * 40_000,
  ],
)
def test_long_texts_take_a_short_time(text):
  reference = tagged(*[call("get", a=i) for i in range(8)])
  start = time.process_time()
  assert outcome(text, reference).verdict == 0
  assert time.process_time() - start < 2


def test_the_format_of_many_blocks_is_found_in_linear_time():
  block = "<tool_call>x</tool_call>\n"
  start = time.process_time()
  assert tools.format_score(block * 30 + "junk", block * 30) == 0.0
  assert tools.format_score(block * 30, block * 30) == 1.0
  assert time.process_time() - start < 0.5


def test_never_raises():
  for text in (None, 3, b"x", "\ud800", "\x00", '{"name": "\\ud800"}'):
    assert outcome(text, call("f")).verdict == 0
    assert outcome(call("f"), text).verdict in (-1, 0)
  assert tools.verify([]) == []


@pytest.mark.worked_example("function:tools.verify")
def test_scores_of_one_wrong_value_and_of_equal_calls():
  """R = format + correctness: 1 + 1.5, 0 + 1.5 and 1 + 3."""
  reference = tagged(call("get", a=1, b=2))
  wrong = call("get", a=1, b=3)
  results = [outcome(tagged(wrong), reference), outcome(wrong, reference)]
  results.append(outcome(tagged(call("get", b=2, a=1)), reference))
  # (R + 3) / 7
  assert [each.score for each in results] == pytest.approx(
    [5.5 / 7, 4.5 / 7, 1]
  )
  assert [each.verdict for each in results] == [0, 0, 1]
