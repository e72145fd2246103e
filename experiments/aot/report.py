"""Memory and time of an experiment's programs, compiled for a machine.

Memory is per device: the state that lies there always, by part, and the peak of
each program. The peak is what the compiler reserves (arguments + results +
temporaries, less the results that share memory with arguments) and the parts of
the state that are not arguments, such as the optimizer's while sampling. A
program fits if it compiles and its peak is within the device's memory.

The seconds of a step are those of a roofline: one program after the other, with
completions of full length, at the makers' peak figures.

  compute  model operations / devices / peak. A backward pass counts as two
           forward passes; what remat recomputes does not count. For the score
           program, the forward passes that a step makes besides its updates:
           none with one update per rollout and no parameter set.
  memory   bytes / bandwidth: the weights, keys and values that decoding reads,
           and the weights, gradients and moments of an update. The figure of a
           mixture of experts is too low, since only the experts of one token
           are counted.
  network  bytes that a device sends in the compiled collectives / its links;
           bytes to other slices / its share of the hosts' network. All links
           are used at once; a ring along one axis of a torus uses only two.

A step takes between the largest of the three of each program (if they overlap
fully) and their sum (if nothing overlaps). No run reaches the peaks, so plan
with twice that. Evaluations, and updates of learners other than the policy, are
not part of it.
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

Log = Callable[[str], None]  # prints a line of progress
# Reports of compiled programs, by name and digest of the lowered text.
Compiled = MutableMapping[tuple[str, str], dict[str, Any]]
# Compiler options by platform.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
  # Compiles faster; the programs are not run.
  "tpu": {"exec_time_optimization_effort": -1.0},
  # Matrix products by the vendor's library: Triton refuses some of those of
  # very small decoders, and chooses its kernels by timing them on a device.
  "gpu": {"xla_gpu_enable_triton_gemm": False},
}
# What the seconds and flops assume, for readers of the JSON.
ASSUMPTIONS = (
  "peaks are the makers' figures; none was measured, and no run reaches them",
  "every completion has its full length",
  "flops are the model's, for one device and step: a backward pass counts as "
  "two forward passes, and what remat recomputes does not count",
  "a program takes between the largest of compute, memory and network (they "
  "overlap fully) and their sum (nothing overlaps)",
  "a device uses all its links at once",
  "scores on the host and evaluations are not part of a step",
)
# The programs that take longest to compile come first.
_LONGEST_FIRST = ("train_step", "rollout", "evaluation", "score")
_STEP = ("rollout", "score", "train_step")  # the programs of a training step
_THREADS = 2  # programs that are compiled at a time, while the next is traced
# The memory that a refused program needs, in the compiler's message.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)G\b")
_MAX_CHARACTERS = 300  # of a message that is not about memory


def analyse(
  e: Experiment,
  chip: chips.Chip,
  log: Log,
  compiled: Compiled | None = None,
  *,
  all_programs: bool = True,
) -> dict[str, Any]:
  """Compiles the programs of an experiment and reports what they need.

  Args:
    e: experiment whose mesh may consist of devices that are not present.
    chip: figures of one of these devices.
    log: function that prints a line of progress.
    compiled: reports of programs that were compiled for these devices before,
      which are not compiled again; new ones are added.
    all_programs: whether to compile all programs; otherwise stops after the
      first two if one of them does not fit.

  Returns:
    The report, whose values can be written as JSON.
  """
  compiled = {} if compiled is None else compiled
  functions = programs.lower_functions(e)
  names = sorted(functions, key=_LONGEST_FIRST.index)
  results: dict[str, Any] = {}
  for group in [names] if all_programs else [names[:2], names[2:]]:
    if all(program["fits"] for program in results.values()):
      group_functions = {name: functions[name] for name in group}
      results |= _compile_all(e, group_functions, chip, log, compiled)
  # In the order of the programs.
  results = {name: results[name] for name in functions if name in results}
  seconds = {
    name: _seconds(e, chip, name, results[name])
    for name in results
    if name in _STEP
  }
  report = {
    "devices": e.mesh.devices.size,
    "mesh": dict(e.mesh.shape),
    "resident_gib": resident(e),
    "programs": results,
    "seconds": seconds,
    "flops": {name: _cost(e, name).flops for name in seconds},
    "assumptions": ASSUMPTIONS,
    "fits": all(program["fits"] for program in results.values()),
  }
  shortest = sum(max(parts.values()) for parts in seconds.values())
  longest = sum(sum(parts.values()) for parts in seconds.values())
  tokens = e.config.rollout.prompts * e.sampling.samples * e.sampling.max_tokens
  report["step_seconds"] = [shortest, longest]
  report["tokens_per_second"] = [tokens / longest, tokens / shortest]
  return report


def _compile_all(
  e: Experiment,
  functions: Mapping[str, programs.Lower],
  chip: chips.Chip,
  log: Log,
  compiled: Compiled,
) -> dict[str, Any]:
  """Returns the reports of some programs, and compiles the missing ones."""
  keys, futures = {}, {}
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    for name, lower in functions.items():
      log(f"{name}: tracing")
      lowered = lower()
      text = lowered.as_text().encode()
      keys[name] = name, hashlib.sha256(text).hexdigest()
      if keys[name] not in compiled:
        log(f"{name}: compiling")
        futures[name] = pool.submit(_compile, e, lowered, name, chip)
    compiled.update(
      {keys[name]: future.result() for name, future in futures.items()}
    )
  results = {
    name: _with_other_state(compiled[key], _other_state_gib(e, name))
    for name, key in keys.items()
  }
  for name, program in results.items():
    log(f"{name}: {_line(program)}")
  return results


def _with_other_state(
  program: Mapping[str, Any], other_gib: float
) -> dict[str, Any]:
  """Returns a program's report with the memory of the state beside it."""
  result = dict(program) | {"beside_gib": other_gib}
  for name in ("peak_gib", "wanted_gib"):
    if result[name] is not None:
      result[name] += other_gib
  if result["peak_gib"] is None:  # the compiler refused it
    return result
  if result["peak_gib"] > result["hbm_gib"]:
    result["fits"] = False
    result["reason"] = (
      f"needs {result['peak_gib']:.1f} of {result['hbm_gib']:.1f} GiB"
    )
    if other_gib:
      result["reason"] += (
        f", {other_gib:.1f} of it for state that the program does not use"
      )
  return result


