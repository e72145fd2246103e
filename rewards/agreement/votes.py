"""Votes: statistics of equal answers in a group.

A group is the S samples of one prompt. Answers are integer ids: equal answers
have equal ids, and -1 means that a sample has no answer. All pairs of a group
are compared, which costs O(S^2).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


class Vote(NamedTuple):
  """The most common answer of each group.

  Attributes:
    label: `[...]` int32, the id of the most common answer; the first one in the
      order of samples if several are equally common, -1 if no sample answers.
    share: `[...]` float32, the share of the group that gives this answer.
      Samples without an answer count as members of the group.
  """

  label: Array
  share: Array


def answer_shares(answer_ids: Array, valid: Array | None = None) -> Array:
  """Returns the share of the group with the same answer as each sample.

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist or have no answer.
  """
  valid = masked.mask_or_ones(answer_ids, valid)
  answered = valid & (answer_ids >= 0)
  same = answer_ids[..., :, None] == answer_ids[..., None, :]  # [..., S, S]
  votes = masked.count(same & answered[..., None, :])
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  return jnp.where(answered, votes / n, 0.0)


def vote(answer_ids: Array, valid: Array | None = None) -> Vote:
  """Returns the most common answer of each group; O(S^2).

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    A `Vote`.
  """
  shares = answer_shares(answer_ids, valid)
  first = jnp.argmax(shares, -1)[..., None]  # argmax returns the first maximum
  label = jnp.take_along_axis(answer_ids, first, -1)[..., 0]
  share = shares.max(-1)
  return Vote(jnp.where(share > 0, label, -1), share)


def agreement(
  answer_ids: Array, labels: Array, valid: Array | None = None
) -> Array:
  """Returns 1 for samples that give the label of their group, else 0.

  With labels from `vote` this is the majority reward. With labels from a model
  that reads all samples of the group and writes an answer, it is Compute as
  Teacher.

  Source: Jayalath et al. 2025, Compute as Teacher: Turning Inference Compute
  into Reference-Free Supervision.

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    labels: `[...]` int, one answer id per group; for -1 all samples score 0.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32.
  """
  valid = masked.mask_or_ones(answer_ids, valid) & (answer_ids >= 0)
  return (valid & (answer_ids == labels[..., None])).astype(jnp.float32)


def answer_entropy(answer_ids: Array, valid: Array | None = None) -> Array:
  """Returns the entropy of each group's answers, in nats.

  It is the mean over the n samples of -log(share of the sample's answer). A
  sample without an answer counts as different from all other samples. The
  maximum is log n, if all answers differ; the minimum is 0, if all are equal.

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` float32; 0 for groups without samples.
  """
  valid = masked.mask_or_ones(answer_ids, valid)
  shares = answer_shares(answer_ids, valid)
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  shares = jnp.where(shares > 0, shares, 1.0 / n)
  return masked.mean(-jnp.log(shares), valid)
