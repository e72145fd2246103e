"""Shapes of the speed benchmarks, and the files that all sides read.

Weights are random and saved as a Qwen3 model with tied embeddings, which all
peers can load. In shapes with mixed lengths the weights determine where
completions end (`eos`), so that lengths have the same distribution on every
side.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.studies.benchmark import eos
from models import hf, transformer
from models.config import ModelConfig
from rl import types

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
FIRST_TOKEN_ID = 3
# Factor on the output kernels of layers. Without it the embedding of the last
# token dominates the logits, because embeddings are tied, and the likeliest
# token is always the same.
GAIN = 16.0
NEVER_ENDING_DIR, MIXED_DIR, PROMPTS_FILE = "plain", "mixed", "prompts.npy"


@dataclasses.dataclass(frozen=True)
class Shape:
  """A model and a batch."""

  model: ModelConfig
  prompts: int  # P
  samples: int  # per prompt, S
  prompt_length: int  # tokens of each prompt, L
  max_tokens: int  # largest number of tokens of a completion, T
  # Mean of the lengths, which are then geometrically distributed and cut at T;
  # 0 if all completions have T tokens.
  mean_length: float = 0.0

  @property
  def batch(self) -> tuple[float, ...]:
    """The arguments of `random_rollout`."""
    lengths = self.prompt_length, self.max_tokens, self.mean_length
    return self.model.vocab_size, self.prompts, self.samples, *lengths

  def __str__(self) -> str:
    m = self.model
    lengths = f"{self.max_tokens}"
    if self.mean_length:
      lengths = f"geometric {self.mean_length:g}, at most {self.max_tokens}"
    return (
      f"{m.layers} layers d{m.width} v{m.vocab_size}, {self.prompts} x "
      f"{self.samples}, {self.prompt_length} + {lengths}"
    )


def decoder(layers: int, width: int, vocab_size: int) -> ModelConfig:
  """Returns the config of a decoder with the proportions of Qwen3.

  Heads have 64 channels. The number of key heads is a third of the number of
  query heads, or half of it if it is no multiple of 3. The MLP is about 8/3 as
  wide as the model, whose width is a multiple of 128.
  """
  heads = width // 64
  return ModelConfig(
    vocab_size=vocab_size,
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=heads // 3 if heads % 3 == 0 else heads // 2,
    head_dim=64,
    # Rounded up to a multiple of 256.
    mlp_width=-(-8 * width // 3 // 256) * 256,
    rope_theta=1e6,
    qk_norm="head",
    tied_embeddings=True,
    family="qwen3",
  )


# 4 layers d256 and 12 layers d768 (110M parameters at v32k).
DECODE: Mapping[str, Shape] = {
  "small": Shape(decoder(4, 256, 512), 64, 1, 32, 128),
  "large": Shape(decoder(12, 768, 32768), 64, 1, 32, 128),
  "long": Shape(decoder(4, 256, 32768), 16, 16, 512, 256, mean_length=64),
}
UPDATE: Mapping[str, Shape] = {
  "small": Shape(decoder(4, 256, 1024), 8, 8, 64, 128),
  "large": Shape(decoder(12, 768, 32768), 8, 8, 64, 128),
}
# The shape of SmolLM2-135M, with norms of queries and keys.
_SMOLLM2 = decoder(30, 576, 49152)
ITERATION: Mapping[str, Shape] = {
  "small": UPDATE["small"],
  "long": DECODE["long"],
  "smollm2": Shape(_SMOLLM2, 8, 8, 64, 64, mean_length=16),
}
# Each with short completions, and with completions of full length.
PACKING: Mapping[str, Shape] = {
  "64": Shape(_SMOLLM2, 8, 8, 64, 64, mean_length=16),
  "64 full": Shape(_SMOLLM2, 8, 8, 64, 64),
  "256": Shape(_SMOLLM2, 2, 8, 64, 256, mean_length=64),
  # One prompt, since both sides together would need more than 24 GiB for two.
  "256 full": Shape(_SMOLLM2, 1, 8, 64, 256),
}


def random_rollout(
  vocab_size: int,
  prompts: int,
  samples: int,
  prompt_length: int,
  max_tokens: int,
  mean_length: float = 0.0,
  seed: int = 0,
) -> types.Rollout:
  """Returns a rollout of random ids and scores, to measure an update.

  It has P prompts of L tokens, and S completions of at most T tokens for each;
  `random_lengths` says what `mean_length` means.
  """
  P, S, L, T = prompts, samples, prompt_length, max_tokens
  key = jax.random.key(seed)
  prompt_key, completion_key, score_key, sample_key = jax.random.split(key, 4)
  lengths = random_lengths((P, S), T, mean_length, seed)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jax.random.randint(prompt_key, (P, L), 0, vocab_size),
      prompt_mask=jnp.ones((P, L), bool),
      completions=jax.random.randint(completion_key, (P, S, T), 0, vocab_size),
      lengths=jnp.asarray(lengths, jnp.int32),
      mask=jnp.arange(T) < lengths[..., None],
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=jnp.zeros((P, S, T)),
    finished=jnp.ones((P, S), bool),
    scores=jax.random.uniform(score_key, (P, S)),
    correct=jnp.full((P, S), -1, jnp.int8),
    prompt_ids=jnp.arange(P, dtype=jnp.int32),
    keys=jax.random.split(sample_key, P),
    step=jnp.zeros((), jnp.int32),
  )


def random_lengths(
  shape: tuple[int, ...], max_tokens: int, mean: float, seed: int = 0
) -> np.ndarray:
  """Returns lengths of completions, a geometric law cut at `max_tokens`.

  Its expectation after the cut is `mean`; 0 gives `max_tokens` everywhere.
  """
  if not mean:
    return np.full(shape, max_tokens)
  # With end probability p, the expected length is (1 - (1 - p)^T) / p, which
  # falls with p. Halve the interval that has the p of the desired mean.
  low, high = 1e-9, 1.0
  for _ in range(60):
    p = (low + high) / 2
    is_longer = (1 - (1 - p) ** max_tokens) / p > mean
    low, high = (p, high) if is_longer else (low, p)
  lengths = np.random.default_rng(seed).geometric(p, shape)
  return np.minimum(lengths, max_tokens)


def write(
  shape: Shape, folder: pathlib.Path, seed: int = 0, **job: Any
) -> dict[str, Any]:
  """Writes weights and prompts, and returns the job of all sides (`peers`).

  `job` are further entries. The entry "plain" is a folder of weights whose
  completions never end, for questions about greedy tokens. They differ from
  those in the folder "weights" in the EOS row of the embedding only.
  """
  config = shape.model
  folder = pathlib.Path(folder)
  ids = FIRST_TOKEN_ID, config.vocab_size
  prompts = np.random.default_rng(seed).integers(
    *ids, (shape.prompts, shape.prompt_length), np.int32
  )
  folder.mkdir(parents=True, exist_ok=True)
  np.save(folder / PROMPTS_FILE, prompts)
  params = _init_weights(config, seed)
  params = eos.suppress_tokens(config, params, (EOS_ID, PAD_ID))
  hf.save(config, params, folder / NEVER_ENDING_DIR)
  weights = NEVER_ENDING_DIR
  if shape.mean_length:
    with_eos = eos.fit_mean_length(
      config,
      params,
      prompts,
      eos_id=EOS_ID,
      mean_length=shape.mean_length,
      max_tokens=shape.max_tokens,
    )
    hf.save(config, with_eos, folder / MIXED_DIR)
    weights = MIXED_DIR
  return {
    "weights": str(folder / weights),
    "plain": str(folder / NEVER_ENDING_DIR),
    "prompts": str(folder / PROMPTS_FILE),
    "samples": shape.samples,
    "max_tokens": shape.max_tokens,
    "eos_id": EOS_ID if shape.mean_length else None,
    "pad_id": PAD_ID,
    "micro": shape.prompts,
    **job,
  }


def _init_weights(config: ModelConfig, seed: int) -> transformer.Params:
  """Returns random weights whose layers outweigh the embedding (`GAIN`)."""
  params = transformer.init(config, jax.random.key(seed))

  layers = dict(params["layers"])
  for block, name in (("attention", "output"), ("mlp", "down")):
    enlarged = jax.tree.map(lambda leaf: GAIN * leaf, layers[block][name])
    layers[block] = layers[block] | {name: enlarged}
  return params | {"layers": layers}
