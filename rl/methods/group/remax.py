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
  """R_i - R(greedy completion of the prompt); 0 if that has no score."""
  greedy = rollout.extras[_GREEDY][:, None]  # [P, 1]
  return jnp.where(jnp.isnan(greedy), 0.0, signal - greedy)


def remax() -> Method:
  """A_i = R_i - R(greedy); one further, greedy completion per prompt.

  R_i [P, S] is the score of sample i. The baseline depends on the prompt alone,
  so the gradient is unbiased for grad E[R] and S may be 1. A group of equal
  scores that differ from the greedy one still has a gradient. The loss is
  -A log pi, summed over the tokens of a sample and averaged over samples;
  strictly on-policy: one update per rollout.
  Deviation: the k1 penalty that the paper subtracts from the reward is left
  out.
  Source: Li et al. 2023, ReMax.
  """
  return Method(
    advantage=chain(scores(), minus_greedy()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
    sampler=samplers.greedy(),
  )
