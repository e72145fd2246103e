"""An experiment: the pieces of a config, what they share, and where they live."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import ml_collections
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments import tasks
from experiments.training import prng_keys, rollouts
from models import lora, sharding, transformer
from models.config import ModelConfig
from rl import learners, scoring, step, types
from rl import method as method_lib
from rl.minibatches import Plan
from rl.sampling import generation, samplers

KINDS = ("rl", "supervised")


@dataclasses.dataclass(frozen=True)
class Experiment:
  """The pieces, all static.

  Attributes:
    config: what they were made from.
    task: problems and scores.
    model: shape of the decoder.
    policy: its functions.
    methods: what each learner learns, by slot, the policy among them;
      supervised experiments learn the NLL.
    txs: the optimiser of each learner.
    schedules: of each learner, training steps done -> learning rate.
    plan: how a rollout is cut into updates.
    sampling: how completions are drawn.
    mesh: of the devices that train.
    sampling_mesh: of those that sample; mostly the same.
  """

  config: ml_collections.ConfigDict
  task: tasks.Task
  model: ModelConfig
  policy: types.Policy
  methods: Mapping[str, method_lib.Method]
  txs: Mapping[str, optax.GradientTransformation]
  schedules: Mapping[str, optax.Schedule]
  plan: Plan
  sampling: generation.Sampling
  mesh: Mesh
  sampling_mesh: Mesh

  @property
  def method(self) -> method_lib.Method:
    """The policy's own."""
    return self.methods[learners.POLICY]

  def passed(
    self,
    state: step.State,
    rollout: types.Rollout,
    needs: Iterable[scoring.Need],
  ) -> types.Rollout:
    """The rollout with what scoring passes find, cut up as a step does it.

    Args:
      state: whose parameters and slots score.
      rollout: on the mesh.
      needs: what is asked; of "policy", the parameters being trained, none.
    """
    return scoring.passes(
      self.policy.with_frozen(state.frozen),
      {"old": state.params, **state.parameter_sets},
      needs,
      rollout,
      self.plan.temperature,
      self.plan.chunk,
      self.plan.microbatches,
    )

  def on(self, mesh: Mesh) -> Experiment:
    """The same, trained and sampled on another mesh."""
    return dataclasses.replace(self, mesh=mesh, sampling_mesh=mesh)

  def init(self, params: types.PyTree | None = None) -> step.State:
    """The state at step 0, on the mesh.

    Args:
      params: of the decoder, on the mesh; adapters and heads that it lacks are
        fresh. None: all of it is. What is frozen is not copied.
    """
    # A run and the base it starts from share a seed, not their problems.
    seed = prng_keys.from_seed(self.config.seed)
    own = jax.random.fold_in(seed, KINDS.index(self.config.kind))
    params_key, run_key = jax.random.split(own)
    if params is None:
      params = self._made(lambda key: transformer.init(self.model, key))(
        params_key
      )
    else:
      params = types.join(params, self._made(self._additions)(params_key))
    trained, frozen = lora.split(self.model, params)
    places = self.shardings.replace(frozen={})
    state = jax.jit(
      lambda p, k: step.init(self.methods, p, self.txs, k), out_shardings=places
    )(trained, run_key)
    return state.replace(frozen=frozen)

  def _made(self, make: Callable) -> Callable:
    """Parameters made where they will live."""
    shapes = jax.eval_shape(make, jax.random.key(0))
    return jax.jit(make, out_shardings=sharding.shardings(shapes, self.mesh))

  def _additions(self, key: jax.Array) -> types.PyTree:
    """What a folder of weights may lack."""
    if self.model.lora_rank:
      return lora.init(self.model, key)
    return transformer.init_heads(self.model, key)

  @property
  def plain(self) -> ModelConfig:
    """The decoder without adapters: what another run's weights are of."""
    return dataclasses.replace(self.model, lora_rank=0)

  def fitting(self, params: types.PyTree) -> types.PyTree:
    """Of a folder's parameters those that the decoder has: no other head."""

    def chosen(found: types.PyTree, wanted: types.PyTree) -> types.PyTree:
      if not isinstance(found, dict):
        return found
      shared = found.keys() & wanted.keys()
      return {name: chosen(found[name], wanted[name]) for name in shared}

    return chosen(params, self.abstract_plain)

  @property
  def abstract_plain(self) -> types.PyTree:
    """Shapes and shardings of its parameters."""
    shapes = jax.eval_shape(
      lambda key: transformer.init(self.plain, key), jax.random.key(0)
    )
    places = sharding.shardings(shapes, self.mesh)
    return jax.tree.map(_placed, shapes, places)

  @property
  def state_shapes(self) -> step.State:
    """Shapes of the state, wherever it lives."""

    def start(key: jax.Array) -> step.State:
      params = transformer.init(self.model, key)
      trained, frozen = lora.split(self.model, params)
      return step.init(self.methods, trained, self.txs, key, frozen)

    return jax.eval_shape(start, jax.random.key(0))

  @property
  def abstract(self) -> step.State:
    """Shapes and shardings of the state."""
    return jax.tree.map(_placed, self.state_shapes, self.shardings)

  @property
  def shardings(self) -> step.State:
    """Where each part of the state lives.

    Parameters, and what is shaped like them, by the rules of the mesh; the
    methods' own state on every device.
    """
    return _state_shardings(self.state_shapes, self.mesh)

  def read_by_sampling(self, state: step.State) -> step.State:
    """A state, or its shapes, less what no sampling reads."""
    once = self.method.sampler.name == samplers.once().name
    parameter_sets = state.parameter_sets
    if once:
      parameter_sets = {
        k: v for k, v in parameter_sets.items() if k == self.method.behavior
      }
    return state.replace(
      opt_state=(), method_state=(), learners={}, parameter_sets=parameter_sets
    )

  @property
  def sampling_shardings(self) -> step.State:
    """Where each part of `read_by_sampling` is read."""
    read = self.read_by_sampling(self.state_shapes)
    return _state_shardings(read, self.sampling_mesh)

  @property
  def abstract_sampling(self) -> step.State:
    """Shapes and shardings of what sampling reads."""
    read = self.read_by_sampling(self.state_shapes)
    return jax.tree.map(_placed, read, self.sampling_shardings)

  def rollout_shardings(self, rollout: step.Rollouts) -> step.Rollouts:
    """Where each part of a rollout lives in training: prompts are split."""
    prompts = self.config.rollout.prompts

    def place(leaf: Any) -> NamedSharding:
      split = leaf.ndim > 0 and leaf.shape[0] % prompts == 0
      return self.batch_sharding if split else self.replicated

    return jax.tree.map(place, rollout)

  @property
  def abstract_rollout(self) -> step.Rollouts:
    """Shapes of what a step learns from; no sampling is traced."""
    state = self.state_shapes
    samples = self.sampling.samples if self.samples_own else 1
    return rollouts.abstract_rollout(
      self.task,
      self.policy,
      dataclasses.replace(self.sampling, samples=samples),
      self.config.rollout.prompts,
      self.method,
      types.join(state.params, state.frozen),
    )

  @property
  def samples_own(self) -> bool:
    """Whether it learns from its own samples, not from demonstrations."""
    return self.config.kind == "rl"

  @property
  def batch_sharding(self) -> NamedSharding:
    """Prompts over the data axes of the mesh."""
    return sharding.batch_sharding(self.mesh)

  @property
  def sampling_sharding(self) -> NamedSharding:
    """Prompts over the data axes of the sampler's mesh."""
    return sharding.batch_sharding(self.sampling_mesh)

  @property
  def replicated(self) -> NamedSharding:
    return NamedSharding(self.mesh, PartitionSpec())


def _state_shardings(state: step.State, mesh: Mesh) -> step.State:
  replicated = NamedSharding(mesh, PartitionSpec())
  kept = (
    state.method_state,
    {name: held.method_state for name, held in state.learners.items()},
  )
  bare = _with_method_states(state, (), {}).replace(memory=())
  placed = sharding.shardings(bare, mesh)
  everywhere = jax.tree.map(lambda _: replicated, kept)
  memory = jax.tree.map(lambda _: replicated, state.memory)
  return _with_method_states(placed, *everywhere).replace(memory=memory)


def _placed(leaf: Any, place: NamedSharding) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)


def _with_method_states(
  state: step.State, own: types.PyTree, others: Mapping[str, types.PyTree]
) -> step.State:
  """The state with other method states; a learner not named gets ()."""
  return state.replace(
    method_state=own,
    learners={
      name: held.replace(method_state=others.get(name, ()))
      for name, held in state.learners.items()
    },
  )
