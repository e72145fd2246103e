"""Needs for the most likely tokens of one policy, and their log-probs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring


def top_token_ids(source: str, k: int) -> scoring.Need:
  """Returns the need for the ids `[..., k]` of the k most likely tokens.

  `source` names the policy: "old", "policy" or a parameter set. In a vocabulary
  of fewer than k tokens, k is its size.
  """

  def fn(logits, tokens):
    del tokens
    return jax.lax.top_k(logits, min(k, logits.shape[-1]))[1]

  return scoring.Need(source, scoring.Probe(f"top_ids({k})", fn))


def log_probs_at(source: str, ids: scoring.Need) -> scoring.Need:
  """Returns the need for log-probs `[..., k]`, under `source`, of the tokens
  `ids`.
  """

  def fn(logits, tokens, token_ids):
    del tokens
    return jnp.take_along_axis(jax.nn.log_softmax(logits), token_ids, -1)

  return scoring.Need(
    source, scoring.Probe(f"log_probs_at({ids})", fn, reads=(ids,))
  )
