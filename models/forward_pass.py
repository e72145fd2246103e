"""The forward pass over given prompts and completions, padded or packed.

An RL batch has P prompts `[P, L]` with S completions each, `[P, S, T]`. The
decoder computes each prompt once: inside a layer, the prompt attends causally
to itself, and each completion attends to the keys and values of its prompt and
causally to itself (`models.decoding` works this way too). There are two forms:

- padded: all `P * (L + S * (T - 1))` positions are computed. The last token of
  a completion is only predicted, and is not an input.
- packed (if `Tokens.room` is set): projections, norms, MLPs and heads are
  computed for real tokens alone, which lie next to each other in an array
  `[G, N, D]` (`models.packing`). For attention, queries, keys and values are
  brought back to prompts `[P, L]` and to rows of T tokens. A row holds as many
  completions of a prompt as fit into it; with "splash", it holds one, and the
  kernel leaves out its padding.

Both give the same values up to rounding, and neither lets padding affect real
tokens.

Axes: P prompts, S completions per prompt, L prompt tokens, T completion tokens,
D channels, G groups of prompts (one for each device that prompts are split
over), N tokens of a group, M scored tokens of a group.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from models import packing, sharding, transformer
from models.config import ModelConfig
from rl import types

Array = jax.Array


def score(
  config: ModelConfig,
  params: transformer.Params,
  tokens: types.Tokens,
  depth: float = 1.0,
) -> types.Scored:
  """Computes the hidden states of given prompts and completions.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.
    tokens: the batch. Its prompts are `[P, L]`, shared by S completions, or
      `[P, S, L]` if each completion has its own prompt. They are left-padded,
      so that their last token is real.
    depth: share of the layers after which the pass stops
      (`transformer.num_computed`).

  Returns:
    `Scored`, whose `hidden` is the residual stream after the final norm. With
    depth < 1, it is the residual stream without that norm, and there are no
    heads. It is `[P, S, T, D]`; if the text is packed, it has the scored tokens
    alone. Padding receives no gradient. If there are more tokens than
    `tokens.room` has space for, the hidden states of the group are not finite.
  """
  heads = transformer.heads(config, params) if depth == 1 else {}
  if not tokens.room:
    hidden = _padded_hidden_states(config, params, tokens, depth)
    return types.Scored(hidden, heads, sharding.map_over_devices(hidden))
  return packed_result(
    heads, *_packed_hidden_states(config, params, tokens, depth)
  )


def packed_result(
  heads: Mapping[str, Callable[[Array], Array]],
  hidden: Array,
  scored: packing.ScoredTokens,
) -> types.Scored:
  """Returns the result of a packed pass.

  Args:
    heads: heads by name.
    hidden: `[G, parts, M / parts, D]`, hidden states that predict the scored
      tokens.
    scored: the scored tokens.
  """
  map_over_devices = sharding.map_over_devices(hidden)

  def map_packed(fn: Callable) -> Callable:
    mapped = map_over_devices(fn)

    def map_padded(heads: Any, hidden: Array, *arrays: Any) -> Any:
      packed_arrays = jax.tree.map(scored.pack, arrays)
      return jax.tree.map(scored.unpack, mapped(heads, hidden, *packed_arrays))

    return map_padded

  return types.Scored(hidden, heads, map_packed)


def count_inputs(tokens: types.Tokens) -> Array:
  """Returns the number of tokens that a packed pass computes, `[P]`.

  They are those of each prompt, of which the last position counts even if the
  prompt is empty, and all but the last token of its completions.
  """
  P = len(tokens.prompts)
  prompts = _packed_prompt_mask(tokens.prompt_mask).reshape(P, -1)
  return prompts.sum(-1) + jnp.maximum(tokens.lengths - 1, 0).sum(-1)


def count_positions(tokens: types.Tokens) -> int:
  """Returns the number of positions per prompt that a padded pass computes."""
  prompt_positions = math.prod(tokens.prompts.shape[1:])
  samples, length = tokens.completions.shape[1:]
  return prompt_positions + samples * (length - 1)


def num_rows(config: ModelConfig, tokens: types.Tokens) -> int:
  """Returns the rows per prompt in which attention computes packed completions.

  If it is the number of completions, each has a row of its own. That is so for
  "splash", which leaves out the padding of such rows.
  """
  samples = tokens.completions.shape[1]
  if config.attention == "splash" or tokens.prompts.ndim == 3:
    return samples
  # As many as the share of the positions that are computed, and one more, since
  # the completions of a prompt do not fill their last row.
  share = tokens.room / count_positions(tokens)
  return min(math.ceil(samples * share) + 1, samples)


def count_rows(tokens: types.Tokens) -> Array:
  """Returns the number of rows that the completions of a prompt need, `[P]`."""
  fed = jnp.maximum(tokens.lengths - 1, 0)
  row, _ = packing.first_fit(fed, tokens.completions.shape[-1] - 1)
  return row.max(-1) + 1


def num_groups(prompts: int, shards: int) -> int:
  """Returns G: the devices that split prompts, if they divide their number."""
  return 1 if prompts % shards else shards


def packed_sizes(
  tokens: types.Tokens, groups: int, num_parts: int
) -> tuple[int, int]:
  """Returns the sizes of a group: its inputs N, and its scored tokens.

  Args:
    tokens: the batch, with room.
    groups: G, which divides P.
    num_parts: number of devices over which "context" splits tokens; N is a
      multiple of it.
  """
  P, S, T = tokens.completions.shape
  prompts = P // groups
  size = math.ceil(tokens.room * prompts / num_parts) * num_parts
  # There are at most as many scored tokens as inputs if the prompt's last token
  # is counted once for each completion.
  return size, min(size + (S - 1) * prompts, S * T * prompts)


class _Sequences(NamedTuple):
  """Prompts, and the tokens of their completions that are inputs.

  If each completion of a batch has its own prompt, P is the number of
  completions, and S is 1. If the mesh axis "context" splits tokens, L and T are
  padded to a multiple of its size.

  Attributes:
    prompts: `[P, L]` ids.
    prompt_mask: `[P, L]` bool, True on real tokens.
    prompt_positions: `[P, L]`.
    completions: `[P, S, T]` ids, without the last token of the batch's axis T.
    completion_positions: `[P, 1, T]`, which follow those of the prompt.
    lengths: `[P, S, 1]`, numbers of completion tokens.
    max_length: longest sequence that the batch can hold, in tokens.
    num_parts: number of devices over which "context" splits tokens.
  """

  prompts: Array
  prompt_mask: Array
  prompt_positions: Array
  completions: Array
  completion_positions: Array
  lengths: Array
  max_length: int
  num_parts: int


def _sequences(tokens: types.Tokens) -> _Sequences:
  P, S, T = tokens.completions.shape
  prompts, prompt_mask = tokens.prompts, tokens.prompt_mask
  if prompts.ndim == 2:
    groups = (P, S)
  else:  # treat each completion as the only one of its prompt
    groups = (P * S, 1)
    prompts = prompts.reshape(P * S, prompts.shape[-1])
    prompt_mask = prompt_mask.reshape(prompts.shape)
  # Nothing after the last token is predicted, so it is not an input.
  completions = tokens.completions.reshape(*groups, T)[..., :-1]
  lengths = tokens.lengths.reshape(*groups, 1)
  # Without the padding below, as in `decoding.prefill`: scalings of rotary
  # embedding that depend on the length must agree with the sampler.
  max_length = tokens.text_length
  num_parts = sharding.num_shards(completions, "context")
  prompt_padding = -prompts.shape[-1] % num_parts
  prompts = jnp.pad(prompts, ((0, 0), (prompt_padding, 0)))
  prompt_mask = jnp.pad(prompt_mask, ((0, 0), (prompt_padding, 0)))
  completion_padding = (1 - T) % num_parts
  completions = jnp.pad(completions, ((0, 0), (0, 0), (0, completion_padding)))
  t = jnp.arange(completions.shape[-1])
  return _Sequences(
    prompts=prompts,
    prompt_mask=prompt_mask,
    prompt_positions=transformer.token_positions(prompt_mask),
    completions=completions,
    completion_positions=(prompt_mask.sum(-1)[:, None] + t)[:, None],
    lengths=lengths,
    max_length=max_length,
    num_parts=num_parts,
  )


# The two functions below are jitted so that arguments of equal shapes are
# traced once: validation, the passes without gradient and the loss use the same
# trace.


@functools.partial(jax.jit, static_argnums=(0, 3))
def _padded_hidden_states(
  config: ModelConfig,
  params: transformer.Params,
  tokens: types.Tokens,
  depth: float,
) -> Array:
  """Returns the hidden states `[P, S, T, D]` of the padded form."""
  P, S, T = tokens.completions.shape
  s = _sequences(tokens)
  t = jnp.arange(s.completions.shape[-1])
  prompt_x = transformer.embed(
    config, params, s.prompts, s.prompt_mask, s.prompt_positions
  )
  completion_x = transformer.embed(
    config, params, s.completions, t < s.lengths, s.completion_positions
  )
  prompt_tables, completion_tables = (
    transformer.position_tables(config, positions, s.max_length)
    for positions in (s.prompt_positions, s.completion_positions)
  )

  def step(streams, layer):
    prompt_x, completion_x = streams  # [P, L, D] and [P, S, T, D]
    if s.num_parts > 1:
      prompt_x = sharding.constrain(prompt_x, sharding.PROMPT_AXES, "context")
      completion_x = sharding.constrain(
        completion_x, sharding.PROMPT_AXES, None, "context"
      )
    layer_params, kind = layer
    apply = functools.partial(transformer.apply_layer, config, layer_params)
    prompt_x, keys_values = apply(
      "forward_prompt", prompt_x, prompt_tables.select(kind), s.prompt_mask
    )
    completion_x = apply(
      "forward_completions",
      completion_x,
      completion_tables.select(kind),
      keys_values,
      s.prompt_mask,
    )
    return (prompt_x, completion_x), None

  (prompt_x, completion_x), _ = transformer.scan_layers(
    config, params, step, (prompt_x, completion_x), depth
  )
  # Completion token 0 is predicted by the prompt's last token.
  axes = s.completions.shape[:2]
  first = jnp.broadcast_to(prompt_x[:, None, -1:], (*axes, 1, config.width))
  hidden = jnp.concatenate([first, completion_x[:, :, : T - 1]], axis=2)
  if depth == 1:
    hidden = transformer.final_norm(config, params, hidden)
  return hidden.reshape(P, S, T, config.width)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _packed_hidden_states(
  config: ModelConfig,
  params: transformer.Params,
  tokens: types.Tokens,
  depth: float,
) -> tuple[Array, packing.ScoredTokens]:
  """Returns the hidden states of the scored tokens, and which these are."""
  P, S, T = tokens.completions.shape
  s = _sequences(tokens)
  groups = num_groups(
    P, sharding.num_shards(tokens.mask, *sharding.PROMPT_AXES)
  )
  size, max_scored = packed_sizes(tokens, groups, s.num_parts)
  # The inputs that predict the tokens of the completions, and what they read.
  prompt_mask = _packed_prompt_mask(s.prompt_mask)
  completion_mask = jnp.arange(s.completions.shape[-1]) < s.lengths - 1
  rows = num_rows(config, tokens) * P // groups
  packed = packing.PackedSequences.of(
    prompt_mask, completion_mask, groups, size, rows, T - 1
  )
  completion_positions = jnp.broadcast_to(
    s.completion_positions, s.completions.shape
  )
  positions = packed.pack(s.prompt_positions, completion_positions)  # [G, N]
  x = transformer.embed(
    config,
    params,
    packed.pack(s.prompts, s.completions),
    packed.pack(s.prompt_mask, completion_mask),
    positions,
  )
  tables = transformer.position_tables(config, positions, s.max_length)

  def step(x, layer):  # [G, N, D]
    x = sharding.constrain(x, sharding.PROMPT_AXES, "context")
    layer_params, kind = layer
    x = transformer.apply_layer(
      config,
      layer_params,
      "forward_packed",
      x,
      tables.select(kind),
      packed,
      s.prompt_mask,
    )
    return x, None

  x, _ = transformer.scan_layers(config, params, step, x, depth)
  # Infinite if the tokens have no room. Unlike a choice between x and a NaN, it
  # is no operation that makes a NaN where a search for NaN finds it.
  x /= packed.fits[:, None, None].astype(x.dtype)

  # The place of the token from which each token t is predicted: that of the
  # prompt's last token, or of completion token t - 1.
  prompt_places, completion_places = packed.places()
  axes = s.completions.shape[:2]
  first = jnp.broadcast_to(prompt_places[:, None, -1:], (*axes, 1))
  places = jnp.concatenate([first, completion_places[:, :, : T - 1]], axis=2)
  scored = packing.ScoredTokens.of(tokens.mask, groups, s.num_parts, max_scored)
  places = scored.pack(places.reshape(P, S, T))  # [G, parts, M / parts]
  # `[G, parts, M / parts, D]`; any value where no scored token is predicted.
  hidden = jax.vmap(lambda x, place: x[place])(x, places)
  if depth == 1:
    hidden = transformer.final_norm(config, params, hidden)
  return hidden, scored


def _packed_prompt_mask(prompt_mask: Array) -> Array:
  """Returns the prompt tokens that are packed, of `prompt_mask` `[..., L]`."""
  L = prompt_mask.shape[-1]
  # The last position of an empty prompt is packed too, because a completion's
  # first token is predicted from it.
  return prompt_mask | (jnp.arange(L) == L - 1)
