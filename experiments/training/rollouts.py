"""Makes the rollout that a training step learns from.

`sample_rollout` makes a rollout in three phases:

  sample     draws completions of the prompts           rl.sampling.generation
  score      scores every completion by the task        experiments.tasks
  assemble   puts prompts, completions and scores into  `drawing.assemble`
             one `rl.types.Rollout`

`make_rollout_fn` runs the phases inside one compiled program;
`make_host_rollout_fn` computes the score on the host; `abstract_rollout` runs
the phases on shapes. Rollouts of texts that the policy did not write are made
by `text_rollouts`.

Problems and random numbers are pure functions of the state's key and step, so
that the rollout of a step can be made again, after a restart or for debugging.

Shapes: P prompts, S samples per prompt, T completion tokens, L prompt tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from experiments.tasks.task import Judged, Task
from experiments.training import drawing, extensions
from experiments.training.step_timer import StepTimer
from rl import learners, types
from rl.method import Method
from rl.sampling import generation, samplers
from rl.step import Rollouts
from rl.training_state import State

Array = jax.Array
RolloutFn = Callable[[State], Rollouts]  # pure and jittable
# The timer gets the durations of the phases that the host waits for.
HostRolloutFn = Callable[[State, StepTimer], Rollouts]


def sample_rollout(
  batch: drawing.Batch,
  *,
  sampler: samplers.Sampler,
  memory: Any,
  params: types.PyTree,
  parameter_sets: Mapping[str, types.PyTree],
  sampling: generation.Sampling,
  keys: Array,
  step: Array,
) -> Rollouts:
  """Samples, scores and assembles a rollout, as a sampler directs.

  Args:
    batch: the P problems, with the functions that draw and score.
    sampler: decides how many completions are drawn, and from which parameters.
    memory: state that the sampler keeps from its previous rollout.
    params: parameters of the behavior policy, from which completions are
      sampled.
    parameter_sets: further parameters, by name ("ref", "ema").
    sampling: settings of sampling; `samples` is S.
    keys: `[P]` PRNG keys, one per problem.
    step: `[]` training step.
  """

  def assemble_batch(samples: generation.Samples, judged: Judged):
    return drawing.assemble(batch.problems, samples, judged, keys, step)

  # The functions `sample`, `extend` and `branch` of `samplers.PromptBatch`.
  def sample(params, count, first=0, active=None, temperature=None):
    settings = _with_samples(sampling, count, temperature)
    return assemble_batch(*batch.draw(params, keys, settings, first, active))

  def branch(*arguments):
    return assemble_batch(*extensions.branch(batch, keys, sampling, *arguments))

  prompt_batch = samplers.PromptBatch(
    policy=batch.policy.with_frozen(batch.frozen),
    params=params,
    parameter_sets=parameter_sets,
    samples=sampling.samples,
    temperature=sampling.temperature,
    sample=sample,
    extend=functools.partial(extensions.extend, batch, keys, sampling),
    branch=branch,
    answer_cue=batch.task.answer_cue,
  )
  return sampler.run(prompt_batch, memory)


def make_rollout_fn(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding | None = None,
  method: Method | None = None,
) -> RolloutFn:
  """Builds a jittable rollout function, for a task whose score is jittable.

  Args:
    task: draws the problems and scores completions.
    policy: the model.
    sampling: settings of sampling.
    prompts: P.
    sharding: sharding of the prompts over a mesh; None leaves them where they
      are.
    method: method whose sampler and behavior policy are used. None draws all
      samples at once from the trained policy.
  """

  def rollout_fn(state: State) -> Rollouts:
    problem_key, sample_key = jax.random.split(state.carried.key)
    problems = task.train(problem_key, state.step, prompts)
    if sharding is not None:
      problems = jax.lax.with_sharding_constraint(problems, sharding)
    return sample_rollout(
      drawing.Batch(task, policy, problems, frozen=state.carried.frozen),
      **_behavior(method, state),
      sampling=sampling,
      keys=generation.prompt_keys(sample_key, state.step, problems.ids),
      step=state.step,
    )

  return rollout_fn


def make_host_rollout_fn(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding,
  method: Method | None = None,
) -> HostRolloutFn:
  """Builds a rollout function whose score is computed on the host.

  Sampling is a compiled program. The arguments are those of `make_rollout_fn`.
  """

  def rollout_fn(state: State, timer: StepTimer) -> Rollouts:
    timer.wait_for(state)
    with timer.measure("time/rollout_s"):
      problem_key, sample_key = jax.random.split(state.carried.key)
      batch = drawing.place(
        task,
        policy,
        task.train(problem_key, int(state.step), prompts),
        sharding,
        frozen=state.carried.frozen,
        timer=timer,
      )
      return sample_rollout(
        batch,
        **_behavior(method, state),
        sampling=sampling,
        keys=drawing.prompt_keys(sample_key, state.step, batch.problems.ids),
        step=state.step,
      )

  return rollout_fn


def abstract_rollout(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  method: Method | None,
  params: types.PyTree,
  vocab_size: int,
) -> Rollouts:
  """Returns the shapes of a rollout of a task, without tracing the decoder.

  Args:
    task, policy, sampling, prompts, method: same as in `make_rollout_fn`.
    params: shapes of the policy's parameters, for samplers that read them.
    vocab_size: V, of which the support of truncated samples is a subset.
  """
  key = jax.random.key(0)
  host_problems = None if task.jittable else task.train(key, 0, prompts)

  def rollout_fn(key, params):
    problems = task.train(key, 0, prompts) if task.jittable else host_problems
    sampler = samplers.once() if method is None else method.sampler
    sets = () if method is None else method.parameter_sets
    return sample_rollout(
      drawing.AbstractBatch(task, policy, problems, vocab_size=vocab_size),
      sampler=sampler,
      memory=sampler.init(),
      params=params,
      parameter_sets={name: params for name, _ in sets},
      sampling=sampling,
      keys=generation.prompt_keys(key, 0, jnp.asarray(problems.ids)),
      step=jnp.zeros((), jnp.int32),
    )

  return jax.eval_shape(rollout_fn, key, params)


def _behavior(method: Method | None, state: State) -> dict[str, Any]:
  """Returns those arguments of `sample_rollout` that depend on the method."""
  if method is None:
    sampler, memory, params = samplers.once(), (), state.params
  else:
    sampler, memory = method.sampler, state.carried.memory
    params = state.parameters[method.behavior]
  further = {n: p for n, p in state.parameters.items() if n != learners.POLICY}
  return {
    "sampler": sampler,
    "memory": memory,  # memory of the sampler
    "params": params,  # parameters of the behavior policy
    "parameter_sets": further,  # all other parameters of the state, by name
  }


def _with_samples(
  sampling: generation.Sampling, count: int, temperature: float | None = None
) -> generation.Sampling:
  """Returns settings with another number of samples, and a temperature."""
  if temperature is None:
    return dataclasses.replace(sampling, samples=count)
  # With a temperature, top-k, top-p and min-p are turned off.
  return dataclasses.replace(
    sampling,
    samples=count,
    temperature=temperature,
    top_k=0,
    top_p=1.0,
    min_p=0,
  )
