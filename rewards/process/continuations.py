"""Continuations: prefixes of samples as prompts, and what follows them.

A prefix, which is the prompt and the first tokens of a sample, becomes a
prompt, which a policy completes M times.

Axes: P prompts, S samples per prompt, T completion tokens, L prompt tokens, N
prefixes, M continuations per prefix.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rl import types
from rl.sampling import generation

Array = jax.Array


def prefix_prompts(
  tokens: types.Tokens, rows: Array, prefix_lengths: Array
) -> tuple[Array, Array]:
  """Returns prefixes of samples as left-padded prompts.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, numbers `p S + s` of the samples.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.

  Returns:
    The tokens `[N, L + T]` int32, and their mask, False on padding.
  """
  samples, length = tokens.completions.shape[1:]
  prompts = rows // samples
  completions = tokens.completions.reshape(-1, length)[rows]
  joined = jnp.concatenate([tokens.prompts[prompts], completions], -1)
  real = jnp.concatenate(
    [tokens.prompt_mask[prompts], jnp.ones(completions.shape, bool)], -1
  )
  # Shifts each row right, so that the prefix ends at the last position.
  indices = jnp.arange(joined.shape[-1]) - (length - prefix_lengths)[:, None]
  inside = indices >= 0
  indices = jnp.maximum(indices, 0)
  real = inside & jnp.take_along_axis(real, indices, -1)
  return jnp.where(real, jnp.take_along_axis(joined, indices, -1), 0), real


def settings(
  sampling: generation.Sampling, tokens: types.Tokens, count: int
) -> generation.Sampling:
  """Returns the settings that sample continuations of prefixes.

  A prefix and its continuation are a text of at most L + T tokens, as a sample
  is, although the prompt has room for L + T and the continuation for T. Hence a
  continuation is sampled from the policy that scores the sample, also if its
  positions depend on the length of the longest text.

  Args:
    sampling: settings with which samples are drawn.
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    count: number of continuations of each prefix.
  """
  return dataclasses.replace(
    sampling, samples=count, max_length=tokens.text_length
  )


def attach(
  tokens: types.Tokens,
  rows: Array,
  prefix_lengths: Array,
  continued: generation.Samples,
  pad_id: int,
) -> tuple[Array, Array, Array]:
  """Joins prefixes and their continuations to completions.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, numbers `p S + s` of the samples.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.
    continued: M continuations of each prefix.
    pad_id: token id after the end.

  Returns:
    completions `[N, M, T]`, which start with the tokens of the prefix; their
    lengths `[N, M]`; and finished `[N, M]`, True if EOS ended the completion
    within T tokens.
  """
  size = tokens.completions.shape[-1]
  prefix = tokens.completions.reshape(-1, size)[rows][:, None]
  t, prefix_lengths = jnp.arange(size), prefix_lengths[:, None]  # [T], [N, 1]
  # Positions before and after the continuation are replaced below.
  after = jnp.maximum(t - prefix_lengths, 0)[:, None]  # [N, 1, T]
  added = jnp.take_along_axis(continued.completions, after, -1)
  lengths = prefix_lengths + continued.lengths
  joined = jnp.where(t < prefix_lengths[..., None], prefix, added)
  joined = jnp.where(t < lengths[..., None], joined, pad_id)
  finished = continued.finished & (lengths <= size)
  return joined, jnp.minimum(lengths, size), finished
