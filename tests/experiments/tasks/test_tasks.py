"""Properties that every task has. A new task is tested by a row in `ROWS`."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import (
  judged_shapes,
  small_chat,
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
from rewards.verifiers import sandbox

ROWS = {
  "countdown": {"count": 4},
  "countdown-easy": {"count": 2},
  "closeness": {"count": 3},
  # Without flips, which test_noisy.py tests, it is the other task.
  "noisy": {
    "task": "countdown(count=3)",
    "false_positive": 0.0,
    "false_negative": 0.0,
  },
  "chain-clean": {"operations": 3, "prm": "clean"},
  "choice": {"operations": 2, "options": 3},
  "narrated_chain": {"operations": 2},
  "chain-local": {"operations": 1, "prm": "local"},
  "programs": {"operations": 2},
  "gsm8k": {"vocab_size": 300, "prompt_length": 64, "completion_length": 40},
  "math": {
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 80,
    "workers": 1,
  },
  "aime": {"prompt_length": 128, "completion_length": 48, "workers": 1},
  "amc": {"prompt_length": 128, "completion_length": 48, "workers": 1},
  "jsonl": {
    "vocab_size": 300,
    "prompt_length": 24,
    "completion_length": 16,
    "workers": 1,
  },
  "humaneval": {
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 16,
  },
  "instructions": {
    "vocab_size": 300,
    "prompt_length": 32,
    "completion_length": 16,
    "workers": 1,
  },
  "tools": {"vocab_size": 300, "prompt_length": 64, "completion_length": 96},
  "sql": {
    "vocab_size": 300,
    "prompt_length": 48,
    "completion_length": 24,
    "workers": 1,
  },
  "short_texts": {
    "problems": 60,
    "vocab_size": 300,
    "prompt_length": 160,
    "completion_length": 128,
  },
  "open_questions": {
    "vocab_size": 300,
    "prompt_length": 96,
    "completion_length": 320,
  },
  "numbered_lists": {"vocab_size": 300, "steps": True},
  "gym": {
    "problems": 40,
    "held_out": 6,
    "vocab_size": 300,
    "prompt_length": 64,
    "completion_length": 24,
    "workers": 1,
  },
}
# Tasks of several turns, which have other properties (test_games.py).
GAMES = {"attempts", "evidence", "grid", "guess"}
FILES = {"gsm8k": small_gsm8k, "math": small_math}
FILES |= {"aime": small_contests.AIME, "amc": small_contests.AMC}
FILES |= {"jsonl": small_jsonl, "sql": small_sql, "tools": small_tools}
FILES |= {"humaneval": small_humaneval, "instructions": small_instructions}
# Tasks whose completions are executed.
EXECUTED = ("humaneval", "programs")
# Tasks without a train split, which need a tokenizer from a folder.
EVALUATED = ("aime", "amc")
P, S, HELD_OUT = 12, 3, 5


@pytest.fixture(scope="module", params=ROWS)
def case(request, tmp_path_factory):
  """A task, P problems, and S completions each: gold, demonstrated, spoilt."""
  name, settings = request.param.split("-")[0], dict(ROWS[request.param])
  if name in EXECUTED and sandbox.missing_protections():
    pytest.skip(f"it lacks {'; '.join(sandbox.missing_protections())}")
  if name == "gym":
    pytest.importorskip("reasoning_gym", reason="the extra .[gym]")
    settings["cache"] = str(tmp_path_factory.mktemp(name))
  if name in FILES:
    folder = tmp_path_factory.mktemp(name)
    where = "file" if name == "jsonl" else "folder"
    settings[where] = str(FILES[name].write(folder / "data"))
    settings["cache"] = str(folder / "cache")
    if name in EVALUATED:
      small_chat.write(folder / "tokenizer")
      settings["tokenizer"] = str(folder / "tokenizer")
  task = tasks.get(name, **settings)

  def compiled(fn, **kwargs):
    return jax.jit(fn, **kwargs) if task.jittable else fn

  train = compiled(task.train, static_argnums=2)
  if name in EVALUATED:
    problems = task.test(P)
  else:
    problems = train(jax.random.key(0), 3, P)
  gold = jax.tree.map(np.asarray, compiled(task.gold)(problems))
  demonstrated = jax.tree.map(
    np.asarray, compiled(task.demonstrate)(jax.random.key(1), problems)
  )
  rng = np.random.default_rng(0)
  spoilt = demonstrated[0].copy()
  hit = rng.random(spoilt.shape) < 0.2
  spoilt[hit] = rng.integers(2, task.vocab_size, hit.sum())
  lengths = rng.integers(0, demonstrated[1] + 1)
  return SimpleNamespace(
    task=task,
    evaluated=name in EVALUATED,
    train=train,
    score=compiled(task.score),
    problems=problems,
    gold=gold,
    demonstrated=demonstrated,
    completions=np.stack([gold[0], demonstrated[0], spoilt], 1),
    lengths=np.stack([gold[1], demonstrated[1], lengths], 1),
    finished=np.array([[True, True, False]] * P),
    test=task.test(HELD_OUT),
  )


def judge(case, completions=None, lengths=None, finished=None):
  """Judges the completions of the case, or others of the same shapes."""
  completions = case.completions if completions is None else completions
  lengths = case.lengths if lengths is None else lengths
  finished = case.finished if finished is None else finished
  judged = case.score(case.problems, completions, lengths, finished)
  return jax.tree.map(np.asarray, judged)


def batches(case):
  """Returns train batches, or test batches of a task without a train split."""
  if case.evaluated:
    return [case.task.test(n) for n in range(1, P + 2)]
  return [case.train(jax.random.key(0), step, P) for step in range(40)]


def test_gold_scores_full_marks(case):
  judged = judge(case)
  np.testing.assert_array_equal(judged.scores[:, 0], 1.0)
  np.testing.assert_array_equal(judged.correct[:, 0], 1)
  assert (judged.answer_ids[:, 0] >= 0).all()


def test_gold_of_held_out_problems_scores_full_marks(case):
  completions, lengths = case.task.gold(case.test)
  args = (np.asarray(completions)[:, None], np.asarray(lengths)[:, None])
  judged = case.score(case.test, *args, np.ones((HELD_OUT, 1), bool))
  np.testing.assert_array_equal(judged.correct, 1)


@pytest.mark.parametrize("length", [0, 1])
def test_an_empty_completion_scores_0(case, length):
  completions = np.full(case.completions.shape, case.task.pad_id, np.int32)
  completions[..., 0] = case.task.eos_id
  lengths = np.full(case.lengths.shape, length, np.int32)
  finished = np.full(lengths.shape, length == 1)
  judged = judge(case, completions, lengths, finished)
  np.testing.assert_array_equal(judged.scores, 0.0)
  np.testing.assert_array_equal(judged.correct, 0)
  np.testing.assert_array_equal(judged.answer_ids, -1)


def test_the_shapes_of_scores_are_declared(case):
  judged_shapes.check(case.task, judge(case))
  assert (case.task.judged_spec is None) == case.task.jittable


def test_shapes_and_types(case):
  judged, task = judge(case), case.task
  assert judged.scores.shape == judged.correct.shape == (P, S)
  assert judged.answer_ids.shape == (P, S)
  assert judged.scores.dtype == np.float32
  assert judged.correct.dtype == np.int8
  assert judged.answer_ids.dtype == np.int32
  assert case.problems.prompts.shape == (P, task.prompt_length)
  assert case.demonstrated[0].shape == (P, task.completion_length)
  for ids in (case.problems.prompts, case.gold[0], case.demonstrated[0]):
    assert np.asarray(ids).dtype == np.int32
    assert np.asarray(ids).min() >= 0
    assert np.asarray(ids).max() < task.vocab_size


def test_prompts_are_left_padded(case):
  mask = np.asarray(case.problems.prompt_mask)
  assert mask[:, -1].all()
  assert (np.diff(mask.astype(int)) >= 0).all()
  assert (np.asarray(case.problems.prompts)[~mask] == case.task.pad_id).all()


def test_solutions_end_with_their_only_eos(case):
  for completions, lengths in (case.gold, case.demonstrated):
    at = np.arange(completions.shape[1])
    last = at == lengths[:, None] - 1
    np.testing.assert_array_equal(completions == case.task.eos_id, last)
    assert (completions[at >= lengths[:, None]] == case.task.pad_id).all()


def test_held_out_problems_are_fixed_and_never_trained_on(case):
  ids = np.asarray(case.test.ids)
  assert np.unique(ids).size == HELD_OUT
  np.testing.assert_array_equal(
    case.task.test(2).prompts, case.test.prompts[:2]
  )
  prompts = {bytes(row) for row in np.asarray(case.test.prompts)}
  if case.evaluated:
    with pytest.raises(ValueError, match="has no train problems"):
      case.train(jax.random.key(0), 0, P)
    return
  for batch in batches(case):
    assert not set(ids.tolist()) & set(np.asarray(batch.ids).tolist())
    assert not prompts & {bytes(row) for row in np.asarray(batch.prompts)}


def test_more_held_out_problems_than_there_are_is_refused(case):
  with pytest.raises(ValueError, match=r"n=1000000 .* ask for 1 to"):
    case.task.test(1_000_000)


def test_problems_depend_on_key_and_step_alone(case):
  if case.evaluated:  # test problems depend on neither
    jax.tree.map(
      np.testing.assert_array_equal, case.task.test(P), case.problems
    )
    return
  again = case.train(jax.random.key(0), 3, P)
  jax.tree.map(np.testing.assert_array_equal, again, case.problems)
  for key, step in ((0, 4), (1, 3)):
    other = case.train(jax.random.key(key), step, P)
    assert (np.asarray(other.prompts) != case.problems.prompts).any()


def test_ids_identify_problems(case):
  prompts = {}
  for batch in batches(case):
    for i, prompt in zip(
      np.asarray(batch.ids), np.asarray(batch.prompts), strict=True
    ):
      assert i >= 0
      assert prompts.setdefault(int(i), bytes(prompt)) == bytes(prompt)
  assert len(set(prompts.values())) == len(prompts) > P


def test_tokens_after_the_end_are_ignored(case):
  at = np.arange(case.completions.shape[-1])
  noise = np.random.default_rng(1).integers(
    0, case.task.vocab_size, case.completions.shape
  )
  after = at >= case.lengths[..., None]
  changed = np.where(after, noise, case.completions).astype(np.int32)
  assert (changed != case.completions).any()
  jax.tree.map(np.testing.assert_array_equal, judge(case, changed), judge(case))


def test_the_scores_of_a_prompt_do_not_depend_on_the_batch(case):
  def one(*args):
    alone = jax.tree.map(lambda leaf: leaf[None], args)
    return jax.tree.map(lambda leaf: leaf[0], case.task.score(*alone))

  args = (case.problems, case.completions, case.lengths, case.finished)
  together = judge(case)
  if case.task.jittable:
    mapped = jax.jit(jax.vmap(one))(*args)
    jax.tree.map(np.testing.assert_array_equal, mapped, together)
    return
  for p in range(len(case.lengths)):
    alone = one(*jax.tree.map(lambda leaf, p=p: leaf[p], args))
    in_batch = jax.tree.map(lambda leaf, p=p: leaf[p], together)
    jax.tree.map(np.testing.assert_array_equal, alone, in_batch)


def test_steps_cover_the_completion_in_order(case):
  judged = judge(case)
  if judged.step_ids is None:
    assert judged.step_scores is None
    assert judged.step_mask is None
    return
  at = np.arange(case.completions.shape[-1])
  inside = at < case.lengths[..., None]
  np.testing.assert_array_equal(judged.step_ids >= 0, inside)
  rises = np.diff(judged.step_ids, axis=-1)[inside[..., 1:]]
  assert set(np.unique(rises)) <= {0, 1}
  assert (judged.step_ids[..., 0][case.lengths > 0] == 0).all()
  np.testing.assert_array_equal(
    judged.step_mask.sum(-1), judged.step_ids.max(-1) + 1
  )
  np.testing.assert_array_equal(
    np.abs(judged.step_scores), judged.step_mask.astype(np.float32)
  )


def test_decoded_text_has_no_padding(case):
  for row in (case.problems.prompts[0], case.gold[0][0]):
    text = case.task.decode(row)
    assert text
    assert "pad" not in text


def test_every_task_has_a_row():
  assert {row.split("-")[0] for row in ROWS} | GAMES == set(tasks.names())


@pytest.mark.parametrize(
  ("name", "settings", "message"),
  [
    ("countdwon", {}, "'countdwon'; did you mean 'countdown'"),
    ("chain", {"operation": 2}, "'operation'; did you mean 'operations'"),
    ("chain", {"prm": "cleen"}, "'cleen'; did you mean 'clean'"),
    ("chain", {"operations": 6}, "operations=6 .* 1 to 5, the nearest is 5"),
    ("countdown", {"count": 1}, "count=1 .* 2 to 7, the nearest is 2"),
    ("countdown", {"count": "4"}, "count = '4' must be int, for example 4"),
    ("gsm8k", {"vocab_size": None}, "task 'gsm8k': vocab_size = None must be"),
    ("programs", {"operations": 0}, "operations=0 .* 1 to 5, the nearest is 1"),
    ("closeness", {"scale": 0.0}, r"scale=0\.0 must be above 0"),
  ],
)
def test_bad_settings_name_the_nearest_valid_choice(name, settings, message):
  with pytest.raises(ValueError, match=message):
    tasks.get(name, **settings)


def test_embedded_tasks_import_no_text_library():
  code = (
    "import sys; from experiments import tasks; tasks.names();"
    "tasks.get('countdown'); tasks.get('chain');"
    "heavy = {'transformers', 'tokenizers', 'tensorflow_datasets'};"
    "print(sorted(heavy & set(sys.modules)))"
  )
  run = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert run.stdout.strip() == "[]"
