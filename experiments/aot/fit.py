"""What to change where a program does not fit, tried by compiling again.

One change at a time, in this order, as far as the compiler's figure asks for:
split the state over all devices; keep less of the forward pass; train on fewer
prompts at a time; split the tokens of a sequence, then heads and channels, over
more devices, which leaves each more prompts to be trained on in turn. While
sampling: fewer rows at once, heads over more devices; of held-out problems fewer
rows at once, and fewer problems.
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
from experiments.training import device_mesh, validate
from experiments.training.experiment import Experiment
from models import presets, sharding
from rl.sampling import generation

Changes = dict[str, Any]
_MOST = 12  # changes, one after the other


def search(
  config: ml_collections.ConfigDict,
  devices: Sequence[jax.Device],
  chip: chips.Chip,
  tell: report.Tell,
  known: report.Known | None = None,
) -> tuple[Changes, dict[str, Any]]:
  """Changes with which all programs fit, and what is then found.

  Args:
    config: of the experiment; it stays as it is.
    devices, chip: as of `chips.devices`.
    tell: where progress goes.
    known: of `report.analyse`.

  Returns:
    `{key of the config: value}`, and the report of the last attempt, which does
    not fit where no change is left.
  """
  config = config.copy_and_resolve_references()
  made: Changes = {}
  known = {} if known is None else known
  for left in range(_MOST, -1, -1):
    e = validate.check_and_build(config, devices=devices, memory=chip.memory)
    found = report.analyse(e, chip, tell, known, whole=False)
    following = change(e, found)
    if not following or not left:
      # Of what does not fit, the other programs are missing.
      if not found["fits"]:
        found = report.analyse(e, chip, tell, known)
      break
    tell("try " + " ".join(flags(following)))
    made |= following
    config.update_from_flattened_dict(following)
  return made, found


def flags(changes: Mapping[str, Any]) -> list[str]:
  """As they are written on the command line."""
  return [f"--config.{key}={value}" for key, value in changes.items()]


def change(e: Experiment, found: Mapping[str, Any]) -> Changes:
  """The next thing to try; nothing where all fits, or nothing is left.

  Args:
    e: the experiment.
    found: of `report.analyse`.
  """
  failed = {n for n, one in found["programs"].items() if not one["fits"]}
  if not failed:
    return {}
  hbm = next(iter(found["programs"].values()))["hbm_gib"]
  kept = {k: n for k, n in found["resident_gib"].items() if k != "cache"}
  mesh = dict(e.mesh.shape)
  if sum(kept.values()) > hbm / 2 and mesh["data"] > 1:
    return {"mesh.data": 1, "mesh.fsdp": mesh["fsdp"] * mesh["data"]}
  over = {
    name: (found["programs"][name]["wanted_gib"] or hbm) / hbm
    for name in failed
  }
  sampling, evaluation = over.pop("rollout", 0), over.pop("evaluation", 0)
  return (
    (_training(e, max(over.values())) if over else {})
    or (_sampling(e, hbm, sampling) if sampling else {})
    or (_evaluation(e, hbm, evaluation) if evaluation else {})
  )


def _training(e: Experiment, over: float) -> Changes:
  """For programs of which one wants `over` times the memory."""
  if e.model.remat != "full":
    return {"model.remat": "full"}
  prompts = e.config.rollout.prompts // e.plan.minibatches
  most = prompts // sharding.num_prompt_shards(e.mesh)
  now = e.plan.microbatches
  more = [n for n in device_mesh.divisors(most) if n > now]
  if more:
    # What there is besides does not shrink: fewer would not do.
    enough = (n for n in more if n >= now * over)
    return {"plan.microbatches": next(enough, more[-1])}
  context = 2 * e.mesh.shape["context"]
  divides = e.sampling.samples % context == 0
  if e.config.model.attention in (None, "blocked") and divides:
    split = _doubled(e, "context")
    if split:
      return split
  return _more_tensor(e)


def _sampling(e: Experiment, hbm: float, over: float) -> Changes:
  """Fewer rows, unless the parameters alone take too much."""
  if e.sampling_mesh != e.mesh:
    return {}
  copy = sampled_bytes(e, e.mesh.shape["tensor"])
  rows = _fewer(e.sampling, over)
  if rows and copy < hbm * chips.GIB / 2:
    return {"rollout.rows": rows}
  return _more_tensor(e)


def _evaluation(e: Experiment, hbm: float, over: float) -> Changes:
  """Fewer rows, then fewer problems, unless the parameters take too much."""
  parts, batch = sharding.num_prompt_shards(e.mesh), e.config.evaluation.batch
  copy = sampled_bytes(e, e.mesh.shape["tensor"])
  if copy < hbm * chips.GIB / 2:
    rows = _fewer(evaluator.sampling_settings(e), over)
    if rows:
      return {"evaluation.rows": rows}
    if batch > parts:
      fewer = (n for n in device_mesh.divisors(batch // parts) if n > 1)
      return {"evaluation.batch": batch // next(fewer)}
  return _more_tensor(e)


def _fewer(sampling: generation.Sampling, over: float) -> int:
  """Rows that may fit where these want `over` times the memory; 0: none."""
  now = sampling.rows or sampling.samples
  if now == 1:
    return 0
  rows = now // 2
  while rows > max(now / over, 1):  # more would not do
    rows //= 2
  return rows


def sampled_bytes(e: Experiment, tensor: int) -> float:
  """The parameters on each device while sampling, which only `tensor` splits."""
  return (
    np.dtype(e.model.dtype).itemsize * presets.parameter_count(e.model) / tensor
  )


def most_tensor(e: Experiment) -> int:
  """The largest `tensor` that these devices and the model's sizes allow."""
  model = e.model
  return math.gcd(e.mesh.size, model.heads, model.kv_heads, model.mlp_width)


def _more_tensor(e: Experiment) -> Changes:
  more = most_tensor(e) % (2 * e.mesh.shape["tensor"]) == 0
  return _doubled(e, "tensor") if more else {}


def _doubled(e: Experiment, axis: str) -> Changes:
  """The mesh with twice as much of an axis, and half of data or of fsdp."""
  mesh = dict(e.mesh.shape)
  other = next((n for n in ("data", "fsdp") if mesh[n] % 2 == 0), None)
  if other is None:
    return {}
  sizes = mesh | {axis: 2 * mesh[axis], other: mesh[other] // 2}
  return {f"mesh.{name}": size for name, size in sizes.items()}
