"""Rewards of reasoning by how likely it makes the reference answer.

No verifier: the reference answer's tokens are appended to the sampled thought
and scored once, teacher-forced, by the policy. What that pass gives is the one
signature of this file,

  (ref_log_probs [..., T], ref_mask [..., T]) -> [...],

T the reference's tokens and the leading axes prompts and samples. Tokens that
are masked do not count, whatever they hold, and every reward rises with every
log-probability.

  probability           exp(sum_t log p_t)   VeriFree
  mean_probability      mean_t p_t           RLPR
  log_probability       sum_t log p_t
  mean_log_probability  mean_t log p_t

The weakness of all four is the method's own: a thought that states the answer
makes it likely however it was come by, and so does one that quotes the
reference from its prompt. On long references the log forms shorten the thought,
until there is none.

Usage:
  scores = likelihood.mean_probability(ref_log_probs, ref_mask)  # [P, S]

Source: Likelihood-Based Reward Designs for General LLM
Reasoning; the single forms have their own below.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import advantages, masked

Array = jax.Array


def probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """p(a* | x, z) = exp(sum_t log p_t); 0 of an empty reference.

  Underflows to 0 beyond about 87 nats; `log_probability` and the log-mean forms
  do not.

  Source: Zhou et al. 2025, Reinforcing General Reasoning without Verifiers
  (VeriFree).

  Args:
    ref_log_probs: `[..., T]` nats, of the reference's tokens.
    ref_mask: `[..., T]` bool, which tokens there are.

  Returns:
    `[...]` float32 in [0, 1].
  """
  total = masked.sum(present(ref_log_probs, ref_mask), ref_mask)
  return jnp.where(ref_mask.any(-1), jnp.exp(total), 0.0)


def mean_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """mean_t p_t, less at the mercy of one token; 0 of an empty reference.

  Source: Yu et al. 2025, RLPR: Extrapolating RLVR to General Domains without
  Verifiers.

  Args, Returns: as of `probability`.
  """
  return masked.mean(jnp.exp(present(ref_log_probs, ref_mask)), ref_mask)


def log_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """sum_t log p_t in nats; 0 of an empty reference, the same for all samples.

  Args: as of `probability`.

  Returns:
    `[...]` float32, at most 0.
  """
  return masked.sum(present(ref_log_probs, ref_mask), ref_mask)


def mean_log_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """mean_t log p_t in nats; 0 of an empty reference.

  Args: as of `probability`.

  Returns:
    `[...]` float32, at most 0.
  """
  return masked.mean(present(ref_log_probs, ref_mask), ref_mask)


def group_log_mean(
  ref_log_probs: Array, ref_mask: Array, valid: Array | None = None
) -> Array:
  """log mean_i p_i over a group: what JEPO maximises, at least mean_i log p_i.

  Source: Tang et al. 2025, Beyond Verifiable Rewards: Scaling Reinforcement
  Learning for Language Models to Unverifiable Data (JEPO).

  Args:
    ref_log_probs: `[..., S, T]` nats.
    ref_mask: `[..., S, T]` bool.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32, 0 of no sample.
  """
  totals = log_probability(ref_log_probs, ref_mask)
  return _log_mean(totals, masked.all_valid(totals, valid))


def group_log_mean_advantages(
  ref_log_probs: Array, ref_mask: Array, valid: Array | None = None
) -> Array:
  """What sample i adds, log mean_j p_j - log mean_{j != i} p_j.

  In log space, so that long references do not underflow. A group of one has
  no others and gets 0. O(S^2 + S T).

  Source: Tang et al. 2025 (JEPO).

  Args: as of `group_log_mean`.

  Returns:
    `[..., S]` float32, 0 of what is invalid.
  """
  totals = log_probability(ref_log_probs, ref_mask)
  valid = masked.all_valid(totals, valid)
  size = totals.shape[-1]
  others = valid[..., None, :] & ~jnp.eye(size, dtype=bool)
  rows = jnp.broadcast_to(totals[..., None, :], others.shape)
  without = _log_mean(rows, others)
  gain = _log_mean(totals, valid)[..., None] - without
  return jnp.where(valid & others.any(-1), gain, 0.0)


def _log_mean(logs: Array, mask: Array) -> Array:
  """log mean exp over the last axis; 0 of none."""
  some = mask.any(-1)
  kept = jnp.where(mask, logs, -jnp.inf)
  kept = jnp.where(some[..., None], kept, 0.0)  # no -inf without a number
  log_count = jnp.log(jnp.maximum(masked.count(mask), 1.0))
  return jnp.where(some, jax.nn.logsumexp(kept, -1) - log_count, 0.0)


class VeriFree(NamedTuple):
  """Weights of one sample's two parts in the policy gradient, `[..., S]` each.

  Attributes:
    thought: of sum_t log pi over the thought: the leave-one-out advantage.
    reference: of sum_t log pi over the reference answer: R itself, uncentred.
  """

  thought: Array
  reference: Array


def verifree(
  ref_log_probs: Array,
  ref_mask: Array,
  ended: Array,
  valid: Array | None = None,
) -> VeriFree:
  """The exact gradient of E_z p(a* | x, z), in two weights.

  grad E_z[p] = E_z[p grad log pi(z | x) + p grad log pi(a* | x, z)]: the first
  has a baseline, the second is supervised learning of the reference, weighted
  by how far the thought has brought it. Loss = -(thought x sum of the thought's
  log-probs) - (reference x sum of the reference's), sums over tokens, no clip.
  Cut the thought where the answer tag's tokens allow it, inside the tag.

  Source: Zhou et al. 2025 (VeriFree).

  Args:
    ref_log_probs: `[..., S, T]` nats, at temperature 1.
    ref_mask: `[..., S, T]` bool.
    ended: `[..., S]` bool, the thought came to its end; if not, R = 0.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `VeriFree`; no gradient passes through it.
  """
  valid = masked.all_valid(ended, valid)
  rewards = present(probability(ref_log_probs, ref_mask), ended & valid)
  rewards = jax.lax.stop_gradient(rewards)
  return VeriFree(advantages.leave_one_out(rewards, valid), rewards)


def debiased_probability(
  ref_log_probs: Array,
  ref_mask: Array,
  without_thought: Array | float = 0.0,
  format_scores: Array | float = 0.0,
  format_weight: float = 0.1,
) -> Array:
  """What the thought adds to the answer's mean probability, and its format.

  R = (1 - w) clip(mean_t p_t - r0, 0, 1) + w format, r0 the same mean with no
  thought at all, once per prompt. Thoughts that hurt get 0 ("threshold_0").

  Source: Yu et al. 2025 (RLPR).

  Args:
    ref_log_probs, ref_mask: `[..., T]`, as of `probability`.
    without_thought: r0, broadcast to `[...]`.
    format_scores: `[...]` in [0, 1].
    format_weight: w, the paper's 0.1.

  Returns:
    `[...]` float32 in [0, 1]; the format alone of an empty reference.
  """
  gain = mean_probability(ref_log_probs, ref_mask) - without_thought
  gain = jnp.clip(gain, 0.0, 1.0)
  gain = jnp.where(ref_mask.any(-1), gain, 0.0)
  return (1.0 - format_weight) * gain + format_weight * format_scores


def spread_enough(
  rewards: Array,
  usual: Array | float,
  beta: float = 0.5,
  valid: Array | None = None,
) -> tuple[Array, Array]:
  """Which groups' rewards are spread widely enough to learn from.

  A group is kept if its standard deviation (ddof 1) is at least beta times the
  usual one: a moving average, of decay .99, of the batches' mean standard
  deviation, which the caller carries (`rl.transforms.library.moved`; the paper starts
  it at step 6 and filters from step 11). beta 0 keeps all.

  Source: Yu et al. 2025 (RLPR): beta 0.5 for Qwen, 0.9 Llama, 1.0 Gemma.

  Args:
    rewards: `[..., S]`.
    usual: `[]`, of earlier batches.
    beta: in units of `usual`.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` bool, groups to keep; and `[]` float32, this batch's mean.
  """
  valid = masked.all_valid(rewards, valid)
  spread = masked.std(present(rewards, valid), valid, ddof=1)
  groups = valid.any(-1)
  every = tuple(range(groups.ndim))
  mean = masked.mean(spread, groups, every) if every else spread
  return groups & (spread >= beta * usual), mean


def followup_likelihood(
  positive_log_probs: Array,
  positive_mask: Array,
  negative_log_probs: Array,
  negative_mask: Array,
) -> Array:
  """How much likelier a pleased user's next turn is than a displeased one's.

  R = mean_a (mean_{f in positive_a} l(f) - mean_{f in negative_a} l(f)), with
  l(f) = mean_t log p(f_t | context, y) under a frozen model. Follow-ups and
  aspects are fixed sentences; one that is wholly masked does not count, nor an
  aspect that lacks either kind. A model to which y makes no difference gives
  every y the same reward, which a group's baseline removes.

  Its weakness: y may speak for the user, or flatter.
  Source: Zhang et al. 2024, Aligning Language Models Using Follow-up Likelihood
  as Reward Signal (FLR).

  Args:
    positive_log_probs, positive_mask: `[..., A, F, T]`, tokens of the follow-ups
      of each aspect, in the user's turn.
    negative_log_probs, negative_mask: `[..., A, G, U]`.

  Returns:
    `[...]` float32, 0 of no aspect.
  """

  def mean_of(log_probs: Array, mask: Array) -> tuple[Array, Array]:
    followups = mask.any(-1)
    each = mean_log_probability(log_probs, mask)
    return masked.mean(each, followups), followups.any(-1)

  positive, has_positive = mean_of(positive_log_probs, positive_mask)
  negative, has_negative = mean_of(negative_log_probs, negative_mask)
  return masked.mean(positive - negative, has_positive & has_negative)
