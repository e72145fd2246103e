"""Rewards of how sure the policy is: of its tokens, its answer, its phases.

They take what a scoring pass found (log-probabilities or entropies of tokens
under the policy that sampled) and no label. All of them can be hacked, and it
is the method's own weakness: text that is short, repeated or copied is what a
policy is surest of. Keep the true score beside them.

Usage, with the answer's tokens marked by the host:
  scores = confidence.answer_confidence(log_probs, answer_mask)
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def negative_entropy(
  token_entropies: Array,
  mask: Array,
  answered: Array | None = None,
  unanswered: float = -7.0,
) -> Array:
  """R = -mean_t H_t: 0 of a deterministic policy, -log V of a uniform one.

  Its weakness: a repeated token soon has no entropy, so that R is maximal for
  degenerate text. The gate asks for an answer that can be read.

  Source: Prabhudesai et al. 2025, Maximizing Confidence Alone Improves Reasoning
  (RENT).

  Args:
    token_entropies: `[..., T]` nats, of the whole vocabulary.
    mask: `[..., T]` bool: the completion, or its last chunk, or the answer.
    answered: `[...]` bool; others get `unanswered`. None: no gate.
    unanswered: the paper's -7.

  Returns:
    `[...]` float32; an empty completion counts as unanswered, or it would be
    the surest of all.
  """
  entropy = masked.mean(present(token_entropies, mask), mask)
  open_gate = mask.any(-1) if answered is None else mask.any(-1) & answered
  return jnp.where(open_gate, -entropy, unanswered)


def divergence_from_uniform(logits: Array) -> Array:
  """KL(U || p) of each token, -(1/V) sum_v log p_v - log V, from whole logits.

  Take raw logits: after top-p or top-k some p_v is 0 and this is infinite.

  Args:
    logits: `[..., V]`, any float dtype; float32 inside.

  Returns:
    `[...]` float32, 0 where p is uniform.
  """
  logits = logits.astype(jnp.float32)
  mean_log = jnp.mean(logits, -1) - jax.nn.logsumexp(logits, -1)
  return -mean_log - math.log(logits.shape[-1])


def self_certainty(divergences: Array, mask: Array) -> Array:
  """C = mean_t KL(U || p_t): how far the policy is from guessing.

  As a reward it is Intuitor's. Its weakness is that of `negative_entropy`.

  Source: Kang et al. 2025, Scalable Best-of-N Selection for Large Language
  Models via Self-Certainty; Zhao et al. 2025, Learning to Reason without
  External Rewards (Intuitor).

  Args:
    divergences: `[..., T]`, of `divergence_from_uniform` at each token.
    mask: `[..., T]` bool, tokens of the completion.

  Returns:
    `[...]` float32, 0 of no tokens.
  """
  return masked.mean(present(divergences, mask), mask)


def borda_votes(
  confidence: Array,
  answer_ids: Array,
  power: float = 0.5,
  valid: Array | None = None,
) -> Array:
  """Votes for each sample's answer, a sample's vote growing with its rank.

  The sample of rank r (0 the surest) of the n that answered votes with weight
  ((n - r) / n)^power, in proportion to the paper's (n - r)^power. Power 0 is the
  majority vote, infinity the surest sample alone. The selected sample is the
  argmax. Samples without an answer, or whose confidence is not finite from
  below, do not vote; ties of confidence rank in the order of samples. O(S^2).

  Source: Kang et al. 2025 (Self-Certainty), Borda voting; its power grows with
  n, 0.5 at 8.

  Args:
    confidence: `[..., S]`.
    answer_ids: `[..., S]` int, equal for equal answers, -1 for none.
    power: p, at least 0.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32, the total of the sample's answer; 0 without one.
  """
  valid = masked.all_valid(answer_ids, valid) & (answer_ids >= 0)
  confidence = present(confidence, valid)
  voting = valid & (confidence > -jnp.inf)
  order = jnp.argsort(jnp.where(voting, -confidence, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1).astype(jnp.float32)
  n = jnp.maximum(masked.count(voting, keepdims=True), 1.0)
  share = jnp.where(voting, (n - rank) / n, 1.0)
  weights = jnp.where(voting, share**power, 0.0)
  same = answer_ids[..., :, None] == answer_ids[..., None, :]
  return jnp.where(valid, jnp.sum(same * weights[..., None, :], -1), 0.0)


def answer_confidence(log_probs: Array, answer_mask: Array) -> Array:
  """Mean probability of the final answer's tokens, given the reasoning.

  Its weakness: an answer that the reasoning repeats word by word is certain,
  right or wrong; and long answers hide one guessed token among copied ones.

  Source: Du et al. 2025, Confidence as a Reward: Transforming LLMs into Reward
  Models (CRew).

  Args:
    log_probs: `[..., T]` of the sampled tokens, nats.
    answer_mask: `[..., T]` bool, tokens inside the last box, found by the host.

  Returns:
    `[...]` float32 in [0, 1], 0 without an answer.
  """
  probabilities = jnp.exp(present(log_probs, answer_mask))
  return masked.mean(probabilities, answer_mask)


def confidence_gaps(
  confidence: Array, correct: Array, valid: Array | None = None
) -> tuple[Array, Array]:
  """c_right - c_wrong of every pair of a right and a wrong sample, O(S^2).

  CRew-DPO trains on the pairs of the largest gaps.

  Args:
    confidence: `[..., S]`.
    correct: `[..., S]` verdicts; 1 right, 0 wrong, -1 in no pair.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S, S]` float32, `[i, j]` of right i over wrong j, 0 elsewhere; and
    `[..., S, S]` bool, which are pairs.
  """
  correct = jnp.asarray(correct)
  valid = masked.all_valid(correct, valid)
  confidence = present(confidence, valid)
  right, wrong = valid & (correct == 1), valid & (correct == 0)
  pairs = right[..., :, None] & wrong[..., None, :]
  gaps = confidence[..., :, None] - confidence[..., None, :]
  return jnp.where(pairs, gaps, 0.0), pairs


def clipped_confidence(
  correct: Array,
  log_probs: Array,
  mask: Array,
  low: float = 0.1,
  high: float = 0.9,
  wrong_weight: float = 1.0,
) -> Array:
  """A verdict weighed by confidence: errors made with confidence cost most.

  c = exp(mean_t log pi_old(y_t)) clipped to [low, high]; R = c if right, else
  -wrong_weight c. All right, a group still has a signal, which is the point:
  it rewards being sure. low = high = 1 is the verdict as +-1.

  Source: ConfClip: Confidence-Weighted and Clipped Reward, from its
  abstract: the geometric mean and the bounds are our reading.

  Args:
    correct: `[...]` verdicts, 1 right; anything else counts as wrong.
    log_probs: `[..., T]` under the policy that sampled.
    mask: `[..., T]` bool, tokens of the completion.
    low, high: bounds of the confidence, 0 < low <= high <= 1.
    wrong_weight: what an error costs, in units of its confidence; 0 is the
      unsigned variant.

  Returns:
    `[...]` float32 in [-wrong_weight high, high].

  Raises:
    ValueError: the bounds are not in order.
  """
  if not 0 < low <= high <= 1:
    raise ValueError(
      f"low = {low:g} and high = {high:g} must have 0 < low <= high <= 1; "
      "nearest: low=0.1, high=0.9"
    )
  mean = masked.mean(present(log_probs, mask), mask)
  confidence = jnp.clip(jnp.exp(mean), low, high)
  return confidence * jnp.where(is_right(correct), 1.0, -wrong_weight)


def first_position(completions: Array, mask: Array, token: int) -> Array:
  """Where a token first stands, T where it does not.

  Args:
    completions: `[..., T]` int.
    mask: `[..., T]` bool, tokens of the completion.
    token: id, for instance of the end of thinking.

  Returns:
    `[...]` int32.
  """
  found = mask & (completions == token)
  size = completions.shape[-1]
  return jnp.where(found.any(-1), jnp.argmax(found, -1), size)


def phase_entropy(
  correct: Array,
  token_entropies: Array,
  mask: Array,
  thought_end: Array,
  format_scores: Array | float = 0.0,
  alpha: float = 1.0,
) -> Array:
  """A right answer pays for thought that wavers more than its answer does.

  P = max(0, mean H of the thought - alpha mean H of the answer);
  R = min(1, 1 - P) if right, else the format's score, in [0, 1).

  The end marker counts in neither phase. Without a marker all is thought and
  the answer's entropy is 0. Wrong samples do not see P.

  Source: Huang et al. 2025, PEAR: Phase Entropy Aware Reward for Efficient
  Reasoning.

  Args:
    correct: `[...]` verdicts, 1 right.
    token_entropies: `[..., T]` nats, under the policy that sampled.
    mask: `[..., T]` bool, tokens of the completion.
    thought_end: `[...]` int, position of the end marker, T without one
      (`first_position`).
    format_scores: `[...]`, what a wrong answer gets.
    alpha: what the answer's entropy allows the thought.

  Returns:
    `[...]` float32.
  """
  entropies = present(token_entropies, mask)
  positions = jnp.arange(mask.shape[-1])
  end = jnp.asarray(thought_end)[..., None]
  thought = masked.mean(entropies, mask & (positions < end))
  answer = masked.mean(entropies, mask & (positions > end))
  penalty = jnp.maximum(thought - alpha * answer, 0.0)
  right = is_right(correct)
  return jnp.where(right, 1.0 - present(penalty, right), format_scores)
