"""Low-rank adapters: what is trained beside a base that stays as it is.

An adapted projection computes `x W + x A B alpha / r`. The leaves `lora_a` and
`lora_b` stand beside the kernel, so a decoder's parameters remain one nested
dict; `split` parts it in two, and `rl.types.join` puts it together. Several
sets of adapters (a policy and its reference) share one base that way.

Source: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp

from models import transformer
from models.config import ModelConfig
from rl import choices

Array = jax.Array
Params = transformer.Params
LEAVES = ("lora_a", "lora_b")
_HEADS = ("value", "heads")


def targets(config: ModelConfig) -> list[str]:
  """Names of the projections that the config adapts, such as `mlp.up`.

  Raises:
    ValueError: `lora_targets` is no regular expression, or finds none.
  """
  if not config.lora_rank:
    return []
  names = [f"attention.{n}" for n in ("query", "key", "value", "output")]
  if config.experts:
    names.append("experts.router")
  else:
    gate = ["gate"] if config.gated_mlp else []
    names += [f"mlp.{n}" for n in (*gate, "up", "down")]
  text = config.lora_targets
  try:
    found = [name for name in names if re.fullmatch(text, name)]
  except re.error as error:
    raise ValueError(
      f"lora_targets = {text!r} is no regular expression: {error}"
    ) from None
  if not found:
    raise ValueError(choices.unknown("lora_targets", text, names))
  return found


def init(config: ModelConfig, key: Array) -> Params:
  """Fresh adapters: A as a kernel is drawn, B 0, so nothing changes at first.

  Args:
    config: the decoder's shape, with a rank above 0.
    key: PRNG key.

  Returns:
    The nested dict of the adapters alone, float32.
  """
  return split(config, transformer.init(config, key))[0]


def split(config: ModelConfig, params: Params) -> tuple[Params, Params]:
  """What is trained, and what stays frozen.

  Args:
    config: the decoder's shape; of rank 0 everything is trained.
    params: its parameters.

  Returns:
    Adapters and heads, and all the rest; or everything, and nothing.
  """
  if not config.lora_rank:
    return params, {}
  heads = {name: params[name] for name in _HEADS if name in params}
  base = {name: leaf for name, leaf in params.items() if name not in heads}
  return {**heads, **_only(base, True)}, _only(base, False)


def merge(config: ModelConfig, params: Params) -> tuple[ModelConfig, Params]:
  """The decoder without adapters that is the same function.

  `W + A B alpha / r`, summed in float32 and rounded to the kernel's dtype.

  Args:
    config: the decoder's shape.
    params: base and adapters.

  Returns:
    The shape without adapters, and its parameters.
  """
  if not config.lora_rank:
    return config, params
  scale = config.lora_alpha / config.lora_rank

  def merged(tree: Params) -> Params:
    if not isinstance(tree, dict):
      return tree
    tree = {name: merged(leaf) for name, leaf in tree.items()}
    if "lora_a" in tree:
      a, b = tree.pop("lora_a"), tree.pop("lora_b")
      kernel = tree["kernel"]
      multiply = functools.partial(jnp.tensordot, axes=1, precision="highest")
      product = jax.vmap(multiply)(a, b)
      kernel = kernel.astype(jnp.float32) + scale * product
      tree["kernel"] = kernel.astype(tree["kernel"].dtype)
    return tree

  return dataclasses.replace(config, lora_rank=0), merged(params)


def _only(tree: Params, adapters: bool) -> Params:
  """The adapters of a tree, or all but them; without empty branches."""
  found = {}
  for name, leaf in tree.items():
    if isinstance(leaf, dict):
      if inner := _only(leaf, adapters):
        found[name] = inner
    elif (name in LEAVES) == adapters:
      found[name] = leaf
  return found
