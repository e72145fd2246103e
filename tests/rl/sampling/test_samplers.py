"""Sampling stages on the real decoder: what they add, and that off is off."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run, worked_example

from experiments.studies import multi_seed
from experiments.training import placement, rollouts
from rl import fused_loop, methods, scoring, step, training_state, types
from rl.methods.sampling import eepo
from rl.sampling import samplers
from rl.update_plan import Plan

PILOT, SAMPLES = 3, 5


@pytest.fixture(scope="module")
def experiment():
  return small_run.experiment(rollout__samples=SAMPLES)


def gathered(e, method, fused=True):
  """A rollout of the method's stage, and the state it was made from."""
  policy = method["policy"] if isinstance(method, dict) else method
  state = training_state.init(
    method,
    placement.init_state(e).params,
    e.txs
    if not isinstance(method, dict)
    else {n: e.txs["policy"] for n in method},
    jax.random.key(0),
  )
  make = functools.partial(
    rollouts.make_rollout_fn, e.task, e.policy, e.sampling, 4, None, policy
  )
  return jax.jit(make())(state), state


def assert_same(a, b):
  def same(x, y):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = map(jax.random.key_data, (x, y))
    np.testing.assert_array_equal(x, y)

  jax.tree.map(same, a, b)


def grpo():
  return methods.get("grpo", beta=0.0)


@pytest.mark.parametrize(
  ("name", "off"),
  [
    ("dars", {"pilot": SAMPLES}),
    ("coba", {"pilot": SAMPLES}),
    ("aryabhata", {"pilot": SAMPLES}),
    ("eepo", {"rate": 0.0}),
  ],
)
def test_a_sampler_that_is_off_samples_the_bits_of_once(experiment, name, off):
  once, _ = gathered(experiment, grpo())
  method = dataclasses.replace(methods.get(name, **off), name="off")
  rollout, _ = gathered(experiment, method)
  assert_same(rollout.replace(memory=()), once)


@pytest.mark.long
def test_a_run_with_a_sampler_that_is_off_is_grpo_bit_for_bit(experiment):
  """Three steps, fused: parameters and metrics."""
  e = experiment
  switched_off = dataclasses.replace(
    grpo(), sampler=methods.get("dars", pilot=SAMPLES).sampler
  )
  ended = []
  for method in (grpo(), switched_off):
    gather = rollouts.make_rollout_fn(
      e.task, e.policy, e.sampling, 4, None, method
    )
    body = fused_loop.iteration(
      gather, step.make(method, e.policy, e.txs, Plan())
    )
    state = training_state.init(
      method, placement.init_state(e).params, e.txs, jax.random.key(0)
    )
    ended.append(jax.jit(fused_loop.scan(body, 3))(state))
  assert_same(*ended)


@pytest.mark.long
def test_a_second_pass_goes_on_where_the_pilot_stopped(experiment):
  """With the largest budget, two passes draw the samples of one pass."""
  everything = samplers.second_pass(
    PILOT,
    lambda pilot, max_further, memory: (jnp.full(4, max_further), memory),
    "all",
  )
  nothing = samplers.second_pass(
    PILOT,
    lambda pilot, max_further, memory: (jnp.zeros(4, int), memory),
    "none",
  )
  some = samplers.second_pass(
    PILOT,
    lambda pilot, max_further, memory: (jnp.arange(4) % 3, memory),
    "some",
  )
  once, _ = gathered(experiment, grpo())
  for sampler, extra in (
    (everything, [2] * 4),
    (nothing, [0] * 4),
    (some, [0, 1, 2, 0]),
  ):
    rollout, _ = gathered(
      experiment, dataclasses.replace(grpo(), sampler=sampler)
    )
    real = np.arange(SAMPLES) < PILOT + np.array(extra)[:, None]
    np.testing.assert_array_equal(rollout.sample_mask, real)
    np.testing.assert_array_equal(
      np.where(real[..., None], rollout.completions, 0),
      np.where(real[..., None], once.completions, 0),
    )
    np.testing.assert_array_equal(rollout.scores[real], once.scores[real])
    np.testing.assert_allclose(
      rollout.behavior_log_probs[real], once.behavior_log_probs[real], atol=1e-6
    )
    assert not rollout.tokens.mask[~real].any()


