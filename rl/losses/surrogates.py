"""Surrogates: objectives per token or sample that a policy gradient maximises.

A surrogate is `(log_ratio, advantages, policy, rollout) -> values [, metrics]`:

  log_ratio   log rho, `[P, S, T]` (P prompts, S samples per prompt, T tokens),
              with rho the importance ratio of the policy that is trained to the
              old or the behavior policy; of tokens or sequences, see
              `rl.losses.ratios`
  advantages  A, `[P, S, T]`
  policy      arrays of the policy's forward pass, with gradient:
              `policy[scoring.log_probs]` is log pi of the sampled tokens
  rollout     the rollout, with the tokens in the loss as its mask

Every surrogate has two properties, which tests check. At log_ratio = 0 its
gradient is `A grad log pi`. It is positively homogeneous in A: multiplying A by
a positive weight multiplies the surrogate by that weight.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from rl import UsageError, factories, scoring, types

Array = jax.Array
# exp(20) = 5e8 stays far below the largest float32, 3e38, so that its product
# with an advantage and other factors is finite.
_MAX_LOG_RATIO = 20.0


@dataclasses.dataclass(frozen=True)
class Surrogate:
  """A named surrogate.

  Attributes:
    name: the name with its hyper-parameters.
    fn: `(log_ratio, advantages, policy, rollout) -> values [, metrics]`, with
      values at level `gives`, and metrics as in `rl.losses.terms.Term`.
    gives: level of the values, "token" or "sample".
    needs: needs that it reads besides the log-probs of the policy and of the
      denominator of the ratio.
    uses_ratio: False if it reads no importance ratio (REINFORCE).
    token_mean: "arithmetic", or "geometric" if the objective of a sample is the
      geometric mean of one factor per token. Importance weights of tokens are
      averaged in the same way (`rl.losses.importance`).
  """

  name: str
  fn: Callable
  gives: types.Level = "token"
  needs: frozenset = frozenset()
  uses_ratio: bool = True
  token_mean: str = "arithmetic"

  def __str__(self) -> str:
    return self.name


def surrogate(
  gives: types.Level = "token",
  needs: Iterable | Callable = (),
  uses_ratio: bool = True,
  token_mean: str = "arithmetic",
) -> Callable[[Callable], Callable[..., Surrogate]]:
  """Decorator that turns a function into a factory of surrogates.

  The arguments of the factory are the keyword-only hyper-parameters of the
  function. The arguments of the decorator are attributes of `Surrogate`;
  `needs` may also be a function of the hyper-parameters.
  """

  def decorate(fn: Callable) -> Callable[..., Surrogate]:
    def build(hyper: dict) -> Surrogate:
      return Surrogate(
        name=factories.label(fn.__name__, hyper),
        fn=functools.partial(fn, **hyper),
        gives=gives,
        needs=factories.resolve_needs(needs, hyper),
        uses_ratio=uses_ratio,
        token_mean=token_mean,
      )

    # (log_ratio, advantages, policy, rollout).
    return factories.factory(fn, 4, build)

  return decorate


def ratio(log_ratio: Array) -> Array:
  """Computes rho = exp(log_ratio), with log_ratio clamped to [-20, 20]."""
  return jnp.exp(jnp.clip(log_ratio, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))


@surrogate(uses_ratio=False)
def reinforce(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
) -> Array:
  """Computes A * log pi(y_t), whose gradient is the score-function estimator.

  The estimator is unbiased only if the samples are from the current policy.
  Source: Williams 1992.
  """
  del log_ratio, rollout
  return advantages * policy[scoring.log_probs]


@surrogate()
def ppo_clip(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  low: float = 0.2,
  high: float = 0.2,
  cap: float | None = None,
) -> tuple[Array, dict[str, Array]]:
  """Computes min(A * rho, A * clip(rho, 1 - low, 1 + high)) at each token.

  The gradient vanishes where A > 0 and rho > 1 + high, where A < 0 and
  rho < 1 - low, and where rho > cap.

  Logs `policy/clip_frac_low` and `policy/clip_frac_high`, the share of tokens
  in the first two of these cases. With a cap, also logs
  `policy/clip_frac_cap`, the share of tokens with A < 0 and rho > cap.

  Source: Schulman et al. 2017; Ye et al. 2020 (dual clip); Prime Intellect
  2025, INTELLECT-2 (two-sided clip).

  Args:
    log_ratio, advantages, policy, rollout: same as in the module docstring.
    low, high: distance from 1 to the lower and to the upper end of the clip
      range of rho.
    cap: if it is not None, min(rho, cap) replaces rho, which bounds the loss
      where A < 0. A cap of at least 1 + high is the dual clip: for A < 0 the
      value is max(value without cap, A * cap). INTELLECT-2 uses 4, verl 3, and
      the recipe of DAPO 10.

  Raises:
    UsageError: if `low` or `high` is a negative number.
  """
  del policy, rollout
  for name, width in (("low", low), ("high", high)):
    # A clip range may be a traced array (`flex_clip`), which has no value yet.
    if isinstance(width, numbers.Real) and not width >= 0:
      raise UsageError(
        f"ppo_clip: {name} = {width} must be at least 0; a usual value is 0.2"
      )
  rho, metrics = ratio(log_ratio), {}
  if cap is not None:
    metrics["policy/clip_frac_cap"] = (rho > cap) & (advantages < 0)
    rho = jnp.minimum(rho, cap)
  clipped = jnp.clip(rho, 1 - low, 1 + high)
  return jnp.minimum(advantages * rho, advantages * clipped), metrics | {
    "policy/clip_frac_low": (rho < 1 - low) & (advantages < 0),
    "policy/clip_frac_high": (rho > 1 + high) & (advantages > 0),
  }
