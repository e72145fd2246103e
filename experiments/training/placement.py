"""Places the training state of an experiment on the training mesh.

Parameters, and arrays of the same shapes, are split by the rules of
`models.sharding`; all other parts of the state are copied to every device.
`sampling_placement` has the parts that sampling and evaluation read.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.training import prng_keys
from experiments.training.experiment import KINDS, Experiment
from models import lora, sharding, transformer
from rl import step, types


def init_state(e: Experiment, params: types.PyTree | None = None) -> step.State:
  """Returns the training state at step 0, on the training mesh.

  The state has no reward models; `initial_state` reads them.

  Args:
    e: the experiment.
    params: parameters of the decoder, on the training mesh. Adapters and heads
      that they lack are initialised. None initialises all parameters. Frozen
      parameters are used without a copy.
  """
  seed_key = prng_keys.from_seed(e.config.seed)

  def init_params(init: Callable[[jax.Array], types.PyTree]) -> types.PyTree:
    """Calls an initialiser whose parameters are sharded on the mesh."""
    shapes = jax.eval_shape(init, seed_key)
    shardings = sharding.shardings(shapes, e.mesh)
    return jax.jit(init, out_shardings=shardings)(seed_key)

  if params is None:
    params = init_params(
      lambda key: transformer.init(e.model, _keys(e, key)[0])
    )
  else:
    missing = init_params(lambda key: _init_missing(e, _keys(e, key)[0]))
    params = types.join(params, missing)
  trained, frozen = lora.split(e.model, params)

  def init_state(params: types.PyTree, seed_key: jax.Array) -> step.State:
    return step.init(e.methods, params, e.txs, _keys(e, seed_key)[1])

  shapes = jax.eval_shape(init_state, trained, seed_key)
  shardings = shardings_on(shapes, e.mesh)
  state = jax.jit(init_state, out_shardings=shardings)(trained, seed_key)
  return state.with_carried(frozen=frozen)


def _keys(e: Experiment, seed_key: jax.Array) -> jax.Array:
  """Returns the keys of the initial parameters and of the run, `[2]`.

  An RL run and its supervised base have the same seed. With the kind folded in,
  they draw different problems.
  """
  kind_key = jax.random.fold_in(seed_key, KINDS.index(e.config.kind))
  return jax.random.split(kind_key)


def _init_missing(e: Experiment, key: jax.Array) -> types.PyTree:
  """Initialises parameters that a folder may lack: adapters, or heads."""
  if e.model.lora_rank:
    return lora.init(e.model, key)
  return transformer.init_heads(e.model, key)


def state_shardings(e: Experiment) -> step.State:
  """Returns the shardings of the training state."""
  return shardings_on(e.state_shapes, e.mesh)


def abstract_state(e: Experiment) -> step.State:
  """Returns the shapes and shardings of the training state."""
  return sharding.with_shardings(e.state_shapes, state_shardings(e))


def saved_part(state: step.State) -> step.State:
  """Returns the part of a training state that checkpoints have.

  Parameters that the run does not train are read again from their source.
  """
  return state.with_carried(frozen={}, models={})


def shardings_on(state: step.State, mesh: Mesh) -> step.State:
  """Returns the shardings of a state, or of a part of one, on a mesh.

  Parameters and optimizers follow the rules of the mesh. The states of methods
  and of the sampler are replicated.
  """
  replicated = NamedSharding(mesh, PartitionSpec())

  def replicate(tree: types.PyTree) -> types.PyTree:
    return jax.tree.map(lambda _: replicated, tree)

  def split(tree: types.PyTree) -> types.PyTree:
    return sharding.shardings(tree, mesh)

  return step.State(
    step=replicated,
    learners={
      name: step.Learner(
        split(learner.params),
        split(learner.opt_state),
        replicate(learner.method_state),
      )
      for name, learner in state.learners.items()
    },
    parameter_sets=split(state.parameter_sets),
    carried=step.Carried(
      key=replicated,
      memory=replicate(state.carried.memory),
      frozen=split(state.carried.frozen),
      models=split(state.carried.models),
    ),
  )
