"""Critiques: a critic's verdicts on steps as token rewards (CAPO).

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
  """Returns the share of the critiques that call a step wrong.

  Args:
    named: `[..., C, K]` bool, True if critique c names step k as wrong.
    parsed: `[..., C]` bool, critiques that could be parsed; others do not vote.

  Returns:
    `[..., K]` float32 in [0, 1]; 0 if no critique could be parsed.
  """
  voting = jnp.broadcast_to(parsed[..., None], named.shape)
  return masked.mean(base.zero_outside(named, voting), voting, axis=-2)


# Rules that turn a share of critiques into an error in [0, 1]. The sets of
# wrong steps are nested: intersection <= majority <= union.
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
  """R_t = w_o 1[right] - w_p e(step of t), the final reward of every token.

  With the default weights a right answer with errors (+1) scores above a wrong
  one without errors (0). Normalize over the tokens of the group
  (`normalize_in_group`) and do not sum over later tokens. With process_weight 0
  and samples of equal length this is GRPO.

  Source: Xie et al. 2025, CAPO: Towards Enhancing LLM Reasoning through
  Verifiable Generative Credit Assignment. The paper's normalizer is not known
  to us.

  Args:
    correct: `[...]` verdicts; 1 is right.
    errors: `[..., K]` e in [0, 1], a rule of `VOTES` applied to
      `critique_share`.
    step_ids: `[..., T]` int, step of each token, -1 outside of steps.
    outcome_weight: w_o; the paper uses 2.
    process_weight: w_p; the paper uses 1.

  Returns:
    `[..., T]` float32, 0 outside of steps.
  """
  inside = step_ids >= 0
  at = jnp.clip(step_ids, 0, errors.shape[-1] - 1)
  charged = base.zero_outside(jnp.take_along_axis(errors, at, -1), inside)
  outcome = outcome_weight * base.is_right(correct).astype(jnp.float32)
  return jnp.where(inside, outcome[..., None] - process_weight * charged, 0.0)
