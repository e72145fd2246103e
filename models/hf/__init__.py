"""Hugging Face folders: published decoders in, trained ones out.

  config, params = hf.load(folder, dtype="bfloat16", mesh=mesh)
  hf.save(config, params, new_folder, tokenizer=folder)

Which families there are: `models.hf.families.FAMILIES`. The command line is
`python -m models.hf import|export`.
"""

from models.hf.reading import (
  check,
  check_tokenizer,
  config,
  load,
)
from models.hf.writing import save

__all__ = [
  "check",
  "check_tokenizer",
  "config",
  "load",
  "save",
]
