"""A Hugging Face folder with a small policy and a chat tokenizer."""

from __future__ import annotations

from pathlib import Path

import jax

from helpers import small_chat
from models import hf, transformer
from models.config import ModelConfig


def write(folder: Path, template: str = small_chat.TEMPLATE) -> Path:
  """Writes a Llama of one layer with random weights, and returns its folder.

  Args:
    folder: folder that does not exist yet.
    template: chat template; "" writes none.
  """
  tokenizer_folder = folder.with_name(f"{folder.name}_tokenizer")
  size = len(small_chat.write(tokenizer_folder, template))
  model = ModelConfig(
    vocab_size=size,
    width=16,
    layers=1,
    heads=2,
    kv_heads=2,
    head_dim=8,
    mlp_width=32,
    max_positions=4096,
    family="llama",
  )
  params = transformer.init(model, jax.random.key(0))
  hf.save(model, params, folder, tokenizer=tokenizer_folder)
  return folder
