"""Forced answers after prefixes: the sampler `prefix_values(forced=True)`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    *(None, {}, {}, 1, 1.0), batch.sample, batch.extend
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
  judged = task.score(
    problems, completions, jnp.asarray([[11, 3]]), jnp.ones((1, 2), bool)
  )
  view = judged.views["step_references"]
  answer = [ANSWER, digit(4), EOS]
  wanted = [[*first, *answer]] + [[*first, *second, *answer]] * 3
  wanted += [answer] * 4  # the second sample has no step before its answer
  for tokens, length, mask, expected in zip(
    *(view.completions[0], view.lengths[0], view.mask[0]), wanted, strict=True
  ):
    assert tokens[:length].tolist() == expected
    assert np.flatnonzero(mask).tolist() == [
      len(expected) - 3 + i for i in range(3)
    ]
