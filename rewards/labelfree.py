"""Rewards without labels: agreement with other answers to the same prompt.

Answers come as ids, equal where the answers are (`answer_ids` of a task; what
is equal is the verifier's to say), -1 where there is none. Comparing all pairs
costs O(S^2) per prompt and nothing in T.

The weakness of all of these is the method's own: what is rewarded is to agree,
so a policy that gives one constant answer to everything scores 1. Watch
`answer_entropy`, which then falls to 0, and the true score.

Usage, `answer_ids` [P, S]:
  scores = labelfree.majority(answer_ids, threshold=0.5)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


class Vote(NamedTuple):
  """What a group answers.

  Attributes:
    label: `[...]` int32, the commonest answer, -1 if nobody answered; of
      equally common ones that which came first.
    share: `[...]` float32, its samples over all of the group, those without an
      answer included.
  """

  label: Array
  share: Array


def answer_shares(answer_ids: Array, valid: Array | None = None) -> Array:
  """The share of the group that gives each sample's answer, in O(S^2).

  Args:
    answer_ids: `[..., S]` int, -1 for none.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32; 0 without an answer and of what is invalid.
  """
  valid = masked.all_valid(answer_ids, valid)
  answered = valid & (answer_ids >= 0)
  same = answer_ids[..., :, None] == answer_ids[..., None, :]
  votes = masked.count(same & answered[..., None, :])
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  return jnp.where(answered, votes / n, 0.0)


def vote(answer_ids: Array, valid: Array | None = None) -> Vote:
  """The group's commonest answer, `Vote`, in O(S^2).

  Args: as of `answer_shares`.
  """
  shares = answer_shares(answer_ids, valid)
  first = jnp.argmax(shares, -1)[..., None]  # the first of equals
  label = jnp.take_along_axis(answer_ids, first, -1)[..., 0]
  share = shares.max(-1)
  return Vote(jnp.where(share > 0, label, -1), share)


def agreement(
  answer_ids: Array, labels: Array, valid: Array | None = None
) -> Array:
  """1 where the answer is the label, else 0; a label of -1 agrees with none.

  With labels from an anchor that read all rollouts and wrote one answer of its
  own it is compute-as-teacher; with `vote` it is `majority`.

  Source: Jayalath et al. 2025, Compute as Teacher: Turning Inference Compute
  into Reference-Free Supervision.

  Args:
    answer_ids: `[..., S]` int, -1 for none.
    labels: `[...]` int, of the same numbering.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32.
  """
  valid = masked.all_valid(answer_ids, valid) & (answer_ids >= 0)
  return (valid & (answer_ids == labels[..., None])).astype(jnp.float32)


def fraction_satisfied(satisfied: Array, criteria: Array) -> Array:
  """The share of a rubric's criteria that a judge found met.

  Source: Jayalath et al. 2025 (Compute as Teacher), where the anchor wrote the
  criteria.

  Args:
    satisfied: `[..., C]` bool or 0/1.
    criteria: `[..., C]` bool, which there are.

  Returns:
    `[...]` float32 in {0, 1/n, ..., 1}; 0 of an empty rubric.
  """
  return masked.mean(present(satisfied, criteria), criteria)


def majority(
  answer_ids: Array, threshold: float = 0.0, valid: Array | None = None
) -> Array:
  """1 for the group's commonest answer where enough of the group gives it.

  Where its share is below the threshold the whole group gets 0. The paper also
  takes the KL term from such a group: mask it by `vote(...).share`. O(S^2).

  Source: Shafayat et al. 2025, Can Large Reasoning Models Self-Train? (SRT).

  Args:
    answer_ids: `[..., S]` int, -1 for none.
    threshold: tau, least share; the paper's 0.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32.
  """
  label, share = vote(answer_ids, valid)
  labels = jnp.where(share >= threshold, label, -1)
  return agreement(answer_ids, labels, valid)


def co_reward(
  original_ids: Array,
  paraphrase_ids: Array,
  original_valid: Array | None = None,
  paraphrase_valid: Array | None = None,
) -> tuple[Array, Array]:
  """Each of two wordings of a question is labelled by the other's majority.

  A mistake that hangs on the wording does not confirm itself. Identical groups
  give `majority`. Both collapsed to one wrong answer give 1 to all.
  O(S^2 + R^2).

  Source: Zhang et al. 2025, Co-rewarding: Stable Self-supervised RL for
  Eliciting Reasoning in Large Language Models (I).

  Args:
    original_ids, paraphrase_ids: `[..., S]` and `[..., R]` int, of one
      numbering, -1 for none.
    original_valid, paraphrase_valid: bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` and `[..., R]` float32.
  """
  by_original = vote(original_ids, original_valid).label
  by_paraphrase = vote(paraphrase_ids, paraphrase_valid).label
  return (
    agreement(original_ids, by_paraphrase, original_valid),
    agreement(paraphrase_ids, by_original, paraphrase_valid),
  )


def answer_entropy(answer_ids: Array, valid: Array | None = None) -> Array:
  """Entropy of a group's answers in nats, -mean_i log(share of i's answer).

  Samples without an answer count as different from all others; so the largest
  value is log n, and a policy that has collapsed has 0. O(S^2).

  Args:
    answer_ids: `[..., S]` int, -1 for none.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32, 0 of no sample.
  """
  valid = masked.all_valid(answer_ids, valid)
  shares = answer_shares(answer_ids, valid)
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  shares = jnp.where(shares > 0, shares, 1.0 / n)
  return masked.mean(-jnp.log(shares), valid)


def cluster_share(
  answer_ids: Array,
  valid: Array | None = None,
  low: float = 0.0,
  high: float = jnp.inf,
) -> Array:
  """R = the share of the group that gives the same answer.

  Its expectation is sum_c p_c^2, so that it lowers the answers' entropy. A group
  in which no answer occurs twice (entropy log n) gets 0 throughout, and so does
  one whose entropy is outside [low, high]. O(S^2).

  Source: Zhang et al. 2025, Right Question is Already Half the Answer: Fully
  Unsupervised LLM Reasoning Incentivization (EMPO), on parsed answers; the soft
  variant of Shafayat et al. 2025 (SRT) without the gates. The paper's bounds
  are not known to us: by default only the first gate closes.

  Args:
    answer_ids: `[..., S]` int, clusters of meaning, -1 for none.
    valid: `[..., S]` bool, samples that exist; None keeps all.
    low, high: nats.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 without an answer.
  """
  valid = masked.all_valid(answer_ids, valid)
  shares = answer_shares(answer_ids, valid)
  n = jnp.maximum(masked.count(valid), 1.0)
  repeated = shares.max(-1) * n > 1.5  # some answer occurs twice
  entropy = answer_entropy(answer_ids, valid)
  used = repeated & (entropy >= low) & (entropy <= high)
  return jnp.where(used[..., None], shares, 0.0)
