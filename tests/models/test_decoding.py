"""Parameters as sampling reads them, and the cache token by token."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_decoders

from models import decoding, sharding, transformer


def test_norms_and_heads_keep_their_dtype():
  config = dataclasses.replace(small_decoders.BASE, dtype="bfloat16")
  one = jnp.full(2, 1 + 2**-10)  # bfloat16 rounds it to 1
  params = {
    "embed": {"table": one},
    "layers": {
      "mlp": {"up": {"kernel": one}},
      "attention_norm": {"scale": one},
      "attention": {"query_norm": {"scale": one}},
    },
    "final_norm": {"scale": one},
    "value": {"kernel": one},
    "heads": {"steps": {"kernel": one}},
  }
  cast = decoding.cast(config, params)
  layers = cast["layers"]
  rounded = (cast["embed"]["table"], layers["mlp"]["up"]["kernel"])
  exact = (
    layers["attention_norm"]["scale"],
    layers["attention"]["query_norm"]["scale"],
    cast["final_norm"]["scale"],
    cast["value"]["kernel"],
    cast["heads"]["steps"]["kernel"],
  )
  for leaf in rounded:
    assert leaf.dtype == jnp.bfloat16
    np.testing.assert_array_equal(leaf, 1)
  for leaf in exact:
    assert leaf.dtype == jnp.float32
    np.testing.assert_array_equal(leaf, one)


def ring(capacity):
  """Rings of two layers with one row, one head and two channels."""
  values = jnp.arange(2.0 * capacity).reshape(1, 1, capacity, 2)
  layer = decoding.KeyValues(values.swapaxes(-1, -2), values)
  return decoding.Cache(
    prompts=(),
    completions=(layer, layer),
    prompt_mask=jnp.ones((1, 1), bool),
    steps=jnp.zeros((), jnp.int32),
    capacity=capacity,
    max_length=8,
  )


@pytest.mark.parametrize(("old", "new"), [(3, 5), (3, 4), (5, 3), (3, 3)])
def test_a_ring_keeps_its_first_entries_when_it_is_resized(old, new):
  resized = decoding.resize(ring(old), new)
  assert resized.capacity == new
  assert len(resized.completions) == 2
  expected = np.zeros((1, 1, new, 2))
  count = min(old, new)
  expected[:, :, :count] = np.arange(2.0 * count).reshape(count, 2)
  for layer in resized.completions:
    np.testing.assert_array_equal(layer.values, expected)
    np.testing.assert_array_equal(layer.keys, expected.swapaxes(-1, -2))


def test_stacked_rings_keep_their_arrays_and_have_a_limit():
  values = jnp.zeros((2, 1, 1, 4, 2))
  stacked = ring(4).replace(
    completions=decoding.KeyValues(values.swapaxes(-1, -2), values)
  )
  smaller = decoding.resize(stacked, 3)
  assert smaller.capacity == 3
  assert smaller.completions.keys.shape == (2, 1, 1, 2, 4)
  assert decoding.resize(smaller, 4).capacity == 4
  with pytest.raises(ValueError, match="capacity = 5 must be at most 4"):
    decoding.resize(stacked, 5)


def test_the_sizes_of_a_cache_are_no_arrays():
  """They are static in a compiled loop, and shapes depend on them."""
  leaves = jax.tree.leaves(ring(3))
  assert len(leaves) == 2 * 2 + 2  # keys and values, the mask and the steps
  assert all(isinstance(leaf, jax.Array) for leaf in leaves)


P, R, L, CAPACITY = 3, 2, 5, 3
PROMPT_LENGTHS = np.array([5, 3, 1])
UNROLLED = dataclasses.replace(
  small_decoders.BASE,
  vocab_size=12,
  kv_heads=1,
  layer_kinds=("local", "global"),
  window=3,
  decode_unroll=0,
)
LOOPED = dataclasses.replace(
  UNROLLED, layer_kinds=("global",), window=0, decode_unroll=1
)
CONFIGS = {"unrolled": UNROLLED, "looped": LOOPED}


def prompts():
  mask = np.arange(L) >= L - PROMPT_LENGTHS[:, None]
  return np.random.default_rng(0).integers(0, 12, (P, L)), mask


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fresh_cache_has_prompts_and_empty_rings(name):
  config = CONFIGS[name]
  assert config.decodes_in_loop == (name == "looped")
  logits, cache = jax.eval_shape(
    lambda params: decoding.prefill(config, params, *prompts(), R, CAPACITY),
    small_decoders.generic(config),
  )
  assert logits.shape == (P, 12)
  assert (cache.capacity, cache.max_length) == (CAPACITY, L + CAPACITY)
  assert cache.steps.shape == ()
  stack = (config.layers,) if config.decodes_in_loop else ()
  pairs = [
    [x] if config.decodes_in_loop else x
    for x in (cache.prompts, cache.completions)
  ]
  for layers, rows, length in zip(
    pairs, (P, P * R), (L, CAPACITY), strict=True
  ):
    assert len(layers) == (1 if config.decodes_in_loop else config.layers)
    for keys, values in layers:
      assert keys.shape == (*stack, rows, 1, config.head_dim, length)
      assert values.shape == (*stack, rows, 1, length, config.head_dim)


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_that_start_again_give_the_logits_of_whole_sequences(name):
  """Each row decodes two completions, one after the other.

  The rings have 3 entries, so that the last two tokens overwrite the first two.
  """
  config = CONFIGS[name]
  params = small_decoders.generic(config)
  ids, mask = prompts()
  tokens = np.random.default_rng(1).integers(0, 12, (5, P, R))
  t = np.array([[0, 0], [1, 1], [2, 0], [0, 1], [1, 2]])
  # First and last token of the completions, and their row.
  spans = ((0, 3, 0), (3, 5, 0), (0, 2, 1), (2, 5, 1))

  @jax.jit
  def decode(params):
    first, cache = decoding.prefill(config, params, ids, mask, R, CAPACITY)
    served = decoding.serve(config, params)

    def step(cache, inputs):
      logits, cache = decoding.decode(config, served, *inputs, cache)
      return cache, logits

    cache, logits = jax.lax.scan(step, cache, (tokens, t))
    return first, logits, cache.steps

  @jax.jit
  def logits_of_texts(params):
    texts, masks = [], []
    for start, end, row in spans:
      text = np.zeros((P, 3), int)
      text[:, : end - start] = tokens[start:end, :, row].T
      texts.append(np.concatenate([ids, text], 1))
      masks.append(np.concatenate([mask, np.ones((P, 3), bool)], 1))
    logits = transformer.logits(
      config, params, np.concatenate(texts), np.concatenate(masks)
    )
    return logits.reshape(len(spans), P, L + 3, -1)

  first, logits, steps = decode(params)
  expected = logits_of_texts(params)
  assert steps == 5
  np.testing.assert_allclose(first, expected[0, :, L - 1], atol=1e-5)
  for (start, end, row), logits_of_text in zip(spans, expected, strict=True):
    np.testing.assert_allclose(
      logits[start:end, :, row].swapaxes(0, 1),
      logits_of_text[:, L : L + end - start],
      atol=1e-5,
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_served_parameters_are_gathered_over_fsdp_alone(name):
  """On all layers at once in a loop, and otherwise on each of them."""
  config = dataclasses.replace(CONFIGS[name], kv_heads=2)
  params = small_decoders.generic(config)
  mesh = sharding.make_mesh(1, fsdp=2, tensor=2, devices=jax.devices()[:4])
  placed = jax.device_put(params, sharding.shardings(params, mesh))
  served = jax.jit(functools.partial(decoding.serve, config))(placed)
  expected = jax.tree.map(
    lambda spec: jax.P(*(None if axis == "fsdp" else axis for axis in spec)),
    sharding.partition_specs(params),
  )
  layers, specs = served.pop("layers"), expected.pop("layers")
  stacks = [layers] if config.decodes_in_loop else layers
  if not config.decodes_in_loop:
    assert len(stacks) == config.layers
    specs = jax.tree.map(lambda spec: jax.P(*spec[1:]), specs)
  pairs = [(served, expected), *((stack, specs) for stack in stacks)]
  assert set(served) == set(params) - {"layers"}
  for tree, wanted in pairs:
    for leaf, spec in zip(
      jax.tree.leaves(tree), jax.tree.leaves(wanted), strict=True
    ):
      place = jax.NamedSharding(mesh, spec)
      assert leaf.sharding.is_equivalent_to(place, leaf.ndim), (
        spec,
        leaf.shape,
      )
  if not config.decodes_in_loop:
    for index, stack in enumerate(stacks):
      jax.tree.map(
        lambda leaf, all_layers, index=index: np.testing.assert_array_equal(
          leaf, all_layers[index]
        ),
        stack,
        params["layers"],
      )


@pytest.mark.parametrize("stack", [(), (3,)])
def test_rings_are_split_by_rows_and_heads(stack):
  """The layers of a stack are not split."""
  mesh = sharding.make_mesh(1, tensor=2, context=2, devices=jax.devices()[:4])
  ring = jax.device_put(
    jnp.zeros((*stack, 4, 2, 3, 5)), jax.NamedSharding(mesh, jax.P())
  )
  placed = jax.jit(decoding._constrain_ring)(ring)
  assert placed.sharding.shard_shape(ring.shape) == (*stack, 2, 1, 3, 5)
