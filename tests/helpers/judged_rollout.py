"""Settings with which every reward can be applied to the chained task."""

import jax.numpy as jnp

import rewards
from experiments.training import build
from helpers import small_run
from rewards import base

CHAIN = "chain(operations=2, reference=True)"
P, S = 8, 4
# What is told of a sample by a judge that the chained task does not have.
JUDGED = ("thoughts", "style", "forecast", "stated")
PHRASES = (((4,),), ((5,), (6, 7)))  # of token ids
SETTINGS = {
  "all_conditions": {"conditions": ("thoughts", "style")},
  "arctan": {"references": "sampler/greedy_scores"},
  "brier": {"forecast": "forecast", "stated": "stated"},
  "calibrated": {"model": "style", "phrases": "thoughts"},
  "ceiling": {"highest": 0.5},
  "centered": {"references": "sampler/greedy_scores"},
  "component": {"name": "answered"},
  "concise": {"conciseness": "style"},
  "dimension_level": {
    "relevances": ("style", "forecast"),
    "coherence": "thoughts",
  },
  "ensemble": {"members": ("thoughts", "style"), "rule": "worst"},
  "flaw_aware": {"flawed": "thoughts"},
  "flipped_groups": {"probability": 0.5},
  "log_sigmoid": {"references": "sampler/greedy_scores"},
  "instead_of_nothing": {"phrases": "thoughts"},
  "late_preference": {"references": "sampler/greedy_scores"},
  "novelty_bonus": {"size": 16},
  "phase_entropy": {"thought_end": 4},
  "polynomial": {"references": "sampler/greedy_scores"},
  "posterior": {"thoughts": "thoughts"},
  "preference": {"references": "sampler/greedy_scores"},
  "reasoning_patterns": {"phrases": PHRASES, "enough": 2},
  "regularized_relevance": {
    "to_question": "thoughts",
    "to_reference": "style",
    "is_open": "forecast",
  },
  "says": {"phrases": PHRASES, "fences": (((8,),),)},
  "stratified": {"model": "style"},
  "stretched_with_progress": {"steps": 14},
  "tanh": {"references": "sampler/greedy_scores"},
  "trusted": {"thoughts": "thoughts"},
}


def experiment(**changes):
  return small_run.on_one_device(
    build.build(small_run.config(task=CHAIN, **changes))
  )


def two_answers(rollout):
  """Returns the view of two options; both have the tokens of the reference."""
  view = rollout.views[base.REFERENCE]
  twice = lambda x: jnp.repeat(x, 2, 1)  # noqa: E731
  return view.replace(
    completions=twice(view.completions),
    lengths=twice(view.lengths),
    mask=twice(view.mask),
  )


def made_of(name):
  return rewards.get(name, **SETTINGS.get(name, {}))
