"""The pieces of the benchmark `accelerator`; each runs in its own process.

A piece is a function from a `Setting` to rows of the table. It runs in a
process of its own (`sides`), so that the peak of its memory is that of the
piece and an error ends no other piece. On a CPU the sizes are small, so that
all pieces run in a few minutes. With `--profile`, one more call of each
training step, of sampling, of an iteration and of many seeds is traced,
and `kernel_times` writes a table of its kernels.

Model FLOPs utilisation (MFU; Chowdhery et al. 2022) is

  MFU = operations of the model per second / peak rate,

with the operations of `models.flop_counts`: 2 per parameter and
token for a forward pass, 4 for a backward pass, and those of the attention.
Recomputed activations do not count. The peak rate is the manufacturer's for
dense bfloat16 products, where `models.flop_counts` has it, and otherwise the
measured one.

A device with less memory than `LARGE_MEMORY`, such as a TPU v5e, gets smaller
pieces: more microbatches, fewer rows at a time, and adapters for the shape of
Qwen3-1.7B, whose training state alone would take 26 GiB.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib
import ml_collections
import numpy as np
import optax

from experiments.cli import devices
from experiments.configs import countdown, defaults
from experiments.studies.benchmark import fused, outcome, sizes
from experiments.studies.benchmark.on_accelerator import kernel_times, reference
from experiments.studies.benchmark.peers import protocol
from experiments.training import build, device_mesh, iteration, placement
from experiments.training.experiment import Experiment
from models import flop_counts, transformer
from rl import best_of_k, step, types
from rl.sampling import generation

BFLOAT16 = 2  # bytes
LARGE_MEMORY = 30 * 2**30  # bytes
REPEATS = 5  # timed calls; the median counts
PROMPT_LENGTH, SAMPLES = 64, 8
# Shares that the project aims at on an H100.
TRAINER_TARGETS = {16_384: 0.30, 65_536: 0.40}
DECODE_TARGETS = {64: 0.60}
LARGEST_SEED_RATIO = 4.0  # time of 64 seeds over the time of one
MIN_FUSED_RATIO = 2.0


class Setting(NamedTuple):
  """The input of a piece."""

  toy: bool  # whether the sizes are small, as they are on a CPU
  # Results of the piece "device": "flops" per second of a bfloat16 product and
  # "bandwidth", bytes per second that are read and written.
  ceilings: Mapping[str, float]
  memory: float  # bytes of one device's memory
  profile: pathlib.Path | None = None  # folder for profiler traces

  @property
  def is_large(self) -> bool:
    """True if the device has memory for the pieces of full size."""
    return self.memory >= LARGE_MEMORY

  def choose(self, toy: Any, small: Any, large: Any) -> Any:
    """Returns the size for a CPU, for little memory, or for much memory."""
    return toy if self.toy else large if self.is_large else small

  @property
  def peak(self) -> float:
    """Operations per second that MFU is relative to."""
    kind = jax.devices()[0].device_kind
    return flop_counts.peak(kind) or self.ceilings["flops"]

  def trace_folder(self, name: str) -> pathlib.Path | None:
    """Returns the folder for the trace of a row; None if none is wanted."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower())
    return self.profile and self.profile / words

  def target(self, share: float | None) -> float | None:
    """Returns a target; None for sizes and devices that it is not meant for."""
    is_meant = "H100" in jax.devices()[0].device_kind and not self.toy
    return share if is_meant else None


def median_seconds(
  call: Callable[[], Any],
  repeats: int = REPEATS,
  trace: pathlib.Path | None = None,
) -> float:
  """Returns the median seconds of a call, after one that compiles.

  If `trace` is a folder, one more call is traced into it.
  """
  seconds = []
  for _ in range(1 + repeats):
    start = time.perf_counter()
    jax.block_until_ready(call())
    seconds.append(time.perf_counter() - start)
  if trace is not None:
    kernel_times.trace(call, trace)
  return float(np.median(seconds[1:]))


def timed_row(
  name: str, shape: str, tokens: float, seconds: float, **fields: Any
) -> outcome.Row:
  """Returns a row of tokens per second, with the time and the peak memory."""
  statistics = jax.devices()[0].memory_stats() or {}
  peak = statistics.get("peak_bytes_in_use")
  memory = "unknown" if peak is None else f"{peak / 2**30:.1f} GiB"
  fields["settings"] = {"seconds": f"{seconds:.3f}", "peak": memory}
  return outcome.Row(name, shape, "tokens/s", tokens / seconds, **fields)


