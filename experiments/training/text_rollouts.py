"""Makes rollouts of texts that the policy did not write.

They are demonstrations of a task, one per prompt, in supervised training; or
the lines of a file, with C completions of a prompt each, in shuffled epochs.

Shapes: P prompts, C completions of a prompt, T completion tokens; N lines of a
file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from experiments.tasks.task import Problems, Task
from experiments.training import multihost
from experiments.training.rollouts import HostRolloutFn, RolloutFn
from experiments.training.step_timer import StepTimer
from experiments.training.training_texts import TrainingTexts
from rl import types
from rl.sampling import generation
from rl.sampling.environment import Environment, replay
from rl.training_state import State

Array = jax.Array


def make_demonstration_fn(
  task: Task, prompts: int, sharding: NamedSharding | None = None
) -> RolloutFn:
  """Builds a jittable rollout function of demonstrations, one per prompt."""

  def rollout_fn(state: State) -> types.Rollout:
    problem_key, solution_key = jax.random.split(state.carried.key)
    problems = task.train(problem_key, state.step, prompts)
    demonstrations = task.demonstrate(
      jax.random.fold_in(solution_key, state.step), problems
    )
    if sharding is not None:
      problems, demonstrations = jax.lax.with_sharding_constraint(
        (problems, demonstrations), sharding
      )
    return _assemble_demonstrations(
      task.environment, task.eos_ids, problems, demonstrations, state
    )

  return rollout_fn


def make_host_demonstration_fn(
  task: Task, prompts: int, sharding: NamedSharding
) -> HostRolloutFn:
  """Builds a rollout function of demonstrations that the host computes."""

  def rollout_fn(state: State, timer: StepTimer) -> types.Rollout:
    timer.wait_for(state)
    with timer.measure("time/rollout_s"):
      step = int(state.step)
      problem_key, solution_key = jax.random.split(state.carried.key)
      problems = task.train(problem_key, step, prompts)
      key = jax.random.fold_in(solution_key, step)
      demonstrations = task.demonstrate(key, problems)
      placed = multihost.place((problems, demonstrations), sharding)
      return _assemble_demonstrations(
        task.environment, task.eos_ids, *placed, state
      )

  return rollout_fn


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def _assemble_demonstrations(
  environment: Environment | None,
  end_ids: tuple[int, ...],
  problems: Problems,
  demonstrations: tuple[Array, Array],
  state: State,
) -> types.Rollout:
  """Returns a rollout with one demonstration per prompt."""
  texts = [array[:, None] for array in demonstrations]
  rollout = assemble_texts(problems, *texts, state)
  if environment is None:
    return rollout
  # The expert wrote the tokens of its turns, and not the replies.
  turns = replay(environment, problems.facts, *texts, end_ids).turns
  tokens = rollout.tokens.replace(mask=turns >= 0)
  return rollout.replace(tokens=tokens, turns=turns)


def make_text_fn(
  texts: TrainingTexts,
  prompts: int,
  sharding: NamedSharding,
  extras: Mapping[str, np.ndarray],
) -> HostRolloutFn:
  """Builds a rollout function of the lines of a file, in shuffled epochs.

  Args:
    texts: the lines, with C completions each.
    prompts: P, number of lines of a training step.
    sharding: sharding of the lines over a mesh.
    extras: `{name: [N, C, ...]}`, arrays of all lines for `Rollout.extras`.
  """

  def rollout_fn(state: State, timer: StepTimer) -> types.Rollout:
    timer.wait_for(state)
    with timer.measure("time/rollout_s"):
      problem_key, _ = jax.random.split(state.carried.key)
      rows = texts.rows(problem_key, int(state.step), prompts)
      selected = select_texts(texts, rows)
      selected_extras = {name: values[rows] for name, values in extras.items()}
      *placed, placed_extras = multihost.place(
        (*selected, selected_extras), sharding
      )
      return assemble_texts(*placed, state, placed_extras)

  return rollout_fn


def abstract_text_rollout(
  texts: TrainingTexts, prompts: int, state: State, extras: Iterable[str]
) -> types.Rollout:
  """Returns the shapes of the rollouts of `make_text_fn`.

  Args:
    texts, prompts: same as in `make_text_fn`.
    state: shapes of the training state.
    extras: names of its extras, which are `[P, C, T]` float32.
  """
  selected = select_texts(texts, np.arange(prompts) % len(texts))
  shape = jax.ShapeDtypeStruct(selected[1].shape, jnp.float32)
  return jax.eval_shape(
    assemble_texts, *selected, state, dict.fromkeys(extras, shape)
  )


def select_texts(
  texts: TrainingTexts, rows: np.ndarray
) -> tuple[Problems, np.ndarray, np.ndarray]:
  """Returns problems, completions `[P, C, T]` and lengths `[P, C]` of lines."""
  return texts.problems(rows), texts.completions[rows], texts.lengths[rows]


@functools.partial(jax.jit, inline=True)
def assemble_texts(
  problems: Problems,
  completions: Array,
  lengths: Array,
  state: State,
  extras: Mapping[str, Array] | None = None,
) -> types.Rollout:
  """Assembles prompts and C completions of each to a rollout.

  The first completion of a prompt has the score and the verdict 1, and all
  others have 0.

  Args:
    problems: P problems, of which only prompts and ids are read.
    completions: `[P, C, T]`, EOS included.
    lengths: `[P, C]`, number of tokens of each.
    state: the training state, of which the step and the key are read.
    extras: the extras of the rollout; None for none.
  """
  scores = jnp.zeros(lengths.shape).at[:, 0].set(1.0)  # [P, C]
  everywhere = jnp.ones(lengths.shape, bool)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=completions,
      lengths=lengths,
      mask=jnp.arange(completions.shape[-1]) < lengths[..., None],
    ),
    sample_mask=everywhere,
    behavior_log_probs=jnp.zeros(completions.shape),
    finished=everywhere,
    scores=scores,
    correct=scores.astype(jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=generation.prompt_keys(state.carried.key, state.step, problems.ids),
    step=state.step,
    extras=types.Named(dict(extras or {})),
  )
