"""Noisy: another task whose training scores are randomly flipped verdicts.

The task is for experiments with imperfect verifiers. With the default rates of
0.4 a right completion scores 1 with probability 0.6, and a wrong completion
scores 1 with probability 0.4. With rates of 0.5 the score does not depend on
the completion. The flips of different samples are independent.

The verdict `correct` is not flipped, so metrics of accuracy are exact. A method
that reads the verdict, in a filter for example, is not affected by the noise.
Scores of held-out problems are not flipped. A flip depends on the problem and
on the position of the sample among those that are scored in one call. If a
sampler draws the samples of a problem in two calls, sample i of the second call
has the flip of sample i of the first.

Shapes: P problems, S samples per problem.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments import tasks
from experiments.cli import spec
from experiments.tasks.task import Judged, Problems, Task
from rl import UsageError

Array = jax.Array


def noisy(
  task: str = "countdown(count=4)",
  false_positive: float = 0.4,
  false_negative: float = 0.4,
) -> Task:
  """Builds a task whose training scores are verdicts, 0 or 1, that may flip.

  Args:
    task: name and settings of the other task, which must be jittable. Its own
      scores are replaced.
    false_positive: probability that a completion that is not right scores 1.
    false_negative: probability that a right completion scores 0.

  Raises:
    UsageError: if a rate is not a probability, or the task is not jittable.
  """
  for name, rate in (
    ("false_positive", false_positive),
    ("false_negative", false_negative),
  ):
    if not 0 <= rate <= 1:
      raise UsageError(f"{name}={rate} must be a probability, 0 to 1")
  name, settings = spec.parse(task)
  base = tasks.get(name, **settings)
  if not base.jittable:
    raise UsageError(
      f"noisy(task={task!r}): {name} is scored on the host; use a task that is "
      "scored on the device, such as countdown or chain"
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    problems = base.train(key, step, n)
    # A key per position in the batch, not per problem id: a problem that is in
    # the batch twice has two independent sets of flips.
    noise_key = jax.random.fold_in(jax.random.fold_in(key, step), n)
    keys = jax.random.split(noise_key, n)
    return _with_noise(problems, keys, false_positive, false_negative)

  def test(n: int) -> Problems:
    keys = jax.random.split(jax.random.key(0), n)
    return _with_noise(base.test(n), keys, 0.0, 0.0)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    # The other task sees its facts alone, since it may read all of them.
    facts = dict(problems.facts)
    noise, flip_rates = facts.pop("noise"), facts.pop("flip_rates")
    judged = base.score(
      problems.replace(facts=facts), completions, lengths, finished
    )
    keys = jax.random.wrap_key_data(noise)  # [P]
    shape = lengths.shape[1:]  # (S,)
    draws = jax.vmap(lambda key: jax.random.uniform(key, shape))(keys)  # [P, S]
    right = judged.correct == 1
    # [P, 2, 1]: the rates of wrong and of right completions.
    rates = flip_rates[..., None]
    flipped = draws < jnp.where(right, rates[:, 1], rates[:, 0])
    return judged.replace(
      scores=(right ^ flipped).astype(jnp.float32),
      components={
        **judged.components,
        "flipped": flipped.astype(jnp.float32),
      },
    )

  return dataclasses.replace(
    base,
    name=(
      f"noisy(task={base.name}, false_positive={false_positive:g}, "
      f"false_negative={false_negative:g})"
    ),
    train=train,
    test=test,
    score=score,
  )


def _with_noise(
  problems: Problems, keys: Array, false_positive: float, false_negative: float
) -> Problems:
  """Adds a random key and the two flip rates to each of P problems."""
  rates = jnp.asarray([false_positive, false_negative], jnp.float32)
  facts = {
    **problems.facts,
    "noise": jax.random.key_data(keys),  # [P, 2] uint32
    "flip_rates": jnp.broadcast_to(rates, (keys.size, 2)),
  }
  return problems.replace(facts=facts)
