"""Learners: what is trained, each a slot of parameters with its own method.

Most methods train the policy alone. Where several networks learn, a method is
a mapping `{slot: Method}`, and so is the optimiser; in every training step they
learn one after another, in the order written, from the same rollout:

  {"prm": ..., "policy": ...}   the policy is paid by the updated reward model
  {"policy": ..., "prm": ...}   by the reward model before its update

For a learner the source "policy" is what is differentiated, its own slot, and
"old" the same at its turn. Every other set of parameters it reads by the name
of its slot, which a `learned()` rule declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import optax

from rl import prepare, types
from rl.method import Method
from rl.parameter_sets import ParameterSet
from rl.transforms import LevelError

POLICY = "policy"  # the learner that samples; its parameters are no slot
RESERVED = (POLICY, "old")  # of a learner, now and at its turn's start
T = TypeVar("T")


def by_learner(given: T | Mapping[str, T]) -> dict[str, T]:
  """What belongs to each learner; a single one is the policy's."""
  return dict(given) if isinstance(given, Mapping) else {POLICY: given}


def prefix(slot: str) -> str:
  """What stands before the names of a learner's metrics: `prm/loss/total`."""
  return "" if slot == POLICY else f"{slot}/"


def pair(
  method: Method | Mapping[str, Method],
  tx: optax.GradientTransformation | Mapping[str, optax.GradientTransformation],
) -> tuple[dict[str, Method], dict[str, optax.GradientTransformation]]:
  """Methods, and what they make of their optimisers, by slot.

  Raises:
    ValueError: a learner has one of them only.
  """
  methods, txs = by_learner(method), by_learner(tx)
  if set(methods) != set(txs):
    raise ValueError(
      f"methods are given for the learners {sorted(methods)}, optimisers for "
      f"{sorted(txs)}; each learner needs both"
    )
  return methods, {
    name: methods[name].optimizer(one) for name, one in txs.items()
  }


def parameter_sets(methods: Mapping[str, Method]) -> dict[str, ParameterSet]:
  """The rule of every slot that some learner reads.

  Raises:
    ValueError: no policy among the learners, a reserved name or two rules for a
      slot, a slot to be learned without a learner, or a learner whose slot
      nobody reads.
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
          f"{method.name}: a slot cannot be named {name!r}: a learner's own "
          f"parameters are {' and '.join(map(repr, RESERVED))}; call it "
          f"{name + '_slot'!r}"
        )
      known = rules.setdefault(name, rule)
      if str(known) != str(rule):
        raise ValueError(
          f"{method.name}: slot {name!r} follows {rule} here and {known} for "
          "another learner; give both the same rule"
        )
  others = [name for name in methods if name != POLICY]
  for name, rule in rules.items():
    if rule.trained and name not in others:
      raise ValueError(
        f"slot {name!r} is learned(), but {name!r} is not among the learners "
        f"{sorted(methods)}; add its method, or give the slot another rule"
      )
  for name in others:
    if name not in rules or not rules[name].trained:
      raise ValueError(
        f"learner {name!r} trains a slot that no method declares as learned(); "
        f"slots: {[f'{k} <- {v}' for k, v in rules.items()]}. Add ({name!r}, "
        "learned()) to the slots of the method that reads it"
      )
  return rules


def check(
  method: Method | Mapping[str, Method],
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout | Mapping[str, types.Rollout],
) -> None:
  """`rl.prepare.check` of every learner.

  Args:
    method: of the policy, or of each learner.
    policy: what will run.
    parameters: `{"policy": params, slot: params, ...}`, arrays or
      `jax.ShapeDtypeStruct`s.
    rollout: likewise; of the policy, or by learner.

  Raises:
    KeyError, ValueError, LevelError: as `rl.prepare.check` and `slot_rules`,
      with the method's name.
    TypeError: JAX's own, of a transform that cannot be traced.
  """
  methods = by_learner(method)
  parameter_sets(methods)
  missing = [name for name in methods if name not in parameters]
  if missing:
    raise KeyError(
      f"the learners {missing} have no parameters; given: {sorted(parameters)}"
    )
  rollouts = by_learner(rollout)
  for name, one in methods.items():
    own = {**parameters, POLICY: parameters[name]}
    try:
      seen = rollouts.get(name, rollouts[POLICY])
      prepare.check(one, policy, own, seen)
    except (KeyError, ValueError, LevelError) as error:
      raise type(error)(f"{one.name}: {error.args[0]}") from error
