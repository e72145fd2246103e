"""Policy gradients at the most uncertain tokens only."""

import jax

from rl import choices, masked, scoring, types
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

_ENTROPY = scoring.Need("old", scoring.entropy)
_ROUNDING = 1e-6  # nats: equal entropies reach their own quantile
_SCOPES = {"response": -1, "batch": (0, 1, 2)}


@transform("sample", "token", needs={_ENTROPY})
def most_uncertain(
  signal: jax.Array, rollout: types.Rollout, *, rho: float, scope: str
) -> jax.Array:
  """Of the samples kept, tokens whose H reaches the (1 - rho) quantile."""
  kept = rollout.valid("token") & signal[..., None]
  entropy = rollout.extras[_ENTROPY]
  limit = masked.quantile(entropy, kept, 1 - rho, _SCOPES[scope], True)
  return kept & (entropy >= limit - _ROUNDING)


def earl(
  rho: float = 0.2,
  scope: str = "response",
  beta: float = 0.001,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """DAPO on the share `rho` of tokens with the highest entropy, plus a KL.

  Of the finished samples of groups with both verdicts a token is trained if H_t
  reaches the (1 - rho) quantile of its response, or of all those samples
  (`scope="batch"`, the 80/20 rule of Wang et al. 2025); ties at the quantile
  stay, and of a short response at least one token. The mean is over the tokens
  kept. beta k3 to the starting policy acts on all tokens of the
  samples kept; rho = 1 and beta = 0 is DAPO without its
  punishment of length.
  Open: rho and beta are not given. Its reward (syntax, interface, function) is
  the task's.
  Source: Shi et al. 2025, EARL: Entropy-Aware RL Alignment of LLMs for Reliable
  RTL Code Generation.

  Raises:
    ValueError: unknown scope.
  """
  if scope not in _SCOPES:
    raise ValueError(choices.unknown("scope", scope, _SCOPES))
  whole = mixed_verdicts() & finished()
  loss = policy_gradient(ppo_clip(low, high))
  penalty = kl("k3").of(loss_filter=whole)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss_filter=chain(whole, most_uncertain(rho, scope)),
    loss=loss + beta * penalty if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