def test_greedy_scores_are_those_of_the_likeliest_completion(experiment):
  once, _ = gathered(experiment, grpo())
  rollout, state = gathered(experiment, methods.get("remax"))
  extras = rollout.extras.arrays
  greedy = extras["sampler/greedy_scores"]
  assert greedy.shape == (4,)
  assert_same(rollout.replace(extras=once.extras), once)
  e = experiment
  cold = dataclasses.replace(e.sampling, samples=1, temperature=0.0)
  alone = jax.jit(rollouts.make_rollout_fn(e.task, e.policy, cold, 4))(state)
  np.testing.assert_allclose(greedy, alone.scores[:, 0], rtol=1e-6)
  assert (
    extras["sampler/tokens"]
    == once.scored_lengths.sum() + alone.scored_lengths.sum()
  )


def mean_log_probs(e, params, rollout):
  """Log-probs of the samples under the policy, `[P, S]`."""
  log_probs = scoring.read(
    e.policy, params, rollout.tokens, [scoring.log_probs], types.Named()
  )["log_probs"]
  return jnp.where(rollout.mask, log_probs, 0).sum(-1)


@pytest.mark.long
def test_forgetting_makes_the_first_half_less_likely(experiment):
  """The second half is sampled after one step of the unlearning loss."""
  method = methods.get("eepo", rate=0.5, threshold=1e9)
  rollout, state = gathered(experiment, method)
  half = SAMPLES // 2
  once, _ = gathered(experiment, grpo())
  np.testing.assert_array_equal(
    rollout.completions[:, :half], once.completions[:, :half]
  )
  first = rollout.tokens.replace(
    completions=rollout.tokens.completions[:, :half],
    lengths=rollout.tokens.lengths[:, :half],
    mask=rollout.tokens.mask[:, :half],
  )

  def loss(params):
    rollout = once.replace(tokens=first)
    log_probs = scoring.read(
      experiment.policy, params, first, [scoring.log_probs], types.Named()
    )["log_probs"]
    return eepo.unlearning_loss(log_probs, rollout.mask)

  slope = jax.grad(loss)(state.params)
  after = jax.tree.map(lambda p, g: p - 0.5 * g, state.params, slope)
  e, half_rollout = experiment, once.replace(tokens=first)
  assert (
    mean_log_probs(e, after, half_rollout).mean()
    < mean_log_probs(e, state.params, half_rollout).mean()
  )
  # The samples of theta' have the log-probs of theta', not of theta.
  sampled = jnp.where(rollout.mask, rollout.behavior_log_probs, 0).sum(-1)[
    :, half:
  ]
  under = {
    name: mean_log_probs(e, params, rollout)[:, half:]
    for name, params in (("after", after), ("before", state.params))
  }
  np.testing.assert_allclose(sampled, under["after"], atol=1e-4)
  assert np.abs(sampled - under["before"]).max() > 1e-3


