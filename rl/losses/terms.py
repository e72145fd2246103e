"""Terms: the summands of a loss, each with its level, aggregate and needs.

  loss = policy_gradient(ppo_clip(0.2, 0.28)) + 0.001 * kl("k2")

The sum is minimised. The factor of a term, such as 0.001, is its *term weight*.
A term computes one value per token, sample or prompt, and its *aggregate*
(`rl.losses.aggregates`) sums these values to a number. Its *signal* is an array
that multiplies the gradient, usually the method's advantage; a term may read
another signal and have another loss filter than the method. A term may also
score another text than the rollout, a *view* (`rl.scoring.Need`).

Axes: P prompts, S samples per prompt, T tokens.
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
KL_ESTIMATORS = ("k1", "k1+", "k2", "k3", "k3+")
_SIGNAL_LEVELS = ("none", "prompt", "sample", "token")
# The default aggregate of a term, by the level of its values.
_DEFAULT_AGGREGATES = {
  "token": aggregates.token_mean,
  "sample": aggregates.sample_mean,
  "prompt": aggregates.prompt_mean,
}


@dataclasses.dataclass(frozen=True)
class Term:
  """One summand of the loss.

  Attributes:
    name: the name with its hyper-parameters.
    fn: `(signal, policy, rollout) -> values` at level `gives`, or `-> (values,
      metrics)`. `policy` holds results of the policy's forward pass, with
      gradient: `policy[scoring.log_probs]` is `[P, S, T]`. Metrics are
      `{name: array}`, with arrays `[P, S, T]`, `[P, S]` or `[P]`. The mean of
      the array over the tokens, samples or prompts in the loss is logged, or
      the maximum if the name ends in "_max".
    takes: level of the signal; "none" if the term reads no signal.
    gives: level of the values: token, sample or prompt.
    aggregate: rule for the aggregation weights of the values.
    weight: the term weight, a number, or a transform that gives a scalar (such
      as a controller of the KL).
    signal: transform whose result replaces the method's advantage; None reads
      the advantage.
    loss_filter: transform that replaces the method's loss filter; None keeps
      the method's.
    view: the text that the term scores (`rl.scoring.Need`); "" is the rollout.
    needs: needs that `fn` reads, of the policy and of other sources.
    on_policy: whether the term is right for the first update of a rollout only.
    denominator: policy in the denominator of its ratio, "old" or "behavior"; ""
      if it has no ratio.
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
    if self.takes not in _SIGNAL_LEVELS:
      raise LevelError(
        f"{self.name} takes a {self.takes} signal; a term can take one of "
        f"{_SIGNAL_LEVELS}"
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
        f"{self.aggregate} gives one weight per {self.aggregate.level}; choose "
        f"an aggregate of level {self.gives}"
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
        f"{self.name} already has the weight {self.weight:g}; a transform "
        "cannot be multiplied by another weight"
      )
    return dataclasses.replace(self, weight=factor)

  def __add__(self, other: Term | Loss) -> Loss:
    return Loss((self,)) + other

  def of(
    self, signal: Transform | None = None, loss_filter: Transform | None = None
  ) -> Term:
    """Returns the term with another signal or loss filter than the method's.

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
    aggregate: rule for the aggregation weights; None means `token_mean`,
      `sample_mean` or `prompt_mean`, by the level of the values.
    needs: needs that the term reads, a set or `(**hyper) -> set`.
  """
  aggregate = aggregate or _DEFAULT_AGGREGATES[gives]()

  def decorate(fn: Callable) -> Callable[..., Term]:
    def build(hyper: dict) -> Term:
      return Term(
        name=factories.label(fn.__name__, hyper),
        fn=lambda signal, policy, rollout: fn(signal, policy, rollout, **hyper),
        takes=takes,
        gives=gives,
        aggregate=aggregate,
        needs=factories.resolve_needs(needs, hyper),
      )

    # (signal, policy, rollout).
    return factories.factory(fn, 3, build)

  return decorate


# [P, S, T], log-probs of the sampled tokens: under the parameters that are
# trained, with gradient, and under those at the start of the training step.
_POLICY_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
# Policy in the denominator of a ratio -> the needs for its log-probs.
_DENOMINATORS = {"old": frozenset({_OLD_LOG_PROBS}), "behavior": frozenset()}


