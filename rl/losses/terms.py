"""Terms: the summands of a loss, each with its level, aggregate and needs.

  loss = policy_gradient(ppo_clip(0.2, 0.28)) + 0.001 * kl("k2")

Terms are minimised. A term may replace the method's signal and loss filter, read
another text, and has a weight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from rl import choices, factories, scoring, types
from rl.losses import aggregates, ratios, surrogates
from rl.transforms import LevelError, Transform

Array = jax.Array
KL_ESTIMATORS = ("k1", "k2", "k3", "k3+")
_SIGNALS = ("none", "prompt", "sample", "token")
# How values are weighed where nothing is said.
_MEANS = {
  "token": aggregates.token_mean,
  "sample": aggregates.sample_mean,
  "prompt": aggregates.prompt_mean,
}


@dataclasses.dataclass(frozen=True)
class Term:
  """One summand of the loss.

  Attributes:
    name: with its hyper-parameters.
    fn: `(signal, policy, rollout) -> values` at `gives`, or `(values,
      metrics)`; `policy` holds the differentiated probes, metrics are
      `{name: [P, S, T], [P, S] or [P]}` averaged over the trained tokens,
      samples or prompts, or their maximum where the name ends in "_max".
    takes: level of the signal, "none" if it reads none.
    gives: level of the values: token, sample or prompt.
    aggregate: how the values are weighed.
    weight: the term's factor in the loss: a number, or a transform that gives a
      scalar (a controller).
    signal: the signal that it reads in place of the method's advantage.
    loss_filter: the filter that it uses in place of the method's.
    view: the text that it reads; "" is the rollout itself.
    needs: probes it reads.
    on_policy: right only for the first update of a rollout.
    against: its ratio's denominator, "old" or "behavior"; "" of no ratio.
    token_mean: "arithmetic" or "geometric", as in `rl.losses.surrogates.Surrogate`.
  """

  name: str
  fn: Callable[[Array, types.Named, types.Rollout], Array]
  takes: types.Level
  gives: types.Level
  aggregate: aggregates.Aggregate
  weight: float | Transform = 1.0
  signal: Transform | None = None
  loss_filter: Transform | None = None
  view: str = ""
  needs: frozenset[scoring.Need] = frozenset()
  on_policy: bool = False
  against: str = ""
  token_mean: str = "arithmetic"

  def __post_init__(self):
    if self.takes not in _SIGNALS:
      raise LevelError(
        f"{self.name} takes a {self.takes} signal; a term takes one of "
        f"{_SIGNALS}"
      )
    if self.loss_filter is not None and self.loss_filter.gives not in (
      "sample",
      "token",
    ):
      raise LevelError(
        f"{self.name}: loss_filter = {self.loss_filter} gives a "
        f"{self.loss_filter.gives} signal; a "
        "filter gives sample or token"
      )
    if self.gives != self.aggregate.level:
      raise LevelError(
        f"{self.name} gives one value per {self.gives}, but the aggregate "
        f"{self.aggregate} weighs one per {self.aggregate.level}"
      )

  def __str__(self) -> str:
    factor = self.weight
    if isinstance(factor, Transform):
      return f"{factor} * {self.name}"
    return self.name if factor == 1.0 else f"{factor:g} * {self.name}"

  def __rmul__(self, factor: float | Transform) -> Term:
    if isinstance(self.weight, Transform):
      raise TypeError(f"{self.name} already has the weight {self.weight}")
    if not isinstance(factor, Transform):
      factor = factor * self.weight
    elif factor.gives != "scalar":
      raise LevelError(
        f"the weight of a term is a number or gives a scalar; {factor} gives a "
        f"{factor.gives} signal"
      )
    elif self.weight != 1.0:
      raise TypeError(f"{self.name} already has the weight {self.weight:g}")
    return dataclasses.replace(self, weight=factor)

  def __add__(self, other: Term | Loss) -> Loss:
    return Loss((self,)) + other

  def of(
    self, signal: Transform | None = None, loss_filter: Transform | None = None
  ) -> Term:
    """The term with its own signal or loss filter in place of the method's."""
    return dataclasses.replace(
      self,
      signal=signal or self.signal,
      loss_filter=loss_filter or self.loss_filter,
    )


@dataclasses.dataclass(frozen=True)
class Loss:
  """A sum of terms."""

  terms: tuple[Term, ...]

  def __add__(self, other: Term | Loss) -> Loss:
    more = other.terms if isinstance(other, Loss) else (other,)
    return Loss(self.terms + more)

  def __str__(self) -> str:
    return " + ".join(map(str, self.terms))


def term(
  takes: types.Level = "sample",
  gives: types.Level = "token",
  aggregate: aggregates.Aggregate | None = None,
  *,
  needs: Iterable | Callable = (),
) -> Callable[[Callable], Callable[..., Term]]:
  """Decorator: `(signal, policy, rollout, *, hyper)` -> a factory of terms."""
  aggregate = aggregate or _MEANS[gives]()

  def decorate(fn: Callable) -> Callable[..., Term]:
    def build(hyper: dict) -> Term:
      return Term(
        factories.label(fn.__name__, hyper),
        lambda signal, policy, rollout: fn(signal, policy, rollout, **hyper),
        takes,
        gives,
        aggregate,
        needs=factories.resolve_needs(needs, hyper),
      )

    return factories.factory(fn, 3, build)

  return decorate


