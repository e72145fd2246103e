"""Surrogates: the per-token objective that a policy gradient maximises.

A surrogate is `(log_ratio, advantages, policy, rollout) -> values [, metrics]`.
At log_ratio = 0 its gradient is `A grad log pi`, and it is positively
homogeneous in A (weights multiply through); contract tests hold each of them
to both. log_ratio is clamped to +-20 before `exp`, never after.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from rl import factories, scoring, types

Array = jax.Array
_LARGEST_LOG_RATIO = 20.0


@dataclasses.dataclass(frozen=True)
class Surrogate:
  """A named surrogate.

  Attributes:
    name: with its hyper-parameters.
    fn: `(log_ratio, advantages, policy, rollout) -> values [, metrics]`, values
      at level `gives`; metrics as of `rl.losses.terms.Term`.
    gives: "token" or "sample".
    needs: probes it reads beyond the log-probs.
    uses_ratio: False for plain REINFORCE, which has no old policy.
    token_mean: "arithmetic", or "geometric" if the objective of a sample is the
      geometric mean of factors of its tokens. Weights of tokens are averaged
      in the same way (`rl.losses.importance`).
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
  """Decorator: a function with keyword-only hyper-parameters -> a factory."""

  def decorate(fn: Callable) -> Callable[..., Surrogate]:
    def build(hyper: dict) -> Surrogate:
      return Surrogate(
        factories.label(fn.__name__, hyper),
        functools.partial(fn, **hyper),
        gives,
        factories.resolve_needs(needs, hyper),
        uses_ratio,
        token_mean,
      )

    return factories.factory(fn, 4, build)

  return decorate


def ratio(log_ratio: Array) -> Array:
  """rho = exp(log_ratio), finite whatever the drift."""
  return jnp.exp(jnp.clip(log_ratio, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))


@surrogate(uses_ratio=False)
def reinforce(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
) -> Array:
  """A log pi: the score-function estimator, strictly on-policy.

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
  """min(A rho, A clip(rho, 1 - low, 1 + high)).

  The gradient vanishes where A > 0 and rho > 1 + high, and where A < 0 and
  rho < 1 - low. `cap` (INTELLECT-2's 4) puts min(rho, cap) in the place of
  rho, which bounds the loss of a negative advantage. From 1 + high up that is
  the dual clip, max(the value, A cap) where A < 0 (verl's 3, DAPO's recipe 10).
  Source: Schulman et al. 2017; Ye et al. 2020 (dual clip); Prime Intellect
  2025, INTELLECT-2 (two-sided clip).

  Raises:
    ValueError: if `low` or `high` is a negative number.
  """
  del policy, rollout
  for name, width in (("low", low), ("high", high)):
    # Clip ranges that are arrays (`flex_clip`) have no value when traced.
    if isinstance(width, numbers.Real) and not width >= 0:
      raise ValueError(f"ppo_clip: {name} = {width} must be at least 0")
  rho = ratio(log_ratio)
  if cap is not None:
    rho = jnp.minimum(rho, cap)
  clipped = jnp.clip(rho, 1 - low, 1 + high)
  return jnp.minimum(advantages * rho, advantages * clipped), {
    "policy/clip_frac_low": (rho < 1 - low) & (advantages < 0),
    "policy/clip_frac_high": (rho > 1 + high) & (advantages > 0),
  }
