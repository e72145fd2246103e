"""From a training state to the rollout it learns from.

Prompts and randomness are pure functions of the state's key and step, so the
same rollout can be made again: after a restart, or to look at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from experiments.tasks.task import Judged, Problems, Task, supervised_tokens
from rl import rollout as rollouts
from rl import types
from rl.step import State

Array = jax.Array
# Pure and jittable; or host code around programs, which says what took long.
Collect = Callable[[State], types.Rollout]
Staged = Callable[[State], tuple[types.Rollout, dict[str, float]]]
# Folded into a prompt's key for what is not sampling (bootstrap subsets):
# sample indices never get this far.
_NOT_A_SAMPLE = 2**31 - 1


def to_rollout(
  problems: Problems,
  samples: rollouts.Samples,
  judged: Judged,
  keys: Array,
  step: Array,
) -> types.Rollout:
  """What was asked, drawn and judged, as one rollout.

  Args:
    problems: P of them.
    samples: S completions of each.
    judged: what the task says of them.
    keys: `[P]`, those that the samples were drawn with.
    step: `[]` training step.
  """
  positions = jnp.arange(samples.completions.shape[-1])
  mask = positions < samples.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=samples.completions,
      lengths=samples.lengths,
      mask=mask,
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
    keys=jax.vmap(jax.random.fold_in, (0, None))(keys, _NOT_A_SAMPLE),
    step=step,
    components={k: jnp.asarray(v) for k, v in judged.components.items()},
    step_ids=judged.step_ids,
    step_scores=judged.step_scores,
    step_mask=judged.step_mask,
  )


def _keys(state: State) -> tuple[Array, Array]:
  """One key for the problems, one for the samples."""
  problems, samples = jax.random.split(state.key)
  return problems, samples


def on_device(
  task: Task,
  policy: types.Policy,
  sampling: rollouts.Sampling,
  prompts: int,
  sharding: NamedSharding | None = None,
) -> Collect:
  """Sampling and a jittable reward, as one pure function of the state.

  `sharding` splits the prompts over a mesh; None leaves them where they are.
  """

  def collect(state: State) -> types.Rollout:
    problem_key, sample_key = _keys(state)
    problems = task.train(problem_key, state.step, prompts)
    if sharding is not None:
      problems = jax.lax.with_sharding_constraint(problems, sharding)
    keys = rollouts.prompt_keys(sample_key, state.step, problems.ids)
    samples = rollouts.generate(
      policy,
      state.params,
      problems.prompts,
      problems.prompt_mask,
      keys,
      sampling,
    )
    judged = task.score(
      problems, samples.completions, samples.lengths, samples.finished
    )
    return to_rollout(problems, samples, judged, keys, state.step)

  return collect


def on_host(
  task: Task,
  policy: types.Policy,
  sampling: rollouts.Sampling,
  prompts: int,
  sharding: NamedSharding,
) -> Staged:
  """Sampling as one program, then a reward that runs on the host."""

  @jax.jit
  def draw(params, prompts, prompt_mask, ids, key, step):
    keys = rollouts.prompt_keys(key, step, ids)
    samples = rollouts.generate(
      policy, params, prompts, prompt_mask, keys, sampling
    )
    return samples, keys

  assemble = jax.jit(to_rollout)

  def collect(state: State):
    called = time.perf_counter()
    jax.block_until_ready(state)
    start = time.perf_counter()
    problem_key, sample_key = _keys(state)
    host_problems = task.train(problem_key, int(state.step), prompts)
    problems = jax.device_put(host_problems, sharding)
    samples, keys = draw(
      state.params,
      problems.prompts,
      problems.prompt_mask,
      problems.ids,
      sample_key,
      state.step,
    )
    drawn = jax.device_get(samples)
    sampled = time.perf_counter()
    judged = task.score(
      host_problems, drawn.completions, drawn.lengths, drawn.finished
    )
    scored = time.perf_counter()
    judged = jax.device_put(judged, sharding)
    rollout = assemble(problems, samples, judged, keys, state.step)
    times = {
      "time/update_s": start - called,  # what was left of the last one
      "time/rollout_s": sampled - start,
      "time/score_s": scored - sampled,
    }
    return rollout, times

  return collect


def shown_on_device(
  task: Task, prompts: int, sharding: NamedSharding | None = None
) -> Collect:
  """A jittable task's own solutions in place of samples, one per prompt."""

  def collect(state: State) -> types.Rollout:
    problem_key, solution_key = _keys(state)
    problems = task.train(problem_key, state.step, prompts)
    shown = task.demonstrate(
      jax.random.fold_in(solution_key, state.step), problems
    )
    if sharding is not None:
      problems, shown = jax.lax.with_sharding_constraint(
        (problems, shown), sharding
      )
    return supervised_rollout(problems, shown, state)

  return collect


def shown_on_host(task: Task, prompts: int, sharding: NamedSharding) -> Staged:
  """A host task's own solutions in place of samples, one per prompt."""
  assemble = jax.jit(supervised_rollout)

  def collect(state: State):
    start = time.perf_counter()
    problem_key, solution_key = _keys(state)
    problems = task.train(problem_key, int(state.step), prompts)
    key = jax.random.fold_in(solution_key, int(state.step))
    shown = task.demonstrate(key, problems)
    placed = jax.device_put((problems, shown), sharding)
    rollout = assemble(*placed, state)
    return rollout, {"time/rollout_s": time.perf_counter() - start}

  return collect


def supervised_rollout(
  problems: Problems, shown: tuple[Array, Array], state: State
) -> types.Rollout:
  """Demonstrations as a rollout of one sample per prompt, scored 1."""
  completions, lengths = shown
  one = jnp.ones((completions.shape[0], 1))
  tokens = supervised_tokens(problems, completions, lengths)
  return types.Rollout(
    tokens=tokens,
    sample_mask=one > 0,
    behavior_log_probs=jnp.zeros(tokens.completions.shape),
    finished=one > 0,
    scores=one,
    correct=one.astype(jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=rollouts.prompt_keys(state.key, state.step, problems.ids),
    step=state.step,
  )


def abstract_rollout(
  task: Task, prompts: int, samples: int, max_tokens: int
) -> types.Rollout:
  """Shapes of a rollout of this task, for checks; no sampling is traced."""
  drawn = rollouts.Samples(
    completions=np.full((prompts, samples, max_tokens), task.pad_id, np.int32),
    lengths=np.ones((prompts, samples), np.int32),
    log_probs=np.zeros((prompts, samples, max_tokens), np.float32),
    finished=np.ones((prompts, samples), bool),
  )

  def ask(key):
    problems = task.train(key, 0, prompts)
    return problems, task.score(
      problems, drawn.completions, drawn.lengths, drawn.finished
    )

  def assemble(problems, judged, key):
    keys = rollouts.prompt_keys(key, 0, problems.ids)
    step = jnp.zeros((), jnp.int32)
    return to_rollout(problems, drawn, judged, keys, step)

  key = jax.random.key(0)
  asked = jax.eval_shape(ask, key) if task.jittable else ask(key)
  return jax.eval_shape(assemble, *asked, key)
