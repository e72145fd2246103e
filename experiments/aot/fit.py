"""Searches for changes of a config with which its programs fit.

After each change the programs are compiled again. The changes, in the order in
which they are tried:

  1. split the training state over all devices (fsdp instead of data)
  2. recompute the whole forward pass in the backward pass (remat)
  3. train on fewer prompts at a time (more microbatches)
  4. split the tokens of a sequence (context) over more devices, in place of
     prompts or heads, then heads and channels (tensor) over more devices; each
     device then has more prompts, and change 3 is possible again. If nothing of
     this is left, prompts over more devices in place of heads
  5. sampling: decode fewer rows at a time, and split heads over more devices
     than in training (inference.tensor)
  6. evaluation: the same, and fewer problems at a time

How much changes 3, 5 and 6 reduce follows from the memory that, according to
the compiler, the program needs.
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
from experiments.training import device_mesh, placement
from experiments.training.experiment import Experiment
from experiments.training_run import validate
from models import presets, repeated_heads, sharding
from models.config import ModelConfig
from rl.sampling import generation

Changes = dict[str, Any]  # new values by dotted config key
_MAX_CHANGES = 16  # changes per search; each costs a compilation


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
    devices: devices that the programs are compiled for, from `chips.devices`.
    chip: speed and memory of one of these devices.
    log: function that prints a line of progress.
    compiled: reports of programs that were compiled before, as in
      `report.analyse`; None means none.

  Returns:
    The changes, and the report of the experiment with all of them. Its value of
    "fits" is False if no further change was left to try.
  """
  config = config.copy_and_resolve_references()
  changes: Changes = {}
  compiled = {} if compiled is None else compiled
  meshes = []  # shapes that were tried
  for attempts_left in range(_MAX_CHANGES, -1, -1):
    e = validate.check_and_build(config, devices=devices, memory=chip.memory)
    analysis = report.analyse(e, chip, log, compiled, all_programs=False)
    meshes.append(dict(e.mesh.shape))
    next_change = change(e, analysis, meshes)
    if not next_change or not attempts_left:
      # The analysis may have stopped before all programs: add the others.
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


def change(
  e: Experiment,
  analysis: Mapping[str, Any],
  meshes: Sequence[Mapping[str, int]] = (),
) -> Changes:
  """Returns the next change to try; {} if all fit or no change is left.

  `meshes` are the shapes of the training mesh that were tried.
  """
  programs = analysis["programs"]
  too_large = {
    name for name, program in programs.items() if not program["fits"]
  }
  if not too_large:
    return {}
  # GiB of a device's memory, the same for all programs, and of the state in it.
  hbm = next(iter(programs.values()))["hbm_gib"]
  state = sum(
    gib for part, gib in analysis["resident_gib"].items() if part != "cache"
  )
  mesh = dict(e.mesh.shape)
  if state > hbm / 2 and mesh["data"] > 1:
    return {"mesh.data": 1, "mesh.fsdp": mesh["fsdp"] * mesh["data"]}
  # Memory that each program needs, as a multiple of what the device has. If the
  # compiler refused it for another reason, the memory is unknown: take 1.
  ratios = {
    name: (programs[name]["wanted_gib"] or hbm) / hbm for name in too_large
  }
  sampling = ratios.pop("rollout", 0)
  evaluation = ratios.pop("evaluation", 0)
  return (
    (_training(e, max(ratios.values()), meshes) if ratios else {})
    or (_sampling(e, hbm - state, sampling) if sampling else {})
    or (_evaluation(e, hbm - state, evaluation) if evaluation else {})
  )


def _training(
  e: Experiment, ratio: float, meshes: Sequence[Mapping[str, int]]
) -> Changes:
  """Returns a change that lowers the memory of training; {} if none is left."""
  if e.model.remat != "full":
    return {"model.remat": "full"}
  prompts = e.config.rollout.prompts // e.plan.minibatches
  prompts_per_device = prompts // sharding.num_prompt_shards(e.mesh)
  current = e.plan.microbatches
  more = [n for n in device_mesh.divisors(prompts_per_device) if n > current]
  if more:
    # `ratio` is the memory that the largest training program needs, as a
    # multiple of a device's memory.
    # Take `ratio` times as many microbatches. This may be too few, since only
    # activations shrink, not the state; then the next attempt adds more.
    enough = (n for n in more if n >= current * ratio)
    return {"plan.microbatches": next(enough, more[-1])}
  for split in (_more_context(e), _more_tensor(e), _less_tensor(e)):
    mesh = {name: split.get(f"mesh.{name}") for name in e.mesh.shape}
    # `meshes` has the shapes of the training mesh that were tried before.
    if split and mesh not in meshes:
      return split
  return {}


def _more_context(e: Experiment) -> Changes:
  """Returns the change that doubles the mesh axis `context`, or {}."""
  context = 2 * e.mesh.shape["context"]
  # The size of the axis must divide the samples, and attention must be able to
  # split tokens.
  divides = e.sampling.samples % context == 0
  if e.config.model.attention not in (None, "blocked") or not divides:
    return {}
  split = _doubled(e, "context", ("data", "fsdp", "tensor"))
  tensor = e.mesh.shape["tensor"]
  keeps_tensor = bool(split) and split["mesh.tensor"] == tensor
  return split if keeps_tensor else _with_sampling_tensor(e, split)


