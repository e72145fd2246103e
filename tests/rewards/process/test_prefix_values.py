"""The sampler `prefix_values`: continuations of prefixes, forced answers."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from experiments import tasks
from rewards.process import prefix_values
from rewards.tasks import chain
from rl import types
from rl.sampling import samplers

ANSWER, EOS, END = chain.ANSWER, chain.EOS, chain.END


def digit(d):
  return chain.DIGIT + d


def batch_of(completions, lengths, task):
  """One prompt, `3 + 4 * 2 =`, whose continuations are `4 <eos>`.

  7 * 2 = 14, so that 4 is right.
  """
  prompt = [digit(3), chain.PLUS, digit(4), chain.TIMES, digit(2), chain.EQUALS]
  # The id of a chain's problem has these digits in base 30.
  problem_id = 3 * 900 + 4 * 30 + (20 + 2)
  problems = task.test(1).replace(
    prompts=jnp.asarray([prompt]),
    ids=jnp.asarray([problem_id]),
    facts={
      "start": jnp.asarray([3]),
      "operators": jnp.asarray([[0, 2]]),
      "operands": jnp.asarray([[4, 2]]),
    },
  )
  completions, lengths = jnp.asarray([completions]), jnp.asarray([lengths])
  positions = jnp.arange(completions.shape[-1])
  finished = jnp.ones(lengths.shape, bool)

  @jax.jit
  def judge(texts, sizes):
    return task.score(problems, texts, sizes, sizes > 0)

  judged = judge(completions, lengths)
  rollout = types.Rollout(
    tokens=types.Tokens(
      problems.prompts,
      problems.prompt_mask,
      completions,
      lengths,
      positions < lengths[..., None],
    ),
    sample_mask=finished,
    behavior_log_probs=jnp.zeros(completions.shape),
    finished=finished,
    scores=judged.scores,
    correct=judged.correct,
    prompt_ids=problems.ids,
    keys=jax.random.split(jax.random.key(0), 1),
    step=jnp.int32(0),
    step_ids=judged.step_ids,
    step_scores=judged.step_scores,
    step_mask=judged.step_mask,
  )
  seen = []

  def extend(params, source, prefix, count, active):
    """Writes `4 <eos>` after each prefix, and judges the texts."""
    texts = np.array(source.completions)
    for s, start in enumerate(np.asarray(prefix)[0]):
      texts[0, s, start : start + 2] = (digit(4), EOS)
      seen.append(texts[0, s, : start + 2].tolist())
    verdicts = judge(jnp.asarray(texts), prefix + 2).correct
    shape = (lengths.size, count)
    return rollout.replace(
      correct=jnp.broadcast_to(verdicts.reshape(-1, 1), shape),
      sample_mask=jnp.broadcast_to(active.reshape(-1, 1), shape),
      extras=types.Named({"sampler/drawn": jnp.ones(shape, jnp.int32)}),
    )

  batch = samplers.PromptBatch(
    *(None, {}, {}, 1, 1.0),
    lambda *arguments: rollout,
    extend,
    None,
    task.answer_cue,
  )
  return batch, seen


def test_the_answer_is_forced_after_the_prompt_and_after_each_step():
  """The text that is judged is the prefix, `ANS`, and the continuation."""
  task = tasks.get("chain", operations=2)
  first = [chain.PLUS, digit(4), digit(7), END]
  second = [chain.TIMES, digit(2), digit(5), END]  # wrong: 7 * 2 is 4
  answer = [ANSWER, digit(5), EOS]
  text = [*first, *second, *answer]
  padded = text + [chain.PAD] * (task.completion_length - len(text))
  batch, seen = batch_of([padded], [len(text)], task)
  sampler = prefix_values.prefix_values(continuations=3, forced=True)
  result = sampler.run(batch, ())
  assert seen[:3] == [
    [ANSWER, digit(4), EOS],
    [*first, ANSWER, digit(4), EOS],
    [*first, *second, ANSWER, digit(4), EOS],
  ]
  # The forced answers are right, and the sample's own answer is wrong.
  np.testing.assert_array_equal(result.extras["sampler/prompt_values"], [1.0])
  np.testing.assert_array_equal(
    result.extras["sampler/values"][0, 0, :3], [1.0, 1.0, 0.0]
  )
  # 11 tokens of the sample; three answers after 0 and after 8 prefixes.
  assert int(result.extras["sampler/tokens"]) == 11 + 9 * 3


def test_a_task_without_a_cue_is_refused():
  task = tasks.get("chain", operations=2)
  batch, _ = batch_of([[EOS] * task.completion_length], [1], task)
  batch = samplers.PromptBatch(
    *(None, {}, {}, 1, 1.0), batch.sample, batch.extend, None
  )
  with pytest.raises(ValueError, match="no answer cue; use forced=False"):
    prefix_values.prefix_values(forced=True).run(batch, ())


def test_the_views_of_a_chain_have_the_answer_after_each_step():
  """`ANS 4 <eos>` follows the first steps, and the whole thought later on."""
  task = tasks.get("chain", operations=2, reference=True)
  problems = task.test(1).replace(
    facts={
      "start": jnp.asarray([3]),
      "operators": jnp.asarray([[0, 2]]),
      "operands": jnp.asarray([[4, 2]]),
    }
  )
  first = [chain.PLUS, digit(4), digit(7), END]
  second = [chain.TIMES, digit(2), digit(5), END]
  text = [*first, *second, ANSWER, digit(5), EOS]
  padded = text + [chain.PAD] * (task.completion_length - len(text))
  other = [ANSWER, digit(1), EOS] + [chain.PAD] * (len(padded) - 3)
  completions = jnp.asarray([[padded, other]])
  judged = jax.jit(task.score)(
    problems, completions, jnp.asarray([[11, 3]]), jnp.ones((1, 2), bool)
  )
  view = judged.views["step_references"]
  answer = [ANSWER, digit(4), EOS]
  target = [[*first, *answer]] + [[*first, *second, *answer]] * 3
  target += [answer] * 4  # the second sample has no step before its answer
  for tokens, length, mask, expected in zip(
    *(view.completions[0], view.lengths[0], view.mask[0]), target, strict=True
  ):
    assert tokens[:length].tolist() == expected
    assert np.flatnonzero(mask).tolist() == [
      len(expected) - 3 + i for i in range(3)
    ]


def fake_batch(rollout, results, cue=()):
  """Returns a batch whose continuations are given, and the list of requests.

  Args:
    rollout: the rollout to continue.
    results: for each call of `extend`, verdicts `[P S, count]` and whether the
      continuations exist; 5 tokens are drawn for each that was requested.
    cue: the answer cue.
  """
  requests = []

  def extend(params, source, prefix, count, active):
    correct, exists = results[len(requests)]
    requests.append(
      SimpleNamespace(
        params=params,
        completions=source.completions.tolist(),
        prefix=prefix.tolist(),
        count=count,
        active=active.tolist(),
      )
    )
    drawn = 5 * jnp.repeat(active.reshape(-1, 1), count, 1)
    return SimpleNamespace(
      correct=jnp.asarray(correct),
      sample_mask=jnp.asarray(exists, bool),
      extras={"sampler/drawn": drawn},
    )

  batch = samplers.PromptBatch(
    *(None, "own", {"ref": "reference"}, rollout.scores.shape[1], 1.0),
    lambda *arguments: rollout,
    extend,
    None,
    cue,
  )
  return batch, requests


def steps_of(step_ids, **fields):
  """Returns a rollout with these steps `[P, S, T]`, numbered without gaps."""
  step_ids = jnp.asarray(step_ids)
  fields.setdefault("scores", np.zeros(step_ids.shape[:2]))
  count = step_ids.max(-1) + 1
  return worked_example.rollout(
    lengths=jnp.full(count.shape, step_ids.shape[-1]),
    step_ids=step_ids,
    step_mask=jnp.arange(int(count.max())) < count[..., None],
    **fields,
  )


def test_values_of_two_prompts_with_unknown_verdicts():
  """Samples of 3, 2 and 1 steps, and of 3 and 2; one does not exist."""
  rollout = steps_of(
    [
      [[0, 0, -1, 1, 2], [0, 1, 1, -1, -1], [0, 0, 0, -1, -1]],
      [[0, -1, 1, 2, 2], [-1] * 5, [0, 1, 1, 1, 1]],
    ],
    correct=[[1, -1, 0], [-1, 1, -1]],
    sample_mask=jnp.array([[True] * 3, [True, False, True]]),
  )
  other = [1] * 4  # of a sample that is not continued
  unknown = [-1] * 4
  exists = np.ones((6, 4), bool)
  exists[3, 3] = False  # of sample 0 of prompt 1
  first = [[1, 0, -1, 1], unknown, other, [1, 0, 0, 1], other, [-1, -1, 1, -1]]
  second = [unknown, other, other, [1, 1, 0, 0], other, other]
  batch, requests = fake_batch(
    rollout,
    [(first, exists), (second, np.ones((6, 4))), ([other] * 6, exists)],
  )
  result = prefix_values.prefix_values().run(batch, ())
  assert [request.count for request in requests] == [4, 4, 4]
  assert [request.params for request in requests] == ["own"] * 3
  assert [request.prefix for request in requests] == [
    [[2, 1, 3], [1, 0, 1]],
    [[4, 3, 3], [3, 0, 5]],
    [[5, 3, 3], [5, 0, 5]],
  ]
  assert [request.active for request in requests] == [
    [[True, True, False], [True, False, True]],
    [[True, False, False], [True, False, False]],
    [[False] * 3] * 2,
  ]
  # 1 and 0 of prompt 0; all verdicts of prompt 1 are unknown.
  np.testing.assert_array_equal(
    result.extras["sampler/prompt_values"], [0.5, 0]
  )
  np.testing.assert_allclose(
    result.extras["sampler/values"],
    [
      # Unknown after step 1, which has the value of step 0; then the verdict.
      # Unknown, which is the value of the prompt, also at the last step.
      # The verdict.
      [[2 / 3, 2 / 3, 1], [0.5, 0.5, 0], [0, 0, 0]],
      # The verdict is unknown, so the last step has the value before it.
      [[1 / 3, 0.5, 0.5], [0, 0, 0], [1, 1, 0]],
    ],
    rtol=1e-6,
  )
  # 30 tokens of the samples, and 5 of each of 4 (4 + 2) continuations.
  assert int(result.extras["sampler/tokens"]) == 30 + 5 * 4 * 6


def test_tokens_of_a_tool_are_not_counted():
  """A sample of 6 tokens, of which a tool wrote 2."""
  rollout = steps_of([[[0, 0, -1, -1, 1, 1]]], correct=[[1]])
  is_reply = np.isin(np.arange(6), [2, 3])
  tokens = rollout.tokens.replace(mask=rollout.mask & ~is_reply)
  batch, _ = fake_batch(
    rollout.replace(tokens=tokens), [([[1] * 4], [[True] * 4])] * 2
  )
  result = prefix_values.prefix_values().run(batch, ())
  # 4 tokens of the sample, and 5 of each of 4 continuations.
  assert int(result.extras["sampler/tokens"]) == 4 + 5 * 4


def test_the_first_eight_of_ten_steps_are_continued():
  """k of 4 continuations are right after step k, for k up to 4."""
  rollout = steps_of([[list(range(10))]], correct=[[1]])
  results = [
    ([[1] * (k % 5) + [0] * (4 - k % 5)], [[True] * 4]) for k in range(10)
  ]
  batch, requests = fake_batch(rollout, results)
  result = prefix_values.prefix_values().run(batch, ())
  assert len(requests) == 8
  np.testing.assert_array_equal(
    result.extras["sampler/values"][0, 0],
    [0, 0.25, 0.5, 0.75, 1, 0, 0.25, 0.5, 0.5, 1],
  )


def test_the_cue_follows_each_prefix_or_is_moved_to_fit():
  """Forced answers of two prompts, with a cue of two tokens in T = 6."""
  texts = 10 * np.arange(1, 5)[:, None] + np.arange(6)
  rollout = steps_of(
    [
      [[0, 0, 0, 0, 1, 1], [0, 1, 1, -1, -1, -1]],
      [[0, 0, 0, 0, 0, 1], [0, 0, -1, -1, -1, -1]],
    ],
    correct=[[0, 1], [-1, 0]],
  )
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      completions=jnp.asarray(texts.reshape(2, 2, 6))
    )
  )
  exists = np.ones((4, 2), bool)
  exists[2, 1] = False
  batch, requests = fake_batch(
    rollout,
    [
      # One answer of each prompt; those of the other samples do not count.
      ([[1, 0], [1, 1], [1, 0], [0, 0]], exists),
      ([[1, 1], [0, 1], [-1, -1], [1, 1]], np.ones((4, 2))),
      ([[1, 1]] * 4, np.ones((4, 2))),
    ],
    cue=(7, 8),
  )
  sampler = prefix_values.prefix_values(2, prover="ref", forced=True)
  result = sampler.run(batch, ())
  assert [request.params for request in requests] == ["reference"] * 3
  assert [request.prefix for request in requests] == [
    [[2, 2], [2, 2]],
    [[6, 3], [6, 4]],
    [[6, 5], [6, 4]],
  ]
  assert [request.active for request in requests] == [
    [[True, False], [True, False]],
    [[True, True], [True, False]],
    [[False, False], [False, False]],
  ]
  assert requests[1].completions == [
    [[10, 11, 12, 13, 7, 8], [20, 7, 8, 23, 24, 25]],
    [[30, 31, 32, 33, 7, 8], [40, 41, 7, 8, 44, 45]],
  ]
  np.testing.assert_array_equal(
    result.extras["sampler/prompt_values"], [0.5, 1]
  )
  np.testing.assert_array_equal(
    result.extras["sampler/values"], [[[1, 0], [0.5, 1]], [[1, 1], [0, 0]]]
  )
  # 24 tokens of the samples; 2 answers after 2 + 3 prefixes of 5 tokens.
  assert int(result.extras["sampler/tokens"]) == 24 + 5 * 2 * 5


@pytest.mark.parametrize("name", ["continuations", "steps"])
def test_fewer_than_one_continuation_or_step_is_refused(name):
  prefix_values.prefix_values(**{name: 1})
  with pytest.raises(ValueError, match=f"{name} = 0 must be at least 1"):
    prefix_values.prefix_values(**{name: 0})


def test_steps_and_the_prover_must_exist():
  rollout = steps_of([[[0]]])
  batch, _ = fake_batch(rollout, [])
  with pytest.raises(ValueError, match=r"'judge'.*available: policy, ref"):
    prefix_values.prefix_values(prover="judge").run(batch, ())
  batch, _ = fake_batch(rollout.replace(step_ids=None), [])
  with pytest.raises(ValueError, match="no steps to continue from"):
    prefix_values.prefix_values().run(batch, ())
