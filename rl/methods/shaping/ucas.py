"""UCAS: larger advantages for uncertain right and for certain wrong answers.

Axes: P prompts, S samples per prompt (a group), V tokens in the vocabulary, N
token positions.
"""

import jax
import jax.numpy as jnp

from rl import advantages, masked, registry, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_REDUCE = {"mean": masked.mean, "sum": masked.sum}


def _over_uniform(logits, tokens):
  """KL(uniform || pi) up to a constant, from logits z `[N, V]`."""
  return jax.nn.logsumexp(logits, -1) - logits.mean(-1)


def _chosen_logit(logits, tokens):
  """The logit of the sampled token."""
  return jnp.take_along_axis(logits, tokens[:, None], -1)[:, 0]


_CERTAINTY = scoring.Need("old", scoring.Probe("certainty", _over_uniform))
_LOGIT = scoring.Need("old", scoring.Probe("chosen_logit", _chosen_logit))


@transform(takes="sample", gives="token", needs={_CERTAINTY, _LOGIT})
def shape_by_certainty(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  right: float,
  wrong: float,
  penalty: float,
  reduce: str,
) -> jax.Array:
  """A w(c) - penalty u_t, at least 0 where A w(c) > 0."""
  valid = rollout.valid("token")
  certainty = _REDUCE[reduce](rollout.extras[_CERTAINTY], valid)
  c = advantages.group_normalize(certainty, valid.any(-1))  # [P, S]
  weight = jnp.where(signal > 0, jnp.exp(-right * c), jnp.exp(wrong * c))
  logit = rollout.extras[_LOGIT]
  low, high = (f(logit, valid, (0, 1, 2)) for f in (masked.min, masked.max))
  # If all logits are equal, every token counts as half certain.
  u = jnp.where(high > low, (logit - low) / (high - low + 1e-6), 0.5)
  weighted = (signal * weight)[..., None]
  shaped = weighted - penalty * u
  shaped = jnp.where(weighted > 0, jnp.maximum(shaped, 0.0), shaped)
  return jnp.where(valid, shaped, 0.0)


def ucas(
  right: float = 0.25,
  wrong: float = 0.35,
  penalty: float = 0.05,
  reduce: str = "mean",
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO that weights uncertain right answers and certain wrong ones more.

    c_i  mean_t [logsumexp z - mean z] with z the logits of token t, which is
         KL(uniform || pi) up to a constant; as a z-score within the group
    w_i  exp(-right c_i) where A > 0, exp(wrong c_i) elsewhere
    u_t  logit of the sampled token, scaled to [0, 1] over the batch
    A_t  A w_i - penalty u_t, at least 0 where A w_i > 0

  A [P, S] is the z-score of a sample's score in its group; groups of equal
  scores have A_t = -penalty u_t. Logits are those of the old policy at the
  sampling temperature. The loss is PPO-clip, averaged over tokens, without a
  KL.
  Source: Xie et al. 2025, Unlocking Exploration in RLVR: Uncertainty-aware
  Advantage Shaping (UCAS).

  Args:
    right: strength of the weight where A > 0.
    wrong: strength of the weight elsewhere.
    penalty: weight of the penalty on certain tokens.
    reduce: "mean" over the tokens in c, or "sum", as in the released code;
      length then counts as certainty.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    ValueError: if `reduce` is unknown.
  """
  if reduce not in _REDUCE:
    raise ValueError(registry.describe_unknown("reduce", reduce, _REDUCE))
  shaped = shape_by_certainty(right, wrong, penalty, reduce)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), shaped),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
