"""Objectives of the tail, unbiased for samples drawn from another policy.

Axes: P prompts, S samples per prompt (a group).
"""

from collections.abc import Sequence

from rl.method import Method
from rl.methods.sets import tail_objectives
from rl.methods.sets.max_at_k_off_policy import off_policy_max_at_k
from rl.transforms import scores


def from_value_off_policy(
  objective: str | Sequence[float] = "log",
  degree: int = 4,
  order: str = "exact",
  bound: float = 1.0,
) -> Method:
  """Ascends an objective of the tail, for several updates a rollout.

  A series g(s) = sum_j a_j (1 - s)^j is the mixture of -a_j max@j, so that its
  advantages are the sum of those of `max_at_k_off_policy` with these weights.
  "log" is the sum of max@k / k over k from 1 to `degree`, which is TailRL off
  policy. Bounds and orders are those of `max_at_k_off_policy`.
  Source: TailRL, arXiv 2609.02987, not checked against the paper; The Best of N
  Worlds (off-policy max@k). The exact form is from this project.

  Args:
    objective: a name of `rl.methods.sets.tail_objectives.NAMES` other than
      "top@a", or coefficients of g in powers of 1 - P(R > tau), from degree 0.
    degree: degree at which "log" and "tsallis@q" are truncated, at most the
      number of samples of a group. The time grows with its square.
    order: "exact", "first" or "zeroth".
    bound: largest |log rho_i|.
  """
  coefficients = tail_objectives.series(objective, degree)
  mixture = tuple((j, -a) for j, a in enumerate(coefficients) if j and a)
  loss = off_policy_max_at_k(mixture, order, bound)
  return Method(advantage=scores(), loss=loss)
