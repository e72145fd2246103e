"""Principles: log-odds that an answer follows a principle, from one pass.

A reward model is asked whether an answer follows one principle ("states its
assumptions"). The reward is the difference of its logits for Yes and No; the
model does not sample. Since the caller chooses the principle, one model has
many rewards.

No registered reward calls these functions yet.

Usage, with `logits` [P, S, C, V] before the word that answers:
  scores = principles.mean_log_odds(logits, yes=9642, no=2822, mask=mask)

Source: RLBFF: Binary Flexible Feedback to bridge between Human Feedback and
Verifiable Rewards, 2025. The mean over several principles is ours.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def log_odds(logits: Array, yes: int, no: int) -> Array:
  """log p(Yes) - log p(No), the difference of their logits.

  Its sigmoid is p(Yes) / (p(Yes) + p(No)); 0 is undecided.

  Args:
    logits: `[..., V]` of the next word, before top-p.
    yes: token id of Yes.
    no: token id of No.

  Returns:
    `[...]` float32.
  """
  return logits[..., yes].astype(jnp.float32) - logits[..., no]


def mean_log_odds(
  logits: Array, yes: int, no: int, mask: Array | None = None
) -> Array:
  """Returns the mean log-odds over several principles; 0 without any.

  One principle that is easy to follow makes up for the others, and log-odds are
  not bounded.

  Args:
    logits: `[..., C, V]` of the next word for C principles, before top-p.
    yes: token id of Yes.
    no: token id of No.
    mask: `[..., C]` bool, mask of principles; None means all.

  Returns:
    `[...]` float32.
  """
  odds = log_odds(logits, yes, no)
  mask = masked.mask_or_ones(odds, mask)
  return masked.mean(base.zero_outside(odds, mask), mask)
