"""VERL: a bonus where the effective rank of hidden states grows.

Axes: P prompts, S samples per prompt (a group), T completion tokens, D the
hidden width.
"""

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

# A need, which is an array that a forward pass computes: the final hidden
# states [P, S, T, D] of the old policy (at the start of the training step).
_HIDDEN = scoring.Need(
  "old", scoring.Probe("hidden", lambda hidden, tokens: hidden, head="hidden")
)


def effective_rank(hidden: jax.Array, mask: jax.Array) -> jax.Array:
  """exp of the entropy of the normalised singular values of centred states.

  The states are centred over the tokens of the sample. The squares of the
  singular values are the eigenvalues of the smaller Gram matrix; eigenvalues
  below 1e-6 of the largest one are rounding error and count as 0.

  Args:
    hidden: `[T, D]` states of one sample.
    mask: `[T]` bool, tokens whose states are included.

  Returns:
    `[]`; 1 if all states are equal.
  """
  hidden = hidden.astype(jnp.float32)
  valid = jnp.broadcast_to(mask[:, None], hidden.shape)
  centred = hidden - masked.mean(hidden, valid, 0, keepdims=True)
  x = jnp.where(valid, centred, 0.0)
  # Transposed so that the Gram matrix has the size of the shorter axis.
  x = x.T if x.shape[0] > x.shape[1] else x
  spectrum = _eigenvalues(jnp.matmul(x, x.T, precision="highest"))
  is_positive = spectrum > 1e-6 * spectrum.max()
  values = jnp.sqrt(jnp.where(is_positive, spectrum, 0.0))
  return jnp.exp(entr(values / jnp.maximum(values.sum(), 1e-30)).sum())


def _eigenvalues(gram: jax.Array) -> jax.Array:
  """Eigenvalues of a symmetric matrix, in ascending order."""
  # On CPU, one matrix at a time: XLA (jaxlib 0.10.2) computes a batch with the
  # threads that also run the devices, so that two devices can deadlock.
  one_by_one = jax.custom_batching.sequential_vmap(
    lambda x: jnp.linalg.eigvalsh(x)
  )
  return jax.lax.platform_dependent(
    gram, cpu=one_by_one, default=lambda x: jnp.linalg.eigvalsh(x)
  )


def rank_statistics(
  hidden: jax.Array, mask: jax.Array, stride: int
) -> tuple[jax.Array, jax.Array]:
  """Returns acceleration, velocity and rank of one sample, as in `erv`.

  Prefix j ends at the scored token with index `stride` * j, counted from 0; j =
  1, 2, ...

  Args:
    hidden: `[T, D]` states.
    mask: `[T]` bool, scored tokens.
    stride: number of tokens between the ends of prefixes.

  Returns:
    `[3]` (acceleration, velocity, rank of all states), and `[]` bool, whether
    the sample has at least two prefixes.
  """
  ends = jnp.arange(stride, max(len(mask), stride), stride)
  index = jnp.cumsum(mask) - 1
  ranks = jax.lax.map(
    lambda end: effective_rank(hidden, mask & (index <= end)), ends
  )
  exists, j = ends < mask.sum(), jnp.arange(len(ends))
  # d_j of `erv`: the rank minus the mean of the earlier ranks. Here j counts
  # from 0, so that the first entry has no earlier rank.
  d = ranks - (jnp.cumsum(ranks) - ranks) / jnp.maximum(j, 1)
  change_of_d = d - jnp.roll(d, 1)
  statistics = (
    masked.mean(change_of_d, exists & (j > 1)),  # acceleration
    masked.mean(d, exists & (j > 0)),  # velocity
    effective_rank(hidden, mask),
  )
  return jnp.stack(statistics), exists.sum() > 1


@transform(
  takes="sample",
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
  """Returns A + min(relu(Phi), |A| / kappa), from the second rollout on.

  Phi is that of `erv`. The state holds the moving average of the three
  statistics. Samples with fewer than two prefixes keep A and are not in the
  average.
  """
  # Statistics [P, S, 3], and whether there are two prefixes [P, S].
  measure = jax.vmap(jax.vmap(lambda h, m: rank_statistics(h, m, stride)))
  statistics, has_prefixes = measure(
    rollout.extras[_HIDDEN], rollout.valid("token")
  )
  average, has_average = moving_average_value(state), state["weight"] > 0
  deviation = jnp.clip(
    (statistics - average) / (jnp.abs(average) + 1e-8), -5.0, 5.0
  )  # x of `erv`, [P, S, 3]
  rank_share = jax.nn.sigmoid(gain * deviation[..., 0])  # s of `erv`
  velocity, rank = jnp.tanh(deviation[..., 1]), jnp.tanh(deviation[..., 2])
  phi = rank_share * rank + (1 - rank_share) * velocity
  bonus = jnp.minimum(jax.nn.relu(phi), jnp.abs(signal) / kappa)
  in_average = jnp.broadcast_to(has_prefixes[..., None], statistics.shape)
  mean = masked.mean(statistics, in_average, (0, 1))  # [3]
  new_state = update_moving_average(state, mean, 1 - rate, has_prefixes.any())
  return signal + jnp.where(has_average & has_prefixes, bonus, 0.0), new_state


def erv(
  stride: int = 40,
  rate: float = 0.3,
  gain: float = 2.0,
  kappa: float = 2.0,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO's advantage, raised where hidden states grow more diverse than before.

    m_j  effective rank of the final hidden states up to token `stride` * j
    d_j  m_j - mean_{i<j} m_i; its mean over j is the velocity, and the mean of
         d_j - d_{j-1} is the acceleration
    x    (statistic - its moving average) / |moving average|, clamped to +-5,
         for three statistics: acceleration, velocity, and the effective rank of
         the whole response
    Phi  s tanh(x_rank) + (1 - s) tanh(x_velocity),
         s = sigmoid(gain * x_acceleration)
    A'   A + min(relu(Phi), |A| / kappa)

  A [P, S] is the z-score of a sample's score in its group. A prefix is a
  response up to token `stride` * j; responses with fewer than two prefixes, and
  all responses of the first rollout, keep A. Hidden states are those of the
  policy at the start of the training step. The moving averages are over
  rollouts, of the mean over samples. The loss is PPO-clip, averaged over the
  tokens of all samples, without a KL.
  Deviation: the moving averages of the released code start at 0 and include the
  current rollout; those of this implementation are corrected for their start
  and include earlier rollouts only. The released code reads at most 512 tokens
  and approximates singular values; this implementation reads all tokens, and
  its singular values are exact.
  Source: Huang et al. 2025, Beyond the Exploration-Exploitation Trade-off: A
  Hidden State Approach for LLM Reasoning (VERL).
  Quantity: explore_or_exploit.

  Args:
    stride: number of tokens between the ends of prefixes.
    rate: weight of a new rollout in the moving averages.
    gain: slope of the sigmoid s in the acceleration.
    kappa: the bonus is at most |A| / kappa.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  bonus = explore_or_exploit(stride, rate, gain, kappa)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), bonus),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