@pytest.mark.long
def test_an_uncertain_policy_forgets_nothing(experiment):
  """Above the threshold of entropy, the samples are those of GRPO."""
  once, _ = gathered(experiment, grpo())
  rollout, state = gathered(
    experiment, methods.get("eepo", rate=0.5, threshold=0.0)
  )
  np.testing.assert_array_equal(rollout.completions, once.completions)
  assert rollout.memory["seen"] == 1
  entropy = scoring.read(
    experiment.policy,
    state.params,
    once.tokens,
    [scoring.entropy],
    types.Named(),
  )["entropy"]
  half = once.mask & (np.arange(SAMPLES) < SAMPLES // 2)[:, None]
  np.testing.assert_allclose(
    rollout.memory["entropies"][-1], entropy[half].mean(), rtol=1e-4
  )


@pytest.mark.long
def test_summaries_go_on_from_the_cut(experiment):
  """Prompts of the second rollout are prompts with a prefix of the sample."""
  method = methods.get("brpo_anytime", budgets=(0.5, 1.0), summaries=2)
  rollout, _ = gathered(experiment, method)
  thinking, summary = rollout["policy"], rollout["summary"]
  once, _ = gathered(experiment, grpo())
  np.testing.assert_array_equal(thinking.completions, once.completions)
  cut = round(0.5 * thinking.mask.shape[-1])
  lengths = np.asarray(thinking.tokens.lengths)
  assert summary.scores.shape == (4 * SAMPLES, 2)
  for p in range(4):
    prompt = np.asarray(once.tokens.prompts[p])[
      np.asarray(once.tokens.prompt_mask[p])
    ]
    for s in range(SAMPLES):
      row = p * SAMPLES + s
      prefix = np.asarray(thinking.completions[p, s, : min(cut, lengths[p, s])])
      real = np.asarray(summary.tokens.prompt_mask[row])
      np.testing.assert_array_equal(
        np.asarray(summary.tokens.prompts[row])[real],
        np.concatenate([prompt, prefix]),
      )
      assert summary.sample_mask[row].all() == (lengths[p, s] > cut)
      want = thinking.scores[p, s]
      if lengths[p, s] > cut:
        want = summary.scores[row].mean()
      np.testing.assert_allclose(thinking.step_scores[p, s, 0], want, rtol=1e-5)
      assert thinking.step_scores[p, s, 1] == thinking.scores[p, s]
  sampled = summary.extras["sampler/drawn"].sum()
  assert (
    thinking.extras["sampler/tokens"] == once.tokens.lengths.sum() + sampled
  )
  assert multi_seed.sampled_tokens(rollout) == thinking.extras["sampler/tokens"]
  at = np.where(np.arange(thinking.mask.shape[-1]) < cut, 0, 1)
  np.testing.assert_array_equal(
    thinking.step_ids, np.where(thinking.mask, at, -1)
  )


@pytest.mark.long
def test_two_learners_learn_from_two_rollouts(experiment):
  """Each of the two policies is updated with a rollout of its own."""
  e = experiment
  method = methods.get("brpo_anytime", budgets=(0.5, 1.0), summaries=2)
  rollout, _ = gathered(e, method)
  txs = {name: e.txs["policy"] for name in method}
  state = training_state.init(
    method, placement.init_state(e).params, txs, jax.random.key(0)
  )
  train_step = jax.jit(step.make(method, e.policy, txs, Plan()))
  new, metrics = train_step(state, rollout)
  moved = lambda a, b: max(  # noqa: E731
    float(jnp.abs(x - y).max())
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
  )
  assert moved(new.params, state.params) > 0
  before = state.learners["summary"].params
  assert moved(new.learners["summary"].params, before) > 0
  still = rollout["summary"].replace(
    scores=jnp.zeros_like(rollout["summary"].scores)
  )
  new, _ = train_step(state, {**rollout, "summary": still})
  assert moved(new.params, state.params) > 0
  assert moved(new.learners["summary"].params, before) == 0
  assert np.isfinite(metrics["summary/loss/total"])


def test_rollouts_are_sampled_by_the_behavior_policy(experiment):
  e = experiment
  method = methods.get("semi_online_grpo")
  assert method.behavior != "policy"
  state = training_state.init(
    method, placement.init_state(e).params, e.txs, jax.random.key(0)
  )
  other = jax.tree.map(lambda x: x * 1.5, state.params)
  stale = state.replace(
    parameter_sets={name: other for name in state.parameter_sets}
  )
  gather = jax.jit(
    rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4, None, method)
  )
  once = jax.jit(rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4))
  assert_same(gather(stale), once(state.with_policy(params=other)))


