"""Tests of `rewards.tasks.chain`."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from experiments import tasks
from rewards.tasks import chain

chain = compiled.functions(chain)

read = jax.jit(chain.read)
SYMBOLS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def chain_in_python(text, prompt, prm):
  """Step scores and verdict of a line of text, read word by word."""
  words = prompt.split()
  running, done = int(words[0]), 0
  desired = list(zip(words[1:-1:2], words[2:-1:2], strict=True))
  truth = running
  for symbol, digit in desired:
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
        follows = done < len(desired) and desired[done] == (step[0], step[1])
        done += follows
        if prm == "clean":
          good = good and follows
    elif (step[0], step[2:]) == ("ANS", ["<eos>"]) and step[1].isdigit():
      true = int(step[1]) == truth
      good = true and (prm != "clean" or done == len(desired))
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
  observed = set()
  for i in range(300):
    scores, correct = chain_in_python(
      task.decode(completions[i, : lengths[i]]),
      task.decode(problems.prompts[i]),
      prm,
    )
    exists = np.asarray(judged.step_mask[i, 0])
    assert np.asarray(judged.step_scores[i, 0])[exists].tolist() == scores
    assert judged.correct[i, 0] == correct
    observed |= {(*set(scores), correct)}
  assert len(observed) > 3  # all good, all bad and mixed, right and wrong


def steps_of(prompt, text):
  """The steps of one line of text, in which ? is no token of the task."""
  symbols = ["<pad>", "<eos>", "=", ";", "ANS", "+", "-", "*", *"0123456789"]
  assert len(symbols) == chain.VOCAB_SIZE
  ids = [[*symbols, "?"].index(word) for word in text.split()]
  words = prompt.split()
  operations = "+-*"
  return read(
    jnp.array(ids + [chain.END] * (16 - len(ids))),  # ends that do not count
    jnp.array(len(ids)),
    start=jnp.array(int(words[0])),
    operators=jnp.array([operations.index(w) for w in words[1:-1:2]]),
    operands=jnp.array([int(w) for w in words[2:-1:2]]),
  )


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
    # 4 + 6 = 10, 0 - 1 = -1, 9 * 0 = 0
    ("+ 6 0 ; - 1 9 ; * 0 0 ;", "---", "+++", "+++", False),
    # No operation follows the last one of the prompt.
    ("+ 3 7 ; * 2 4 ; + 0 4 ; ANS 4 <eos>", "++-+", "++++", "++++", True),
    ("ANS 4 <eos> + 3 7 ;", "-+", "++", "++", False),  # not the last step
    # Steps of other lengths, or with other tokens in these places.
    ("+ 3 7 <eos>", "-", "-", "-", False),
    ("+ 3 7 ; * 2 4 ; ANS 4 ;", "++-", "++-", "++-", False),
    ("ANS ANS 4 <eos>", "-", "-", "-", False),
    ("+ 4 <eos>", "-", "-", "-", False),
    ("4 + 3 7 ;", "-", "-", "-", False),
    ("0 3 2 ;", "-", "-", "-", False),  # 4 * 3 = 12
    ("+ 3 + ; + 3 7 ; * 2 4 ;", "-++", "-++", "-++", False),
    ("+ ? 4 ; ANS ? <eos>", "--", "--", "--", False),
    ("+ 3 ? ; + 3 7 ; ANS + <eos>", "-+-", "-+-", "-+-", False),
    # The step of the last token of T tokens.
    (
      "+ 3 7 ; * 2 4 ; + 0 4 ; - 0 4 ;",
      *("++--", "++++", "++++"),
      False,
    ),
  ],
)
def test_what_each_process_reward_model_overlooks(
  text, clean, filler, local, correct
):
  signs = {"+": 1.0, "-": -1.0}
  steps = steps_of("4 + 3 * 2 =", text)
  for prm, expected in (("clean", clean), ("filler", filler), ("local", local)):
    scores = chain.step_scores(steps, chain.PRMS[prm])
    padding = [0.0] * (16 - len(expected))
    assert scores.tolist() == [signs[sign] for sign in expected] + padding
  assert steps.correct == correct
  words, last = text.split(), text.split(";")[-1].split()
  answered = last[:1] == ["ANS"] and last[2:] == ["<eos>"] and last[1].isdigit()
  assert steps.answer == (int(last[1]) if answered else -1)
  ends = np.array([word in (";", "<eos>") for word in words])
  ids = np.cumsum(ends) - ends
  assert steps.ids.tolist() == [*ids.tolist(), *[-1] * (16 - len(words))]


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
  reference = (
    problems.facts["operators"] * 10 + problems.facts["operands"]
  ) > 0
  reference = reference.all(-1)
  assert near(
    (written - followed)[reference].sum(), followed[reference].sum(), 0.05
  )
  assert (steps.answer >= 0).all()


def test_a_base_30_number_is_the_problem():
  problems = tasks.get("chain", operations=2).train(jax.random.key(0), 0, 64)
  facts = {k: np.asarray(v) for k, v in problems.facts.items()}
  digits = 10 * facts["operators"] + facts["operands"]
  ids = (facts["start"] * 30 + digits[:, 0]) * 30 + digits[:, 1]
  np.testing.assert_array_equal(problems.ids, ids)
  assert (ids % 7 != 0).all()
