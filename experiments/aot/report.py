"""Memory and time of an experiment's programs, compiled for a machine.

Memory is per device. It is reported for each part of the training state, which
is always in memory, and for each program as a peak: what the compiler reserves
(arguments + results + temporaries, less the results that share memory with
arguments) plus the parts of the state that are not arguments, such as the
optimizer's while sampling. A program fits if it compiles and its peak is within
the device's memory; `peak_bytes` says what is different on a TPU.

The seconds of a step are those of a roofline model: the programs run one after
the other, completions have full length, and each device reaches the makers'
peaks (`chips.Chip`).

  compute  operations of the model on one device / `flops`. A backward pass
           counts as two forward passes; what remat recomputes does not count.
           The score program counts the forward passes of a step that are not
           part of its updates: none with one update per rollout and no
           parameter set (such as a reference policy).
  memory   bytes / `bandwidth`: the weights, keys and values that decoding
           reads, and the weights, gradients and moments of an update. For a
           mixture of experts this is too low, since only the experts of one
           token are counted.
  network  bytes that a device sends in the compiled collectives: those within
           its slice / `link_bandwidth`, those to other slices /
           `network_bandwidth`. This assumes that all links are used at once; a
           ring along one axis of a torus uses only two.

A program takes between the largest of its three figures (if they overlap fully)
and their sum (if nothing overlaps), and a step the sum over its programs. No
run reaches the peaks, so plan with twice that. Evaluations, and updates of
learners other than the policy, are not part of a step here.
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
from experiments.training import placement
from experiments.training.experiment import Experiment
from models import flop_counts, sharding
from models.config import ModelConfig
from rl import method_loss, types
from rl.sampling import generation

Log = Callable[[str], None]  # prints a line of progress
# Reports of compiled programs, by the program's name and the SHA-256 digest of
# its lowered text.
Compiled = MutableMapping[tuple[str, str], dict[str, Any]]
# Compiler options by platform.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
  # Level O0 of XLA compiles faster; the programs are not run.
  "tpu": {"optimization_level": 9},
  # Computes matrix products with the vendor's library: Triton refuses some
  # products of very small decoders, and times its kernels on a device.
  "gpu": {"xla_gpu_enable_triton_gemm": False},
}
# Assumptions of the seconds and flops; part of the report.
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
# The programs, the one that takes longest to compile first.
_LONGEST_FIRST = ("train_step", "rollout", "evaluation", "score")
_STEP = ("rollout", "score", "train_step")  # the programs of a training step
_THREADS = 2  # programs that are compiled at a time, while the next is traced
# GiB that a refused program needs, in the compiler's message.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)G\b")
_MAX_CHARACTERS = 300  # length of a compiler's message that is not about memory


def analyse(
  e: Experiment,
  chip: chips.Chip,
  log: Log,
  compiled: Compiled | None = None,
  *,
  all_programs: bool = True,
) -> dict[str, Any]:
  """Compiles the programs of an experiment and reports their memory and time.

  Args:
    e: experiment whose mesh may consist of devices that are not present.
    chip: speed and memory of one of these devices.
    log: function that prints a line of progress.
    compiled: reports of programs that were compiled for these devices before.
      These are not compiled again, and the reports of new programs are added.
      None means that there are no reports.
    all_programs: whether to compile all programs. If False, and one of the two
      programs that take longest to compile does not fit, the other programs
      are not compiled.

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
  # Back to the order of `functions`.
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
  functions: Mapping[str, programs.Lower],  # lower the programs, by name
  chip: chips.Chip,
  log: Log,
  compiled: Compiled,
) -> dict[str, Any]:
  """Returns the reports of programs; compiles those not in `compiled`."""
  keys, futures = {}, {}
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    for name, lower in functions.items():
      log(f"{name}: tracing")
      lowered = lower()
      text = lowered.as_text().encode()
      keys[name] = name, hashlib.sha256(text).hexdigest()
      if keys[name] not in compiled:
        log(f"{name}: compiling")
        futures[name] = pool.submit(compile_program, e, lowered, name, chip)
    # These reports leave out the state that is not an argument.
    compiled.update(
      {keys[name]: future.result() for name, future in futures.items()}
    )
  results = {
    name: _with_other_state(compiled[key], _other_state_gib(e, name))
    for name, key in keys.items()
  }
  for name, program in results.items():
    log(f"{name}: {_summary(program)}")
  return results


