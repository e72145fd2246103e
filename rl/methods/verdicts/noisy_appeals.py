"""Forward correction whose rate of false negatives is estimated by appeals.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts import noise
from rl.transforms import chain, components, scores, transform
from rl.transforms.library import moving_average_value, update_moving_average


def false_negative_rate(
  accepted: jax.Array, overturned: jax.Array
) -> jax.Array:
  """r1 = (1 - a) q / (a + (1 - a) q), the share of right answers rejected.

  All accepted answers count as right.

  Args:
    accepted: `[...]` a, share of the answers that the verifier accepts.
    overturned: `[...]` q, share of the appeals that succeed: an estimate of the
      share of the rejected answers that are right.

  Returns:
    `[...]` float32; 0 if no answer is right.
  """
  rejected_right = (1.0 - accepted) * overturned
  right = accepted + rejected_right
  return rejected_right / jnp.where(right > 0, right, 1.0)


@transform(
  takes="sample",
  init=lambda **_: {
    name: {"mean": jnp.zeros(()), "weight": jnp.zeros(())}
    for name in ("accepted", "overturned")
  },
)
def forward_by_appeals(
  signal: jax.Array,
  rollout: types.Rollout,
  state: dict[str, dict[str, jax.Array]],
  *,
  appeals: str,
  decay: float,
  largest: float,
) -> tuple[jax.Array, dict[str, dict[str, jax.Array]]]:
  """The weights `noise.forward_weights` with the estimated rate, `[P, S]`."""
  valid = rollout.sample_mask
  stacked, _ = components(names=(appeals,)).apply(None, rollout, ())
  appealed = valid & (stacked[0] >= 0)
  both = (0, 1)
  state = {
    "accepted": update_moving_average(
      state["accepted"], masked.mean(signal, valid, both), decay, valid.any()
    ),
    "overturned": update_moving_average(
      state["overturned"],
      masked.mean(stacked[0] > 0, appealed, both),
      decay,
      appealed.any(),
    ),
  }
  accepted, overturned = (
    moving_average_value(state[name]) for name in ("accepted", "overturned")
  )
  rate = jnp.minimum(false_negative_rate(accepted, overturned), largest)
  weights = noise.forward_weights(signal, rate)
  return jnp.where(valid, weights, 0.0), state


def noisy_appeals(
  appeals: str = "appeal",
  decay: float = 0.9,
  largest: float = 0.9,
  clip: float = 0.2,
) -> Method:
  """`noisy_forward` with a rate r1 that is estimated while the policy trains.

    A_i = R~_i + r1 - 1,   r1 = (1 - a) q / (a + (1 - a) q)

  R~ [P, S] is the score, 0 or 1, as the verifier gave it, a the share of
  accepted samples, and q the share of the appeals that succeed: a judge looks
  again at some of the rejected samples (the question `appeal` of
  `rewards.judged`). Both are moving averages over batches, with the present
  one. Accepted samples count as right, so that r1 is too low if the verifier
  accepts wrong ones. Without an appeal so far, r1 = 0, and only rejected
  samples have an advantage. The loss is PPO-clip, averaged over the tokens of
  all samples.
  Open: the paper's estimator is known from its abstract; the moving averages
  and `largest` are choices.
  Source: Reinforcement Learning with Verifiable yet Noisy Rewards under
  Imperfect Verifiers (forward correction, appeals).

  Args:
    appeals: name of the component with the appeals: 1 succeeded, 0 did not, -1
      was not appealed.
    decay: factor of earlier batches in the moving averages.
    largest: largest r1.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(
      scores(),
      forward_by_appeals(appeals=appeals, decay=decay, largest=largest),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
