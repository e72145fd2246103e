"""Metrics of rollouts and updates: pass@k, max@k, means and counts.

Axes: P prompts, S samples per prompt (a group), T tokens. A mask `valid` is
True for samples that exist. A group with fewer than k valid samples has no
pass@k or max@k and is left out of the mean over groups. If no group has enough
samples, this mean is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import flax.struct
import jax
import jax.numpy as jnp

from rl import best_of_k, masked, scoring, types
from rl.sampling.environment import ENDS

Array = jax.Array


def pass_at_k_curve(
  correct: Array, ks: Sequence[int], valid: Array | None = None
) -> Array:
  """Estimates pass@k, without bias and averaged over groups.

    mean over groups of 1 - C(n - c, k) / C(n, k)

  for a group with n valid samples, of which c are right.

  Args:
    correct: `[..., S]`, 1 right and 0 wrong (bool, int or float).
    ks: values of k, static ints in 1..S.
    valid: `[..., S]` bool, samples with a known verdict; None means all.

  Returns:
    `[len(ks)]` float32.

  Raises:
    UsageError: if a k is not in 1..S.

  Source: Chen et al. 2021, Evaluating Large Language Models Trained on Code.
  """
  return _curve(best_of_k.pass_at_k_value, correct, ks, valid)


def max_at_k_curve(
  scores: Array, ks: Sequence[int], valid: Array | None = None
) -> Array:
  """Estimates max@k, the expected best score of k samples of a group.

  The estimate is unbiased, and averaged over groups.

  Args:
    scores: `[..., S]`, real numbers.
    ks: values of k, static ints in 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[len(ks)]` float32.

  Raises:
    UsageError: if a k is not in 1..S.
  """
  return _curve(best_of_k.max_at_k_value, scores, ks, valid)


def _curve(
  estimator: Callable[..., Array],
  values: Array,
  ks: Sequence[int],
  valid: Array | None,
) -> Array:
  """Averages an estimator over the groups with at least k valid samples."""
  values = jnp.asarray(values)
  valid = masked.mask_or_ones(values, valid)
  count = valid.sum(-1)
  return jnp.stack(
    [jnp.mean(estimator(values, k, valid), where=count >= k) for k in ks]
  )


def auc(scores: Array, labels: Array, valid: Array | None = None) -> Array:
  """Computes the area under the ROC curve of scores that predict a label.

    sum over pairs of (1[s_+ > s_-] + 1[s_+ = s_-] / 2) / (n_+ n_-)

  A pair is an entry with label 1 and score s_+, of which there are n_+, and an
  entry with label 0 and score s_-, of which there are n_-. The result is the
  probability that s_+ > s_- in a random pair, where a tie counts one half.

  Args:
    scores: array of any shape, finite where valid.
    labels: array of the same shape, bool or 0 and 1.
    valid: array of the same shape, bool; None means all.

  Returns:
    `[]` float32; NaN if the entries do not have both labels.

  Source: Mann and Whitney 1947.
  """
  scores, labels = jnp.ravel(jnp.asarray(scores)), jnp.ravel(labels) > 0
  valid = masked.mask_or_ones(
    scores, None if valid is None else jnp.ravel(valid)
  )
  positive, negative = valid & labels, valid & ~labels
  ordered = jnp.sort(jnp.where(negative, scores, jnp.inf))
  # Number of negative entries below each score, and at most as large as it.
  below = jnp.searchsorted(ordered, scores, side="left")
  at_most = jnp.searchsorted(ordered, scores, side="right")
  share = (below + at_most) / (2.0 * masked.count(negative))
  return masked.sum(share, positive) / masked.count(positive)


def rollout_metrics(rollout: types.Rollout) -> dict[str, Array]:
  """Computes the metrics that depend on the rollout alone.

  They are over the samples that exist (`sample_mask`). Accuracies are over the
  samples that exist and have a known verdict.

    reward/mean, reward/std           scores (standard deviation with ddof 0)
    score/<name>/mean                 one component of the score
    accuracy/pass@1, accuracy/pass@S  unbiased; NaN if no verdict is known
    group/zero_variance_frac          share of groups whose scores are all equal
    group/solve_count_hist            `[S + 1]`, share of groups by number of
                                      right samples, among groups with a known
                                      verdict
    length/mean, length/max           scored tokens per sample
    length/truncated_frac             share of samples that ended at the length
                                      limit
    length/steps_mean                 reasoning steps per sample, if the task
                                      has steps
    ends/<kind>                       share of sampled episodes with this end,
                                      one of `rl.sampling.environment.ENDS`,
                                      if there are several turns
    cost/sampled_tokens               see `sampled_tokens`
    judge/unanswered_frac            share of the questions to a judge without
                                     an answer, over all sampled completions
    verifier/unscored_frac            share of sampled completions without a
                                      score; only if the task reports timeouts
                                      of its verifier ("task/timeout")
    verifier/timeout_frac             share of sampled completions whose
                                      verifier timed out; only then

  Args:
    rollout: a rollout with scores.

  Returns:
    `{name: []}` float32, except for the histogram.
  """
  valid, scores = rollout.sample_mask, rollout.scores
  lengths = rollout.scored_lengths.astype(jnp.float32)
  S = scores.shape[-1]
  has_verdict = valid & (rollout.correct >= 0)
  pass_at_k = pass_at_k_curve(rollout.correct == 1, (1, S), has_verdict)
  num_right = ((rollout.correct == 1) & has_verdict).sum(-1)  # [P]
  metrics = {
    "reward/mean": masked.mean(scores, valid, (0, 1)),
    "reward/std": masked.std(scores, valid, (0, 1)),
    "accuracy/pass@1": pass_at_k[0],
    f"accuracy/pass@{S}": pass_at_k[1],
    "group/zero_variance_frac": masked.mean(
      masked.is_constant(scores, valid), valid.any(-1)
    ),
    "group/solve_count_hist": jnp.mean(
      jax.nn.one_hot(num_right, S + 1),
      axis=0,
      where=has_verdict.any(-1)[:, None],
    ),
    "length/mean": masked.mean(lengths, valid, (0, 1)),
    "length/max": jnp.max(jnp.where(valid, lengths, 0.0)),
    "length/truncated_frac": masked.mean(~rollout.finished, valid, (0, 1)),
  }
  is_sampled = rollout.tokens.lengths > 0
  if "task/unanswered" in rollout.extras:
    metrics["judge/unanswered_frac"] = masked.mean(
      rollout.extras["task/unanswered"], is_sampled, (0, 1)
    )
  if "task/timeout" in rollout.extras:
    timed_out = rollout.extras["task/timeout"]
    metrics["verifier/unscored_frac"] = masked.mean(~valid, is_sampled, (0, 1))
    metrics["verifier/timeout_frac"] = masked.mean(
      timed_out, is_sampled, (0, 1)
    )
  if "task/end" in rollout.extras:
    for end, kind in enumerate(ENDS):
      has_end = rollout.extras["task/end"] == end
      metrics[f"ends/{kind}"] = masked.mean(has_end, is_sampled, (0, 1))
  metrics["cost/sampled_tokens"] = sampled_tokens(rollout).astype(jnp.float32)
  for name, component in rollout.components.items():
    metrics[f"score/{name}/mean"] = masked.mean(component, valid, (0, 1))
  if rollout.step_mask is not None:
    steps = masked.count(rollout.step_mask)
    metrics["length/steps_mean"] = masked.mean(steps, valid, (0, 1))
  return metrics


def sampled_tokens(rollout: types.Rollout) -> Array:
  """Returns the number of tokens that were sampled for a rollout, `[]` int32.

  A sampler that draws more than the samples of the rollout reports the number
  as the extra "sampler/tokens". Otherwise it is the number of scored tokens of
  all samples that exist, which leaves out those of a tool or user.
  """
  if "sampler/tokens" in rollout.extras:
    return jnp.asarray(rollout.extras["sampler/tokens"], jnp.int32)
  return jnp.where(rollout.sample_mask, rollout.scored_lengths, 0).sum()


def pass_metrics(
  needs: Iterable[scoring.Need], rollout: types.Rollout
) -> dict[str, Array]:
  """Counts the tokens, of prompts and completions, that each pass reads.

  A pass is one forward pass that fills in all needs with the same parameters
  (source), text (view) and depth. Its metric is `cost/<source>_tokens`, or
  `cost/<source>@<view>_tokens` for a view. Before `_tokens`, a pass that stops
  after a share of the layers has that share, such as `_to_0.25`.

  Args:
    needs: needs that the passes fill in.
    rollout: the rollout that the passes read.

  Returns:
    `{name: []}` float32, with one entry per pass.
  """
  costs = {}
  for need in sorted(needs, key=str):
    if need.source in scoring.EXTERNAL_SOURCES:
      continue
    at = f"@{need.view}" if need.view else ""
    tokens = scoring.view_tokens(rollout, need.view)
    count = tokens.lengths.sum() + tokens.prompt_mask.sum()
    depth = need.probe.depth
    to = f"_to_{depth:g}" if depth < 1 else ""
    costs[f"cost/{need.source}{at}{to}_tokens"] = count.astype(jnp.float32)
  return costs


def advantage_metrics(advantages: Array, mask: Array) -> dict[str, Array]:
  """Computes the mean, standard deviation (ddof 0) and mean absolute value.

  Args:
    advantages: array of any level.
    mask: bool of the same shape, True for the entries to include.

  Returns:
    `advantage/mean`, `advantage/std`, `advantage/abs_mean`, each `[]`.
  """
  axes = tuple(range(advantages.ndim))
  return {
    "advantage/mean": masked.mean(advantages, mask, axes),
    "advantage/std": masked.std(advantages, mask, axes),
    "advantage/abs_mean": masked.mean(jnp.abs(advantages), mask, axes),
  }


@flax.struct.dataclass
class Tally:
  """Metrics of one microbatch, in a form in which microbatches can be merged.

  All arrays are scalars. After `jax.lax.scan` they have leading axes: updates,
  then microbatches, which `merge` reduces.

  Attributes:
    sums: parts of the minibatch's loss, which are added over microbatches.
    totals, weights: numerators and denominators of means, which are added
      before they are divided.
    maxima: maxima, of which the largest is taken.
  """

  sums: dict[str, Array] = flax.struct.field(default_factory=dict)
  totals: dict[str, Array] = flax.struct.field(default_factory=dict)
  weights: dict[str, Array] = flax.struct.field(default_factory=dict)
  maxima: dict[str, Array] = flax.struct.field(default_factory=dict)

  def add(self, values: Mapping[str, Array], mask: Array) -> Tally:
    """Adds arrays `{name: values}`, at the entries where `mask` is True.

    A name that ends in "_max" is merged as a maximum, any other as a mean. If
    the name exists already, the new values join it: two terms may log one
    metric.
    """
    totals, weights = dict(self.totals), dict(self.weights)
    maxima = dict(self.maxima)
    for name, value in values.items():
      if name.endswith("_max"):
        largest = jnp.max(jnp.where(mask, value, -jnp.inf))
        maxima[name] = jnp.maximum(maxima.get(name, -jnp.inf), largest)
      else:
        total = jnp.sum(jnp.where(mask, value, 0.0))
        totals[name] = totals.get(name, 0.0) + total
        weights[name] = weights.get(name, 0.0) + mask.sum().astype(jnp.float32)
    return self.replace(totals=totals, weights=weights, maxima=maxima)

  def add_sums(self, values: Mapping[str, Array]) -> Tally:
    """Adds scalars that are summed over microbatches."""
    return self.replace(sums=self.sums | values)

  def merge(self) -> dict[str, Array]:
    """Merges the microbatches on the last axis and the updates before it.

    Returns:
      `{name: []}`. A sum is taken over the microbatches of an update and
      averaged over updates. A mean or maximum is taken over all entries of all
      updates; it is 0 if there was no entry.
    """
    merged = {name: part.sum(-1).mean() for name, part in self.sums.items()}
    for name, total in self.totals.items():
      merged[name] = total.sum() / jnp.maximum(self.weights[name].sum(), 1.0)
    for name, value in self.maxima.items():
      largest = value.max()
      merged[name] = jnp.where(jnp.isneginf(largest), 0.0, largest)
    return merged


def policy_tally(
  entropy: Array, old_log_probs: Array, rollout: types.Rollout
) -> Tally:
  """Starts a tally with the metrics of the policy that every method has.

  They are the entropy, and the difference in log-probs between the trainer at
  the start of the step and the sampler, over all scored tokens.

  Args:
    entropy: `[P, S, T]`, entropy of the policy's next token, in nats.
    old_log_probs: `[P, S, T]`, of the policy at the start of the step.
    rollout: the rollout.
  """
  difference = jnp.abs(old_log_probs - rollout.behavior_log_probs)
  values = {
    "policy/entropy": entropy,
    "policy/sampler_log_prob_diff_mean": difference,
    "policy/sampler_log_prob_diff_max": difference,
  }
  return Tally().add(values, rollout.valid("token"))
