"""All conditions: a right answer that a judge accepts too, and that ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


@transform(takes="none", gives="sample")
def all_conditions(
  _,
  rollout: types.Rollout,
  *,
  conditions: tuple[str, ...],
  threshold: float = 0.5,
) -> Array:
  """Returns 1 if all conditions are met, -1 for a truncated sample, else 0.

  The conditions are a right verdict, such as that a text obeys all rules that a
  program can check, and components that exceed the threshold, such as a judge's
  answer whether the text does what the question is meant to ask for. A text
  that obeys the rules and says nothing meets the first alone.

  Source: Guo et al. 2025, IFDecorator: Wrapping Instruction Following
  Reinforcement Learning with Verifiable Rewards.

  Args:
    conditions: names of the components.
    threshold: value that each of them must exceed.
  """
  met = base.is_right(rollout.correct)
  for name in conditions:
    met &= base.read_component(rollout, name) > threshold
  return jnp.where(rollout.finished, met.astype(jnp.float32), -1.0)
