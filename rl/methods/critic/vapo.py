"""VAPO: a critic that sees whole returns, a trace that fits the length."""

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


@transform("token", needs={OLD_VALUES})
def length_adaptive_gae(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float
) -> jax.Array:
  """GAE with lambda = 1 - 1 / (alpha l) of a sample of l tokens, in [0, 1]."""
  valid = rollout.valid("token")
  lam = 1 - 1 / (alpha * jnp.maximum(valid.sum(-1), 1))
  values, segments = rollout.extras[OLD_VALUES], rollout.segments
  lam = jnp.clip(lam, 0.0, 1.0)
  return credit.gae(signal, values, valid, lam=lam, segments=segments)


@transform("none", "scalar")
def after(_, rollout: types.Rollout, *, steps: int) -> jax.Array:
  """0 during the first training steps, then 1."""
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
  """PPO whose critic sees whole returns, and whose trace fits the length.

  The policy's advantage is GAE with lambda = 1 - 1 / (alpha l), the critic's
  target GAE with lambda = 1 (decoupled); then clip-higher, a mean over tokens,
  no KL, and mu times the mean - log pi of the tokens of right samples. During
  the first `pretraining` steps only the critic learns.
  Open: value_clip and value_coef are not given.
  Deviation: the critic is a head of the policy, so its pretraining moves the
  trunk that the policy shares.
  Source: Yue et al. 2025, VAPO: Efficient and Reliable Reinforcement Learning.
  """
  rewards = chain(scores(), place_last())
  targets = chain(rewards, gae(), plus_old_values())
  started = after(pretraining)
  loss = started * policy_gradient(ppo_clip(low, high))
  if mu:
    loss += mu * started * nll().of(loss_filter=only(right_verdict))
  critic = value_loss(value_clip).of(signal=targets)
  return Method(
    advantage=chain(rewards, length_adaptive_gae(alpha), whiten(ddof=1)),
    loss=loss + value_coef * critic,
  )
