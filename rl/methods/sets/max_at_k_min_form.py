"""max@k of the worst step, with blame for the step that lowers it.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  chain,
  place_at_step_ends,
  returns_to_go,
  step_scores,
  transform,
)

Array = jax.Array


def gains(scores: Array, others: Array, exists: Array, k: int) -> Array:
  """Computes what a score adds to the best of k, W(x).

    W(x) = 1 / C(n, k) * sum over the (k-1)-subsets J of the other samples
           of max(x - max_J, 0)
         = k / n * sum_j w_j max(x - y_j, 0),  k >= 2

  y_1 <= ... <= y_{n-1} are the scores of the other samples, and w_j =
  C(j - 1, k - 2) / C(n - 1, k - 1) is the probability that y_j is the largest
  of a random J. For k = 1, J is empty, and W(x) = x / n.

  Args:
    scores: `[..., N]`, values of x.
    others: `[..., M]`, scores of the other samples.
    exists: `[..., M]` bool, the other samples that exist, n - 1 of them.
    k: size of the set.

  Returns:
    `[..., N]`; 0 if n < k.
  """
  n = masked.count(exists, keepdims=True) + 1  # [..., 1]
  if k == 1:
    return scores / n
  y = jnp.sort(jnp.where(exists, others, jnp.inf), axis=-1)
  j = jnp.arange(1, y.shape[-1] + 1)
  # w_j of the largest is (k - 1) / (n - 1), and w_{j-1} / w_j is
  # (j - k + 1) / (j - 1).
  ratio = jnp.where(
    j < n, jnp.maximum(j - k + 1, 0) / jnp.maximum(j - 1, 1), 1.0
  )
  later = jnp.concatenate([ratio[..., 1:], jnp.ones_like(n)], axis=-1)
  product = jax.lax.cumprod(later, axis=later.ndim - 1, reverse=True)
  weights = (k - 1) / jnp.maximum(n - 1, 1) * product
  weights = jnp.where((j < n) & (n >= k), weights, 0.0)
  y = jnp.where(j < n, y, 0.0)
  excess = jnp.maximum(scores[..., None] - y[..., None, :], 0.0)  # [..., N, M]
  return k / n * jnp.sum(weights[..., None, :] * excess, axis=-1)


@transform(takes="step")
def gains_of_running_minimum(
  signal: Array, rollout: types.Rollout, *, k: int
) -> Array:
  """Returns the increase of W of the running minimum at each step.

  m_1 >= m_2 >= ... are the running minima of the step scores of a sample, and W
  is `gains` beside the worst steps of the other samples of its group. Step 1
  gets W(m_1), and step j gets W(m_j) - W(m_{j-1}) <= 0, which is 0 unless its
  score is the lowest so far. The sum is W of the worst step.

  Args:
    signal: `[P, S, K]` step scores.
    rollout: the rollout.
    k: size of the set.
  """
  samples = signal.shape[1]
  if not 1 <= k <= samples:
    raise ValueError(
      f"k = {k} must be from 1 to the {samples} samples of a group; the "
      f"nearest valid value is {min(max(k, 1), samples)}"
    )
  valid = rollout.valid("step")
  minima = jax.lax.cummin(
    jnp.where(valid, signal, jnp.inf), axis=signal.ndim - 1
  )
  has_steps = valid.any(-1)  # [P, S]
  # Samples without a step have no worst step, and are not in the group.
  worst = jnp.where(has_steps, minima[..., -1], 0.0)
  S = worst.shape[-1]
  is_other = has_steps[..., None, :] & ~jnp.eye(S, dtype=bool)  # [P, S, S]
  others = jnp.broadcast_to(worst[..., None, :], is_other.shape)
  values = gains(jnp.where(valid, minima, 0.0), others, is_other, k)
  first = values[..., :1]
  increments = jnp.concatenate([first, jnp.diff(values, axis=-1)], axis=-1)
  return jnp.where(valid, increments, 0.0)


def max_at_k_min_form(k: int = 4, clip: float = 0.2) -> Method:
  """Ascends E over prompts of E[max over k samples of min over steps of s].

    A_t = W(m_K) - W(m_{j-1}) at a token t of step j > 1, W(m_K) for j = 1

  s_j is the score of step j, m_j the lowest of s_1..s_j, and K the number of
  steps of the sample. W(x) is `gains`: what a sample with score x adds to the
  best of random k-sets with other samples of its group. W(m_{j-1}) depends on
  the tokens before step j and on the other samples, so that it is a baseline:
  the expected gradient of the first update of a rollout is exactly that of the
  objective, if every sample has a step and the score of a step depends on the
  tokens up to its end alone. A [P, S, T] is 0 after the worst step. A step that
  lowers the minimum has a negative advantage, at most minus the drop of W, as
  have the steps before it that follow an earlier minimum. If every sample has
  one step, A is that of `max_at_k`. For k = 1, W(x) = x / n for n samples, and
  the first step has no baseline. Samples without a step have A = 0 and are not
  counted in the group. The loss is PPO-clip, summed over the tokens of all
  samples of a group and averaged over prompts.
  Source: Walder & Karkhanis 2025, Pass@K Policy Optimization (the best of a
  set); Cheng et al. 2025, Stop Summation, PURE (the minimum over steps). The
  combination is from this project.

  Args:
    k: size of the set whose best worst step is maximised.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: when it is traced, if k is not from 1 to the number of samples.
  """
  return Method(
    advantage=chain(
      step_scores(),
      gains_of_running_minimum(k),
      place_at_step_ends(),
      returns_to_go(),
    ),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
