"""The outcome beside what a judge or a model says of the way to it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import calibration, consistency, flaws, gates, hybrid, novelty
from rewards.sources import reading
from rl import masked, types
from rl.sampling import random_keys
from rl.transforms import transform

Array = jax.Array


@transform("none", "sample")
def posterior(_, rollout: types.Rollout, *, thoughts: str) -> Array:
  """`gates.posterior`; `thoughts` is the component of a judge of reasoning."""
  return gates.posterior(
    rollout.correct,
    reading.component(rollout, thoughts),
    rollout.finished.astype(jnp.float32),
  )


@transform("none", "sample")
def flaw_aware(
  _, rollout: types.Rollout, *, flawed: str, weight: float = 1.0
) -> Array:
  """`flaws.flaw_aware`; `flawed` is the component of a judge of flaws."""
  return flaws.flaw_aware(
    rollout.correct, reading.component(rollout, flawed), weight
  )


@transform("none", "sample", needs=(reading.ANSWERS, reading.SHUFFLED))
def answer_consistency(
  _,
  rollout: types.Rollout,
  *,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """`consistency.answer_consistency`, of options asked for once more.

  "task/shuffled_answer_ids" `[P, S]` are what was chosen among shuffled ones,
  as first numbered: -1 is none, below it nobody asked.
  """
  again = rollout.extras[reading.SHUFFLED]
  return consistency.answer_consistency(
    rollout.extras[reading.ANSWERS],
    again,
    rollout.correct,
    again >= -1,
    consistent_right,
    inconsistent_right,
    consistent_wrong,
  )


@transform("none", "sample")
def concise(
  _, rollout: types.Rollout, *, conciseness: str, alpha: float = 1.0
) -> Array:
  """`gates.concise`; `conciseness` is the component of a model of it."""
  judged = reading.component(rollout, conciseness)
  return gates.concise(rollout.correct, judged, alpha=alpha)


@transform("none", "sample")
def stratified(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  alpha: float = 0.05,
  beta: float = 0.05,
) -> Array:
  """`hybrid.stratified`; `model` is the component of a reward model."""
  scores = reading.component(rollout, model)
  return hybrid.stratified(
    rollout.correct, scores, alpha, beta, rollout.sample_mask
  )


@transform("none", "sample")
def trusted(
  _,
  rollout: types.Rollout,
  *,
  thoughts: str,
  weight: float = 0.3,
  horizon: float = 500.0,
) -> Array:
  """`hybrid.trusted`; `thoughts` is the component of a judge of reasoning."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return hybrid.trusted(
    right,
    reading.component(rollout, thoughts),
    rollout.step,
    weight,
    horizon,
    rollout.sample_mask,
  )


@transform("none", "sample")
def brier(_, rollout: types.Rollout, *, forecast: str, stated: str) -> Array:
  """`calibration.brier`; `forecast` is the component of stated probabilities.

  `stated` is the component that is 1 where one could be read: a verifier's part
  that is missing is 0, which would be a forecast too.
  """
  value = reading.component(rollout, forecast)
  parsed = (
    (reading.component(rollout, stated) > 0.5) & (value >= 0) & (value <= 1)
  )
  return calibration.brier(value, rollout.correct == 1, parsed)


@transform(
  "none",
  "sample",
  init=lambda size, seed, **_: novelty.init(jax.random.key(seed), size),
  needs=(reading.HIDDEN,),
)
def novelty_bonus(
  _,
  rollout: types.Rollout,
  state: novelty.Novelty,
  *,
  size: int,
  seed: int = 0,
  share: float = 0.25,
  rate: float = 1e-4,
) -> tuple[Array, novelty.Novelty]:
  """`novelty.next_bonus` among the right and among the wrong answers.

  It observes the mean over a completion of the policy's own hidden states,
  which move with the policy; `size` is its width. The bands are those of
  `hybrid.stratified`.
  """
  del seed  # of the networks
  states, seen = rollout.extras[reading.HIDDEN], rollout.valid("token")
  if states.shape[-1] != size:
    raise ValueError(
      f"size = {size} must be the policy's width, {states.shape[-1]}"
    )
  wide = jnp.broadcast_to(seen[..., None], states.shape)
  means = masked.mean(states.astype(jnp.float32), wide, -2)
  bonus, state = novelty.next_bonus(
    state,
    means[:, :, None],
    seen.any(-1)[..., None],
    random_keys.keys(rollout.keys, "novelty_bonus")[0],
    share=share,
    rate=rate,
  )
  valid = rollout.sample_mask
  scores = hybrid.stratified(rollout.correct, bonus[..., 0], valid=valid)
  return scores, state
