"""The command line: `python -m models.hf import|export --help`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from models import buckets, hf, stored, transformer
from models.config import DTYPES, ModelConfig
from models.hf import reading, writing
from models.rope import RopeScaling
from rl import types

Params = transformer.Params
MODEL_FILE = "model.json"


def main(words: Sequence[str]) -> int:
  """Reads or writes a Hugging Face folder.

  Args:
    words: of the command line, without the program's name.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m models.hf", description=hf.__doc__
  )
  commands = parser.add_subparsers(dest="command", required=True)
  importing = commands.add_parser(
    "import", help="a Hugging Face folder to a workdir, for config.init_from"
  )
  importing.add_argument("folder", metavar="FOLDER")
  importing.add_argument("out", metavar="OUT")
  importing.add_argument("--dtype", choices=DTYPES, default="float32")
  exporting = commands.add_parser(
    "export", help="a run's workdir to a Hugging Face folder"
  )
  exporting.add_argument("workdir", metavar="WORKDIR")
  exporting.add_argument("out", metavar="OUT")
  exporting.add_argument("--step", type=int, help="by default the latest")
  given = parser.parse_args(words)
  start = time.perf_counter()
  try:
    if given.command == "import":
      params = import_folder(given.folder, given.out, given.dtype)
    else:
      params = export_workdir(given.workdir, given.out, given.step)
  except (ValueError, OSError, ImportError) as error:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return 2
  leaves = jax.tree.leaves(params)
  print(
    f"{given.out}: {sum(leaf.size for leaf in leaves):,} parameters, "
    f"{sum(leaf.nbytes for leaf in leaves):,} bytes, "
    f"{time.perf_counter() - start:.1f} s"
  )
  return 0


def import_folder(folder: str, out: str, dtype: str) -> Params:
  """Writes a folder's decoder as the checkpoint of step 0 of a workdir."""
  workdir = buckets.absolute(out)
  if (workdir / stored.FOLDER).exists():
    raise ValueError(f"{workdir / stored.FOLDER} is there already")
  config, params = hf.load(folder, dtype=dtype)
  print(f"read {folder}: {config.family}, {config.layers} layers")
  workdir.mkdir(parents=True, exist_ok=True)
  told = {
    "model": dataclasses.asdict(config),
    "tokenizer": str(reading.local(folder).absolute()),
    "frozen": "",
  }
  (workdir / MODEL_FILE).write_text(json.dumps(told, indent=2) + "\n")
  with ocp.CheckpointManager(
    workdir / stored.FOLDER,
    item_handlers={"state": ocp.StandardCheckpointHandler()},
  ) as manager:
    state = ocp.args.StandardSave({"params": params})
    manager.save(0, args=ocp.args.Composite(state=state))
  print(f"wrote {workdir / stored.FOLDER}")
  return params


def export_workdir(workdir: str, out: str, step: int | None) -> Params:
  """Writes the policy of a workdir's checkpoint as a Hugging Face folder."""
  folder, out = buckets.absolute(workdir), reading.local(out)
  if not (folder / MODEL_FILE).exists():
    raise ValueError(f"{folder} has no {MODEL_FILE}; is it a run's workdir?")
  try:
    told = json.loads((folder / MODEL_FILE).read_text())
    config = model_config(told["model"])
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f"{folder / MODEL_FILE} describes no decoder ({type(error).__name__}: "
      f"{error}); name the workdir of a run"
    ) from None
  params = stored.restore_params(folder / stored.FOLDER, step=step)
  print(f"read {folder}: {config.family}, {config.layers} layers")
  if told["frozen"]:
    base = told["frozen"]
    if not (buckets.is_remote(base) or os.path.isabs(base)):
      base = folder / base
    base, step = epath.Path(base), told.get("frozen_step")
    params = types.join(params, _base(base, step, config.param_dtype))
    print(f"read the frozen base {base}")
  elif config.lora_rank:
    raise ValueError(
      f"{folder} trained adapters on random weights, which no file holds; "
      "only adapters on a folder or on another run can be exported"
    )
  tokenizer = told["tokenizer"]
  if not (tokenizer and writing.has_tokenizer(tokenizer)):
    tokenizer = None
  stops = tuple(told.get("stops", ()))
  hf.save(config, params, out, tokenizer=tokenizer, stops=stops)
  print(f"wrote {out}, {'tokenizer' if tokenizer else 'no tokenizer'} beside")
  return params


def model_config(fields: dict[str, Any]) -> ModelConfig:
  """A `ModelConfig` from its fields in JSON."""
  scaling = fields["rope_scaling"]
  if scaling is not None:
    scaling = RopeScaling(**scaling)
  return ModelConfig(**{**fields, "rope_scaling": scaling})


def _base(folder: epath.Path, step: int | None, dtype: str) -> Params:
  """What an adapter was trained on: a Hugging Face folder, or a workdir."""
  if (folder / stored.FOLDER).exists():
    return stored.restore_params(folder / stored.FOLDER, step=step)
  return hf.load(folder, dtype=dtype)[1]


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
