"""Places the state of an experiment, and what is read from it, on its meshes.

Training reads the whole state on `Experiment.mesh`. Sampling reads a part of it
on `Experiment.sampling_mesh`: on another mesh than that of training, a copy of
the parameters in the dtype of sampling, whose key and value heads are repeated
if the axis "tensor" does not divide them. Evaluation reads the parameters of
the policy on one of the two meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.training import prng_keys
from experiments.training.experiment import KINDS, Experiment
from models import decoding, lora, repeated_heads, sharding, transformer
from rl import UsageError, learners, parameter_sets, training_state, types


def check(e: Experiment) -> None:
  """Checks that the meshes divide batches, minibatches and samples evenly."""
  config, plan = e.config, e.plan
  context = e.mesh.shape["context"]
  if e.is_rl and config.rollout.samples % context:
    nearest = max(round(config.rollout.samples / context), 1) * context
    raise UsageError(
      f"rollout.samples = {config.rollout.samples} is not divisible by "
      f"mesh.context = {context}, which splits them; nearest: {nearest}"
    )
  prompts = config.rollout.prompts
  sizes = {
    "rollout.prompts": prompts,
    "rollout.prompts / (plan.minibatches * plan.microbatches)": prompts
    // (plan.minibatches * plan.microbatches),
  }
  evaluated = {"evaluation.batch": config.evaluation.batch}
  if evaluation_mesh(e) == e.mesh:
    sizes |= evaluated
  _check_divides(sizes, e.mesh, "mesh's")
  if e.sampling_mesh != e.mesh:
    sizes = {"rollout.prompts": prompts}
    if evaluation_mesh(e) == e.sampling_mesh:
      sizes |= evaluated
    _check_divides(sizes, e.sampling_mesh, "sampler's")
    try:
      _ = e.head_repeats
    except UsageError as error:
      raise UsageError(f"inference.{error}") from None


def _check_divides(sizes: Mapping[str, int], mesh: Mesh, owner: str) -> None:
  """Checks that the axes of a mesh that split prompts divide sizes evenly."""
  shards = sharding.num_prompt_shards(mesh)
  # `sizes` are numbers of prompts by the config key that sets them.
  wrong_sizes = [
    f"{key} = {size} (nearest: {max(shards, round(size / shards) * shards)})"
    for key, size in sizes.items()
    if size % shards or size < 1
  ]
  if wrong_sizes:
    raise UsageError(
      f"{', '.join(wrong_sizes)}: not divisible by the {owner} "
      f"{' * '.join(sharding.PROMPT_AXES)} = {shards}"
    )


# ------------------------------------------------------------------------------
# The training state
# ------------------------------------------------------------------------------


def init_state(
  e: Experiment, params: types.PyTree | None = None
) -> training_state.State:
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
    # A folder may lack adapters, or heads.
    init = lora.init if e.model.lora_rank else transformer.init_heads
    missing = init_params(lambda key: init(e.model, _keys(e, key)[0]))
    params = types.join(params, missing)
  trained, frozen = lora.split(e.model, params)

  def init_state(
    params: types.PyTree, seed_key: jax.Array
  ) -> training_state.State:
    return training_state.init(e.methods, params, e.txs, _keys(e, seed_key)[1])

  shapes = jax.eval_shape(init_state, trained, seed_key)
  shardings = _shardings_on(shapes, e.mesh)
  state = jax.jit(init_state, out_shardings=shardings)(trained, seed_key)
  return state.with_carried(frozen=frozen)


def _keys(e: Experiment, seed_key: jax.Array) -> jax.Array:
  """Returns the keys of the initial parameters and of the run, `[2]`."""
  # An RL run and its supervised base have the same seed. With the kind folded
  # in, they draw different problems.
  kind_key = jax.random.fold_in(seed_key, KINDS.index(e.config.kind))
  return jax.random.split(kind_key)


def state_shardings(e: Experiment) -> training_state.State:
  """Returns the shardings of the training state."""
  return _shardings_on(e.state_shapes, e.mesh)


def abstract_state(e: Experiment) -> training_state.State:
  """Returns the shapes and shardings of the training state."""
  return sharding.with_shardings(e.state_shapes, state_shardings(e))


def _shardings_on(
  state: training_state.State, mesh: Mesh
) -> training_state.State:
  """Returns the shardings of a state, or of a part of one, on a mesh."""
  replicated = NamedSharding(mesh, PartitionSpec())

  def replicate(tree: types.PyTree) -> types.PyTree:
    return jax.tree.map(lambda _: replicated, tree)

  def split(tree: types.PyTree) -> types.PyTree:
    return sharding.shardings(tree, mesh)

  # Parameters and optimizers follow the rules of the mesh. The states of
  # methods and of the sampler are replicated.
  return training_state.State(
    step=replicated,
    learners={
      name: training_state.Learner(
        split(learner.params),
        split(learner.opt_state),
        replicate(learner.method_state),
      )
      for name, learner in state.learners.items()
    },
    parameter_sets=split(state.parameter_sets),
    carried=training_state.Carried(
      key=replicated,
      memory=replicate(state.carried.memory),
      frozen=split(state.carried.frozen),
      models=split(state.carried.models),
    ),
  )


# ------------------------------------------------------------------------------
# The part of the state that the sampler reads
# ------------------------------------------------------------------------------


def sampler_state(
  e: Experiment, state: training_state.State
) -> training_state.State:
  """Returns the part of a state that the sampler reads.

  On another mesh than that of training, the parameters are those of
  `e.sampling_model`, in the dtype in which sampling reads them.
  """
  names = {*e.methods, *state.parameter_sets}
  if e.method.sampler.reads_behavior_alone:
    names = {learners.POLICY, e.method.behavior}

  def prepare(params: types.PyTree) -> types.PyTree:
    return params if e.sampling_mesh == e.mesh else sampling_params(e, params)

  return state.replace(
    learners={
      name: training_state.Learner(prepare(learner.params), opt_state=())
      for name, learner in state.learners.items()
      if name in names
    },
    parameter_sets={
      name: prepare(parameter_sets.read(value))
      for name, value in state.parameter_sets.items()
      if name in names
    },
    carried=state.carried.replace(
      frozen=prepare(state.carried.frozen), models={}
    ),
  )


def sampling_params(e: Experiment, params: types.PyTree) -> types.PyTree:
  """Returns parameters as the sampler reads them on a mesh of its own.

  Args:
    e: the experiment.
    params: parameters of the policy, or a part of them.
  """
  params = decoding.cast(e.model, params)
  return repeated_heads.repeat_params(e.model, params, e.head_repeats)


def _sampler_shapes(e: Experiment) -> training_state.State:
  return jax.eval_shape(lambda state: sampler_state(e, state), e.state_shapes)


def sampler_shardings(e: Experiment) -> training_state.State:
  """Returns the shardings of `sampler_state` on the sampling mesh."""
  return _shardings_on(_sampler_shapes(e), e.sampling_mesh)


def abstract_sampler_state(e: Experiment) -> training_state.State:
  """Returns shapes and shardings of `sampler_state` on the sampling mesh."""
  return sharding.with_shardings(_sampler_shapes(e), sampler_shardings(e))


# ------------------------------------------------------------------------------
# Evaluation
# ------------------------------------------------------------------------------


def evaluation_mesh(e: Experiment) -> Mesh:
  """Returns the mesh of the devices that evaluate.

  It is the sampling mesh if that has the devices of training, and otherwise the
  training mesh.
  """
  devices = [set(mesh.devices.flat) for mesh in (e.mesh, e.sampling_mesh)]
  return e.sampling_mesh if devices[0] == devices[1] else e.mesh


def evaluation_sharding(e: Experiment) -> NamedSharding:
  """Returns the sharding of problems over the axes of `evaluation_mesh`."""
  return sharding.batch_sharding(evaluation_mesh(e))


def evaluation_policy(e: Experiment) -> types.Policy:
  """Returns the functions of the policy on `evaluation_mesh`."""
  return e.policy if evaluation_mesh(e) == e.mesh else e.sampling_policy


def abstract_evaluation_params(e: Experiment) -> types.PyTree:
  """Returns shapes and shardings of all parameters on `evaluation_mesh`."""
  on_mesh = evaluation_mesh(e) == e.mesh
  state = abstract_state(e) if on_mesh else abstract_sampler_state(e)
  return types.join(state.params, state.carried.frozen)


def evaluation_params(e: Experiment, params: types.PyTree) -> types.PyTree:
  """Returns all parameters of the policy, on `evaluation_mesh`.

  Args:
    e: the experiment.
    params: the parameters on the training mesh.
  """
  if evaluation_mesh(e) == e.mesh:
    return params
  shardings = jax.tree.map(
    lambda leaf: leaf.sharding, abstract_evaluation_params(e)
  )
  prepare = jax.jit(lambda params: sampling_params(e, params))
  return jax.device_put(prepare(params), shardings)
