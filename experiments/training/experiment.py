"""The record of everything that `build.build` makes from a config."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments import tasks
from experiments.training import (
  prng_keys,
  reward_models,
  rollouts,
  text_rollouts,
  training_texts,
)
from models import (
  decoding,
  lora,
  policy,
  repeated_heads,
  sharding,
  transformer,
)
from models.config import ModelConfig
from rl import learners, scoring, step, types
from rl.method import Method
from rl.minibatches import Plan
from rl.sampling import generation

# The position of a kind is part of the keys of its runs; add new kinds at the
# end.
KINDS = ("rl", "supervised", "preferences")


@dataclasses.dataclass(frozen=True)
class Experiment:
  """The parts of one experiment, without its training state.

  Attributes:
    config: the config that the parts were built from.
    task: problems and their scores.
    model: shape of the decoder.
    policy: the decoder as functions of its parameters (`rl.types.Policy`).
    methods: the method of each learner, by the learner's name. The policy is
      one of them. A supervised experiment minimises the negative
      log-likelihood of demonstrations. In an experiment of the kind
      "preferences" the method has no parameter set "ref", whose results
      `reference_policy` computes.
    txs: the optimizer of each learner.
    schedules: the learning rate of each learner as a function of the finished
      training steps.
    plan: how a rollout is divided into minibatches and microbatches.
    sampling: settings of sampling in training.
    reward_models: process reward models that score the samples, by name.
    traps: task with the trap prompts of `config.trip_wires`; None: there are
      none.
    mesh: mesh of the devices that train.
    sampling_mesh: mesh of the devices that sample; usually the same mesh.
  """

  config: ml_collections.ConfigDict
  task: tasks.Task
  model: ModelConfig
  policy: types.Policy
  methods: Mapping[str, Method]
  txs: Mapping[str, optax.GradientTransformation]
  schedules: Mapping[str, optax.Schedule]
  plan: Plan
  sampling: generation.Sampling
  reward_models: Mapping[str, reward_models.RewardModel]
  mesh: Mesh
  sampling_mesh: Mesh
  traps: tasks.Task | None = None

  @property
  def method(self) -> Method:
    """The method of the policy."""
    return self.methods[learners.POLICY]

  @property
  def is_rl(self) -> bool:
    """True if the policy learns from its own samples."""
    return self.config.kind == "rl"

  @property
  def is_evaluated(self) -> bool:
    """True if a run evaluates the policy, before and after it trains."""
    return self.config.kind != "supervised"

  @functools.cached_property
  def texts(self) -> training_texts.TrainingTexts | None:
    """The file that the policy learns from.

    None if it learns from its samples or from the task's demonstrations.
    """
    return training_texts.read_for(self.config, self.task)

  @property
  def fingerprints(self) -> dict[str, str]:
    """Texts that change with the data that the run reads, by their kind."""
    texts = {"texts": self.texts.fingerprint} if self.texts else {}
    return {**self.task.fingerprints, **texts}

  @property
  def reference_needs(self) -> frozenset[scoring.Need]:
    """Arrays of the policy "ref" that are computed once for all texts."""
    if self.config.kind != "preferences":
      return frozenset()
    needs = self.method.signal_needs | self.method.term_needs
    return frozenset(need for need in needs if need.source == "ref")

  @property
  def sampling_model(self) -> ModelConfig:
    """Shape of the decoder that samples.

    It is `model`; on another mesh than that of training, whose axis "tensor"
    does not divide the key and value heads, these heads are repeated.
    """
    return repeated_heads.repeat_config(self.model, self._head_repeats)

  @property
  def sampling_policy(self) -> types.Policy:
    """The functions of `sampling_model`."""
    if self._head_repeats == 1:
      return self.policy
    return policy.bind(self.sampling_model)

  @property
  def _head_repeats(self) -> int:
    if self.sampling_mesh == self.mesh:
      return 1
    tensor = self.sampling_mesh.shape["tensor"]
    return repeated_heads.repeats(self.model, tensor)

  @property
  def model_without_lora(self) -> ModelConfig:
    """Shape of the decoder without LoRA adapters, as in folders of weights."""
    return dataclasses.replace(self.model, lora_rank=0)

  def on_mesh(self, mesh: Mesh) -> Experiment:
    """Returns the same experiment, which trains and samples on another mesh."""
    return dataclasses.replace(self, mesh=mesh, sampling_mesh=mesh)

  def with_scores(
    self,
    state: step.State,
    rollout: types.Rollout,
    needs: Iterable[scoring.Need],
  ) -> types.Rollout:
    """Returns the rollout with the results of forward passes in its extras.

    The passes use the chunks and microbatches of a training step.

    Args:
      state: training state with the parameters of the passes.
      rollout: rollout on the training mesh.
      needs: arrays to compute. Their source is not "policy", since those arrays
        are computed and differentiated in the loss. Those that the extras have
        already are not computed again.
    """
    return scoring.passes(
      self.policy.with_frozen(state.carried.frozen),
      {**state.parameters, "old": state.params},
      {need for need in needs if need not in rollout.extras},
      rollout,
      self.plan.temperature,
      self.plan.chunk,
      self.plan.microbatches,
    )

  # ----------------------------------------------------------------------------
  # The training state
  # ----------------------------------------------------------------------------

  def init(self, params: types.PyTree | None = None) -> step.State:
    """Returns the training state at step 0, on the training mesh.

    The state has no reward models; `initial_state` reads them.

    Args:
      params: parameters of the decoder, on the training mesh. Adapters and
        heads that they lack are initialised. None initialises all parameters.
        Frozen parameters are used without a copy.
    """
    seed_key = prng_keys.from_seed(self.config.seed)
    if params is None:
      init = self._jit_on_mesh(
        lambda seed_key: transformer.init(self.model, self._keys(seed_key)[0])
      )
      params = init(seed_key)
    else:
      init = self._jit_on_mesh(
        lambda seed_key: self._init_missing(self._keys(seed_key)[0])
      )
      params = types.join(params, init(seed_key))
    trained, frozen = lora.split(self.model, params)

    def init_state(params: types.PyTree, seed_key: jax.Array) -> step.State:
      return step.init(self.methods, params, self.txs, self._keys(seed_key)[1])

    shapes = jax.eval_shape(init_state, trained, seed_key)
    shardings = _state_shardings(shapes, self.mesh)
    state = jax.jit(init_state, out_shardings=shardings)(trained, seed_key)
    return state.with_carried(frozen=frozen)

  def _keys(self, seed_key: jax.Array) -> jax.Array:
    """Returns the keys of the initial parameters and of the run, `[2]`.

    An RL run and its supervised base have the same seed. With the kind folded
    in, they draw different problems.
    """
    kind_key = jax.random.fold_in(seed_key, KINDS.index(self.config.kind))
    return jax.random.split(kind_key)

  def _jit_on_mesh(self, init: Callable) -> Callable:
    """Compiles an initialiser that creates parameters sharded on the mesh."""
    shapes = jax.eval_shape(init, jax.random.key(0))
    return jax.jit(init, out_shardings=sharding.shardings(shapes, self.mesh))

  def _init_missing(self, key: jax.Array) -> types.PyTree:
    """Initialises parameters that a folder may lack: adapters, or heads."""
    if self.model.lora_rank:
      return lora.init(self.model, key)
    return transformer.init_heads(self.model, key)

  def select_params(self, params: types.PyTree) -> types.PyTree:
    """Returns those parameters of a folder that the decoder has.

    Args:
      params: parameters of a Hugging Face folder, which may have further heads.
    """

    def intersect(params: types.PyTree, shapes: types.PyTree) -> types.PyTree:
      if not isinstance(params, dict):
        return params
      names = params.keys() & shapes.keys()
      return {name: intersect(params[name], shapes[name]) for name in names}

    return intersect(params, self.abstract_params_without_lora)

  @functools.cached_property
  def state_shapes(self) -> step.State:
    """Shapes of the training state, without shardings."""

    def init(key: jax.Array) -> step.State:
      params = transformer.init(self.model, key)
      trained, frozen = lora.split(self.model, params)
      state = step.init(self.methods, trained, self.txs, key, frozen)
      zeros = {
        name: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), m.shapes)
        for name, m in self.reward_models.items()
      }
      return reward_models.add_to_state(self.reward_models, state, zeros)

    return jax.eval_shape(init, jax.random.key(0))

  @functools.cached_property
  def shardings(self) -> step.State:
    """Shardings of the training state.

    Parameters, and arrays of the same shapes, follow the rules of the mesh. The
    state of the methods is replicated.
    """
    return _state_shardings(self.state_shapes, self.mesh)

  @functools.cached_property
  def abstract(self) -> step.State:
    """Shapes and shardings of the training state."""
    return jax.tree.map(_with_sharding, self.state_shapes, self.shardings)

  @property
  def abstract_params_without_lora(self) -> types.PyTree:
    """Shapes and shardings of the parameters of `model_without_lora`."""
    shapes = jax.eval_shape(
      lambda key: transformer.init(self.model_without_lora, key),
      jax.random.key(0),
    )
    shardings = sharding.shardings(shapes, self.mesh)
    return jax.tree.map(_with_sharding, shapes, shardings)

  def saved_part(self, state: step.State) -> step.State:
    """Returns the part of a state that checkpoints have.

    Parameters that the run does not train are read again from their source.
    """
    return state.with_carried(frozen={}, models={})

  # ----------------------------------------------------------------------------
  # The part of the state that the sampler reads
  # ----------------------------------------------------------------------------

  def sampler_state(self, state: step.State) -> step.State:
    """Returns the part of a state that the sampler reads.

    On another mesh than that of training, the parameters are those of
    `sampling_model`, in the dtype in which sampling reads them.

    Args:
      state: training state.
    """
    names = {*self.methods, *state.parameter_sets}
    if self.method.sampler.reads_behavior_alone:
      names = {learners.POLICY, self.method.behavior}
    on_mesh = self.sampling_mesh == self.mesh
    prepare = (lambda params: params) if on_mesh else self.sampling_params
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

  def sampling_params(self, params: types.PyTree) -> types.PyTree:
    """Returns parameters as the sampler reads them on a mesh of its own.

    Args:
      params: parameters of the policy, or a part of them.
    """
    params = decoding.cast(self.model, params)
    return repeated_heads.repeat_params(self.model, params, self._head_repeats)

  @functools.cached_property
  def sampler_state_shapes(self) -> step.State:
    """Shapes of `sampler_state`, without shardings."""
    return jax.eval_shape(self.sampler_state, self.state_shapes)

  @functools.cached_property
  def sampler_shardings(self) -> step.State:
    """Shardings of `sampler_state` on the sampling mesh."""
    return _state_shardings(self.sampler_state_shapes, self.sampling_mesh)

  @functools.cached_property
  def abstract_sampler_state(self) -> step.State:
    """Shapes and shardings of `sampler_state` on the sampling mesh."""
    return jax.tree.map(
      _with_sharding, self.sampler_state_shapes, self.sampler_shardings
    )

  # ----------------------------------------------------------------------------
  # Evaluation
  # ----------------------------------------------------------------------------

  @property
  def evaluation_mesh(self) -> Mesh:
    """Mesh of the devices that evaluate.

    It is the sampling mesh if that has the devices of training, and otherwise
    the training mesh.
    """
    devices = [
      set(mesh.devices.flat) for mesh in (self.mesh, self.sampling_mesh)
    ]
    return self.sampling_mesh if devices[0] == devices[1] else self.mesh

  @property
  def evaluation_sharding(self) -> NamedSharding:
    """Sharding that splits problems over the axes of `evaluation_mesh`."""
    return sharding.batch_sharding(self.evaluation_mesh)

  @property
  def evaluation_policy(self) -> types.Policy:
    """The functions of the policy on `evaluation_mesh`."""
    on_mesh = self.evaluation_mesh == self.mesh
    return self.policy if on_mesh else self.sampling_policy

  @property
  def abstract_evaluation_params(self) -> types.PyTree:
    """Shapes and shardings of all parameters of the policy on this mesh."""
    on_mesh = self.evaluation_mesh == self.mesh
    state = self.abstract if on_mesh else self.abstract_sampler_state
    return types.join(state.params, state.carried.frozen)

  def evaluation_params(self, params: types.PyTree) -> types.PyTree:
    """Returns all parameters of the policy, on `evaluation_mesh`.

    Args:
      params: the parameters on the training mesh.
    """
    if self.evaluation_mesh == self.mesh:
      return params
    mesh_shardings = jax.tree.map(
      lambda leaf: leaf.sharding, self.abstract_evaluation_params
    )
    return jax.device_put(jax.jit(self.sampling_params)(params), mesh_shardings)

  # ----------------------------------------------------------------------------
  # Rollouts
  # ----------------------------------------------------------------------------

  @functools.cached_property
  def abstract_rollout(self) -> step.Rollouts:
    """Shapes of the rollout of one step, computed without the decoder.

    Raises:
      ValueError: there are reward models, but the task has no steps.
    """
    state = self.state_shapes
    if self.texts is not None:
      return text_rollouts.abstract_text_rollout(
        self.texts,
        self.config.rollout.prompts,
        state,
        map(str, self.reference_needs),
      )
    samples = self.sampling.samples if self.is_rl else 1
    sampled = rollouts.abstract_rollout(
      self.task,
      self.policy,
      dataclasses.replace(self.sampling, samples=samples),
      self.config.rollout.prompts,
      self.method,
      types.join(state.params, state.carried.frozen),
      self.model.vocab_size,
    )
    return reward_models.abstract_scores(self.reward_models, sampled)

  def rollout_shardings(self, rollout: step.Rollouts) -> step.Rollouts:
    """Returns the shardings of a rollout on the training mesh.

    Arrays by prompt are split along the prompts; others are replicated.
    """

    def choose(has_prompt_axis: bool) -> NamedSharding:
      return self.batch_sharding if has_prompt_axis else self.replicated

    by_learner = {
      name: jax.tree.map(choose, one.has_prompt_axis())
      for name, one in learners.by_learner(rollout).items()
    }
    if isinstance(rollout, types.Rollout):
      return by_learner[learners.POLICY]
    return by_learner

  @property
  def placed_rollout(self) -> step.Rollouts:
    """Shapes and shardings of the rollout of one step."""
    rollout = self.abstract_rollout
    return jax.tree.map(
      _with_sharding, rollout, self.rollout_shardings(rollout)
    )

  @property
  def batch_sharding(self) -> NamedSharding:
    """Sharding that splits prompts over the data axes of the training mesh."""
    return sharding.batch_sharding(self.mesh)

  @property
  def sampling_sharding(self) -> NamedSharding:
    """Sharding that splits prompts over the data axes of the sampling mesh."""
    return sharding.batch_sharding(self.sampling_mesh)

  @property
  def replicated(self) -> NamedSharding:
    """Sharding that copies an array to every device of the training mesh."""
    return NamedSharding(self.mesh, PartitionSpec())


def _state_shardings(state: step.State, mesh: Mesh) -> step.State:
  """Returns the shardings of a state.

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


def _with_sharding(
  leaf: Any, leaf_sharding: NamedSharding
) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf_sharding)
