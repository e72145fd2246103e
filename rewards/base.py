"""Masks, and the parts of a rollout that rewards read.

Array functions read their arguments through `zero_outside`, so entries where
the mask is False may hold anything. The rest of this file is for reading a
rollout of P prompts, S samples per prompt, T tokens and K reasoning steps:

  needs      constants that name an array of `rollout.extras`. A reward declares
             them (`rl.scoring.Need`); they are filled in by a forward pass, by
             the task or by the sampler.
  functions  `rollout -> array`, with an error if the rollout lacks the array
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, registry, scoring, types
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


# Needs. The array of a need is `rollout.extras[NEED]`.

# Names of views (other texts that the policy can score) that hold the R tokens
# of the reference answer: `REFERENCE` after each sample's thought, [P, S, R],
# `BARE_REFERENCE` after the prompt without a thought, [P, 1, R], and
# `STEP_REFERENCES` after each of the first M steps of each sample, [P, S M, R].
REFERENCE, BARE_REFERENCE = "reference", "bare_reference"
STEP_REFERENCES = "step_references"
# Name of the view with each thought and each of J answers, after the options in
# a new order, [P, S J, R].
SHUFFLED_OPTIONS = "shuffled_options"

# Ids of the answers, [P, S]. Equal answers have equal ids; -1 is no answer.
ANSWERS = scoring.provided("task", "answer_ids")
# Ids of answers to another wording of the question, [P, S].
PARAPHRASE_ANSWERS = scoring.provided("task", "paraphrase_answer_ids")
# The first position of the option at each position of a new order, [P, J].
OPTION_ORDERS = scoring.provided("task", "option_orders")
# Forward passes with "old", the parameters at the start of the training step.
LOG_PROBS = Need("old", scoring.log_probs)  # [P, S, T]
ENTROPY = Need("old", scoring.entropy)  # [P, S, T]
# [P, S, T], of the completions without the question.
LOG_PROBS_ALONE = Need("old", scoring.log_probs, scoring.ALONE)
REFERENCE_LOG_PROBS = Need("old", scoring.log_probs, REFERENCE)  # [P, S, R]
# [P, 1, R]
BARE_REFERENCE_LOG_PROBS = Need("old", scoring.log_probs, BARE_REFERENCE)
# [P, S M, R]
STEP_REFERENCE_LOG_PROBS = Need("old", scoring.log_probs, STEP_REFERENCES)
OPTION_LOG_PROBS = Need("old", scoring.log_probs, SHUFFLED_OPTIONS)
# Chances of success, estimated by the sampler `prefix_values`: after each step
# [P, S, K], and after the prompt [P].
STEP_VALUES = scoring.provided("sampler", "values")
PROMPT_VALUES = scoring.provided("sampler", "prompt_values")


def model_scores(name: str) -> Need:
  """Returns the need for the step scores of a model, `[P, S, K]`.

  Args:
    name: name of a fitted process reward model, a key of `config.models`.
  """
  return scoring.provided("model", name)


def parse_need(text: str) -> Need:
  """Returns the need with the name "task/NAME" or "sampler/NAME".

  Raises:
    UsageError: `text` has another form.
  """
  source, slash, name = text.partition("/")
  if not slash or source not in ("task", "sampler"):
    raise UsageError(
      f"{text!r} must name an array of the task or of the sampler, as "
      "'task/NAME' or 'sampler/NAME'"
    )
  return scoring.provided(source, name)


# Parts of a rollout.


def policy_text(rollout: types.Rollout) -> tuple[Array, Array]:
  """Returns the text that the policy wrote, without that of other authors.

  Tokens that are not scored, such as those of a tool between two turns, are -1,
  so that a phrase or an n-gram neither has them nor reaches over them.

  Returns:
    Token ids `[P, S, T]`, and their numbers `[P, S]`, in which the tokens that
    are -1 count.
  """
  ids = jnp.where(rollout.mask, rollout.completions, -1)
  return ids, rollout.tokens.lengths


def answered(rollout: types.Rollout) -> Array:
  """Returns the mask of samples with an answer, `[P, S]`; reads `ANSWERS`."""
  return rollout.extras[ANSWERS] >= 0


def reference_mask(rollout: types.Rollout) -> Array:
  """Returns the mask of the reference's tokens in `REFERENCE`, `[P, S, R]`."""
  mask = scoring.view_tokens(rollout, REFERENCE).mask
  return mask & rollout.sample_mask[..., None]


def step_scores(rollout: types.Rollout) -> tuple[Array, Array]:
  """Returns the step scores and the mask of steps, `[P, S, K]` each.

  Raises:
    UsageError: the task has no steps.
  """
  if rollout.step_scores is None:
    raise UsageError(
      "this reward reads `rollout.step_scores`, which the task does not provide"
    )
  return rollout.step_scores, rollout.valid("step")


def step_probabilities(rollout: types.Rollout) -> tuple[Array, Array]:
  """Returns step probabilities and the mask of steps, `[P, S, K]` each.

  The step scores are expected to lie in [-1, 1] and are mapped to [0, 1].

  Raises:
    UsageError: the task has no steps.
  """
  scores, mask = step_scores(rollout)
  return (scores + 1.0) / 2.0, mask


def read_component(rollout: types.Rollout, name: str) -> Array:
  """Returns a component (named part) of the score, `[P, S]`.

  Raises:
    UsageError: the rollout has no component `name`.
  """
  if name not in rollout.components:
    raise UsageError(
      registry.describe_unknown("component", name, sorted(rollout.components))
    )
  return rollout.components[name]


def score(rollout: types.Rollout, component: str) -> Array:
  """Returns a component, or the score if `component` is "", `[P, S]`."""
  return read_component(rollout, component) if component else rollout.scores
