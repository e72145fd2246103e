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
import numpy as np

from experiments.studies.benchmark import eos
from models import hf, transformer
from models.config import ModelConfig

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
FIRST_TOKEN_ID = 3
# Factor on the output kernels of layers. Without it the embedding of the last
# token dominates the logits, because embeddings are tied, and the likeliest
# token is always the same.
GAIN = 16.0
NEVER_ENDING_DIR, MIXED_DIR, PROMPTS_FILE = "plain", "mixed", "prompts.npy"


@dataclasses.dataclass(frozen=True)
class Shape:
  """A model and a batch.

  Attributes:
    model: the decoder.
    prompts: number of prompts P.
    samples: number of samples per prompt S.
    prompt_length: tokens of each prompt L.
    max_tokens: largest number of tokens of a completion T.
    mean_length: mean of the lengths, which are then geometrically distributed
      and cut at T; 0 if all completions have T tokens.
  """

  model: ModelConfig
  prompts: int
  samples: int
  prompt_length: int
  max_tokens: int
  mean_length: float = 0.0

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
  wide as the model.

  Args:
    layers: number of layers.
    width: width of the model, a multiple of 128.
    vocab_size: size of the vocabulary.
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


def write(
  shape: Shape, folder: pathlib.Path, seed: int = 0, **job: Any
) -> dict[str, Any]:
  """Writes weights and prompts, and returns the job of all sides.

  Args:
    shape: shape of the model and the batch.
    folder: new or empty folder.
    seed: seed of the weights and the prompts.
    **job: further entries of the job.

  Returns:
    The job (`peers`). Its entry "plain" is a folder of weights whose
    completions never end, for questions about greedy tokens. They differ from
    those in the folder "weights" in the EOS row of the embedding only.
  """
  config = shape.model
  folder = pathlib.Path(folder)
  random = np.random.default_rng(seed)
  prompts_shape = (shape.prompts, shape.prompt_length)
  prompts = random.integers(
    FIRST_TOKEN_ID, config.vocab_size, prompts_shape, np.int32
  )
  folder.mkdir(parents=True, exist_ok=True)
  np.save(folder / PROMPTS_FILE, prompts)
  params = eos.suppress_tokens(
    config, _init_weights(config, seed), (EOS_ID, PAD_ID)
  )
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

  def enlarge(path: Any, leaf: jax.Array) -> jax.Array:
    is_output = {key.key for key in path} & {"output", "down"}
    return GAIN * leaf if is_output else leaf

  layers = jax.tree_util.tree_map_with_path(enlarge, params["layers"])
  return params | {"layers": layers}
