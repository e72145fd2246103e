"""Effective rank of the hidden states, its velocity and acceleration (VERL)."""

import jax
import jax.numpy as jnp
from jax.scipy.special import entr

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  chain,
  group_normalize,
  moving_average_value,
  scores,
  transform,
  update_moving_average,
)

_HIDDEN = scoring.Need(
  "old", scoring.Probe("hidden", lambda hidden, tokens: hidden, head="hidden")
)


def effective_rank(hidden: jax.Array, mask: jax.Array) -> jax.Array:
  """exp of the entropy of the singular values of centred states, sum 1.

  They are the roots of the smaller Gram matrix's eigenvalues, of which those
  below 1e-6 of the largest are rounding. `[T, D]`, `[T]` -> `[]`; 1 of no
  spread.
  """
  hidden = hidden.astype(jnp.float32)
  rows = jnp.broadcast_to(mask[:, None], hidden.shape)
  centred = hidden - masked.mean(hidden, rows, 0, keepdims=True)
  x = jnp.where(rows, centred, 0.0)
  x = x.T if x.shape[0] > x.shape[1] else x
  spectrum = _eigenvalues(jnp.matmul(x, x.T, precision="highest"))
  kept = spectrum > 1e-6 * spectrum.max()
  values = jnp.sqrt(jnp.where(kept, spectrum, 0.0))
  return jnp.exp(entr(values / jnp.maximum(values.sum(), 1e-30)).sum())


def _eigenvalues(gram: jax.Array) -> jax.Array:
  # On CPU one matrix at a time: XLA (jaxlib 0.10.2) spreads a batch over the
  # threads that run the devices, and two devices then wait for each other.
  alone = jax.custom_batching.sequential_vmap(lambda x: jnp.linalg.eigvalsh(x))
  return jax.lax.platform_dependent(
    gram, cpu=alone, default=lambda x: jnp.linalg.eigvalsh(x)
  )


def rank_statistics(
  hidden: jax.Array, mask: jax.Array, stride: int
) -> tuple[jax.Array, jax.Array]:
  """(acceleration, velocity, rank) `[3]` of a sample; has it two prefixes.

  Prefix j ends at its token number `stride` j, the first being number 0.
  """
  ends = jnp.arange(stride, max(len(mask), stride), stride)
  number = jnp.cumsum(mask) - 1
  ranks = jax.lax.map(
    lambda end: effective_rank(hidden, mask & (number <= end)), ends
  )
  exists, j = ends < mask.sum(), jnp.arange(len(ends))
  velocity = ranks - (jnp.cumsum(ranks) - ranks) / jnp.maximum(j, 1)
  acceleration = velocity - jnp.roll(velocity, 1)
  found = (
    masked.mean(acceleration, exists & (j > 1)),
    masked.mean(velocity, exists & (j > 0)),
    effective_rank(hidden, mask),
  )
  return jnp.stack(found), exists.sum() > 1


@transform(
  "sample",
  needs={_HIDDEN},
  init=lambda **hyper: {"mean": jnp.zeros(3), "weight": jnp.zeros(())},
)
def explore_or_exploit(
  signal: jax.Array,
  rollout: types.Rollout,
  state,
  *,
  stride: int,
  rate: float,
  gain: float,
  kappa: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """A + min(relu(Phi), |A| / kappa), from the second rollout on."""
  measure = jax.vmap(jax.vmap(lambda h, m: rank_statistics(h, m, stride)))
  found, long = measure(rollout.extras[_HIDDEN], rollout.valid("token"))
  usual, seen = moving_average_value(state), state["weight"] > 0
  deviation = jnp.clip((found - usual) / (jnp.abs(usual) + 1e-8), -5.0, 5.0)
  explore = jax.nn.sigmoid(gain * deviation[..., 0])
  velocity, rank = jnp.tanh(deviation[..., 1]), jnp.tanh(deviation[..., 2])
  phi = explore * rank + (1 - explore) * velocity
  bonus = jnp.minimum(jax.nn.relu(phi), jnp.abs(signal) / kappa)
  counted = jnp.broadcast_to(long[..., None], found.shape)
  mean = masked.mean(found, counted, (0, 1))
  new = update_moving_average(state, mean, 1 - rate, long.any())
  return signal + jnp.where(seen & long, bonus, 0.0), new


def erv(
  stride: int = 40,
  rate: float = 0.3,
  gain: float = 2.0,
  kappa: float = 2.0,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO raised where the hidden states grow richer than they used to.

    m_j    effective rank of the final hidden states up to token j stride
    d_j    m_j - mean_{i<j} m_i;  velocity: mean_j d_j, acceleration: mean_j
           (d_j - d_{j-1}), rank: of the whole response
    x      (statistic - its moving average) / |average|, within +-5
    Phi    s tanh(x_rank) + (1 - s) tanh(x_velocity), s = sigma(gain x_acc)
    A'     A + min(relu(Phi), |A| / kappa)

  Responses with fewer than two prefixes, and the first rollout, keep A.
  PPO-clip over the mean token, no KL.
  Deviations: averages are bias-corrected, where the code starts them at 0; they
  hold earlier rollouts only; no cap of 512 tokens; exact singular values.
  Source: Huang et al. 2025, Beyond the Exploration-Exploitation Trade-off: A
  Hidden State Approach for LLM Reasoning (VERL).
  """
  bonus = explore_or_exploit(stride, rate, gain, kappa)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), bonus),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
