"""Critiques: a critic model's verdicts on reasoning steps as token rewards.

Axes: C critiques of a sample, K reasoning steps, T tokens.

No registered reward calls these functions yet.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def critique_share(named: Array, parsed: Array) -> Array:
  """Returns, for each step, the share of the critiques that call it wrong.

  Args:
    named: `[..., C, K]` bool, True if critique c names step k as wrong.
    parsed: `[..., C]` bool, critiques that could be parsed; others do not vote.

  Returns:
    `[..., K]` float32 in [0, 1]; 0 if no critique could be parsed.
  """
  voting = jnp.broadcast_to(parsed[..., None], named.shape)
  return masked.mean(base.zero_outside(named, voting), voting, axis=-2)


# Rules that turn the share of critiques that call a step wrong into an error in
# [0, 1]: 1 if all critiques do ("intersection"), if at least half of them do
# ("majority"), if one does ("union"), else 0; or the share itself ("average").
VOTES: dict[str, Callable[[Array], Array]] = {
  "intersection": lambda share: (share >= 1.0).astype(jnp.float32),
  "majority": lambda share: (share >= 0.5).astype(jnp.float32),
  "union": lambda share: (share > 0.0).astype(jnp.float32),
  "average": lambda share: share,
}


def outcome_minus_errors(
  correct: Array,
  errors: Array,
  step_ids: Array,
  outcome_weight: float = 2.0,
  process_weight: float = 1.0,
) -> Array:
  """Returns R_t = w_o 1[right] - w_p e_k for every token t of step k (CAPO).

  With the default weights a token of an error in a right answer (+1) scores
  above a token without error in a wrong answer (0). Normalize R over the tokens
  of the group (`normalized_steps.normalize_in_group`) to get advantages; do not
  sum it over later tokens. With w_p = 0, samples of equal length and no token
  outside of steps, the normalized reward is the advantage of GRPO (ddof 0).

  Source: Xie et al. 2025, CAPO: Towards Enhancing LLM Reasoning through
  Verifiable Generative Credit Assignment.

  Open: the normalization of the paper is unknown.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    errors: `[..., K]` e in [0, 1], a rule of `VOTES` applied to
      `critique_share`.
    step_ids: `[..., T]` int, step of each token, -1 outside of steps.
    outcome_weight: w_o; the paper uses 2.
    process_weight: w_p; the paper uses 1.

  Returns:
    `[..., T]` float32, 0 outside of steps.
  """
  inside = step_ids >= 0
  indices = jnp.maximum(step_ids, 0)
  token_errors = jnp.take_along_axis(errors, indices, -1)  # [..., T]
  token_errors = base.zero_outside(token_errors, inside)
  outcome = outcome_weight * base.is_right(correct).astype(jnp.float32)
  rewards = outcome[..., None] - process_weight * token_errors
  return jnp.where(inside, rewards, 0.0)