def _less_tensor(e: Experiment) -> Changes:
  """Returns the change that splits prompts in place of heads, or {}."""
  split = _doubled(e, "fsdp", ("tensor",))
  prompts = e.config.rollout.prompts // e.plan.minibatches
  shards = 2 * sharding.num_prompt_shards(e.mesh)
  if not split or prompts % shards:
    return {}
  microbatches = math.gcd(e.plan.microbatches, prompts // shards)
  split |= {"plan.microbatches": microbatches}
  return _with_sampling_tensor(e, split)


def _with_sampling_tensor(e: Experiment, split: Changes) -> Changes:
  """Keeps the sampler's split of heads if a change makes `tensor` smaller."""
  if not split or e.sampling_mesh != e.mesh:
    return split
  # The sampler splits heads over at least as many devices as before. If it
  # cannot, there is no change.
  tensor = e.mesh.shape["tensor"]
  enough = [n for n in sampling_tensors(e) if n >= tensor]
  return split | {"inference.tensor": enough[0]} if enough else {}


def _sampling(e: Experiment, room: float, ratio: float) -> Changes:
  """Returns a change that lowers the memory of sampling; {} if none is left."""
  if e.sampling_mesh != placement.evaluation_mesh(e):
    return {}  # the sampler has devices of its own
  # `ratio` is the memory that the program needs, as a multiple of a device's
  # memory.
  rows = _fewer_rows(e.sampling, ratio)
  fewer = {"rollout.rows": rows} if rows else {}
  # `room` is the memory in GiB of a device beside the training state.
  return _in_order(e, room, fewer)


def _evaluation(e: Experiment, room: float, ratio: float) -> Changes:
  """Returns a change that lowers the memory of evaluation, or {}."""
  # `room` and `ratio` are the same as in `_sampling`.
  shards = sharding.num_prompt_shards(placement.evaluation_mesh(e))
  batch = e.config.evaluation.batch
  # The number of rows decreases first, then that of problems at a time.
  rows = _fewer_rows(evaluator.sampling_settings(e), ratio)
  fewer = {"evaluation.rows": rows} if rows else {}
  if not rows and batch > shards:
    divisors = (n for n in device_mesh.divisors(batch // shards) if n > 1)
    fewer = {"evaluation.batch": batch // next(divisors)}
  # If the sampler has devices of its own, those of training evaluate.
  if e.sampling_mesh != placement.evaluation_mesh(e):
    return fewer or _more_tensor(e)
  return _in_order(e, room, fewer)


def _in_order(e: Experiment, room: float, fewer: Changes) -> Changes:
  """Returns the change to try first: `fewer` or a larger `inference.tensor`."""
  # `room` is the memory in GiB of a device beside the training state.
  half, tensor = room * chips.GIB / 2, e.sampling_mesh.shape["tensor"]
  larger = [n for n in sampling_tensors(e) if n > tensor]
  sufficient = (n for n in larger if sampled_bytes(e.model, n) <= half)
  split = {"inference.tensor": next(sufficient, larger[-1])} if larger else {}
  # If the parameters alone take more than half of the room, heads are split
  # over more devices first. Otherwise the cache becomes smaller first.
  is_small = sampled_bytes(e.model, tensor) <= half
  return (fewer or split) if is_small else (split or fewer)


def _fewer_rows(sampling: generation.Sampling, ratio: float) -> int:
  """Returns a smaller number of rows that may fit; 0 if there is only one."""
  current = sampling.rows or sampling.samples
  if current == 1:
    return 0
  rows = current // 2
  # The current rows need `ratio` times the memory of a device.
  while rows > max(current / ratio, 1):
    rows //= 2
  return rows


def sampled_bytes(model: ModelConfig, tensor: int) -> float:
  """Returns the bytes that parameters take on each device while sampling."""
  # While sampling, only the mesh axis `tensor` splits the parameters. Heads are
  # repeated if need be.
  count = repeated_heads.repeats(model, tensor)
  repeated = repeated_heads.repeat_config(model, count)
  itemsize = np.dtype(model.dtype).itemsize
  return itemsize * presets.parameter_count(repeated) / tensor


def sampling_tensors(e: Experiment) -> list[int]:
  """Returns the sizes that `inference.tensor` may have, in ascending order.

  They divide the number of devices and of MLP channels, split the heads, and
  leave as many devices as divide the prompts of a step and of an evaluation.
  """
  model, prompts = e.model, e.config.rollout.prompts
  prompts = math.gcd(prompts, e.config.evaluation.batch)
  return [
    n
    for n in device_mesh.divisors(math.gcd(e.mesh.size, model.mlp_width))
    if model.heads % math.lcm(model.kv_heads, n) == 0
    and prompts % (e.mesh.size // n) == 0
  ]


def _more_tensor(e: Experiment) -> Changes:
  """Returns the change that doubles the mesh axis `tensor`, or {}."""
  model = e.model
  # The size of the axis must divide the number of devices, of heads and of MLP
  # channels.
  most = math.gcd(e.mesh.size, model.heads, model.kv_heads, model.mlp_width)
  is_allowed = most % (2 * e.mesh.shape["tensor"]) == 0
  return _doubled(e, "tensor", ("data", "fsdp")) if is_allowed else {}


def _doubled(e: Experiment, axis: str, others: Sequence[str]) -> Changes:
  """Returns the change that doubles an axis and halves another one, or {}."""
  mesh = dict(e.mesh.shape)
  # Halves the first of `others` with an even size.
  halved = next((n for n in others if mesh[n] % 2 == 0), None)
  if halved is None:
    return {}
  sizes = mesh | {axis: 2 * mesh[axis], halved: mesh[halved] // 2}
  return {f"mesh.{name}": size for name, size in sizes.items()}