def _denominator_needs(denominator: str) -> frozenset[scoring.Need]:
  """Returns the needs of a denominator, or raises a UsageError."""
  registry.check_known("denominator", denominator, _DENOMINATORS)
  return _DENOMINATORS[denominator]


def _denominator_log_probs(denominator: str, rollout: types.Rollout) -> Array:
  """Returns the log-probs of the policy in the denominator, `[P, S, T]`."""
  if denominator == "old":
    return rollout.extras[_OLD_LOG_PROBS]
  return rollout.behavior_log_probs


def policy_gradient(
  surrogate: surrogates.Surrogate,
  ratio: Callable[[Array, Array, Array], Array] = ratios.token,
  aggregate: aggregates.Aggregate | None = None,
  denominator: str = "old",
) -> Term:
  """Builds the term - aggregate(surrogate(log_ratio, advantages)).

  If the surrogate reads a ratio, the term logs `policy/ratio_mean`,
  `policy/ratio_max` and `policy/ppo_kl`. They are of the ratios rho of single
  tokens, even if `ratio` is a ratio of sequences. `policy/ppo_kl` is the mean
  of - log rho, which estimates KL(denominator || policy) and may be negative.

  Args:
    surrogate: the objective per token or sample, which is maximised.
    ratio: function from log-probs to log-ratios (`rl.losses.ratios`).
    aggregate: rule for the aggregation weights; None means `token_mean`, or
      `sample_mean` if the surrogate gives one value per sample.
    denominator: policy in the denominator of the ratio: "old", whose log-probs
      the trainer computes at the start of the step, or "behavior", whose
      log-probs the sampler reported.

  Raises:
    UsageError: if `denominator` has another value.
  """
  denominator_needs = _denominator_needs(denominator)
  needs = {_POLICY_LOG_PROBS} | surrogate.needs
  name = f"policy_gradient({surrogate})"
  if surrogate.uses_ratio:
    name = (
      f"policy_gradient({surrogate}, {ratio.__name__} ratio to {denominator})"
    )
    needs |= denominator_needs

  def fn(advantages, policy, rollout):
    metrics, log_ratio = {}, None
    if surrogate.uses_ratio:
      reference = _denominator_log_probs(denominator, rollout)
      log_ratio = ratio(policy[scoring.log_probs], reference, rollout.mask)
      rho = surrogates.ratio(policy[scoring.log_probs] - reference)
      metrics = {
        "policy/ratio_mean": rho,
        "policy/ratio_max": rho,
        "policy/ppo_kl": reference - policy[scoring.log_probs],
      }
    result = surrogate.fn(log_ratio, advantages, policy, rollout)
    values, more = result if isinstance(result, tuple) else (result, {})
    return -values, metrics | more

  return Term(
    name=name,
    fn=fn,
    takes="token",
    gives=surrogate.gives,
    aggregate=aggregate or _DEFAULT_AGGREGATES[surrogate.gives](),
    needs=frozenset(needs),
    on_policy=not surrogate.uses_ratio,
    denominator=denominator if surrogate.uses_ratio else "",
    token_mean=surrogate.token_mean,
  )


