"""The answers of a group against each other, and controls that say nothing."""

from __future__ import annotations

import jax

from rewards import controls, labelfree
from rewards.sources import reading
from rl import types
from rl.transforms import lift, transform

Array = jax.Array

majority = lift(
  labelfree.majority,
  "none",
  "sample",
  needs=(reading.ANSWERS,),
  answer_ids=reading.of(reading.ANSWERS),
  valid=reading.valid,
)
cluster_share = lift(
  labelfree.cluster_share,
  "none",
  "sample",
  needs=(reading.ANSWERS,),
  answer_ids=reading.of(reading.ANSWERS),
  valid=reading.valid,
)


@transform("none", "sample", needs=(reading.ANSWERS, reading.PARAPHRASE))
def co_reward(_, rollout: types.Rollout) -> Array:
  """`labelfree.co_reward` of this wording, labelled by the other's majority.

  "task/paraphrase_answer_ids" `[P, S]` are answers to the other wording.
  """
  answers = rollout.extras[reading.ANSWERS], rollout.extras[reading.PARAPHRASE]
  return labelfree.co_reward(*answers, rollout.sample_mask)[0]


# Controls: what says nothing, or lies.

coins = lift(
  controls.coins,
  "none",
  "sample",
  keys=reading.keys,
  samples=lambda rollout: rollout.sample_mask.shape[-1],
)
flipped_groups = lift(
  controls.flipped_groups,
  "none",
  "sample",
  correct=reading.correct,
  keys=reading.keys,
)


@transform("none", "sample", needs=(reading.ANSWERS,))
def wrong_vote(_, rollout: types.Rollout) -> Array:
  """1 for the `controls.wrong_vote` of this very group, else 0.

  The study labels with what the starting policy says; this follows the policy.
  """
  answers, valid = rollout.extras[reading.ANSWERS], rollout.sample_mask
  label = controls.wrong_vote(answers, rollout.correct, valid)
  return labelfree.agreement(answers, label)


@transform("none", "sample")
def opposite(_, rollout: types.Rollout, *, of: str = "") -> Array:
  """`controls.opposite` of the task's score, or of a component; in [0, 1]."""
  return controls.opposite(reading.scores(rollout, of), rollout.sample_mask)
