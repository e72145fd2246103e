"""Reads and writes decoders as Hugging Face folders.

  config, params = hf.load(folder, dtype="bfloat16", mesh=mesh)
  hf.save(config, params, new_folder, tokenizer=folder)

Such a folder has `config.json`, safetensors files and tokenizer files.
`models.hf.families.FAMILIES` lists the supported architectures. On the command
line, `python -m models.hf import` and `python -m models.hf export` convert
between such folders and workdirs, the folders of training runs. The first also
converts a GGUF file to such a folder.
"""

from models.hf.load_folder import (
  check_folder,
  check_tokenizer,
  load,
  load_config,
)
from models.hf.save_folder import save

__all__ = [
  "check_folder",
  "check_tokenizer",
  "load",
  "load_config",
  "save",
]