def _other_state_gib(e: Experiment, name: str) -> float:
  """Returns the GiB per device of the state that a program does not take."""
  taken = _bytes_per_device(programs.state_arguments(e, name))
  return max(_bytes_per_device(e.abstract) - taken, 0) / chips.GIB


def resident(e: Experiment) -> dict[str, float]:
  """Returns the GiB per device of each part of the state, and of the cache.

  The cache of keys and values is split over the sampler's mesh as prompts,
  samples and heads are.
  """
  state, mesh = e.abstract, e.sampling_mesh
  shards = sharding.num_prompt_shards(mesh) * mesh.shape["context"]
  heads = math.gcd(e.model.kv_heads, mesh.shape["tensor"])
  parts = {
    "parameters": _bytes_per_device((state.params, state.frozen)),
    "optimizer": _bytes_per_device(
      (state.opt_state, [one.opt_state for one in state.learners.values()])
    ),
    "parameter_sets": _bytes_per_device(state.parameter_sets),
  }
  if e.is_rl:
    parts["cache"] = programs.cache_bytes(e) / (shards * heads)
  return {name: size / chips.GIB for name, size in parts.items()}


def explain(e: Experiment) -> str:
  """Returns a table of how the state and the cache are split over devices."""
  axes = ", ".join(f"{name} {size}" for name, size in e.mesh.shape.items())
  lines = [f"mesh: {axes}", sharding.sharding_table(e.abstract)]
  if e.is_rl:
    size = resident(e)["cache"] * chips.GIB
    lines.append(
      f"while sampling: keys and values, {size:,.0f} bytes/device (prompts "
      f"over {'*'.join(sharding.PROMPT_AXES)}, samples over context, heads over "
      "tensor)"
    )
  return "\n".join(lines)


def _bytes_per_device(tree: types.PyTree) -> int:
  total = 0
  for leaf in jax.tree.leaves(tree):
    shape = leaf.sharding.shard_shape(leaf.shape)
    total += math.prod(shape) * leaf.dtype.itemsize
  return total


