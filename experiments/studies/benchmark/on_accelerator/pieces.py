"""The pieces of the benchmark `accelerator`; each runs in its own process.

  python -m experiments.studies.benchmark.on_accelerator.pieces PIECE FILE
    [--ceilings JSON] [--profile FOLDER]

A piece is a function from a `Setting` to rows of the table. It runs in a
process of its own, so that the peak of its memory is that of the piece and an
error ends no other piece. FILE gets the rows as JSON. On a CPU the sizes are
small, so that all pieces run in a few minutes.

Model FLOPs utilisation (MFU; Chowdhery et al. 2022) is

  MFU = operations of the model per second / peak rate,

with the operations of `experiments.studies.flop_counts`: 2 per parameter and
token for a forward pass, 4 for a backward pass, and those of the attention.
Recomputed activations do not count. The peak rate is the manufacturer's for
dense bfloat16 products, where `PEAKS` has it, and otherwise the measured one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib
import ml_collections
import numpy as np
import optax

from experiments.cli import devices
from experiments.configs import countdown, defaults
from experiments.logging import json_files
from experiments.studies import flop_counts
from experiments.studies.benchmark import fused, outcome, random_rollout
from experiments.training import build, dispatch
from experiments.training.experiment import Experiment
from models import policy, transformer
from rl import methods, objectives, step, types
from rl.minibatches import Plan
from rl.sampling import generation

BFLOAT16 = 2  # bytes
# Operations per second of dense bfloat16 products, by a part of the name that
# JAX gives the device. Source: the manufacturers' data sheets.
PEAKS: Mapping[str, float] = {
  "H100": 989e12,
  "H200": 989e12,
  "A100": 312e12,
  "TPU v4": 275e12,
  "TPU v5 lite": 197e12,
  "TPU v6 lite": 918e12,
}
REPEATS = 5  # timed calls; the median counts
PROMPT_LENGTH, SAMPLES = 64, 8
# Shares that the project aims at on an H100.
TRAINER_TARGETS = {16_384: 0.30, 65_536: 0.40}
DECODE_TARGETS = {64: 0.60}
LARGEST_SEED_RATIO = 4.0  # time of 64 seeds over the time of one
MIN_FUSED_RATIO = 2.0


class Setting(NamedTuple):
  """The input of a piece.

  Attributes:
    toy: whether the sizes are small, as they are on a CPU.
    ceilings: results of the piece "device": "flops" per second of a bfloat16
      product and "bandwidth", bytes per second that are read and written.
  """

  toy: bool
  ceilings: Mapping[str, float]

  @property
  def peak(self) -> float:
    """Operations per second that MFU is relative to."""
    kind = jax.devices()[0].device_kind
    peaks = [peak for name, peak in PEAKS.items() if name in kind]
    return (peaks or [self.ceilings["flops"]])[0]

  def target(self, share: float | None) -> float | None:
    """Returns a target; None for sizes and devices that it is not meant for."""
    is_meant = "H100" in jax.devices()[0].device_kind and not self.toy
    return share if is_meant else None


def median_seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
  """Returns the median seconds of a call, after one that compiles."""
  jax.block_until_ready(call())
  seconds = []
  for _ in range(repeats):
    start = time.perf_counter()
    jax.block_until_ready(call())
    seconds.append(time.perf_counter() - start)
  return float(np.median(seconds))


def peak_gib() -> float | None:
  """Returns the largest memory so far on the first device; None if unknown."""
  statistics = jax.devices()[0].memory_stats() or {}
  peak = statistics.get("peak_bytes_in_use")
  return None if peak is None else peak / 2**30


# ------------------------------------------------------------------------------
# The device
# ------------------------------------------------------------------------------


def measure_device(setting: Setting) -> list[outcome.Row]:
  """Measures the rate of bfloat16 products and the bandwidth of memory."""
  size, elements = (512, 2**22) if setting.toy else (8192, 2**29)
  x = jnp.ones((size, size), jnp.bfloat16)
  product = jax.jit(lambda x, y: x @ y)
  flops = 2 * size**3 / median_seconds(lambda: product(x, x), 20)
  # The array is donated, so that no time is spent on new memory.
  negate = jax.jit(jnp.negative, donate_argnums=0)
  array = [jnp.ones(elements, jnp.bfloat16)]

  def copy() -> jax.Array:
    array[0] = negate(array[0])
    return array[0]

  bandwidth = 2 * BFLOAT16 * elements / median_seconds(copy, 20)
  kind = jax.devices()[0].device_kind
  shape = f"{kind}, number of devices {len(jax.devices())}"
  return [
    outcome.Row("bfloat16 product", shape, "operations/s", flops),
    outcome.Row("copy", shape, "bytes/s", bandwidth),
  ]


def versions() -> dict[str, str]:
  """Returns the versions that decide about speed."""
  backend = jax.devices()[0].client.platform_version
  return {
    "python": platform.python_version(),
    "jax": jax.__version__,
    "jaxlib": jaxlib.__version__,
    "backend": " ".join(backend.split()),
    "device": jax.devices()[0].device_kind,
  }


# ------------------------------------------------------------------------------
# The trainer
# ------------------------------------------------------------------------------


def experiment_config(
  setting: Setting,
  prompts: int,
  max_tokens: int,
  preset: str = "qwen3-0.6b",
  **model: Any,
) -> ml_collections.ConfigDict:
  """Returns a GRPO config of a published shape with random weights.

  Args:
    setting: its `toy` replaces the shape by a small one.
    prompts: prompts per step, with `SAMPLES` samples each.
    max_tokens: tokens of a completion.
    preset: name of the shape.
    **model: settings of the decoder.
  """
  config = defaults.rl()
  config.method = "grpo(beta=0.0)"
  config.rollout.prompts, config.rollout.samples = prompts, SAMPLES
  config.rollout.max_tokens = max_tokens
  config.model.update({"dtype": "bfloat16", "remat": "full", **model})
  if not setting.toy:
    config.policy.preset = preset
  return config


def time_update(
  setting: Setting,
  name: str,
  tokens: int,
  *,
  microbatches: int = 1,
  target: float | None = None,
  **changes: Any,
) -> outcome.Row:
  """Times the training step on random tokens, without sampling.

  Args:
    setting: toy sizes or full ones, and the ceilings.
    name: name of the row, without the number of tokens.
    tokens: completion tokens of the batch.
    microbatches: parts of the batch whose gradients are summed.
    target: share of the peak rate that is aimed at.
    **changes: changes of `experiment_config`.
  """
  prompts, max_tokens = (2, 16) if setting.toy else (tokens // 4096, 512)
  config = experiment_config(setting, prompts, max_tokens, **changes)
  config.plan.microbatches = min(microbatches, prompts)
  e = build.build(config)
  tokens = prompts * SAMPLES * max_tokens
  rollout = random_rollout.make(
    e.model.vocab_size, prompts, SAMPLES, PROMPT_LENGTH, max_tokens
  )
  rollout = jax.device_put(rollout, e.rollout_shardings(rollout))
  advance = dispatch.make_dispatch(e, lambda state: (rollout, {}))
  state = [e.init()]

  def call() -> types.PyTree:
    state[0], metrics, _ = advance(state[0])
    return metrics

  seconds = median_seconds(call)
  lengths = np.full((prompts, SAMPLES), max_tokens)
  # With adapters, the gradients of the frozen kernels are not computed: of a
  # backward pass the half remains that passes gradients to earlier layers.
  factor = 2 / 3 if e.model.lora_rank else 1
  flops = (
    factor * flop_counts.update_cost(e.model, PROMPT_LENGTH, lengths).flops
  )
  return outcome.Row(
    f"{name}, {tokens:,} tokens",
    f"{prompts} x {SAMPLES} x {max_tokens}, {e.model.attention}, "
    f"remat {e.model.remat}",
    "tokens/s",
    tokens / seconds,
    bound_fraction=flops / seconds / setting.peak,
    bound_limit=setting.target(target),
    settings={"seconds": f"{seconds:.3f}", "peak": _gib(peak_gib())},
  )


def _gib(size: float | None) -> str:
  return "unknown" if size is None else f"{size:.1f} GiB"


def measure_trainer(setting: Setting) -> list[outcome.Row]:
  """Times the training step of Qwen3-0.6B at 16,384 tokens."""
  tokens = 16_384
  return [
    time_update(
      setting, "trainer, full", tokens, target=TRAINER_TARGETS[tokens]
    )
  ]


def measure_trainer_lora(setting: Setting) -> list[outcome.Row]:
  """Times the training step with adapters of rank 16 at 16,384 tokens."""
  return [time_update(setting, "trainer, LoRA 16", 16_384, lora_rank=16)]


def measure_trainer_long(setting: Setting) -> list[outcome.Row]:
  """Times the training step at 65,536 tokens."""
  tokens = 65_536
  return [
    time_update(
      setting,
      "trainer, full",
      tokens,
      microbatches=4,
      target=TRAINER_TARGETS[tokens],
    )
  ]


def measure_attention(setting: Setting) -> list[outcome.Row]:
  """Times the training step with each form of attention, and other remat."""
  form = {"gpu": "cudnn", "tpu": "splash"}.get(jax.default_backend(), "plain")
  return [
    time_update(setting, f"attention {attention}", 16_384, attention=attention)
    for attention in (form, "blocked")
  ] + [time_update(setting, "remat dots", 16_384, remat="dots")]


def measure_larger_model(setting: Setting) -> list[outcome.Row]:
  """Times the training step of Qwen3-1.7B at 16,384 tokens."""
  return [
    time_update(
      setting, "trainer, 1.7B", 16_384, microbatches=2, preset="qwen3-1.7b"
    )
  ]


# ------------------------------------------------------------------------------
# Sampling, and whole iterations
# ------------------------------------------------------------------------------


def measure_decoding(setting: Setting) -> list[outcome.Row]:
  """Times sampling of completions that never end, for three batch sizes."""
  e = build.build(experiment_config(setting, 2, 16, remat="none"))
  bfloat16_model = dataclasses.replace(e.model, param_dtype="bfloat16")
  params = jax.jit(functools.partial(transformer.init, bfloat16_model))(
    jax.random.key(0)
  )
  max_tokens = 16 if setting.toy else 256
  rows = []
  for batch in (16,) if setting.toy else (16, 64, 256):
    prompts = batch // SAMPLES
    seconds = _decoding_seconds(e, params, prompts, max_tokens)
    cost = flop_counts.decode_cost(
      e.model,
      PROMPT_LENGTH,
      np.full((prompts, SAMPLES), max_tokens),
      size=BFLOAT16,
    )
    target = setting.target(DECODE_TARGETS.get(batch))
    rows.append(
      outcome.Row(
        f"decoding, batch {batch}",
        f"{PROMPT_LENGTH} + {max_tokens} tokens, bfloat16",
        "tokens/s",
        batch * max_tokens / seconds,
        bound_fraction=cost.bytes / seconds / setting.ceilings["bandwidth"],
        bound_limit=target,
        settings={"seconds": f"{seconds:.3f}", "peak": _gib(peak_gib())},
      )
    )
  return rows


def _decoding_seconds(
  e: Experiment, params: types.PyTree, prompts: int, max_tokens: int
) -> float:
  sampling = generation.Sampling(
    samples=SAMPLES, max_tokens=max_tokens, eos_ids=(), pad_id=0
  )
  ids = jnp.ones((prompts, PROMPT_LENGTH), jnp.int32)
  keys = jax.random.split(jax.random.key(1), prompts)
  sample = jax.jit(
    lambda params: generation.generate(
      e.policy, params, ids, ids > 0, keys, sampling
    )
  )
  return median_seconds(lambda: sample(params))


def measure_iteration(setting: Setting) -> list[outcome.Row]:
  """Times whole iterations in two programs: sample, then score and update."""
  prompts, max_tokens = (2, 16) if setting.toy else (64, 256)
  config = experiment_config(setting, prompts, max_tokens)
  config.plan.microbatches = min(8, prompts)
  e = build.build(config)
  advance = dispatch.make_dispatch(e, dispatch.compile_rollout_fn(e))
  state, sampled = [e.init()], []

  def call() -> types.PyTree:
    state[0], metrics, _ = advance(state[0])
    sampled.append(metrics["length/mean"])
    return metrics

  seconds = median_seconds(call, 3)
  tokens = prompts * SAMPLES * float(np.mean(jax.device_get(sampled)))
  return [
    outcome.Row(
      "iteration, staged",
      f"{prompts} x {SAMPLES} x {max_tokens}, countdown",
      "tokens/s",
      tokens / seconds,
      settings={"seconds": f"{seconds:.2f}", "peak": _gib(peak_gib())},
    )
  ]


def measure_fused(setting: Setting) -> list[outcome.Row]:
  """Times the embedded task as one program beside two programs a step."""
  steps, prompts = (2, 8) if setting.toy else (10, 32)
  fused_experiment = fused.build_experiment(steps, prompts)
  staged_experiment = fused.build_experiment(1, prompts)
  start = fused_experiment.init()
  fused_run, staged_run = (
    fused.loop_one_by_one(e, fused.make_dispatch(e), dispatches)
    for e, dispatches in ((fused_experiment, 1), (staged_experiment, steps))
  )
  name, timed = fused.time_against(
    {"staged": staged_run}, fused_run, [start], 3
  )
  return [
    outcome.Row(
      "fused beside staged",
      f"countdown, {prompts} x 16, {steps} steps",
      "s",
      timed.seconds / timed.ratio,
      peer=timed.seconds,
      ratio=timed.ratio,
      limit=setting.target(MIN_FUSED_RATIO),
      settings={"beside": name},
    )
  ]


def measure_seeds(setting: Setting) -> list[outcome.Row]:
  """Times 1, 8 and 64 seeds of the embedded task in one program."""
  counts = (1, 2) if setting.toy else (1, 8, 64)
  steps, prompts = (2, 8) if setting.toy else (10, 32)
  e = fused.build_experiment(steps, prompts)
  rows, first = [], None
  for count in counts:
    states = [
      e.init().replace(key=jax.random.key(seed)) for seed in range(count)
    ]
    run = fused.loop_side_by_side(e, count)
    seconds = median_seconds(functools.partial(run, states), 3)
    first = first or seconds
    limit = 1 / LARGEST_SEED_RATIO if count == max(counts) else None
    rows.append(
      outcome.Row(
        "1 seed" if count == 1 else f"{count} seeds",
        f"countdown, {prompts} x 16, {steps} steps",
        "s",
        seconds,
        peer=first,
        ratio=first / seconds,
        limit=setting.target(limit),
        settings={"beside": "1 seed"},
      )
    )
  return rows


# ------------------------------------------------------------------------------
# Numbers that must be right on this device
# ------------------------------------------------------------------------------


def check_numbers(setting: Setting) -> list[outcome.Row]:
  """Compares results on the device with enumeration and with the CPU."""
  del setting  # the sizes are small in any case
  shape = "largest relative difference"
  rows = [
    outcome.Row(
      "max@k weights beside enumeration",
      shape,
      "of 1e-5",
      difference := _max_at_k_difference(),
      ratio=1e-5 / max(difference, 1e-12),
      limit=1.0,
    )
  ]
  with jax.default_matmul_precision("highest"):
    for name, compute in (
      ("logits", _logits),
      ("one training step", _parameters_after_a_step),
    ):
      on_device = compute()
      with jax.default_device(jax.devices("cpu")[0]):
        on_cpu = compute()
      difference = _relative_difference(on_device, on_cpu)
      rows.append(
        outcome.Row(
          f"{name} beside the CPU",
          shape,
          "of 1e-3",
          difference,
          ratio=1e-3 / max(difference, 1e-12),
          limit=1.0,
        )
      )
  return rows


def _max_at_k_difference(n: int = 8, k: int = 3) -> float:
  """Compares the weights of `max_at_k` with an enumeration of all subsets."""
  scores = np.random.default_rng(0).normal(size=n)
  expected = np.zeros(n)
  subsets = list(itertools.combinations(range(n), k))
  for subset in subsets:
    best = max(scores[list(subset)])
    expected[list(subset)] += best / len(subsets)
  actual = objectives.max_at_k_weights(jnp.asarray(scores, jnp.float32), k)
  return _relative_difference(actual, expected)


def _small_experiment() -> Experiment:
  config = countdown.max_at_k()
  config.rollout.prompts = 4
  config.model.attention = "plain"
  return build.build(config, [jax.devices("cpu")[0]])


def _logits() -> jax.Array:
  model = _small_experiment().model
  params = transformer.init(model, jax.random.key(0))
  ids = jnp.arange(24).reshape(2, 12) % model.vocab_size
  return transformer.logits(model, params, ids, ids >= 0)


def _parameters_after_a_step() -> jax.Array:
  """Returns the change of the parameters by one step of SGD, as one vector."""
  model = _small_experiment().model
  method, tx = methods.get("grpo", beta=0.0), optax.sgd(1.0)
  params = transformer.init(model, jax.random.key(0))
  state = step.init(method, params, tx, jax.random.key(1))
  rollout = random_rollout.make(model.vocab_size, 4, 4, 8, 8)
  train_step = jax.jit(step.make(method, policy.bind(model), tx, Plan()))
  new_state, _ = train_step(state, rollout)
  changes = jax.tree.map(jnp.subtract, new_state.params, params)
  return jnp.concatenate([x.ravel() for x in jax.tree.leaves(changes)])


def _relative_difference(actual: Any, expected: Any) -> float:
  """Returns the norm of the difference over the norm of `expected`."""
  actual, expected = np.asarray(actual), np.asarray(expected)
  return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


# ------------------------------------------------------------------------------
# The command
# ------------------------------------------------------------------------------

# In this order; "device" measures the ceilings that the others read.
PIECES: Mapping[str, Callable[[Setting], Sequence[outcome.Row]]] = {
  "device": measure_device,
  "trainer": measure_trainer,
  "trainer_lora": measure_trainer_lora,
  "decoding": measure_decoding,
  "numbers": check_numbers,
  "iteration": measure_iteration,
  "fused": measure_fused,
  "seeds": measure_seeds,
  "trainer_long": measure_trainer_long,
  "attention": measure_attention,
  "larger_model": measure_larger_model,
}


def main() -> int:
  """Runs one piece and writes its rows."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("piece", choices=PIECES)
  parser.add_argument("file", type=pathlib.Path)
  parser.add_argument("--ceilings", type=json.loads, default={})
  parser.add_argument("--profile", default="")
  options = parser.parse_args()
  devices.configure()
  setting = Setting(jax.default_backend() == "cpu", options.ceilings)
  tracing = contextlib.nullcontext()
  if options.profile:
    tracing = jax.profiler.trace(options.profile)
  start = time.perf_counter()
  with tracing:
    rows = PIECES[options.piece](setting)
  record = {
    "rows": [dataclasses.asdict(row) for row in rows],
    "seconds": time.perf_counter() - start,
    "versions": versions(),
  }
  text = json.dumps(json_files.to_strict_json(record), indent=2) + "\n"
  json_files.replace(options.file, text)
  return 0


if __name__ == "__main__":
  sys.exit(main())
