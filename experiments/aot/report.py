"""Compiles the programs of an experiment for a machine, and says what they need.

Per device, in bytes: what lies there always, by part; and of each program its
peak: what the compiler reserves, `arguments + results + temporaries` less what
results share with arguments, and the parts of the state that lie there meanwhile
and are no arguments (while sampling, the optimiser's). A program fits where the
compiler made it and that is no more than the device has.

Seconds of a step are those of a roofline, one program after the other, at the
full length of every completion and the makers' peaks:

  compute  model operations (a backward pass is two forward ones; what remat
           computes again is not counted) / devices / peak; of the score the
           passes that a step makes, none where it has one update and no slot;
           all else of them is part of the train step
  memory   weights, keys and values that decoding reads, and an update's
           weights, gradients and moments / bandwidth
  network  bytes that a device sends in the collectives that were compiled / its
           links, and / its part of the hosts' network what goes to other
           slices; nothing hidden behind work, and all links at once, of which a
           ring along one axis of a torus has two

Evaluations and updates of learners besides the policy are not in it. Of mixtures
memory is too low: of the weights those of the experts of one token are counted.

The step lies between the largest of the three of each program (all hidden) and
their sum (nothing hidden). A peak is never reached, so plan with twice that.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from experiments.aot import chips, hlo, programs
from experiments.evaluation import evaluator
from experiments.studies import flop_counts
from experiments.training.experiment import Experiment
from models import sharding
from models.config import ModelConfig
from rl import prepare, types
from rl.sampling import generation

Tell = Callable[[str], None]
# What was compiled, by its name and a digest of its text.
Known = MutableMapping[tuple[str, str], dict[str, Any]]
# By platform. On TPUs compile sooner: the programs are not to be run. On GPUs
# matmuls are the vendor's: Triton's refuse some of very small decoders, and are
# chosen by timing, on a device that is there.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
  "tpu": {"exec_time_optimization_effort": -1.0},
  "gpu": {"xla_gpu_enable_triton_gemm": False},
}
# Of seconds and flops, for those who read no more than the JSON.
ASSUMPTIONS = (
  "peaks are the makers' figures; none was measured, and no run reaches them",
  "every completion has its full length",
  "flops are the model's, of one device and step: a backward pass counts as two "
  "forward ones, and what remat computes again does not count",
  "a program takes from the largest of compute, memory and network (all that can "
  "hide is hidden) to their sum (nothing is)",
  "a device uses all its links at once",
  "hosts' scores and evaluations are not in a step",
)
_LONGEST_FIRST = ("train_step", "rollout", "evaluation", "score")
_STEP = ("rollout", "score", "train_step")  # what a step is made of
_AT_ONCE = 2  # compiled, each on a core, while the next is traced
# In the compiler's words: of what a program wants, at least.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)G\b")
_LONGEST = 300  # characters of a reason that is not about memory


def analyse(
  e: Experiment,
  chip: chips.Chip,
  tell: Tell,
  known: Known | None = None,
  *,
  whole: bool = True,
) -> dict[str, Any]:
  """The report, as JSON values.

  Args:
    e: its mesh on devices that need not be there.
    chip: what one of them can do.
    tell: where progress goes.
    known: programs of other experiments on these devices, of which none is
      compiled again; what is compiled is added.
    whole: whether all programs are compiled, or none after two of which one
      does not fit.
  """
  known = {} if known is None else known
  lowers = programs.of(e)
  names = sorted(lowers, key=_LONGEST_FIRST.index)
  found: dict[str, Any] = {}
  for some in [names] if whole else [names[:2], names[2:]]:
    if all(program["fits"] for program in found.values()):
      found |= _programs(e, {n: lowers[n] for n in some}, chip, tell, known)
  found = {name: found[name] for name in lowers if name in found}
  seconds = {
    name: _seconds(e, chip, name, found[name])
    for name in found
    if name in _STEP
  }
  report = {
    "devices": e.mesh.devices.size,
    "mesh": dict(e.mesh.shape),
    "resident_gib": resident(e),
    "programs": found,
    "seconds": seconds,
    "flops": {name: _cost(e, name).flops for name in seconds},
    "assumptions": ASSUMPTIONS,
    "fits": all(program["fits"] for program in found.values()),
  }
  least = sum(max(parts.values()) for parts in seconds.values())
  most = sum(sum(parts.values()) for parts in seconds.values())
  tokens = e.config.rollout.prompts * e.sampling.samples * e.sampling.max_tokens
  report["step_seconds"] = [least, most]
  report["tokens_per_second"] = [tokens / most, tokens / least]
  return report


def _programs(
  e: Experiment,
  lowers: Mapping[str, programs.Lower],
  chip: chips.Chip,
  tell: Tell,
  known: Known,
) -> dict[str, Any]:
  """What some need; two are compiled at a time."""
  keys, started = {}, {}
  with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
    for name, lower in lowers.items():
      tell(f"{name}: tracing")
      lowered = lower()
      text = lowered.as_text().encode()
      keys[name] = name, hashlib.sha256(text).hexdigest()
      if keys[name] not in known:
        tell(f"{name}: compiling")
        started[name] = pool.submit(_compiled, e, lowered, name, chip)
    known.update({keys[name]: one.result() for name, one in started.items()})
  found = {n: _with(known[key], _beside(e, n)) for n, key in keys.items()}
  for name, program in found.items():
    tell(f"{name}: {_line(program)}")
  return found


def _with(program: Mapping[str, Any], beside: float) -> dict[str, Any]:
  """A program among what lies on its devices meanwhile, of so many GiB."""
  found = dict(program) | {"beside_gib": beside}
  for name in ("peak_gib", "wanted_gib"):
    if found[name] is not None:
      found[name] += beside
  if found["peak_gib"] is None:
    return found
  if found["peak_gib"] > found["hbm_gib"]:
    found["fits"] = False
    found["reason"] = (
      f"needs {found['peak_gib']:.1f} of {found['hbm_gib']:.1f} GiB"
    )
    if beside:
      found["reason"] += f", {beside:.1f} of it for state that lies there"
  return found


def _beside(e: Experiment, name: str) -> float:
  """GiB a device of the state that a program is not given."""
  given = _bytes(programs.read(e, name))
  return max(_bytes(e.abstract) - given, 0) / chips.GIB


def resident(e: Experiment) -> dict[str, float]:
  """GiB a device of each part of the state, and of the keys and values.

  The latter as if split over the mesh as prompts, samples and heads are.
  """
  state, mesh = e.abstract, e.sampling_mesh
  shards = sharding.num_prompt_shards(mesh) * mesh.shape["context"]
  heads = math.gcd(e.model.kv_heads, mesh.shape["tensor"])
  parts = {
    "parameters": _bytes((state.params, state.frozen)),
    "optimizer": _bytes(
      (state.opt_state, [held.opt_state for held in state.learners.values()])
    ),
    "slots": _bytes(state.parameter_sets),
  }
  if e.is_rl:
    parts["cache"] = programs.cache_bytes(e) / (shards * heads)
  return {name: size / chips.GIB for name, size in parts.items()}


def explain(e: Experiment) -> str:
  """Where each array of the state lies, and the keys and values: a table."""
  axes = ", ".join(f"{name} {size}" for name, size in e.mesh.shape.items())
  lines = [f"mesh: {axes}", sharding.sharding_table(e.abstract)]
  if e.is_rl:
    size = resident(e)["cache"] * chips.GIB
    lines.append(
      f"while sampling: keys and values, {size:,.0f} bytes/device (prompts over "
      f"{'*'.join(sharding.PROMPT_AXES)}, samples over context, heads over tensor)"
    )
  return "\n".join(lines)


def _bytes(tree: types.PyTree) -> int:
  """On one device."""
  total = 0
  for leaf in jax.tree.leaves(tree):
    shape = leaf.sharding.shard_shape(leaf.shape)
    total += math.prod(shape) * leaf.dtype.itemsize
  return total


def _compiled(
  e: Experiment, lowered: jax.stages.Lowered, name: str, chip: chips.Chip
) -> dict[str, Any]:
  start = time.perf_counter()
  found = {
    "fits": False,
    "peak_gib": None,
    "hbm_gib": chip.memory / chips.GIB,
    "reason": "",
    "wanted_gib": None,
    "collectives": {},
  }
  try:
    platform = e.mesh.devices.flat[0].platform
    options = {**_OPTIONS[platform], **chip.options}
    compiled = lowered.compile(compiler_options=options)
  except jax.errors.JaxRuntimeError as error:
    found["reason"] = _reason(str(error))
    size = _SIZE.search(found["reason"])
    found["wanted_gib"] = float(size[1]) if size else None
    found["compile_s"] = time.perf_counter() - start
    return found
  draws = {"rollout": e.sampling, "evaluation": evaluator.sampling_settings(e)}
  memory = compiled.memory_analysis()
  arguments, outputs = (
    memory.argument_size_in_bytes,
    memory.output_size_in_bytes - memory.alias_size_in_bytes,
  )
  peak = arguments + outputs + memory.temp_size_in_bytes
  turns = _turns(draws[name]) if name in draws else {}
  devices = _mesh(e, name).devices.flat
  slices = [getattr(device, "slice_index", 0) for device in devices]
  sent = hlo.collectives(compiled.as_text(), slices, turns)
  return found | {
    "fits": True,
    "peak_gib": peak / chips.GIB,
    "wanted_gib": peak / chips.GIB,
    "arguments_gib": arguments / chips.GIB,
    "temporaries_gib": memory.temp_size_in_bytes / chips.GIB,
    "collectives": {kind: one._asdict() for kind, one in sent.items()},
    "compile_s": time.perf_counter() - start,
  }


def _mesh(e: Experiment, name: str) -> Mesh:
  """Of the devices that run a program."""
  return e.sampling_mesh if name == "rollout" else e.mesh


def _turns(sampling: generation.Sampling) -> dict[int | None, int]:
  """Of the decoding loops, one after the other while the cache grows."""
  rooms = generation.rooms(sampling.max_tokens)
  turns = {
    room: room - before
    for before, room in zip((0, *rooms), rooms, strict=False)
  }
  # Fewer rows than samples go on with the next ones, once the rings are whole.
  rounds = -(-sampling.samples // (sampling.rows or sampling.samples))
  turns[rooms[-1]] += (rounds - 1) * sampling.max_tokens
  return turns | {None: turns[rooms[-1]]}


def _reason(error: str) -> str:
  """The compiler's own words, up to its list of the largest buffers."""
  text = error.partition("RESOURCE_EXHAUSTED:")[2]
  if not text:
    return "it does not compile: " + " ".join(error.split())[:_LONGEST]
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  kept = []
  for line in lines:
    if line.startswith(("Largest program", "Program hbm", "===")):
      break
    kept.append(line)
  return " ".join(kept or lines[:1])


