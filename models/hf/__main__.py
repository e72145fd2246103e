"""Implements the commands `python -m models.hf import` and `export`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence

import jax
import orbax.checkpoint as ocp
from etils import epath

from models import checkpoint_reader, hf, storage_paths, transformer
from models.config import DTYPES, from_fields
from models.hf import gguf_import, load_folder, save_folder, tensor_layout
from rl import UsageError, types

Params = transformer.Params
MODEL_FILE = "model.json"  # the file of a workdir that describes its model


def main(arguments: Sequence[str]) -> int:
  """Runs the command that the arguments name.

  Args:
    arguments: the command line without the program's name.

  Returns:
    The exit status: 0, or 2 after an error, which is printed as one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m models.hf", description=hf.__doc__
  )
  commands = parser.add_subparsers(dest="command", required=True)
  importing = commands.add_parser(
    "import",
    help="convert a Hugging Face folder to a workdir, from which a run can "
    "start (config.init_from), or a GGUF file to a Hugging Face folder "
    "(config.policy.path)",
  )
  importing.add_argument(
    "source",
    metavar="SOURCE",
    help="the Hugging Face folder or the GGUF file to read",
  )
  importing.add_argument(
    "out", metavar="OUT", help="the workdir or the Hugging Face folder to write"
  )
  importing.add_argument(
    "--dtype",
    choices=DTYPES,
    default="float32",
    help="dtype of the parameters of a workdir (default: float32); those of a "
    "GGUF file become float32",
  )
  exporting = commands.add_parser(
    "export", help="convert the policy of a run to a Hugging Face folder"
  )
  exporting.add_argument("workdir", metavar="WORKDIR", help="the run's workdir")
  exporting.add_argument(
    "out", metavar="OUT", help="the Hugging Face folder to write"
  )
  exporting.add_argument(
    "--step", type=int, help="step of the checkpoint (default: the latest)"
  )
  parser.add_argument(
    "--traceback", action="store_true", help="show the traceback of an error"
  )
  args = parser.parse_args(arguments)
  start = time.perf_counter()
  try:
    if args.command == "import" and args.source.endswith(".gguf"):
      gguf_import.convert(args.source, args.out)
      print(f"wrote {args.out}, which config.policy.path can name")
      params = tensor_layout.leaf_shapes(hf.load_config(args.out))
    elif args.command == "import":
      params = import_folder(args.source, args.out, args.dtype)
    else:
      params = export_workdir(args.workdir, args.out, args.step)
  except (ValueError, OSError) as error:
    if args.traceback:
      raise
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return 2
  leaves = jax.tree.leaves(params)
  print(
    f"{args.out}: {sum(leaf.size for leaf in leaves):,} parameters, "
    f"{sum(leaf.size * leaf.dtype.itemsize for leaf in leaves):,} bytes, "
    f"{time.perf_counter() - start:.1f} s"
  )
  return 0


def import_folder(folder: str, out: str, dtype: str) -> Params:
  """Converts a Hugging Face folder to a workdir with a checkpoint of step 0.

  Args:
    folder: the Hugging Face folder.
    out: the workdir to write; it must not have checkpoints.
    dtype: dtype of the parameters.

  Returns:
    The parameters.

  Raises:
    UsageError: the workdir has checkpoints, or `hf.load` refuses the folder.
  """
  workdir = storage_paths.absolute(out)
  checkpoints = workdir / checkpoint_reader.FOLDER
  if checkpoints.exists():
    raise UsageError(f"{checkpoints} exists already; choose a new workdir")
  config, params = hf.load(folder, dtype=dtype)
  print(f"read {folder}: {config.family}, {config.layers} layers")
  workdir.mkdir(parents=True, exist_ok=True)
  model = {
    "model": dataclasses.asdict(config),
    "tokenizer": str(load_folder.require_local(folder).absolute()),
    "frozen": "",  # all parameters are in the checkpoint
  }
  (workdir / MODEL_FILE).write_text(json.dumps(model, indent=2) + "\n")
  with ocp.CheckpointManager(
    checkpoints,
    item_handlers={"state": ocp.StandardCheckpointHandler()},
  ) as manager:
    state = ocp.args.StandardSave({"params": params})
    manager.save(0, args=ocp.args.Composite(state=state))
  print(f"wrote {checkpoints}")
  return params


def export_workdir(workdir: str, out: str, step: int | None) -> Params:
  """Converts the policy of a run to a Hugging Face folder.

  The run's `model.json` has the config ("model"), the tokenizer's folder
  ("tokenizer"), and the ids that end a completion ("stops"). For a run that
  trained adapters, it also names the Hugging Face folder or the workdir with
  the frozen base ("frozen"), and the step of its checkpoint ("frozen_step").

  Args:
    workdir: the run's workdir.
    out: the Hugging Face folder to write.
    step: step of the checkpoint; None means the latest.

  Returns:
    All parameters of the policy. Adapters are not merged, unlike in the folder.

  Raises:
    UsageError: the workdir has no valid `model.json`, the base of its adapters
      was not saved, or `hf.save` refuses to write the folder; or there is no
      checkpoint, or none of this step.
  """
  folder, out = storage_paths.absolute(workdir), load_folder.require_local(out)
  if not (folder / MODEL_FILE).exists():
    raise UsageError(f"{folder} has no {MODEL_FILE}; name the workdir of a run")
  try:
    model = json.loads((folder / MODEL_FILE).read_text())
    config = from_fields(model["model"])
  except (KeyError, TypeError, ValueError) as error:
    raise UsageError(
      f"{folder / MODEL_FILE} describes no decoder ({type(error).__name__}: "
      f"{error}); name the workdir of a run"
    ) from None
  params = checkpoint_reader.restore_params(
    folder / checkpoint_reader.FOLDER, step=step
  )
  print(f"read {folder}: {config.family}, {config.layers} layers")
  if model["frozen"]:
    base = model["frozen"]
    if not (storage_paths.is_remote(base) or os.path.isabs(base)):
      base = folder / base  # a relative path starts at the workdir
    base, base_step = epath.Path(base), model.get("frozen_step")
    base_params = _load_base(base, base_step, config.param_dtype)
    params = types.join(params, base_params)
    print(f"read the frozen base {base}")
  elif config.lora_rank:
    raise UsageError(
      f"{folder} trained adapters on a randomly initialized base, which was "
      "not saved; only adapters on a folder or on another run can be exported"
    )
  tokenizer = model["tokenizer"]
  if not (tokenizer and save_folder.has_tokenizer(tokenizer)):
    tokenizer = None
  stops = tuple(model.get("stops", ()))
  hf.save(config, params, out, tokenizer=tokenizer, stops=stops)
  print(f"wrote {out}, with {'its' if tokenizer else 'no'} tokenizer")
  return params


def _load_base(
  folder: epath.Path,
  step: int | None,  # step of the workdir's checkpoint; None means the latest
  dtype: str,  # dtype in which a Hugging Face folder is read
) -> Params:
  """Loads the base of adapters from a workdir or a Hugging Face folder."""
  checkpoints = folder / checkpoint_reader.FOLDER
  if checkpoints.exists():
    return checkpoint_reader.restore_params(checkpoints, step=step)
  return hf.load(folder, dtype=dtype)[1]


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
