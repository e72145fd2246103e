"""Jittable rewards against readers of text that were written separately."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import tasks
from rewards import chain, closeness, countdown

read = jax.jit(chain.read)
SYMBOLS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def countdown_in_python(text, numbers):
  """The value of a legal line of text, else None."""
  words = text.split()
  if len(words) != 2 * len(numbers) or words.pop() != "<eos>":
    return None
  if any(word not in SYMBOLS for word in words[1::2]):
    return None
  if not all(word.isdigit() for word in words[0::2]):
    return None
  if sorted(map(int, words[0::2])) != sorted(numbers):
    return None
  value = int(words[0])
  for symbol, number in zip(words[1::2], words[2::2], strict=True):
    value = SYMBOLS[symbol](value, int(number))
  return value


@pytest.fixture(scope="module")
def expressions():
  """Random lines over 2, 5, 5: orders and operators, one in three spoilt."""
  rng = np.random.default_rng(0)
  numbers, rows, lengths = [2, 5, 5], [], []
  for i in range(600):
    row = rng.permutation(numbers) + countdown.NUMBER
    row = np.stack([row, rng.integers(countdown.PLUS, countdown.TIMES + 1, 3)])
    row = np.append(row.T.reshape(-1), rng.integers(2, 9, 2))
    row[5] = countdown.EOS
    length = 6
    if i % 3 == 0:
      row[rng.integers(0, 6)] = rng.integers(1, countdown.DIGIT)
      length = rng.integers(5, 8)
    rows.append(row)
    lengths.append(length)
  completions, lengths = np.array(rows, np.int32), np.array(lengths, np.int32)
  values, legal = jax.jit(countdown.expression_value)(
    completions, lengths, jnp.array([5, 2, 5])
  )
  return completions, lengths, np.asarray(values), np.asarray(legal)


def test_countdown_agrees_with_a_reader_of_text(expressions):
  decode = tasks.get("countdown").decode
  judged = 0
  for row, length, value, legal in zip(*expressions, strict=True):
    expected = countdown_in_python(decode(row[:length]), [2, 5, 5])
    assert legal == (expected is not None)
    if legal:
      assert value == expected
      judged += 1
  assert 300 < judged < 600  # both kinds were there


def test_no_precedence():
  value = countdown.left_to_right(jnp.array([2, 3, 4]), jnp.array([0, 2]))
  assert value == (2 + 3) * 4


def test_an_expression_in_too_little_room_is_illegal():
  numbers = jnp.array([2, 5, 5])
  whole = jnp.array([7, 3, 10, 4, 10, 1])  # 2 + 5 - 5 EOS
  room = {6: True, 5: False, 4: False}
  for size, expected in room.items():
    _, legal = countdown.expression_value(
      whole[:size], jnp.array(size), numbers
    )
    assert legal == expected


def test_closeness_is_one_at_the_target_and_falls_by_e():
  values, target = jnp.array([20, 23, 17, 26, 20]), 20
  legal = jnp.array([True, True, True, True, False])
  scores = closeness.closeness(values, legal, target, scale=3.0)
  expected = [1, 1 / math.e, 1 / math.e, math.e**-2, 0]
  np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_closeness_and_countdown_agree_on_what_is_correct(expressions):
  _, _, values, legal = expressions
  target = np.int32(np.median(values[legal]))
  graded = closeness.closeness(values, legal, target)
  exact = countdown.exact_hit(values, legal, target)
  assert 0 < exact.sum() < legal.sum()
  np.testing.assert_array_equal(graded == 1.0, exact == 1.0)
  np.testing.assert_array_equal(graded > 0.0, legal)


@pytest.fixture(scope="module")
def problems():
  return tasks.get("countdown", count=4).train(jax.random.key(1), 0, 4096)


def test_draws_are_sorted_reachable_and_split_by_their_numbers(problems):
  task = tasks.get("countdown", count=4)
  for drawn, held_out in (
    (problems, False),
    (task.test(256), True),
  ):
    numbers = np.asarray(drawn.facts["numbers"])
    assert (np.diff(numbers) >= 0).all()
    assert numbers.min() == 1
    assert numbers.max() == 9
    rule = (numbers.sum(1) + 3 * (numbers**2).sum(1)) % 7 == 0
    np.testing.assert_array_equal(rule, held_out)
    target = np.asarray(drawn.facts["target"])
    assert target.min() >= 1
    assert target.max() <= 99


def test_a_tenth_of_the_operators_is_drawn_anew(problems):
  task = tasks.get("countdown", count=4)
  gold, _ = task.gold(problems)
  shown, lengths = task.demonstrate(jax.random.key(3), problems)
  _, legal = countdown.expression_value(
    shown, lengths, problems.facts["numbers"]
  )
  assert legal.all()
  np.testing.assert_array_equal(shown[:, ::2], gold[:, ::2])
  # Kept targets favour some operators, so the rate of a change is taken per
  # operator: drawn anew with .1, and then another one.
  kinds, counts = np.unique(np.asarray(gold)[:, 1:-1:2], return_counts=True)
  rates = dict(zip((3, 4, 5), (0.5, 0.3, 0.2), strict=True))
  for kind, count in zip(kinds.tolist(), counts, strict=True):
    here = np.asarray(gold) == kind
    rate = 0.1 * (1 - rates[kind])
    changed = (np.asarray(shown) != gold)[here].mean()
    assert abs(changed - rate) < 4 * math.sqrt(rate * (1 - rate) / count)


def chain_in_python(text, prompt, prm):
  """Step scores and verdict of a line of text, read word by word."""
  words = prompt.split()
  running, done = int(words[0]), 0
  wanted = list(zip(words[1:-1:2], words[2:-1:2], strict=True))
  truth = running
  for symbol, digit in wanted:
    truth = SYMBOLS[symbol](truth, int(digit)) % 10
  steps, step = [], []
  for word in text.split():
    step.append(word)
    if word in (";", "<eos>"):
      steps.append(step)
      step = []
  steps += [step] if step else []
  scores, correct = [], False
  for i, step in enumerate(steps):
    good = False
    if len(step) == 4 and step[0] in SYMBOLS and step[3] == ";":
      if step[1].isdigit() and step[2].isdigit():
        value = SYMBOLS[step[0]](running, int(step[1])) % 10
        good = value == int(step[2])
        running = int(step[2])
        follows = done < len(wanted) and wanted[done] == (step[0], step[1])
        done += follows
        if prm == "clean":
          good = good and follows
    elif (step[0], step[2:]) == ("ANS", ["<eos>"]) and step[1].isdigit():
      true = int(step[1]) == truth
      good = true and (prm != "clean" or done == len(wanted))
      if prm == "local":
        good = true or int(step[1]) == running
      correct = true and i == len(steps) - 1
    scores.append(1.0 if good else -1.0)
  return scores, correct


@pytest.fixture(scope="module")
def chains():
  """Noisy demonstrations, half of them spoilt or cut."""
  task = tasks.get("chain", operations=3)
  problems = task.train(jax.random.key(0), 0, 300)
  completions, lengths = task.demonstrate(jax.random.key(1), problems)
  completions, lengths = np.array(completions), np.array(lengths)
  rng = np.random.default_rng(0)
  for i in range(0, 300, 2):
    for _ in range(rng.integers(1, 4)):
      completions[i, rng.integers(0, lengths[i])] = rng.integers(1, 18)
    lengths[i] = rng.integers(1, lengths[i] + 1)
  return task, problems, completions, lengths


@pytest.mark.parametrize("prm", chain.PRMS)
def test_chain_agrees_with_a_reader_of_text(chains, prm):
  task, problems, completions, lengths = chains
  judged = jax.jit(tasks.get("chain", operations=3, prm=prm).score)(
    problems, completions[:, None], lengths[:, None], np.ones((300, 1), bool)
  )
  seen = set()
  for i in range(300):
    scores, correct = chain_in_python(
      task.decode(completions[i, : lengths[i]]),
      task.decode(problems.prompts[i]),
      prm,
    )
    exists = np.asarray(judged.step_mask[i, 0])
    assert np.asarray(judged.step_scores[i, 0])[exists].tolist() == scores
    assert judged.correct[i, 0] == correct
    seen |= {(*set(scores), correct)}
  assert len(seen) > 3  # all good, all bad and mixed, right and wrong


def scored(prompt, text, prm):
  """Step scores and verdict of one line of text."""
  symbols = ["<pad>", "<eos>", "=", ";", "ANS", "+", "-", "*", *"0123456789"]
  ids = [symbols.index(word) for word in text.split()]
  words = prompt.split()
  operations = "+-*"
  steps = read(
    jnp.array(ids + [0] * (16 - len(ids))),
    jnp.array(len(ids)),
    start=jnp.array(int(words[0])),
    operators=jnp.array([operations.index(w) for w in words[1:-1:2]]),
    operands=jnp.array([int(w) for w in words[2:-1:2]]),
  )
  scores = chain.step_scores(steps, chain.PRMS[prm])
  return scores[steps.exists].tolist(), bool(steps.correct)


@pytest.mark.parametrize(
  ("text", "clean", "filler", "local", "correct"),
  [
    # 4 + 3 = 7, 7 * 2 = 14
    ("+ 3 7 ; * 2 4 ; ANS 4 <eos>", "+++", "+++", "+++", True),
    ("+ 3 7 ; + 0 7 ; * 2 4 ; ANS 4 <eos>", "+-++", "++++", "++++", True),
    ("+ 0 4 ; + 0 4 ; + 0 4 ;", "---", "+++", "+++", False),
    ("ANS 4 <eos>", "-", "+", "+", True),  # guessed: a0 is the answer too
    ("+ 3 7 ; ANS 7 <eos>", "+-", "+-", "++", False),
    ("+ 3 8 ; * 2 6 ; ANS 6 <eos>", "-+-", "-+-", "-++", False),
    ("* 2 8 ; + 3 1 ; ANS 1 <eos>", "-+-", "++-", "+++", False),
    ("+ 3 7 ; * 2", "+-", "+-", "+-", False),
    ("+ 3 7 ; * 2 4 ; ANS 4", "++-", "++-", "++-", False),
    ("; <eos>", "--", "--", "--", False),
  ],
)
def test_what_each_process_reward_model_overlooks(
  text, clean, filler, local, correct
):
  signs = {"+": 1.0, "-": -1.0}
  for prm, expected in (("clean", clean), ("filler", filler), ("local", local)):
    scores, verdict = scored("4 + 3 * 2 =", text, prm)
    assert scores == [signs[sign] for sign in expected]
    assert verdict == correct


def test_chain_demonstrations_err_at_the_documented_rates():
  task = tasks.get("chain", operations=3)
  problems = task.train(jax.random.key(4), 0, 4096)
  completions, lengths = task.demonstrate(jax.random.key(5), problems)
  steps = read(completions, lengths, **problems.facts)
  written = steps.exists.sum(-1) - 1
  followed = steps.following.sum(-1)

  def near(events, trials, rate):
    error = 4 * math.sqrt(rate * (1 - rate) / float(trials))
    return abs(float(events) / float(trials) - rate) < error

  wrong = (steps.following & ~steps.sound).sum()
  assert near(wrong, followed.sum(), 0.08)
  assert near((followed < 3).sum(), 4096, 1 - 0.97**3)
  # A filler `+ 0 r ;` where the prompt itself says `+ 0` passes for the step.
  plain = (problems.facts["operators"] * 10 + problems.facts["operands"]) > 0
  plain = plain.all(-1)
  assert near((written - followed)[plain].sum(), followed[plain].sum(), 0.05)
  assert (steps.answer >= 0).all()


def test_a_base_30_number_is_the_problem():
  problems = tasks.get("chain", operations=2).train(jax.random.key(0), 0, 64)
  facts = {k: np.asarray(v) for k, v in problems.facts.items()}
  digits = 10 * facts["operators"] + facts["operands"]
  ids = (facts["start"] * 30 + digits[:, 0]) * 30 + digits[:, 1]
  np.testing.assert_array_equal(problems.ids, ids)
  assert (ids % 7 != 0).all()
