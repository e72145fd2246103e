"""The state of the training: what changes in a step, and what a run carries.

A checkpoint has the state without the parameters that a run reads again from
their source (`State.saved_part`).
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from rl import learners, parameter_sets, types

Array = jax.Array


@flax.struct.dataclass
class Learner:
  """State of a network that is trained.

  Attributes:
    params: its trained parameters.
    opt_state: state of its optimizer.
    method_state: states of its method's transforms, by name.
  """

  params: types.PyTree
  opt_state: Any
  method_state: Any = ()


@flax.struct.dataclass
class Carried:
  """The part of the training state that no optimizer update changes.

  Attributes:
    key: typed PRNG key. It never changes; sampling folds the number of the step
      into it.
    memory: state that the policy's sampler carries to its next rollout.
    frozen: parameters of the policy that are never trained. The parameters of
      the model are these, joined with those of a learner or a parameter set
      (`rl.types.join`).
    models: `{name: params}` of further models, which score rollouts before the
      train step.
  """

  key: Array
  memory: Any = ()
  frozen: types.PyTree = flax.struct.field(default_factory=dict)
  models: dict[str, types.PyTree] = flax.struct.field(default_factory=dict)


@flax.struct.dataclass
class State:
  """State of the training.

  Attributes:
    step: `[]` int32, number of training steps done; each uses one rollout.
    learners: the networks that are trained, by name; "policy" is among them.
    parameter_sets: `{name: value}`, further parameters that methods read, and
      that follow the policy by a rule (`rl.parameter_sets`).
    carried: what no update changes.
  """

  step: Array
  learners: dict[str, Learner]
  parameter_sets: dict[str, types.PyTree]
  carried: Carried

  @property
  def policy(self) -> Learner:
    """The learner that samples."""
    return self.learners[learners.POLICY]

  @property
  def params(self) -> types.PyTree:
    """Trained parameters of the policy."""
    return self.policy.params

  @property
  def parameters(self) -> dict[str, types.PyTree]:
    """`{name: params}` of the learners and the parameter sets."""
    trained = {name: learner.params for name, learner in self.learners.items()}
    values = self.parameter_sets.items()
    return {**trained, **{n: parameter_sets.read(v) for n, v in values}}

  def with_policy(self, **changes: Any) -> State:
    """Returns the state with other fields of the policy's `Learner`."""
    policy = self.policy.replace(**changes)
    return self.replace(learners={**self.learners, learners.POLICY: policy})

  def with_carried(self, **changes: Any) -> State:
    """Returns the state with other fields of `carried`."""
    return self.replace(carried=self.carried.replace(**changes))

  def saved_part(self) -> State:
    """Returns the part of the state that checkpoints have.

    Parameters that the run does not train are read again from their source.
    """
    return self.with_carried(frozen={}, models={})


def init(
  method: learners.Methods,
  params: types.PyTree,
  tx: learners.Optimizers,
  key: Array,
  frozen: types.PyTree | None = None,
) -> State:
  """Builds the state before the first step.

  Args:
    method: method of the policy, or `{name: method}` of every learner.
    params: trained parameters of the policy, from which those of the other
      learners and the parameter sets start too.
    tx: optimizer of the policy, or `{name: optimizer}` of every learner.
    key: typed PRNG key.
    frozen: the policy's other parameters; None if all are trained.
  """
  methods, txs = learners.pair(method, tx)
  parameters = {
    name: parameter_set.init(params)
    for name, parameter_set in learners.parameter_sets(methods).items()
  }
  trained = {
    name: params if name == learners.POLICY else parameters.pop(name)
    for name in methods
  }
  return State(
    step=jnp.zeros((), jnp.int32),
    learners={
      name: Learner(trained[name], txs[name].init(trained[name]), m.init())
      for name, m in methods.items()
    },
    parameter_sets=parameters,
    carried=Carried(
      key=key,
      memory=methods[learners.POLICY].sampler.init(),
      frozen={} if frozen is None else frozen,
    ),
  )