def _compile(
  e: Experiment, lowered: jax.stages.Lowered, name: str, chip: chips.Chip
) -> dict[str, Any]:
  """Compiles a program and returns its report, without the state beside it."""
  start = time.perf_counter()
  result = {
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
    result["reason"] = _reason(str(error))
    size = _SIZE.search(result["reason"])
    result["wanted_gib"] = float(size[1]) if size else None
    result["compile_s"] = time.perf_counter() - start
    return result
  samplings = {
    "rollout": e.sampling,
    "evaluation": evaluator.sampling_settings(e),
  }
  memory = compiled.memory_analysis()
  arguments = memory.argument_size_in_bytes
  # Results that share memory with arguments are counted once.
  outputs = memory.output_size_in_bytes - memory.alias_size_in_bytes
  peak = arguments + outputs + memory.temp_size_in_bytes
  iterations = _iterations(samplings[name]) if name in samplings else {}
  devices = _mesh(e, name).devices.flat
  slices = [getattr(device, "slice_index", 0) for device in devices]
  sent = hlo.collectives(compiled.as_text(), slices, iterations)
  return result | {
    "fits": True,
    "peak_gib": peak / chips.GIB,
    "wanted_gib": peak / chips.GIB,
    "arguments_gib": arguments / chips.GIB,
    "temporaries_gib": memory.temp_size_in_bytes / chips.GIB,
    "collectives": {kind: one._asdict() for kind, one in sent.items()},
    "compile_s": time.perf_counter() - start,
  }


def _mesh(e: Experiment, name: str) -> Mesh:
  """Returns the mesh of the devices that run a program."""
  return e.sampling_mesh if name == "rollout" else e.mesh


def _iterations(sampling: generation.Sampling) -> dict[int | None, int]:
  """Returns the iterations of the decoding loops, by their bound.

  The cache grows from loop to loop. The bound of a loop is the size of its
  cache, and it starts where the loop before it stopped.
  """
  sizes = generation.cache_capacities(sampling.max_tokens)
  iterations = {
    size: size - previous
    for previous, size in zip((0, *sizes), sizes, strict=False)
  }
  # Rows that finish start the next sample in the last loop, in rounds.
  rounds = -(-sampling.samples // (sampling.rows or sampling.samples))
  iterations[sizes[-1]] += (rounds - 1) * sampling.max_tokens
  return iterations | {None: iterations[sizes[-1]]}


def _reason(error: str) -> str:
  """Returns the compiler's message, up to its list of the largest buffers."""
  text = error.partition("RESOURCE_EXHAUSTED:")[2]
  if not text:
    return "it does not compile: " + " ".join(error.split())[:_MAX_CHARACTERS]
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  message = []
  for line in lines:
    if line.startswith(("Largest program", "Program hbm", "===")):
      break
    message.append(line)
  return " ".join(message or lines[:1])


def _seconds(
  e: Experiment,
  chip: chips.Chip,
  name: str,
  program: Mapping[str, Any],
) -> dict[str, float]:
  """Returns the seconds of a program for compute, memory and network."""
  cost = _cost(e, name)
  if name == "score":  # its bytes are part of the train step
    return {"compute": cost.flops / chip.flops, "memory": 0.0, "network": 0.0}
  sent = program["collectives"].values()
  inside = sum(one["wire"] for one in sent) / chip.link_bandwidth
  outward = sum(one["outward"] for one in sent) / chip.network_bandwidth
  return {
    "compute": cost.flops / chip.flops,
    "memory": cost.bytes / chip.bandwidth,
    "network": inside + outward,
  }


def _cost(e: Experiment, name: str) -> flop_counts.Cost:
  """Returns the cost of a program on one device, at full length."""
  model: ModelConfig = e.model
  tokens = programs.policy_rollout(programs.placed_rollout(e)).tokens
  P, S, T = tokens.completions.shape
  length = tokens.prompts.shape[-1]
  mesh = _mesh(e, name)
  shards, context = sharding.num_prompt_shards(mesh), mesh.shape["context"]
  tensor = mesh.shape["tensor"]
  # Lengths of a device's samples, [prompts, samples]. A score pass splits
  # tokens and not samples over `context`: as many tokens per device.
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
  # Mesh axes that split parameters and moments; `data` copies them.
  parts = tensor * context * mesh.shape["fsdp"]
  return flop_counts.Cost(
    e.plan.epochs * flops / tensor, e.plan.updates * moved / parts
  )


def _passes(e: Experiment) -> set[tuple[str, str]]:
  """Returns the forward passes of a step besides those of its updates."""
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
