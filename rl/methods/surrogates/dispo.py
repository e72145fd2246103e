"""DISPO: separate bounds of the importance weight for right and wrong.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.shaping.overlong import soft_overlong
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import chain, group_normalize, mixed_verdicts, scores


def dispo(
  positive: tuple[float, float] = (0.2, 10.0),
  negative: tuple[float, float] = (1.0, 100.0),
  max_length: int = 20480,
  cache: int = 4096,
  ddof: int = 1,
) -> Method:
  """Maximises sg[clip(rho, 1 - low, 1 + high)] A log pi.

  rho [P, S, T] is the importance ratio of a token, sg stops the gradient, and A
  is the z-score of a sample's score in its group. (low, high) is `positive`
  where A > 0 and `negative` elsewhere. According to the paper, right samples
  with rho > 1 help exploration and those with rho < 1 distillation; for wrong
  samples a tight upper bound leads to repetition, and a tight lower bound to a
  collapse of the length. With equal bounds the objective is that of CISPO. It
  is averaged over the tokens of all samples that are trained on. Groups of one
  verdict are dropped, and the scores of long samples are lowered as in `dapo`.
  Open: the default bounds are quoted from another text than the paper; the
  lengths are those of DAPO.
  Source: Karaman et al. 2026, DISPO: Enhancing Training Efficiency and
  Stability in Reinforcement Learning for Large Language Model Mathematical
  Reasoning.

  Args:
    positive: (low, high) where A > 0.
    negative: (low, high) where A <= 0.
    max_length, cache: same as in `soft_overlong`.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  bounds = [(1 - low, 1 + high) for low, high in (positive, negative)]
  return Method(
    advantage=chain(
      scores(), soft_overlong(max_length, cache), group_normalize(ddof)
    ),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(
      weighted_reinforce(positive=bounds[0], negative=bounds[1])
    ),
  )
