"""Embedded text tasks: `short_texts`, `numbered_lists`, `open_questions`."""

import re

import jax
import numpy as np
import pytest

from experiments import tasks
from experiments.tasks.text import numbered_lists, open_questions, short_texts
from rewards.verifiers import constraints

SIZES = {"prompt_length": 200, "completion_length": 160, "vocab_size": 300}


def problems_of(task, split, n):
  if split == "test":
    return task.test(n)
  return task.train(jax.random.key(0), 0, n)


@pytest.fixture(scope="module")
def short_texts_task(tmp_path_factory):
  cache = str(tmp_path_factory.mktemp("cache"))
  return tasks.get(
    "short_texts",
    rules_at_once=(1, 2, 3),
    problems=300,
    held_out=120,
    cache=cache,
    **SIZES,
  )


@pytest.fixture(scope="module")
def lists_task(tmp_path_factory):
  cache = str(tmp_path_factory.mktemp("cache"))
  return tasks.get("numbered_lists", steps=True, cache=cache, **SIZES)


@pytest.mark.parametrize("name", ["short_texts_task", "lists_task"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_solution_is_right(name, split, request):
  task = request.getfixturevalue(name)
  problems = problems_of(task, split, 100)
  completions, lengths = task.gold(problems)
  finished = np.ones((100, 1), bool)
  judged = task.score(
    problems, completions[:, None], lengths[:, None], finished
  )
  assert (judged.correct == 1).all()
  assert (judged.scores == 1).all()


@pytest.mark.parametrize("name", short_texts.RULES)
def test_each_rule_is_obeyed_by_its_solution_and_not_by_every_text(name):
  rule = short_texts.RULES[name]
  assert constraints.obeys(short_texts._solve([rule]), rule.constraint)
  others = ["1 2, and the. Word", "A, b. C, the d and e. F!", "x " * 40]
  assert not all(constraints.obeys(text, rule.constraint) for text in others)


@pytest.mark.parametrize("name", numbered_lists.RULES)
def test_each_rule_of_lists_is_obeyed_by_its_rewriting(name):
  rule = numbered_lists.RULES[name]
  assert constraints.obeys(rule.rewrite("stone"), rule.constraint)
  others = ["Two Words", "stone", "one two three four five"]
  assert not all(constraints.obeys(text, rule.constraint) for text in others)


def test_contradictions_are_left_out():
  pairs = short_texts._solutions(tuple(short_texts.RULES), 2)
  assert ("lower_case", "capitals") not in pairs
  assert ("one_sentence", "three_sentences") not in pairs
  assert ("lower_case", "no_comma") in pairs
  for names, text in pairs.items():
    for name in names:
      assert constraints.obeys(text, short_texts.RULES[name].constraint)


def read_questions(task, split, n):
  """Returns (topic, set of rules) of each problem."""
  problems = problems_of(task, split, n)
  texts = [task.decode(ids) for ids in problems.prompts]
  rules = short_texts.RULES
  result = []
  for text in texts:
    topic = re.match(r"Write about ([^.]*)\.", text)[1]
    names = [name for name, rule in rules.items() if rule.request in text]
    result.append((topic, frozenset(names)))
  return result


def test_held_out_topics_and_combinations_are_not_trained_on(short_texts_task):
  train = read_questions(short_texts_task, "train", 300)
  test = read_questions(short_texts_task, "test", 120)
  assert not {topic for topic, _ in train} & {topic for topic, _ in test}
  train_rules = {names for _, names in train}
  test_rules = {names for _, names in test if len(names) > 1}
  assert not train_rules & test_rules
  for split in (train, test):
    counts = [len(names) for _, names in split]
    assert {counts.count(n) for n in (1, 2, 3)} == {len(split) // 3}


def test_lists_have_other_subjects_in_the_test_split(lists_task):
  subjects = []
  for split in ("train", "test"):
    problems = problems_of(lists_task, split, 135)
    texts = [lists_task.decode(ids) for ids in problems.prompts]
    pattern = r"Write a numbered list of (?:three|four|five) ([^.]*)\."
    subjects.append({re.match(pattern, text)[1] for text in texts})
  assert not set.intersection(*subjects)


def test_lines_are_scored_by_the_rule_of_their_problem(lists_task):
  """Items that obey score 1, others -1; the last line has the verdict."""
  problems = problems_of(lists_task, "test", 135)
  texts = [lists_task.decode(ids) for ids in problems.prompts]
  index = next(
    i
    for i, text in enumerate(texts)
    if "of three" in text and "in capital letters" in text
  )
  problem = jax.tree.map(lambda x: x[index : index + 1], problems)
  cases = {
    "1. RED\n2. BLUE\n3. GREEN": [1, 1, 1],
    "1. RED\n2. BLUE\n3. GREEN\n4. TEAL": [1, 1, 1, -1],  # one too many
    "1. RED\n2. blue\n3. GREEN": [1, -1, -1],
    "1. RED\n\n2. BLUE\n3. GREEN": [1, 0, 1, 1],
    "1. RED": [-1],
  }
  for text, expected in cases.items():
    ids = lists_task.completion_ids(text)
    completions = np.array(ids, np.int32)[None, None]
    lengths = np.array([[len(ids)]])
    judged = lists_task.score(problem, completions, lengths, np.ones((1, 1)))
    scores = judged.step_scores[0, 0][judged.step_mask[0, 0]]
    assert scores.tolist() == expected, text
    assert judged.correct[0, 0] == (expected[-1] == 1)


def test_unknown_rules_are_named():
  with pytest.raises(ValueError, match="capitals"):
    tasks.get("short_texts", rules=("capital",))
  with pytest.raises(ValueError, match="capitals"):
    tasks.get("numbered_lists", rules=("capital",))
  with pytest.raises(ValueError, match="allowed: 1, 2 and 3"):
    tasks.get("short_texts", rules_at_once=(4,))
  with pytest.raises(ValueError, match="name more rules"):
    tasks.get("short_texts", rules=("capitals",), rules_at_once=(2,))


@pytest.mark.parametrize("entry", open_questions.QUESTIONS, ids=lambda x: x[0])
def test_key_points_are_those_of_the_reference(entry):
  """Each keyword is in the reference once, and they are in its order."""
  _, reference, points = entry
  words = re.findall(r"\w+", reference.lower())
  for point in points:
    keywords = point.lower().split()
    assert [word for word in words if word in keywords] == keywords


def test_an_open_answer_is_scored_by_content_and_length(tmp_path):
  task = tasks.get("open_questions", cache=str(tmp_path), **SIZES)
  problems = task.train(jax.random.key(0), 0, 18)
  texts = task.prompt_texts(problems)
  [row] = [i for i, x in enumerate(texts) if "people sleep" in x]
  one = jax.tree.map(lambda leaf: np.asarray(leaf)[row : row + 1], problems)
  answers = {
    "We rest and repair. The brain sorts memories.": (1, 1),
    # One of two keywords is in its place, and the other key point is missing.
    "We repair, and then we rest.": (1 / 4, 1),
    "Rest. Rest. Rest. Repair.": (1 / 4, 0),
  }
  for text, (content, style) in answers.items():
    ids = np.array([[task.completion_ids(text)]])
    lengths = np.array([[ids.shape[-1]]])
    judged = task.score(one, ids, lengths, lengths > 0)
    np.testing.assert_allclose(judged.components["content"], content)
    np.testing.assert_allclose(judged.scores, (content + style) / 2)
