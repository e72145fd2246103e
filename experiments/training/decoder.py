"""Chooses the shape of the decoder: from a folder, a preset, or the config."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import ml_collections

from experiments import tasks
from models import lora, presets
from models.config import ModelConfig
from models.rope import RopeScaling
from rl import UsageError, learners, scoring
from rl.method import Method

# Keys of `config.model` that replace those of a folder or a preset.
_ALWAYS_FROM_CONFIG = (
  "dtype",
  "param_dtype",
  "remat",
  "attention",
  "unroll",
  "value_head",
  "extra_heads",
  "lora_rank",
  "lora_alpha",
  "lora_targets",
)

# Platform -> forms of attention, fastest first; other platforms use "blocked".
# The first form that supports the decoder is used.
_FASTEST_ATTENTION: Mapping[str, Sequence[str]] = {
  "tpu": ("splash", "blocked"),
  "gpu": ("cudnn", "blocked"),
}
KERNEL_PLATFORMS: Mapping[str, str] = {"splash": "tpu", "cudnn": "gpu"}
# The only form that can split the tokens of a sequence over devices.
CONTEXT_ATTENTION = "blocked"
# Platform -> layers in one iteration of the loop over layers; 0 unrolls all
# layers. Small programs that XLA compiles for CPU run faster with unrolled
# layers. Large ones only compile longer: SmolLM2-135M on two cores samples and
# computes a gradient equally fast either way (within 5 %), and the first calls
# take 4 and 7 s in a loop, 11 and 14 s unrolled. With remat, unrolled layers
# would all be recomputed at once, which saves no memory, so `choose_fast_forms`
# then uses a loop.
_FASTEST_UNROLL: Mapping[str, int] = {"cpu": 0}
_MAX_UNROLLED_CPU_PARAMS = 20_000_000
# The same for decoding, where it differs. A GPU decodes unrolled layers twice
# as fast (0.6B parameters, 64 rows), but their parameters are in memory twice
# and the program is large, so that the limit is this number of parameters.
_FASTEST_DECODE_UNROLL: Mapping[str, int] = {"gpu": 0}
_MAX_UNROLLED_PARAMS = 2_000_000_000


def make(
  config: ml_collections.ConfigDict,
  task: tasks.Task,
  folder: str = "",
  platform: str | None = None,
) -> ModelConfig:
  """Makes the shape of the decoder from a folder, a preset, or `config.model`.

  Args:
    config: config of the experiment. If `model.vocab_size` is 0, the decoder
      has the vocabulary size of the task. If `model.attention` or
      `model.unroll` is None, `choose_fast_forms` chooses it.
    task: task whose vocabulary size is used.
    folder: folder of `config.policy.path`, or "".
    platform: platform of the devices; None is JAX's default backend.
  """
  platform = platform or jax.default_backend()
  settings = dict(config.model)
  attention, unroll = settings["attention"], settings["unroll"]
  # `choose_fast_forms` replaces both.
  settings["attention"] = attention or "plain"
  settings["unroll"] = unroll or 1
  overrides = {name: settings[name] for name in _ALWAYS_FROM_CONFIG}
  if folder:
    from models import hf  # imports transformers

    hf.check_folder(folder)
    model = dataclasses.replace(hf.load_config(folder), **overrides)
  elif config.policy.preset:
    model = presets.get(config.policy.preset, **overrides)
  else:
    settings["vocab_size"] = settings["vocab_size"] or task.vocab_size
    try:
      if settings["rope_scaling"] is not None:
        settings["rope_scaling"] = RopeScaling(**settings["rope_scaling"])
      model = ModelConfig(**settings)
    except TypeError as error:
      raise UsageError(f"model: {error}") from None
  return choose_fast_forms(
    model,
    platform,
    attention=attention,
    unroll=unroll,
    splits_sequences=(config.mesh.get("context") or 1) != 1,
  )


def check_attention(config: ml_collections.ConfigDict, platform: str) -> None:
  """Checks that a form of attention runs on the platform and on the mesh."""
  attention = config.model.attention
  if attention is None:  # `decoder.choose_fast_forms` chooses one that does
    return
  splits_sequences = (config.mesh.get("context") or 1) != 1
  if splits_sequences and attention != CONTEXT_ATTENTION:
    raise UsageError(
      f"model.attention = {attention!r} keeps a sequence on one device; with "
      f"mesh.context = {config.mesh.context} use "
      f"{CONTEXT_ATTENTION!r}, or None"
    )
  kernel_platform = KERNEL_PLATFORMS.get(attention, platform)
  if kernel_platform != platform:
    raise UsageError(
      f"model.attention = {attention!r} runs on {kernel_platform}, not on "
      f"{platform}; nearest: 'blocked', or None for the fastest form"
    )


def check(
  config: ml_collections.ConfigDict,
  model: ModelConfig,
  task: tasks.Task,
  folder: str,
) -> None:
  """Checks the decoder against the task, and against a folder of weights.

  Args:
    config: config of the experiment.
    model: the decoder.
    task: task whose tokens the decoder reads.
    folder: folder of `config.policy.path`, or "".
  """
  if folder:
    from models import hf  # imports transformers

    heads = dict(config.model.extra_heads)
    for name, size in dict(hf.load_config(folder).extra_heads).items():
      if heads.get(name, size) != size:
        raise UsageError(
          f"model.extra_heads: {name!r} of {folder} has {size} outputs, not "
          f"{heads[name]}; use {size}, or another name"
        )
    hf.check_tokenizer(model, task.vocab_size, folder)
  if model.vocab_size < task.vocab_size:
    raise UsageError(
      f"model.vocab_size = {model.vocab_size} is smaller than the "
      f"{task.vocab_size} tokens of {task.name}; use at least "
      f"{task.vocab_size}, or 0 for exactly as many"
    )
  lora.target_names(model)  # refuses an expression that matches no parameter


def check_value_head(model: ModelConfig, methods: Mapping[str, Method]) -> None:
  """Checks that the decoder has the value head that a critic needs."""
  heads = {
    need.probe.head
    for learner in methods.values()
    for need in learner.signal_needs | learner.term_needs
    if need.source not in scoring.EXTERNAL_SOURCES
  }
  if "value" in heads and not model.value_head:
    raise UsageError(
      f"{methods[learners.POLICY].name} reads a value head, which the policy "
      "does not have: add --config.model.value_head=True"
    )


def choose_fast_forms(
  model: ModelConfig,
  platform: str | None = None,
  *,
  attention: str | None = None,
  unroll: int | None = None,
  splits_sequences: bool = False,
) -> ModelConfig:
  """Returns the shape of the decoder with the fastest forms for a platform.

  A form of attention, and the unrolling of layers, change speed and rounding
  but not the function that the decoder computes. Runs, and commands that read
  Hugging Face folders, call this function.

  Args:
    model: shape of the decoder. Its `attention`, `unroll` and `decode_unroll`
      are replaced.
    platform: platform of the devices; None is JAX's default backend.
    attention: form of attention; None chooses the fastest.
    unroll: layers in one iteration of the loop over layers; None chooses the
      fastest number.
    splits_sequences: whether the tokens of a sequence are split over devices.
  """
  platform = platform or jax.default_backend()
  decode_unroll = None
  if unroll is None:
    num_params = presets.parameter_count(model)
    unroll = _FASTEST_UNROLL.get(platform, 1)
    if model.remat != "none" or num_params > _MAX_UNROLLED_CPU_PARAMS:
      unroll = 1
    if (
      platform in _FASTEST_DECODE_UNROLL and num_params <= _MAX_UNROLLED_PARAMS
    ):
      decode_unroll = _FASTEST_DECODE_UNROLL[platform]
  if attention is None:
    forms = _FASTEST_ATTENTION.get(platform, ("blocked",))
    if splits_sequences:
      forms = (CONTEXT_ATTENTION,)
    attention = next(
      form
      for form in forms
      if not model.attention_limit(form) and (form != "cudnn" or _has_cudnn())
    )
  return dataclasses.replace(
    model, attention=attention, unroll=unroll, decode_unroll=decode_unroll
  )


def describe_forms(model: ModelConfig) -> str:
  """Returns the forms that `choose_fast_forms` chooses, as text.

  An example is "attention blocked, 30 layers in a loop, float32".
  """

  def describe_loop(unroll: int) -> str:
    if unroll == 0 or unroll >= model.layers:
      return "unrolled"
    return "in a loop" if unroll == 1 else f"in a loop of {unroll} at a time"

  layers = f"{model.layers} layers {describe_loop(model.unroll)}"
  if model.decode_unroll not in (None, model.unroll):
    layers += f" (decoding: {describe_loop(model.decode_unroll)})"
  return f"attention {model.attention}, {layers}, {model.dtype}"


@functools.cache
def _has_cudnn() -> bool:
  """Returns whether JAX finds cuDNN and a GPU that its attention runs on."""
  x = jax.ShapeDtypeStruct((1, 8, 1, 8), "bfloat16")
  attend = functools.partial(
    jax.nn.dot_product_attention, implementation="cudnn"
  )
  # The trace fails on a machine without a GPU, whose programs for GPUs are only
  # compiled (`experiments.aot`), unless cuDNN is installed there.
  try:
    jax.eval_shape(attend, x, x, x)
  except RuntimeError:
    return False
  return True
