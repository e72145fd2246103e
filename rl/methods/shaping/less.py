"""LESS: weights low-entropy segments by how many responses share them.

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
  """Returns the weights of the tokens of one group, by the rule of `less`.

  Args:
    tokens: `[S, T]` ids.
    entropy: `[S, T]`, H.
    scored: `[S, T]` bool, the scored tokens; other tokens have weight 1.
    correct: `[S]` verdicts; -1 is unknown.
    mu: number of tokens of the shortest segment.
    share: share of a response's tokens that has low entropy.

  Returns:
    `[S, T]` weights.
  """
  weights = np.ones(tokens.shape, np.float32)
  # By verdict: 1 / n, n the number of samples with this verdict.
  base_weight = {v: 1 / max((correct == v).sum(), 1) for v in (0, 1)}
  segments = []  # (sample, start, tokens as text) of each segment
  for i in np.flatnonzero((correct >= 0) & scored.any(-1)):
    ranked = np.sort(entropy[i][scored[i]])
    threshold = ranked[min(round(share * len(ranked)), len(ranked) - 1)]
    weights[i, scored[i] & (entropy[i] <= threshold)] = base_weight[correct[i]]
    # Strictly below, so that a response of constant entropy has no segment.
    low = np.pad(scored[i] & (entropy[i] < threshold), 1).astype(np.int8)
    # Starts and ends of runs alternate where the padded mask changes.
    for start, end in np.flatnonzero(np.diff(low)).reshape(-1, 2):
      if end - start >= mu:
        # As text, so that `in` and `index` find runs of tokens.
        text = "".join(map(chr, tokens[i, start:end]))
        segments.append((i, start, text))
  # Shared pieces: segments that occur inside a segment of another sample.
  pieces = {
    piece
    for i, _, piece in segments
    if any(piece in text for j, _, text in segments if i != j)
  }
  # Pieces that contain no other piece.
  smallest = [
    piece
    for piece in pieces
    if not any(other in piece for other in pieces - {piece})
  ]
  conflicts = []  # indices of pieces that right and wrong samples share
  for piece in smallest:
    # By sample: the index into `weights` of the piece's first occurrence.
    index_of = {}
    for i, start, text in segments:
      if piece in text and i not in index_of:
        position = start + text.index(piece)
        index_of[i] = (i, slice(position, position + len(piece)))
    if len({correct[i] for i in index_of}) == 2:
      conflicts += index_of.values()
      continue
    for i, index in index_of.items():
      weight = len(index_of) * base_weight[correct[i]]
      weights[index] = np.maximum(weights[index], weight)
  for index in conflicts:
    weights[index] = 0.0
  return weights


def _segment_weights_need(mu: int, share: float) -> scoring.Need:
  """Returns the need for the weights of all groups, computed on the host."""

  def fn(rollout: types.Rollout) -> np.ndarray:
    # Samples that do not exist have no verdict, and therefore weight 1.
    correct = np.where(rollout.sample_mask, rollout.correct, -1)
    entropy = rollout.extras[_ENTROPY]
    arrays = (rollout.completions, entropy, rollout.mask, correct)
    groups = zip(*arrays, strict=True)
    return np.stack([segment_weights(*group, mu, share) for group in groups])

  # Needs with the same name are equal, so that the need of a later call with
  # the same arguments finds the same array.
  name = f"segment_weights(mu={mu}, share={share:g})"
  return scoring.host(name, fn, reads=(_ENTROPY,))


@transform(
  takes="token", needs=lambda mu, share: {_segment_weights_need(mu, share)}
)
def times_segment_weights(
  signal: jax.Array, rollout: types.Rollout, *, mu: int, share: float
) -> jax.Array:
  """Returns A_t w_t, with the weights w of `segment_weights`.

  They are computed with numpy after sampling, before the compiled training
  step.
  """
  return signal * rollout.extras[_segment_weights_need(mu, share)]


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

    1      tokens of high entropy: H above the `share` quantile of the response
    1 / n  other tokens, n the number of responses of the group with the same
           verdict (right or wrong)
    m / n  a shared piece in m responses that are all right, or all wrong
    0      a shared piece in right and in wrong responses

  H is the entropy of the next-token distribution under the policy at the start
  of the training step. A segment is a run of at least `mu` tokens with H
  strictly below the quantile. A segment that occurs inside a segment of another
  response of the group is a shared piece; a piece that contains another piece
  is ignored. A piece has its weight at its first occurrence in each response.
  Weights never exceed 1; responses with an unknown verdict have weight 1. The
  loss is PPO-clip with a dual clip, averaged over the tokens of all samples.
  Deviation: where pieces overlap, this implementation takes the weight 0 if one
  of them has it, and else the larger weight; in the released code the order in
  which the pieces are found decides.
  Source: Chen et al. 2025, Beyond High-Entropy Exploration: Correctness-Aware
  Low-Entropy Segment-Based Advantage Shaping (LESS).
  Quantity: host/segment_weights.

  Args:
    mu: smallest number of tokens of a segment.
    share: share of a response's tokens that has low entropy.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    cap: largest importance ratio where A < 0 (dual clip).
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=chain(advantage, times_segment_weights(mu, share)),
    loss=policy_gradient(ppo_clip(low, high, cap)),
  )
