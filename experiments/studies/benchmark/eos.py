"""Random weights whose completions end when they should.

Channel 0 of the residual stream is the same for every token, and no layer
writes to it. The unembedding's row of EOS reads that channel alone, so its
logit hardly depends on what came before: it is `c` times the normalised channel.
One number, c, sets how long completions are, in every codebase that loads the
weights and at no cost. Embeddings are tied; EOS itself is never embedded, since
it ends what it is in.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from models import policy, transformer
from models.config import ModelConfig
from rl import types
from rl.sampling import generation

Array = jax.Array
NEVER = -1e3  # c; exp of its logit is 0 beside any other
BLOCK = 32  # positions whose logits exist at a time
SAMPLES = 256  # completions of which the lengths are foreseen


def never(
  config: ModelConfig, params: transformer.Params, ids: Sequence[int]
) -> transformer.Params:
  """The weights with the constant channel, in which these are never drawn.

  Args:
    config: the decoder's shape.
    params: any weights.
    ids: EOS, and what stands for padding: some samplers do not attend to it.

  Raises:
    ValueError: embeddings are not tied, or a projection has a bias.
  """
  if not config.tied_embeddings or config.output_bias or config.mlp_bias:
    raise ValueError("mixed lengths need tied embeddings and no biases")
  table = params["embed"]["table"].at[:, 0].set(config.width**-0.5)
  layers = dict(params["layers"])
  for block, name in (("attention", "output"), ("mlp", "down")):
    kernel = layers[block][name]["kernel"].at[..., 0].set(0.0)
    layers[block] = layers[block] | {name: {"kernel": kernel}}
  edited = params | {"embed": {"table": table}, "layers": layers}
  for token in ids:
    edited = _with(edited, token, NEVER)
  return edited


def fit(
  config: ModelConfig,
  params: transformer.Params,
  prompts: np.ndarray,
  *,
  eos_id: int,
  mean: float,
  most: int,
) -> transformer.Params:
  """Chooses c so that completions have this mean length.

  Completions that never end are drawn first. EOS is equally constant in all, so
  with hazards `h_t(c) = sigmoid(c a_t - b_t)`, `a_t` the normalised channel and
  `b_t` the other logits' log-sum-exp, the expected length of one is

    1 + sum_{t=1}^{T-1} prod_{u<=t} (1 - h_u(c)),

  and bisection finds c for the mean over all of them.

  Args:
    config: the decoder's shape.
    params: of `never`.
    prompts: `[P, L]`, all of them real.
    eos_id: the token.
    mean: of the lengths, EOS included.
    most: T, where a completion is cut.

  Returns:
    The weights with c.

  Raises:
    ValueError: the mean does not lie between 1 and `most`.
  """
  if not 1 < mean < most:
    raise ValueError(f"mean length {mean} must lie between 1 and {most}")
  prompts = jnp.asarray(prompts)
  a, b = _constants(config, params, prompts, most)

  def lengths(c: float) -> float:
    alive = np.cumprod(1 - 1 / (1 + np.exp(b - c * a)), axis=-1)
    return 1 + alive[:, :-1].sum(-1).mean()

  low, high = 0.0, 1.0
  while lengths(high) > mean:
    high *= 2
  for _ in range(60):
    middle = (low + high) / 2
    low, high = (middle, high) if lengths(middle) > mean else (low, middle)
  return _with(params, eos_id, high)


def _with(
  params: transformer.Params, token: int, c: float
) -> transformer.Params:
  table = params["embed"]["table"]
  row = jnp.zeros_like(table[0]).at[0].set(c)
  return params | {"embed": {"table": table.at[token].set(row)}}


def _constants(
  config: ModelConfig, params: transformer.Params, prompts: Array, most: int
) -> tuple[np.ndarray, np.ndarray]:
  """`a` and `b` of every position of drawn completions, `[P S, T]` float64."""
  P = len(prompts)
  samples = -(-SAMPLES // P)
  model = policy.bind(config)
  sampling = generation.Sampling(samples, most, eos_ids=(), pad_id=0)

  @jax.jit
  def found(params: transformer.Params) -> tuple[Array, Array]:
    mask = jnp.ones(prompts.shape, bool)
    keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(P))
    drawn = generation.generate(model, params, prompts, mask, keys, sampling)
    real = jnp.ones(drawn.completions.shape, bool)
    tokens = types.Tokens(prompts, mask, drawn.completions, drawn.lengths, real)
    scored = model.score(params, tokens)

    def total(hidden: Array) -> Array:
      return jax.nn.logsumexp(scored.heads["logits"](hidden), axis=-1)

    flat = scored.hidden.reshape(-1, config.width)
    sums = jax.lax.map(total, flat, batch_size=BLOCK * samples)
    return scored.hidden[..., 0], sums.reshape(real.shape)

  a, b = (np.asarray(x, np.float64) for x in found(params))
  return a.reshape(-1, most), b.reshape(-1, most)
