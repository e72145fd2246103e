"""Soft values: labels of steps by the log-mean-exp of continuations (ER-PRM).

  v_k = (1 / eta) log mean_m exp(eta c_m)

c_m is 1 if continuation m of M from the end of step k is right, else 0. v_k is
the optimal value of the step for a policy that maximizes the verdict minus
1 / eta times its KL divergence to the policy that continues. For eta = 0, v_k
is the mean (Math-Shepherd's soft label); for large eta it approaches the
maximum (Math-Shepherd's hard label), for large negative eta the minimum.

No registered reward calls these functions yet.

Usage:
  successes = labels.monte_carlo(evaluate, step_mask)
  values = soft_values.entropy_regularized(successes, step_mask, correct)

Source: Zhang et al. 2024, Entropy-Regularized Process Reward Model (ER-PRM),
and its released code. Deviation: the paper trains a model to predict one of the
tokens "+" and "-" after each step; here the values are labels for
`losses.soft_label_bce`.
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
  """Returns (1 / eta) log(1 + p (e^eta - 1)), the value for successes' share p.

  Args:
    rate: `[...]` p in [0, 1], share of the continuations that succeed.
    eta: factor of the exponent, in [-80, 80].

  Returns:
    `[...]` float32 in [0, 1]; p itself for eta = 0.

  Raises:
    ValueError: `eta` is not in [-80, 80].
  """
  if abs(eta) > _LIMIT:
    raise ValueError(
      f"eta = {eta:g} must be between {-_LIMIT:g} and {_LIMIT:g}; the nearest "
      f"valid value is {_LIMIT if eta > 0 else -_LIMIT:g}"
    )
  rate = jnp.asarray(rate, jnp.float32)
  if eta == 0:
    return rate
  if eta < 0:  # exchanges successes and failures, so that the exponent is > 0
    return 1.0 - log_mean_exp(1.0 - rate, -eta)
  return jnp.log1p(rate * np.expm1(eta)) / eta


def entropy_regularized(
  successes: Array, step_mask: Array, correct: Array, eta: float = 2.0
) -> Labels:
  """Returns the value of every step; that of the last step is the verdict.

  Args:
    successes: `[P, S, K, M]` bool, from `labels.monte_carlo`, for S samples of
      P prompts, K steps and M continuations.
    step_mask: `[P, S, K]` bool, True for the steps that exist, which are the
      first of each sample.
    correct: `[P, S]` verdicts. If the verdict is unknown (-1), the last step
      has weight 0.
    eta: same as in `log_mean_exp`. The paper tries about 2 to 10; the released
      code has 1.

  Returns:
    The labels, with weight 1 for every other step that exists.
  """
  rate = jnp.mean(jnp.asarray(successes, jnp.float32), -1)
  step_mask = jnp.asarray(step_mask)
  last = step_mask & (jnp.cumsum(step_mask[..., ::-1], -1)[..., ::-1] == 1)
  verdict = base.is_right(correct).astype(jnp.float32)[..., None]
  values = jnp.where(last, verdict, log_mean_exp(rate, eta))
  has_verdict = jnp.asarray(correct)[..., None] >= 0
  weights = (step_mask & (has_verdict | ~last)).astype(jnp.float32)
  return Labels(values=jnp.where(step_mask, values, 0.0), weights=weights)
