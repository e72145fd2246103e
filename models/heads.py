"""Heads: small pure functions of hidden states, beside those of the decoder.

A head has parameters of its own, a plain nested dict, and computes in float32
whatever the decoder's dtype is. A decoder carries a scalar one for a value or a
reward (`ModelConfig.value_head`) and any number of wider ones by name
(`ModelConfig.extra_heads`); what a language model says of two tokens is
`transformer.unembed` of their ids, without a head.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array
Params = dict[str, Array]


def init_scalar(width: int) -> Params:
  """Parameters of `scalar`, all 0: every value is 0 before the first update.

  Args:
    width: D, channels of the hidden states.

  Returns:
    `{"kernel": [D], "bias": []}` float32.
  """
  return {"kernel": jnp.zeros(width), "bias": jnp.zeros(())}


def scalar(params: Params, hidden: Array) -> Array:
  """`h w + b`, one number of every position.

  Args:
    params: of `init_scalar`.
    hidden: `[..., D]` after the decoder's final norm.

  Returns:
    `[...]` float32.
  """
  return linear(params, hidden)


def init_linear(key: Array, width: int, outputs: int) -> Params:
  """Parameters of `linear`: kernel normal with deviation 1 / (D + 1), bias 0.

  So small a kernel starts every score near 0: the trunk is not shaken by a
  head that knows nothing yet.

  Args:
    key: PRNG key.
    width: D, channels of the hidden states.
    outputs: K, classes or scores per position.

  Returns:
    `{"kernel": [D, K], "bias": [K]}` float32.

  Source: the initialisation of OpenRLHF's reward heads.
  """
  kernel = jax.random.normal(key, (width, outputs)) / (width + 1)
  return {"kernel": kernel, "bias": jnp.zeros(outputs)}


def linear(params: Params, hidden: Array) -> Array:
  """`h W + b`, the scores of every position.

  Args:
    params: of `init_linear`.
    hidden: `[..., D]` after the decoder's final norm.

  Returns:
    `[..., K]` float32.
  """
  wide = [leaf.astype(jnp.float32) for leaf in (hidden, params["kernel"])]
  return wide[0] @ wide[1] + params["bias"].astype(jnp.float32)


def two_class_score(logits: Array) -> Array:
  """`p(good) - p(bad)`, which is `tanh((l_1 - l_0) / 2)`.

  Args:
    logits: `[..., 2]`, of "bad" and "good".

  Returns:
    `[...]` in (-1, 1); above 0 where good is the likelier.

  Source: Cheng et al. 2025, Stop Summation (PURE), the read-out of its PRM.
  """
  return jnp.tanh((logits[..., 1] - logits[..., 0]) / 2)
