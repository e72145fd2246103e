"""A method as a value: its rewards, filters, advantage and loss.

A `Method` has a field for each part of a training step (*passes* has none: they
follow from the needs of the others). `rl.method_loss` and `rl.step` apply the
parts in this order:

  sampler          draws the rollout                          rl.sampling
  (passes)         compute what the other parts need from
                   forward passes, such as old log-probs      rl.scoring
  reward           replaces the task's score                  rl.reward
  sample_filter    chooses the samples of statistics and loss
  advantage        turns scores into advantages               rl.transforms
  prepared         further signals that filters and terms read
  loss_filter      chooses the samples or tokens of the loss;
                   statistics still include the others
  loss             is differentiated                          rl.losses
  further_updates  minimise other losses, until a metric is small enough

Everything before the loss is computed once per rollout, on the whole batch and
without gradients. Whatever depends on several prompts must be computed there:
the result is then the same under any sharding and any number of microbatches.

A *signal* is an array of one value per sample, token, ... (its *level*,
`rl.types`); a *source* is a transform that takes no signal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rl import UsageError, registry, scoring, transforms
from rl.losses.terms import Loss, Term
from rl.parameter_sets import ParameterSet
from rl.reward import Reward
from rl.sampling import samplers
from rl.transforms import LevelError, Transform

# The states of a method's transforms, by the names in `Method.transforms`.
State = dict[str, Any]
_PREPARED_LEVELS = ("scalar", "prompt", "sample", "step", "token")


@dataclasses.dataclass(frozen=True)
class FurtherUpdates:
  """Updates after those of the method's loss, until a metric is small enough.

  Attributes:
    loss: the loss to minimise, minibatch by minibatch.
    metric: name of a metric of that loss. A minibatch is updated in each pass
      in which its metric exceeds `limit`. Every update advances the schedule of
      the optimizer.
    limit: largest value of the metric that is accepted.
    max_passes: largest number of passes over the rollout.
  """

  loss: Loss | Term
  metric: str
  limit: float
  max_passes: int

  def as_method(self) -> Method:
    """Returns a method with this loss and no other part.

    Its terms must not read an advantage.
    """
    return Method(self.loss, name="further updates")


@dataclasses.dataclass(frozen=True)
class Method:
  """A published method, as a value.

  Attributes:
    loss: a term or a sum of terms, which is minimised.
    advantage: transform from a source to a sample or token signal; it is never
      differentiated.
    sample_filter: transform from a source to a sample signal of bools, True for
      the samples that statistics and the loss include. All other samples are
      treated as if they did not exist.
    loss_filter: transform from a source to a sample or token signal of bools,
      True for the samples or tokens in the loss. Statistics include the others.
    parameter_sets: `((name, parameter set), ...)`, parameters that the method
      reads besides the trained ones, such as a reference policy.
    prepared: `((name, transform), ...)`, signals that the loss filter, terms
      and term weights read from the extras as "prepared/NAME". The advantage is
      "prepared/advantage".
    reward: replaces the task's score; None keeps it.
    sampler: draws the rollouts.
    behavior: the parameters that the sampler uses, "policy" or the name of a
      parameter set.
    optimizer: function from the optimizer of the config to the one that is
      used.
    further_updates: updates after those of the loss.
    metrics: function from the states of the transforms after the rollout, by
      the names in `transforms`, to further metrics `{name: []}`, such as the
      error of a network that a transform trains.
    name: name in logs.
  """

  loss: Loss | Term
  advantage: Transform | None = None
  sample_filter: Transform | None = None
  loss_filter: Transform | None = None
  parameter_sets: tuple[tuple[str, ParameterSet], ...] = ()
  prepared: tuple[tuple[str, Transform], ...] = ()
  reward: Reward | None = None
  sampler: samplers.Sampler = dataclasses.field(default_factory=samplers.once)
  behavior: str = "policy"
  optimizer: Callable[
    [optax.GradientTransformation], optax.GradientTransformation
  ] = lambda tx: tx
  further_updates: tuple[FurtherUpdates, ...] = ()
  metrics: Callable[[State], dict[str, jax.Array]] = lambda states: {}
  name: str = "method"

  def __post_init__(self):
    if isinstance(self.loss, Term):
      object.__setattr__(self, "loss", Loss((self.loss,)))
    behaviors = ["policy", *dict(self.parameter_sets)]
    if self.behavior not in behaviors:
      raise UsageError(
        f"{self.name}: "
        + registry.describe_unknown("behavior", self.behavior, behaviors)
      )
    signals = (
      ("advantage", self.advantage, ("sample", "token")),
      ("sample_filter", self.sample_filter, ("sample",)),
      ("loss_filter", self.loss_filter, ("sample", "token")),
      *((f"prepared {name}", t, _PREPARED_LEVELS) for name, t in self.prepared),
    )
    for role, transform, levels in signals:
      if transform is not None:
        self._check_level(role, transform, levels)
    for term in self.loss.terms:
      self._check_signal(term)

  def _check_level(
    self, role: str, transform: Transform, levels: tuple[str, ...]
  ) -> None:
    """Checks that a transform takes no signal and gives one of some levels."""
    if not isinstance(transform, Transform):
      must = "must be a function with @transform that is called, not"
      raise UsageError(f"{self.name}: {role} {must} {transform!r:.60}")
    if transform.takes != "none":
      takes = transform.takes
      takes = takes if isinstance(takes, str) else " or ".join(takes)
      raise LevelError(
        f"{self.name}: {role} = {transform} takes a {takes} signal; start it "
        "from a source, such as scores() or step_scores()"
      )
    if transform.gives not in levels:
      raise LevelError(
        f"{self.name}: {role} = {transform} gives a {transform.gives} signal "
        f"where {' or '.join(levels)} is needed"
        f"{transforms.suggest_bridge(transform.gives, levels)}"
      )

  def _check_signal(self, term: Term) -> None:
    """Checks that a term can read its signal and its loss filter."""
    # Signal and loss filter are the method's, unless the term has others.
    signal = None if term.takes == "none" else term.signal or self.advantage
    loss_filter = term.loss_filter or self.loss_filter
    transforms_read = [t for t in (signal, loss_filter) if t is not None]
    if term.view and "token" in [t.gives for t in transforms_read]:
      raise LevelError(
        f"{self.name}: {term} reads the text {term.view!r}, whose tokens are "
        "not the rollout's; give it a signal and a loss_filter of samples"
      )
    if term.takes == "none":
      return
    if signal is None:
      raise LevelError(
        f"{self.name}: {term} reads a signal but the method has no advantage"
      )
    is_broadcast = (signal.gives, term.takes) == ("sample", "token")
    if signal.gives != term.takes and not is_broadcast:
      bridge = transforms.suggest_bridge(signal.gives, (term.takes,))
      raise LevelError(
        f"{self.name}: {term} reads a {term.takes} signal but {signal} gives a "
        f"{signal.gives} signal{bridge}"
      )

  @property
  def transforms(self) -> dict[str, Transform]:
    """All transforms, by the names of their states in `init`."""
    by_name: dict[str, Transform | Any] = {
      "sample_filter": self.sample_filter,
      "advantage": self.advantage,
      **{f"prepared/{name}": t for name, t in self.prepared},
      "loss_filter": self.loss_filter,
    }
    for i, term in enumerate(self.loss.terms):
      by_name[f"term{i}/signal"] = term.signal
      by_name[f"term{i}/loss_filter"] = term.loss_filter
      by_name[f"term{i}/weight"] = term.weight
    if self.reward is not None:
      by_name |= self.reward.transforms
    # Leaves out parts that are None, and weights that are numbers.
    return {k: t for k, t in by_name.items() if isinstance(t, Transform)}

  @property
  def signal_needs(self) -> frozenset[scoring.Need]:
    """Needs of the transforms, which are computed before `prepare`."""
    needs = [transform.needs for transform in self.transforms.values()]
    return frozenset().union(*needs)

  @property
  def term_needs(self) -> frozenset[scoring.Need]:
    """Needs of the terms of the loss, without those of the transforms."""
    needs = [term.needs for term in self.loss.terms]
    return frozenset().union(*needs) - self.signal_needs

  def init(self) -> State:
    """The initial state of every transform, by the transform's name."""
    return {name: t.init() for name, t in self.transforms.items()}

  def __str__(self) -> str:
    """A table: the role, the transforms or terms, and the level of each."""
    rows = [self.name]

    def put(head, lines):
      for i, (text, right) in enumerate(lines):
        rows.append(f"  {'' if i else head:10}{text:60} {right}".rstrip())

    if self.reward is not None:
      put("reward", self.reward.describe())
    for head, transform in (
      ("samples", self.sample_filter),
      ("advantage", self.advantage),
      ("in loss", self.loss_filter),
    ):
      if transform is not None:
        put(head, transforms.describe(transform))
    for i, term in enumerate(self.loss.terms):
      put("+" if i else "loss", [(str(term), str(term.aggregate))])
      if term.signal is not None:
        put("  of", transforms.describe(term.signal))
      if term.loss_filter is not None:
        put("  on", transforms.describe(term.loss_filter))
    for name, transform in self.prepared:
      put(name, transforms.describe(transform))
    probes: dict[str, list[str]] = {}
    for need in sorted(self.signal_needs | self.term_needs, key=str):
      pass_name, _, probe = str(need).partition("/")
      probes.setdefault(pass_name, []).append(probe)
    put("passes", [(f"{k}: {', '.join(v)}", "") for k, v in probes.items()])
    states = [(t, t.init()) for t in self.transforms.values()]
    put(
      "state",
      [
        (f"{t}: {_describe_state(state)}", "")
        for t, state in states
        if jax.tree.leaves(state)
      ],
    )
    put("params", [(f"{name} <- {p}", "") for name, p in self.parameter_sets])
    if self.sampler.name != "once()" or self.behavior != "policy":
      put("sampled", [(f"{self.sampler} by {self.behavior}", "")])
    for further in self.further_updates:
      end = f"until {further.metric} <= {further.limit:g}, at most "
      put("then", [(str(further.loss), f"{end}{further.max_passes} passes")])
    return "\n".join(rows)


def _describe_state(state: Any) -> str:
  """Returns the shapes of a state, or counts if it has more than 8 arrays."""
  leaves = jax.tree.leaves(state)
  if len(leaves) <= 8:
    return str(jax.tree.map(jnp.shape, state))
  return f"{len(leaves)} arrays, {sum(map(jnp.size, leaves)):,} numbers"
