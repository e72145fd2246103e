"""Makes a table of what packed texts save on accelerators, without one.

  python -m experiments.aot.packing [--only TEXT]

The train step of the recipe of SCALING.md for Qwen3-0.6B (64 prompts of 512
tokens, 16 samples of at most 4096 tokens, max@8) is compiled for the machines
of `MACHINES`, padded and packed (`models.forward_pass`). The command prints,
for each mean length of completions, the operations of one step on one device
and the memory that the compiler reports.

Operations are computed by formula, padding included. A multiplication and an
addition count as one operation each, as in `models.flop_counts`.
Layers run four times: forward, again in the backward pass (`remat = "full"`),
and twice for gradients; so do logits, which exist for scored tokens alone.
Completions have the mean length, all of them. Which pairs of a query and a key
attention computes depends on its form:

- splash (TPU): blocks of 512 queries that have a real token, and the keys
  before them.
- blocked (GPU): all queries of a row, each block of them with all keys up to
  its end. Packed completions share rows (`forward_pass.num_rows`).
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import rich.console
from etils import epath

from experiments.aot import chips, programs, report, scaling, stack
from experiments.cli import arguments, errors
from experiments.training import packed_texts
from experiments.training_run import validate
from models import attention_forms, attention_kernels, flop_counts, forward_pass

MODEL = "qwen3-0.6b"
# Machine -> the settings with which the model fits it (SCALING.md).
MACHINES: Mapping[str, Mapping[str, Any]] = {
  "v5e:16x16": {"mesh.data": 64, "mesh.tensor": 4},
  "h100:8": {"mesh.data": 8, "plan.microbatches": 8},
}
MEAN_LENGTHS = (1024, 4096)
# Forward, again in the backward pass, and gradients of inputs and parameters.
_RUNS = 4
HEAD = (
  *("machine", "attention", "mean length", "form", "positions of a prompt"),
  *("Tflop a device", "GiB a device"),
)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command."""
  parser = arguments.make_parser("aot.packing", __doc__.splitlines()[0])
  text = "compile for machines with this text in the name"
  arguments.add(parser, "--only", "", text)
  options = parser.parse_args(argv)
  jax.config.update("jax_platforms", "cpu")  # programs are traced here
  console = rich.console.Console()
  rows = []
  with tempfile.TemporaryDirectory() as folder:
    data = epath.Path(folder)
    scaling.write_data(data)
    for machine in MACHINES:
      if options.only in machine:
        rows += _rows_of(machine, data, console)
  print("| " + " | ".join(HEAD) + " |")
  print("|---" * len(HEAD) + "|")
  for row in rows:
    print("| " + " | ".join(row) + " |")
  return 0


def _rows_of(
  machine: str, data: epath.Path, console: rich.console.Console
) -> list[tuple[str, ...]]:
  """Compiles the programs of one machine and returns its rows."""
  config = scaling.config_of(MODEL, data)
  config.update_from_flattened_dict(MACHINES[machine])
  chip, devices = chips.devices(machine)
  e = validate.check_and_build(config, devices=devices, memory=chip.memory)
  tokens = programs.policy_rollout(e.placed_rollout).tokens
  P, S, T = tokens.completions.shape
  L = tokens.prompts.shape[-1]
  attention = e.model.attention
  peaks: dict[int, str] = {}  # by the room of the program
  rows = []
  for mean in MEAN_LENGTHS:
    text = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), tokens)
    text = text.replace(
      prompt_mask=np.ones_like(text.prompt_mask),
      lengths=np.full_like(text.lengths, mean),
    )
    size = packed_texts.choose_size([text], e.model, e.plan, e.mesh)
    for form, sized in (
      ("padded", tokens),
      ("packed", packed_texts.with_size(tokens, size)),
    ):
      room = sized.room
      if room not in peaks:
        console.print(f"{machine}: compiling, room {room}")
        lowered = programs.lower_train_step(e, room)
        program = report.compile_program(e, lowered, "train_step", chip)
        peaks[room] = f"{program['peak_gib']:.1f} of {program['hbm_gib']:.1f}"
      positions = room or L + S * (T - 1)
      # A padded program computes the attention of all tokens, and so does
      # "blocked" in each of its rows.
      is_shorter = room and attention == "splash"
      fed = (mean if is_shorter else T) - 1
      num_rows = forward_pass.num_rows(e.model, sized) if room else S
      pairs = _attended_pairs(attention, 0, L, L)
      pairs += num_rows * _attended_pairs(attention, L, fed, T - 1)
      flops = _RUNS * flop_counts.forward(e.model, positions, pairs, S * mean)
      teraflops = flops * P / e.mesh.devices.size / 1e12
      rows.append(
        (
          *(machine, attention, f"{mean:,}", form, f"{positions:,}"),
          *(f"{teraflops:,.0f}", peaks[room]),
        )
      )
  return rows


def _attended_pairs(form: str, prompt: int, fed: int, length: int) -> int:
  """Counts the pairs of a query and a key that attention computes."""
  # The sequence follows `prompt` tokens. It has `length` tokens with padding,
  # and `fed` without.
  if form == "splash":
    block = attention_kernels.MAX_BLOCK
  else:
    block, fed = math.ceil(length / attention_forms.NUM_BLOCKS), length
  stops = range(block, fed + block, block)  # ends of the blocks
  return sum(block * (prompt + stop) for stop in stops)


if __name__ == "__main__":
  stack.ensure_size()
  sys.exit(main())
