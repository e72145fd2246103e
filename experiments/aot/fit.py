"""Changes of a config with which its programs fit, tried by compiling again.

One change at a time, in this order, each as large as the compiler's figure of
the missing memory asks for:

  1. split the state over all devices
  2. recompute more of the forward pass
  3. train on fewer prompts at a time
  4. split the tokens of a sequence, then heads and channels, over more devices,
     which leaves each device more prompts to train on in turn
  5. sampling: decode fewer rows at a time, then split heads over more devices
  6. evaluation: decode fewer rows at a time, then fewer problems
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np

from experiments.aot import chips, report
from experiments.evaluation import evaluator
from experiments.training import build, device_mesh
from experiments.training.experiment import Experiment
from models import presets, sharding
from rl.sampling import generation

Changes = dict[str, Any]  # values of the config by dotted key
_MAX_CHANGES = 12  # number of changes that are tried, one after the other


def search(
  config: ml_collections.ConfigDict,
  devices: Sequence[jax.Device],
  chip: chips.Chip,
  log: report.Log,
  compiled: report.Compiled | None = None,
) -> tuple[Changes, dict[str, Any]]:
  """Searches for changes of a config with which all programs fit.

  Args:
    config: config of the experiment, which is not modified.
    devices: devices that the programs are compiled for, of `chips.devices`.
    chip: figures of one of these devices.
    log: function that prints a line of progress.
    compiled: programs compiled before, as in `report.analyse`.

  Returns:
    The changes, and the report of the last attempt. It does not fit if no
    further change is left to try.
  """
  config = config.copy_and_resolve_references()
  changes: Changes = {}
  compiled = {} if compiled is None else compiled
  for attempts_left in range(_MAX_CHANGES, -1, -1):
    e = build.build(config, devices, chip.memory)
    analysis = report.analyse(e, chip, log, compiled, all_programs=False)
    next_change = change(e, analysis)
    if not next_change or not attempts_left:
      # The analysis stopped at the programs that do not fit: add the others.
      if not analysis["fits"]:
        analysis = report.analyse(e, chip, log, compiled)
      break
    log("try " + " ".join(flags(next_change)))
    changes |= next_change
    config.update_from_flattened_dict(next_change)
  return changes, analysis


def flags(changes: Mapping[str, Any]) -> list[str]:
  """Returns changes as flags of the command line."""
  return [f"--config.{key}={value}" for key, value in changes.items()]


def change(e: Experiment, analysis: Mapping[str, Any]) -> Changes:
  """Returns the next change to try; {} if all programs fit or none is left.

  Args:
    e: the experiment.
    analysis: report of `report.analyse` on the experiment.
  """
  programs = analysis["programs"]
  too_large = {name for name, one in programs.items() if not one["fits"]}
  if not too_large:
    return {}
  hbm = next(iter(programs.values()))["hbm_gib"]
  state = sum(
    gib for part, gib in analysis["resident_gib"].items() if part != "cache"
  )
  mesh = dict(e.mesh.shape)
  if state > hbm / 2 and mesh["data"] > 1:
    return {"mesh.data": 1, "mesh.fsdp": mesh["fsdp"] * mesh["data"]}
  # Memory that each program needs, as a multiple of what the device has. A
  # refusal that is not about memory has no figure.
  ratios = {
    name: (programs[name]["wanted_gib"] or hbm) / hbm for name in too_large
  }
  sampling = ratios.pop("rollout", 0)
  evaluation = ratios.pop("evaluation", 0)
  return (
    (_training(e, max(ratios.values())) if ratios else {})
    or (_sampling(e, hbm, sampling) if sampling else {})
    or (_evaluation(e, hbm, evaluation) if evaluation else {})
  )


def _training(e: Experiment, ratio: float) -> Changes:
  """A change for training programs that need `ratio` times the memory."""
  if e.model.remat != "full":
    return {"model.remat": "full"}
  prompts = e.config.rollout.prompts // e.plan.minibatches
  prompts_per_device = prompts // sharding.num_prompt_shards(e.mesh)
  current = e.plan.microbatches
  more = [n for n in device_mesh.divisors(prompts_per_device) if n > current]
  if more:
    # At least `ratio` times as many: only activations shrink, not the state.
    enough = (n for n in more if n >= current * ratio)
    return {"plan.microbatches": next(enough, more[-1])}
  context = 2 * e.mesh.shape["context"]
  divides = e.sampling.samples % context == 0
  if e.config.model.attention in (None, "blocked") and divides:
    split = _doubled(e, "context")
    if split:
      return split
  return _more_tensor(e)


def _sampling(e: Experiment, hbm: float, ratio: float) -> Changes:
  """Fewer rows at a time, unless the parameters alone take half the memory."""
  if e.sampling_mesh != e.mesh:
    return {}
  copy = sampled_bytes(e, e.mesh.shape["tensor"])
  rows = _fewer_rows(e.sampling, ratio)
  if rows and copy < hbm * chips.GIB / 2:
    return {"rollout.rows": rows}
  return _more_tensor(e)


def _evaluation(e: Experiment, hbm: float, ratio: float) -> Changes:
  """Fewer rows, then fewer problems, unless the parameters take half."""
  shards, batch = sharding.num_prompt_shards(e.mesh), e.config.evaluation.batch
  copy = sampled_bytes(e, e.mesh.shape["tensor"])
  if copy < hbm * chips.GIB / 2:
    rows = _fewer_rows(evaluator.sampling(e), ratio)
    if rows:
      return {"evaluation.rows": rows}
    if batch > shards:
      fewer = (n for n in device_mesh.divisors(batch // shards) if n > 1)
      return {"evaluation.batch": batch // next(fewer)}
  return _more_tensor(e)


def _fewer_rows(sampling: generation.Sampling, ratio: float) -> int:
  """Returns a number of rows that may fit; 0 if there are no fewer.

  The present rows need `ratio` times the memory of the device.
  """
  current = sampling.rows or sampling.samples
  if current == 1:
    return 0
  rows = current // 2
  while rows > max(current / ratio, 1):
    rows //= 2
  return rows


def sampled_bytes(e: Experiment, tensor: int) -> float:
  """Returns the bytes of the sampled parameters on each device.

  While sampling, only the mesh axis `tensor` splits the parameters.
  """
  return (
    np.dtype(e.model.dtype).itemsize * presets.parameter_count(e.model) / tensor
  )


def most_tensor(e: Experiment) -> int:
  """Returns the largest mesh axis `tensor` that devices and model allow."""
  model = e.model
  return math.gcd(e.mesh.size, model.heads, model.kv_heads, model.mlp_width)


def _more_tensor(e: Experiment) -> Changes:
  is_allowed = most_tensor(e) % (2 * e.mesh.shape["tensor"]) == 0
  return _doubled(e, "tensor") if is_allowed else {}


def _doubled(e: Experiment, axis: str) -> Changes:
  """Returns the mesh with an axis doubled, and `data` or `fsdp` halved."""
  mesh = dict(e.mesh.shape)
  other = next((n for n in ("data", "fsdp") if mesh[n] % 2 == 0), None)
  if other is None:
    return {}
  sizes = mesh | {axis: 2 * mesh[axis], other: mesh[other] // 2}
  return {f"mesh.{name}": size for name, size in sizes.items()}
