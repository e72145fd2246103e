"""Adapters: what they compute, what is trained, and one base for several."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import small_decoders

from models import lora, sharding, transformer
from models import policy as policies
from models.config import ModelConfig
from rl import fused_loop, methods, step, training_state, types
from rl.sampling import generation
from rl.update_plan import Plan

BASE = ModelConfig(
  vocab_size=12,
  width=8,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=12,
  param_dtype="bfloat16",
  value_head=True,
)
CONFIG = dataclasses.replace(
  BASE, lora_rank=2, lora_alpha=6.0, lora_targets=r"attention\.\w+|mlp\.down"
)
P, S, L, T = 8, 4, 3, 4
METHOD = methods.get("grpo", beta=0.1)
POLICY = policies.bind(CONFIG)


@pytest.fixture(scope="module")
def params():
  """Whole parameters whose adapters do something."""
  full = transformer.init(CONFIG, jax.random.key(0))
  noise = np.random.default_rng(0)

  def disturb(path, leaf):
    if path[-1].key != "lora_b":
      return leaf
    return jnp.asarray(noise.normal(0, 0.3, leaf.shape), leaf.dtype)

  return jax.tree.map_with_path(disturb, full)


def names(tree):
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return {sharding.dotted_path(path) for path, _ in leaves}


@functools.partial(jax.jit, static_argnums=0)
def logits(config, params):
  tokens = jax.random.randint(jax.random.key(3), (2, 5), 0, 12)
  return transformer.logits(config, params, tokens, jnp.ones((2, 5), bool))


def test_fresh_adapters_change_nothing(params):
  fresh = types.join(lora.init(CONFIG, jax.random.key(1)), params)
  np.testing.assert_array_equal(logits(CONFIG, fresh), logits(BASE, params))
  assert np.abs(logits(CONFIG, params) - logits(BASE, params)).max() > 0.1


def test_an_adapter_is_a_low_rank_change_of_its_kernel(params):
  """W + A B alpha / r, written out for one projection of one layer."""
  wide = jax.tree.map(lambda x: x.astype(jnp.float32), params)
  query = wide["layers"]["attention"]["query"]
  a, b = np.asarray(query["lora_a"][1]), np.asarray(query["lora_b"][1])
  change = np.einsum("dr,rhk->dhk", a, b) * 6.0 / 2
  _, merged = lora.merge(CONFIG, wide)
  result = merged["layers"]["attention"]["query"]["kernel"][1]
  np.testing.assert_allclose(result, query["kernel"][1] + change, atol=1e-6)


def test_the_merged_decoder_is_the_same_function(params):
  wide = jax.tree.map(lambda x: x.astype(jnp.float32), params)
  reference, merged = lora.merge(CONFIG, wide)
  assert reference == dataclasses.replace(CONFIG, lora_rank=0)
  assert names(merged) == names(transformer.init(BASE, jax.random.key(0)))
  np.testing.assert_allclose(
    logits(reference, merged), logits(CONFIG, wide), atol=1e-5
  )


def test_adapters_and_heads_are_trained_and_nothing_else(params):
  trained, frozen = lora.split(CONFIG, params)
  assert names(trained) == {
    "value.kernel",
    "value.bias",
    *(
      f"layers.{name}.{leaf}"
      for name in (*(f"attention.{n}" for n in PROJECTIONS), "mlp.down")
      for leaf in ("lora_a", "lora_b")
    ),
  }
  assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(trained))
  assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(frozen))
  joined = types.join(trained, frozen)
  assert jax.tree.all(jax.tree.map(lambda x, y: x is y, joined, params))


PROJECTIONS = ("query", "key", "value", "output")


def recorded(policy, params, frozen):
  prompts = jax.random.randint(jax.random.key(5), (P, L), 0, 12)
  sampling = generation.Sampling(S, T, eos_ids=(0,), pad_id=0)
  keys = generation.prompt_keys(jax.random.key(6), 0, jnp.arange(P))
  sampled = generation.generate(
    policy,
    types.join(params, frozen),
    prompts,
    jnp.ones((P, L), bool),
    keys,
    sampling,
  )
  mask = jnp.arange(T) < sampled.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts,
      jnp.ones((P, L), bool),
      sampled.completions,
      sampled.lengths,
      mask,
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=sampled.log_probs,
    finished=sampled.finished,
    scores=sampled.completions.sum(-1).astype(jnp.float32),
    correct=jnp.ones((P, S), jnp.int8),
    prompt_ids=jnp.arange(P),
    keys=keys,
    step=jnp.zeros((), jnp.int32),
  )


def begun(params):
  trained, frozen = lora.split(CONFIG, params)
  copied = jax.tree.map(jnp.copy, (trained, frozen))
  return training_state.init(
    METHOD, copied[0], optax.adam(1e-2), jax.random.key(2), copied[1]
  )


def collect(state):
  return recorded(POLICY, state.params, state.carried.frozen)


@pytest.fixture(scope="module")
def after(params):
  """The state after one training step that samples for itself."""
  train_step = step.make(METHOD, POLICY, optax.adam(1e-2), Plan())
  run = jax.jit(fused_loop.iteration(collect, train_step), donate_argnums=0)
  return run(begun(params))


def test_a_step_moves_the_adapters_and_leaves_the_base(params, after):
  state, metrics = after
  trained, frozen = lora.split(CONFIG, params)
  assert float(metrics["optim/skipped"]) == 0
  jax.tree.map(np.testing.assert_array_equal, state.carried.frozen, frozen)
  moved = jax.tree.map(lambda x, y: bool((x != y).any()), state.params, trained)
  assert all(jax.tree.leaves(moved["layers"]))


def test_the_optimiser_and_the_reference_hold_adapters_alone(params, after):
  state, _ = after
  trained, _ = lora.split(CONFIG, params)
  size = sum(x.size for x in jax.tree.leaves(trained))
  stored = sum(x.size for x in jax.tree.leaves(state.policy.opt_state))
  assert stored == 2 * size + 1  # two moments and a count
  assert names(state.parameter_sets["ref"]) == names(trained)


def test_the_reference_stands_on_the_same_base(after):
  """At the first step policy and reference are one: no divergence at all."""
  _, metrics = after
  assert float(metrics["policy/kl"]) == pytest.approx(0.0, abs=1e-6)


def test_the_gradient_is_the_adapters_part_of_the_whole_one(params):
  """The whole decoder trained by plain descent moves its adapters alike."""
  trained, frozen = lora.split(CONFIG, params)
  batch = recorded(POLICY, trained, frozen)
  tx, plan = optax.sgd(1.0), Plan()
  key = jax.random.key(2)
  run = jax.jit(step.make(METHOD, POLICY, tx, plan))
  parted, _ = run(training_state.init(METHOD, trained, tx, key, frozen), batch)
  full, _ = run(training_state.init(METHOD, params, tx, key), batch)
  expected, _ = lora.split(CONFIG, full.params)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6),
    parted.params,
    expected,
  )


def test_a_mesh_computes_the_same(params, after):
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  state = begun(params)
  state = jax.device_put(state, sharding.shardings(state, mesh))
  train_step = step.make(METHOD, POLICY, optax.adam(1e-2), Plan())
  batch = recorded(POLICY, *lora.split(CONFIG, params))
  spread = jax.tree.map(
    lambda x: jax.device_put(
      x,
      sharding.batch_sharding(mesh)
      if jnp.ndim(x)
      else jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
    ),
    batch,
  )
  result, _ = jax.jit(train_step)(state, spread)
  expected, _ = after
  for one, other in zip(
    jax.tree.leaves(result.params),
    jax.tree.leaves(expected.params),
    strict=True,
  ):
    # Adam divides by the gradient's size: where that is rounding, so is this.
    close = np.isclose(one, other, atol=1e-4)
    assert close.mean() > 0.98


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (r"attention\.q", r"unknown lora_targets 'attention\\\\.q'.*attention.key"),
    (r"(", "is not a regular expression"),
    (r"mlp\.gate_proj", "did you mean 'mlp.gate'"),
  ],
)
def test_an_expression_that_finds_nothing_is_refused(text, message):
  config = dataclasses.replace(CONFIG, lora_targets=text)
  with pytest.raises(ValueError, match=message):
    lora.target_names(config)


def test_adapters_of_rank_16_have_the_factor_1_by_default():
  """W + A B alpha / r, with 16 numbers of 1/4 and 1 in A and B."""
  config = dataclasses.replace(small_decoders.BASE, lora_rank=16)
  params = {
    "kernel": jnp.ones((1, 1, 1)),
    "lora_a": jnp.full((1, 1, 16), 0.25),
    "lora_b": jnp.ones((1, 16, 1)),
  }
  _, merged = lora.merge(config, {"query": params})
  assert float(merged["query"]["kernel"][0, 0, 0]) == 5
  # No other projection than those of attention has adapters by default.
  assert lora.target_names(config) == [
    f"attention.{name}" for name in PROJECTIONS
  ]


def test_a_merge_is_summed_in_float32_and_rounded_once():
  """bfloat16 rounds 1 + 2^-8 to 1, and -1 + 1 + 2^-8 would be lost."""
  config = dataclasses.replace(
    small_decoders.BASE, lora_rank=1, lora_alpha=2.0, lora_targets=".*"
  )
  a = jnp.full((1, 1, 1), (1 + 2**-8) / 2)
  params = {
    "kernel": -jnp.ones((1, 1, 1), jnp.bfloat16),
    "lora_a": a,
    "lora_b": jnp.ones((1, 1, 1)),
  }
  merged_config, merged = lora.merge(config, {"up": params})
  assert merged_config.lora_rank == 0
  assert set(merged["up"]) == {"kernel"}
  assert merged["up"]["kernel"].dtype == jnp.bfloat16
  assert float(merged["up"]["kernel"][0, 0, 0]) == 2**-8
