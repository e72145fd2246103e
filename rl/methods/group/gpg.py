"""GPG: REINFORCE, rescaled by the share of groups whose scores differ.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, types
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores, transform

COUNTS = ("groups", "scores")  # rules by which a sample is informative


@transform(takes="sample")
def divide_by_informative_share(
  signal: jax.Array, rollout: types.Rollout, *, count: str
) -> jax.Array:
  """Multiplies the signal by alpha = samples / informative samples.

  Both numbers are those of the batch. Without an informative sample, alpha is
  the number of samples; the signal is then 0 if `count` is "groups".

  Args:
    signal: `[P, S]` centred scores.
    rollout: the rollout.
    count: same as in `gpg`.
  """
  valid = rollout.sample_mask
  informative = {
    "groups": masked.sum(jnp.abs(signal), valid, keepdims=True) > 0,
    "scores": rollout.scores != 0,
  }[count]
  num_informative = masked.count(valid & informative, (0, 1))  # []
  return (
    signal * masked.count(valid, (0, 1)) / jnp.maximum(num_informative, 1.0)
  )


def gpg(count: str = "groups") -> Method:
  """A_i = alpha (R_i - mean R), alpha = samples / informative samples.

  R_i [P, S] is the score of sample i, mean R the mean of its group, and alpha
  one number per batch. The loss is -A log pi averaged over the tokens of all
  samples, without ratio, clip or KL; it is right for one update per rollout
  only. The paper's normalisation F_norm is 1 here. A group with one sample has
  A = 0 (in verl, A is then its score).
  Source: Chu et al. 2025, GPG: A Simple and Strong RL Baseline.

  Args:
    count: samples that are informative: "groups", all samples of groups whose
      scores differ (the paper); "scores", samples with a score other than 0
      (verl).

  Raises:
    UsageError: if `count` is unknown.
  """
  if count not in COUNTS:
    raise UsageError(registry.describe_unknown("count", count, COUNTS))
  return Method(
    advantage=chain(scores(), center(), divide_by_informative_share(count)),
    loss=policy_gradient(reinforce()),
  )
