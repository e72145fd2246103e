"""What a workdir says of itself: the config and the model it was made with.

`config.json` keeps a run from going on with another config; `model.json` tells
what reads checkpoints outside of a run which decoder they are of.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
from etils import epath

from experiments.logging import json_files
from models import checkpoint_reader, storage_paths
from models.config import ModelConfig

CONFIG_FILE = "config.json"
MODEL_FILE = "model.json"
# Keys that say how long, how often or on what devices, never what one step
# computes but for rounding: a run may go on with other values of them.
MAY_DIFFER = (
  "steps",
  "steps_per_dispatch",
  "log_every",
  "checkpoint_every",
  "keep_checkpoints",
  "keep_every",
  "keep_best",
  "stop_after_skips",
  "evaluate_every",
  "rollouts_every",
  "sinks",
  "mesh",
  "cpu_devices",
)
# A base that is trained is restored on any devices; its other keys are fixed.
BASE_MAY_DIFFER = ("base.mesh", "base.cpu_devices")


def write_config(
  workdir: epath.PathLike, config: ml_collections.ConfigDict
) -> None:
  """Writes `config.json`, whole or not at all.

  Args:
    workdir: made when missing.
    config: of the run, with JSON values.

  Raises:
    TypeError: a value is not JSON.
  """
  text = json.dumps(_plain(config), indent=2) + "\n"
  if jax.process_index() != 0:
    return
  json_files.replace(epath.Path(workdir) / CONFIG_FILE, text)


def write_model(
  workdir: epath.PathLike,
  model: ModelConfig,
  tokenizer: str,
  frozen: str,
  frozen_step: int | None = None,
  stops: Sequence[int] = (),
) -> None:
  """Writes `model.json`: what `python -m models.hf export` needs to know.

  One that is there is left as it is: what a run began with does not change.

  Args:
    workdir: of the run.
    model: the decoder's shape.
    tokenizer: folder of the tokenizer, absolute, or "".
    frozen: folder or workdir of the weights that checkpoints do not hold, or
      "" where they hold all; absolute or from the workdir.
    frozen_step: of the checkpoint there; None: it has none, or its only one.
    stops: tokens that ended completions; (): those of the tokenizer.
  """
  path = epath.Path(workdir) / MODEL_FILE
  if jax.process_index() != 0 or path.exists():
    return
  told = {
    "model": dataclasses.asdict(model),
    "tokenizer": tokenizer,
    "frozen": frozen,
    "frozen_step": frozen_step,
    "stops": list(stops),
  }
  json_files.replace(path, json.dumps(told, indent=2) + "\n")


def frozen_step(workdir: epath.PathLike) -> int | None:
  """Step of the checkpoint that `model.json` names as the frozen base's."""
  path = epath.Path(workdir) / MODEL_FILE
  return json.loads(path.read_text())["frozen_step"] if path.exists() else None


def read_config(workdir: epath.PathLike) -> ml_collections.ConfigDict:
  """The config that a workdir was made with; lists are tuples again.

  Args:
    workdir: of a run.

  Raises:
    FileNotFoundError: it holds no run.
    ValueError: its `config.json` is no JSON object, or its path has a scheme
      that is not known.
  """
  path = storage_paths.parse(workdir) / CONFIG_FILE
  if not path.exists():
    raise FileNotFoundError(f"{workdir} holds no run: there is no {path}")
  return ml_collections.ConfigDict(_tuples(_read(path)))


def _read(path: epath.Path) -> dict[str, Any]:
  """The object of a `config.json`."""
  try:
    found = json.loads(path.read_text())
  except ValueError as error:
    raise ValueError(f"{path} is no config: {error}") from None
  if not isinstance(found, dict):
    raise ValueError(f"{path} is no config: it holds a {type(found).__name__}")
  return found


def _tuples(value: Any) -> Any:
  if isinstance(value, dict):
    return {key: _tuples(item) for key, item in value.items()}
  return tuple(map(_tuples, value)) if isinstance(value, list) else value


def check_config(
  workdir: epath.PathLike, config: ml_collections.ConfigDict
) -> None:
  """Refuses a workdir that was made with another config; writes nothing.

  Args:
    workdir: of the run; one without a config fits every config.
    config: config of the run about to start. The keys `MAY_DIFFER`, and those of
      the base in `BASE_MAY_DIFFER`, may differ; the
      cadence of checkpoints only where nothing is sampled ahead of them.

  Raises:
    ValueError: names the first keys that differ and both values; or the
      workdir is a file or under one, holds checkpoints of no run or what is no
      config, or its scheme is not known.
  """
  folder = storage_paths.parse(workdir)
  if not storage_paths.is_remote(workdir):
    _check_folder(folder)
  path = folder / CONFIG_FILE
  if not path.exists():
    if (folder / checkpoint_reader.FOLDER).exists():
      raise ValueError(
        f"{workdir} holds a model that no run made, as models.hf imports it; "
        f"start from it with --config.init_from={workdir} in another workdir"
      )
    return
  before, now = _flat(_read(path)), _flat(_plain(config))
  may_differ = [*MAY_DIFFER, *BASE_MAY_DIFFER]
  if now.get("sampler.ahead"):
    may_differ.remove("checkpoint_every")
  differing = [
    f"{key} is {_show(before, key)} there, {_show(now, key)} here"
    for key in sorted(before.keys() | now.keys())
    if _show(before, key) != _show(now, key)
    and not any(f"{key}.".startswith(f"{name}.") for name in may_differ)
  ]
  if differing:
    more = f"; {len(differing) - 3} more" if len(differing) > 3 else ""
    raise ValueError(
      f"{workdir} was made with another config: {'; '.join(differing[:3])}"
      f"{more}. use another workdir; only "
      f"{', '.join(may_differ)} may change"
    )


def _check_folder(folder: epath.Path) -> None:
  for path in (folder, *folder.parents):
    if path.is_dir():
      return
    if path.exists():
      raise ValueError(
        f"workdir {folder}: {path} is a file; name a folder, or what is not "
        "there yet"
      )


def _plain(config: ml_collections.ConfigDict) -> dict[str, Any]:
  return json.loads(config.to_json())


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict) and value:
      flat.update(_flat(value, f"{prefix}{key}."))
    else:
      flat[prefix + key] = value
  return flat


def _show(flat: dict[str, Any], key: str) -> str:
  return json.dumps(flat[key]) if key in flat else "absent"
