"""EARL: policy gradients at the tokens of highest entropy only.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax

from rl import UsageError, masked, registry, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import (
  chain,
  finished,
  group_normalize,
  mixed_verdicts,
  scores,
  transform,
)

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
# In nats, against rounding error: equal entropies must reach their quantile.
_ROUNDING = 1e-6
# Axes of [P, S, T] over which the quantile is taken.
_SCOPES = {"response": -1, "batch": (0, 1, 2)}


@transform(takes="sample", gives="token", needs={_ENTROPY})
def most_uncertain(
  signal: jax.Array, rollout: types.Rollout, *, rho: float, scope: str
) -> jax.Array:
  """Keeps the tokens with an entropy at or above the (1 - rho) quantile.

  Args:
    signal: `[P, S]` bool, a filter; tokens of other samples are neither kept
      nor in the quantile.
    rollout: the rollout.
    rho, scope: same as in `earl`.

  Returns:
    `[P, S, T]` bool.
  """
  candidates = rollout.valid("token") & signal[..., None]
  entropy = rollout.extras[_ENTROPY]
  threshold = masked.quantile(
    entropy, candidates, 1 - rho, _SCOPES[scope], True
  )
  return candidates & (entropy >= threshold - _ROUNDING)


def earl(
  rho: float = 0.2,
  scope: str = "response",
  beta: float = 0.001,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """DAPO on the share `rho` of tokens with the highest entropy, plus a KL.

  Samples are trained on if they ended by themselves and their group has a right
  and a wrong verdict. H_t [P, S, T] is the entropy of the next-token
  distribution at token t, under the policy at the start of the training step,
  and A the z-score of a sample's score in its group. The policy gradient is
  taken at the tokens of these samples whose H_t is at or above its (1 - rho)
  quantile; tokens that tie with the quantile are included, and with scope
  "response" every response keeps at least one token. The PPO-clip loss is
  averaged over these tokens. The penalty beta times k3, an estimator of the KL
  to the policy at the start of the run, is averaged over all tokens of these
  samples. rho = 1 with beta = 0 is DAPO without its length penalty.
  Open: the paper does not state rho and beta; the defaults are guesses.
  Left out: the paper's reward (syntax, interface, function) is left to the
  task.
  Source: Shi et al. 2025, EARL: Entropy-Aware RL Alignment of LLMs for Reliable
  RTL Code Generation.
  Quantity: old/entropy.

  Args:
    rho: share of the tokens that are trained on.
    scope: tokens over which the quantile is taken: "response", those of the
      same response, or "batch", those of all samples that are trained on (the
      80/20 rule of Wang et al. 2025).
    beta: weight of the KL; 0 drops the reference and its forward pass.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    UsageError: if the scope is unknown.
  """
  if scope not in _SCOPES:
    raise UsageError(registry.describe_unknown("scope", scope, _SCOPES))
  sample_filter = mixed_verdicts() & finished()
  loss = policy_gradient(ppo_clip(low, high))
  penalty = kl("k3").of(loss_filter=sample_filter)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss_filter=chain(sample_filter, most_uncertain(rho, scope)),
    loss=loss + beta * penalty if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
