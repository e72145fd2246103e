"""SimKO: right answers lift their rivals too, wrong favourites fall harder."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.top_tokens import at, likeliest
from rl.transforms import chain, group_normalize, scores

_ENTROPY = scoring.Need("old", scoring.entropy)


def candidates(k: int) -> tuple[scoring.Need, scoring.Need]:
  """The old policy's k likeliest tokens, and the policy's log pi of them."""
  ids = likeliest("old", k)
  return ids, at("policy", ids)


@surrogates.surrogate(needs=lambda k, **_: {_ENTROPY, *candidates(k)})
def spread_and_press(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  k: int,
  alpha: float,
  press: float,
  quantile: float,
  clip: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """PPO-clip after what `simko` says, at the uncertain tokens of a sample."""
  stop = jax.lax.stop_gradient
  entropy = rollout.extras[_ENTROPY]
  edge = masked.quantile(entropy, rollout.mask, quantile, keepdims=True)
  open_ = rollout.mask & (entropy > edge)
  ids, log_probs = candidates(k)
  rivals = policy[log_probs.probe].mean(-1)
  mixed = (1 - alpha) * log_ratio + alpha * rivals
  spread = stop(log_ratio) + mixed - stop(mixed)
  log_ratio = jnp.where(open_ & (advantages > 0), spread, log_ratio)
  favourite = rollout.completions == rollout.extras[ids][..., 0]
  pressed = open_ & favourite & (advantages < 0)
  advantages = jnp.where(pressed, press * advantages, advantages)
  return surrogates.ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )


def simko(
  k: int = 3,
  alpha: float = 0.01,
  press: float = 1.1,
  quantile: float = 0.8,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO without KL, changed where a sample's entropy exceeds its quantile.

  A > 0: rho' = (1 - alpha) rho + alpha/K sum_k sg[rho / rho_k] rho_k over the K
  likeliest tokens of the old policy: the value is rho, and a share alpha of
  the gradient goes to them. A < 0 on the likeliest token: A <- `press` A.
  Right and wrong are told by the sign of A. alpha = 0, press = 1 is `grpo`
  without KL.
  Deviation: the tokens are matched by id under both policies; the released
  code matches ranks of the current one.
  Source: Peng et al. 2025, SimKO: Simple Pass@K Policy Optimization.
  """
  surrogate = spread_and_press(k, alpha, press, quantile, clip)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(surrogate, aggregate=seq_mean_token_mean()),
  )
