"""Shapes of a rollout, before anything is sampled."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import Task
from experiments.training import assemble
from rl import types
from rl.method import Method
from rl.sampling import generation, samplers
from rl.sampling.samplers import Sampler
from rl.step import Rollouts


def _nothing(shape: tuple[int, int, int], pad_id: int) -> generation.Samples:
  """Samples `[P, S, T]` of the right shapes."""
  return generation.Samples(
    completions=np.full(shape, pad_id, np.int32),
    lengths=np.ones(shape[:2], np.int32),
    log_probs=np.zeros(shape, np.float32),
    finished=np.ones(shape[:2], bool),
  )


def abstract_rollout(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  method: Method | None = None,
  params: types.PyTree = None,
) -> Rollouts:
  """Shapes of a rollout of this task, for checks; no sampling is traced.

  Args:
    task, policy, sampling, prompts, method: as of `on_device`.
    params: abstract parameters of the policy, for stages that read them.
  """

  def drawn(count):
    return _nothing((prompts, count, sampling.max_tokens), task.pad_id)

  def ask(key):
    return task.train(key, 0, prompts)

  def draw(params, count, first=0, active=None, temperature=None):
    del params, first, active, temperature
    return drawn(count)

  key = jax.random.key(0)
  host_problems = None if task.jittable else ask(key)

  def sample(key, params):
    problems = ask(key) if task.jittable else host_problems
    keys = generation.prompt_keys(key, 0, jnp.asarray(problems.ids))
    step = jnp.zeros((), jnp.int32)

    def judge(samples):
      fake = drawn(samples.lengths.shape[1])
      judged = task.score(
        problems, fake.completions, fake.lengths, fake.finished
      )
      shown = jax.tree.map(jnp.asarray, fake)
      return assemble.to_rollout(problems, shown, judged, keys, step)

    def extend(params, rollout, kept, count, active=None):
      del params, active
      prefixes = assemble.prefixes(rollout, kept, keys)
      shape = len(prefixes[0]), count, sampling.max_tokens
      fake = _nothing(shape, task.pad_id)
      whole = np.shape(kept)[0], np.shape(kept)[1] * count, sampling.max_tokens
      whole = _nothing(whole, task.pad_id)
      judged = task.score(
        problems, whole.completions, whole.lengths, whole.finished
      )
      return assemble.extension(rollout, prefixes, kept, fake, judged)

    slots = {} if method is None else {name: params for name, _ in method.slots}
    sampler = Sampler(
      policy,
      params,
      slots,
      sampling.samples,
      sampling.temperature,
      draw,
      judge,
      extend,
    )
    stage = samplers.once() if method is None else method.stage
    return stage.run(sampler, stage.init())

  return jax.eval_shape(sample, key, params)