def _with_other_state(
  program: Mapping[str, Any], other_gib: float
) -> dict[str, Any]:
  """Adds the memory of the state that a program does not take to its report."""
  # `other_gib` is in GiB per device. The result has the peak and "fits" for
  # both together. `program` is not modified.
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
  state_bytes = _bytes_per_device(placement.abstract_state(e))
  return max(state_bytes - taken, 0) / chips.GIB


def resident(e: Experiment) -> dict[str, float]:
  """Returns the GiB per device of each part of the state, and of the cache.

  The mesh of the sampler splits the cache of keys and values: prompts over
  `sharding.PROMPT_AXES`, samples over "context" and heads over "tensor". A
  supervised experiment has no cache.
  """
  state, mesh = placement.abstract_state(e), e.sampling_mesh
  shards = sharding.num_prompt_shards(mesh) * mesh.shape["context"]
  heads = math.gcd(e.sampling_model.kv_heads, mesh.shape["tensor"])
  parts = {
    "parameters": _bytes_per_device((state.params, state.carried.frozen)),
    "optimizer": _bytes_per_device(
      [learner.opt_state for learner in state.learners.values()]
    ),
    "parameter_sets": _bytes_per_device(
      [state.parameter_sets]
      + [other.params for n, other in state.learners.items() if n != "policy"]
    ),
  }
  if e.is_rl:
    parts["cache"] = programs.cache_bytes(e) / (shards * heads)
  return {name: size / chips.GIB for name, size in parts.items()}


def explain(e: Experiment) -> str:
  """Returns a table of how the state and the cache are split over devices."""
  axes = ", ".join(f"{name} {size}" for name, size in e.mesh.shape.items())
  table = sharding.sharding_table(placement.abstract_state(e))
  lines = [f"mesh: {axes}", table]
  if e.is_rl:
    cache_bytes = resident(e)["cache"] * chips.GIB
    prompt_axes = "*".join(sharding.PROMPT_AXES)
    lines.append(
      f"while sampling: keys and values, {cache_bytes:,.0f} bytes/device "
      f"(prompts over {prompt_axes}, samples over context, heads over tensor)"
    )
  return "\n".join(lines)


def _bytes_per_device(tree: types.PyTree) -> int:
  """Returns the bytes of a tree of shapes with shardings, on one device."""
  total = 0
  for leaf in jax.tree.leaves(tree):
    shape = leaf.sharding.shard_shape(leaf.shape)
    total += math.prod(shape) * leaf.dtype.itemsize
  return total


def compile_program(
  e: Experiment, lowered: jax.stages.Lowered, name: str, chip: chips.Chip
) -> dict[str, Any]:
  """Compiles a program and returns its report.

  The memory of the state that is not an argument is not included.
  """
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
    options = {**OPTIONS[platform], **chip.options}
    compiled = lowered.compile(compiler_options=options)
  except jax.errors.JaxRuntimeError as error:
    result["reason"] = reason(str(error))
    match = _SIZE.search(result["reason"])
    result["wanted_gib"] = float(match[1]) if match else None
    result["compile_s"] = time.perf_counter() - start
    return result
  samplings = {
    "rollout": e.sampling,
    "evaluation": evaluator.sampling_settings(e),
  }
  memory = compiled.memory_analysis()
  peak = peak_bytes(compiled, chip, platform)
  iterations = _iterations(samplings[name]) if name in samplings else {}
  devices = _mesh(e, name).devices.flat
  slices = [getattr(device, "slice_index", 0) for device in devices]
  sent = hlo.collectives(compiled.as_text(), slices, iterations)
  return result | {
    "fits": True,
    "peak_gib": peak / chips.GIB,
    "wanted_gib": peak / chips.GIB,
    "arguments_gib": memory.argument_size_in_bytes / chips.GIB,
    "temporaries_gib": memory.temp_size_in_bytes / chips.GIB,
    "collectives": {kind: total._asdict() for kind, total in sent.items()},
    "compile_s": time.perf_counter() - start,
  }


def peak_bytes(
  compiled: jax.stages.Compiled, chip: chips.Chip, platform: str
) -> float:
  """Returns the bytes that a program reserves on each device.

  A TPU's compiler refuses a program whose arguments, results and temporaries
  need more than a device has. The memory analysis of a program that it accepts
  may state more, since it counts some arrays that share memory twice, such as a
  sum of gradients in a loop over microbatches (libtpu 0.0.42). The result is
  then what the device has.
  """
  memory = compiled.memory_analysis()
  # Results that share memory with arguments are counted once.
  outputs = memory.output_size_in_bytes - memory.alias_size_in_bytes
  peak = memory.argument_size_in_bytes + outputs + memory.temp_size_in_bytes
  return min(peak, chip.memory) if platform == "tpu" else peak


