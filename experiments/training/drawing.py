"""Draws completions of problems, scores them, and assembles them to a rollout.

Every part of the project that samples does it with this file: training and
evaluation, the commands `sample` and `prm`, and a judge that is a policy.

Shapes: P problems, S samples per problem, L prompt tokens, T completion tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from experiments.tasks.task import Judged, Problems, Task
from experiments.training import multihost, step_timer
from rl import bit_sets, types
from rl.sampling import generation, random_keys
from rl.sampling.environment import Environment

Array = jax.Array
# A program of its own; part of the program of a function that is compiled.
generate = jax.jit(
  generation.generate,
  static_argnames=("policy", "sampling", "first", "environment"),
  inline=True,
)
prompt_keys = jax.jit(generation.prompt_keys, inline=True)


@dataclasses.dataclass(frozen=True)
class Batch:
  """P problems, of which completions can be drawn and scored.

  Attributes:
    task: the task of the problems.
    policy: the functions of the policy, which take all parameters.
    problems: the problems, on the devices.
    host_problems: the same problems as numpy arrays, which a task that is not
      jittable reads; None for a jittable task.
    sharding: sharding of the problem axis; None if one device has all problems.
    frozen: the parameters of the policy that no learner trains.
    timer: measures the time of the host's scores; None measures nothing.
  """

  task: Task
  policy: types.Policy
  problems: Problems
  host_problems: Problems | None = None
  sharding: jax.sharding.Sharding | None = None
  frozen: types.PyTree = dataclasses.field(default_factory=dict)
  timer: step_timer.StepTimer | None = None

  def draw(
    self,
    params: types.PyTree,
    keys: Array,
    sampling: generation.Sampling,
    first: int = 0,
    active: Array | None = None,
  ) -> tuple[generation.Samples, Judged]:
    """Draws S completions of every problem, and scores them.

    Args:
      params: parameters of the policy, without the frozen ones.
      keys: `[P]` PRNG keys, one per problem.
      sampling, first, active: same as in `rl.sampling.generation.generate`.
    """
    problems = self.problems
    samples = self.generate(
      params,
      problems.prompts,
      problems.prompt_mask,
      keys,
      sampling,
      first,
      active,
      self.task.environment,
      problems.facts if self.task.environment else (),
    )
    return samples, self.score(
      samples.completions, samples.lengths, samples.finished
    )

  def generate(
    self,
    params: types.PyTree,
    prompts: Array,
    prompt_mask: Array,
    keys: Array,
    sampling: generation.Sampling,
    first: int = 0,
    active: Array | None = None,
    environment: Environment | None = None,
    facts: types.PyTree = (),
  ) -> generation.Samples:
    """Draws completions of any prompts.

    The arguments are those of `rl.sampling.generation.generate`, and the
    parameters without the frozen ones.
    """
    params = types.join(params, self.frozen)
    return generate(
      self.policy,
      params,
      prompts,
      prompt_mask,
      keys,
      sampling,
      first,
      active,
      environment,
      facts,
    )

  def score(
    self, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    """Scores completions of the problems, on the hosts or on the devices.

    Args:
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, number of tokens of each.
      finished: `[P, S]` bool, whether an end token ends the completion.

    Returns:
      The scores, on the devices.
    """
    samples = completions, lengths, finished
    if self.task.jittable:
      return _score(self.task.score, self.problems, *samples)
    timer = self.timer or step_timer.StepTimer()
    jax.block_until_ready(samples)
    with timer.measure("time/score_s"):
      if self.sharding is None:
        judged = self.task.score(self.host_problems, *jax.device_get(samples))
      else:
        judged = multihost.score_on_hosts(
          self.task.score, self.host_problems, samples, self.sharding
        )
    return multihost.place(judged, self.sharding)


def place(
  task: Task,
  policy: types.Policy,
  problems: Problems,
  sharding: jax.sharding.Sharding | None = None,
  frozen: types.PyTree | None = None,
  timer: step_timer.StepTimer | None = None,
) -> Batch:
  """Returns a batch of problems that are numpy arrays.

  Args:
    task, policy, sharding, frozen, timer: same as in `Batch`.
    problems: the problems, the same in every process.
  """
  return Batch(
    task=task,
    policy=policy,
    problems=multihost.place(problems, sharding),
    host_problems=problems,
    sharding=sharding,
    frozen=frozen or {},
    timer=timer,
  )


@functools.partial(jax.jit, static_argnames="score", inline=True)
def _score(
  score: Callable[..., Judged],
  problems: Problems,
  completions: Array,
  lengths: Array,
  finished: Array,
) -> Judged:
  return score(problems, completions, lengths, finished)


@dataclasses.dataclass(frozen=True)
class AbstractBatch(Batch):
  """A batch whose samples are zeros, to trace a sampler without the decoder.

  Attributes:
    vocab_size: V, of which the support of truncated samples is a subset.
  """

  vocab_size: int = 0

  def generate(
    self,
    params,
    prompts,
    prompt_mask,
    keys,
    sampling,
    first=0,
    active=None,
    environment=None,
    facts=(),
  ) -> generation.Samples:
    del params, prompt_mask, keys, first, active, facts
    shape = len(prompts), sampling.samples, sampling.max_tokens
    support = None
    if sampling.gives_support:
      words = bit_sets.num_words(self.vocab_size)
      support = jnp.zeros((*shape, words), jnp.uint32)
    return generation.Samples(
      completions=jnp.zeros(shape, jnp.int32),
      lengths=jnp.zeros(shape[:2], jnp.int32),
      log_probs=jnp.zeros(shape),
      finished=jnp.zeros(shape[:2], bool),
      support=support,
      turns=None if environment is None else jnp.zeros(shape, jnp.int32),
    )

  def score(
    self, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    spec = self.task.judged_shapes(*completions.shape)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), spec)


# Inlined in the program of `rollouts.make_rollout_fn`; a program of its own in
# `rollouts.make_host_rollout_fn`.
@functools.partial(jax.jit, inline=True)
def assemble(
  problems: Problems,
  samples: generation.Samples,
  judged: Judged,
  keys: Array,
  step: Array,
) -> types.Rollout:
  """Assembles problems, samples and their scores to one rollout.

  Args:
    problems: P problems.
    samples: S completions of each problem.
    judged: the task's scores and verdicts of the completions.
    keys: `[P]`, the PRNG keys that the samples were drawn with.
    step: `[]` training step.
  """
  positions = jnp.arange(samples.completions.shape[-1])  # [T]
  turns = samples.turns
  extras = {"answer_ids": judged.answer_ids, **judged.extras}
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=samples.completions,
      lengths=samples.lengths,
      mask=(
        positions < samples.lengths[..., None] if turns is None else turns >= 0
      ),
      support=samples.support,
    ),
    sample_mask=(
      jnp.ones(samples.lengths.shape, bool)
      if judged.scored is None
      else jnp.asarray(judged.scored)
    ),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished,
    scores=jnp.asarray(judged.scores, jnp.float32),
    correct=jnp.asarray(judged.correct, jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=jax.vmap(jax.random.fold_in, (0, None))(
      keys, random_keys.NOT_A_SAMPLE
    ),
    step=step,
    components={k: jnp.asarray(v) for k, v in judged.components.items()},
    step_ids=judged.step_ids,
    step_scores=judged.step_scores,
    step_mask=judged.step_mask,
    turns=turns,
    views=judged.views,
    extras=types.Named(
      {f"task/{name}": jnp.asarray(value) for name, value in extras.items()}
    ),
  ).checked()
