"""Rewards by name, mixed by a config, in the train step of the chained task."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run
from helpers.judged_rollout import (
  CHAIN,
  JUDGED,
  SETTINGS,
  P,
  S,
  experiment,
  made_of,
  two_answers,
)

import rewards
from experiments.training import (
  build,
  drawing,
  placement,
  reward_from_config,
  rollouts,
)
from experiments.training_run import sample_dump, validate
from rewards import base, combine
from rewards.process import prefix_values
from rl import fused_loop, scoring, step, transforms, types
from rl.sampling import generation
from rl.sampling.samplers import PromptBatch


@pytest.fixture(scope="module")
def judged():
  """Demonstrations, right and wrong, scored by every pass that is needed."""
  e = experiment()
  problems = jax.jit(e.task.train, static_argnums=2)(jax.random.key(1), 0, P)
  demonstrate = jax.jit(e.task.demonstrate)
  shown = [demonstrate(jax.random.key(i), problems) for i in range(S)]
  completions, lengths = (jnp.stack(x, 1) for x in zip(*shown, strict=True))
  # One sample says a wrong digit, one is cut before it answers.
  completions = completions.at[0, 0, lengths[0, 0] - 2].add(1)
  lengths = lengths.at[1, 1].add(-2)
  finished = jnp.ones((P, S), bool).at[1, 1].set(False)
  result = drawing.assemble(
    problems,
    generation.Samples(
      completions, lengths, jnp.zeros(completions.shape), finished
    ),
    jax.jit(e.task.score)(problems, completions, lengths, finished),
    jax.random.split(jax.random.key(2), P),
    jnp.int32(7),
  )
  values = jax.random.uniform(jax.random.key(3), result.step_mask.shape)
  messages = jax.random.uniform(jax.random.key(4), (len(JUDGED), P, S))
  arguments = {
    "sampler/values": values,
    "model/prm": values,
    "sampler/prompt_values": values[:, 0, 0],
    "sampler/greedy_scores": jnp.linspace(0, 1, P).at[0].set(jnp.nan),
    "task/paraphrase_answer_ids": result.extras["task/answer_ids"][:, ::-1],
    "task/option_orders": jnp.broadcast_to(
      jnp.array([[1, 0]] * P).at[0].set(jnp.arange(2))[:, None], (P, S, 2)
    ),
  }
  result = result.replace(
    sample_mask=result.sample_mask.at[2, 3].set(False),
    components={
      **result.components,
      **dict(zip(JUDGED, messages, strict=True)),
    },
    extras=result.extras.update(arguments),
    views={**result.views, base.SHUFFLED_OPTIONS: two_answers(result)},
  )
  params = placement.init_state(e).params
  built = {name: made_of(name) for name in rewards.names()}
  needs = frozenset().union(*(t.needs for t in built.values()))

  @jax.jit
  def scored(params, result):
    return scoring.passes(e.policy, {"old": params}, needs, result)

  return SimpleNamespace(
    e=e,
    problems=problems,
    params=params,
    made=built,
    rollout=scored(params, result),
  )


@pytest.mark.parametrize("name", rewards.names())
def test_every_reward_is_fed_by_a_rollout(judged, name):
  """In a chain, finite, and indifferent to what no sample holds."""
  t = judged.made[name]
  bridge = transforms.chain(t)
  value, _ = jax.jit(bridge.apply)(None, judged.rollout, bridge.init())
  real = judged.rollout.valid(t.gives)
  assert np.isfinite(np.asarray(value)[np.asarray(real)]).all()
  absent = ~judged.rollout.sample_mask

  def spoilt(x, at):
    return jnp.where(at, jnp.nan, x)

  tokens = absent[..., None]
  extras = {
    key: spoilt(x, tokens) if jnp.shape(x)[:2] == (P, S) and x.ndim == 3 else x
    for key, x in judged.rollout.extras.arrays.items()
  }
  dirty = judged.rollout.replace(
    scores=spoilt(judged.rollout.scores, absent),
    components={
      key: spoilt(x, absent) for key, x in judged.rollout.components.items()
    },
    extras=types.Named(extras),
  )
  again, _ = jax.jit(bridge.apply)(None, dirty, bridge.init())
  np.testing.assert_array_equal(
    np.asarray(again)[np.asarray(real)], np.asarray(value)[np.asarray(real)]
  )


def test_the_reference_is_scored_after_the_thought_whatever_was_answered(
  judged,
):
  """By one plain pass over `thought ANS truth EOS`, written out by hand."""
  result = judged.rollout
  view = result.views["reference"]
  facts = judged.problems.facts
  for p, s in ((0, 0), (1, 1), (3, 2)):
    output = result.completions[p, s, : result.tokens.lengths[p, s]].tolist()
    thought = output[: output.index(4)] if 4 in output else output
    value = int(facts["start"][p])
    for op, d in zip(facts["operators"][p], facts["operands"][p], strict=True):
      d = int(d)
      value = [value + d, value - d, value * d][int(op)] % 10
    length = int(view.lengths[p, s])
    written = view.completions[p, s, :length].tolist()
    assert written == [*thought, 4, 8 + value, 1], (p, s)
    alone = types.Tokens(
      prompts=result.tokens.prompts[p : p + 1],
      prompt_mask=result.tokens.prompt_mask[p : p + 1],
      completions=jnp.asarray([[written]]),
      lengths=jnp.asarray([[length]]),
      mask=jnp.ones((1, 1, length), bool),
    )
    one = scoring.read(
      judged.e.policy,
      judged.params,
      alone,
      [scoring.log_probs],
      types.Named(),
    )["log_probs"][0, 0, -3:]
    t = judged.made["log_probability"]
    value, _ = jax.jit(t.apply)(None, result, ())
    np.testing.assert_allclose(value[p, s], one.sum(), rtol=1e-5)


def test_a_completion_is_scored_without_its_question(judged):
  """The view "alone" keeps the first token of the prompt and no other."""
  result = judged.rollout
  p, s = 3, 1
  length = int(result.tokens.lengths[p, s])
  alone = types.Tokens(
    prompts=result.tokens.prompts[p : p + 1, :1],
    prompt_mask=jnp.ones((1, 1), bool),
    completions=result.completions[p : p + 1, s : s + 1, :length],
    lengths=result.tokens.lengths[p : p + 1, s : s + 1],
    mask=jnp.ones((1, 1, length), bool),
  )
  one = scoring.read(
    judged.e.policy, judged.params, alone, [scoring.log_probs], types.Named()
  )["log_probs"][0, 0]
  np.testing.assert_allclose(
    result.extras["old@alone/log_probs"][p, s, :length], one, rtol=1e-4
  )


def value_of(judged, name, **hyper):
  """Returns the scores of the samples that exist."""
  t = rewards.get(name, **SETTINGS.get(name, {}) | hyper)
  value, _ = jax.jit(t.apply)(None, judged.rollout, t.init())
  return np.asarray(value), np.asarray(judged.rollout.sample_mask)


def test_controls_are_those_of_their_arrays(judged):
  result = judged.rollout
  correct, answers = (
    np.asarray(x) for x in (result.correct, result.extras["task/answer_ids"])
  )
  value, real = value_of(judged, "opposite")
  np.testing.assert_array_equal(
    value[real], 1 - np.asarray(result.scores)[real]
  )
  for p, turned in ((0.0, correct == 1), (1.0, correct == 0)):
    value, _ = value_of(judged, "flipped_groups", probability=p)
    np.testing.assert_array_equal(value, turned)
  value, _ = value_of(judged, "coins", probability=1.0)
  assert (value == 1).all()
  value, real = value_of(judged, "wrong_vote")
  paid = (value == 1) & real
  wrong = (correct == 0) & (answers >= 0) & real
  assert not paid[~wrong].any()
  assert paid.any()
  np.testing.assert_array_equal(paid.any(1), wrong.any(1))


def test_phrases_count_where_an_answer_is_read(judged):
  """4 is the mark of the answer, which every whole demonstration has."""
  result = judged.rollout
  hits = np.zeros((P, S))
  for p, s in np.ndindex(P, S):
    row = np.asarray(
      result.completions[p, s, : result.scored_lengths[p, s]]
    ).tolist()
    pairs = list(itertools.pairwise(row))
    hits[p, s] = (4 in row) + (5 in row or (6, 7) in pairs)
  value, _ = value_of(judged, "says")
  reference, _ = value_of(judged, "says", fences=())
  np.testing.assert_array_equal(reference, hits > 0)
  assert (value <= reference).all()
  value, _ = value_of(judged, "reasoning_patterns")
  answered = np.asarray(result.extras["task/answer_ids"]) >= 0
  np.testing.assert_allclose(value, answered * np.minimum(hits / 2, 1))


def test_who_was_not_asked_again_is_not_paid_for_it(judged):
  value, _ = value_of(judged, "answer_consistency")
  assert not value[0].any()  # asked nobody
  right = np.asarray(judged.rollout.correct) == 1
  np.testing.assert_array_equal(value[1:] > 0, right[1:])
  assert set(value[1:].ravel().tolist()) <= {0, 0.5, 1}


def test_novelty_learns_and_never_beats_a_right_answer(judged):
  t = judged.made["novelty_bonus"]
  state = t.init()
  value, after = jax.jit(t.apply)(None, judged.rollout, state)
  right = np.asarray(judged.rollout.correct) == 1
  real = np.asarray(judged.rollout.sample_mask)
  assert value[right & real].min() > value[~right & real].max()
  same = jax.tree.map(np.array_equal, after.predictor, state.predictor)
  assert not any(jax.tree.leaves(same))
  assert after.observations.count[0] == real.sum()
  with pytest.raises(ValueError, match=r"size = 15 .* hidden states, 16"):
    value_of(judged, "novelty_bonus", size=15)


def test_a_score_is_stretched_as_training_goes_on(judged):
  """Half way, at step 7 of 14."""
  result = judged.rollout
  value, real = value_of(judged, "stretched_with_progress", component="style")
  for v, s, r in zip(value, result.components["style"], real, strict=True):
    s = np.asarray(s)[r]
    unit = (s - s.min()) / (s.max() - s.min())
    np.testing.assert_allclose(v[r], (s + unit) / 2, rtol=1e-5)


def test_the_streams_moments_are_carried(judged):
  t = judged.made["min_max"]
  low = judged.rollout.replace(scores=judged.rollout.scores * 0 - 3.0)
  _, state = jax.jit(t.apply)(None, low, t.init())
  value, _ = jax.jit(t.apply)(None, judged.rollout, state)
  expected = (judged.rollout.scores + 3.0) / (judged.rollout.scores.max() + 3.0)
  real = np.asarray(judged.rollout.sample_mask)
  np.testing.assert_allclose(
    np.asarray(value)[real], np.asarray(expected)[real], rtol=1e-6
  )


# Several as one.

MIXED_REWARD = (
  "vote = majority(); vote + 0.5 * debiased_probability() * (vote > 0.5)"
  " + linear(2.0, 0.0, 10) * length_charge(free=4, price=0.1)"
)


def with_reward(e, reward="", step_reward="", **changes):
  made = reward_from_config.make_reward(
    {"reward": reward, "step_reward": step_reward}
  )
  separate = dataclasses.replace(e.method, reward=made, **changes)
  return dataclasses.replace(e, methods={"policy": separate})


def trained(e, state=None):
  state = placement.init_state(e) if state is None else state
  gather = jax.jit(
    rollouts.make_rollout_fn(e.task, e.policy, e.sampling, P, None, e.method)
  )
  built = jax.jit(step.make(e.methods, e.policy, e.txs, e.plan))
  return built(state, gather(state))


@pytest.fixture(scope="module")
def mixed():
  e = with_reward(experiment(rollout__samples=S), MIXED_REWARD)
  state = placement.init_state(e).replace(step=jnp.int32(4))
  new, metrics = trained(e, state)
  gather = jax.jit(
    rollouts.make_rollout_fn(e.task, e.policy, e.sampling, P, None, e.method)
  )
  record = sample_dump.make_recorder(e)(state, gather(state))
  return SimpleNamespace(e=e, new=new, metrics=metrics, record=record)


def test_the_total_follows_from_the_logged_terms_and_weights(mixed):
  m = mixed.metrics
  names = ("vote", "debiased_probability", "length_charge")
  total = sum(
    float(m[f"reward/weight/{n}"]) * float(m[f"score/{n}/mean"]) for n in names
  )
  np.testing.assert_allclose(m["reward/mean"], total, rtol=1e-5)
  weight = m["reward/weight/length_charge"]
  np.testing.assert_allclose(weight, 2.0 * 0.6, rtol=1e-6)
  assert float(m["score/length_charge/mean"]) < 0


def test_the_total_follows_from_every_recorded_sample(mixed):
  weights = {"vote": 1.0, "debiased_probability": 0.5, "length_charge": 1.2}
  assert len(mixed.record) == P * S
  for one in mixed.record:
    total = sum(w * one["terms"][name] for name, w in weights.items())
    np.testing.assert_allclose(one["score"], total, rtol=1e-4, atol=1e-6)
    if one["terms"]["vote"] == 0:
      assert one["terms"]["debiased_probability"] == 0


def test_passes_are_declared_and_their_cost_is_told(mixed):
  needs = {str(need) for need in mixed.e.method.signal_needs}
  assert "old@reference/log_probs" in needs
  tokens = float(mixed.metrics["cost/old@reference_tokens"])
  task = mixed.e.task
  # Before the answer an untrained policy writes most of T, or stops early.
  assert tokens > P * task.prompt_length + 3 * P * S
  bare = mixed.metrics["cost/old@bare_reference_tokens"]
  assert float(bare) == P * (task.prompt_length + 3)
  assert "reward/task" in mixed.metrics


STATEFUL = (
  "vote = majority(); min_max() + 0.5 * vote"
  " + 0.5 * mean_probability() * (vote > 0.5)"
)


def two_steps(e, fused=False):
  """After two steps: the parameters, and the state of the reward."""
  gather = rollouts.make_rollout_fn(
    e.task, e.policy, e.sampling, P, None, e.method
  )
  built = step.make(e.methods, e.policy, e.txs, e.plan)
  body = fused_loop.iteration(gather, built)
  if fused:
    return jax.jit(fused_loop.scan(body, 2))(placement.init_state(e))[0]
  body = jax.jit(body)
  return body(body(placement.init_state(e))[0])[0]


@pytest.fixture(scope="module")
def after_two():
  return two_steps(with_reward(experiment(rollout__samples=S), STATEFUL))


@pytest.mark.long
@pytest.mark.parametrize("how", ["fused", "microbatches", "eight devices"])
def test_a_reward_is_the_same_however_the_step_is_cut(after_two, how):
  changes = {"rollout__samples": S}
  if how == "microbatches":
    changes |= {"plan__microbatches": 2, "mesh__data": 4, "mesh__tensor": 2}
  e = build.build(small_run.config(task=CHAIN, **changes))
  if how != "eight devices":
    e = small_run.on_one_device(e)
  result = two_steps(with_reward(e, STATEFUL), fused=how == "fused")
  moments = after_two.policy.method_state["reward/min_max"]
  assert float(moments.count) == 2 * P * S
  for part in ("params", "method_state"):
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5),
      getattr(result.policy, part),
      getattr(after_two.policy, part),
    )


def test_a_task_score_that_is_not_finite_is_named_whatever_is_paid():
  e = experiment(rollout__samples=S)
  score = e.task.score

  def broken(*args):
    judged = score(*args)
    return judged.replace(scores=judged.scores.at[3, 2].set(jnp.nan))

  task = dataclasses.replace(e.task, score=broken)
  e = with_reward(dataclasses.replace(e, task=task), "verdict()")
  new, metrics = trained(e)
  assert int(metrics["guard/bad_sample"]) == 2
  jax.tree.map(
    np.testing.assert_array_equal, new.params, placement.init_state(e).params
  )


def test_a_forecast_that_nobody_stated_is_the_worst(judged):
  none = jnp.zeros((P, S))
  result = judged.rollout.replace(
    components={**judged.rollout.components, "stated": none, "forecast": none}
  )
  value, _ = jax.jit(judged.made["brier"].apply)(None, result, ())
  np.testing.assert_array_equal(value, -1.0)


def test_terms_read_the_tasks_step_scores_not_those_that_replace_them(judged):
  mixed = reward_from_config.make_reward(
    {"reward": "worst_step()", "step_reward": "outcome_centered()"}
  )
  init = {name: t.init() for name, t in mixed.transforms.items()}
  result, _ = mixed.apply(judged.rollout, init)
  alone, _ = jax.jit(judged.made["worst_step"].apply)(None, judged.rollout, ())
  real = np.asarray(judged.rollout.sample_mask)
  np.testing.assert_array_equal(
    np.asarray(result.components["worst_step"])[real], np.asarray(alone)[real]
  )
  assert (result.step_scores != judged.rollout.step_scores).any()


@pytest.mark.long
def test_the_tasks_own_score_as_the_only_term_changes_no_bit():
  e = experiment(rollout__samples=S)
  reference, _ = trained(e)
  same, _ = trained(with_reward(e, "task()"))
  jax.tree.map(np.testing.assert_array_equal, reference.params, same.params)


def test_a_term_that_is_not_finite_skips_the_update_and_names_the_sample():
  e = experiment(rollout__samples=S)
  nan = transforms.transform(takes="none", gives="sample")(_not_finite)()
  reward = combine.make_reward({"broken": nan}, (combine.Part("broken"),))
  separate = dataclasses.replace(e.method, reward=reward)
  broken = dataclasses.replace(e, methods={"policy": separate})
  state = placement.init_state(broken)
  new, metrics = trained(broken, state)
  assert int(metrics["guard/bad_sample"]) == 1
  assert int(metrics["guard/bad_prompt"]) >= 0
  jax.tree.map(np.testing.assert_array_equal, new.params, state.params)


def _not_finite(_, rollout):
  return jnp.zeros(rollout.scores.shape).at[2, 1].set(jnp.nan)


@pytest.mark.long
def test_step_scores_may_come_from_a_reward():
  """Tests that the method learns from the replaced scores."""
  e = experiment(rollout__samples=S, method="sum_form")
  reference, _ = trained(e)
  paid, metrics = trained(with_reward(e, step_reward="outcome_centered()"))
  assert np.isfinite(float(metrics["loss/total"]))
  leaves = zip(
    jax.tree.leaves(reference.params), jax.tree.leaves(paid.params), strict=True
  )
  assert any((a != b).any() for a, b in leaves)


@pytest.mark.parametrize(
  ("changes", "says"),
  [
    ({"reward": "majorty()"}, "did you mean 'majority'"),
    ({"reward": "majority(treshold=1)"}, "'threshold'"),
    ({"reward": "majority(threshold='a')"}, "must be float"),
    ({"reward": "ceiling()"}, "needs a value of 'highest'"),
    ({"reward": "a"}, "unknown reward 'a'"),
    ({"reward": "task() * (right > 0.5)"}, "unknown reward 'right'"),
    ({"reward": "linaer(1, 0, 3) * task()"}, "did you mean 'linear'"),
    ({"reward": "component(name='answer')"}, "'answered'"),
    ({"reward": "gains()"}, "give a sample signal"),
    ({"step_reward": "gains()"}, "sampler/prompt_values"),
    ({"step_reward": "task()"}, "give a step signal"),
    ({"rollout.sampler": "greeedy()"}, "'greedy'"),
    ({"rollout.sampler": "prefix_values(continuations=0)"}, "at least 1"),
    ({"rollout.sampler": "prefix_values(continuations=2.5)"}, "must be int"),
    ({"rollout.sampler": "greedy(continuations=2)"}, "available: none"),
    ({"task": "chain(operations=2)"}, "view 'reference'"),
    ({"verifier": "mine:judge"}, "chain has its own verifier"),
    ({"data.file": "mine.jsonl"}, "chain reads no file of the user"),
    ({"reward": "answered = task(); answered"}, "has a component 'answered'"),
    ({"rollout.sampler": "prefix_values(prover='judge')"}, "available: policy"),
    ({"reward": "task()", "method": "min_form"}, "not from scores"),
    ({"reward": "task()", "method": "remax"}, "greedy sample"),
    ({"step_reward": "outcome_centered()"}, "reads no step scores"),
  ],
)
def test_mistakes_are_found_before_anything_runs(changes, says):
  config = small_run.config(task=CHAIN)
  if "task" in changes:
    config.reward = "probability()"
  with config.unlocked():
    config.update_from_flattened_dict(changes)
  with pytest.raises(ValueError, match=r".") as error:
    validate.check_and_build(config)
  assert "\n" not in str(error.value)
  assert says in str(error.value)


# Continuations.


def test_the_chance_of_success_after_each_step_is_the_continuations_mean():
  """Tests values of a fake sampler: 2 or more tokens are right, fewer wrong."""
  ids = jnp.asarray([[[0, 0, 1, 2], [0, 1, 1, -1], [0, -1, -1, -1]]])
  lengths = jnp.asarray([[4, 3, 1]])
  mask = ids >= 0
  steps = jnp.asarray([[[1, 1, 1], [1, 1, 0], [1, 0, 0]]], bool)
  base = types.Rollout(
    tokens=types.Tokens(
      jnp.ones((1, 2), jnp.int32),
      jnp.ones((1, 2), bool),
      jnp.ones((1, 3, 4), jnp.int32),
      lengths,
      mask,
    ),
    sample_mask=jnp.ones((1, 3), bool),
    behavior_log_probs=jnp.zeros((1, 3, 4)),
    finished=jnp.ones((1, 3), bool),
    scores=jnp.asarray([[1.0, 0.0, 0.0]]),
    correct=jnp.asarray([[1, 0, 0]], jnp.int8),
    prompt_ids=jnp.zeros((1,), jnp.int32),
    keys=jax.random.split(jax.random.key(0), 1),
    step=jnp.int32(0),
    step_ids=ids,
    step_scores=jnp.zeros((1, 3, 3)),
    step_mask=steps,
  )
  requested = []

  def extend(params, rollout, remaining, count, active):
    requested.append(
      (np.asarray(remaining).tolist(), np.asarray(active).tolist())
    )
    good = (remaining.reshape(-1, 1) >= 2) & (jnp.arange(count) > 0)
    return base.replace(
      tokens=base.tokens.replace(
        completions=jnp.ones((3, count, 4), jnp.int32),
        lengths=jnp.full((3, count), 2),
        mask=jnp.ones((3, count, 4), bool),
      ),
      sample_mask=jnp.ones((3, count), bool),
      correct=good.astype(jnp.int8),
      extras=types.Named(
        {"sampler/drawn": 5 * jnp.repeat(active.reshape(-1, 1), count, 1)}
      ),
    )

  sampler = PromptBatch(None, {}, {}, 3, 1.0, lambda *args: base, extend, None)
  stage = prefix_values.prefix_values(continuations=4, steps=3)
  result = stage.run(sampler, stage.init())
  np.testing.assert_allclose(
    result.extras["sampler/values"],
    # Sample 0: two tokens stand after step 0, one of the four is wrong.
    [[[0.75, 0.75, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
  )
  np.testing.assert_allclose(result.extras["sampler/prompt_values"], [1 / 3])
  assert requested[0] == ([[2, 1, 1]], [[True, True, False]])
  assert requested[1] == ([[3, 3, 1]], [[True, False, False]])
  # 8 of the samples; two continued at step 0, one at step 1: 4 of 5 tokens.
  assert int(result.extras["sampler/tokens"]) == 8 + 3 * 4 * 5
  # Beyond the steps that are valued the outcome still counts.
  fewer = prefix_values.prefix_values(continuations=4, steps=1).run(sampler, ())
  np.testing.assert_allclose(
    fewer.extras["sampler/values"][0, 0], [0.75, 0.75, 1.0]
  )
  gain = jax.jit(rewards.get("gains").apply)(None, result, ())[0]
  np.testing.assert_allclose(gain.sum(-1)[0, 0], 1.0 - 1 / 3, rtol=1e-6)


@pytest.mark.long
def test_the_chained_task_continues_from_its_steps():
  e = experiment(
    rollout__samples=2,
    rollout__sampler="prefix_values(continuations=2, steps=3)",
  )
  e = with_reward(e, step_reward="gains()", sampler=e.method.sampler)
  assert "sampler/values" in e.method.sampler.gives
  _, metrics = trained(e)
  assert np.isfinite(float(metrics["loss/total"]))
  sampled = float(metrics["length/mean"]) * P * 2
  assert float(metrics["cost/sampled_tokens"]) > sampled