def ceiling_programs(setting: Setting) -> tuple[Any, Any, Any, Any]:
  """Returns a product of matrices, a copy, and the shapes of their inputs."""
  size, elements = (512, 2**22) if setting.toy else (8192, 2**29)
  return (
    jax.jit(lambda x, y: x @ y),
    # The array is donated, so that no time is spent on new memory.
    jax.jit(jnp.negative, donate_argnums=0),
    jax.ShapeDtypeStruct((size, size), jnp.bfloat16),
    jax.ShapeDtypeStruct((elements,), jnp.bfloat16),
  )


def measure_device(setting: Setting) -> list[outcome.Row]:
  """Measures the rate of bfloat16 products and the bandwidth of memory."""
  product, negate, square, vector = ceiling_programs(setting)
  # Products of random numbers are slower than those of ones.
  x = jax.random.normal(jax.random.key(0), square.shape, square.dtype)
  flops = 2 * len(square) ** 3 / median_seconds(lambda: product(x, x), 20)
  array = [jnp.ones(vector.shape, vector.dtype)]

  def copy() -> jax.Array:
    array[0] = negate(array[0])
    return array[0]

  bandwidth = 2 * BFLOAT16 * vector.size / median_seconds(copy, 20)
  kind, count = jax.devices()[0].device_kind, len(jax.devices())
  shape = f"{kind}, number of devices {count}"
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


def experiment_config(
  setting: Setting,
  prompts: int,
  max_tokens: int,
  preset: str = "qwen3-0.6b",
  **model: Any,
) -> ml_collections.ConfigDict:
  """Returns a GRPO config of a published shape with random weights.

  A step has `SAMPLES` samples for each of its prompts. `model` are settings of
  the decoder, whose shape is small if the setting is a toy.
  """
  config = defaults.rl()
  config.method = "grpo(beta=0.0)"
  config.rollout.prompts, config.rollout.samples = prompts, SAMPLES
  config.rollout.max_tokens = max_tokens
  config.model.update({"dtype": "bfloat16", "remat": "full", **model})
  if not setting.toy:
    config.policy.preset = preset
  return config


