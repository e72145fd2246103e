"""Terms: the summands of a loss, each with its level, aggregate and needs.

  loss = policy_gradient(ppo_clip(0.2, 0.28)) + 0.001 * kl("k2")

The sum is minimised. Each term has a term weight, such as 0.001. A term may
have a signal and a loss filter of its own instead of the method's, and it may
read another text than the rollout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from rl import factories, registry, scoring, types
from rl.losses import aggregates, ratios, surrogates
from rl.transforms import LevelError, Transform

Array = jax.Array
KL_ESTIMATORS = ("k1", "k2", "k3", "k3+")
_SIGNALS = ("none", "prompt", "sample", "token")
# The default aggregate of a term, by the level of its values.
_MEANS = {
  "token": aggregates.token_mean,
  "sample": aggregates.sample_mean,
  "prompt": aggregates.prompt_mean,
}


@dataclasses.dataclass(frozen=True)
class Term:
  """One summand of the loss.

  Attributes:
    name: the name with its hyper-parameters.
    fn: `(signal, policy, rollout) -> values` at level `gives`, or `(values,
      metrics)`. `policy` holds the probes that are differentiated. Metrics are
      `{name: array}`, with arrays `[P, S, T]`, `[P, S]` or `[P]`. Their mean
      over the tokens, samples or prompts in the loss is logged; of a name that
      ends in "_max", their maximum.
    takes: level of the signal; "none" if the term reads no signal.
    gives: level of the values: token, sample or prompt.
    aggregate: rule for the aggregation weights of the values.
    weight: the term weight, a number, or a transform that gives a scalar (such
      as a controller of the KL).
    signal: signal in place of the method's advantage; None: the advantage.
    loss_filter: filter in place of the method's; None: the method's.
    view: the text that the term reads (`rl.scoring.Need`); "" is the rollout.
    needs: needs that it reads.
    on_policy: whether the term is right for the first update of a rollout only.
    denominator: policy in the denominator of its ratio, "old" or "behavior"; "" if
      it has no ratio.
    token_mean: "arithmetic" or "geometric"; see
      `rl.losses.surrogates.Surrogate`.
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
  denominator: str = ""
  token_mean: str = "arithmetic"

  def __post_init__(self):
    if self.takes not in _SIGNALS:
      raise LevelError(
        f"{self.name} takes a {self.takes} signal; a term can take one of "
        f"{_SIGNALS}"
      )
    if self.loss_filter is not None and self.loss_filter.gives not in (
      "sample",
      "token",
    ):
      raise LevelError(
        f"{self.name}: loss_filter = {self.loss_filter} gives a "
        f"{self.loss_filter.gives} signal; a filter must give a sample or "
        "token signal"
      )
    if self.gives != self.aggregate.level:
      raise LevelError(
        f"{self.name} gives one value per {self.gives}, but the aggregate "
        f"{self.aggregate} weighs one per {self.aggregate.level}; choose an "
        f"aggregate of level {self.gives}"
      )

  def __str__(self) -> str:
    factor = self.weight
    if isinstance(factor, Transform):
      return f"{factor} * {self.name}"
    return self.name if factor == 1.0 else f"{factor:g} * {self.name}"

  def __rmul__(self, factor: float | Transform) -> Term:
    if isinstance(self.weight, Transform):
      raise TypeError(
        f"{self.name} already has the weight {self.weight}; a transform cannot "
        "be multiplied by another weight"
      )
    if not isinstance(factor, Transform):
      factor = factor * self.weight
    elif factor.gives != "scalar":
      raise LevelError(
        f"the weight of a term must be a number or give a scalar; {factor} "
        f"gives a {factor.gives} signal"
      )
    elif self.weight != 1.0:
      raise TypeError(
        f"{self.name} already has the weight {self.weight:g}; a transform cannot "
        "be multiplied by another weight"
      )
    return dataclasses.replace(self, weight=factor)

  def __add__(self, other: Term | Loss) -> Loss:
    return Loss((self,)) + other

  def of(
    self, signal: Transform | None = None, loss_filter: Transform | None = None
  ) -> Term:
    """A copy of the term that reads another signal, or has another loss filter.

    Args:
      signal: replaces the method's advantage; None changes nothing.
      loss_filter: replaces the method's loss filter; None changes nothing.
    """
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
  *,
  takes: types.Level = "sample",
  gives: types.Level = "token",
  aggregate: aggregates.Aggregate | None = None,
  needs: Iterable | Callable = (),
) -> Callable[[Callable], Callable[..., Term]]:
  """Decorator that turns a function into a factory of terms.

  The function is `(signal, policy, rollout, *, hyper...) -> values`, or
  `-> (values, metrics)`; see `Term.fn`. The arguments of the factory are the
  keyword-only hyper-parameters.

  Args:
    takes: level of the signal; "none" if the term reads no signal.
    gives: level of the values: token, sample or prompt.
    aggregate: rule for the aggregation weights; None: the mean at `gives`.
    needs: needs that the term reads, a set or `(**hyper) -> set`.
  """
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
  denominator: str = "old",
) -> Term:
  """The negative surrogate: - aggregate( surrogate(log_ratio, advantages) ).

  Logs `policy/ratio_mean` and `policy/ratio_max`, which are the ratios of
  single tokens, also if `ratio` is a ratio of sequences.

  Args:
    surrogate: the objective per token, which is maximised.
    ratio: function from log-probs to log-ratios (`rl.losses.ratios`).
    aggregate: rule for the aggregation weights; None: the mean over the values
      of the surrogate.
    denominator: policy in the denominator of the ratio: "old", whose log-probs the
      trainer computes at the start of the step, or "behavior", whose log-probs
      the sampler reported.

  Raises:
    ValueError: if `denominator` has another value.
  """
  if denominator not in ("old", "behavior"):
    raise ValueError(
      registry.describe_unknown("denominator", denominator, ("old", "behavior"))
    )
  needs = {_POLICY_LOG_PROBS} | surrogate.needs
  name = f"policy_gradient({surrogate})"
  if surrogate.uses_ratio:
    name = (
      f"policy_gradient({surrogate}, {ratio.__name__} ratio to {denominator})"
    )
    needs |= {_OLD_LOG_PROBS} if denominator == "old" else set()

  def fn(advantages, policy, rollout):
    metrics, log_ratio = {}, None
    if surrogate.uses_ratio:
      reference = rollout.behavior_log_probs
      if denominator == "old":
        reference = rollout.extras[_OLD_LOG_PROBS]
      log_ratio = ratio(policy[scoring.log_probs], reference, rollout.mask)
      rho = surrogates.ratio(policy[scoring.log_probs] - reference)
      metrics = {"policy/ratio_mean": rho, "policy/ratio_max": rho}
    value = surrogate.fn(log_ratio, advantages, policy, rollout)
    value, of_surrogate = value if isinstance(value, tuple) else (value, {})
    return -value, metrics | of_surrogate

  return Term(
    name,
    fn,
    "token",
    surrogate.gives,
    aggregate or _MEANS[surrogate.gives](),
    needs=frozenset(needs),
    on_policy=not surrogate.uses_ratio,
    denominator=denominator if surrogate.uses_ratio else "",
    token_mean=surrogate.token_mean,
  )


