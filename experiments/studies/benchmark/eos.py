"""Edits random weights so that completions have a chosen mean length.

Axes: P prompts, S samples per prompt, T completion tokens.

Channel 0 of the residual stream is the same for every token, and no layer
writes to it. The EOS row of the output embedding reads only that channel, so
the EOS logit is a constant c times the normalized channel, and hardly depends
on the earlier tokens. The number c alone determines how long completions are,
in every codebase that loads the weights, without additional work. Embeddings
are tied, but the edited row is never read as an input, because EOS ends its
completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models import policy, transformer
from models.config import ModelConfig
from rl import UsageError, types
from rl.sampling import generation

Array = jax.Array
NEVER = -1e3  # value of c at which the probability of EOS is 0 in float32
BLOCK = 32  # positions whose logits exist at a time, to save memory
SAMPLES = 256  # completions over which the expected length is averaged


def suppress_tokens(
  config: ModelConfig, params: transformer.Params, ids: Sequence[int]
) -> transformer.Params:
  """Adds the constant channel, and gives tokens a probability of zero.

  The tokens `ids` are EOS, and the padding token, because some samplers mask it
  in the attention.

  Raises:
    UsageError: embeddings are not tied, or a projection has a bias.
  """
  if not config.tied_embeddings or config.output_bias or config.mlp_bias:
    raise UsageError("mixed lengths need tied embeddings and no biases")
  table = params["embed"]["table"].at[:, 0].set(config.width**-0.5)
  layers = dict(params["layers"])
  for block, name in (("attention", "output"), ("mlp", "down")):
    kernel = layers[block][name]["kernel"].at[..., 0].set(0.0)
    layers[block] = layers[block] | {name: {"kernel": kernel}}
  edited = params | {"embed": {"table": table}, "layers": layers}
  for token in ids:
    edited = _set_eos_row(edited, token, NEVER)
  return edited


def fit_mean_length(
  config: ModelConfig,
  params: transformer.Params,
  prompts: np.ndarray,
  *,
  eos_id: int,
  mean_length: float,
  max_tokens: int,
) -> transformer.Params:
  """Chooses c so that completions have a given mean length, EOS included.

  Completions of T tokens that never end are drawn first. Where token
  t = 1, ..., T is predicted, let `a_t` be the normalized channel 0 and `b_t`
  the log-sum-exp of the other logits. With c, EOS has the probability `h_t(c) =
  sigmoid(c * a_t - b_t)` there, and the expected length is

    1 + sum_{t=1}^{T-1} prod_{u=1}^{t} (1 - h_u(c))

  for each of the drawn completions. Bisection finds the c at which the mean
  over all of them is `mean_length`. The weights `params` are those of
  `suppress_tokens`.

  Raises:
    UsageError: `mean_length` does not lie between 1 and `max_tokens`.
  """
  if not 1 < mean_length < max_tokens:
    raise UsageError(
      f"mean length {mean_length} must lie between 1 and {max_tokens}"
    )
  prompts = jnp.asarray(prompts)
  a, b = _hazard_terms(config, params, prompts, max_tokens)

  def expected_length(c: float) -> float:
    # Probability that the completion has not ended after token t, `[P * S, T]`.
    alive = np.cumprod(1 - 1 / (1 + np.exp(b - c * a)), axis=-1)
    return 1 + alive[:, :-1].sum(-1).mean()

  low, high = 0.0, 1.0
  while expected_length(high) > mean_length:
    high *= 2
  for _ in range(60):  # Halves the interval below float64 resolution.
    middle = (low + high) / 2
    is_longer = expected_length(middle) > mean_length
    low, high = (middle, high) if is_longer else (low, middle)
  return _set_eos_row(params, eos_id, high)


def _set_eos_row(params: transformer.Params, token: int, c: float) -> Any:
  table = params["embed"]["table"]
  row = jnp.zeros_like(table[0]).at[0].set(c)
  return params | {"embed": {"table": table.at[token].set(row)}}


def _hazard_terms(
  config: ModelConfig, params: types.PyTree, prompts: Array, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `a` and `b` of `fit_mean_length`, each `[P * S, T]` float64."""
  P = len(prompts)
  samples = -(-SAMPLES // P)
  model = policy.bind(config)
  sampling = generation.Sampling(samples, max_tokens, eos_ids=(), pad_id=0)

  @jax.jit
  def constants(params: transformer.Params) -> tuple[Array, Array]:
    mask = jnp.ones(prompts.shape, bool)
    keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(P))
    drawn = generation.generate(model, params, prompts, mask, keys, sampling)
    ids, real = drawn.completions, jnp.ones(drawn.completions.shape, bool)
    tokens = types.Tokens(prompts, mask, ids, drawn.lengths, real)
    scored = model.score(params, tokens)

    def log_sum_exp(hidden: Array) -> Array:
      return jax.nn.logsumexp(scored.heads["logits"](hidden), axis=-1)

    positions = scored.hidden.reshape(-1, config.width)
    sums = jax.lax.map(log_sum_exp, positions, batch_size=BLOCK * samples)
    return scored.hidden[..., 0], sums.reshape(real.shape)

  a, b = (np.asarray(x, np.float64) for x in constants(params))
  return a.reshape(-1, max_tokens), b.reshape(-1, max_tokens)
