"""The decoder that a config asks for: of a folder, of a preset, or its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import ml_collections

from experiments import tasks
from models import lora, presets
from models.config import ModelConfig
from models.rope import RopeScaling

# What a config says of a decoder whose shape a folder or a preset gives.
_OWN = (
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

# What suits a platform, where the config leaves it open: the first form of
# attention that can serve the decoder, and the layers in a step of their scan.
# cuDNN's has not run yet, so it is taken only where it is asked for.
_FORMS: Mapping[str, Sequence[str]] = {"tpu": ("splash", "blocked")}
_KERNELS: Mapping[str, str] = {"splash": "tpu", "cudnn": "gpu"}
_OVER_CONTEXT = "blocked"  # where tokens of a sequence are on several devices
# Without a loop the CPU's compiler computes all layers again at once, and saves
# no memory: with remat there is a loop.
_UNROLLS: Mapping[str, int] = {"cpu": 0}


def make(
  config: ml_collections.ConfigDict,
  task: tasks.Task,
  platform: str | None = None,
) -> ModelConfig:
  """The decoder's shape: of a folder, of a preset, or `config.model`.

  There `vocab_size` 0 takes the task's, and None, as `attention` or `unroll`,
  what suits the platform: on CPU blocks of queries and no loop over the layers.
  On accelerators a loop, which compiles faster, and on TPUs splash attention.

  Args:
    config: of the experiment.
    task: which it is to solve.
    platform: of the devices that will run it; None: JAX's own choice.
  """
  platform = platform or jax.default_backend()
  settings = dict(config.model)
  asked = settings.get("attention")
  split = (config.mesh.get("context") or 1) != 1
  if split and asked not in (None, _OVER_CONTEXT):
    raise ValueError(
      f"model.attention = {asked!r} keeps a sequence on one device; with "
      f"mesh.context = {config.mesh.context} use {_OVER_CONTEXT!r}, or None"
    )
  settings["attention"] = asked or "plain"
  asked_unroll = settings.get("unroll")
  if _KERNELS.get(asked, platform) != platform:
    raise ValueError(
      f"model.attention = {asked!r} runs on {_KERNELS[asked]}, not on "
      f"{platform}; nearest: 'blocked', or None for what suits"
    )
  settings["unroll"] = 1 if asked_unroll is None else asked_unroll
  own = {name: settings[name] for name in _OWN}
  path, preset = config.policy.path, config.policy.preset
  if path:
    from models import hf  # imports transformers

    hf.check_folder(path)
    shape = hf.load_config(path)
    _check_heads(path, dict(shape.extra_heads), dict(own["extra_heads"]))
    model = dataclasses.replace(shape, **own)
    hf.check_tokenizer(model, task.vocab_size, path)
  elif preset:
    model = presets.get(preset, **own)
  else:
    settings["vocab_size"] = settings["vocab_size"] or task.vocab_size
    try:
      if settings["rope_scaling"] is not None:
        settings["rope_scaling"] = RopeScaling(**settings["rope_scaling"])
      model = ModelConfig(**settings)
    except TypeError as error:
      raise ValueError(f"model: {error}") from None
  if model.vocab_size < task.vocab_size:
    raise ValueError(
      f"model.vocab_size = {model.vocab_size} is smaller than the "
      f"{task.vocab_size} tokens of {task.name}; use at least "
      f"{task.vocab_size}, or 0 for just as many"
    )
  lora.target_names(model)  # refuses an expression that finds nothing
  return choose_fast_forms(
    model, platform, attention=asked, unroll=asked_unroll, split=split
  )


def choose_fast_forms(
  model: ModelConfig,
  platform: str | None = None,
  *,
  attention: str | None = None,
  unroll: int | None = None,
  split: bool = False,
) -> ModelConfig:
  """Returns the decoder in the forms that are fast on a platform.

  The forms change the speed and the rounding, not the function. Runs and
  commands on Hugging Face folders all choose them here.

  Args:
    model: shape of the decoder. Its `attention` and `unroll` are replaced.
    platform: platform of the devices; None is JAX's default backend.
    attention: form of attention to use; None chooses one.
    unroll: layers in one step of the scan over layers; None chooses.
    split: whether the tokens of a sequence lie on several devices.
  """
  platform = platform or jax.default_backend()
  if unroll is None:
    without_remat = model.remat == "none"
    unroll = _UNROLLS.get(platform, 1) if without_remat else 1
  if attention is None:
    forms = (_OVER_CONTEXT,) if split else _FORMS.get(platform, ("blocked",))
    attention = next(
      form for form in forms if not model.attention_refusal(form)
    )
  return dataclasses.replace(model, attention=attention, unroll=unroll)


def _check_heads(
  path: str, there: Mapping[str, int], wanted: Mapping[str, int]
) -> None:
  for name in there.keys() & wanted.keys():
    if there[name] != wanted[name]:
      raise ValueError(
        f"model.extra_heads: {name!r} of {path} has {there[name]} outputs, not "
        f"{wanted[name]}; use as many, or another name"
      )
