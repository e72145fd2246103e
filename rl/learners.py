"""Learners: networks that are trained, each with a method and an optimizer.

Most methods train the policy alone. To train several networks, pass a mapping
`{learner: Method}`, and one of optimizers. In every training step the learners
are updated one after another, in the order of the mapping, from the same
rollout:

  {"prm": ..., "policy": ...}   rewards come from the updated reward model
  {"policy": ..., "prm": ...}   rewards come from the reward model before its
                                update

The parameters of a learner besides the policy are a parameter set with the rule
`learned()` and the name of the learner. In the needs of a learner's method, the
source "policy" stands for the parameters that this learner trains, and "old"
for the same parameters before its update of this step. All other parameters
have the name of their parameter set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import optax

from rl import prepare, types
from rl.method import Method
from rl.parameter_sets import ParameterSet
from rl.transforms import LevelError

# The learner that samples. Its parameters are not a parameter set.
POLICY = "policy"
# Sources with a meaning of their own, which a parameter set must not have as
# name.
RESERVED = (POLICY, "old")
T = TypeVar("T")


def by_learner(value: T | Mapping[str, T]) -> dict[str, T]:
  """A mapping by learner; a value that is not a mapping is the policy's."""
  return dict(value) if isinstance(value, Mapping) else {POLICY: value}


def prefix(name: str) -> str:
  """Prefix of the metrics of a learner, as in `prm/loss/total`."""
  return "" if name == POLICY else f"{name}/"


def pair(
  method: Method | Mapping[str, Method],
  tx: optax.GradientTransformation | Mapping[str, optax.GradientTransformation],
) -> tuple[dict[str, Method], dict[str, optax.GradientTransformation]]:
  """Methods, and optimizers as wrapped by `Method.optimizer`, by learner.

  Raises:
    ValueError: if a learner has a method but no optimizer, or the reverse.
  """
  methods, txs = by_learner(method), by_learner(tx)
  if set(methods) != set(txs):
    raise ValueError(
      f"the methods are of the learners {sorted(methods)}, the optimizers of "
      f"{sorted(txs)}; each learner needs both"
    )
  return methods, {
    name: methods[name].optimizer(one) for name, one in txs.items()
  }


def parameter_sets(methods: Mapping[str, Method]) -> dict[str, ParameterSet]:
  """The parameter sets of all learners, by name.

  Raises:
    ValueError: if "policy" is not among the learners; if a parameter set has a
      reserved name, two different rules, or the rule `learned()` but no
      learner; or if no method declares the parameter set of a learner.
  """
  if POLICY not in methods:
    raise ValueError(
      f"the learners {sorted(methods)} lack {POLICY!r}, which samples the "
      "rollouts; add its method"
    )
  rules: dict[str, ParameterSet] = {}
  for method in methods.values():
    for name, rule in method.parameter_sets:
      if name in RESERVED:
        raise ValueError(
          f"{method.name}: a parameter set cannot be named {name!r}: the names "
          f"{' and '.join(map(repr, RESERVED))} are those of the parameters "
          f"that a learner trains; name it {name + '_copy'!r}"
        )
      first = rules.setdefault(name, rule)
      if str(first) != str(rule):
        raise ValueError(
          f"{method.name}: the parameter set {name!r} has the rule {rule} here "
          f"and {first} for another learner; declare the same rule for both"
        )
  others = [name for name in methods if name != POLICY]
  for name, rule in rules.items():
    if rule.trained and name not in others:
      raise ValueError(
        f"the parameter set {name!r} is learned(), but {name!r} is not among "
        f"the learners {sorted(methods)}; add its method, or choose another rule"
      )
  for name in others:
    if name not in rules or not rules[name].trained:
      raise ValueError(
        f"the learner {name!r} trains a parameter set that no method declares as "
        f"learned(); declared: {[f'{k} <- {v}' for k, v in rules.items()]}. Add "
        f"({name!r}, learned()) to parameter_sets of the method that reads it"
      )
  return rules


def check(
  method: Method | Mapping[str, Method],
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout | Mapping[str, types.Rollout],
) -> None:
  """Calls `rl.prepare.check` for every learner.

  Args:
    method: method of the policy, or `{learner: method}`.
    policy: the model.
    parameters: `{"policy": params, NAME: params, ...}` with every parameter
      set; arrays or `jax.ShapeDtypeStruct`s.
    rollout: rollout of the policy, or `{learner: rollout}`; arrays or
      `jax.ShapeDtypeStruct`s.

  Raises:
    KeyError, ValueError, LevelError: same as in `rl.prepare.check` and
      `parameter_sets`, with the name of the method in the message.
    TypeError: if a transform cannot be traced; raised by JAX.
  """
  methods = by_learner(method)
  parameter_sets(methods)
  missing = [name for name in methods if name not in parameters]
  if missing:
    raise KeyError(
      f"the learners {missing} have no parameters; available: "
      f"{sorted(parameters)}"
    )
  rollouts = by_learner(rollout)
  for name, one in methods.items():
    # The source "policy" stands for the parameters of this learner.
    sources = {**parameters, POLICY: parameters[name]}
    try:
      prepare.check(one, policy, sources, rollouts.get(name, rollouts[POLICY]))
    except (KeyError, ValueError, LevelError) as error:
      raise type(error)(f"{one.name}: {error.args[0]}") from error
