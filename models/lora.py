"""Low-rank adapters (LoRA): a small set of trained parameters on a frozen base.

A projection with kernel W and adapters A and B computes
`x W + x A B alpha / r`, where r is `lora_rank` (`layers.Linear`). The leaves
`lora_a` and `lora_b` are next to the projection's kernel in the decoder's
nested dict of parameters. `split` separates trained parameters from frozen
ones, and `rl.types.join` joins them. In this way several sets of adapters, such
as a policy's and its reference policy's, can share one frozen base.

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
from rl import UsageError, registry

Array = jax.Array
Params = transformer.Params
LEAVES = ("lora_a", "lora_b")
_HEADS = (
  "value",
  "heads",
)  # top-level keys of heads, trained with the adapters


def target_names(config: ModelConfig) -> list[str]:
  """Returns the names of projections that get adapters, such as `mlp.up`.

  It is empty if `lora_rank` is 0.

  Raises:
    UsageError: `lora_targets` is not a regular expression, or matches no name.
  """
  if not config.lora_rank:
    return []
  names = [f"attention.{n}" for n in ("query", "key", "value", "output")]
  if config.experts:
    names.append("experts.router")
  else:
    gate = ["gate"] if config.gated_mlp else []
    names += [f"mlp.{n}" for n in (*gate, "up", "down")]
  pattern = config.lora_targets
  try:
    targets = [name for name in names if re.fullmatch(pattern, name)]
  except re.error as error:
    raise UsageError(
      f"lora_targets = {pattern!r} is not a regular expression: {error}"
    ) from None
  if not targets:
    raise UsageError(registry.describe_unknown("lora_targets", pattern, names))
  return targets


def init(config: ModelConfig, key: Array) -> Params:
  """Initializes adapters and heads.

  B is 0, so adapters do not change the decoder's function at first.

  Args:
    config: the decoder's config, with `lora_rank` above 0.
    key: PRNG key.

  Returns:
    The adapters and heads, float32, in the form in which `split` returns the
    trained parameters.
  """
  return split(config, transformer.init(config, key))[0]


def split(config: ModelConfig, params: Params) -> tuple[Params, Params]:
  """Splits parameters into trained and frozen ones.

  Args:
    config: the decoder's config.
    params: the decoder's parameters, with adapters if `lora_rank` is not 0.

  Returns:
    The trained parameters (adapters, the value head and the extra heads) and
    the frozen ones (all others). With `lora_rank = 0` all are trained.
  """
  if not config.lora_rank:
    return params, {}
  heads = {name: params[name] for name in _HEADS if name in params}
  base = {name: leaf for name, leaf in params.items() if name not in heads}
  trained = {**heads, **_select(base, adapters=True)}
  return trained, _select(base, adapters=False)


def merge(config: ModelConfig, params: Params) -> tuple[ModelConfig, Params]:
  """Merges adapters into the kernels: `W + A B alpha / r`.

  The sum is computed in float32 and rounded to the kernel's dtype.

  Args:
    config: the decoder's config.
    params: all parameters of the decoder, base and adapters.

  Returns:
    The config and the parameters of the same decoder without adapters.
  """
  if not config.lora_rank:
    return config, params
  scale = config.lora_alpha / config.lora_rank

  def merge_tree(tree: Params) -> Params:
    if not isinstance(tree, dict):
      return tree
    tree = {name: merge_tree(leaf) for name, leaf in tree.items()}
    if "lora_a" in tree:
      a, b = tree.pop("lora_a"), tree.pop("lora_b")
      kernel = tree["kernel"]
      # [layers, inputs, r] by [layers, r, outputs], layer by layer.
      multiply = functools.partial(jnp.tensordot, axes=1, precision="highest")
      product = jax.vmap(multiply)(a, b)
      kernel = kernel.astype(jnp.float32) + scale * product
      tree["kernel"] = kernel.astype(tree["kernel"].dtype)
    return tree

  return dataclasses.replace(config, lora_rank=0), merge_tree(params)


def _select(tree: Params, adapters: bool) -> Params:
  """Selects the adapters of a tree, or all other leaves; drops empty dicts."""
  selected = {}
  for name, leaf in tree.items():
    if isinstance(leaf, dict):
      if inner := _select(leaf, adapters):
        selected[name] = inner
    elif (name in LEAVES) == adapters:
      selected[name] = leaf
  return selected