def kl(
  estimator: str = "k2",
  reference: str = "ref",
  aggregate: aggregates.Aggregate | None = None,
  ratio: Callable[[Array, Array, Array], Array] | None = None,
  denominator: str = "old",
) -> Term:
  """Builds a penalty on d = log pi - log pi_ref at the sampled tokens.

  pi is the policy that is trained, and pi_ref the reference policy. For tokens
  sampled from pi, the expected *gradient* of each estimator is

    k1 = d               zero, so use k1 in the reward and not as a loss
    k1+                  that of k2; the value of k1+ is that of k1
    k2 = d^2 / 2         exactly that of the reverse KL(pi || pi_ref)
    k3 = e^-d - 1 + d    that of the *forward* KL(pi_ref || pi), although the
                         value of k3 estimates the reverse KL
    k3+                  that of k2; the value of k3+ is that of k3

  If the tokens were sampled from another policy, the estimator can be
  multiplied by the ratio rho of pi to that policy, which is differentiated too.
  With the ratio of tokens, the expected value and gradient of rho k1 and of
  rho k3 are those of the reverse KL of the next token; the gradient of rho k3
  at a token is rho d, that of k2 times rho.

  Logs the mean of k3 as `policy/kl`, or as `policy/kl_NAME` for a parameter set
  NAME other than "ref". k3 is at least 0 at every token, and this
  implementation does not clamp it. verl clamps k3 at 10, which removes the
  gradient where the policy is furthest from the reference. The metric is
  without the ratio.

  Source: Schulman 2020, Approximating KL Divergence; DeepSeek-AI 2025,
  DeepSeek-V3.2 (the ratio of tokens).

  Args:
    estimator: one of `KL_ESTIMATORS`.
    reference: name of the parameter set of the reference policy.
    aggregate: rule for the aggregation weights; None means `token_mean`.
    ratio: function from log-probs to log-ratios, `ratios.token` or
      `ratios.shared_sequence_mean`; None multiplies by no ratio.
    denominator: policy in the denominator of the ratio; see `policy_gradient`.

  Raises:
    UsageError: if the estimator or the denominator is unknown.
  """
  registry.check_known("KL estimator", estimator, KL_ESTIMATORS)
  denominator_needs = _denominator_needs(denominator)
  need = scoring.Need(reference, scoring.log_probs)
  needs = {_POLICY_LOG_PROBS, need}
  name = f"kl({estimator}, {reference})"
  if ratio is not None:
    name = f"{name[:-1]}, {ratio.__name__} ratio to {denominator})"
    needs |= denominator_needs
  metric = "policy/kl" if reference == "ref" else f"policy/kl_{reference}"

  def fn(_, policy, rollout):
    log_probs = policy[scoring.log_probs]
    d = log_probs - rollout.extras[need]
    k2 = d**2 / 2
    values = {"k1": d, "k2": k2, "k3": jnp.expm1(-d) + d}
    value = values[estimator.removesuffix("+")]
    if estimator.endswith("+"):  # the gradient of k2
      value = k2 + jax.lax.stop_gradient(value - k2)
    if ratio is not None:
      denominator_log_probs = _denominator_log_probs(denominator, rollout)
      rho = surrogates.ratio(
        ratio(log_probs, denominator_log_probs, rollout.mask)
      )
      # A ratio of sequences sums the gradients of its tokens: an infinity at a
      # token that is not in the loss would make all of them NaN.
      value = rho * jnp.where(rollout.mask, value, 0.0)
    return value, {metric: values["k3"]}

  return Term(
    name=name,
    fn=fn,
    takes="none",
    gives="token",
    aggregate=aggregate or aggregates.token_mean(),
    needs=frozenset(needs),
    denominator="" if ratio is None else denominator,
  )


def entropy(aggregate: aggregates.Aggregate | None = None) -> Term:
  """Builds a term of the entropy of the next-token distribution, in nats.

  The loss is minimised: `-0.001 * entropy()` rewards entropy.
  """
  return Term(
    name="entropy",
    fn=lambda _, policy, rollout: policy[scoring.entropy],
    takes="none",
    gives="token",
    aggregate=aggregate or aggregates.token_mean(),
    needs=frozenset({scoring.Need("policy", scoring.entropy)}),
  )


def nll(
  view: str = "",
  aggregate: aggregates.Aggregate | None = None,
) -> Term:
  """Builds the term - log pi of the tokens of a text, for supervised learning.

  Args:
    view: the text (`rl.scoring.Need`); "" is the rollout.
    aggregate: rule for the aggregation weights; None means `token_mean`.
  """
  need = scoring.Need("policy", scoring.log_probs, view)
  # The probes of a view are under "VIEW/PROBE" (`rl.method_loss.loss`).
  key = f"{view}/{scoring.log_probs}" if view else str(scoring.log_probs)
  return Term(
    name=f"nll({view or 'completions'})",
    fn=lambda _, policy, rollout: -policy[key],
    takes="none",
    gives="token",
    aggregate=aggregate or aggregates.token_mean(),
    view=view,
    needs=frozenset({need}),
  )
