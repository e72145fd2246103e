"""Rows that go on with the next sample, in caches that grow and come round."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from models import decoding, policy, sharding, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl.sampling import generation
from rl.sampling.generation import Sampling

generation = compiled.functions(generation)

P, L, S, T = 2, 4, 10, 64
EOS = 3
# Windows, and a rotary scaling that reads the longest possible sequence.
CONFIG = ModelConfig(
  vocab_size=40,
  width=8,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=8,
  layer_kinds=("local", "global"),
  window=5,
  rope_scaling=RopeScaling(kind="dynamic", factor=2.0, original=16),
)
PLAIN = Sampling(samples=S, max_tokens=T, eos_ids=(EOS,), pad_id=0)
FEW = dataclasses.replace(PLAIN, rows=3)


def start(config: ModelConfig) -> transformer.Params:
  """Random weights whose samples end at many lengths."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  params = jax.tree.map(lambda x: normal(size=x.shape).astype(x.dtype), shapes)
  params["unembed"]["kernel"] *= 0.3
  return params


@functools.partial(jax.jit, static_argnums=(0, 3))
def _generate(bound, params, inputs, sampling, active, first):
  return generation.generate(bound, params, *inputs, sampling, first, active)


def generate(bound, params, inputs, sampling, active=None, first=0):
  if active is None:
    active = np.ones((len(inputs[0]), sampling.samples), bool)
  return _generate(bound, params, inputs, sampling, active, first)


def problems(count: int = P) -> tuple[np.ndarray, np.ndarray, jax.Array]:
  prompts = np.random.default_rng(1).integers(4, 14, (count, L))
  mask = np.arange(L) >= np.arange(count)[:, None] % L
  keys = generation.prompt_keys(jax.random.key(7), 0, jnp.arange(count))
  return prompts, mask, keys


@pytest.fixture(scope="module")
def one_row_each():
  """Samples in float64, with a row for each and a cache of full length."""
  with jax.enable_x64(True):
    config = dataclasses.replace(CONFIG, dtype="float64", param_dtype="float64")
    params = start(config)
    bound = policy.bind(config)
    fixed = dataclasses.replace(bound, resize=lambda cache, capacity: cache)
    return bound, params, generate(fixed, params, problems(), PLAIN)


def assert_same(
  samples: generation.Samples, expected: generation.Samples
) -> None:
  for name in ("completions", "lengths", "finished"):
    np.testing.assert_array_equal(
      getattr(samples, name), getattr(expected, name), err_msg=name
    )
  np.testing.assert_allclose(samples.log_probs, expected.log_probs, atol=1e-5)


def test_the_lengths_are_many(one_row_each):
  lengths = np.asarray(one_row_each[2].lengths)
  assert len(np.unique(lengths)) > S
  assert lengths.max() == T
  assert (lengths.sum(-1) > 2 * T).all()  # one row decodes several samples


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows_and_growing_caches_change_no_sample(one_row_each, rows):
  bound, params, expected = one_row_each
  with jax.enable_x64(True):
    sampling = dataclasses.replace(PLAIN, rows=rows)
    assert_same(generate(bound, params, problems(), sampling), expected)


def test_layers_without_a_loop_draw_the_same(one_row_each):
  bound, params, expected = one_row_each
  with jax.enable_x64(True):
    config = bound.decode.args[0]
    assert config.decodes_in_loop
    straight = policy.bind(dataclasses.replace(config, unroll=0))
    assert_same(generate(straight, params, problems(), FEW), expected)


def test_rows_take_only_active_samples(one_row_each):
  bound, params, expected = one_row_each
  active = np.arange(P * S).reshape(P, S) % 3 == 1
  with jax.enable_x64(True):
    samples = generate(bound, params, problems(), FEW, active)
  np.testing.assert_array_equal(
    samples.completions, np.where(active[..., None], expected.completions, 0)
  )
  np.testing.assert_array_equal(samples.lengths, expected.lengths * active)


def test_later_samples_have_their_own_numbers(one_row_each):
  bound, params, expected = one_row_each
  with jax.enable_x64(True):
    samples = generate(bound, params, problems(), FEW, None, 6)
  np.testing.assert_array_equal(
    samples.completions[:, : S - 6], expected.completions[:, 6:]
  )


