"""Does the answer follow a principle? The log-odds of Yes, read off one pass.

A reward model is asked about a prompt, an answer and one principle ("states its
assumptions"), and is not sampled: its logits for Yes and No are the reward. The
principle is chosen by whoever asks, so that one model has many rewards.

Usage, `logits` [P, S, C, V] before the word that answers:
  scores = principles.mean_log_odds(logits, yes=9642, no=2822, asked=asked)

Source: RLBFF: Binary Flexible Feedback to bridge between Human Feedback and
Verifiable Rewards, 2025. The mean over several principles is ours.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


def log_odds(logits: Array, yes: int, no: int) -> Array:
  """log p(Yes) - log p(No), which is the difference of the logits.

  Its sigmoid is p(Yes) / (p(Yes) + p(No)); 0 is undecided.

  Args:
    logits: `[..., V]` of the next word, not cut by top-p.
    yes, no: token ids.

  Returns:
    `[...]` float32.
  """
  return logits[..., yes].astype(jnp.float32) - logits[..., no]


def mean_log_odds(
  logits: Array, yes: int, no: int, asked: Array | None = None
) -> Array:
  """The mean over several principles; 0 if none was asked about.

  Its weakness is that of every sum: one principle that is easy to please makes
  up for the others, and log-odds are not bounded.

  Args:
    logits: `[..., C, V]`, of C principles.
    yes, no: token ids.
    asked: `[..., C]` bool, principles that were asked about; None: all.

  Returns:
    `[...]` float32.
  """
  odds = log_odds(logits, yes, no)
  asked = masked.all_valid(odds, asked)
  return masked.mean(present(odds, asked), asked)
