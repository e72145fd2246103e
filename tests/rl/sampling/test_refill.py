"""Rows that go on with the next sample, in caches that grow and come round."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import decoding, policy, sharding, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl.sampling import generation
from rl.sampling.generation import Sampling

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
def plain():
  """Plain decoding in float64, its cache as long as the completions."""
  with jax.enable_x64(True):
    config = dataclasses.replace(CONFIG, dtype="float64", param_dtype="float64")
    params = start(config)
    bound = policy.bind(config)
    whole = dataclasses.replace(bound, resize=lambda cache, room: cache)
    return bound, params, generate(whole, params, problems(), PLAIN)


def same(found: generation.Samples, expected: generation.Samples) -> None:
  for name in ("completions", "lengths", "finished"):
    np.testing.assert_array_equal(
      getattr(found, name), getattr(expected, name), err_msg=name
    )
  np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-5)


def test_the_lengths_are_many(plain):
  lengths = np.asarray(plain[2].lengths)
  assert len(np.unique(lengths)) > S
  assert lengths.max() == T
  assert (lengths.sum(-1) > 2 * T).all()  # the ring of one row comes round


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows_and_growing_caches_change_no_sample(plain, rows):
  bound, params, expected = plain
  with jax.enable_x64(True):
    sampling = dataclasses.replace(PLAIN, rows=rows)
    same(generate(bound, params, problems(), sampling), expected)


def test_layers_without_a_loop_draw_the_same(plain):
  bound, params, expected = plain
  with jax.enable_x64(True):
    config = bound.decode.args[0]
    assert config.looped
    straight = policy.bind(dataclasses.replace(config, unroll=0))
    same(generate(straight, params, problems(), FEW), expected)


def test_only_wanted_samples_are_taken_up(plain):
  bound, params, expected = plain
  wanted = np.arange(P * S).reshape(P, S) % 3 == 1
  with jax.enable_x64(True):
    found = generate(bound, params, problems(), FEW, wanted)
  np.testing.assert_array_equal(
    found.completions, np.where(wanted[..., None], expected.completions, 0)
  )
  np.testing.assert_array_equal(found.lengths, expected.lengths * wanted)


def test_later_samples_have_their_own_numbers(plain):
  bound, params, expected = plain
  with jax.enable_x64(True):
    found = generate(bound, params, problems(), FEW, None, 6)
  np.testing.assert_array_equal(
    found.completions[:, : S - 6], expected.completions[:, 6:]
  )


def test_the_work_is_that_of_the_longest_queue(plain):
  _, _, expected = plain
  calls = []

  def counted(bound):
    def decode(params, tokens, t, cache):
      jax.debug.callback(lambda: calls.append(tokens.shape[1]))
      return bound.decode(params, tokens, t, cache)

    return dataclasses.replace(bound, decode=decode)

  bound, params, _ = plain
  with jax.enable_x64(True):
    generate(counted(bound), params, problems(), FEW)
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
  wanted = jax.device_put(np.ones((8, S), bool), sharding.batch_sharding(mesh))
  program = _generate.lower(bound, placed, split, FEW, wanted, 0).compile()
  text = program.as_text()
  for moved in ("all-gather", "all-to-all", "collective-permute"):
    assert moved not in text, moved
  found = program(placed, split, wanted, 0)
  expected = generate(bound, params, inputs, FEW)
  np.testing.assert_array_equal(found.lengths, expected.lengths)
  np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)


@pytest.mark.parametrize(("unroll", "kept"), [(0, [64, 16, 32]), (1, [64] * 3)])
def test_a_cache_is_resized_before_it_comes_round(unroll, kept):
  bound = policy.bind(dataclasses.replace(CONFIG, unroll=unroll))
  prompts, mask, _ = problems()

  def sizes(params):
    _, cache = bound.prefill(params, prompts, mask, 3, T)
    short = bound.resize(cache, 16)
    return cache, short, bound.resize(short, 32)

  found = jax.eval_shape(sizes, start(CONFIG))
  assert [cache.capacity for cache in found] == [T, 16, 32]
  assert {cache.max_length for cache in found} == {L + T}
  keys = [jax.tree.leaves(cache.completions)[0] for cache in found]
  assert [leaf.shape[-1] for leaf in keys] == kept
  if unroll:
    with pytest.raises(ValueError, match=f"made for at most {T}"):
      bound.resize(found[0], T + 1)


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
  found, _ = decode(served, tokens, 0, cache)
  expected, _ = decode(stored, tokens, 0, cache)
  np.testing.assert_array_equal(found, expected)
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