class Update(NamedTuple):
  """A training step that is timed on random tokens."""

  piece: str  # name of the piece that times it
  name: str  # name of the row, without the number of tokens
  tokens: int = 16_384  # completion tokens that the batch has room for
  microbatches: int = 1  # parts of the batch whose gradients are summed
  preset: str = "qwen3-0.6b"  # name of the shape
  model: Mapping[str, Any] = {}  # settings of the decoder
  # Mean length of a completion, as a share of the largest; 1 if all completions
  # have the largest length.
  mean_share: float = 1.0

  def build(
    self, setting: Setting, devices: Sequence[jax.Device] | None = None
  ) -> Experiment:
    """Builds the experiment; None as devices means all of this machine."""
    prompts, max_tokens = (2, 16) if setting.toy else (self.tokens // 4096, 512)
    shape = prompts, max_tokens, self.preset
    config = experiment_config(setting, *shape, **self.model)
    config.plan.microbatches = min(self.microbatches, prompts)
    return build.build(config, devices)


def updates(setting: Setting, platform: str) -> list[Update]:
  """Returns the training steps that pieces time on a platform."""
  kernel = attention_kernel(platform)
  lora, parts = {"lora_rank": 16}, 1 if setting.is_large else 4
  larger = Update("larger_model", "trainer, 1.7B", 16_384, 2, "qwen3-1.7b")
  if not setting.is_large:
    larger = larger._replace(
      name="trainer, 1.7B, LoRA 16", microbatches=4, model=lora
    )
  return [
    Update("trainer", "trainer, full"),
    Update("trainer_lora", "trainer, LoRA 16", model=lora),
    Update(
      "packing", "trainer, mean length 1/4", 16_384, parts, mean_share=1 / 4
    ),
    Update("trainer_long", "trainer, full", 65_536, 4 * parts),
    *(
      Update("attention", f"attention {form}", model={"attention": form})
      for form in dict.fromkeys((kernel, "blocked"))
    ),
    Update("attention", "remat dots", 16_384, parts, model={"remat": "dots"}),
    larger,
  ]


def attention_kernel(platform: str) -> str:
  """Returns the form of attention that is written for a platform."""
  return {"gpu": "cudnn", "tpu": "splash"}.get(platform, "blocked")


def measure_updates(piece: str, setting: Setting) -> list[outcome.Row]:
  """Times the training steps of a piece."""
  return [
    time_update(update, setting)
    for update in updates(setting, jax.default_backend())
    if update.piece == piece
  ]


def dispatch_call(
  e: Experiment, rollout_fn: Callable
) -> Callable[[], types.PyTree]:
  """Returns a call that makes the next step and returns its metrics."""
  advance = iteration.make_dispatch(e, rollout_fn)
  state = placement.init_state(e)

  def call() -> types.PyTree:
    nonlocal state
    state, metrics, *_ = advance(state)
    return metrics

  return call


def time_update(update: Update, setting: Setting) -> outcome.Row:
  """Times a training step on random tokens, without sampling."""
  e = update.build(setting)
  prompts, max_tokens = e.config.rollout.prompts, e.sampling.max_tokens
  mean = update.mean_share * max_tokens if update.mean_share < 1 else 0.0
  lengths = sizes.random_lengths((prompts, SAMPLES), max_tokens, mean)
  tokens = int(lengths.sum())
  rollout = sizes.random_rollout(
    e.model.vocab_size, prompts, SAMPLES, PROMPT_LENGTH, max_tokens, mean
  )
  rollout = jax.device_put(rollout, e.rollout_shardings(rollout))
  call = dispatch_call(e, lambda state, timer: rollout)
  seconds = median_seconds(call, trace=setting.trace_folder(update.name))
  # With adapters, the gradients of the frozen kernels are not computed: of a
  # backward pass the half remains that passes gradients to earlier layers.
  factor = 2 / 3 if e.model.lora_rank else 1
  cost = flop_counts.update_cost(e.model, PROMPT_LENGTH, lengths)
  flops = factor * cost.flops
  is_target = update.name == "trainer, full"
  target = TRAINER_TARGETS[update.tokens] if is_target else None
  forms = f"{e.model.attention}, remat {e.model.remat}"
  return timed_row(
    f"{update.name}, {tokens:,} tokens",
    f"{prompts} x {SAMPLES} x {max_tokens}, {forms}",
    tokens,
    seconds,
    bound_fraction=flops / seconds / setting.peak,
    bound_limit=setting.target(target),
  )


def measure_decoding(setting: Setting) -> list[outcome.Row]:
  """Times sampling of completions that never end, for three batch sizes."""
  e, init, samplers = decoding_programs(setting)
  params, max_tokens = init(jax.random.key(0)), e.sampling.max_tokens
  # A compiler that runs several times at once leaves no core idle.
  with futures.ThreadPoolExecutor() as pool:
    lowered = [sample.lower(params) for sample in samplers.values()]
    programs = list(pool.map(jax.stages.Lowered.compile, lowered))
  rows = []
  for batch, sample in zip(samplers, programs, strict=True):
    name = f"decoding, batch {batch}"
    seconds = median_seconds(
      functools.partial(sample, params), trace=setting.trace_folder(name)
    )
    lengths = np.full((batch // SAMPLES, SAMPLES), max_tokens)
    inputs = e.model, PROMPT_LENGTH, lengths
    cost = flop_counts.decode_cost(*inputs, size=BFLOAT16)
    shape = f"{PROMPT_LENGTH} + {max_tokens} tokens, bfloat16"
    limits = {
      "bound_fraction": cost.bytes / seconds / setting.ceilings["bandwidth"],
      "bound_limit": setting.target(DECODE_TARGETS.get(batch)),
    }
    rows.append(timed_row(name, shape, batch * max_tokens, seconds, **limits))
  return rows


def decoding_programs(
  setting: Setting, devices: Sequence[jax.Device] | None = None
) -> tuple[
  Experiment, Callable[[jax.Array], types.PyTree], dict[int, jax.stages.Wrapped]
]:
  """Returns what samples completions that never end, in bfloat16.

  It is an experiment, its initialiser of parameters, and a jitted function of
  parameters for each number of completions that are sampled at a time.
  """
  max_tokens = 16 if setting.toy else 256
  config = experiment_config(setting, 2, max_tokens, remat="none")
  e = build.build(config, devices)
  sampling = generation.Sampling(
    samples=SAMPLES, max_tokens=max_tokens, eos_ids=(), pad_id=0
  )

  def sample(params: types.PyTree, prompts: int) -> generation.Samples:
    ids = jnp.ones((prompts, PROMPT_LENGTH), jnp.int32)
    keys = jax.random.split(jax.random.key(1), prompts)
    return generation.generate(e.policy, params, ids, ids > 0, keys, sampling)

  model = dataclasses.replace(e.model, param_dtype="bfloat16")
  batches = setting.choose((16,), (16, 64, 128), (16, 64, 256))
  samplers = {
    batch: jax.jit(functools.partial(sample, prompts=batch // SAMPLES))
    for batch in batches
  }
  return e, jax.jit(functools.partial(transformer.init, model)), samplers


def iteration_experiment(
  setting: Setting, devices: Sequence[jax.Device] | None = None
) -> Experiment:
  """Returns the experiment whose whole iterations are timed."""
  prompts, max_tokens = (2, 16) if setting.toy else (64, 256)
  config = experiment_config(setting, prompts, max_tokens)
  config.plan.microbatches = min(8 if setting.is_large else 32, prompts)
  config.rollout.rows = 0 if setting.is_large else 2
  return build.build(config, devices)


def measure_iteration(setting: Setting) -> list[outcome.Row]:
  """Times whole iterations in two programs: sample, then score and update."""
  e = iteration_experiment(setting)
  prompts, max_tokens = e.config.rollout.prompts, e.sampling.max_tokens
  advance = dispatch_call(e, iteration.compile_rollout_fn(e))
  lengths = []

  def call() -> types.PyTree:
    metrics = advance()
    lengths.append(metrics["length/mean"])
    return metrics

  name = "iteration, staged"
  seconds = median_seconds(call, 3, setting.trace_folder(name))
  tokens = prompts * SAMPLES * float(np.mean(jax.device_get(lengths)))
  shape = f"{prompts} x {SAMPLES} x {max_tokens}, countdown"
  return [timed_row(name, shape, tokens, seconds)]


def embedded_task_sizes(setting: Setting) -> tuple[int, int]:
  """Returns the steps of a dispatch and the prompts of a step."""
  return (2, 8) if setting.toy else (10, 32)


def seed_counts(setting: Setting) -> Sequence[int]:
  """Returns the numbers of seeds that are trained at a time."""
  return setting.choose((1, 2), (1, 8, 32), (1, 8, 64))


def measure_fused(setting: Setting) -> list[outcome.Row]:
  """Times the embedded task as one program beside two programs a step."""
  steps, prompts = embedded_task_sizes(setting)
  fused_experiment = fused.build_experiment(steps, prompts)
  staged_experiment = fused.build_experiment(1, prompts)
  start = placement.init_state(fused_experiment)
  fused_run, staged_run = (
    fused.loop_one_by_one(e, fused.make_dispatch(e), dispatches)
    for e, dispatches in ((fused_experiment, 1), (staged_experiment, steps))
  )
  shape = f"countdown, {prompts} x 16, {steps} steps"
  loops, states = ({"staged": staged_run}, fused_run), [start]
  limit = setting.target(MIN_FUSED_RATIO)
  return [fused.time_row("fused beside ", shape, *loops, states, 3, limit)]


def measure_seeds(setting: Setting) -> list[outcome.Row]:
  """Times 1, 8 and 64 seeds of the embedded task in one program."""
  counts = seed_counts(setting)
  steps, prompts = embedded_task_sizes(setting)
  e = fused.build_experiment(steps, prompts)
  shape = f"countdown, {prompts} x 16, {steps} steps"
  rows, first = [], None
  for count in counts:
    states = [
      placement.init_state(e).with_carried(key=jax.random.key(seed))
      for seed in range(count)
    ]
    run = fused.loop_side_by_side(e, count)
    name = "1 seed" if count == 1 else f"{count} seeds"
    seconds = median_seconds(
      functools.partial(run, states), 3, setting.trace_folder(name)
    )
    first = first or seconds
    limit = 1 / LARGEST_SEED_RATIO if count == max(counts) else None
    compared = {
      "peer": first,
      "ratio": first / seconds,
      "limit": setting.target(limit),
      "settings": {"beside": "1 seed"},
    }
    rows.append(outcome.Row(name, shape, "s", seconds, **compared))
  return rows


def check_numbers(setting: Setting) -> list[outcome.Row]:
  """Compares results on the device with enumeration, PyTorch and the CPU.

  A training step in bfloat16 with the attention that is written for the device
  is compared with plain attention. With several devices, a training step over
  all of them is compared with the same step on one.
  """
  del setting  # the sizes are small in any case
  all_devices, cpu = jax.devices(), jax.devices("cpu")[:1]
  prompts = 4 * len(all_devices)
  rows = []

  def add_row(name: str, actual: Any, expected: Any, limit: float) -> None:
    difference = _relative_difference(actual, expected)
    rows.append(
      outcome.Row(
        name,
        "largest relative difference",
        f"of {limit:.0e}".replace("e-0", "e-"),
        difference,
        ratio=limit / max(difference, 1e-12),
        limit=1.0,
      )
    )

  add_row("max@k weights beside enumeration", *_max_at_k_weights(), 1e-5)
  with jax.default_matmul_precision("highest"):
    logits = reference.compute_logits(), reference.read_logits()
    add_row("logits beside transformers", *logits, 1e-3)
    on_one = _change_by_a_step(all_devices[:1], prompts)
    with jax.default_device(cpu[0]):
      on_cpu = _change_by_a_step(cpu, prompts)
    add_row("one training step beside the CPU", on_one, on_cpu, 1e-3)
    if len(all_devices) > 1:
      name = f"one training step over {len(all_devices)} devices beside one"
      add_row(name, _change_by_a_step(all_devices, prompts), on_one, 1e-3)
  kernel = attention_kernel(jax.default_backend())
  on_device = all_devices[:1], prompts
  changes = (
    _change_by_a_step(*on_device, form, "bfloat16")
    for form in (kernel, "plain")
  )
  name = f"a step in bfloat16 with {kernel} attention beside plain"
  add_row(name, *changes, 5e-2)  # the rounding of bfloat16 is 2^-9
  return rows


def _max_at_k_weights(n: int = 8, k: int = 3) -> tuple[jax.Array, np.ndarray]:
  """Returns the weights of max@k, and those from an enumeration of subsets."""
  scores = np.random.default_rng(0).normal(size=n)
  expected = np.zeros(n)
  subsets = list(itertools.combinations(range(n), k))
  for subset in subsets:
    expected[list(subset)] += max(scores[list(subset)]) / len(subsets)
  float32_scores = jnp.asarray(scores, jnp.float32)
  return best_of_k.max_at_k_weights(float32_scores, k), expected


def _change_by_a_step(
  devices: Sequence[jax.Device],
  prompts: int,
  attention: str = "plain",
  dtype: str = "float32",
) -> np.ndarray:
  """Returns the change of the parameters by one step of SGD, as one vector."""
  config = countdown.max_at_k()
  config.method = "grpo(beta=0.0)"
  config.rollout.prompts = prompts
  config.model.attention, config.model.dtype = attention, dtype
  config.model.vocab_size = 32  # 25 rows of the embedding cannot be sharded
  # With an even number of devices, parameters and batch are sharded over fsdp;
  # with a multiple of four, heads are sharded over tensor as well.
  config.mesh.fsdp = 2 if len(devices) % 2 == 0 else 1
  config.mesh.tensor = 2 if len(devices) % 4 == 0 else 1
  e = build.build(config, devices)
  e = dataclasses.replace(e, txs={name: optax.sgd(1.0) for name in e.methods})
  rollout = sizes.random_rollout(e.model.vocab_size, prompts, 4, 8, 8)
  rollout = jax.device_put(rollout, e.rollout_shardings(rollout))
  state = placement.init_state(e)
  train_step = jax.jit(step.make(e.methods, e.policy, e.txs, e.plan))
  new_state, _ = train_step(state, rollout)
  changes = jax.tree.map(jnp.subtract, new_state.params, state.params)
  leaves = jax.device_get(jax.tree.leaves(changes))
  return np.concatenate([x.ravel() for x in leaves])


def _relative_difference(actual: Any, expected: Any) -> float:
  """Returns the norm of the difference over the norm of `expected`."""
  actual, expected = np.asarray(actual), np.asarray(expected)
  return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


# In this order, since the time on a lent machine may end: what no other machine
# shows comes first. "device" measures the ceilings that the others read.
PIECES: Mapping[str, Callable[[Setting], Sequence[outcome.Row]]] = {
  "device": measure_device,
  "trainer": functools.partial(measure_updates, "trainer"),
  "decoding": measure_decoding,
  "fused": measure_fused,
  "seeds": measure_seeds,
  "trainer_long": functools.partial(measure_updates, "trainer_long"),
  "packing": functools.partial(measure_updates, "packing"),
  "iteration": measure_iteration,
  "numbers": check_numbers,
  "trainer_lora": functools.partial(measure_updates, "trainer_lora"),
  "attention": functools.partial(measure_updates, "attention"),
  "larger_model": functools.partial(measure_updates, "larger_model"),
}


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side whose only call measures a piece.

  Its job has the piece, the results of the piece "device" as `ceilings`, and
  the folder `profile` or null.
  """
  devices.configure()
  setting = Setting(
    jax.default_backend() == "cpu",
    dict(zip(("flops", "bandwidth"), job["ceilings"], strict=False)),
    device_mesh.device_memory(jax.devices()[0]) or math.inf,
    job["profile"] and pathlib.Path(job["profile"]),
  )

  def call(number: int) -> dict[str, Any]:
    rows = [dataclasses.asdict(row) for row in PIECES[job["piece"]](setting)]
    return {"rows": rows, "versions": versions(), "tokens": number}

  return protocol.Served({}, call)


if __name__ == "__main__":
  protocol.serve(prepare)
