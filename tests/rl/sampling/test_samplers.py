"""Sampling stages on the real decoder: what they add, and that off is off."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run

from experiments.studies import multi_seed
from experiments.training import rollouts
from rl import fused_loop, methods, scoring, step, types
from rl.methods.sampling import eepo
from rl.minibatches import Plan
from rl.sampling import samplers

PILOT, SAMPLES = 3, 5


@pytest.fixture(scope="module")
def experiment():
  return small_run.experiment(rollout__samples=SAMPLES)


def gathered(e, method, fused=True):
  """A rollout of the method's stage, and the state it was made from."""
  policy = method["policy"] if isinstance(method, dict) else method
  state = step.init(
    method,
    e.init().params,
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
def test_a_stage_that_is_off_leaves_the_bits_of_plain_sampling(
  experiment, name, off
):
  plain, _ = gathered(experiment, grpo())
  method = dataclasses.replace(methods.get(name, **off), name="off")
  found, _ = gathered(experiment, method)
  assert_same(found.replace(memory=()), plain)


@pytest.mark.long
def test_a_run_with_the_stage_off_is_grpo_bit_for_bit(experiment):
  """Three steps, fused: parameters and metrics."""
  e = experiment
  staged = dataclasses.replace(
    grpo(), stage=methods.get("dars", pilot=SAMPLES).sampler
  )
  ended = []
  for method in (grpo(), staged):
    gather = rollouts.make_rollout_fn(
      e.task, e.policy, e.sampling, 4, None, method
    )
    body = fused_loop.iteration(
      gather, step.make(method, e.policy, e.txs, Plan())
    )
    state = step.init(method, e.init().params, e.txs, jax.random.key(0))
    ended.append(jax.jit(fused_loop.scan(body, 3))(state))
  assert_same(*ended)


@pytest.mark.long
def test_a_second_pass_goes_on_where_the_pilot_stopped(experiment):
  """Asked for everything, two passes draw the samples of one."""
  everything = samplers.second_pass(
    PILOT, lambda pilot, most, memory: (jnp.full(4, most), memory), "all"
  )
  nothing = samplers.second_pass(
    PILOT, lambda pilot, most, memory: (jnp.zeros(4, int), memory), "none"
  )
  some = samplers.second_pass(
    PILOT, lambda pilot, most, memory: (jnp.arange(4) % 3, memory), "some"
  )
  plain, _ = gathered(experiment, grpo())
  for stage, extra in (
    (everything, [2] * 4),
    (nothing, [0] * 4),
    (some, [0, 1, 2, 0]),
  ):
    found, _ = gathered(experiment, dataclasses.replace(grpo(), stage=stage))
    real = np.arange(SAMPLES) < PILOT + np.array(extra)[:, None]
    np.testing.assert_array_equal(found.sample_mask, real)
    np.testing.assert_array_equal(
      np.where(real[..., None], found.completions, 0),
      np.where(real[..., None], plain.completions, 0),
    )
    np.testing.assert_array_equal(found.scores[real], plain.scores[real])
    np.testing.assert_allclose(
      found.behavior_log_probs[real], plain.behavior_log_probs[real], atol=1e-6
    )
    assert not found.tokens.mask[~real].any()


def test_greedy_scores_are_those_of_the_likeliest_completion(experiment):
  plain, _ = gathered(experiment, grpo())
  found, state = gathered(experiment, methods.get("remax"))
  extras = found.extras.arrays
  greedy = extras["stage/greedy_scores"]
  assert greedy.shape == (4,)
  assert_same(found.replace(extras=plain.extras), plain)
  e = experiment
  cold = dataclasses.replace(e.sampling, samples=1, temperature=0.0)
  alone = jax.jit(rollouts.make_rollout_fn(e.task, e.policy, cold, 4))(state)
  np.testing.assert_allclose(greedy, alone.scores[:, 0], rtol=1e-6)
  assert (
    extras["stage/tokens"]
    == plain.scored_lengths.sum() + alone.scored_lengths.sum()
  )


def mean_log_probs(e, params, rollout):
  """`[P, S]` of the policy at its samples."""
  found = scoring.read(
    e.policy, params, rollout.tokens, [scoring.log_probs], types.Named()
  )["log_probs"]
  return jnp.where(rollout.mask, found, 0).sum(-1)


@pytest.mark.long
def test_forgetting_makes_the_first_half_less_likely(experiment):
  """One step of the unlearning loss; and the second half knows who drew it."""
  method = methods.get("eepo", rate=0.5, threshold=1e9)
  found, state = gathered(experiment, method)
  half = SAMPLES // 2
  plain, _ = gathered(experiment, grpo())
  np.testing.assert_array_equal(
    found.completions[:, :half], plain.completions[:, :half]
  )
  first = found.tokens.replace(
    completions=found.tokens.completions[:, :half],
    lengths=found.tokens.lengths[:, :half],
    mask=found.tokens.mask[:, :half],
  )

  def loss(params):
    rollout = plain.replace(tokens=first)
    log_probs = scoring.read(
      experiment.policy, params, first, [scoring.log_probs], types.Named()
    )["log_probs"]
    return eepo.unlearning_loss(log_probs, rollout.mask)

  slope = jax.grad(loss)(state.params)
  after = jax.tree.map(lambda p, g: p - 0.5 * g, state.params, slope)
  e, seen = experiment, plain.replace(tokens=first)
  assert (
    mean_log_probs(e, after, seen).mean()
    < mean_log_probs(e, state.params, seen).mean()
  )
  # What was drawn by theta' has the log-probs of theta', not of theta.
  drawn = jnp.where(found.mask, found.behavior_log_probs, 0).sum(-1)[:, half:]
  under = {
    name: mean_log_probs(e, params, found)[:, half:]
    for name, params in (("after", after), ("before", state.params))
  }
  np.testing.assert_allclose(drawn, under["after"], atol=1e-4)
  assert np.abs(drawn - under["before"]).max() > 1e-3


@pytest.mark.long
def test_an_uncertain_policy_forgets_nothing(experiment):
  """Entropy above the threshold: the samples of plain GRPO, and a memory."""
  plain, _ = gathered(experiment, grpo())
  found, state = gathered(
    experiment, methods.get("eepo", rate=0.5, threshold=0.0)
  )
  np.testing.assert_array_equal(found.completions, plain.completions)
  assert found.memory["seen"] == 1
  entropy = scoring.read(
    experiment.policy,
    state.params,
    plain.tokens,
    [scoring.entropy],
    types.Named(),
  )["entropy"]
  half = plain.mask & (np.arange(SAMPLES) < SAMPLES // 2)[:, None]
  np.testing.assert_allclose(
    found.memory["entropies"][-1], entropy[half].mean(), rtol=1e-4
  )


@pytest.mark.long
def test_summaries_go_on_from_the_cut(experiment):
  """Prompts of the second rollout are prompt and thought up to the budget."""
  method = methods.get("brpo_anytime", budgets=(0.5, 1.0), summaries=2)
  found, _ = gathered(experiment, method)
  thinking, summary = found["policy"], found["summary"]
  plain, _ = gathered(experiment, grpo())
  np.testing.assert_array_equal(thinking.completions, plain.completions)
  cut = round(0.5 * thinking.mask.shape[-1])
  lengths = np.asarray(thinking.tokens.lengths)
  assert summary.scores.shape == (4 * SAMPLES, 2)
  for p in range(4):
    asked = np.asarray(plain.tokens.prompts[p])[
      np.asarray(plain.tokens.prompt_mask[p])
    ]
    for s in range(SAMPLES):
      row = p * SAMPLES + s
      kept = np.asarray(thinking.completions[p, s, : min(cut, lengths[p, s])])
      real = np.asarray(summary.tokens.prompt_mask[row])
      np.testing.assert_array_equal(
        np.asarray(summary.tokens.prompts[row])[real],
        np.concatenate([asked, kept]),
      )
      assert summary.sample_mask[row].all() == (lengths[p, s] > cut)
      want = thinking.scores[p, s]
      if lengths[p, s] > cut:
        want = summary.scores[row].mean()
      np.testing.assert_allclose(thinking.step_scores[p, s, 0], want, rtol=1e-5)
      assert thinking.step_scores[p, s, 1] == thinking.scores[p, s]
  drawn = summary.extras["stage/drawn"].sum()
  assert thinking.extras["stage/tokens"] == plain.tokens.lengths.sum() + drawn
  assert multi_seed.sampled_tokens(found) == thinking.extras["stage/tokens"]
  at = np.where(np.arange(thinking.mask.shape[-1]) < cut, 0, 1)
  np.testing.assert_array_equal(
    thinking.step_ids, np.where(thinking.mask, at, -1)
  )


@pytest.mark.long
def test_two_learners_learn_from_two_rollouts(experiment):
  """The summary policy moves by its own rollout, the thinker by the other."""
  e = experiment
  method = methods.get("brpo_anytime", budgets=(0.5, 1.0), summaries=2)
  found, _ = gathered(e, method)
  txs = {name: e.txs["policy"] for name in method}
  state = step.init(method, e.init().params, txs, jax.random.key(0))
  train_step = jax.jit(step.make(method, e.policy, txs, Plan()))
  new, metrics = train_step(state, found)
  moved = lambda a, b: max(  # noqa: E731
    float(jnp.abs(x - y).max())
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
  )
  assert moved(new.params, state.params) > 0
  assert (
    moved(new.parameter_sets["summary"], state.parameter_sets["summary"]) > 0
  )
  still = found["summary"].replace(
    scores=jnp.zeros_like(found["summary"].scores)
  )
  new, _ = train_step(state, {**found, "summary": still})
  assert moved(new.params, state.params) > 0
  assert (
    moved(new.parameter_sets["summary"], state.parameter_sets["summary"]) == 0
  )
  assert np.isfinite(metrics["summary/loss/total"])


def test_rollouts_come_from_the_slot_that_behaves(experiment):
  e = experiment
  method = methods.get("semi_online_grpo")
  assert method.behavior != "policy"
  state = step.init(method, e.init().params, e.txs, jax.random.key(0))
  other = jax.tree.map(lambda x: x * 1.5, state.params)
  stale = state.replace(
    parameter_sets={name: other for name in state.parameter_sets}
  )
  gather = jax.jit(
    rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4, None, method)
  )
  plain = jax.jit(rollouts.make_rollout_fn(e.task, e.policy, e.sampling, 4))
  assert_same(gather(stale), plain(state.replace(params=other)))
