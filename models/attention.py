"""Softmax attention over one or more sets of keys, and rotary embedding.

`attend` is the computation itself. `AttentionInputs` describes one attention
problem of the decoder: either a prompt that attends to itself, or the S
completions of each prompt, which attend to the prompt and to themselves. The
forms in which such a problem can be computed are in `models.attention_forms`.

Axes: P prompts, S completions per prompt, L prompt tokens, N query tokens,
U keys, head_dim channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
# Score of a pair of a query and a key that the query may not see. Finite, so
# that a query without any visible key gives no NaN; far below any real score.
MASKED = -1e30


class KeySet(NamedTuple):
  """Keys and their values, and a mask of the queries that may see them.

  Keys are stored transposed (`head_dim` before `U`), so that scores are
  `queries @ keys` and outputs are `weights @ values` without a transpose. With
  few queries, as in decoding, CPUs compute this three times as fast as
  `queries @ keys.T`.

  Attributes:
    keys: `[P, kv_heads, head_dim, U]` if the S completions of a prompt share
      them, otherwise `[P, S, kv_heads, head_dim, U]`.
    values: `[P, kv_heads, U, head_dim]` or `[P, S, kv_heads, U, head_dim]`.
    visible: bool, True where query n may see key u. Broadcastable to
      `[P, N, U]`, or to `[P, S, N, U]` if it differs between completions.
  """

  keys: Array
  values: Array
  visible: Array


class AttentionInputs(NamedTuple):
  """Queries, and the keys and values that the queries may attend to.

  There are two cases. In the first, each prompt attends causally to itself: S
  is 1, N is L, and `prompt_keys_values` is None. In the second, each completion
  attends to its whole prompt and causally to itself.

  Attributes:
    queries: `[P, S, heads, N, head_dim]`.
    keys_values: keys and values of the N tokens of `queries`, each
      `[P, S, kv_heads, N, head_dim]`.
    prompt_keys_values: keys and values of the prompt that precedes the N
      tokens, each `[P, kv_heads, L, head_dim]`. None if the N tokens are the
      prompt.
    prompt_mask: `[P, L]` bool, True on the prompt's real tokens.
    window: number of positions that a token sees, including its own position;
      None means all. It is a traced array in a scan over layers whose windows
      differ.
    lengths: `[P, S]`, numbers of the N tokens whose outputs are read. A form
      may leave out the others, whose outputs then have any value. None means
      all N.
    starts: `[P, S, N]`, if the N tokens consist of several completions of the
      prompt, one after the other: the index of the first token of each token's
      completion. A token sees its own completion alone. None means one.
  """

  queries: Array
  keys_values: tuple[Array, Array]
  prompt_keys_values: tuple[Array, Array] | None
  prompt_mask: Array
  window: Array | int | None
  lengths: Array | None = None
  starts: Array | None = None


def attend(
  queries: Array,
  key_sets: Sequence[KeySet],
  scale: float,
  softcap: float,
) -> Array:
  """Computes softmax attention over the union of several key sets.

  The output of a query q is `sum_i exp(s_i) * v_i / sum_i exp(s_i)`, where i
  runs over the visible keys k_i, with values v_i, of all sets. The score s_i is
  `scale * (q @ k_i)`, capped if `softcap` is not 0. The sets are never
  concatenated, so keys that S completions share are stored once. The output of
  a query that sees no key is exactly 0 and has zero gradient.

  Args:
    queries: `[P, S, heads, N, head_dim]`. Query head h reads key head
      `h // (heads / kv_heads)`.
    key_sets: the key sets, with U keys each; U may differ between sets.
    scale: factor of the scores; 0 means `head_dim ** -0.5`.
    softcap: c of the cap `c * tanh(score / c)` on scores; 0 means no cap.

  Returns:
    The outputs `[P, S, heads, N, head_dim]`, in the dtype of `queries`. Scores
    and sums are computed in float32, or in float64 if the queries are float64.
  """
  P, S, heads, N, head_dim = queries.shape
  kv_heads = key_sets[0].keys.shape[-3]
  # [P, S, kv_heads, heads / kv_heads, N, head_dim]
  grouped = queries.reshape(P, S, kv_heads, heads // kv_heads, N, head_dim)
  scale = scale or head_dim**-0.5
  sum_dtype = jnp.promote_types(queries.dtype, jnp.float32)
  scores = []  # for each key set, [P, S, kv_heads, heads / kv_heads, N, U]
  for keys, _, visible in key_sets:
    score = scale * _matmul(grouped, keys, sum_dtype)
    if softcap:
      score = softcap * jnp.tanh(score / softcap)
    # Insert the two axes of heads into [P, S, N, U], or the axes of completions
    # and heads into [P, N, U].
    axes = (1, 2, 3) if visible.ndim == 3 else (2, 3)
    visible = jnp.expand_dims(visible, axes)
    scores.append(jnp.where(visible, score, MASKED))
  # The highest score of each query over all sets. It starts at MASKED / 2, so
  # that exp(MASKED - highest) is exactly 0 even if all scores are masked.
  highest = MASKED / 2
  for score in scores:
    set_max = score.max(-1, keepdims=True, initial=MASKED)
    highest = jnp.maximum(highest, jax.lax.stop_gradient(set_max))
  total = jnp.zeros((), sum_dtype)
  out = jnp.zeros((), sum_dtype)
  for score, (_, values, _) in zip(scores, key_sets, strict=True):
    weights = jnp.exp(score - highest)
    total += weights.sum(-1, keepdims=True)
    out += _matmul(weights.astype(values.dtype), values, sum_dtype)
  out /= jnp.where(total > 0, total, 1.0)
  return out.reshape(queries.shape).astype(queries.dtype)


def _matmul(
  left: Array,  # [P, S, kv_heads, r, N, a], r = heads / kv_heads
  right: Array,  # [P, kv_heads, a, b] or [P, S, kv_heads, a, b]
  sum_dtype: jnp.dtype,  # dtype of the sums and of the result
) -> Array:
  """Multiplies queries by keys (a = head_dim, b = U), or weights by values."""
  P, S, kv_heads, r, N, inputs = left.shape
  outputs = right.shape[-1]
  # Reshape to a batched product with one row axis and one column axis: on CPU
  # the other layouts were several times slower. Merging P and S gives a
  # decoding cache the shape in which it is stored, so it is not copied.
  shared = right.ndim == 4  # the S completions of a prompt share right
  if shared:
    left = left.swapaxes(1, 2).reshape(P, kv_heads, S * r * N, inputs)
  else:
    left = left.reshape(P * S, kv_heads, r * N, inputs)
    right = right.reshape(P * S, kv_heads, inputs, outputs)
  out = jnp.matmul(left, right, preferred_element_type=sum_dtype)
  if shared:
    return out.reshape(P, kv_heads, S, r, N, outputs).swapaxes(1, 2)
  return out.reshape(P, S, kv_heads, r, N, outputs)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
  """Applies rotary embedding (Su et al. 2021) to the first d channels.

  Channels i and i + d / 2 form a pair, which is rotated by an angle; channels
  from d on are not changed.

  Args:
    x: `[..., N, head_dim]`, queries or keys.
    cos: cosines of the d / 2 angles of each position, broadcastable to
      `[..., N, d / 2]`; their last axis defines d.
    sin: sines of the same angles.

  Returns:
    The rotated `x`, in the shape and dtype of `x`.
  """
  half = cos.shape[-1]
  x32 = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  # Both channels of each pair, and the channels that are not rotated.
  first, second, unrotated = jnp.split(x32, (half, 2 * half), axis=-1)
  rotated = (first * cos - second * sin, second * cos + first * sin, unrotated)
  return jnp.concatenate(rotated, axis=-1).astype(x.dtype)