def kl(
  estimator: str = "k2",
  reference: str = "ref",
  aggregate: aggregates.Aggregate | None = None,
) -> Term:
  """A penalty on d = log pi - log pi_ref at the sampled tokens.

  For samples of the current policy, the expected *gradient* of an estimator is

    k1 = d              zero, so use k1 in the reward and not as a loss
    k2 = d^2 / 2        exactly that of the reverse KL(pi || ref)
    k3 = e^-d - 1 + d   that of the *forward* KL(ref || pi), although its value
                        estimates the reverse one
    k3+                 that of k2; its value is that of k3

  Logs the value of k3 as `policy/kl`, or as `policy/kl_NAME` for a parameter
  set other than "ref". It is at least 0 at every token and is not clamped: verl
  clamps it at 10, which removes the gradient where the policy is furthest from
  the reference.

  Source: Schulman 2020, Approximating KL Divergence.

  Args:
    estimator: one of `KL_ESTIMATORS`.
    reference: parameter set of the reference policy.
    aggregate: rule for the aggregation weights; None: the mean over tokens.

  Raises:
    ValueError: if the estimator is unknown.
  """
  if estimator not in KL_ESTIMATORS:
    raise ValueError(
      registry.describe_unknown("KL estimator", estimator, KL_ESTIMATORS)
    )
  need = scoring.Need(reference, scoring.log_probs)
  metric = "policy/kl" if reference == "ref" else f"policy/kl_{reference}"

  def fn(_, policy, rollout):
    d = policy[scoring.log_probs] - rollout.extras[need]
    k3 = jnp.expm1(-d) + d
    k2 = d**2 / 2
    k3_plus = k2 + jax.lax.stop_gradient(k3 - k2)
    value = {"k1": d, "k2": k2, "k3": k3, "k3+": k3_plus}[estimator]
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
  """Entropy of the next-token distribution; `-0.001 * entropy()` is a bonus."""
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
  """- log pi of the tokens of a text, for supervised learning.

  Args:
    view: the text (`rl.scoring.Need`); "" is the rollout.
    aggregate: rule for the aggregation weights; None: the mean over tokens.
  """
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
