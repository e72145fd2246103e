"""max@k of the worst step, with blame for the step that lowers it.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

import jax
import jax.numpy as jnp

from rl import best_of_k, types
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


@transform(takes="step")
def increments_of_running_minimum(
  signal: Array, rollout: types.Rollout, *, k: int
) -> Array:
  """Returns the increase of W of the running minimum at each step.

  m_1 >= m_2 >= ... are the running minima of the step scores of a sample. W(x)
  is the weight of the sample in `rl.best_of_k.max_at_k_weights`, with the
  baseline "leave_one_out_minus_one", if its score is x and that of each other
  sample of the group its worst step. Step 1 gets W(m_1), and step j gets
  W(m_j) - W(m_{j-1}) <= 0, which is 0 unless its score is the lowest so far.

  Args:
    signal: `[P, S, K]` step scores.
    rollout: the rollout.
    k: size of the set.
  """
  valid = rollout.valid("step")
  minima = jax.lax.cummin(
    jnp.where(valid, signal, jnp.inf), axis=signal.ndim - 1
  )
  worst = minima[..., -1]
  # Samples without a step have no worst step, and are not in the group.
  has_steps = valid.any(-1)  # [P, S]
  # [P, S, K, S]: the scores of the group, if sample i had the score m_j.
  is_self = jnp.eye(worst.shape[-1], dtype=bool)[:, None]
  groups = jnp.where(is_self, minima[..., None], worst[:, None, None])
  weights = best_of_k.max_at_k_weights(
    groups, k, has_steps[:, None, None], "leave_one_out_minus_one"
  )
  values = jnp.sum(jnp.where(is_self, weights, 0.0), -1)  # W(m_j), [P, S, K]
  first = values[..., :1]
  # The running minimum does not change after the last step of a sample.
  return jnp.concatenate([first, jnp.diff(values, axis=-1)], axis=-1)


def max_at_k_min_form(k: int = 4, clip: float = 0.2) -> Method:
  """Ascends E over prompts of E[max over k samples of min over steps of s].

    A_t = W(m_K) - W(m_{j-1}) at a token t of step j > 1, W(m_K) for j = 1

  s_j is the score of step j, m_j the lowest of s_1..s_j, and K the number of
  steps of the sample. W(x) is the weight that a sample with score x has in
  `max_at_k`, beside the worst steps of the other samples of its group: what it
  adds to the best of random k-sets. W(m_{j-1}) depends on the tokens before
  step j and on the other samples, so that it is a baseline: the expected
  gradient of the first update of a rollout is exactly that of the objective, if
  every sample has a step and the score of a step depends on the tokens up to
  its end alone. From the second step on, A [P, S, T] is minus the amount by
  which W falls from this step to the last one: 0 after the worst step, and
  never positive. If every sample has one step, A is that of `max_at_k`. For
  k = 1, W(x) = x / n for n samples, and the first step has no baseline. Samples
  without a step have A = 0 and are not counted in the group. The loss is
  PPO-clip, summed over the tokens of all samples of a group and averaged over
  prompts.
  Source: Walder & Karkhanis 2025, Pass@K Policy Optimization (the best of a
  set); Cheng et al. 2025, Stop Summation, PURE (the minimum over steps). The
  combination is from this project.
  Quantity: step_scores.

  Args:
    k: size of the set whose best worst step is maximised.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: when it is traced, if k is not from 1 to the number of samples.
  """
  return Method(
    advantage=chain(
      step_scores(),
      increments_of_running_minimum(k),
      place_at_step_ends(),
      returns_to_go(),
    ),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
