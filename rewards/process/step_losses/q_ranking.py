"""PQM: ranks Q-values along the good steps, and bad steps below them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process.step_losses.base import StepLoss, score_of_logits

Array = jax.Array


def ranking_loss(
  q: Array, is_good: Array, is_bad: Array, margin: float
) -> Array:
  """Returns the mean over t of the ranking loss of each sample, `[...]`.

    l_t = -log( exp Q_t / (sum_{q <= t} exp Q_q + sum_w exp(Q_w + margin)) )

  t are the good steps of the sample and, if it has bad steps w, a first step 0
  with Q_0 = 0. The sum over q is over the good steps up to t and step 0.

  Args:
    q: `[..., K]`, Q-values.
    is_good: `[..., K]` bool, the good steps.
    is_bad: `[..., K]` bool, the bad steps.
    margin: zeta, by which bad steps have to be below.

  Returns:
    The loss of each sample; 0 for a sample without a labelled step.
  """
  q = q.astype(jnp.float32)
  low = jnp.full((*q.shape[:-1], 1), -jnp.inf)
  good = jnp.where(is_good, q, -jnp.inf)
  # With step 0 in front; entry t + 1 has the sum up to step t.
  sums = jax.lax.cumlogsumexp(
    jnp.concatenate([jnp.zeros_like(low), good], -1), axis=q.ndim - 1
  )
  bad = jax.nn.logsumexp(
    jnp.concatenate([jnp.where(is_bad, q + margin, -jnp.inf), low], -1),
    axis=-1,
    keepdims=True,
    where=jnp.concatenate([is_bad, low > 0], -1),
  )
  values = jnp.concatenate([jnp.zeros_like(low), q], -1)
  counts = jnp.concatenate([is_bad.any(-1, keepdims=True), is_good], -1)
  terms = jnp.logaddexp(sums, bad) - values
  total = jnp.sum(jnp.where(counts, terms, 0.0), -1)
  return total / jnp.maximum(counts.sum(-1), 1)


def q_ranking(margin: float = 4.0) -> StepLoss:
  """`ranking_loss` of the labelled steps, a mean over the samples.

  A step with a label of at least 1/2 is good. Q rises along the good steps, and
  the bad steps are `margin` below all of them. The score of a step is tanh(Q /
  2), which ranks steps as Q does.
  Source: Li and Li 2024, Process Reward Model with Q-Value Rankings (PQM), and
  its released code.

  Args:
    margin: zeta.
  """

  def loss(outputs, data):
    has_label = data.weights > 0
    is_good = has_label & (data.values >= 0.5)
    is_bad = has_label & (data.values < 0.5)
    values = ranking_loss(outputs.steps[..., 0], is_good, is_bad, margin)
    total = jnp.sum(jnp.where(has_label.any(-1), values, 0.0))
    return total / jnp.maximum(num_labelled(data), 1)

  def num_labelled(data):
    return (data.weights > 0).any(-1).sum()

  return StepLoss(
    "q_ranking",
    1,
    loss,
    score_of_logits,
    count=num_labelled,
    is_probability=False,
  )
