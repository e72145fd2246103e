"""Logits of a small Qwen3 decoder, as transformers computes them in PyTorch.

`tests/models/test_hf_parity.py` computes the file of logits anew. It lets a
machine without PyTorch compare the decoder with an independent one.
"""

from __future__ import annotations

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from models import transformer
from models.config import ModelConfig

FILE = pathlib.Path(__file__).with_name("reference_logits.json")
CONFIG = ModelConfig(
  vocab_size=24,
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=8,
  mlp_width=32,
  qk_norm="head",
  family="qwen3",
  rope_theta=1e6,
)
TOKENS = np.arange(20).reshape(2, 10) * 7 % CONFIG.vocab_size


def make_params() -> transformer.Params:
  """Returns parameters from a seeded normal distribution."""
  shapes = jax.eval_shape(lambda: transformer.init(CONFIG, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  return jax.tree.map(
    lambda x: jnp.asarray(0.3 * normal(size=x.shape), jnp.float32), shapes
  )


def compute_logits() -> jax.Array:
  """Returns the decoder's own logits, `[2, 10, vocab_size]` float32."""
  tokens = jnp.asarray(TOKENS)
  mask = jnp.ones(tokens.shape, bool)
  return transformer.logits(CONFIG, make_params(), tokens, mask)


def read_logits() -> np.ndarray:
  """Returns the logits of transformers, `[2, 10, vocab_size]` float32."""
  return np.asarray(json.loads(FILE.read_text()), np.float32)
