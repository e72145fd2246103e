"""Soft values: labels of steps by the log-expectation of what follows (ER-PRM).

  v_k = (1 / eta) log mean_m exp(eta ok_m)

over the verdicts ok_m of M continuations from step k. v is the value of a
policy that maximizes the verdict with a KL penalty of 1 / eta to the continuing
policy. eta = 0 is the mean (Math-Shepherd's soft label); for large eta it
approaches the maximum (its hard label), for large negative eta the minimum.

No registered reward calls these functions yet.

Usage:
  successes = labels.monte_carlo(evaluate, step_mask)
  values = soft_values.entropy_regularized(successes, step_mask, correct)

Source: Zhang et al. 2024, Entropy-Regularized Process Reward Model (ER-PRM),
and its code. The model is trained on them by `losses.soft_label_bce`; in the
paper through the next token, "+" against "-".
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rewards import base
from rewards.process.labels import Labels

Array = jax.Array
_LIMIT = 80.0  # keeps e^eta within the range of float32


def log_mean_exp(rate: Array, eta: float) -> Array:
  """(1 / eta) log(1 + p (e^eta - 1)), v for a share p of successes.

  Args:
    rate: `[...]` p in [0, 1].
    eta: rate in [-80, 80].

  Returns:
    `[...]` float32 in [0, 1]; p itself for eta = 0.

  Raises:
    ValueError: `eta` is too large for float32.
  """
  if abs(eta) > _LIMIT:
    raise ValueError(
      f"eta = {eta:g} must be in [-{_LIMIT:g}, {_LIMIT:g}]; nearest: "
      f"{_LIMIT if eta > 0 else -_LIMIT:g}"
    )
  rate = jnp.asarray(rate, jnp.float32)
  if eta == 0:
    return rate
  if eta < 0:
    return 1.0 - log_mean_exp(1.0 - rate, -eta)
  return jnp.log1p(rate * np.expm1(eta)) / eta


def entropy_regularized(
  successes: Array, step_mask: Array, correct: Array, eta: float = 2.0
) -> Labels:
  """Returns the value of every step; that of the last step is the verdict.

  Args:
    successes: `[P, S, K, M]` bool, from `labels.monte_carlo`.
    step_mask: `[P, S, K]` bool, mask of steps; the first n of each sample.
    correct: `[P, S]` verdicts. If it is unknown, the last step has weight 0.
    eta: the paper tries about 2 to 10, its released code has 1; 2 is the
      gentlest of the paper's.

  Returns:
    The labels.
  """
  rate = jnp.mean(jnp.asarray(successes, jnp.float32), -1)
  step_mask = jnp.asarray(step_mask)
  last = step_mask & (jnp.cumsum(step_mask[..., ::-1], -1)[..., ::-1] == 1)
  verdict = base.is_right(correct).astype(jnp.float32)[..., None]
  values = jnp.where(last, verdict, log_mean_exp(rate, eta))
  has_verdict = jnp.asarray(correct)[..., None] >= 0
  weights = (step_mask & (has_verdict | ~last)).astype(jnp.float32)
  return Labels(jnp.where(step_mask, values, 0.0), weights)
