"""The step and the fused loop on the real decoder, on one device and eight."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh

from models import policy as policies
from models import sharding, transformer
from models.config import ModelConfig
from rl import fused_loop, methods, step, training_state, types
from rl.sampling import generation
from rl.update_plan import Plan

MODEL = ModelConfig(
  vocab_size=16,
  width=16,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp_width=32,
)
POLICY = policies.bind(MODEL)
P, S, L, T = 8, 4, 3, 4
PLAN = Plan(temperature=0.7)
METHOD = methods.get("grpo", beta=0.1)


def recorded() -> types.Rollout:
  """Ragged groups of ragged completions, as no policy would sample them."""
  generator = np.random.default_rng(0)
  ids = generator.integers(0, MODEL.vocab_size, (P, S, T))
  lengths = generator.integers(1, T + 1, (P, S))
  sample_mask = np.ones((P, S), bool)
  sample_mask[::2, -1] = False
  mask = np.arange(T) < lengths[..., None]
  prompt_mask = np.arange(L) >= generator.integers(0, L, (P, 1))
  prompts = generator.integers(0, MODEL.vocab_size, (P, L))
  arrays = types.Rollout(
    tokens=types.Tokens(
      prompts=prompts.astype(np.int32),
      prompt_mask=prompt_mask,
      completions=ids.astype(np.int32),
      lengths=lengths.astype(np.int32),
      mask=mask,
    ),
    sample_mask=sample_mask,
    behavior_log_probs=np.where(mask, -2.0, 0.0).astype(np.float32),
    finished=lengths < T,
    scores=generator.normal(size=(P, S)).astype(np.float32),
    correct=generator.integers(0, 2, (P, S)).astype(np.int8),
    prompt_ids=np.arange(P, dtype=np.int32),
    keys=jax.random.split(jax.random.key(1), P),
    step=np.int32(0),
  )
  return jax.tree.map(jnp.asarray, arrays)


def keep_gradient() -> optax.GradientTransformation:
  """An optimizer that changes no parameter and stores the gradient."""
  return optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda grads, state, params: (jax.tree.map(jnp.zeros_like, grads), grads),
  )


def start() -> training_state.State:
  """A policy, and a reference with other parameters."""
  params, other = (transformer.init(MODEL, jax.random.key(i)) for i in range(2))
  state = training_state.init(
    METHOD, params, keep_gradient(), jax.random.key(2)
  )
  return state.replace(
    parameter_sets=dict.fromkeys(state.parameter_sets, other)
  )


def gradient(
  plan=PLAN, rollout=None, mesh=None, state=None
) -> list[np.ndarray]:
  """The gradient that a train step passes to its optimizer, leaf by leaf."""
  state = start() if state is None else state
  rollout = recorded() if rollout is None else rollout
  if mesh is not None:
    state = jax.device_put(state, sharding.shardings(state, mesh))
    batch = sharding.batch_sharding(mesh)
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rollout = jax.tree.map(
      lambda x: jax.device_put(x, batch if jnp.ndim(x) else replicated), rollout
    )
  train_step = jax.jit(step.make(METHOD, POLICY, keep_gradient(), plan))
  after, metrics = train_step(state, rollout)
  assert float(metrics["optim/skipped"]) == 0
  return [np.asarray(leaf) for leaf in jax.tree.leaves(after.policy.opt_state)]


@pytest.fixture(scope="module")
def expected():
  leaves = gradient()
  assert min(np.abs(leaf).max() for leaf in leaves) > 0
  return leaves


def assert_near(grads, expected, tolerance):
  """Compares all entries, in units of the largest entry of the gradient."""
  largest = max(np.abs(leaf).max() for leaf in expected)
  for one, other in zip(grads, expected, strict=True):
    assert np.abs(one - other).max() <= tolerance * largest


def test_the_gradient_on_a_2x2x2_mesh_is_that_of_one_device(expected):
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  assert_near(gradient(mesh=mesh), expected, 1e-5)


@pytest.mark.parametrize("parts", [2, 4])
def test_microbatches_leave_the_gradient(expected, parts):
  plan = dataclasses.replace(PLAN, microbatches=parts)
  assert_near(gradient(plan), expected, 1e-5)


def test_logits_in_chunks_leave_the_gradient(expected):
  """Three positions at a time do not divide four."""
  assert_near(gradient(dataclasses.replace(PLAN, chunk=3)), expected, 1e-6)


def test_padding_and_absent_samples_have_exactly_no_influence(expected):
  rollout = recorded()
  tokens, absent = rollout.tokens, ~rollout.sample_mask
  outside = (jnp.arange(T) >= tokens.lengths[..., None]) | absent[..., None]
  other = (tokens.completions + 5) % MODEL.vocab_size
  garbage = rollout.replace(
    tokens=tokens.replace(
      completions=jnp.where(outside, other, tokens.completions),
      prompts=jnp.where(tokens.prompt_mask, tokens.prompts, 7),
    ),
    scores=jnp.where(absent, 1e6, rollout.scores),
    correct=jnp.where(absent, 1 - rollout.correct, rollout.correct),
    behavior_log_probs=jnp.where(outside, 9.0, rollout.behavior_log_probs),
  )
  assert outside.any()
  assert absent.any()
  grads = gradient(rollout=garbage)
  for one, other in zip(grads, expected, strict=True):
    np.testing.assert_array_equal(one, other)


def test_a_temperature_divides_the_logits(expected):
  """Dividing the last kernel gives the same distribution and gradient."""

  def divided(path, leaf):
    return leaf / PLAN.temperature if "unembed" in str(path) else leaf

  cool = jax.tree_util.tree_map_with_path(divided, start().params)
  parameter_sets = jax.tree_util.tree_map_with_path(
    divided, start().parameter_sets
  )
  state = start().with_policy(params=cool)
  state = state.replace(parameter_sets=parameter_sets)
  leaves = gradient(Plan(temperature=1.0), state=state)
  grads = jax.tree.unflatten(jax.tree.structure(cool), leaves)
  grads = jax.tree_util.tree_map_with_path(divided, grads)
  assert_near(jax.tree.leaves(grads), expected, 1e-5)


# The fused loop over seeds, with a small policy.


def bigram_score(table: jax.Array, tokens: types.Tokens) -> types.Scored:
  """The logits of a token are the row of the table of the token before."""
  last = jnp.broadcast_to(tokens.prompts[:, -1:, None], (P, S, 1))
  before = jnp.concatenate([last, tokens.completions[..., :-1]], -1)
  return types.Scored(table[before], {"logits": lambda rows: rows})


BIGRAM = types.Policy(
  score=bigram_score,
  prefill=lambda table, prompts, mask, samples, capacity: (
    table[prompts[:, -1]],
    (),
  ),
  decode=lambda table, tokens, t, cache: (table[tokens], cache),
)
SEEDS, STEPS = 4, 3
SAMPLING = generation.Sampling(samples=S, max_tokens=T, eos_ids=(1,), pad_id=0)
FUSED = methods.get("max_at_k", k=2)
TX = optax.adam(1e-3)


def collect(state: training_state.State) -> types.Rollout:
  """Random prompts; the reward is the sum of the sampled ids."""
  problem_key, sample_key = jax.random.split(
    jax.random.fold_in(state.carried.key, state.step)
  )
  prompts = jax.random.randint(problem_key, (P, L), 2, MODEL.vocab_size)
  prompt_mask, ids = jnp.ones((P, L), bool), jnp.arange(P)
  keys = generation.prompt_keys(sample_key, 0, ids)
  samples = generation.generate(
    BIGRAM, state.params, prompts, prompt_mask, keys, SAMPLING
  )
  mask = jnp.arange(T) < samples.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts, prompt_mask, samples.completions, samples.lengths, mask
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished,
    scores=samples.completions.sum(-1).astype(jnp.float32),
    correct=jnp.full((P, S), -1, jnp.int8),
    prompt_ids=ids,
    keys=keys,
    step=state.step,
  )


def fused() -> fused_loop.Iteration:
  train_step = step.make(FUSED, BIGRAM, TX, Plan())
  return fused_loop.scan(fused_loop.iteration(collect, train_step), STEPS)


def begin(key: jax.Array) -> training_state.State:
  table = jax.random.normal(key, (MODEL.vocab_size, MODEL.vocab_size))
  return training_state.init(FUSED, table, TX, key)


@pytest.fixture(scope="module")
def states():
  return jax.vmap(begin)(jax.random.split(jax.random.key(0), SEEDS))


@pytest.fixture(scope="module")
def separate(states):
  """Each seed by itself: parameters and metrics, stacked."""
  run = jax.jit(fused())
  ends = [run(jax.tree.map(lambda x, i=i: x[i], states)) for i in range(SEEDS)]
  params, metrics = jax.tree.map(
    lambda *x: np.stack(x), *[(s.params, m) for s, m in ends]
  )
  first = jax.tree.leaves(params)[0]
  assert all(np.abs(first[0] - first[i]).max() > 1e-3 for i in range(1, SEEDS))
  assert metrics["optim/grad_norm"].min() > 0
  return params, metrics


@pytest.mark.parametrize("devices", [0, 2], ids=["batch axis", "2 devices"])
def test_seeds_side_by_side_are_separate_runs(states, separate, devices):
  mesh = Mesh(jax.devices()[:devices], ("seed",)) if devices else None
  after, metrics = jax.jit(fused_loop.over_seeds(fused(), mesh))(states)
  np.testing.assert_array_equal(after.step, np.full(SEEDS, STEPS))
  assert metrics["reward/mean"].shape == (SEEDS, STEPS)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6),
    after.params,
    separate[0],
  )
  np.testing.assert_allclose(
    metrics["reward/mean"], separate[1]["reward/mean"], rtol=1e-6
  )


def test_a_single_seed_keeps_its_axis_of_seeds():
  run = fused_loop.over_seeds(lambda x: (x + 1, {"sum": x.sum()}))
  after, metrics = run(jnp.array([[1.0, 2.0]]))
  np.testing.assert_array_equal(after, [[2.0, 3.0]])
  np.testing.assert_array_equal(metrics["sum"], [3.0])
