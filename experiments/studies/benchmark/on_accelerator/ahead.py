"""Compiles the programs of the benchmark `accelerator` for absent chips.

  python -m experiments.studies.benchmark.on_accelerator.ahead
    v5e:2x2 v6e:2x2 h100:1 [--toy]

One device of each topology is the target; `experiments.aot` describes them, and
the packages that they need. A line for each program has its peak memory, and
what is wrong with it:

- it does not compile, or its peak is more than a device has;
- it calls the host, or computes in float64;
- its decoder is set to compute attention by a kernel (cuDNN's or Pallas'), and
  the kernel is not in the program;
- decoding has a float32 array of the shape of a bfloat16 kernel.

The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from experiments.aot import chips, hlo, programs, report, stack
from experiments.cli import arguments, errors
from experiments.studies.benchmark import fused
from experiments.studies.benchmark.on_accelerator import pieces, reference
from experiments.training import iteration, placement
from experiments.training.experiment import Experiment
from models import transformer
from rl import types

# A text of the lowered program, by form of attention (`ModelConfig.attention`).
KERNELS = {"splash": "tpu_custom_call", "cudnn": "cudnn$fmha"}
_HOST = re.compile(r"callback|stablehlo\.(send|recv|infeed|outfeed)")
_FLOAT64 = re.compile(r"\bf64\b|xf64>")
_FLOAT32 = re.compile(r"= f32\[([0-9,]+)\]")


class Program(NamedTuple):
  """One program of a piece."""

  piece: str
  name: str
  lower: Callable[[], jax.stages.Lowered]
  kernel: str = ""  # text that the lowered program must contain
  # Shapes of its bfloat16 weights, if no float32 array may have them.
  weights: types.PyTree = ()


def all_programs(
  setting: pieces.Setting, device: jax.Device
) -> Iterator[Program]:
  """Yields the programs of all pieces, for one device."""
  on_device = SingleDeviceSharding(device)

  def place(tree: types.PyTree) -> types.PyTree:
    return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_device), tree
    )

  product, negate, square, vector = pieces.ceiling_programs(setting)
  square, vector = place((square, vector))
  yield Program("device", "product", lambda: product.lower(square, square))
  yield Program("device", "copy", lambda: negate.lower(vector))
  for update in pieces.updates(setting, device.platform):
    e = update.build(setting, [device])
    yield _program(update.piece, update.name, e, "train_step")
  _, init, samplers = pieces.decoding_programs(setting, [device])
  params = place(jax.eval_shape(init, jax.random.key(0)))
  for batch, sample in samplers.items():
    lower = functools.partial(sample.lower, params)
    yield Program("decoding", f"batch {batch}", lower, weights=params)
  config, ids = reference.CONFIG, jnp.asarray(reference.TOKENS)
  logits = jax.jit(lambda p: transformer.logits(config, p, ids, ids >= 0))
  small_params = place(jax.eval_shape(reference.make_params))
  yield Program("numbers", "logits", lambda: logits.lower(small_params))
  e = pieces.iteration_experiment(setting, [device])
  for name in ("rollout", "train_step"):
    yield _program("iteration", name, e, name)
  steps, prompts = pieces.embedded_task_sizes(setting)
  e = fused.build_experiment(steps, prompts, [device])
  lower = iteration.fused_steps(e).lower
  lower = functools.partial(lower, placement.abstract_state(e))
  yield Program("fused", "fused", lower)
  program, _ = fused.side_by_side_program(e, [device])
  for count in pieces.seed_counts(setting):
    states = jax.tree.map(
      lambda x, count=count: jax.ShapeDtypeStruct((count, *x.shape), x.dtype),
      e.state_shapes,
    )
    lower = functools.partial(program.lower, place(states))
    yield Program("seeds", f"{count} seeds", lower)


def _program(piece: str, name: str, e: Experiment, program: str) -> Program:
  """Returns one of the programs of `experiments.aot`."""
  kernel = KERNELS.get(e.model.attention, "") if program != "rollout" else ""
  lower = programs.lower_functions(e)[program]
  return Program(piece, f"{name} ({e.model.attention})", lower, kernel)


def faults(
  program: Program, chip: chips.Chip, platform: str
) -> tuple[float | None, list[str]]:
  """Compiles a program for a chip; returns its peak memory and its faults.

  The peak is in bytes, or None if the program does not compile.
  """
  lowered = program.lower()
  text = lowered.as_text()
  wrong = []
  if match := _HOST.search(text):
    wrong.append(f"calls the host ({match[0]})")
  if _FLOAT64.search(text):
    wrong.append("computes in float64")
  if program.kernel not in text:
    wrong.append(f"has no {program.kernel}")
  options = {**report.OPTIONS.get(platform, {}), **chip.options}
  try:
    compiled = lowered.compile(compiler_options=options)
  except jax.errors.JaxRuntimeError as error:
    return None, [*wrong, report.reason(str(error))]
  peak = report.peak_bytes(compiled, chip, platform)
  if peak > chip.memory:
    wrong.append(f"needs {peak / chips.GIB:.1f} GiB")
  copies = float32_copies(compiled.as_text(), program.weights)
  return peak, wrong + [f"has float32 weights {shape}" for shape in copies]


def float32_copies(text: str, weights: types.PyTree) -> list[str]:
  """Returns the shapes of bfloat16 weights that also exist in float32.

  Results inside a fused computation do not count, since they are never in
  memory. Weights are stacked by layer or not.
  """
  shapes = set()
  for leaf in jax.tree.leaves(weights):
    if leaf.ndim > 1 and leaf.dtype == jnp.bfloat16:
      # The first axis of a stacked weight is the layer.
      shapes |= {leaf.shape, leaf.shape[1:], (1, *leaf.shape[1:])}
  names = {
    ",".join(map(str, shape)) for shape in shapes if np.prod(shape) >= 2**16
  }
  computations, _ = hlo.computations(text)
  results = {
    shape
    for name, lines in computations.items()
    if "fused" not in name
    for line in lines
    for shape in _FLOAT32.findall(line)
  }
  return sorted(results & names)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  parser = arguments.make_parser(
    "studies.benchmark.on_accelerator.ahead", __doc__.splitlines()[0]
  )
  parser.add_argument("topologies", nargs="+", metavar="v5e:2x2")
  parser.add_argument("--toy", action="store_true", help="small sizes")
  options = parser.parse_args(argv)
  jax.config.update("jax_platforms", "cpu")
  num_wrong = 0
  for topology in options.topologies:
    chip, devices = chips.devices(topology)
    setting = pieces.Setting(options.toy, {}, chip.memory)
    for program in all_programs(setting, devices[0]):
      peak, wrong = faults(program, chip, devices[0].platform)
      size = "" if peak is None else f"{peak / chips.GIB:.2f} GiB"
      num_wrong += bool(wrong)
      verdict = "; ".join(wrong) or "as it should be"
      line = (topology, program.piece, program.name, size, verdict)
      print(" | ".join(line))
  return 1 if num_wrong else 0


if __name__ == "__main__":
  stack.ensure_size()
  sys.exit(main())
