"""The outcome, and what it cost in tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import length, shaping
from rewards.sources import reading
from rl import types
from rl.transforms import lift, transform

Array = jax.Array


@transform("none", "sample")
def task(_, rollout: types.Rollout) -> Array:
  """The task's own graded score."""
  return rollout.scores


@transform("none", "sample")
def verdict(_, rollout: types.Rollout, *, wrong: float = 0.0) -> Array:
  """1 where the verdict is right, else `wrong`."""
  return jnp.where(rollout.correct == 1, 1.0, wrong)


@transform("none", "sample")
def component(_, rollout: types.Rollout, *, of: str) -> Array:
  """A part that the task scores by itself, by its name."""
  return reading.component(rollout, of)


@transform("none", "sample")
def finished(_, rollout: types.Rollout) -> Array:
  """1 where the completion ended by itself, else 0."""
  return rollout.finished.astype(jnp.float32)


relative_length = lift(
  length.relative_length,
  "none",
  "sample",
  correct=reading.correct,
  lengths=reading.lengths,
  valid=reading.valid,
)
harmonized_length = lift(
  length.harmonized_length,
  "none",
  "sample",
  lengths=reading.lengths,
  valid=reading.valid,
)
length_charge = lift(
  shaping.length_charge, "none", "sample", lengths=reading.lengths
)


@transform("none", "sample")
def charged_where_easy(
  _, rollout: types.Rollout, *, fraction: float = 0.2, alpha: float = 0.2
) -> Array:
  """The verdict, on the easiest prompts with `length.relative_length`.

  GRPO-lambda: length is charged only where the batch is solved best.
  """
  valid = rollout.sample_mask
  easy = length.easiest(rollout.correct, fraction, valid)
  charged = length.relative_length(
    rollout.correct, rollout.scored_lengths, alpha, valid
  )
  plain = (rollout.correct == 1).astype(jnp.float32)
  return jnp.where(easy[:, None], charged, plain)


@transform("none", "sample", init=lambda price, **_: jnp.float32(price))
def adaptive_token_price(
  _,
  rollout: types.Rollout,
  state: Array,
  *,
  price: float = 1e-3,
  reference: float = 0.5,
  rate: float = 1e-3,
) -> tuple[Array, Array]:
  """`length.token_price` at a price that `length.next_price` moves.

  A-DLP: tokens cost more while the accuracy is above `reference`.
  """
  valid = rollout.sample_mask
  value = length.token_price(
    rollout.correct, rollout.scored_lengths, state, valid
  )
  known = valid & (rollout.correct >= 0)
  count = known.sum()
  accuracy = ((rollout.correct == 1) & known).sum() / jnp.maximum(count, 1)
  moved = length.next_price(state, accuracy, reference, rate)
  return value, jnp.where(count > 0, moved, state)
