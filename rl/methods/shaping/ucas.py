"""UCAS: more for unsure right answers, less for sure wrong ones."""

import jax
import jax.numpy as jnp

from rl import advantages, choices, masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_REDUCE = {"mean": masked.mean, "sum": masked.sum}


def _over_uniform(logits, tokens):
  return jax.nn.logsumexp(logits, -1) - logits.mean(-1)


def _chosen_logit(logits, tokens):
  return jnp.take_along_axis(logits, tokens[:, None], -1)[:, 0]


_CERTAINTY = scoring.Need("old", scoring.Probe("certainty", _over_uniform))
_LOGIT = scoring.Need("old", scoring.Probe("chosen_logit", _chosen_logit))


@transform("sample", "token", needs={_CERTAINTY, _LOGIT})
def shape_by_certainty(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  right: float,
  wrong: float,
  penalty: float,
  reduce: str,
) -> jax.Array:
  """A w(c) - penalty u_t, never below 0 where A w(c) is above."""
  valid = rollout.valid("token")
  certainty = _REDUCE[reduce](rollout.extras[_CERTAINTY], valid)
  c = advantages.group_normalize(certainty, valid.any(-1))
  weight = jnp.where(signal > 0, jnp.exp(-right * c), jnp.exp(wrong * c))
  logit = rollout.extras[_LOGIT]
  low, high = (f(logit, valid, (0, 1, 2)) for f in (masked.min, masked.max))
  u = jnp.where(high > low, (logit - low) / (high - low + 1e-6), 0.5)
  weighed = (signal * weight)[..., None]
  shaped = weighed - penalty * u
  shaped = jnp.where(weighed > 0, jnp.maximum(shaped, 0.0), shaped)
  return jnp.where(valid, shaped, 0.0)


def ucas(
  right: float = 0.25,
  wrong: float = 0.35,
  penalty: float = 0.05,
  reduce: str = "mean",
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO that pays unsure right answers more and sure wrong ones less.

    c_i   mean_t [logsumexp z - mean z], KL(uniform || pi) up to a constant,
          as a z-score within the group
    w_i   exp(-right c) where A > 0, exp(wrong c) elsewhere
    u_t   logit of the chosen token, scaled to [0, 1] over the batch
    A_t   A w - penalty u_t, at least 0 where A w > 0

  Groups of equal scores are left with -penalty u. `reduce="sum"` adds over the
  tokens, as the released code does; length then counts as certainty. Logits are
  those at the sampling temperature. PPO-clip over the mean token, no KL.
  Source: Xie et al. 2025, Unlocking Exploration in RLVR: Uncertainty-aware
  Advantage Shaping (UCAS).

  Raises:
    ValueError: unknown `reduce`.
  """
  if reduce not in _REDUCE:
    raise ValueError(choices.unknown("reduce", reduce, _REDUCE))
  shaped = shape_by_certainty(right, wrong, penalty, reduce)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), shaped),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
