"""Masks, and the parts of a rollout that rewards read.

Array functions read their arguments through `zero_outside`, so masked entries
may hold anything. The other functions and constants name parts of a rollout:

  needs      arrays of `rollout.extras` that a reward declares: a pass of the
             policy (`probes.Need`), or an array of the task or the sampler
  functions  `rollout -> array`, with an error if the rollout lacks the part
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import registry, scoring, types
from rl.scoring import Need

Array = jax.Array


# Arrays.


def zero_outside(x: Array, mask: Array) -> Array:
  """Returns `x` where `mask` is True and 0 elsewhere, as float32.

  Call it before any arithmetic. A masked NaN then affects neither the value nor
  the gradient (0 times NaN is NaN, also in the backward pass).

  Args:
    x: array of any shape and dtype.
    mask: bool array, broadcast against `x`.

  Returns:
    float32 array of their common shape.
  """
  return jnp.where(mask, jnp.asarray(x).astype(jnp.float32), 0.0)


def is_right(correct: Array) -> Array:
  """Returns True for verdicts of 1 (right); 0 is wrong and -1 unknown."""
  return jnp.asarray(correct) == 1


# Needs. Their arrays are `rollout.extras[NEED]`.

# Views that hold the reference answer: after each sample's thought [P, S, R],
# and after the prompt alone, once per group [P, 1, R].
REFERENCE, BARE_REFERENCE = "reference", "bare_reference"

# Answer ids of the task, [P, S]; equal answers have equal ids, -1 is no answer.
ANSWERS = scoring.provided("task", "answer_ids")
PARAPHRASE_ANSWERS = scoring.provided("task", "paraphrase_answer_ids")
SHUFFLED_ANSWERS = scoring.provided("task", "shuffled_answer_ids")
# Passes with the parameters at the start of the training step, [P, S, T].
LOG_PROBS = Need("old", scoring.log_probs)
ENTROPY = Need("old", scoring.entropy)
LOG_PROBS_ALONE = Need("old", scoring.log_probs, scoring.ALONE)  # no question
REFERENCE_LOG_PROBS = Need("old", scoring.log_probs, REFERENCE)
BARE_REFERENCE_LOG_PROBS = Need("old", scoring.log_probs, BARE_REFERENCE)
# Chances of success from the sampler `prefix_values`: after each step
# [P, S, K], and after the prompt [P].
STEP_VALUES = scoring.provided("sampler", "values")
PROMPT_VALUES = scoring.provided("sampler", "prompt_values")


def parse_need(text: str) -> Need:
  """Returns the need that "task/NAME" or "sampler/NAME" names.

  Raises:
    ValueError: `text` has another form.
  """
  source, slash, name = text.partition("/")
  if not slash or source not in ("task", "sampler"):
    raise ValueError(
      f"{text!r} must name an array of the task or of the sampler, as "
      "'task/NAME' or 'sampler/NAME'"
    )
  return scoring.provided(source, name)


# Parts of a rollout.


def answered(rollout: types.Rollout) -> Array:
  """Returns True for samples with an answer, `[P, S]`; needs `ANSWERS`."""
  return rollout.extras[ANSWERS] >= 0


def reference_mask(rollout: types.Rollout) -> Array:
  """Tokens of the reference answer in the view `REFERENCE`, `[P, S, R]`."""
  mask = scoring.view_tokens(rollout, REFERENCE).mask
  return mask & rollout.sample_mask[..., None]


def step_scores(rollout: types.Rollout) -> tuple[Array, Array]:
  """Step scores and the mask of steps, `[P, S, K]` each.

  Raises:
    ValueError: the task has no steps.
  """
  if rollout.step_scores is None:
    raise ValueError("this reward reads step scores, which the task lacks")
  return rollout.step_scores, rollout.valid("step")


def step_probabilities(rollout: types.Rollout) -> tuple[Array, Array]:
  """Step scores in [-1, 1] as probabilities, and the mask of steps.

  Raises:
    ValueError: the task has no steps.
  """
  scores, mask = step_scores(rollout)
  return (scores + 1.0) / 2.0, mask


def read_component(rollout: types.Rollout, name: str) -> Array:
  """A component of the task's score, `[P, S]`.

  Raises:
    ValueError: the rollout has no component `name`.
  """
  if name not in rollout.components:
    raise ValueError(
      registry.describe_unknown("component", name, sorted(rollout.components))
    )
  return rollout.components[name]


def score(rollout: types.Rollout, component: str) -> Array:
  """Returns a component [P, S], or the task's score if `component` is ""."""
  return read_component(rollout, component) if component else rollout.scores
