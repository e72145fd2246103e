"""Advantages corrected by the confidence of prompt and answer."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  chain,
  group_normalize,
  right_verdict,
  scores,
  transform,
)

_ANSWER = scoring.Need("old", scoring.log_probs)
_PROMPT = scoring.Need("old", scoring.log_probs, scoring.PROMPT)


def confidence(
  log_probs: jax.Array, mask: jax.Array, share: float
) -> jax.Array:
  """exp of the mean log-prob of the `share` least likely tokens.

  Args:
    log_probs, mask: `[..., T]`.
    share: of the tokens that exist, rounded down, at least one.

  Returns:
    `[...]` in (0, 1]; 1 of no tokens.
  """
  size = mask.sum(-1, keepdims=True)
  count = jnp.floor(share * size + 1e-4)  # 0.2 of 5 is 1
  count = jnp.minimum(jnp.maximum(count, 1), size)
  ranked = jnp.sort(jnp.where(mask, log_probs, jnp.inf), -1)
  chosen = jnp.arange(mask.shape[-1]) < count
  return jnp.exp(masked.mean(ranked, chosen))


@transform("sample", needs={_ANSWER, _PROMPT})
def add_confidence_gap(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, share: float
) -> jax.Array:
  """A + alpha (c(prompt) - c(answer)) in groups with a right sample."""
  prompts = scoring.view_tokens(rollout, scoring.PROMPT)
  real = rollout.sample_mask
  asked = confidence(rollout.extras[_PROMPT], prompts.mask, share)
  given = confidence(rollout.extras[_ANSWER], rollout.valid("token"), share)
  solved = (real & right_verdict(rollout)).any(-1, keepdims=True)
  solved &= masked.count(real, keepdims=True) > 1
  return signal + jnp.where(real & solved, alpha * (asked - given), 0.0)


def progrpo(
  alpha: float = 0.3,
  share: float = 0.2,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """GRPO that favours the less confident of equally rewarded answers.

    A~_i = A_i + alpha (c(q) - c(o_i | q)),  c = exp(mean log pi)

  the mean over the `share` least likely tokens of the answer, and of the prompt
  from its second token on; both under the old policy. Groups without a right
  sample, and of one, keep A; those of right ones alone are corrected. The
  correction has no mean of 0 within a group. Clip-higher,
  mean over tokens, no KL.
  Open: alpha is not given; 0.1 to 0.5 is worth a sweep.
  Source: Li et al. 2026, Back to Basics: Revisiting Exploration via Generative
  Probabilities (ProGRPO).
  """
  gap = add_confidence_gap(alpha, share)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), gap),
    loss=policy_gradient(ppo_clip(low, high)),
  )
