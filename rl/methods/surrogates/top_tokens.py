"""Probes of the most likely tokens of one policy, read under another."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring


def top_token_ids(source: str, k: int) -> scoring.Need:
  """A need for the ids `[..., k]` of the k most likely tokens of `source`."""

  def fn(logits, tokens):
    del tokens
    return jax.lax.top_k(logits, min(k, logits.shape[-1]))[1]

  return scoring.Need(source, scoring.Probe(f"top_ids({k})", fn))


def log_probs_at(source: str, ids: scoring.Need) -> scoring.Need:
  """A need for the log-probs `[..., k]` of the tokens `ids` under `source`."""

  def fn(logits, tokens, token_ids):
    del tokens
    return jnp.take_along_axis(jax.nn.log_softmax(logits), token_ids, -1)

  return scoring.Need(
    source, scoring.Probe(f"log_probs_at({ids})", fn, reads=(ids,))
  )
