"""Samples whose process agrees with their outcome, as many of each kind."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling import random_keys
from rl.transforms import (
  chain,
  group_normalize,
  known_verdict,
  scores,
  step_scores,
  transform,
)

Array = jax.Array
WRONG = ("consistent", "random")
_ROUNDING = 1e-4  # so that a third of 9 is 3


def balanced_counts(right: Array, wrong: Array, kept: Array) -> Array:
  """How many of the kept are right ones: k+ (kept - k+) is as large as can be.

  Args:
    right, wrong: `[...]` int, how many there are.
    kept: `[...]` int, how many are kept of both, at most all.

  Returns:
    `[...]` k+, max(kept - wrong, 0) <= k+ <= min(right, kept); of two equally
    good ones the larger.
  """
  return jnp.clip((kept + 1) // 2, kept - wrong, jnp.minimum(right, kept))


def consistency(
  values: Array,
  step_mask: Array,
  right: Array,
  penalty: float = 0.0,
  most_steps: int = 30,
) -> Array:
  """(mean_k s_k - penalty 1[K <= 1 or K >= most_steps]) times +1 or -1.

  Args:
    values: `[..., K]` step scores.
    step_mask: `[..., K]` bool, steps that exist; the mean of none is 0.
    right: `[...]` bool; of a wrong sample the sign is -1.
    penalty: on samples that are one step, or very many.
    most_steps: how many are very many.

  Returns:
    `[...]`, high where the steps look as the outcome is.
  """
  steps = step_mask.sum(-1)
  odd = (steps <= 1) | (steps >= most_steps)
  value = masked.mean(values, step_mask) - penalty * odd
  return jnp.where(right, value, -value)


def first_ranked(
  ranking: Array, ties: Array, members: Array, count: Array
) -> Array:
  """`[..., S]` bool, the `count` members that rank highest.

  Args:
    ranking, ties: `[..., S]`; of equal rank, who has more of the second.
    members: `[..., S]` bool.
    count: `[...]` int.
  """

  def above(x: Array) -> tuple[Array, Array]:
    mine, other = x[..., :, None], x[..., None, :]
    return other > mine, other == mine

  better, equal = above(ranking)
  ahead = (better | (equal & above(ties)[0])) & members[..., None, :]
  return members & (ahead.sum(-1) < count[..., None])


@transform("step", "sample")
def consistent_samples(
  signal: Array,
  rollout: types.Rollout,
  *,
  share: float,
  penalty: float,
  most_steps: int,
  wrong: str,
) -> Array:
  """A filter: the part of each group whose process and outcome agree most."""
  members = rollout.sample_mask & known_verdict(rollout)
  right = members & (rollout.correct == 1)
  wrongs = members & ~right
  ranking = consistency(
    signal, rollout.valid("step"), right, penalty, most_steps
  )
  if wrong == "random":
    ranking = jnp.where(wrongs, 0.0, ranking)
  keys = random_keys.keys(rollout.keys, "prof")
  ties = jax.vmap(lambda key: jax.random.uniform(key, right.shape[1:]))(keys)
  n = members.sum(-1)
  kept = jnp.ceil(share * n - _ROUNDING).astype(jnp.int32)
  k = balanced_counts(right.sum(-1), wrongs.sum(-1), kept)
  return first_ranked(ranking, ties, right, k) | first_ranked(
    ranking, ties, wrongs, kept - k
  )


def prof(
  share: float = 0.5,
  penalty: float = 0.0,
  most_steps: int = 30,
  wrong: str = "consistent",
  clip: float = 0.2,
) -> Method:
  """GRPO on the samples whose process reward agrees with their outcome.

    score_i  (mean_k s_ik - penalty 1[K_i <= 1 or K_i >= most_steps]) (+-1)
    kept     m = `share` of n, rounded up: k+ right and m - k+ wrong samples of
             the highest score, with k+ as near m / 2 as there are

  +1 of right and -1 of wrong samples: right ones with well scored steps stay,
  and wrong ones with badly scored steps. `wrong` = "random" keeps any of the
  wrong ones (POS). Ties are drawn by the prompt's key. The process reward only
  chooses: nobody is paid for it. Statistics are those of the kept samples.
  Unknown verdicts are left out. Advantages are GRPO's (of all others where share
  = 1), the loss is PPO-clip with a token mean and no KL.
  Open: `share`, the penalty (0 is none) and `most_steps` are not known to us.
  Source: Ye et al. 2025, Beyond Correctness: Harmonizing Process and Outcome
  Rewards through RL Training (PROF), and its code's README.

  Raises:
    ValueError: a share outside (0, 1], or an unknown `wrong`.
  """
  if not 0 < share <= 1:
    raise ValueError(
      f"share = {share:g} of the samples must be in (0, 1]; nearest: "
      f"{min(max(share, 0.1), 1.0):g}"
    )
  if wrong not in WRONG:
    raise ValueError(choices.unknown("wrong", wrong, WRONG))
  kept = consistent_samples(share, penalty, most_steps, wrong)
  return Method(
    sample_filter=chain(step_scores(), kept),
    advantage=chain(scores(), group_normalize()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
