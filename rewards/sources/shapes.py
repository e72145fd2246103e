"""Shapes of a score: of the task's, or of a component."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rewards import ensembles, shaping, spread
from rewards.sources import reading
from rl import choices, types
from rl.transforms import Transform, transform

Array = jax.Array


def _shaped(shape: Callable) -> Callable[..., Transform]:
  """A relative shape of the task's score, as a source of its own name."""

  def relative(
    _, rollout: types.Rollout, *, references: str, of: str = ""
  ) -> Array:
    values = reading.scores(rollout, of)
    known = rollout.extras[reading.need(references)]
    known = jnp.asarray(known).reshape(values.shape[0], 1, -1)
    there = jnp.isfinite(known)
    return shape(values, jnp.where(there, known, 0.0), there)

  needs = lambda references, of: {reading.need(references)}  # noqa: E731
  return transform("none", "sample", needs=needs)(
    reading.named(relative, shape)
  )


preference = _shaped(shaping.preference)
late_preference = _shaped(shaping.late_preference)
centered = _shaped(shaping.centered)
tanh = _shaped(shaping.tanh)
arctan = _shaped(shaping.arctan)
polynomial = _shaped(shaping.polynomial)


@transform("none", "sample")
def log_sigmoid(
  _, rollout: types.Rollout, *, of: str = "", reference: float = 0.0
) -> Array:
  """`shaping.log_sigmoid` of the task's score, or of a component."""
  values = reading.scores(rollout, of)
  return shaping.log_sigmoid(values, reference)


@transform("none", "sample")
def ceiling(
  _, rollout: types.Rollout, *, highest: float, of: str = ""
) -> Array:
  """`shaping.ceiling`, min(r, highest), of the task's score or a component."""
  values = reading.scores(rollout, of)
  return shaping.ceiling(values, highest)


def _of_stream(shape: Callable) -> Callable[..., Transform]:
  """A shape by the moments of all scores so far, this batch's included."""

  def streamed(
    _, rollout: types.Rollout, state: shaping.Moments, *, of: str = ""
  ) -> tuple[Array, shaping.Moments]:
    values = reading.scores(rollout, of)
    state = shaping.observe(state, values, rollout.sample_mask)
    return shape(values, state), state

  init = lambda of: shaping.init_moments()  # noqa: E731
  return transform("none", "sample", init=init)(reading.named(streamed, shape))


standardized = _of_stream(shaping.standardized)
clipped = _of_stream(shaping.clipped)
min_max = _of_stream(shaping.min_max)

ENSEMBLES: Mapping[str, Callable[[Array], Array]] = {
  "mean": ensembles.mean,
  "median": ensembles.median,
  "worst": ensembles.worst,
  "less_spread": ensembles.less_spread,
  "less_variance": ensembles.less_variance,
}


@transform("none", "sample")
def ensemble(
  _,
  rollout: types.Rollout,
  *,
  members: tuple[str, ...],
  rule: str = "mean",
  center: bool = False,
) -> Array:
  """Several components as members of an ensemble, by one of `ENSEMBLES`.

  `center` takes each member's mean over the group away first.
  """
  if rule not in ENSEMBLES:
    raise ValueError(choices.unknown("rule", rule, ENSEMBLES))
  found = jnp.stack([reading.component(rollout, name) for name in members])
  if center:
    found = ensembles.center_members(found, rollout.sample_mask)
  return ENSEMBLES[rule](found)


@transform("none", "sample")
def stretched_with_progress(
  _, rollout: types.Rollout, *, over: int, of: str = "", least: float = 0.0
) -> Array:
  """`spread.stretched_with_progress`, whole after `over` training steps.

  Of the task's score, or of a component.
  """
  if over < 1:
    raise ValueError(f"over = {over} training steps must be at least 1")
  return spread.stretched_with_progress(
    reading.scores(rollout, of), rollout.step / over, rollout.sample_mask, least
  )
