"""Shapes of the speed benchmarks, and the files from which every side starts.

Weights are random, in the form of Qwen3 with tied embeddings, which all peers
read. Where a shape has mixed lengths they come from the weights (`eos`), so
that every side ends its rows alike.
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
FIRST_WORD = 3
GAIN = 16.0  # of layer kernels, so that the likeliest token changes
PLAIN, MIXED, PROMPTS = "plain", "mixed", "prompts.npy"


@dataclasses.dataclass(frozen=True)
class Shape:
  """A model and a batch.

  Attributes:
    model: the decoder.
    prompts, samples: P and S.
    prompt_length: L, the same of all prompts.
    max_tokens: T, where a completion is cut.
    mean_length: of completions, where their lengths are mixed (geometric, cut
      at T); 0: all have T tokens and nothing ends them.
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
  """Heads of 64 channels, a third or half as many keys; MLPs of some 3 widths.

  Args:
    layers, width, vocab_size: of the decoder; the width a multiple of 128.
  """
  heads = width // 64
  return ModelConfig(
    vocab_size=vocab_size,
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=heads // 3 if heads % 3 == 0 else heads // 2,
    head_dim=64,
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
ITERATION: Mapping[str, Shape] = {
  "small": UPDATE["small"],
  "long": DECODE["long"],
}


def write(
  shape: Shape, folder: pathlib.Path, seed: int = 0, **job: Any
) -> dict[str, Any]:
  """Writes weights and prompts, and says the job of every side.

  Args:
    shape: what to write.
    folder: where; new or empty.
    seed: of the weights and the prompts.
    **job: what else sides are told.

  Returns:
    The job (`peers`). Beside its weights lie those under `plain`, in which no
    completion ever ends: the same but for one number, for questions about
    greedy tokens.
  """
  config = shape.model
  folder = pathlib.Path(folder)
  random = np.random.default_rng(seed)
  size = (shape.prompts, shape.prompt_length)
  prompts = random.integers(FIRST_WORD, config.vocab_size, size, np.int32)
  folder.mkdir(parents=True, exist_ok=True)
  np.save(folder / PROMPTS, prompts)
  params = eos.never(config, _weights(config, seed), (EOS_ID, PAD_ID))
  hf.save(config, params, folder / PLAIN)
  weights = PLAIN
  if shape.mean_length:
    fitted = eos.fit(
      config,
      params,
      prompts,
      eos_id=EOS_ID,
      mean=shape.mean_length,
      most=shape.max_tokens,
    )
    hf.save(config, fitted, folder / MIXED)
    weights = MIXED
  return {
    "weights": str(folder / weights),
    "plain": str(folder / PLAIN),
    "prompts": str(folder / PROMPTS),
    "samples": shape.samples,
    "max_tokens": shape.max_tokens,
    "eos_id": EOS_ID if shape.mean_length else None,
    "pad_id": PAD_ID,
    "micro": shape.prompts,
    **job,
  }


def _weights(config: ModelConfig, seed: int) -> transformer.Params:
  """Fresh ones, with layers that say more than the embedding of their input."""
  params = transformer.init(config, jax.random.key(seed))

  def enlarge(path: Any, leaf: jax.Array) -> jax.Array:
    writes = {key.key for key in path} & {"output", "down"}
    return GAIN * leaf if writes else leaf

  layers = jax.tree_util.tree_map_with_path(enlarge, params["layers"])
  return params | {"layers": layers}
