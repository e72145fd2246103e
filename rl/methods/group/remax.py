"""ReMax: REINFORCE with the score of the greedy completion as baseline.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling import samplers
from rl.transforms import chain, scores, transform

# A need: the extra "sampler/greedy_scores", provided by the sampler.
_GREEDY = scoring.provided("sampler", "greedy_scores")


@transform(takes="sample", needs={_GREEDY})
def minus_greedy(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Returns R_i - R(greedy completion of the prompt).

  It is 0 if the task did not score the greedy completion.
  """
  # [P, 1]; NaN if the task did not score the completion.
  greedy_scores = rollout.extras[_GREEDY][:, None]
  return jnp.where(jnp.isnan(greedy_scores), 0.0, signal - greedy_scores)


def remax() -> Method:
  """A_i = R_i - R(greedy), of one further, greedy completion per prompt.

  R_i [P, S] is the score of sample i, and R(greedy) that of the completion at
  temperature 0. This baseline does not depend on the samples, so that the
  gradient is an unbiased estimate of grad E[R], and S may be 1. A group of
  equal scores has a gradient if these differ from the score of the greedy
  completion. The loss is -A log pi, summed over the tokens of a sample and
  averaged over samples. It is right for one update per rollout only.
  Deviation: the paper subtracts a k1 penalty, an estimate of the KL to the
  starting policy, from the score; this implementation leaves it out.
  Source: Li et al. 2023, ReMax.
  """
  return Method(
    advantage=chain(scores(), minus_greedy()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
    sampler=samplers.greedy(),
  )
