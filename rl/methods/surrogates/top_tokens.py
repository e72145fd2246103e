"""The likeliest tokens of one policy, read under another."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring


def likeliest(source: str, k: int) -> scoring.Need:
  """The ids of the k likeliest tokens, `[..., k]`."""

  def fn(logits, tokens):
    del tokens
    return jax.lax.top_k(logits, min(k, logits.shape[-1]))[1]

  return scoring.Need(source, scoring.Probe(f"top_ids({k})", fn))


def at(source: str, ids: scoring.Need) -> scoring.Need:
  """log pi of these tokens, `[..., k]`."""

  def fn(logits, tokens, chosen):
    del tokens
    return jnp.take_along_axis(jax.nn.log_softmax(logits), chosen, -1)

  return scoring.Need(
    source, scoring.Probe(f"log_probs_at({ids})", fn, reads=(ids,))
  )