def test_the_work_is_that_of_the_longest_queue(one_row_each):
  _, _, expected = one_row_each
  calls = []

  def count_calls(bound):
    def decode(params, tokens, t, cache):
      jax.debug.callback(lambda: calls.append(tokens.shape[1]))
      return bound.decode(params, tokens, t, cache)

    return dataclasses.replace(bound, decode=decode)

  bound, params, _ = one_row_each
  with jax.enable_x64(True):
    generate(count_calls(bound), params, problems(), FEW)
    jax.effects_barrier()
  # Each row takes the next sample as soon as it is free.
  steps = 0
  for lengths in np.asarray(expected.lengths):
    rows = np.zeros(FEW.rows, int)
    for length in lengths[lengths > 1]:
      rows[np.argmin(rows)] += length - 1
    steps = max(steps, rows.max())
  assert calls == [FEW.rows] * steps


@pytest.mark.long
def test_refilled_rows_on_a_mesh_move_nothing_but_the_end():
  params = start(CONFIG)
  mesh = sharding.make_mesh(data=8)
  inputs = problems(8)
  placed = jax.device_put(params, sharding.shardings(params, mesh))
  split = jax.device_put(inputs, sharding.batch_sharding(mesh))
  bound = policy.bind(CONFIG)
  active = jax.device_put(np.ones((8, S), bool), sharding.batch_sharding(mesh))
  program = _generate.lower(bound, placed, split, FEW, active, 0).compile()
  text = program.as_text()
  for collective in ("all-gather", "all-to-all", "collective-permute"):
    assert collective not in text, collective
  samples = program(placed, split, active, 0)
  expected = generate(bound, params, inputs, FEW)
  np.testing.assert_array_equal(samples.lengths, expected.lengths)
  np.testing.assert_allclose(samples.log_probs, expected.log_probs, atol=1e-4)


@pytest.mark.parametrize(
  ("unroll", "capacities"), [(0, [64, 16, 32]), (1, [64] * 3)]
)
def test_a_cache_is_resized_before_rows_start_again(unroll, capacities):
  bound = policy.bind(dataclasses.replace(CONFIG, unroll=unroll))
  prompts, mask, _ = problems()

  def sizes(params):
    _, cache = bound.prefill(params, prompts, mask, 3, T)
    short = bound.resize(cache, 16)
    return cache, short, bound.resize(short, 32)

  caches = jax.eval_shape(sizes, start(CONFIG))
  assert [cache.capacity for cache in caches] == [T, 16, 32]
  assert {cache.max_length for cache in caches} == {L + T}
  keys = [jax.tree.leaves(cache.completions)[0] for cache in caches]
  assert [leaf.shape[-1] for leaf in keys] == capacities
  if unroll:
    with pytest.raises(
      ValueError, match=f"at most {T}, for which the cache was made"
    ):
      bound.resize(caches[0], T + 1)


@pytest.mark.parametrize(
  ("unroll", "layers"), [(0, ["layers.0", "layers.1"]), (1, ["layers"])]
)
def test_served_parameters_are_in_the_compute_dtype(unroll, layers):
  config = dataclasses.replace(
    CONFIG,
    dtype="bfloat16",
    value_head=True,
    tied_embeddings=True,
    unroll=unroll,
  )
  params = jax.tree.map(
    jnp.asarray, transformer.init(config, jax.random.key(0))
  )
  served = decoding.serve(config, params)
  stored = decoding.serve(dataclasses.replace(config, dtype="float32"), params)
  prompts, mask, _ = problems()
  prefill = jax.jit(
    functools.partial(decoding.prefill, config, rows=S, capacity=T)
  )
  _, cache = prefill(params, prompts, mask)
  decode = jax.jit(functools.partial(decoding.decode, config))
  tokens = jnp.ones((len(prompts), S), jnp.int32)
  logits, _ = decode(served, tokens, 0, cache)
  expected, _ = decode(stored, tokens, 0, cache)
  np.testing.assert_array_equal(logits, expected)
  wide = {
    jax.tree_util.keystr(path, simple=True, separator=".")
    for path, leaf in jax.tree.leaves_with_path(served)
    if leaf.dtype == jnp.float32
  }
  assert wide == {
    "final_norm.scale",
    "value.kernel",
    "value.bias",
    *(f"{layer}.attention_norm.scale" for layer in layers),
    *(f"{layer}.mlp_norm.scale" for layer in layers),
  }
