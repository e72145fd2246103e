"""VAPO: a critic of undiscounted returns, and GAE adapted to the length.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import credit, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import nll, policy_gradient
from rl.method import Method
from rl.methods.critic.values import OLD_VALUES, plus_old_values, value_loss
from rl.transforms import (
  chain,
  gae,
  only,
  place_last,
  right_verdict,
  scores,
  transform,
  whiten,
)


@transform(takes="token", needs={OLD_VALUES})
def length_adaptive_gae(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float
) -> jax.Array:
  """GAE with lambda = 1 - 1 / (alpha l) for a sample of l scored tokens.

  lambda is at least 0: samples of up to 1 / alpha tokens have 0. The signal
  holds the rewards of tokens.
  """
  valid = rollout.valid("token")
  lam = jnp.maximum(1 - 1 / (alpha * valid.sum(-1)), 0.0)  # [P, S]
  values = rollout.extras[OLD_VALUES]
  return credit.gae(signal, values, valid, lam=lam)


@transform(takes="none", gives="scalar")
def is_after(_, rollout: types.Rollout, *, steps: int) -> jax.Array:
  """Returns 0 during the first `steps` training steps, then 1."""
  return (rollout.step >= steps).astype(jnp.float32)


def vapo(
  alpha: float = 0.05,
  mu: float = 0.1,
  pretraining: int = 50,
  low: float = 0.2,
  high: float = 0.28,
  value_clip: float = 0.2,
  value_coef: float = 0.5,
) -> Method:
  """PPO with a critic of undiscounted returns and a lambda by sample length.

  The policy's advantage A_t [P, S, T] is GAE with lambda = 1 - 1 / (alpha l)
  for a sample of l scored tokens, at least 0, whitened over the tokens of all
  samples. The critic's target is the advantage of GAE with lambda = 1, plus
  V_old, the value at the start of the training step: two lambdas ("decoupled").
  The reward is the score of the sample, at its last token. The loss is PPO-clip
  averaged over the tokens of all samples, without a KL, plus mu times the mean
  of -log pi over the tokens of samples with a right verdict, plus the critic's
  loss. During the first `pretraining` training steps only the critic's loss has
  a weight other than 0.
  Open: the paper does not state value_clip and value_coef; both are those of
  `ppo`.
  Deviation: the paper's critic is a network of its own; this implementation
  reads its values from a head of the policy, so that its pretraining also
  changes the layers below both heads.
  Source: Yue et al. 2025, VAPO: Efficient and Reliable Reinforcement Learning.

  Args:
    alpha: factor of the length l in lambda.
    mu: weight of -log pi of right samples; 0 leaves the term out.
    pretraining: number of steps that train the critic alone.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    value_clip: distance |V - V_old| beyond which a value that moved towards its
      target has no gradient.
    value_coef: weight of the critic's loss.
  """
  rewards = chain(scores(), place_last())
  targets = chain(rewards, gae(), plus_old_values())
  policy_learns = is_after(pretraining)  # 0 or 1
  loss = policy_learns * policy_gradient(ppo_clip(low, high))
  if mu:
    loss += mu * policy_learns * nll().of(loss_filter=only(right_verdict))
  critic_loss = value_loss(value_clip).of(signal=targets)
  return Method(
    advantage=chain(rewards, length_adaptive_gae(alpha), whiten(ddof=1)),
    loss=loss + value_coef * critic_loss,
  )
