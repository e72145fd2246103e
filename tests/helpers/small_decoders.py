"""Decoders of a few hundred parameters, with every feature that a layer has."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from models import transformer
from models.config import ModelConfig
from models.rope import RopeScaling

BASE = ModelConfig(
  vocab_size=11,
  width=8,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=4,
  mlp_width=12,
)
# Together they have every field that changes what a decoder computes. Their
# oracle is torch, in tests/models/test_hf_parity.py.
VARIANTS = {
  "windows_softcaps_yarn": dataclasses.replace(
    BASE,
    head_dim=8,
    layers=3,
    layer_kinds=("local", "nope", "global"),
    window=3,
    local_rope_theta=100.0,
    rope_scaling=RopeScaling("yarn", factor=4.0, original=8),
    rope_fraction=0.5,
    norm_place="both",
    norm_offset=1.0,
    qk_norm="head",
    attention_softcap=2.0,
    logit_softcap=3.0,
    attention_scale=0.3,
    embedding_scale=2.0,
    activation="gelu_tanh",
  ),
  "learned_layer_norm": dataclasses.replace(
    BASE,
    positions="learned",
    max_positions=16,
    norm="layer",
    gated_mlp=False,
    attention_bias=True,
    output_bias=True,
    mlp_bias=True,
    activation="gelu",
    extra_heads=(("steps", 3),),
  ),
  "experts_after_norms": dataclasses.replace(
    BASE,
    experts=4,
    experts_per_token=2,
    norm_place="post",
    qk_norm="all",
    qkv_clip=0.7,
    lora_rank=2,
  ),
}


def generic(config: ModelConfig, seed: int = 0) -> dict:
  """Parameters without a special value: no zero bias, no unit scale."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(seed).normal
  return jax.tree.map(
    lambda x: jnp.asarray(0.4 * normal(size=x.shape), x.dtype), shapes
  )
