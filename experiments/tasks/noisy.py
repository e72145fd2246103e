"""Noisy: another task whose training rewards are verdicts flipped by chance.

For the study of imperfect verifiers: every sample's flip is drawn alone. The
verdict (`correct`) stays the truth, so accuracy is measured rightly; a method
that reads it, in a filter say, sees through the noise. Held-out problems are
judged without noise. Rates of one half make a reward of coin tosses. A flip is
drawn by prompt and place among the samples judged together, so a second
sampling pass repeats those of the first.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments import tasks
from experiments.cli import spec
from experiments.tasks.task import Judged, Problems, Task

Array = jax.Array


def noisy(
  of: str = "countdown(count=4)",
  false_positive: float = 0.4,
  false_negative: float = 0.4,
) -> Task:
  """The task `of`, whose training verdicts are flipped.

  P(1 | wrong) = false_positive, P(0 | right) = false_negative.

  Args:
    of: a jittable task with its settings.
    false_positive, false_negative: probabilities that a training verdict is
      flipped.

  Returns:
    The task; its score is the flipped verdict, 0 or 1.

  Raises:
    ValueError: a rate is not a probability, or the task runs on the host.
  """
  for name, rate in (
    ("false_positive", false_positive),
    ("false_negative", false_negative),
  ):
    if not 0 <= rate <= 1:
      raise ValueError(f"{name}={rate} must be a probability, in [0, 1]")
  name, settings = spec.parse(of)
  base = tasks.get(name, **settings)
  if not base.jittable:
    raise ValueError(
      f"noisy(of={of!r}): {name} is scored on the host; use a task that is "
      "scored where it is sampled, such as countdown or chain"
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    problems = base.train(key, step, n)
    # Of its own: the same problem twice in a batch is judged twice.
    noise = jax.random.fold_in(jax.random.fold_in(key, step), n)
    return _with_noise(
      problems, jax.random.split(noise, n), false_positive, false_negative
    )

  def test(n: int) -> Problems:
    keys = jax.random.split(jax.random.key(0), n)
    return _with_noise(base.test(n), keys, 0.0, 0.0)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    judged = base.score(problems, completions, lengths, finished)
    keys = jax.random.wrap_key_data(problems.facts["noise"])
    draws = jax.vmap(lambda k: jax.random.uniform(k, lengths.shape[1:]))(keys)
    right = judged.correct == 1
    rates = problems.facts["flip_rates"][..., None]  # [P, 2, 1]
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
      f"noisy(of={base.name}, false_positive={false_positive:g}, "
      f"false_negative={false_negative:g})"
    ),
    train=train,
    test=test,
    score=score,
  )


def _with_noise(
  problems: Problems, keys: Array, false_positive: float, false_negative: float
) -> Problems:
  """Each problem with a key of its own and the rates of its flips."""
  rates = jnp.asarray([false_positive, false_negative], jnp.float32)
  facts = {
    **problems.facts,
    "noise": jax.random.key_data(keys),
    "flip_rates": jnp.broadcast_to(rates, (keys.size, 2)),
  }
  return problems.replace(facts=facts)
