"""Principles: log-odds that an answer follows a principle, from one pass.

The prompt of a reward model asks whether an answer follows one principle, such
as "states its assumptions". The reward is the difference of the model's logits
for the next tokens Yes and No; the model does not sample. As the prompt names
the principle, one model gives a reward for each principle.

No registered reward calls these functions yet.

Usage, with `logits` [P, S, C, V] that predict the token Yes or No, for C
principles, S answers to each of P prompts, and a vocabulary of V tokens:
  scores = principles.mean_log_odds(logits, yes=9642, no=2822, mask=mask)

Source: RLBFF: Binary Flexible Feedback to bridge between Human Feedback and
Verifiable Rewards, 2025. The mean over several principles is an addition of
this implementation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def log_odds(logits: Array, yes: int, no: int) -> Array:
  """Returns log p(Yes) - log p(No), the difference of the two logits.

  The sigmoid of the result is p(Yes) / (p(Yes) + p(No)). The result is 0 if
  both tokens have the same probability.

  Args:
    logits: `[..., V]` of the next token, before filters such as top-p, which
      set logits to -inf.
    yes: token id of Yes.
    no: token id of No.

  Returns:
    `[...]` float32.
  """
  return logits[..., yes].astype(jnp.float32) - logits[..., no]


def mean_log_odds(
  logits: Array, yes: int, no: int, mask: Array | None = None
) -> Array:
  """Returns the mean log-odds over several principles.

  Log-odds are not bounded, so that one principle that is easy to follow can
  outweigh all others.

  Args:
    logits: `[..., C, V]` of the next token for C principles, before filters.
    yes: token id of Yes.
    no: token id of No.
    mask: `[..., C]` bool, True for the principles to count; None means all.

  Returns:
    `[...]` float32; 0 if the mask selects no principle.
  """
  odds = log_odds(logits, yes, no)
  mask = masked.mask_or_ones(odds, mask)
  return masked.mean(base.zero_outside(odds, mask), mask)
