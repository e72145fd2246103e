"""Measures once whether several CPU devices are faster than one, and remembers.

JAX can treat the host's CPU as several devices, which split a batch. On some
processors two devices sample and train faster than one; on others they are
slower, because XLA already uses all cores for one device. So
`config.cpu_devices = 0`, and `experiments.evaluate --policy`, ask `choose`:

  count, reason = choose(batches=[8])
  # (1, "measured: 2 take 31% longer")

The first call on a processor samples from a small decoder and computes a
gradient, in processes of their own with 1, 2, 4 and 8 devices in turn (as many
as there are cores). It takes about half a minute on two cores. The result is in
`cpu_devices.json` in `cache_folders.of_measurements()`, by the number of cores
and the version of JAX; without that file the next call measures again.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from experiments.cli import cache_folders

if TYPE_CHECKING:
  from models.config import ModelConfig

FILE = "cpu_devices.json"
COUNTS = (1, 2, 4, 8)  # numbers of devices that are compared
# Several devices must save this share of the time of one device: their programs
# are compiled by every command anew (`experiments.cli.devices`).
MIN_SAVING = 0.1
_TURNS = 2  # processes per number of devices; the faster one counts
_TIMEOUT = 60.0  # seconds for one process
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files of Linux that exist where a GPU or a TPU is attached.
_ACCELERATORS = ("nvidia[0-9]*", "kfd", "accel[0-9]*", "vfio/[0-9]*")


def choose(
  batches: Sequence[int] = (), report: Callable[[str], None] = print
) -> tuple[int, str]:
  """Returns the fastest number of CPU devices, and the reason for it.

  Args:
    batches: sizes of batches that the devices split. The number divides all of
      them.
    report: function that prints a line, called before a measurement.

  Returns:
    (number, reason). The number is 1 where nothing is measured: on one core,
    beside an accelerator, or if the measurement fails.
  """
  cores = num_cores()
  if cores == 1 or 1 in batches or _has_accelerator():
    return 1, ""
  record = _load_or_measure(cores, report)
  if "failure" in record:
    path = cache_folders.of_measurements() / FILE
    failure = f"the measurement failed: {record['failure']}"
    return 1, f"{failure}; without {path} it is repeated"
  # JSON has the numbers as text.
  seconds = {int(count): time for count, time in record["seconds"].items()}
  # The numbers that divide all batches.
  dividing = {
    n: t for n, t in seconds.items() if not any(size % n for size in batches)
  }
  best, count = pick(seconds), pick(dividing)
  if count != best:
    return count, f"{best} are faster, but do not divide {list(batches)}"
  return count, _describe(seconds, count)


def pick(seconds: Mapping[int, float]) -> int:
  """Returns the fastest number of devices; 1 if none saves `MIN_SAVING`."""
  fastest = min(seconds, key=seconds.get)
  return fastest if seconds[fastest] <= (1 - MIN_SAVING) * seconds[1] else 1


def _load_or_measure(
  cores: int, report: Callable[[str], None]
) -> dict[str, Any]:
  """Returns the record of this processor; measures if there is none."""
  key = f"{cores} cores, jax {jax.__version__}"
  path = cache_folders.of_measurements() / FILE
  try:
    records = json.loads(path.read_text())
    # A failure is kept too: a slow machine would pay for it in every command.
    if "failure" in records[key] or "1" in records[key]["seconds"]:
      return records[key]
  except (OSError, ValueError):  # no file, or no JSON
    records = {}
  except (KeyError, TypeError):  # none, or an unknown format
    records = records if isinstance(records, dict) else {}
  report(
    "measuring once whether several CPU devices are faster on this processor, "
    "up to a minute ..."
  )
  records[key] = _measure([count for count in COUNTS if count <= cores])
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed, so that no other process reads half a file.
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(records, indent=2) + "\n")
    scratch.replace(path)
  except OSError:  # a home that cannot be written: the next command measures
    pass
  return records[key]


def _describe(seconds: Mapping[int, float], count: int) -> str:
  """Returns why a number was chosen, such as "measured: 2 take 31% longer"."""
  if count > 1:
    change = 1 - seconds[count] / seconds[1]
    return f"measured: {change:.0%} less time than 1"
  rival = min((n for n in seconds if n > 1), key=seconds.get)
  change = seconds[rival] / seconds[1] - 1
  if change < 0:
    return f"measured: {rival} save only {-change:.0%} of the time"
  return f"measured: {rival} take {change:.0%} longer"


def num_cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):  # Linux
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _has_accelerator() -> bool:
  """Returns whether JAX may use a GPU or TPU; does not start JAX."""
  platforms = jax.config.jax_platforms
  if platforms:
    return platforms.split(",")[0] != "cpu"
  folder = pathlib.Path("/dev")
  return any(any(folder.glob(name)) for name in _ACCELERATORS)


def _measure(counts: Sequence[int]) -> dict[str, Any]:
  """Returns a record: "seconds" by number of devices, or "failure"."""
  seconds = dict.fromkeys(counts, float("inf"))
  try:
    for _ in range(_TURNS):  # in turn, because other processes come and go
      for count in counts:
        seconds[count] = min(seconds[count], _time_process(count))
  except (OSError, ValueError, subprocess.SubprocessError) as error:
    return {"failure": " ".join(str(error).split())[:200]}
  return {"seconds": {str(count): time for count, time in seconds.items()}}


def _time_process(count: int) -> float:
  """Runs this module in a process with `count` devices; returns its seconds."""
  flags = os.environ.get("XLA_FLAGS", "")
  count_flag = r"--xla_force_host_platform_device_count=\d+"
  environment = {
    "XLA_FLAGS": re.sub(count_flag, "", flags),
    "JAX_PLATFORMS": "cpu",
    "JAX_NUM_CPU_DEVICES": str(count),
    "JAX_ENABLE_COMPILATION_CACHE": "false",
  }
  process = subprocess.run(
    [sys.executable, "-m", "experiments.cli.cpu_devices"],
    cwd=_ROOT,
    env=os.environ | environment,
    stdin=subprocess.DEVNULL,
    capture_output=True,
    text=True,
    timeout=_TIMEOUT,
    check=True,
  )
  return float(process.stdout)


def small_smollm2() -> ModelConfig:
  """Returns the decoder that is measured: two layers of SmolLM2-135M."""
  # Its programs are small, because most of the time of the measurement goes
  # into starting and compiling.
  # Imported here, because only the process that measures needs the decoder.
  from models import presets

  return presets.get(
    "smollm2-135m", layers=2, vocab_size=4096, attention="blocked"
  )


def time_decoder(model: ModelConfig, repeats: int = 3) -> float:
  """Returns the seconds of sampling and of a gradient, on all CPU devices.

  Of the `repeats` calls of each program the fastest counts.
  """
  # Imported here, because only the process that measures needs the decoder.
  import numpy as np

  # Imported here for the same reason.
  from models import policy, sharding, transformer
  from rl.sampling import generation

  # All numbers in `COUNTS` divide the prompts.
  prompts, length, samples, tokens = 8, 32, 4, 16
  mesh = sharding.make_mesh()
  split = sharding.batch_sharding(mesh)
  shapes = jax.eval_shape(lambda: transformer.init(model, jax.random.key(0)))
  params = jax.tree.map(
    # The values do not matter for the time.
    lambda x, where: jax.device_put(np.full(x.shape, 0.01, x.dtype), where),
    shapes,
    sharding.shardings(shapes, mesh),
  )
  inputs = jax.device_put(np.ones((prompts, length), np.int32), split)
  mask = jax.device_put(np.ones((prompts, length), bool), split)
  ids = jax.device_put(np.arange(prompts), split)
  # No token ends a completion, so that every call does the same work.
  sampling = generation.Sampling(
    samples=samples, max_tokens=tokens, eos_ids=(), pad_id=0
  )

  @jax.jit
  def sample(params, inputs, mask, ids):
    keys = generation.prompt_keys(jax.random.key(0), 0, ids)
    return generation.generate(
      policy.bind(model), params, inputs, mask, keys, sampling
    ).completions

  @jax.jit
  def gradient(params, inputs, mask):
    def loss(params):
      logits = transformer.logits(model, params, inputs, mask)
      return jax.nn.logsumexp(logits, axis=-1).mean()

    return jax.grad(loss)(params)

  total = 0.0
  for program, *values in (
    (sample, params, inputs, mask, ids),
    (gradient, params, inputs, mask),
  ):
    jax.block_until_ready(program(*values))  # compiles
    seconds = []
    for _ in range(repeats):
      start = time.perf_counter()
      jax.block_until_ready(program(*values))
      seconds.append(time.perf_counter() - start)
    total += min(seconds)
  return total


if __name__ == "__main__":
  print(time_decoder(small_smollm2()))
