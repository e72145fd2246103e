"""HERO: prompts weigh more where a reward model's scores differ more.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  chain,
  components,
  group_normalize,
  scores,
  transform,
)
from rl.transforms.library import moving_average_value, update_moving_average


def spread_weights(
  spread: jax.Array,
  usual: jax.Array | float,
  low: float = 0.4,
  high: float = 3.0,
  steepness: float = 6.0,
) -> jax.Array:
  """w = low + (high - low) sigmoid(steepness (spread - usual)).

  Args:
    spread: `[...]`, standard deviations of a model's scores.
    usual: the spread that has the weight (low + high) / 2.
    low, high: bounds of the weights.
    steepness: factor of the difference.

  Returns:
    `[...]` float32.
  """
  return low + (high - low) * jax.nn.sigmoid(steepness * (spread - usual))


@transform(
  takes="sample",
  init=lambda *_, **__: {"mean": jnp.zeros(()), "weight": jnp.zeros(())},
)
def times_spread_weights(
  signal: jax.Array,
  rollout: types.Rollout,
  state: dict[str, jax.Array],
  *,
  model: str,
  low: float,
  high: float,
  steepness: float,
  decay: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Multiplies the signal of a prompt by `spread_weights`.

  The usual spread is a moving average of the mean spread of a batch, with the
  present batch.
  """
  stacked, _ = components(names=(model,)).apply(None, rollout, ())
  valid = rollout.sample_mask
  spread = masked.std(stacked[0], valid)  # [P]
  exists = valid.any(-1)
  state = update_moving_average(
    state, masked.mean(spread, exists), decay, exists.any()
  )
  weights = spread_weights(
    spread, moving_average_value(state), low, high, steepness
  )
  return jnp.where(valid, signal * weights[:, None], 0.0), state


def hero(
  model: str = "quality",
  low: float = 0.4,
  high: float = 3.0,
  steepness: float = 6.0,
  decay: float = 0.9,
  clip: float = 0.2,
) -> Method:
  """A_i = w z(r_i), w = low + (high - low) sigmoid(steepness (d - d_usual)).

  z is the z-score in the group, (r - mean) / (std + 1e-6) with ddof 1, of the
  scores r [P, S], such as the reward `stratified`. d [P] is the standard
  deviation (ddof 0) in the group of the scores of a reward model or a judge, a
  component of the score such as the answer to the question `grade` of
  `rewards.judged`, and d_usual its moving average over batches. The
  weight stands outside of the z-score, which would cancel it. The loss is
  PPO-clip, averaged over the tokens of all samples, without a KL.
  Open: the decay of the moving average is a guess.
  Source: Tao et al. 2025, Hybrid Reinforcement: When Reward Is Sparse, It's
  Better to Be Dense (HERO), and its released code.
  Quantity: quality.

  Args:
    model: name of the component with the model's scores.
    low: smallest weight, w_min of the paper.
    high: largest weight, w_max of the paper.
    steepness: k of the paper.
    decay: factor of earlier batches in the moving average.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(
      scores(),
      group_normalize(),
      times_spread_weights(
        model=model, low=low, high=high, steepness=steepness, decay=decay
      ),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
