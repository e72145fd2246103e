"""VeriFree: the exact gradient of the expected probability of the reference.

No registered reward calls these functions yet.
"""

from __future__ import annotations

from typing import NamedTuple

import jax

from rewards import base
from rewards.likelihood.reference_probability import reference_probability
from rl import advantages, masked

Array = jax.Array


class VeriFree(NamedTuple):
  """Weights of one sample's two parts in the policy gradient, `[..., S]` each.

  Attributes:
    thought: weight of sum_t log pi over the thought, the leave-one-out
      advantage.
    reference: weight of sum_t log pi over the reference answer, the reward R
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
  """Weights of the exact gradient of E_z p(a* | x, z).

  grad E_z[p] = E_z[p grad log pi(z | x) + p grad log pi(a* | x, z)]. The first
  term has a baseline. The second is supervised learning of the reference,
  weighted by its probability after the thought. The loss is -(thought x sum of
  the thought's log-probs) - (reference x sum of the reference's log-probs),
  with sums over tokens and without clipping. Cut the thought inside the answer
  tag, at a token boundary of the tag.

  Source: Zhou et al. 2025, Reinforcing General Reasoning without Verifiers
  (VeriFree).

  Args:
    ref_log_probs: `[..., S, T]` log-probabilities of the reference in nats, at
      temperature 1.
    ref_mask: `[..., S, T]` bool, mask of the reference's tokens.
    ended: `[..., S]` bool, thoughts that are complete; R = 0 for the others.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `VeriFree`; gradients do not flow through it.
  """
  valid = masked.mask_or_ones(ended, valid)
  rewards = base.zero_outside(
    reference_probability(ref_log_probs, ref_mask), ended & valid
  )
  rewards = jax.lax.stop_gradient(rewards)
  return VeriFree(advantages.leave_one_out(rewards, valid), rewards)
