"""LESS: weights low-entropy segments by which responses share them.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import numpy as np

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import broadcast, chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)


def segment_weights(
  tokens: np.ndarray,
  entropy: np.ndarray,
  scored: np.ndarray,
  correct: np.ndarray,
  mu: int,
  share: float,
) -> np.ndarray:
  """The weights of the tokens of one group, by the rule of `less`.

  Args:
    tokens: `[S, T]` ids.
    entropy: `[S, T]` H.
    scored: `[S, T]` bool, tokens that count.
    correct: `[S]` verdicts; -1 is unknown.
    mu: number of tokens of the shortest segment.
    share: share of a response's tokens that has low entropy.

  Returns:
    `[S, T]` weights.
  """
  weights = np.ones(tokens.shape, np.float32)
  base_weight = {v: 1 / max((correct == v).sum(), 1) for v in (0, 1)}
  segments = []  # (sample, start, tokens as text) of low-entropy runs
  for i in np.flatnonzero((correct >= 0) & scored.any(-1)):
    ranked = np.sort(entropy[i][scored[i]])
    threshold = ranked[min(round(share * len(ranked)), len(ranked) - 1)]
    weights[i, scored[i] & (entropy[i] <= threshold)] = base_weight[correct[i]]
    low = np.pad(scored[i] & (entropy[i] < threshold), 1).astype(np.int8)
    # Starts and ends of runs alternate where the padded mask changes.
    for start, end in np.flatnonzero(np.diff(low)).reshape(-1, 2):
      if end - start >= mu:
        # As text, so that `in` and `index` find runs of tokens.
        text = "".join(map(chr, tokens[i, start:end]))
        segments.append((i, start, text))
  # Segments that occur inside a segment of another sample.
  pieces = {
    piece
    for i, _, piece in segments
    if any(piece in text for j, _, text in segments if i != j)
  }
  minimal = [p for p in pieces if not any(q in p for q in pieces - {p})]
  conflicts = []  # places of pieces that right and wrong samples share
  for piece in minimal:
    occurrences = {}
    for i, start, text in segments:
      if piece in text and i not in occurrences:
        position = start + text.index(piece)
        occurrences[i] = (i, slice(position, position + len(piece)))
    if len({correct[i] for i in occurrences}) == 2:
      conflicts += occurrences.values()
      continue
    for i, where in occurrences.items():
      weight = len(occurrences) * base_weight[correct[i]]
      weights[where] = np.maximum(weights[where], weight)
  for where in conflicts:
    weights[where] = 0.0
  return weights


def _weights(mu: int, share: float) -> scoring.Need:
  """The weights of all groups, computed by numpy on the host."""

  def fn(rollout: types.Rollout) -> np.ndarray:
    scored = rollout.mask & rollout.sample_mask[..., None]
    correct = np.where(rollout.sample_mask, rollout.correct, -1)
    groups = (rollout.completions, rollout.extras[_ENTROPY], scored, correct)
    rows = zip(*groups, strict=True)
    return np.stack([segment_weights(*row, mu, share) for row in rows])

  name = f"segment_weights(mu={mu}, share={share:g})"
  return scoring.host(name, fn, reads=(_ENTROPY,))


@transform(takes="token", needs=lambda mu, share: {_weights(mu, share)})
def times_segment_weights(
  signal: jax.Array, rollout: types.Rollout, *, mu: int, share: float
) -> jax.Array:
  """A_t w_t, with w computed on the host between sampling and the step."""
  return signal * rollout.extras[_weights(mu, share)]


def less(
  mu: int = 5,
  share: float = 0.8,
  low: float = 0.2,
  high: float = 0.28,
  cap: float = 10.0,
  ddof: int = 1,
) -> Method:
  """GRPO with low-entropy segments weighted by how many responses share them.

  A [P, S], the z-score of a sample's score in its group, is multiplied by a
  weight per token:

    1      tokens of high entropy: H above the response's `share` quantile
    1 / n  other tokens, n the number of right (wrong) responses in the group
    m / n  a shared piece in m responses that are all right (all wrong)
    0      a shared piece in right and in wrong responses

  A segment is a run of at least `mu` tokens with H strictly below the quantile.
  If it occurs inside a segment of another response, it is a shared piece; of
  nested pieces the smallest counts, at its first occurrence in each response.
  Weights never exceed 1; responses with unknown verdict have weight 1. The loss
  is PPO-clip with a dual clip, averaged over tokens.
  Deviation: where pieces overlap, 0 takes precedence, then the larger weight;
  in the code the order of discovery decides.
  Source: Chen et al. 2025, Beyond High-Entropy Exploration: Correctness-Aware
  Low-Entropy Segment-Based Advantage Shaping (LESS).

  Args:
    mu: number of tokens of the shortest segment.
    share: share of a response's tokens that has low entropy.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    cap: largest ratio, of the dual clip.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=chain(advantage, times_segment_weights(mu, share)),
    loss=policy_gradient(ppo_clip(low, high, cap)),
  )