def _mesh(e: Experiment, name: str) -> Mesh:
  """Returns the mesh of the devices that run a program."""
  evaluation_mesh = placement.evaluation_mesh(e)
  meshes = {"rollout": e.sampling_mesh, "evaluation": evaluation_mesh}
  return meshes.get(name, e.mesh)


def _iterations(sampling: generation.Sampling) -> dict[int | None, int]:
  """Returns the iterations of the decoding loops, for `hlo.collectives`."""
  # Sampling is a sequence of loops over tokens, each with a larger cache. The
  # bound of a loop is the capacity of its cache, and its first token is the one
  # after the last of the previous loop.
  capacities = generation.cache_capacities(sampling.max_tokens)
  iterations = {
    capacity: capacity - previous
    for previous, capacity in zip((0, *capacities), capacities, strict=False)
  }
  # If there are fewer rows than samples, a row that has finished starts the
  # next sample in the last loop. Each round decodes one sample per row.
  rounds = -(-sampling.samples // (sampling.rows or sampling.samples))
  iterations[capacities[-1]] += (rounds - 1) * sampling.max_tokens
  return iterations | {None: iterations[capacities[-1]]}


def reason(error: str) -> str:
  """Returns why a program does not fit or compile, from the compiler's message.

  A message about memory is cut before its list of the largest buffers.
  """
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
  program: Mapping[str, Any],  # its report, with the collectives
) -> dict[str, float]:
  """Returns the seconds of a program for compute, memory and network."""
  cost = _cost(e, name)
  if name == "score":  # memory and network count in the train step only
    return {"compute": cost.flops / chip.flops, "memory": 0.0, "network": 0.0}
  sent = program["collectives"].values()
  inside = sum(kind["wire"] for kind in sent) / chip.link_bandwidth
  outward = sum(kind["outward"] for kind in sent) / chip.network_bandwidth
  return {
    "compute": cost.flops / chip.flops,
    "memory": cost.bytes / chip.bandwidth,
    "network": inside + outward,
  }


def _cost(e: Experiment, name: str) -> flop_counts.Cost:
  """Returns the cost of a program on a device, for full-length completions."""
  model: ModelConfig = e.sampling_model if name == "rollout" else e.model
  tokens = programs.policy_rollout(e.placed_rollout).tokens
  P, S, T = tokens.completions.shape  # prompts, samples, tokens
  prompt_length = tokens.prompts.shape[-1]
  mesh = _mesh(e, name)
  shards, context = sharding.num_prompt_shards(mesh), mesh.shape["context"]
  tensor = mesh.shape["tensor"]
  # Lengths of a device's samples, [P / shards, S / context]. Score and train
  # step split tokens and not samples over "context", which gives a device the
  # same number of tokens.
  lengths = np.full((P // shards, max(S // context, 1)), T)
  if name == "rollout":
    itemsize = np.dtype(model.dtype).itemsize
    rows = max((e.sampling.rows or S) // context, 1)
    flops, moved_bytes = flop_counts.decode_cost(
      model, prompt_length, lengths, itemsize, rows
    )
    return flop_counts.Cost(flops / tensor, moved_bytes / tensor)
  if name == "score":
    flops = flop_counts.scored(model, prompt_length, lengths) / tensor
    return flop_counts.Cost(len(_passes(e)) * flops, 0.0)
  flops, moved_bytes = flop_counts.update_cost(model, prompt_length, lengths)
  # The mesh axes that split parameters and moments; "data" copies them.
  num_parts = tensor * context * mesh.shape["fsdp"]
  return flop_counts.Cost(
    e.plan.epochs * flops / tensor, e.plan.updates * moved_bytes / num_parts
  )


def _passes(e: Experiment) -> set[tuple[str, str]]:
  """Returns the forward passes of a step that are not part of its updates."""
  needs = method_loss.required(e.method, e.plan.updates)
  sources = {"old", *placement.abstract_state(e).parameter_sets}
  # Each pass is a pair of the parameters that compute it ("old" or a parameter
  # set) and the view, that is the text that it reads.
  return {(n.source, n.view) for n in needs if n.source in sources}


def _summary(program: Mapping[str, Any]) -> str:
  """Returns one line of text about a program's report."""
  if program["peak_gib"] is None:
    return f"does not fit: {program['reason']}"
  verdict = "fits" if program["fits"] else "does not fit"
  return (
    f"{verdict}, {program['peak_gib']:.2f} of {program['hbm_gib']:.2f} GiB, "
    f"compiled in {program['compile_s']:.0f} s"
  )
