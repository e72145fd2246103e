"""DISPO: importance weights with bounds of their own for right and wrong."""

from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.overlong import soft_overlong
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import chain, group_normalize, mixed_verdicts, scores


def dispo(
  positive: tuple[float, float] = (0.2, 10.0),
  negative: tuple[float, float] = (1.0, 100.0),
  max_length: int = 20480,
  cache: int = 4096,
  ddof: int = 1,
) -> Method:
  """Maximises sg[clip(rho, 1 - low, 1 + high)] A log pi over the mean token.

  (low, high) is `positive` where A > 0 and `negative` where A < 0. Right and
  rho > 1 explores, right and rho < 1 distils; tight bounds on wrong samples
  give repetition (above) or a collapse of length (below). Equal bounds are
  CISPO's. The z-score of the group; groups of one verdict are dropped, and
  long samples punished softly, as by `dapo`.
  Open: the bounds are quoted second-hand, the lengths are DAPO's.
  Source: Karaman et al. 2026, DISPO: Enhancing Training Efficiency and
  Stability in Reinforcement Learning for Large Language Model Mathematical
  Reasoning.
  """
  bounds = [(1 - low, 1 + high) for low, high in (positive, negative)]
  return Method(
    advantage=chain(
      scores(), soft_overlong(max_length, cache), group_normalize(ddof)
    ),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(weighted_reinforce(*bounds)),
  )