_POLICY_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


def policy_gradient(
  surrogate: surrogates.Surrogate,
  ratio: Callable[[Array, Array, Array], Array] = ratios.token,
  aggregate: aggregates.Aggregate | None = None,
  against: str = "old",
) -> Term:
  """- aggregate( surrogate(log_ratio, advantages) ).

  Args:
    surrogate: what is maximised.
    ratio: how log-probs become log-ratios.
    aggregate: by default the mean over what the surrogate gives.
    against: the ratio's denominator, "old" (recomputed by the trainer at the
      step's start) or "behavior" (as the sampler reported).

  Logged as `policy/ratio_mean` and `policy/ratio_max`: the ratio of tokens,
  whatever `ratio` makes of it.

  Raises:
    ValueError: `against` is neither.
  """
  if against not in ("old", "behavior"):
    raise ValueError(choices.unknown("against", against, ("old", "behavior")))
  needs = {_POLICY_LOG_PROBS} | surrogate.needs
  name = f"policy_gradient({surrogate})"
  if surrogate.uses_ratio:
    name = f"policy_gradient({surrogate}, {ratio.__name__} ratio to {against})"
    needs |= {_OLD_LOG_PROBS} if against == "old" else set()

  def fn(advantages, policy, rollout):
    metrics, log_ratio = {}, None
    if surrogate.uses_ratio:
      reference = rollout.behavior_log_probs
      if against == "old":
        reference = rollout.extras[_OLD_LOG_PROBS]
      log_ratio = ratio(policy[scoring.log_probs], reference, rollout.mask)
      rho = surrogates.ratio(policy[scoring.log_probs] - reference)
      metrics = {"policy/ratio_mean": rho, "policy/ratio_max": rho}
    value = surrogate.fn(log_ratio, advantages, policy, rollout)
    value, more = value if isinstance(value, tuple) else (value, {})
    return -value, metrics | more

  return Term(
    name,
    fn,
    "token",
    surrogate.gives,
    aggregate or _MEANS[surrogate.gives](),
    needs=frozenset(needs),
    on_policy=not surrogate.uses_ratio,
    against=against if surrogate.uses_ratio else "",
    token_mean=surrogate.token_mean,
  )


def kl(
  estimator: str = "k2",
  reference: str = "ref",
  aggregate: aggregates.Aggregate | None = None,
) -> Term:
  """A penalty on d = log pi - log pi_ref at the sampled tokens.

  By what the *gradient* computes, sampled on-policy:

    k1 = d              zero: use it in the reward, not as a loss
    k2 = d^2 / 2        the gradient of the reverse KL(pi || ref), exactly
    k3 = e^-d - 1 + d   the gradient of the *forward* KL(ref || pi), although
                        its value estimates the reverse one
    k3+                 the value of k3 with the gradient of k2

  Logged as `policy/kl` (to another slot, `policy/kl_SLOT`): the k3 value,
  >= 0 at every token, and not clamped (verl clamps it at 10, which takes the
  gradient away where the policy is furthest).
  Source: Schulman 2020, Approximating KL Divergence.

  Raises:
    ValueError: unknown estimator.
  """
  if estimator not in KL_ESTIMATORS:
    raise ValueError(choices.unknown("KL estimator", estimator, KL_ESTIMATORS))
  need = scoring.Need(reference, scoring.log_probs)
  metric = "policy/kl" if reference == "ref" else f"policy/kl_{reference}"

  def fn(_, policy, rollout):
    d = policy[scoring.log_probs] - rollout.extras[need]
    k3 = jnp.expm1(-d) + d
    k2 = d**2 / 2
    straight = k2 + jax.lax.stop_gradient(k3 - k2)
    value = {"k1": d, "k2": k2, "k3": k3, "k3+": straight}[estimator]
    return value, {metric: k3}

  return Term(
    f"kl({estimator}, {reference})",
    fn,
    "none",
    "token",
    aggregate or aggregates.token_mean(),
    needs=frozenset({_POLICY_LOG_PROBS, need}),
  )


def entropy(aggregate: aggregates.Aggregate | None = None) -> Term:
  """The entropy of the next-token law; `-0.001 * entropy()` is a bonus."""
  return Term(
    "entropy",
    lambda _, policy, rollout: policy[scoring.entropy],
    "none",
    "token",
    aggregate or aggregates.token_mean(),
    needs=frozenset({scoring.Need("policy", scoring.entropy)}),
  )


def nll(
  view: str = "",
  aggregate: aggregates.Aggregate | None = None,
) -> Term:
  """- log pi of the tokens: supervised learning on a text."""
  need = scoring.Need("policy", scoring.log_probs, view)
  key = f"{view}/{scoring.log_probs}" if view else str(scoring.log_probs)
  return Term(
    f"nll({view or 'completions'})",
    lambda _, policy, rollout: -policy[key],
    "none",
    "token",
    aggregate or aggregates.token_mean(),
    view=view,
    needs=frozenset({need}),
  )