# Samplers on batches that count instead of sampling.


def _numbered(count, first=0, p=2, base=0.0, **fields):
  """Samples whose scores are 10 times the prompt, plus their number."""
  scores = base + 10.0 * np.arange(p)[:, None] + first + np.arange(count)
  lengths = np.full((p, count), 2)
  lengths[:, 0] = 3
  rollout = worked_example.rollout(scores, lengths, **fields)
  # As many prompt tokens as samples in `first`.
  tokens = rollout.tokens.replace(
    prompts=jnp.arange(2 * p).reshape(p, 2),
    prompt_mask=jnp.ones((p, 2), bool),
  )
  return rollout.replace(tokens=tokens)


def _batch(samples, calls):
  def sample(params, count, first=0, active=None, temperature=None):
    calls.append((params, count, first, active, temperature))
    base = 0.0 if temperature is None else 100.0
    rollout = _numbered(count, first, base=base)
    # The task did not score the second prompt's greedy completion.
    if temperature == 0:
      rollout = rollout.replace(sample_mask=jnp.array([[True], [False]]))
    return rollout

  return samplers.PromptBatch(
    *(None, "params", {}, samples, 1.0, sample, None, None)
  )


def test_once_samples_all_completions_in_one_pass():
  calls = []
  rollout = samplers.once().run(_batch(4, calls), ())
  assert calls == [("params", 4, 0, None, None)]
  assert rollout.scores.shape == (2, 4)
  assert samplers.once().init() == ()
  assert _batch(4, []).answer_cue == ()
  for value in (samplers.once(), _batch(4, [])):
    with pytest.raises(dataclasses.FrozenInstanceError):
      value.name = "other"


def test_greedy_also_samples_one_completion_at_temperature_0():
  calls = []
  sampler = samplers.greedy()
  rollout = sampler.run(_batch(3, calls), ())
  assert [call[1:] for call in calls] == [
    (3, 0, None, None),
    (1, 0, None, 0.0),
  ]
  greedy_scores = rollout.extras["sampler/greedy_scores"]
  np.testing.assert_array_equal(greedy_scores, [100, np.nan])
  # Two samples of two tokens and one of three; one completion of three.
  assert rollout.extras["sampler/tokens"] == 2 * 7 + 2 * 3
  assert (str(sampler), sampler.gives) == (
    "greedy()",
    ("sampler/greedy_scores",),
  )


@pytest.mark.parametrize(
  ("pilot", "further"), [(5, None), (6, None), (4, [1, 0]), (2, [1, 3])]
)
def test_a_second_pass_samples_what_the_budget_says(pilot, further):
  calls, seen = [], []

  def budget(rollout, max_further, memory):
    seen.append((rollout.scores.shape, max_further, memory))
    return jnp.array(further), memory + 1

  sampler = samplers.second_pass(pilot, budget, "second", lambda: 7)
  assert (str(sampler), sampler.init()) == ("second", 7)
  rollout = sampler.run(_batch(5, calls), 7)
  np.testing.assert_array_equal(
    rollout.scores, 10.0 * np.arange(2)[:, None] + np.arange(5)
  )
  if further is None:
    assert [call[1] for call in calls] == [5]
    assert (seen, rollout.memory) == ([], 7)
    assert rollout.sample_mask.all()
    return
  assert seen == [((2, pilot), 5 - pilot, 7)]
  assert rollout.memory == 8
  assert [call[1:3] for call in calls] == [(pilot, 0), (5 - pilot, pilot)]
  active = np.arange(5 - pilot) < np.array(further)[:, None]
  np.testing.assert_array_equal(calls[1][3], active)
  np.testing.assert_array_equal(rollout.sample_mask[:, :pilot], True)
  np.testing.assert_array_equal(rollout.sample_mask[:, pilot:], active)


