"""Key and value heads that are repeated for more devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import decoding, repeated_heads, transformer
from models.config import ModelConfig

CONFIG = ModelConfig(
  vocab_size=11,
  width=8,
  layers=2,
  heads=8,
  kv_heads=2,
  head_dim=4,
  mlp_width=12,
  attention_bias=True,
  lora_rank=2,
)


def random_params(config):
  """Parameters without a special value: no zero bias, no unit scale."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  return jax.tree.map(
    lambda x: jnp.asarray(0.4 * normal(size=x.shape), x.dtype), shapes
  )


@pytest.mark.parametrize("qk_norm", ["head", "all"])
def test_a_decoder_with_repeated_heads_computes_the_same(qk_norm):
  config = ModelConfig(**vars(CONFIG) | {"qk_norm": qk_norm})
  params = random_params(config)
  repeated = repeated_heads.repeat_config(config, 2)
  assert repeated.kv_heads == 4
  repeated_params = repeated_heads.repeat_params(config, params, 2)
  tokens = jnp.asarray([[1, 2, 3, 4], [7, 7, 0, 9]])
  mask = jnp.ones(tokens.shape, bool)
  expected, result = (
    jax.jit(transformer.logits, static_argnums=0)(config, params, tokens, mask)
    for config, params in ((config, params), (repeated, repeated_params))
  )
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("tensor", "count"), [(1, 1), (2, 1), (4, 2), (8, 4)])
def test_heads_are_repeated_until_the_axis_divides_them(tensor, count):
  assert repeated_heads.repeats(CONFIG, tensor) == count


def test_an_axis_that_cannot_split_the_queries_is_refused():
  message = "tensor = 16 cannot split the 8 heads in 2 groups.*nearest: 8"
  with pytest.raises(ValueError, match=message):
    repeated_heads.repeats(CONFIG, 16)
  config = ModelConfig(**vars(CONFIG) | {"heads": 3, "kv_heads": 3})
  with pytest.raises(ValueError, match=r"tensor = 2 .* in 3 .*; nearest: 1"):
    repeated_heads.repeats(config, 2)


def test_parameters_that_are_cast_before_sampling_give_the_same_bits():
  config = ModelConfig(
    **vars(CONFIG) | {"dtype": "bfloat16", "experts": 4, "experts_per_token": 2}
  )
  params = random_params(config)
  cast = decoding.cast(config, params)
  assert cast["embed"]["table"].dtype == jnp.bfloat16
  assert cast["final_norm"]["scale"].dtype == jnp.float32
  prompts = jnp.asarray([[0, 2, 3], [7, 7, 9]])

  @jax.jit
  def first_logits(params):
    mask = prompts > 0
    logits, cache = decoding.prefill(config, params, prompts, mask, 2, 4)
    served = decoding.serve(config, params)
    tokens = jnp.ones((2, 2), jnp.int32)
    return logits, decoding.decode(config, served, tokens, 0, cache)[0]

  jax.tree.map(
    np.testing.assert_array_equal, first_logits(cast), first_logits(params)
  )
