"""What a call must do at least: operations, and bytes of memory.

Operations, a multiplication and an addition each counted, of a decoder with n
layers whose projections have W parameters a layer:

  a token through the layers    2 n W + 4 n heads head_dim (tokens it sees)
  logits of a position          2 D V

A prompt is run once, whatever its number of samples. A completion token sees the
prompt, what came before, and itself; the last one is not fed. A backward pass
costs two forward passes. Norms, rotations and softmax are left out; layers with
a window are counted as if they saw all.

Bytes: the weights once for each decoding step, and the cached keys and values
that it reads, a prompt's once for its samples; an update reads weights twice,
writes gradients, and reads and writes AdamW's state. Activations are left out:
they could stay in the caches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.config import ModelConfig

FLOAT = 4  # bytes


class Cost(NamedTuple):
  """What a call does at least.

  Attributes:
    flops: operations.
    bytes: of memory, read and written.
  """

  flops: float
  bytes: float


def weights(config: ModelConfig) -> int:
  """W, parameters of one layer's projections; of experts, those in use."""
  qkv = (config.heads + 2 * config.kv_heads) * config.head_dim * config.width
  out = config.heads * config.head_dim * config.width
  mlp = (2 + config.gated_mlp) * config.width * config.mlp_width
  used = config.experts_per_token or 1
  return qkv + out + used * mlp + config.experts * config.width


def forward(
  config: ModelConfig, tokens: float, seen: float, positions: float
) -> float:
  """Operations of a forward pass.

  Args:
    config: the decoder's shape.
    tokens: that run through the layers.
    seen: the sum over them of how many tokens each attends to.
    positions: those with logits.
  """
  layers = 2 * config.layers * weights(config) * tokens
  attention = 4 * config.layers * config.heads * config.head_dim * seen
  return layers + attention + 2 * config.width * config.vocab_size * positions


def scored(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> float:
  """Operations that give all completion tokens' logits once.

  Args:
    config: the decoder's shape.
    prompt_length: L of each prompt.
    lengths: `[P, S]` of the completions.
  """
  lengths = np.asarray(lengths, np.float64)
  P, L = len(lengths), prompt_length
  fed = np.maximum(lengths - 1, 0)
  seen = P * L * (L + 1) / 2 + (fed * L + fed * (fed + 1) / 2).sum()
  return forward(config, P * L + fed.sum(), seen, lengths.sum())


def decode_cost(
  config: ModelConfig,
  prompt_length: int,
  lengths: np.ndarray,
  size: int = FLOAT,
  rows: int | None = None,
) -> Cost:
  """Of sampling completions of these lengths, all rows always occupied.

  Args:
    config: the decoder's shape.
    prompt_length: L of each prompt.
    lengths: `[P, S]` of the completions.
    size: bytes of a weight, a key or a value.
    rows: samples of a prompt that are drawn at once; None: all of them.
  """
  lengths = np.asarray(lengths, np.float64)
  P, S = lengths.shape
  fed = np.maximum(lengths - 1, 0)
  steps = fed.sum() / (P * (rows or S))  # no fewer than if no row ever waits
  matrices = config.layers * weights(config)
  matrices += config.width * config.vocab_size
  pair = 2 * config.layers * config.kv_heads * config.head_dim
  trunk = P * prompt_length * steps
  branch = (fed * (fed + 1) / 2).sum()
  read = matrices * (1 + steps) + pair * (trunk + branch)
  written = pair * (P * prompt_length + fed.sum())
  flops = scored(config, prompt_length, lengths)
  # Of a prompt one position has logits, whatever its number of samples.
  flops -= 2 * config.width * config.vocab_size * P * (S - 1)
  return Cost(flops, size * (read + written))


def update_cost(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> Cost:
  """Of one update with AdamW on completions of these lengths, as above."""
  count = config.layers * weights(config)
  count += config.width * config.vocab_size * (2 - config.tied_embeddings)
  passes = 2 + 1  # weights forward and backward, gradients written
  adamw = 4 + 3  # reads gradient, weights and two moments; writes three
  flops = 3 * scored(config, prompt_length, lengths)
  return Cost(flops, FLOAT * count * (passes + adamw))
