"""VeriFree: the exact gradient of the expected probability of the reference.

No registered reward calls this function yet.
"""

from __future__ import annotations

from typing import NamedTuple

import jax

from rewards import base
from rewards.likelihood.reference_probability import reference_probability
from rl import advantages, masked

Array = jax.Array


class VeriFree(NamedTuple):
  """Weights of the thought and the reference of each sample, `[..., S]` each.

  Attributes:
    thought: weight of the thought's log-probability, sum_t log pi: the
      leave-one-out advantage of the reward.
    reference: weight of the reference answer's log-probability: the reward,
      without a baseline.
  """

  thought: Array
  reference: Array


def verifree(
  ref_log_probs: Array,
  ref_mask: Array,
  ended: Array,
  valid: Array | None = None,
) -> VeriFree:
  """Returns the weights of the exact gradient of E_z p(a* | x, z).

  p is the probability of the reference answer a* after the prompt x and the
  thought z, and grad E_z[p] = E_z[p grad log pi(z | x) + p grad log pi(a* | x,
  z)]. The first term gets a leave-one-out baseline. The second term is
  supervised learning of the reference, weighted by p. The loss of a sample is
  -(thought * sum of the thought's log-probabilities) - (reference * sum of the
  reference's log-probabilities), without clipping. Cut the thought inside of
  the answer tag, at a token boundary.

  Source: Zhou et al. 2025, Reinforcing General Reasoning without Verifiers
  (VeriFree).

  Args:
    ref_log_probs: `[..., S, T]` log-probabilities of the reference's tokens in
      nats, at temperature 1.
    ref_mask: `[..., S, T]` bool, True for the reference's tokens.
    ended: `[..., S]` bool, True for complete thoughts; the reward of others is
      0.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `VeriFree`; gradients do not flow through it.
  """
  valid = masked.mask_or_ones(ended, valid)
  rewards = base.zero_outside(
    reference_probability(ref_log_probs, ref_mask), ended & valid
  )
  rewards = jax.lax.stop_gradient(rewards)
  thought = advantages.leave_one_out(rewards, valid)
  return VeriFree(thought=thought, reference=rewards)
