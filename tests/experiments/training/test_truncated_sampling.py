"""A run that samples from a truncated distribution is on-policy."""

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.logging import json_files
from experiments.training import iteration, placement
from experiments.training_run import loop
from rl import scoring

LOG_PROBS = scoring.Need("old", scoring.log_probs)


def ratios_to_sampler(e, state, rollout):
  """Returns pi / behavior of the scored tokens of a rollout."""
  policy = e.policy.with_frozen(state.carried.frozen)
  scored = jax.jit(
    lambda params, rollout: scoring.passes(
      policy, {"old": params}, {LOG_PROBS}, rollout
    )
  )(state.params, rollout)
  log_ratio = scored.extras[LOG_PROBS] - rollout.behavior_log_probs
  return np.exp(np.asarray(log_ratio))[np.asarray(rollout.valid("token"))]


def test_the_ratio_of_a_rollout_is_one():
  """Without the support it is the probability of the support."""
  e = small_run.experiment(rollout__top_p=0.8, rollout__top_k=16)
  state = placement.init_state(e)
  rollout = iteration.compile_rollout_fn(e)(state)
  assert jax.tree.structure(rollout) == jax.tree.structure(e.abstract_rollout)
  np.testing.assert_allclose(
    ratios_to_sampler(e, state, rollout), 1.0, atol=1e-4
  )
  tokens = rollout.tokens.replace(support=None)
  naive = ratios_to_sampler(e, state, rollout.replace(tokens=tokens))
  # An untrained policy is nearly uniform: 80 % of the tokens, or 16.
  assert 0.5 < naive.mean() < 0.9


@pytest.mark.long
def test_a_run_with_every_truncation_trains(tmp_path):
  e = small_run.experiment(
    steps=2,
    rollout__top_p=0.9,
    rollout__min_p=0.02,
    rollout__max_tokens=64,  # long enough to be packed
    rollout__rows=2,
    plan__minibatches=2,
    method="grpo()",
  )
  loop.run(e, tmp_path / "run")
  lines = json_files.read(tmp_path / "run/metrics.jsonl")
  assert [line["step"] for line in lines] == [1, 2]
  for line in lines:
    assert line["policy/sampler_log_prob_diff_max"] < 1e-4
    assert line["perf/padding_frac/updating"] < 0.9
