"""ER-PRM: the log-mean-exp of the verdicts of continuations."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base
from rl import UsageError

_LIMIT = 80.0  # keeps e^eta within the range of float32


def log_mean_exp(rate: np.ndarray, eta: float) -> np.ndarray:
  """Returns (1 / eta) log(1 + p (e^eta - 1)), the value for a success rate p.

  Args:
    rate: `[...]` p in [0, 1].
    eta: factor of the exponent, in [-80, 80].

  Returns:
    `[...]` in [0, 1]; p itself for eta = 0.

  Raises:
    UsageError: `eta` is not in [-80, 80].
  """
  if abs(eta) > _LIMIT:
    raise UsageError(
      f"eta = {eta:g} must be between {-_LIMIT:g} and {_LIMIT:g}; the nearest "
      f"valid value is {_LIMIT if eta > 0 else -_LIMIT:g}"
    )
  if eta == 0:
    return np.asarray(rate, float)
  if eta < 0:  # exchanges successes and failures, so that the exponent is > 0
    return 1.0 - log_mean_exp(1.0 - np.asarray(rate), -eta)
  return np.log1p(np.asarray(rate) * np.expm1(eta)) / eta


def entropy_regularized(eta: float = 2.0, continuations: int = 8):
  """Labels every step by a soft maximum of the verdicts of continuations.

    y_k = (1 / eta) log mean_m exp(eta c_m)

  c_m is 1 if continuation m of M from the end of step k is right, else 0. y_k
  is the optimal value of the step for a policy that maximises the verdict minus
  1 / eta times its KL divergence to the policy that continues. For eta = 0 it
  is the soft label of `monte_carlo`, for large eta the hard one, and for large
  negative eta it is 1 only if all continuations are right. The label of the
  last step is the verdict. The paper tries eta of about 2 to 10; its code has
  1.
  Deviation: the paper predicts one of the tokens "+" and "-" after each step;
  here any loss can be trained on the labels.
  Source: Zhang et al. 2024, Entropy-Regularized Process Reward Model (ER-PRM),
  and its released code.

  Args:
    eta: inverse weight of the KL divergence, from -80 to 80.
    continuations: M.

  Raises:
    UsageError: `eta` is out of range.
  """
  log_mean_exp(np.zeros(()), eta)  # refuses a value out of range

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    rates = base.step_rates(forest, rows, continuations)
    mask = base.step_mask(forest, rows)
    return base.make(rows, log_mean_exp(rates, eta), mask)

  return label
