"""Tasks of several turns: properties of all, and the rules of each."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import judged_shapes

from experiments import tasks
from experiments.tasks import attempts, evidence, grid, guess
from rl.sampling import environment as environments

ROWS = {
  "attempts": {},
  "attempts-verify": {"level": "verify"},
  "evidence": {},
  "grid": {"size": 3},
  "grid-hidden": {"size": 4, "visible": False},
  "guess": {"numbers": 8, "guesses": 3},
}
P, HELD_OUT = 24, 6


@pytest.fixture(scope="module", params=ROWS)
def case(request):
  """A task, P problems, and the expert's and the reference's episodes."""
  task = tasks.get(request.param.split("-")[0], **ROWS[request.param])
  train = jax.jit(task.train, static_argnums=2)
  problems = train(jax.random.key(0), 3, P)
  demonstrate = jax.jit(task.demonstrate)
  texts = demonstrate(jax.random.key(1), problems)
  gold = jax.jit(task.gold)(problems)
  pairs = [np.stack(pair, 1) for pair in zip(gold, texts, strict=True)]
  score = jax.jit(task.score)
  return SimpleNamespace(
    task=task,
    train=train,
    score=score,
    problems=problems,
    completions=pairs[0],
    lengths=pairs[1],
    judged=judge(score, problems, *pairs),
  )


def judge(score, problems, completions, lengths):
  finished = np.zeros(np.shape(lengths), bool)  # which no game reads
  judged = score(problems, completions, lengths, finished)
  return jax.tree.map(np.asarray, judged)


def test_the_reference_scores_full_marks(case):
  np.testing.assert_allclose(case.judged.scores[:, 0], 1, rtol=1e-6)
  np.testing.assert_array_equal(case.judged.correct[:, 0], 1)
  assert (case.judged.extras["end"][:, 0] == environments.DONE).all()
  problems = case.task.test(HELD_OUT)
  texts, lengths = case.task.gold(problems)
  judged = judge(case.score, problems, texts[:, None], lengths[:, None])
  np.testing.assert_array_equal(judged.correct, 1)


def test_the_expert_is_not_perfect_and_not_alone_in_its_text(case):
  assert 0 < case.judged.scores[:, 1].mean() < 1
  turns = case.judged.step_ids[:, 1]
  assert turns.max() > 0
  inside = np.arange(turns.shape[-1]) < case.lengths[:, 1, None]
  assert (turns[~inside] == -1).all()
  is_reply = inside & (turns == -1)
  assert is_reply.any()
  # A turn ends with an end token, and only there.
  texts = case.completions[:, 1]
  next_turns = np.pad(turns, ((0, 0), (0, 1)), constant_values=-1)[:, 1:]
  ends = (turns >= 0) & (next_turns != turns)
  np.testing.assert_array_equal((texts == case.task.eos_id) & ~is_reply, ends)


def test_steps_are_turns(case):
  judged = case.judged
  counts = judged.step_ids.max(-1) + 1
  np.testing.assert_array_equal(judged.step_mask.sum(-1), counts)
  np.testing.assert_array_equal(judged.components["turns"], counts)
  assert judged.step_scores.shape[-1] == case.task.environment.max_turns
  np.testing.assert_array_equal(judged.step_scores[~judged.step_mask], 0)


def test_shapes_are_declared(case):
  judged_shapes.check(case.task, case.judged)
  assert case.completions.shape[-1] == case.task.completion_length
  assert case.completions.min() >= 0
  assert case.completions.max() < case.task.vocab_size
  prompts = np.asarray(case.problems.prompts)
  assert prompts.shape == (P, case.task.prompt_length)
  assert prompts.max() < case.task.vocab_size


def test_an_empty_episode_finds_nothing(case):
  texts = np.full((P, 1, case.task.completion_length), case.task.pad_id)
  judged = judge(case.score, case.problems, texts, np.zeros((P, 1), int))
  np.testing.assert_array_equal(judged.scores, 0)
  np.testing.assert_array_equal(judged.correct, 0)
  np.testing.assert_array_equal(judged.answer_ids, -1)
  assert (judged.extras["end"] == environments.TOKEN_BUDGET).all()


def test_noise_is_refused_without_a_gap(case):
  """Whatever a policy writes has turns, rewards that are finite, and an end."""
  rng = np.random.default_rng(0)
  shape = P, 4, case.task.completion_length
  texts = rng.integers(0, case.task.vocab_size, shape)
  texts[rng.random(shape) < 0.3] = case.task.eos_id
  lengths = rng.integers(1, shape[-1] + 1, shape[:2])
  judged = judge(case.score, case.problems, texts, lengths)
  assert np.isfinite(judged.scores).all()
  assert np.isfinite(judged.step_scores).all()
  assert judged.scores.max() <= 1
  after = np.arange(shape[-1]) >= lengths[..., None]
  changed = np.where(after, case.task.eos_id, texts)
  again = judge(case.score, case.problems, changed, lengths)
  jax.tree.map(np.testing.assert_array_equal, again, judged)


def test_problems_depend_on_key_and_step_alone(case):
  again = case.train(jax.random.key(0), 3, P)
  jax.tree.map(np.testing.assert_array_equal, again, case.problems)
  for key, step in ((0, 4), (1, 3)):
    other = case.train(jax.random.key(key), step, P)
    assert (np.asarray(other.ids) != case.problems.ids).any()
  test = case.task.test(HELD_OUT)
  assert np.unique(test.ids).size == HELD_OUT
  part = case.task.test(2)
  np.testing.assert_array_equal(part.ids, test.ids[:2])
  with pytest.raises(ValueError, match=r"n=1000000 .* ask for 1 to"):
    case.task.test(1_000_000)
  if not case.task.name.startswith("guess"):  # its problems are all numbers
    assert not set(np.asarray(test.ids)) & set(np.asarray(case.problems.ids))


def play(task, problems, text):
  """Judges one text, tokens separated by blanks, for each problem."""
  words = {task.decode(np.array([i])): i for i in range(1, task.vocab_size)}
  ids = [words[word] for word in text.split()]
  texts = np.zeros((len(problems.ids), 1, task.completion_length), int)
  texts[..., : len(ids)] = ids
  lengths = np.full(texts.shape[:2], len(ids))
  return judge(jax.jit(task.score), problems, texts, lengths)


def one(task, **facts):
  """A problem of a task with other facts."""
  problem = task.test(1)
  return problem.replace(
    facts={
      **problem.facts,
      **{name: jnp.asarray([fact]) for name, fact in facts.items()},
    }
  )


def test_a_guess_rules_out_numbers():
  task = guess.guess(numbers=64, guesses=4)
  text = "32 <eos> higher 48 <eos> lower 40 40 <eos> invalid 36 <eos>"
  judged = play(task, one(task, number=36), text)
  rewards = [32 / 64, 17 / 32, 0, 1]
  np.testing.assert_allclose(judged.step_scores[0, 0], rewards, rtol=1e-6)
  assert judged.scores[0, 0] == 1
  assert judged.answer_ids[0, 0] == 36
  judged = play(task, one(task, number=35), text)
  np.testing.assert_allclose(
    judged.step_scores[0, 0], [*rewards[:3], 0], rtol=1e-6
  )
  assert judged.extras["end"][0, 0] == environments.DONE
  assert judged.scores[0, 0] == 0
  # A number that is ruled out already rules out no other.
  judged = play(task, one(task, number=35), "32 <eos> higher 16 <eos> higher")
  assert judged.step_scores[0, 0, :2].tolist() == [0.5, 0]


def test_the_best_guesses():
  assert guess.optimum(64, 4) == 15 / 64
  assert guess.optimum(64, 6) == 63 / 64
  assert guess.optimum(64, 4, k=4) == pytest.approx(0.656, abs=5e-4)

  def found(guesses, low=1, high=64):
    """The number of numbers that bisection finds."""
    if not guesses or low > high:
      return 0
    middle = (low + high) // 2
    below = found(guesses - 1, low, middle - 1)
    return 1 + below + found(guesses - 1, middle + 1, high)

  assert found(4) == 15
  assert found(6) == 63


def test_a_walk_is_as_long_as_a_search_says():
  size = 4
  facts = jax.tree.map(np.asarray, grid._facts(jnp.arange(40), size))

  def search(walls, start):
    """Lengths of shortest ways, from one cell to the next."""
    lengths, border = {start: 0}, [start]
    while border:
      cell = border.pop(0)
      for down, right in ((-1, 0), (0, 1), (1, 0), (0, -1)):
        r, c = cell // size + down, cell % size + right
        near = r * size + c
        is_inside = 0 <= r < size and 0 <= c < size
        if is_inside and not walls[near] and near not in lengths:
          lengths[near] = lengths[cell] + 1
          border.append(near)
    return lengths

  for i in range(40):
    walls = facts["walls"][i]
    for name, place in (("from_key", "key"), ("from_door", "door")):
      lengths = search(walls, int(facts[place][i]))
      expected = [lengths.get(cell, grid.FAR) for cell in range(size * size)]
      reachable = [n for n in expected if n < grid.FAR]
      actual = facts[name][i]
      assert actual[actual < grid.FAR].tolist() == reachable
      assert int(facts["index"][i]) in lengths
  assert facts["walls"].any()
  assert not facts["walls"].all(-1).any()


def test_a_walk_by_hand():
  """The key is east of the start, and the door south of the key."""
  task = grid.grid(size=3)
  facts = {
    "walls": np.arange(9) == 3,
    "place": np.array([0, 0]),
    "index": 0,
    "key": 1,
    "door": 4,
    "from_key": np.array([1, 0, 1, grid.FAR, 1, 2, 3, 2, 3]),
    "from_door": np.array([2, 1, 2, grid.FAR, 0, 1, 2, 1, 2]),
  }
  problem = one(task, **facts)
  text = "S E <eos> wall door free key empty E <eos> wall free door free held S"
  judged = play(task, problem, f"{text} <eos>")
  # The wall in the south stops the move to the east, too.
  np.testing.assert_allclose(judged.step_scores[0, 0, :3], [0, 0.5, 0.5])
  assert judged.correct[0, 0] == 1
  assert judged.scores[0, 0] == pytest.approx(2 / 3)
  judged = play(task, problem, "E S E <eos>")  # no move after the door
  assert judged.scores[0, 0] == 1
  judged = play(task, problem, "E S E N <eos>")  # four moves are none
  assert judged.step_scores[0, 0, 0] == 0
  assert judged.components["key"][0, 0] == 0


def test_evidence_by_hand():
  task = evidence.evidence(max_turns=6, quality=0.75, cost=0.02)
  problem = one(task, fact=True, observations=np.array([1, 1, 0, 1, 1, 1]) > 0)
  judged = play(
    task, problem, "query <eos> yes query <eos> yes answer .8 <eos>"
  )
  np.testing.assert_allclose(
    judged.step_scores[0, 0, :3], [-0.02, -0.02, 0.96], rtol=1e-5
  )
  assert judged.scores[0, 0] == pytest.approx(0.92)
  assert judged.correct[0, 0] == 1
  assert judged.components["queries"][0, 0] == 2
  judged = play(task, problem, "yes <eos> invalid answer .3 <eos>")
  assert judged.scores[0, 0] == pytest.approx(1 - 0.49 - 0.02)
  assert judged.correct[0, 0] == 0
  judged = play(task, problem, "answer .5 <eos>")
  assert judged.correct[0, 0] == 0
  assert judged.scores[0, 0] == 0.75


@pytest.mark.parametrize(
  ("max_turns", "quality", "cost"),
  [(3, 0.75, 0.02), (3, 0.9, 0.0), (2, 0.6, 1)],
)
def test_the_best_use_of_evidence(max_turns, quality, cost):
  """All policies of up to two queries, by enumeration."""

  def best_answer(seen):
    """The best expected Brier score times the probability of what was seen."""
    likelihood = [
      np.prod([quality if o == fact else 1 - quality for o in seen]) / 2
      for fact in (0, 1)
    ]
    return max(
      sum(w * (1 - (p / 10 - fact) ** 2) for fact, w in enumerate(likelihood))
      for p in range(11)
    )

  def values(seen, asked):
    """Values of all policies after an observation, weighted by its chance."""
    yield best_answer(seen)
    if asked + 1 < max_turns:
      chance = sum(
        np.prod([quality if o == fact else 1 - quality for o in seen]) / 2
        for fact in (0, 1)
      )
      branches = [list(values([*seen, o], asked + 1)) for o in (0, 1)]
      for no, yes in itertools.product(*branches):
        yield no + yes - cost * chance

  expected = max(values([], 0))
  actual = evidence.optimum(max_turns, quality, cost)
  assert actual == pytest.approx(expected, abs=1e-12)


def test_a_wrong_attempt_is_told_its_value():
  task = attempts.attempts(count=3)
  problem = one(
    task, numbers=np.array([2, 3, 4]), target=20, order=np.array([2, 3, 4])
  )
  text = "2 - 3 - 4 <eos> = - d0 d0 d5 2 + <eos> invalid 2 + 3 * 4 <eos>"
  judged = play(task, problem, text)
  assert judged.step_scores[0, 0].tolist() == [0, 0, 1]
  assert judged.step_ids[0, 0].max() == 2
  assert judged.components["wrong_to_right"][0, 0] == 1
  assert judged.components["first"][0, 0] == 0
  judged = play(task, problem, "2 + 3 * 4 <eos>")
  assert judged.extras["end"][0, 0] == environments.DONE
  assert judged.components["first"][0, 0] == 1


def test_a_policy_judges_its_attempts():
  task = attempts.attempts(count=3, level="verify")
  problem = one(task, numbers=np.array([2, 3, 4]), target=20)
  right, wrong = "2 + 3 * 4 <eos> check", "4 + 2 * 3 <eos> check"
  judged = play(task, problem, f"{right} wrong <eos> retry {wrong} right <eos>")
  assert judged.step_scores[0, 0].tolist() == [1, 0, 0, 0, 0]
  assert judged.components["right_to_wrong"][0, 0] == 1
  assert judged.scores[0, 0] == 0
  judged = play(task, problem, f"{wrong} wrong <eos> retry {right} right <eos>")
  assert judged.step_scores[0, 0].tolist() == [0, 1, 1, 1, 0]
  assert judged.components["wrong_to_right"][0, 0] == 1
  assert judged.scores[0, 0] == 1
  # What is no judgement ends the episode.
  judged = play(task, problem, f"{right} 2 <eos>")
  assert judged.extras["end"][0, 0] == environments.DONE
  assert judged.step_scores[0, 0].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
  ("name", "settings", "message"),
  [
    ("guess", {"numbers": 1}, "numbers=1 must be at least 2"),
    ("guess", {"guesses": 0}, "guesses=0 must be at least 1"),
    ("grid", {"size": 2}, "size=2 .* allowed: 3 to 8"),
    ("evidence", {"quality": 0.5}, "quality=0.5 must be above 1/2"),
    ("evidence", {"cost": -1.0}, "cost=-1.0 must be at least 0"),
    ("attempts", {"attempts": 0}, "attempts=0 must be at least 1"),
    ("attempts", {"level": "verfy"}, "'verfy'; did you mean 'verify'"),
  ],
)
def test_bad_settings_are_named(name, settings, message):
  with pytest.raises(ValueError, match=message):
    tasks.get(name, **settings)
