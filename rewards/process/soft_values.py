"""Labels of steps by the log-expectation of what follows them.

  v_k = (1 / eta) log mean_m exp(eta ok_m),  ok_m of M continuations from step k

the value of a policy that is paid, and held to the one that continues by a KL
penalty of 1 / eta. eta = 0 is the mean (Math-Shepherd's soft label), eta
towards infinity the maximum (its hard one), below 0 towards the minimum.

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

from rewards.inputs import is_right
from rewards.process.labels import Labels

Array = jax.Array
_MOST = 80.0  # e^eta is a float32


def log_mean_exp(rate: Array, eta: float) -> Array:
  """(1 / eta) log(1 + p (e^eta - 1)): of verdicts, of which a share p is 1.

  Args:
    rate: `[...]` p in [0, 1].
    eta: -80 to 80.

  Returns:
    `[...]` float32 in [0, 1]; p itself at eta = 0.

  Raises:
    ValueError: eta is too large for float32.
  """
  if abs(eta) > _MOST:
    raise ValueError(
      f"eta = {eta:g} must be within +-{_MOST:g}; nearest: "
      f"{_MOST if eta > 0 else -_MOST:g}"
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
  """Every step's value; the last step's is the verdict.

  Args:
    successes: `[P, S, K, M]` bool, of `labels.monte_carlo`.
    step_mask: `[P, S, K]` bool, which steps there are, the first n.
    correct: `[P, S]` verdicts; of an unknown one the last step has no weight.
    eta: the paper tries about 2 to 10, its released code has 1; 2 is the
      gentlest of the paper's.

  Returns:
    The labels.
  """
  rate = jnp.mean(jnp.asarray(successes, jnp.float32), -1)
  step_mask = jnp.asarray(step_mask)
  last = step_mask & (jnp.cumsum(step_mask[..., ::-1], -1)[..., ::-1] == 1)
  verdict = is_right(correct).astype(jnp.float32)[..., None]
  values = jnp.where(last, verdict, log_mean_exp(rate, eta))
  known = jnp.asarray(correct)[..., None] >= 0
  there = step_mask & (known | ~last)
  return Labels(jnp.where(step_mask, values, 0.0), there.astype(jnp.float32))
