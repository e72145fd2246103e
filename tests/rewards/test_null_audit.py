"""Tests that an empty answer never earns more than a right one.

On the chained task, each group is the solution and six completions without any
work: empty, one token over and over, the question again, separators, the word
for the answer over and over, and as much as there is room for. Judges of style
say the same of all; the policy was never trained. The rewards of `WEAK` pay one
of the six more than some solution: it is the method's own weakness, and the
test holds that it is there.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.judged_rollout import JUDGED, P, experiment, made_of, two_answers

import rewards
from experiments.training import drawing, placement
from rewards import base
from rewards.tasks import chain
from rl import scoring
from rl.sampling import generation

NULLS = ("empty", "constant", "echo", "separators", "keywords", "longest")
CONTROL = "a control: it is meant to teach nothing, or the wrong thing"
UNTAUGHT = "a policy that knows nothing finds the truth as likely after nothing"
WEAK = {
  "coins": CONTROL,
  "flipped_groups": CONTROL,
  "opposite": CONTROL,
  "says": "it counts phrases, whoever says them",
  "harmonized_length": "the shortest is the best; to be added to a verdict",
  "token_f1": "the reference's words alone are all that it asks for",
  "self_certainty": "a policy may be surest of what says nothing",
  "dimension_level": "so may it, and confidence is one of its sides",
  "probability": UNTAUGHT,
  "mean_probability": UNTAUGHT,
  "log_probability": UNTAUGHT,
  "mean_log_probability": UNTAUGHT,
  "group_log_mean_advantages": UNTAUGHT,
  "debiased_probability": UNTAUGHT,
}


def nothings(prompt, capacity):
  """`(tokens, finished)` of each of `NULLS`."""
  digit, end, eos = chain.DIGIT + 3, chain.END, chain.EOS
  echo = [*prompt, eos]
  return [
    ([eos], True),
    ([digit] * (capacity - 1) + [eos], True),
    (echo, True),
    ([end] * 5 + [eos], True),
    ([chain.ANSWER] * 5 + [eos], True),
    ([end, digit] * (capacity // 2), False),
  ]


@pytest.fixture(scope="module")
def paid():
  """`{name: [P, 1 + nulls]}`, the solution first."""
  e = experiment()
  capacity = e.task.completion_length
  problems = jax.jit(e.task.train, static_argnums=2)(jax.random.key(1), 0, P)
  gold, lengths = map(np.asarray, jax.jit(e.task.gold)(problems))
  rows = [
    [
      (gold[p, : lengths[p]].tolist(), True),
      *nothings(np.asarray(problems.prompts[p]).tolist(), capacity),
    ]
    for p in range(P)
  ]
  pad = lambda ids: ids + [chain.PAD] * (capacity - len(ids))  # noqa: E731
  completions = jnp.asarray([[pad(ids) for ids, _ in group] for group in rows])
  lengths = jnp.asarray([[len(ids) for ids, _ in group] for group in rows])
  finished = jnp.asarray([[ended for _, ended in group] for group in rows])
  result = drawing.assemble(
    problems,
    generation.Samples(
      completions, lengths, jnp.zeros(completions.shape), finished
    ),
    jax.jit(e.task.score)(problems, completions, lengths, finished),
    jax.random.split(jax.random.key(2), P),
    jnp.int32(7),
  )
  assert result.correct[:, 0].all()
  assert not result.correct[:, 1:].any()
  same = jnp.full(result.scores.shape, 0.5)
  messages = dict.fromkeys(JUDGED, same) | {"stated": same + 0.5}
  arguments = {
    "sampler/values": jnp.zeros(result.step_mask.shape),
    "sampler/prompt_values": jnp.zeros(P),
    "model/prm": jnp.zeros(result.step_mask.shape),
    "sampler/greedy_scores": jnp.zeros(P),
    "task/paraphrase_answer_ids": result.extras["task/answer_ids"],
    "task/option_orders": jnp.broadcast_to(
      jnp.array([1, 0]), (*result.scores.shape, 2)
    ),
  }
  result = result.replace(
    components={**result.components, **messages},
    extras=result.extras.update(arguments),
    views={**result.views, base.SHUFFLED_OPTIONS: two_answers(result)},
  )
  built = {name: made_of(name) for name in rewards.names()}
  built = {name: t for name, t in built.items() if t.gives == "sample"}
  needs = frozenset().union(*(t.needs for t in built.values()))
  scored = jax.jit(
    lambda params: scoring.passes(e.policy, {"old": params}, needs, result)
  )(placement.init_state(e).params)

  @jax.jit
  def values(scored):
    return {n: t.apply(None, scored, t.init())[0] for n, t in built.items()}

  return jax.device_get(values(scored))


def better(values):
  """Returns the nulls that earn more than the solution of some prompt."""
  beats = (values[:, 1:] > values[:, :1] + 1e-6).any(0)
  return [name for name, beat in zip(NULLS, beats, strict=True) if beat]


def test_nothing_is_paid_more_than_a_solution(paid):
  result = {name for name, values in paid.items() if better(values)}
  assert result == set(WEAK)
