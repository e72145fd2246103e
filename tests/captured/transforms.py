"""Records each shared transform, filter and aggregation of `rl` alone.

Methods use most of them, but none of them all. A level-agnostic transform is
recorded at each of its levels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from captured import code, rewards, rollouts

TRANSFORMS: dict[str, dict[str, Any]] = {
  "accuracy_between": {},
  "all_finished": {},
  "broadcast": {},
  "broadcast_steps": {},
  "components": {"names": ("accuracy", "style")},
  "finished": {},
  "last_step": {},
  "log_ratios": {"model": "old", "reference": "ref"},
  "max_steps": {},
  "mean_steps": {},
  "mean_tokens": {},
  "min_steps": {},
  "minus_others_mean_return": {"horizon": 20},
  "minus_running_mean": {"decay": 0.6},
  "mixed_verdicts": {},
  "pass_at_k_advantages": {"k": 2},
  "place_at_step_ends": {},
  "place_last": {},
  "returns_to_go": {"gamma": 0.9},
  "scores": {},
  "step_scores": {},
  "sum_steps": {},
  "sum_tokens": {},
  "verdicts": {},
  "weighted_sum": {"weights": (0.3, 0.7)},
  "whiten": {"ddof": 1},
}
AGGREGATES = (
  "token_mean",
  "token_sum",
  "seq_mean_token_mean",
  "seq_mean_token_sum",
  "seq_mean_token_sum_norm",
  "prompt_mean_token_sum",
  "sample_mean",
  "prompt_mean",
)


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  built = {
    f"transform:{code.recorded_name(name)}": functools.partial(_applied, name)
    for name in TRANSFORMS
  }
  built |= {
    f"aggregation:{name}": functools.partial(_aggregated, name)
    for name in AGGREGATES
  }
  return built


def _signal(level: str, seed: int) -> Any:
  """A random signal at a level."""
  P, S, T, K = rollouts.P, rollouts.S, rollouts.T, rollouts.K
  shapes = {
    "scalar": (),
    "prompt": (P,),
    "sample": (P, S),
    "vector": (2, P, S),
    "step": (P, S, K),
    "token": (P, S, T),
  }
  if level == "none":
    return None
  sampled = np.random.default_rng(seed).standard_normal(shapes[level])
  return jnp.asarray(sampled, jnp.float32)


def _applied(name: str) -> dict[str, Any]:
  """The transform on two rollouts, whose masks have gaps among the steps."""
  transform = code.find("transforms", name)(**TRANSFORMS[name])
  levels = transform.takes
  results = {}
  for level in (levels,) if isinstance(levels, str) else levels:
    bound = transform.bind(level) if transform.bind else transform
    state = bound.init()
    for seed in (0, 1):
      mask = rollouts.arrays(seed)["step_mask"].copy()
      mask[::2, 1::2, -1] = False
      rollout = rollouts.rollout(seed, 60 * seed, step_mask=mask)
      rollout = rewards.with_needs(rollout, bound.needs)
      value, state = bound.apply(_signal(level, seed), rollout, state)
      results[f"{level}/{seed}"] = {"value": value, "state": state}
  return results


def _aggregated(name: str) -> dict[str, Any]:
  """The weights that an aggregation gives each token, sample or prompt."""
  aggregate = code.find("aggregates", name)()
  mask = rollouts.rollout().valid("token")
  return {"weights": aggregate.fn(mask), "none": aggregate.fn(mask & False)}
