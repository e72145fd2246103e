"""The files of a workdir that describe its run: config, data and model.

With `config.json`, a run that would be resumed with another config is refused,
and with `fingerprints.json` one whose tokenizer or problems have changed.
`model.json` has the shape of the decoder whose parameters the checkpoints have,
for commands such as `python -m models.hf export`.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
from etils import epath

from experiments.logging import json_files
from experiments.training import config_keys
from models import checkpoint_reader, storage_paths
from models.config import ModelConfig
from rl import UsageError

CONFIG_FILE = "config.json"
FINGERPRINTS_FILE = "fingerprints.json"
MODEL_FILE = "model.json"
METHOD_FILE = "method.txt"
ADVANTAGES_FILE = "advantages.json"
BASE_EVALUATION_FILE = "evaluation_base.json"
EVALUATION_FILE = "evaluation.json"
# Keys that set how long a run is, how often it does something, and on which
# devices. They change the result of a training step by rounding errors at most,
# so a run may be resumed with other values.
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
  "packing",
  "sinks",
  "mesh",
  "cpu_devices",
)
# Keys of the supervised base that may differ, because its checkpoint can be
# restored on any devices.
BASE_MAY_DIFFER = ("base.mesh", "base.cpu_devices")
# Keys without which a `config.json` is not the config of a run.
_REQUIRED_KEYS = ("kind", "task", "model", "rollout")


def write_config(
  workdir: epath.PathLike, config: ml_collections.ConfigDict
) -> None:
  """Writes `config.json` atomically.

  Args:
    workdir: folder of the run; created if missing.
    config: config of the run, with JSON values.

  Raises:
    TypeError: a value is not JSON.
  """
  text = json.dumps(_to_json(config), indent=2) + "\n"
  if jax.process_index() == 0:
    json_files.replace(epath.Path(workdir) / CONFIG_FILE, text)


def write_model(
  workdir: epath.PathLike,
  model: ModelConfig,
  tokenizer: str,
  frozen: str,
  frozen_step: int | None = None,
  stops: Sequence[int] = (),
) -> None:
  """Writes `model.json`, unless it exists.

  A resumed run does not change the file, since it has the same decoder and the
  same frozen parameters.

  Args:
    workdir: folder of the run.
    model: shape of the decoder.
    tokenizer: absolute path of the tokenizer's folder, or "".
    frozen: folder or workdir of the frozen parameters, which the checkpoints do
      not contain: absolute, or relative to the workdir. "" if the checkpoints
      contain all parameters.
    frozen_step: step of the checkpoint in `frozen`. None if `frozen` is "", a
      folder of weights, or the workdir of this run's base, whose latest
      checkpoint is read.
    stops: token ids that end a completion; () means those of the tokenizer.
  """
  path = epath.Path(workdir) / MODEL_FILE
  if jax.process_index() != 0 or path.exists():
    return
  record = {
    "model": dataclasses.asdict(model),
    "tokenizer": tokenizer,
    "frozen": frozen,
    "frozen_step": frozen_step,
    "stops": list(stops),
  }
  json_files.replace_object(path, record)


def is_run(folder: epath.PathLike) -> bool:
  """Returns whether a folder is the workdir of a run."""
  path = epath.Path(folder) / CONFIG_FILE  # a model folder has one, too
  return path.exists() and "kind" in _read_json(path)


def read_frozen_step(workdir: epath.PathLike) -> int | None:
  """Returns `frozen_step` of `model.json`, None without a `model.json`."""
  path = epath.Path(workdir) / MODEL_FILE
  return json.loads(path.read_text())["frozen_step"] if path.exists() else None


def read_config(workdir: epath.PathLike) -> ml_collections.ConfigDict:
  """Reads the config of a run; lists become tuples.

  Keys that are newer than the run have their defaults.

  Args:
    workdir: folder of the run.

  Raises:
    UsageError: the folder has no `config.json`; or the `config.json` is not the
      config of a run or has a key that does not exist, or the path of the
      workdir has an unknown scheme (such as "ftp://").
  """
  path = storage_paths.parse(workdir) / CONFIG_FILE
  if not path.exists():
    raise UsageError(f"{workdir} holds no run: there is no file {path}")
  values = _read_json(path)
  missing = [key for key in _REQUIRED_KEYS if key not in values]
  if missing:
    raise UsageError(
      f"{path} is not the config of a run: it has no {', '.join(missing)}; "
      "name the workdir of a run"
    )
  values = config_keys.complete(values, str(path))
  return ml_collections.ConfigDict(_lists_to_tuples(values))


def _read_json(path: epath.Path) -> dict[str, Any]:
  """Reads a `config.json`, which must have one JSON object."""
  try:
    values = json.loads(path.read_text())
  except ValueError as error:
    raise UsageError(f"{path} is no config: {error}") from None
  if not isinstance(values, dict):
    raise UsageError(f"{path} is no config: it holds a {type(values).__name__}")
  return values


def _lists_to_tuples(value: Any) -> Any:
  """Converts the lists in nested dicts and lists to tuples, as in a config."""
  if isinstance(value, dict):
    return {key: _lists_to_tuples(item) for key, item in value.items()}
  return (
    tuple(map(_lists_to_tuples, value)) if isinstance(value, list) else value
  )


def check_config(
  workdir: epath.PathLike, config: ml_collections.ConfigDict
) -> None:
  """Refuses a workdir that was made with another config; writes nothing.

  Args:
    workdir: folder of the run. A folder without a config accepts every config.
    config: config of the run that is about to start. Keys in `MAY_DIFFER` and
      `BASE_MAY_DIFFER` may differ. With `inference.ahead`, `checkpoint_every`
      may not differ, because it decides which rollouts are not sampled ahead.

  Raises:
    UsageError: other keys differ (the message names the first three, with both
      values; a key that the run lacks has its default); the run has a key that
      does not exist; the workdir is a file or is below one; it has checkpoints
      but no config; its config is not valid; or its path has an unknown scheme.
  """
  folder = storage_paths.parse(workdir)
  if not storage_paths.is_remote(workdir):
    _check_folder(folder)
  path = folder / CONFIG_FILE
  if not path.exists():
    if (folder / checkpoint_reader.FOLDER).exists():
      raise UsageError(
        f"{workdir} holds a model that no run made, as models.hf imports it; "
        f"start from it with --config.init_from={workdir} in another workdir"
      )
    return
  old = _flatten(config_keys.complete(_read_json(path), str(path)))
  new = _flatten(_to_json(config))
  may_differ = [*MAY_DIFFER, *BASE_MAY_DIFFER]
  if new.get("inference.ahead"):
    may_differ.remove("checkpoint_every")
  differences = [
    f"{key} is {_show(old, key)} there, {_show(new, key)} here"
    for key in sorted(old.keys() | new.keys())
    if _show(old, key) != _show(new, key)
    and not any(f"{key}.".startswith(f"{name}.") for name in may_differ)
  ]
  if differences:
    more = f"; {len(differences) - 3} more" if len(differences) > 3 else ""
    raise UsageError(
      f"{workdir} was made with another config: {'; '.join(differences[:3])}"
      f"{more}. Use another workdir; only {', '.join(may_differ)} may change"
    )


def check_can_create(workdir: epath.PathLike) -> None:
  """Checks that a folder that does not exist yet can be created."""
  if storage_paths.is_remote(workdir) or epath.Path(workdir).exists():
    return
  parent = epath.Path(workdir).absolute().parent
  while not parent.exists():
    parent = parent.parent
  try:
    with tempfile.TemporaryDirectory(dir=parent):
      pass
  except OSError as error:
    raise UsageError(
      f"workdir {workdir} cannot be created: {error.strerror} in {parent}; "
      "name a folder that can be created"
    ) from None


def write_fingerprints(
  workdir: epath.PathLike, fingerprints: Mapping[str, str]
) -> None:
  """Writes `fingerprints.json`, unless it exists.

  Args:
    workdir: folder of the run.
    fingerprints: by what they are of: "tokenizer", "problems", "texts".
  """
  path = epath.Path(workdir) / FINGERPRINTS_FILE
  if jax.process_index() == 0 and not path.exists():
    json_files.replace_object(path, fingerprints)


_CONTENTS = {
  "tokenizer": "the tokenizer, so that its token ids mean other texts",
  "problems": "the problems of the task",
  "texts": "the file of texts that it trains on",
}


def check_fingerprints(
  workdir: epath.PathLike,
  fingerprints: Mapping[str, str],
  names: Sequence[str] = tuple(_CONTENTS),
) -> None:
  """Refuses a run whose data have changed since it began.

  Args:
    workdir: folder of the run. One without fingerprints, of an older version or
      not begun, accepts all.
    fingerprints: those of today.
    names: which of them are compared.

  Raises:
    UsageError: one differs.
  """
  path = storage_paths.parse(workdir) / FINGERPRINTS_FILE
  if not path.exists():
    return
  earlier = _read_json(path)
  for name in names:
    if name in earlier and earlier[name] != fingerprints.get(name):
      raise UsageError(
        f"{workdir} was made with other data: {_CONTENTS[name]}, changed since "
        "then. Bring the former file back, or use another workdir"
      )


def _check_folder(folder: epath.Path) -> None:
  """Refuses a path that is a file, or that is below one."""
  for path in (folder, *folder.parents):
    if path.is_dir():
      return
    if path.exists():
      raise UsageError(
        f"workdir {folder}: {path} is a file; name a folder, or a path that "
        "does not exist yet"
      )


def _to_json(config: ml_collections.ConfigDict) -> dict[str, Any]:
  return json.loads(config.to_json())


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
  """Returns the leaves of nested dicts by dotted key."""
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict) and value:
      flat.update(_flatten(value, f"{prefix}{key}."))
    else:
      flat[prefix + key] = value
  return flat


def _show(flat: dict[str, Any], key: str) -> str:
  """Returns the value of a key as JSON, or "absent"."""
  return json.dumps(flat[key]) if key in flat else "absent"
