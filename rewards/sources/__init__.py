"""Rewards of a rollout, by name: `get("majority", threshold=0.5)`.

The functions of `rewards` read arrays; here each that a rollout can feed is
bound to it, as a transform from nothing to samples or to steps
(`rl.transforms.base`). What it needs beyond the rollout is declared: a pass over the
sampled text, over the reference answer after the sampled thought (the view
"reference", which a task gives), over the completion without its question (the
view "alone"), or what a task or a stage says. So it is scored once, by the one
scoring function, and its cost is logged (`cost/<source>@<view>_tokens`).

Usage:
  Reward((("vote", sources.get("majority")),), total=...)   # or rewards.mix
  chain(sources.get("self_aligned_reward", weight=0.5), group_normalize())

Names of components are those that the task gives, or earlier terms of the same
reward. One of your own is a function in one of `FILES`, which are read when the
first reward is asked for.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from rl import choices
from rl.methods import settings, unfinished
from rl.transforms import Transform

FILES = (
  "outcome",
  "text",
  "answers",
  "likelihoods",
  "shapes",
  "judged",
  "steps",
)


@functools.cache
def _files() -> list[types.ModuleType]:
  return [unfinished.module(f"{__name__}.{file}") for file in FILES]


def known() -> dict[str, Callable[..., Transform]]:
  """What makes each reward, by its name.

  Raises:
    ImportError: one of `FILES` has a mistake.
  """
  return {
    name: value
    for file in _files()
    for name, value in vars(file).items()
    if not name.startswith("_") and hasattr(value, "__signature__")
  }


def names() -> list[str]:
  """The rewards that `get` knows, sorted."""
  return sorted(known())


def get(name: str, **hyper: Any) -> Transform:
  """A reward of a rollout.

  Args:
    name: one of `names()`.
    **hyper: its hyper-parameters; those not given keep their defaults.

  Returns:
    The transform, none -> sample or none -> step.

  Raises:
    ValueError: the name or a hyper-parameter is unknown, of another type, or
      missing.
  """
  made = known()
  if name not in made:
    raise ValueError(choices.unknown("reward", name, made))
  make = made[name]
  settings.check("setting", f"reward {name!r}", make, hyper)
  try:
    return make(**hyper)
  except TypeError as error:
    raise ValueError(f"reward {name}: {error}") from None
