"""Best scores of the k-subsets of a group by enumeration, for worked examples.

The first group has five samples that exist, the second six.
"""

import itertools

import numpy as np

SCORES = np.array(
  [[0.9, np.nan, 0.1, 0.4, 0.6, 0.3], [0.05, 0.3, 0.1, 0.25, 0.0, 0.1]]
)


def by_group(of_group, k, scores=SCORES):
  """Applies a function of scores and k to each group; 0 without a sample."""
  values = np.zeros(np.shape(scores))
  for row, group in zip(values, np.asarray(scores), strict=True):
    row[~np.isnan(group)] = of_group(group[~np.isnan(group)], k)
  return values


def max_at_k(scores, k):
  """s_i = sum over the k-subsets with i of their maximum, over C(n, k)."""
  subsets = list(itertools.combinations(range(len(scores)), k))
  return np.array(
    [
      sum(max(scores[list(subset)]) for subset in subsets if i in subset)
      / len(subsets)
      for i in range(len(scores))
    ]
  )


def gains(scores, k, ratios=None):
  """A_i = sum over the k-subsets I with i of (max_I - max of I without i).

  It is divided by C(n, k); each summand times the product of ratios over I.
  """
  ratios = np.ones(len(scores)) if ratios is None else ratios
  subsets = list(itertools.combinations(range(len(scores)), k))
  values = np.zeros(len(scores))
  for subset in subsets:
    for i in subset:
      others = [j for j in subset if j != i]
      gain = scores[list(subset)].max() - max(scores[others], default=0.0)
      values[i] += gain * np.prod(ratios[list(subset)]) / len(subsets)
  return values


def pass_at_k(scores, k):
  """A_i, the mean over the k-subsets with i of their z-scored maximum."""
  subsets = list(itertools.combinations(range(len(scores)), k))
  best = np.array([scores[list(subset)].max() for subset in subsets])
  z = (best - best.mean()) / best.std()
  return np.array(
    [
      np.mean([z[j] for j, subset in enumerate(subsets) if i in subset])
      for i in range(len(scores))
    ]
  )
