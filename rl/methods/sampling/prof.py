"""PROF: samples whose process agrees with their outcome, half of them right.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, types
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
WRONG = ("consistent", "random")  # which wrong samples `prof` keeps
# In samples, against rounding error: a share of 1/3 of 9 samples must be 3.
_ROUNDING = 1e-4


def balanced_counts(right: Array, wrong: Array, total: Array) -> Array:
  """Returns the number k+ of right samples to select.

  It makes k+ (total - k+) as large as possible.

  Args:
    right, wrong: `[...]` int, number of right and of wrong samples.
    total: `[...]` int, number of samples to select, at most right + wrong.

  Returns:
    `[...]`, k+ with max(total - wrong, 0) <= k+ <= min(right, total); of two
    equally good numbers the larger.
  """
  return jnp.clip((total + 1) // 2, total - wrong, jnp.minimum(right, total))


def consistency(
  values: Array,
  step_mask: Array,
  right: Array,
  penalty: float,
  most_steps: int,
) -> Array:
  """Returns how well the step scores of a sample agree with its outcome.

    (mean_k s_k - penalty * 1[K <= 1 or K >= most_steps]), times -1 if wrong

  K is here the number of steps of the sample, and 1[...] is 1 if the condition
  holds, else 0.

  Args:
    values: `[..., K]` step scores s.
    step_mask: `[..., K]` bool, steps that exist; the mean is 0 without steps.
    right: `[...]` bool, whether the sample is right.
    penalty: penalty on samples with at most one step or very many steps.
    most_steps: number of steps from which a sample has very many.

  Returns:
    `[...]`, high if the step scores agree with the outcome.
  """
  steps = step_mask.sum(-1)
  has_unusual_length = (steps <= 1) | (steps >= most_steps)
  value = masked.mean(values, step_mask) - penalty * has_unusual_length
  return jnp.where(right, value, -value)


def first_ranked(
  ranking: Array, ties: Array, members: Array, count: Array
) -> Array:
  """Returns a mask `[..., S]` of the `count` members with the highest ranking.

  Args:
    ranking: `[..., S]`, higher is better.
    ties: `[..., S]`; of members with equal ranking, the one with the larger
      value is first.
    members: `[..., S]` bool, samples that may be selected.
    count: `[...]` int.
  """

  # [..., S, S] each; entry [i, j] compares x_j with x_i.
  def compare(x: Array) -> tuple[Array, Array]:
    x_i, x_j = x[..., :, None], x[..., None, :]
    return x_j > x_i, x_j == x_i

  better, equal = compare(ranking)
  wins_tie, _ = compare(ties)
  ahead = (better | (equal & wins_tie)) & members[..., None, :]
  return members & (ahead.sum(-1) < count[..., None])


@transform(takes="step", gives="sample")
def consistent_samples(
  signal: Array,
  rollout: types.Rollout,
  *,
  share: float,
  penalty: float,
  most_steps: int,
  wrong: str,
) -> Array:
  """Keeps the samples of a group whose process and outcome agree most.

  The signal holds the step scores `[P, S, K]`. Arguments: see `prof`.
  """
  members = rollout.sample_mask & known_verdict(rollout)  # [P, S]
  is_right = members & (rollout.correct == 1)
  is_wrong = members & ~is_right
  # High for right samples with high step scores, and for wrong ones with low.
  ranking = consistency(
    signal, rollout.valid("step"), is_right, penalty, most_steps
  )
  if wrong == "random":
    ranking = jnp.where(is_wrong, 0.0, ranking)
  keys = random_keys.keys(rollout.keys, "prof")
  ties = jax.vmap(lambda key: jax.random.uniform(key, is_right.shape[1:]))(keys)
  n = members.sum(-1)  # [P]
  total = jnp.ceil(share * n - _ROUNDING).astype(jnp.int32)
  num_right = balanced_counts(is_right.sum(-1), is_wrong.sum(-1), total)
  selected_right = first_ranked(ranking, ties, is_right, num_right)
  selected_wrong = first_ranked(ranking, ties, is_wrong, total - num_right)
  return selected_right | selected_wrong


def prof(
  share: float = 0.5,
  penalty: float = 0.0,
  most_steps: int = 30,
  wrong: str = "consistent",
  clip: float = 0.2,
) -> Method:
  """GRPO on the samples whose process reward agrees with their outcome.

    c_i   (mean_k s_ik - penalty * 1[K_i <= 1 or K_i >= most_steps]) times +1
          for right and -1 for wrong samples
    kept  m = share * n, rounded up: k+ right and m - k+ wrong samples with the
          highest c, with k+ as near to m / 2 as possible

  s_ik [P, S, K] is the score of step k of sample i, K_i the number of steps of
  sample i, and n the number of samples of the group with a known verdict;
  samples with an unknown verdict are left out. Thus right samples with high
  step scores are kept, and wrong ones with low step scores. Ties are broken at
  random, with the PRNG key of the prompt. The process reward only selects
  samples and is in no advantage. A is the z-score of a sample's score among the
  kept samples of its group. The loss is PPO-clip, averaged over the tokens of
  the kept samples, without a KL. share = 1 keeps all.
  Open: `share`, the penalty (0 is none) and `most_steps` are not known from the
  paper; the defaults are guesses.
  Source: Ye et al. 2025, Beyond Correctness: Harmonizing Process and Outcome
  Rewards through RL Training (PROF), and its code's README.
  Quantity: step_scores, by sample.

  Args:
    share: share of a group's samples that is kept.
    penalty: penalty on samples with at most one step or very many steps.
    most_steps: number of steps from which a sample has very many.
    wrong: which wrong samples are kept: "consistent", those with the highest c,
      or "random" ones (POS in the paper).
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `share` is outside (0, 1], or `wrong` is unknown.
  """
  if not 0 < share <= 1:
    raise UsageError(
      f"share = {share:g} of the samples must be above 0 and at most 1, such "
      "as 0.5"
    )
  if wrong not in WRONG:
    raise UsageError(registry.describe_unknown("wrong", wrong, WRONG))
  selected = consistent_samples(share, penalty, most_steps, wrong)
  return Method(
    sample_filter=chain(step_scores(), selected),
    advantage=chain(scores(), group_normalize()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
