"""Adaptive Training: pass@k where entropy is low, pass@1 where it is high.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, best_of_k, masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
# Added to a number of prompts against rounding error: a share of 0.53 of 100
# prompts must be 53 prompts, although the float32 product is below 53.
_ROUNDING = 1e-3


@transform(takes="sample", needs={_ENTROPY})
def choose_k_by_entropy(
  signal: jax.Array, rollout: types.Rollout, *, k: int, exploit: float
) -> jax.Array:
  """Returns A_pass@1 for the prompts of highest entropy, else A_pass@k.

  The entropy of a prompt is the mean over the tokens of its group. Prompts of
  equal entropy are treated alike: either all of them get A_pass@1, or none.

  Args:
    signal: `[P, S]` scores.
    rollout: the rollout.
    k: size of the subsets.
    exploit: share of the batch's prompts, rounded down, that get A_pass@1.
  """
  valid = rollout.sample_mask
  exists = rollout.valid("prompt")
  entropy = masked.mean(
    rollout.extras[_ENTROPY], rollout.valid("token"), axis=(-2, -1)
  )  # [P]
  # [P, P]; row p marks the prompts whose entropy is at least that of prompt p.
  is_at_least = exists & (entropy >= entropy[:, None])
  max_prompts = exploit * masked.count(exists) + _ROUNDING
  has_high_entropy = masked.count(is_at_least) <= max_prompts  # [P]
  pass_at_1 = best_of_k.pass_at_k_advantages(signal, 1, valid)
  pass_at_k = best_of_k.pass_at_k_advantages(signal, k, valid)
  return jnp.where(has_high_entropy[:, None], pass_at_1, pass_at_k)


def pass_at_k_adaptive(
  k: int = 4, exploit: float = 0.5, low: float = 0.2, high: float = 0.28
) -> Method:
  """A_i = A_pass@1 in the prompts of highest entropy, A_pass@k in the others.

  A_pass@k [P, S] is the analytic advantage of `pass_at_k`. Where the entropy is
  high the policy explores anyway, and pass@1 makes it exploit; where it is low,
  pass@k makes it explore. The loss is PPO-clip, averaged over the tokens of all
  samples.
  Open: the paper does not state which tokens the entropy of a prompt is
  averaged over; in this implementation these are all tokens of its group, and
  the entropy is that of the policy at the start of the training step.
  Source: Chen et al. 2025, Pass@k Training, section 4.2.3.
  Quantity: old/entropy, by prompt.

  Args:
    k: size of the subsets.
    exploit: share of the prompts of a batch, those of highest entropy, that get
      A_pass@1; rounded down, and fewer if prompts have equal entropy.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.

  Raises:
    UsageError: if `exploit` is not in [0, 1].
  """
  if not 0 <= exploit <= 1:
    raise UsageError(
      f"exploit = {exploit:g} must be a share of the prompts from 0 to 1; the "
      f"nearest valid value is {min(max(exploit, 0.0), 1.0):g}"
    )
  return Method(
    advantage=chain(scores(), choose_k_by_entropy(k, exploit)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
