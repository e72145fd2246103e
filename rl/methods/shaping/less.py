"""Low-entropy segments, weighed by who shares them."""

import jax
import numpy as np

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import broadcast, chain, group_normalize, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)


def segment_weights(
  tokens: np.ndarray,
  entropy: np.ndarray,
  scored: np.ndarray,
  correct: np.ndarray,
  mu: int,
  share: float,
) -> np.ndarray:
  """The weights of one group's tokens; the rule is that of `less`.

  Args:
    tokens, entropy, scored: `[S, T]` ids, H, and which tokens count.
    correct: `[S]` verdicts.
    mu: tokens in the shortest segment.
    share: of a response's tokens that are of low entropy.
  """
  weights = np.ones(tokens.shape, np.float32)
  own = {v: 1 / max((correct == v).sum(), 1) for v in (0, 1)}
  segments = []
  for i in np.flatnonzero((correct >= 0) & scored.any(-1)):
    ranked = np.sort(entropy[i][scored[i]])
    limit = ranked[min(round(share * len(ranked)), len(ranked) - 1)]
    weights[i, scored[i] & (entropy[i] <= limit)] = own[correct[i]]
    low = np.pad(scored[i] & (entropy[i] < limit), 1).astype(np.int8)
    for start, end in np.flatnonzero(np.diff(low)).reshape(-1, 2):
      if end - start >= mu:
        text = "".join(map(chr, tokens[i, start:end]))
        segments.append((i, start, text))
  pieces = {
    piece
    for i, _, piece in segments
    if any(piece in text for j, _, text in segments if i != j)
  }
  minimal = [p for p in pieces if not any(q in p for q in pieces - {p})]
  conflicts = []
  for piece in minimal:
    found = {}
    for i, start, text in segments:
      if piece in text and i not in found:
        at = start + text.index(piece)
        found[i] = (i, slice(at, at + len(piece)))
    if len({correct[i] for i in found}) == 2:
      conflicts += found.values()
      continue
    for i, where in found.items():
      together = len(found) * own[correct[i]]
      weights[where] = np.maximum(weights[where], together)
  for where in conflicts:
    weights[where] = 0.0
  return weights


def _weights(mu: int, share: float) -> scoring.Need:
  def fn(rollout: types.Rollout) -> np.ndarray:
    scored = rollout.mask & rollout.sample_mask[..., None]
    correct = np.where(rollout.sample_mask, rollout.correct, -1)
    groups = (rollout.completions, rollout.extras[_ENTROPY], scored, correct)
    rows = zip(*groups, strict=True)
    return np.stack([segment_weights(*row, mu, share) for row in rows])

  name = f"segment_weights(mu={mu}, share={share:g})"
  return scoring.host(name, fn, reads=(_ENTROPY,))


@transform("token", needs=lambda mu, share: {_weights(mu, share)})
def times_segment_weights(
  signal: jax.Array, rollout: types.Rollout, *, mu: int, share: float
) -> jax.Array:
  """A_t w_t, w found by numpy between sampling and the step."""
  return signal * rollout.extras[_weights(mu, share)]


def less(
  mu: int = 5,
  share: float = 0.8,
  low: float = 0.2,
  high: float = 0.28,
  cap: float = 10.0,
  ddof: int = 1,
) -> Method:
  """GRPO whose fluent passages count by how many like responses share them.

    1         tokens of high entropy: H above the response's `share` quantile
    1 / n     the others, n the right (wrong) responses of the group
    m / n     a shared piece, in m responses that are all right (all wrong)
    0         a shared piece in right and wrong responses

  multiply A. A segment is a run of at least `mu` tokens with H strictly below
  the quantile; one that occurs inside a segment of another response is shared,
  of nested pieces the smallest, at its first occurrence. Weights never exceed
  1; unknown verdicts have weight 1. PPO-clip with a dual clip at `cap`, mean
  over tokens.
  Deviation: where pieces overlap, 0 wins and then the larger weight; in the
  code the order of discovery decides.
  Source: Chen et al. 2025, Beyond High-Entropy Exploration: Correctness-Aware
  Low-Entropy Segment-Based Advantage Shaping (LESS).
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=chain(advantage, times_segment_weights(mu, share)),
    loss=policy_gradient(ppo_clip(low, high, cap)),
  )
