"""The policy as sampling and evaluation read it, on their meshes.

In training, samples are drawn on `Experiment.sampling_mesh`. If it is another
mesh than that of training, the sampler has its own copy of the parameters, in
the dtype in which sampling reads them. Key and value heads that the axis
"tensor" of the sampling mesh does not divide are repeated there.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
from jax.sharding import Mesh, NamedSharding

from experiments.training import placement
from experiments.training.experiment import Experiment
from models import decoding, policy, repeated_heads, sharding
from models.config import ModelConfig
from rl import learners, step, types


def check(e: Experiment) -> None:
  """Checks that the meshes divide batches, minibatches and samples evenly."""
  config, plan = e.config, e.plan
  context = e.mesh.shape["context"]
  if e.is_rl and config.rollout.samples % context:
    nearest = max(round(config.rollout.samples / context), 1) * context
    raise ValueError(
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
      _head_repeats(e)
    except ValueError as error:
      raise ValueError(f"sampling.{error}") from None


def _check_divides(sizes: Mapping[str, int], mesh: Mesh, owner: str) -> None:
  """Checks that the axes of a mesh that split prompts divide sizes evenly.

  Args:
    sizes: numbers of prompts by the config key that sets them.
    mesh: the mesh.
    owner: whose axes they are, for the message.
  """
  shards = sharding.num_prompt_shards(mesh)
  wrong_sizes = [
    f"{key} = {size} (nearest: {max(shards, round(size / shards) * shards)})"
    for key, size in sizes.items()
    if size % shards or size < 1
  ]
  if wrong_sizes:
    raise ValueError(
      f"{', '.join(wrong_sizes)}: not divisible by the {owner} "
      f"{' * '.join(sharding.PROMPT_AXES)} = {shards}"
    )


# ------------------------------------------------------------------------------
# Sampling in training
# ------------------------------------------------------------------------------


def sampling_model(e: Experiment) -> ModelConfig:
  """Returns the shape of the decoder that samples.

  It is `e.model`, with repeated heads if the sampling mesh needs them.
  """
  return repeated_heads.repeat_config(e.model, _head_repeats(e))


def sampling_policy(e: Experiment) -> types.Policy:
  """Returns the functions of `sampling_model`."""
  if _head_repeats(e) == 1:
    return e.policy
  return policy.bind(sampling_model(e))


def _head_repeats(e: Experiment) -> int:
  if e.sampling_mesh == e.mesh:
    return 1
  return repeated_heads.repeats(e.model, e.sampling_mesh.shape["tensor"])


def sampler_state(e: Experiment, state: step.State) -> step.State:
  """Returns the part of a state that the sampler reads.

  On another mesh than that of training, the parameters are those of
  `sampling_model`, in the dtype in which sampling reads them.
  """
  names = {*e.methods, *state.parameter_sets}
  if e.method.sampler.reads_behavior_alone:
    names = {learners.POLICY, e.method.behavior}

  def prepare(params: types.PyTree) -> types.PyTree:
    return params if e.sampling_mesh == e.mesh else sampling_params(e, params)

  return state.replace(
    learners={
      name: step.Learner(prepare(learner.params), opt_state=())
      for name, learner in state.learners.items()
      if name in names
    },
    parameter_sets={
      name: prepare(params)
      for name, params in state.parameter_sets.items()
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
  return repeated_heads.repeat_params(e.model, params, _head_repeats(e))


def _sampler_shapes(e: Experiment) -> step.State:
  return jax.eval_shape(lambda state: sampler_state(e, state), e.state_shapes)


def sampler_shardings(e: Experiment) -> step.State:
  """Returns the shardings of `sampler_state` on the sampling mesh."""
  return placement.shardings_on(_sampler_shapes(e), e.sampling_mesh)


def abstract_sampler_state(e: Experiment) -> step.State:
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
  return e.policy if evaluation_mesh(e) == e.mesh else sampling_policy(e)


def abstract_evaluation_params(e: Experiment) -> types.PyTree:
  """Returns shapes and shardings of all parameters on `evaluation_mesh`."""
  on_mesh = evaluation_mesh(e) == e.mesh
  state = placement.abstract_state(e) if on_mesh else abstract_sampler_state(e)
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