def test_samples_that_the_second_pass_has_not_scored_do_not_exist():
  batch = _batch(4, [])

  def sample(params, count, first, active):
    rollout = _numbered(count, first)
    return rollout.replace(sample_mask=jnp.array([[False, True], [True, True]]))

  rollout = samplers.add_samples(
    dataclasses.replace(batch, sample=sample),
    _numbered(2),
    2,
    jnp.array([2, 1]),
  )
  assert rollout.sample_mask.astype(int).tolist() == [
    [1, 1, 0, 1],
    [1, 1, 1, 0],
  ]


@pytest.mark.parametrize("count", [2, 3])
def test_arrays_of_samples_are_joined_and_others_are_those_of_the_first(count):
  """Even if a prompt has as many tokens or numbers as samples."""

  def fields(rollout, sign):
    s = rollout.scores.shape[1]
    own_prompts = rollout.tokens.replace(
      prompts=sign * jnp.arange(2 * s * 2).reshape(2, s, 2),
      prompt_mask=jnp.ones((2, s, 2), bool),
    )
    return rollout.replace(
      step=jnp.int32(sign),
      prompt_ids=sign * rollout.prompt_ids,
      views={
        "shared": rollout.tokens,
        "own": own_prompts,
        "bare_reference": rollout.tokens,
      },
      extras=types.Named(
        {
          "task/part": sign * rollout.scores[..., None],
          "sampler/part": sign * jnp.arange(2.0 * s).reshape(2, s),
        }
      ),
      components={"part": sign * rollout.scores},
    )

  first, second = fields(_numbered(2), 1), fields(_numbered(count, 2), -1)
  joined = samplers.join(first, second)

  def both(get):
    return jnp.concatenate([get(first), get(second)], 1)

  for get in (
    lambda r: r.scores,
    lambda r: r.sample_mask,
    lambda r: r.finished,
    lambda r: r.behavior_log_probs,
    lambda r: r.components["part"],
    lambda r: r.extras["task/part"],
    lambda r: r.tokens.mask,
    lambda r: r.tokens.lengths,
    lambda r: r.tokens.completions,
    lambda r: r.views["shared"].lengths,
    lambda r: r.views["own"].prompts,
    lambda r: r.views["own"].prompt_mask,
  ):
    np.testing.assert_array_equal(get(joined), both(get))
  for get in (
    lambda r: r.step,
    lambda r: r.prompt_ids,
    lambda r: jax.random.key_data(r.keys),
    lambda r: r.tokens.prompts,
    lambda r: r.tokens.prompt_mask,
    lambda r: r.views["shared"].prompts,
    lambda r: r.views["bare_reference"].completions,
    lambda r: r.extras["sampler/part"],
  ):
    np.testing.assert_array_equal(get(joined), get(first))


def test_the_axis_of_the_prompts_is_declared():
  """Also where another axis is as long, or a multiple of it."""
  rollout = _numbered(2).replace(
    memory={"table": jnp.zeros((4, 2)), "count": jnp.int32(0)},
    extras=types.Named(
      {"sampler/values": jnp.zeros(2), "sampler/tokens": jnp.int32(7)}
    ),
    views={"bare_reference": _numbered(1).tokens},
  )
  result = rollout.has_prompt_axis()
  assert not result.step
  assert result.memory == {"table": False, "count": False}
  assert result.extras.arrays == {
    "sampler/values": True,
    "sampler/tokens": False,
  }
  assert all(
    jax.tree.leaves((result.tokens, result.views, result.keys, result.scores))
  )


def test_pairs_of_samples_are_not_joined():
  extras = types.Named({"task/preferences": jnp.zeros((2, 2, 2))})
  with pytest.raises(ValueError, match="task/preferences compare the samples"):
    samplers.join(_numbered(2).replace(extras=extras), _numbered(2))
