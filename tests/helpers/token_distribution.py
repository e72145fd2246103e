"""The distribution that a token is drawn from, in float64."""

import numpy as np

from rl.sampling import token_sampling

TRUNCATIONS = {
  "plain": {},
  "cold": {"temperature": 0.6},
  "top_k": {"top_k": 4},
  "top_p": {"top_p": 0.7},
  "min_p": {"min_p": 0.2},
  "all": {"temperature": 1.5, "top_k": 9, "top_p": 0.8, "min_p": 0.1},
}


def exact(
  logits: np.ndarray, sampling: token_sampling.TokenSampling
) -> np.ndarray:
  """The sampled distribution of one row, token by token in float64."""
  x = np.asarray(logits, np.float64) / sampling.temperature
  probs = np.exp(x - x.max())
  probs /= probs.sum()
  order = sorted(range(len(probs)), key=lambda i: -probs[i])
  if sampling.top_k:
    order = order[: sampling.top_k]
  mass = sum(probs[i] for i in order)
  tokens, total = [], 0.0
  for i in order:
    if total < sampling.top_p * mass or sampling.top_p == 1:
      tokens.append(i)
    total += probs[i]
  tokens = [i for i in tokens if probs[i] >= sampling.min_p * probs[order[0]]]
  truncated = np.zeros(len(probs))
  truncated[tokens] = probs[tokens]
  return truncated / truncated.sum()
