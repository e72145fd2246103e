"""UCAS: larger advantages for uncertain right and confident wrong answers.

Axes: P prompts, S samples per prompt (a group), T completion tokens, V tokens
in the vocabulary, N token positions.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, advantages, masked, registry, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

# How the certainty of a sample is computed from that of its tokens.
_REDUCE = {"mean": masked.mean, "sum": masked.sum}


def _certainty(logits, tokens):
  """KL(uniform || pi) minus a constant, from logits `[N, V]`; `[N]`."""
  del tokens
  return jax.nn.logsumexp(logits, -1) - logits.mean(-1)


def _chosen_logit(logits, tokens):
  """The logit of the sampled token, from logits `[N, V]`; `[N]`."""
  return jnp.take_along_axis(logits, tokens[:, None], -1)[:, 0]


# Needs, which are arrays that a forward pass computes: [P, S, T] of the old
# policy (at the start of the training step).
_CERTAINTY = scoring.Need("old", scoring.Probe("certainty", _certainty))
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
  """Returns A w - penalty * u_t, at least 0 where A w > 0; as in `ucas`.

  The signal holds the z-scores A `[P, S]`.
  """
  valid = rollout.valid("token")
  certainty = _REDUCE[reduce](rollout.extras[_CERTAINTY], valid)
  # [P, S]; ddof is 1 here, whatever the ddof of the scores.
  c = advantages.group_normalize(certainty, valid.any(-1), ddof=1)
  weight = jnp.where(signal > 0, jnp.exp(-right * c), jnp.exp(wrong * c))
  logit = rollout.extras[_LOGIT]
  low = masked.min(logit, valid, (0, 1, 2))  # of the batch, []
  high = masked.max(logit, valid, (0, 1, 2))
  # If all logits are equal, every token has 1/2.
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
  """GRPO with more weight on uncertain right answers and confident wrong ones.

    c_i  mean_t (logsumexp z - mean z) with z the logits at token t, which is
         KL(uniform || pi) up to a constant; then its z-score in the group
    w_i  exp(-right * c_i) where A > 0, exp(wrong * c_i) elsewhere
    u_t  logit of the sampled token, scaled to [0, 1] over the batch
    A_t  A w_i - penalty * u_t, at least 0 where A w_i > 0

  A [P, S] is the z-score of a sample's score in its group; A > 0 stands for a
  right answer. Both z-scores have eps 1e-6; that of c has ddof 1. A group of
  equal scores has A = 0, and so A_t = -penalty * u_t. Logits are those of the
  policy at the start of the training step, divided by the sampling temperature.
  The loss is PPO-clip, averaged over the tokens of all samples, without a KL.
  Source: Xie et al. 2025, Unlocking Exploration in RLVR: Uncertainty-aware
  Advantage Shaping (UCAS).
  Quantity: old/certainty, by sample.

  Args:
    right: factor of c in the exponent of w where A > 0.
    wrong: factor of c in the exponent of w elsewhere.
    penalty: weight of the penalty on tokens with a high logit.
    reduce: "mean" over the tokens in c, or "sum", as in the released code, with
      which longer answers count as more certain.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n scores divides by n - ddof.

  Raises:
    UsageError: if `reduce` is unknown.
  """
  if reduce not in _REDUCE:
    raise UsageError(registry.describe_unknown("reduce", reduce, _REDUCE))
  shaped = shape_by_certainty(right, wrong, penalty, reduce)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), shaped),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
