"""The record of everything that `build.build` makes from a config."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import ml_collections
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments import tasks
from experiments.training import (
  reward_models,
  rollouts,
  text_rollouts,
  training_texts,
)
from models import lora, policy, repeated_heads, sharding, transformer
from models.config import ModelConfig
from rl import learners, scoring, step, training_state, types
from rl.method import Method
from rl.sampling import generation
from rl.update_plan import Plan

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
    folder: folder with the weights and the tokenizer that `config.policy.path`
      means; "" for a policy that is not read from a folder.
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
  folder: str = ""

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
  def head_repeats(self) -> int:
    """Copies of each key and value head for the axis "tensor" that samples.

    It is 1 on the mesh of training.

    Raises:
      UsageError: the axis cannot split the heads.
    """
    if self.sampling_mesh == self.mesh:
      return 1
    tensor = self.sampling_mesh.shape["tensor"]
    return repeated_heads.repeats(self.model, tensor)

  @property
  def sampling_model(self) -> ModelConfig:
    """Shape of the decoder that samples: `model` with repeated heads."""
    return repeated_heads.repeat_config(self.model, self.head_repeats)

  @property
  def sampling_policy(self) -> types.Policy:
    """The functions of `sampling_model`."""
    if self.head_repeats == 1:
      return self.policy
    return policy.bind(self.sampling_model)

  def on_mesh(self, mesh: Mesh) -> Experiment:
    """Returns the same experiment, which trains and samples on another mesh."""
    return dataclasses.replace(self, mesh=mesh, sampling_mesh=mesh)

  @functools.cached_property
  def state_shapes(self) -> training_state.State:
    """Shapes of the training state, without shardings."""

    def init(key: jax.Array) -> training_state.State:
      params = transformer.init(self.model, key)
      trained, frozen = lora.split(self.model, params)
      state = training_state.init(self.methods, trained, self.txs, key, frozen)
      zeros = {
        name: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), m.shapes)
        for name, m in self.reward_models.items()
      }
      return reward_models.add_to_state(self.reward_models, state, zeros)

    return jax.eval_shape(init, jax.random.key(0))

  @functools.cached_property
  def abstract_rollout(self) -> step.Rollouts:
    """Shapes of the rollout of one step, computed without the decoder.

    Raises:
      UsageError: there are reward models, but the task has no steps.
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
    return sharding.with_shardings(rollout, self.rollout_shardings(rollout))

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
