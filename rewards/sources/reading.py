"""What rewards read of a rollout, and what they need of a pass over it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import jax

from rewards import confidence
from rl import choices, scoring, types
from rl.scoring import Need

Array = jax.Array
Reader = Callable[[types.Rollout], Array]

# Views of the reference answer: after each sample's thought, and after the
# prompt alone, once for all of a group [P, 1, R].
REFERENCE, BARE_REFERENCE = "reference", "bare_reference"
divergence = scoring.Probe(
  "divergence_from_uniform",
  lambda logits, tokens: confidence.divergence_from_uniform(logits),
)
hidden = scoring.Probe("hidden", lambda hidden, tokens: hidden, head="hidden")
ANSWERS = scoring.provided("task", "answer_ids")
PARAPHRASE = scoring.provided("task", "paraphrase_answer_ids")
SHUFFLED = scoring.provided("task", "shuffled_answer_ids")
LOG_PROBS = Need("old", scoring.log_probs)
ENTROPY = Need("old", scoring.entropy)
DIVERGENCE = Need("old", divergence)
HIDDEN = Need("old", hidden)
ALONE = Need("old", scoring.log_probs, scoring.ALONE)
OF_REFERENCE = Need("old", scoring.log_probs, REFERENCE)
OF_BARE_REFERENCE = Need("old", scoring.log_probs, BARE_REFERENCE)
VALUES = scoring.provided("stage", "values")
PROMPT_VALUES = scoring.provided("stage", "prompt_values")


def of(need: Need) -> Reader:
  """What was found for a need."""
  return lambda rollout: rollout.extras[need]


def valid(rollout: types.Rollout) -> Array:
  """Samples that count, `[P, S]`."""
  return rollout.sample_mask


def tokens(rollout: types.Rollout) -> Array:
  """Tokens that count, `[P, S, T]`."""
  return rollout.valid("token")


def lengths(rollout: types.Rollout) -> Array:
  """Tokens of each completion, `[P, S]`."""
  return rollout.scored_lengths


def correct(rollout: types.Rollout) -> Array:
  """Verdicts `[P, S]`: 1, 0, or -1 where none is known."""
  return rollout.correct


def keys(rollout: types.Rollout) -> Array:
  """PRNG keys of the prompts, `[P]`."""
  return rollout.keys


def answered(rollout: types.Rollout) -> Array:
  """Where the task reads an answer, `[P, S]`."""
  return rollout.extras[ANSWERS] >= 0


def in_reference(rollout: types.Rollout) -> Array:
  """Tokens of the reference answer after each sample's thought."""
  mask = scoring.view_tokens(rollout, REFERENCE).mask
  return mask & rollout.sample_mask[..., None]


def steps(rollout: types.Rollout) -> tuple[Array, Array]:
  """Step scores and which exist.

  Raises:
    ValueError: the task has no steps.
  """
  if rollout.step_scores is None:
    raise ValueError("this reward reads step scores, which the task lacks")
  return rollout.step_scores, rollout.valid("step")


def step_mask(rollout: types.Rollout) -> Array:
  """Steps that exist, `[P, S, K]`; raises as `steps`."""
  return steps(rollout)[1]


def chances(rollout: types.Rollout) -> Array:
  """Step scores in [-1, 1] as probabilities of a good step."""
  return (steps(rollout)[0] + 1.0) / 2.0


def component(rollout: types.Rollout, name: str) -> Array:
  """A part that the task scores by itself.

  Raises:
    ValueError: there is none of that name.
  """
  if name not in rollout.components:
    raise ValueError(
      choices.unknown("component", name, sorted(rollout.components))
    )
  return rollout.components[name]


def scores(rollout: types.Rollout, of: str) -> Array:
  """A component, or the task's score where none is named."""
  return component(rollout, of) if of else rollout.scores


def need(text: str) -> Need:
  """ "task/x" or "stage/x", as a need.

  Raises:
    ValueError: it is neither.
  """
  source, slash, name = text.partition("/")
  if not slash or source not in ("task", "stage"):
    raise ValueError(
      f"{text!r} must be what a task or a stage says, as 'task/NAME' or "
      "'stage/NAME'"
    )
  return scoring.provided(source, name)


def named(bound: Callable, fn: Callable) -> Callable:
  """`bound` under the name and the docstring of what it binds."""
  bound.__signature__ = inspect.signature(bound)
  bound.__name__, bound.__doc__ = fn.__name__, fn.__doc__
  bound.__wrapped__ = fn
  return bound
