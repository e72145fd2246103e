"""Learners: networks that are trained, each with a method and an optimizer.

Most methods train the policy alone. To train several networks, pass a mapping
`{learner: Method}` and a mapping `{learner: optimizer}` to `rl.step.make`. In
every training step the learners are updated one after another, in the order of
the first mapping, from the same rollout:

  {"prm": ..., "policy": ...}   rewards come from the updated reward model
  {"policy": ..., "prm": ...}   rewards come from the reward model before its
                                update

The parameters of a learner other than the policy are a parameter set
(`rl.parameter_sets`) with the name of the learner and the rule `learned()`.

A method names the parameters that it reads (`rl.scoring.Need`). In the method
of a learner, "policy" stands for the parameters that this learner trains, and
"old" for the same parameters before the learner's update of this training step.
All other parameters have the name of their parameter set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import optax

from rl import UsageError, method_loss, types
from rl.method import Method
from rl.parameter_sets import ParameterSet

# The learner that samples. Its parameters are not a parameter set.
POLICY = "policy"
# Names with a meaning of their own in needs; no parameter set may have them.
RESERVED = (POLICY, "old")
# The method and the optimizer of the policy, or of every learner by its name.
Methods = Method | Mapping[str, Method]
Optimizers = (
  optax.GradientTransformation | Mapping[str, optax.GradientTransformation]
)
T = TypeVar("T")


def by_learner(value: T | Mapping[str, T]) -> dict[str, T]:
  """Returns a mapping by learner; another value becomes that of the policy."""
  return dict(value) if isinstance(value, Mapping) else {POLICY: value}


def prefix(name: str) -> str:
  """Returns the prefix of a learner's metrics, such as "prm/", or ""."""
  return "" if name == POLICY else f"{name}/"


def pair(
  method: Methods, tx: Optimizers
) -> tuple[dict[str, Method], dict[str, optax.GradientTransformation]]:
  """Returns the methods and the optimizers, each as a mapping by learner.

  Each optimizer is wrapped by `Method.optimizer` of the learner's method.

  Raises:
    UsageError: if a learner has a method but no optimizer, or the reverse.
  """
  methods, txs = by_learner(method), by_learner(tx)
  if set(methods) != set(txs):
    raise UsageError(
      f"methods are given for the learners {sorted(methods)}, and optimizers "
      f"for {sorted(txs)}; each learner needs both"
    )
  return methods, {n: methods[n].optimizer(tx) for n, tx in txs.items()}


def parameter_sets(methods: Mapping[str, Method]) -> dict[str, ParameterSet]:
  """Returns the parameter sets that the methods declare, by name.

  Raises:
    UsageError: if "policy" is not among the learners; if a parameter set has a
      reserved name, two different rules, or the rule `learned()` but no
      learner; or if no method declares the parameter set of a learner.
  """
  if POLICY not in methods:
    raise UsageError(
      f"the learners {sorted(methods)} lack {POLICY!r}, which samples the "
      "rollouts; add its method"
    )
  rules: dict[str, ParameterSet] = {}
  for method in methods.values():
    for name, rule in method.parameter_sets:
      if name in RESERVED:
        raise UsageError(
          f"{method.name}: a parameter set cannot be named {name!r}: the names "
          f"{' and '.join(map(repr, RESERVED))} are those of the parameters "
          f"that a learner trains; name it {name + '_copy'!r}"
        )
      declared_rule = rules.setdefault(name, rule)
      if str(declared_rule) != str(rule):
        raise UsageError(
          f"{method.name}: the parameter set {name!r} has the rule {rule} here "
          f"and {declared_rule} for another learner; declare the same rule"
        )
  further_learners = [name for name in methods if name != POLICY]
  for name, rule in rules.items():
    if rule.trained and name not in further_learners:
      raise UsageError(
        f"the parameter set {name!r} is learned(), but {name!r} is not among "
        f"the learners {sorted(methods)}; add its method or use another rule"
      )
  for name in further_learners:
    if name not in rules or not rules[name].trained:
      declared = [f"{key} <- {rule}" for key, rule in rules.items()]
      raise UsageError(
        f"the learner {name!r} trains a parameter set that no method declares "
        f"as learned(); declared: {declared}. Add ({name!r}, learned()) to "
        "parameter_sets of the method that reads it"
      )
  return rules


def check(
  method: Methods,
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout | Mapping[str, types.Rollout],
) -> None:
  """Calls `rl.method_loss.check` for every learner.

  Args:
    method: method of the policy, or `{learner: method}`.
    policy: the model.
    parameters: `{"policy": params, NAME: params, ...}` with every parameter
      set; arrays or `jax.ShapeDtypeStruct`s.
    rollout: rollout of the policy, or `{learner: rollout}`; arrays or
      `jax.ShapeDtypeStruct`s.

  Raises:
    UsageError: same as in `rl.method_loss.check` and `parameter_sets`, with the
      name of the method in the message.
    Exception: a transform or a term raised it; the exception has a note with
      the name of the method.
  """
  methods = by_learner(method)
  parameter_sets(methods)
  missing = [name for name in methods if name not in parameters]
  if missing:
    raise UsageError(
      f"the learners {missing} have no parameters; available: "
      f"{sorted(parameters)}"
    )
  rollouts = by_learner(rollout)
  for name, learner_method in methods.items():
    # The source "policy" stands for the parameters of this learner.
    sources = {**parameters, POLICY: parameters[name]}
    learner_rollout = rollouts.get(name, rollouts[POLICY])
    try:
      method_loss.check(learner_method, policy, sources, learner_rollout)
    except UsageError as error:
      raise UsageError(f"{learner_method.name}: {error}") from error
    except Exception as error:
      error.add_note(f"tracing {learner_method.name}")
      raise
