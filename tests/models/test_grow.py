"""Further layers do not change a decoder until they are trained."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.small_decoders import BASE, VARIANTS, generic

from models import grow, transformer

# The last part of a layer's two branches, by the place of its norms. Behind
# norms, a normalised output is of full size however small the kernel is.
PROJECTIONS = (("attention", "output", "kernel"), ("mlp", "down", "kernel"))
NORMS = (("attention_post_norm", "scale"), ("mlp_post_norm", "scale"))
CASES = {
  "pre": (BASE, PROJECTIONS),
  "pre_with_biases": (VARIANTS["learned_layer_norm"], PROJECTIONS),
  "both": (VARIANTS["windows_softcaps_yarn"], NORMS),
  "post": (dataclasses.replace(BASE, norm_place="post"), NORMS),
}


@pytest.mark.parametrize("name", CASES)
def test_a_grown_decoder_is_the_same_function_and_can_learn(name):
  config, last_parts = CASES[name]
  params = generic(config)
  count = 3 if config.layer_kinds else 2  # a whole period of kinds
  deeper, grown = grow.append_layers(config, params, count, jax.random.key(1))
  assert deeper == dataclasses.replace(config, layers=config.layers + count)
  tokens, mask = jnp.arange(10).reshape(2, 5), jnp.ones((2, 5), bool)
  logits = jax.jit(transformer.logits, static_argnums=0)
  np.testing.assert_array_equal(
    logits(deeper, grown, tokens, mask), logits(config, params, tokens, mask)
  )
  slopes = jax.jit(
    jax.grad(
      lambda params: transformer.logits(deeper, params, tokens, mask)[
        ..., 3
      ].sum()
    )
  )(grown)
  for module, *path in last_parts:
    slope = slopes["layers"][module]
    for key in path:
      slope = slope[key]
    assert (jnp.abs(slope).reshape(deeper.layers, -1).max(1) > 0).all()
  assert max(jnp.abs(x).max() for x in jax.tree.leaves(slopes)) < 1e3


def test_new_layers_have_the_types_of_the_old_ones():
  params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), generic(BASE))
  _, grown = grow.append_layers(BASE, params, 1, jax.random.key(0))
  for before, after in zip(
    *map(jax.tree.leaves, (params["layers"], grown["layers"])), strict=True
  ):
    assert after.dtype == jnp.bfloat16
    np.testing.assert_array_equal(after[:2], before)


def test_no_layer_changes_nothing_and_fewer_are_refused():
  params = generic(BASE)
  assert grow.append_layers(BASE, params, 0, None) == (BASE, params)
  with pytest.raises(ValueError, match="layers = -1 must be 0 or more"):
    grow.append_layers(BASE, params, -1, None)
  adapted = dataclasses.replace(BASE, lora_rank=2)
  assert grow.append_layers(adapted, params, 0, None) == (adapted, params)
  with pytest.raises(ValueError, match="append layers before adding adapters"):
    grow.append_layers(adapted, params, 1, None)
