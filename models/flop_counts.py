"""Lower bounds on the operations and the memory traffic of a call.

Axes: P prompts, S samples per prompt, L prompt tokens.

Operations. A multiplication and an addition count as one operation each. A
decoder has width D, vocabulary size V, and n layers with H heads of C channels
each. The projections of a layer have W parameters. A token that attends to A
tokens, itself included, needs

  2 * n * W + 4 * n * H * C * A   in the layers
  2 * D * V                       for the logits at its position

A prompt runs through the decoder once, whatever its number of samples. A
completion token attends to the prompt, to the earlier completion tokens and to
itself. The last token of a completion is sampled and never fed to the decoder.
A backward pass costs two forward passes. Norms, rotary embeddings and softmax
are not counted. A layer with a sliding window counts as one with full
attention.

Bytes. A decoding step reads the weights once, and the cached keys and values
that it attends to. The keys and values of a prompt are read once for all its
samples. An
update reads the weights twice, writes the gradients, and reads and writes the
state of AdamW. Activations are not counted, since they could stay in the
caches of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from models.config import ModelConfig

FLOAT = 4  # bytes of a float32
# Operations per second of dense bfloat16 products, by a part of the name that
# JAX gives the device. Source: the manufacturers' data sheets.
_PEAKS: Mapping[str, float] = {
  "H100": 989e12,
  "H200": 989e12,
  "A100": 312e12,
  "TPU v4": 275e12,
  "TPU v5 lite": 197e12,
  "TPU v6 lite": 918e12,
}


class Cost(NamedTuple):
  """Lower bounds on the cost of a call.

  Attributes:
    flops: number of operations.
    bytes: number of bytes that are read from memory or written to it.
  """

  flops: float
  bytes: float


def peak(device_kind: str) -> float:
  """Returns the operations per second of a device; 0 if they are not known.

  Args:
    device_kind: the name that JAX gives the device.
  """
  return next((p for name, p in _PEAKS.items() if name in device_kind), 0.0)


def weights(config: ModelConfig) -> int:
  """Counts W, the parameters of one layer's projections.

  Of a mixture of experts, the router and the experts that process one token are
  counted.
  """
  qkv = (config.heads + 2 * config.kv_heads) * config.head_dim * config.width
  out = config.heads * config.head_dim * config.width
  # Kernels of one MLP: up and down, and the gate if it has one.
  mlp = (2 + config.gated_mlp) * config.width * config.mlp_width
  num_mlps = config.experts_per_token or 1
  router = config.experts * config.width
  return qkv + out + num_mlps * mlp + router


def forward(
  config: ModelConfig, tokens: float, attended: float, positions: float
) -> float:
  """Counts the operations of a forward pass.

  Args:
    config: shape of the decoder.
    tokens: number of tokens that run through the layers.
    attended: number of pairs of a token and a token that it attends to.
    positions: number of positions whose logits are computed.
  """
  layers = 2 * config.layers * weights(config) * tokens
  attention = 4 * config.layers * config.heads * config.head_dim * attended
  return layers + attention + 2 * config.width * config.vocab_size * positions


def scored(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> float:
  """Counts the operations that compute the logits of all completion tokens.

  Args:
    config: shape of the decoder.
    prompt_length: number of tokens L of every prompt.
    lengths: `[P, S]` numbers of tokens of the completions.
  """
  lengths = np.asarray(lengths, np.float64)
  P, L = len(lengths), prompt_length
  fed = np.maximum(lengths - 1, 0)  # number of tokens fed to the decoder
  # Prompt token i = 1..L attends to i tokens, and completion token j = 1..fed
  # to L + j tokens.
  attended = P * L * (L + 1) / 2 + (fed * L + fed * (fed + 1) / 2).sum()
  return forward(config, P * L + fed.sum(), attended, lengths.sum())


def decode_cost(
  config: ModelConfig,
  prompt_length: int,
  lengths: np.ndarray,
  size: int = FLOAT,
  rows: int | None = None,
) -> Cost:
  """Returns a lower bound on the cost of sampling completions.

  It assumes that every row of the batch holds an unfinished completion at every
  decoding step.

  Args:
    config: shape of the decoder.
    prompt_length: number of tokens L of every prompt.
    lengths: `[P, S]` numbers of tokens of the completions.
    size: bytes of a weight, a key or a value.
    rows: number of samples per prompt that are decoded at the same time; None
      stands for all S.
  """
  lengths = np.asarray(lengths, np.float64)
  P, S = lengths.shape
  fed = np.maximum(lengths - 1, 0)
  # Number of decoding steps if no row of the batch is ever without a sample.
  steps = fed.sum() / (P * (rows or S))
  matrices = config.layers * weights(config)
  matrices += config.width * config.vocab_size
  # Number of cached keys and values per token.
  kv_size = 2 * config.layers * config.kv_heads * config.head_dim
  prompt_reads = P * prompt_length * steps  # shared by the samples of a prompt
  completion_reads = (fed * (fed + 1) / 2).sum()
  # The weights are read once for the prompts and once per decoding step.
  read = matrices * (1 + steps) + kv_size * (prompt_reads + completion_reads)
  written = kv_size * (P * prompt_length + fed.sum())
  flops = scored(config, prompt_length, lengths)
  # The first tokens of the S samples of a prompt are drawn from the same
  # logits, which `scored` counts S times.
  flops -= 2 * config.width * config.vocab_size * P * (S - 1)
  return Cost(flops, size * (read + written))


def update_cost(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> Cost:
  """Returns a lower bound on the cost of one update with AdamW.

  Args:
    config: shape of the decoder.
    prompt_length: number of tokens L of every prompt.
    lengths: `[P, S]` numbers of tokens of the completions.
  """
  num_params = config.layers * weights(config)
  num_params += config.width * config.vocab_size * (2 - config.tied_embeddings)
  passes = 2 + 1  # reads weights forward and backward; writes gradients
  adamw = 4 + 3  # reads gradients, weights, two moments; writes the last three
  # A backward pass costs two forward passes.
  flops = 3 * scored(config, prompt_length, lengths)
  return Cost(flops, FLOAT * num_params * (passes + adamw))