def _seconds(
  e: Experiment,
  chip: chips.Chip,
  name: str,
  program: Mapping[str, Any],
) -> dict[str, float]:
  """Of a program: compute, memory, network."""
  cost = _cost(e, name)
  if name == "score":  # what it sends and reads is part of the train step
    return {"compute": cost.flops / chip.flops, "memory": 0.0, "network": 0.0}
  sent = program["collectives"].values()
  inside = sum(one["wire"] for one in sent) / chip.links
  outward = sum(one["outward"] for one in sent) / chip.outward
  return {
    "compute": cost.flops / chip.flops,
    "memory": cost.bytes / chip.bandwidth,
    "network": inside + outward,
  }


def _cost(e: Experiment, name: str) -> flop_counts.Cost:
  """Of one device, at full length; the score is part of the step's."""
  model: ModelConfig = e.model
  tokens = programs.own(programs.placed_rollout(e)).tokens
  P, S, T = tokens.completions.shape
  length = tokens.prompts.shape[-1]
  mesh = _mesh(e, name)
  shards, context = sharding.num_prompt_shards(mesh), mesh.shape["context"]
  tensor = mesh.shape["tensor"]
  # A device's samples; of a score pass its tokens of all samples are as many.
  share = np.full((P // shards, max(S // context, 1)), T)
  if name == "rollout":
    width = np.dtype(model.dtype).itemsize
    rows = max((e.sampling.rows or S) // context, 1)
    flops, moved = flop_counts.decode_cost(model, length, share, width, rows)
    return flop_counts.Cost(flops / tensor, moved / tensor)
  if name == "score":
    passes = len(_passes(e))
    flops = passes * flop_counts.scored(model, length, share) / tensor
    return flop_counts.Cost(flops, 0.0)
  flops, moved = flop_counts.update_cost(model, length, share)
  held = tensor * context * mesh.shape["fsdp"]  # over data it is a copy
  return flop_counts.Cost(
    e.plan.epochs * flops / tensor, e.plan.updates * moved / held
  )


def _passes(e: Experiment) -> set[tuple[str, str]]:
  """The forward passes of a step besides those of its updates."""
  needs = prepare.required(e.method, e.plan.updates)
  sources = {"old", *e.abstract.parameter_sets}
  return {(n.source, n.view) for n in needs if n.source in sources}


def _line(program: Mapping[str, Any]) -> str:
  if program["peak_gib"] is None:
    return f"does not fit: {program['reason']}"
  verdict = "fits" if program["fits"] else "does not fit"
  return (
    f"{verdict}, {program['peak_gib']:.2f} of {program['hbm_gib']:.2f} GiB, "
    f"compiled in {program['compile_s']:.0f} s"
  )
