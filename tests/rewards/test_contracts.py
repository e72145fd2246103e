"""Tests of the properties of every reward function, and of those of a kind.

All: masked entries have no part in the value or its gradient, whatever they
hold; all can be jitted, and mapped over prompts. Of a kind: rewards that
telescope, rewards behind a gate, rewards of a reference answer's likelihood.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards import combine
from rewards.agreement import cluster_share, majority
from rewards.confidence import (
  answer_confidence,
  clipped_confidence,
  negative_entropy,
  phase_entropy,
  self_certainty,
)
from rewards.controls import opposite, wrong_vote
from rewards.length import (
  adaptive_token_price,
  harmonized_length,
  relative_length,
)
from rewards.likelihood import (
  debiased_probability,
  group_log_mean_advantages,
  reference_probability,
  self_aligned_reward,
)
from rewards.outcome import answer_consistency, brier, staged_constraints
from rewards.reward_models import (
  calibrated,
  concise,
  dimension_level,
  ensemble,
  flaw_aware,
  posterior,
  principles,
  stratified,
  trusted,
)
from rewards.shaping import (
  log_sigmoid,
  relative_to_references,
  stretched_with_progress,
)
from rewards.steps import (
  gains,
  gated_accumulation,
  information_gain,
  normalized_steps,
  outcome_centered,
  significant_gains,
  step_count,
  turn_contributions,
)
from rewards.text import instead_of_nothing, reasoning_patterns
from rl.methods.process import step_rewards

debiased_probability = compiled.functions(debiased_probability)
gated_accumulation = compiled.functions(gated_accumulation)
information_gain = compiled.functions(information_gain)
phase_entropy = compiled.functions(phase_entropy)
reference_probability = compiled.functions(reference_probability)
trusted = compiled.functions(trusted)

P, S, T, K = 2, 4, 6, 3
RNG = np.random.default_rng(0)
LOGS = np.log(RNG.uniform(0.05, 0.95, (5, P, S, T))).astype(np.float32)
UNIT = RNG.uniform(0.05, 0.95, (5, P, S, T)).astype(np.float32)
TOKENS = np.arange(T) < RNG.integers(1, T, (P, S))[..., None]
STEPS = np.arange(K) < np.array([[1, 2, 3, 2], [3, 3, 1, 2]])[..., None]
VALID = np.array([[True, True, True, False], [True, False, True, True]])
CORRECT = np.array([[1, 0, 1, 0], [0, 1, 1, 0]], np.int8)
IDS = np.where(TOKENS, np.minimum(np.arange(T), K - 1), -1)
# Name: the function, its arguments (P first), and which argument's entries
# exist by which mask: an argument's index, or an array.
SAMPLES, STEP_SCORES = UNIT[0, ..., 0], UNIT[0, ..., :K]
CASES = {
  "relative_length": (
    lambda c, n, v: relative_length.relative_length_scores(c, n, valid=v),
    (CORRECT, 100 * SAMPLES, VALID),
    {1: 2},
  ),
  "token_price": (
    lambda c, n, v: adaptive_token_price.token_price(c, n, 0.001, v),
    (CORRECT, 100 * SAMPLES, VALID),
    {1: 2},
  ),
  "harmonized_length": (
    harmonized_length.harmonized_length_scores,
    (100 * SAMPLES + 1, VALID),
    {0: 1},
  ),
  "nonlinear": (step_count.nonlinear_scores, (STEP_SCORES, STEPS), {0: 1}),
  "weibull": (step_count.weibull_scores, (STEP_SCORES, STEPS), {0: 1}),
  "negative_entropy": (
    negative_entropy.negative_entropy_scores,
    (UNIT[0], TOKENS),
    {0: 1},
  ),
  "self_certainty": (
    self_certainty.self_certainty_scores,
    (UNIT[0], TOKENS),
    {0: 1},
  ),
  "answer_confidence": (
    answer_confidence.answer_confidence_scores,
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "borda_votes": (
    lambda x, i, v: self_certainty.borda_votes(x, i, valid=v),
    (SAMPLES, IDS[..., 0], VALID),
    {0: 2},
  ),
  "confidence_gaps": (
    lambda x, c, v: answer_confidence.confidence_gaps(x, c, v)[0],
    (SAMPLES, CORRECT, VALID),
    {0: 2},
  ),
  "clipped_confidence": (
    clipped_confidence.clipped_confidence_scores,
    (CORRECT, LOGS[0], TOKENS),
    {1: 2},
  ),
  "phase_entropy": (
    lambda c, h, m: phase_entropy.phase_entropy_scores(c, h, m, jnp.int32(2)),
    (CORRECT, UNIT[0], TOKENS),
    {1: 2},
  ),
  "self_aligned": (
    self_aligned_reward.self_aligned,
    (CORRECT, LOGS[0], LOGS[1], TOKENS),
    {1: 3, 2: 3},
  ),
  "probability": (
    reference_probability.reference_probability,
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "mean_probability": (
    reference_probability.mean_reference_probability,
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "log_probability": (
    reference_probability.reference_log_probability,
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "mean_log_probability": (
    reference_probability.mean_reference_log_probability,
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "group_log_mean_advantages": (
    group_log_mean_advantages.log_mean_advantages,
    (LOGS[0], TOKENS, VALID),
    {0: TOKENS & VALID[..., None]},
  ),
  "debiased_probability": (
    lambda x, m: debiased_probability.debiased_probability_scores(
      x, m, 0.1, 1.0
    ),
    (LOGS[0], TOKENS),
    {0: 1},
  ),
  "majority": (
    lambda i, v: majority.majority_scores(i, valid=v),
    (IDS[..., 2], VALID),
    {},
  ),
  "cluster_share": (
    cluster_share.cluster_share_scores,
    (IDS[..., 2], VALID),
    {},
  ),
  "preference": (
    relative_to_references.preference_scores,
    (SAMPLES, UNIT[0], TOKENS),
    {1: 2},
  ),
  "polynomial": (
    relative_to_references.polynomial_scores,
    (SAMPLES, UNIT[0], TOKENS),
    {1: 2},
  ),
  "arctan": (
    relative_to_references.arctan_scores,
    (SAMPLES, UNIT[0], TOKENS),
    {1: 2},
  ),
  "reference_quantile": (
    log_sigmoid.reference_quantile,
    (UNIT[0], TOKENS),
    {0: 1},
  ),
  "center_members": (
    lambda x, v: ensemble.center_members(jnp.stack([x, x]), v)[0],
    (SAMPLES, VALID),
    {0: 1},
  ),
  "gated_accumulation": (
    lambda r, v, m: gated_accumulation.gated_accumulation(
      r, v, jnp.full(K, 0.5), m
    ),
    (
      np.moveaxis(UNIT[:K], 0, 2),
      np.moveaxis(UNIT[:K, ..., 0], 0, 2),
      TOKENS,
    ),
    {0: np.broadcast_to(TOKENS[:, :, None], (P, S, K, T))},
  ),
  "posterior": (
    posterior.posterior_scores,
    (CORRECT, SAMPLES),
    {1: CORRECT == 1},
  ),
  "concise": (concise.concise_scores, (CORRECT, SAMPLES), {1: CORRECT == 1}),
  "stratified": (
    lambda c, x, v: stratified.stratified_scores(c, x, valid=v),
    (CORRECT, SAMPLES, VALID),
    {1: 2},
  ),
  "trusted": (
    lambda o, x, v: trusted.trusted_scores(o, x, 10, valid=v),
    (UNIT[1, ..., 0], SAMPLES, VALID),
    {0: 2, 1: 2},
  ),
  "information_gain": (
    information_gain.information_gains,
    (STEP_SCORES, STEPS, SAMPLES),
    {0: 1},
  ),
  "normalize_in_group": (
    normalized_steps.normalize_in_group,
    (STEP_SCORES, STEPS),
    {0: 1},
  ),
  "outcome_centered": (
    outcome_centered.outcome_centered_rewards,
    (STEP_SCORES, STEPS, SAMPLES),
    {0: 1},
  ),
  "attribution_loss": (
    turn_contributions.attribution_loss,
    (STEP_SCORES, STEPS, SAMPLES),
    {0: 1},
  ),
  "attributed": (
    lambda c, g, m: turn_contributions.attributed(c, g, m),
    (STEP_SCORES, UNIT[1, ..., :K], STEPS),
    {0: 2, 1: 2},
  ),
  "gains_of_values": (
    gains.step_gains,
    (STEP_SCORES, SAMPLES, STEPS),
    {0: 2},
  ),
  "significant_gains": (
    significant_gains.significant_step_gains,
    (STEP_SCORES - 0.5, STEPS),
    {0: 1},
  ),
  "brier": (brier.brier_scores, (SAMPLES, CORRECT, VALID), {0: 2}),
  "staged": (
    lambda ok, x, m: staged_constraints.dense(
      ok, staged_constraints.met(x, m), staged_constraints.met(x, m)
    ),
    (CORRECT, UNIT[0], TOKENS),
    {1: 2},
  ),
  "combine": (
    lambda a, b, v: (
      combine.combine(
        {"a": a, "b": b},
        (combine.Part("a"), combine.Part("b", 0.5)),
        "z_scores",
        valid=v,
      ).total
    ),
    (SAMPLES, UNIT[1, ..., 0], VALID),
    {0: 2, 1: 2},
  ),
  "flaw_aware": (
    flaw_aware.flaw_aware_scores,
    (CORRECT, SAMPLES),
    {1: CORRECT == 1},
  ),
  "reasoning_patterns": (
    lambda x, m: reasoning_patterns.reasoning_pattern_scores(
      x, m.sum(-1), np.array([[[0, 1], [1, -1]]]), enough=1, repeated=2
    ),
    (IDS, TOKENS),
    {},
  ),
  "calibrated": (
    calibrated.calibrated_scores,
    (SAMPLES, UNIT[1, ..., 0]),
    {1: SAMPLES < 0.5},
  ),
  "instead_of_nothing": (
    instead_of_nothing.instead_of_nothing_scores,
    (CORRECT, SAMPLES),
    {1: CORRECT != 1},
  ),
  "wrong_vote": (
    wrong_vote.most_common_wrong_answer,
    (IDS[..., 2], CORRECT, VALID),
    {},
  ),
  "opposite": (opposite.opposite_scores, (SAMPLES, VALID), {0: 1}),
  "answer_consistency": (
    answer_consistency.answer_consistency_scores,
    (IDS[..., 1], IDS[..., 2], CORRECT, VALID),
    {},
  ),
  "stretched_with_progress": (
    lambda x, v: stretched_with_progress.progressively_stretched_scores(
      x, 0.4, v
    ),
    (SAMPLES, VALID),
    {0: 1},
  ),
  "dimension_level": (
    lambda c, r, h, m, v: dimension_level.dimension_level_scores(
      c, r, h, pair_mask=m, valid=v
    ),
    (SAMPLES, UNIT[1], UNIT[2, ..., 0], TOKENS, VALID),
    {0: 4, 1: TOKENS & VALID[..., None], 2: 4},
  ),
  "mean_log_odds": (
    lambda x, m: principles.mean_log_odds(x, 0, 1, m),
    (np.moveaxis(LOGS, 0, -1), TOKENS),
    {0: np.broadcast_to(TOKENS[..., None], (P, S, T, 5))},
  ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_masked_does_not_exist(name):
  function, arguments, masks = CASES[name]
  run = jax.jit(function)
  value = run(*arguments)
  assert np.isfinite(value).all()
  for index, mask in masks.items():
    mask = np.asarray(arguments[mask] if isinstance(mask, int) else mask)
    assert not mask.all()  # there is something to be ignored
    assert mask.any()
    poisoned = list(arguments)
    poisoned[index] = np.where(mask, arguments[index], np.nan)
    np.testing.assert_array_equal(run(*poisoned), value)
    total = jax.grad(lambda *x: function(*x).sum(), index)
    gradient = jax.jit(total)(*poisoned)
    assert np.isfinite(gradient).all()
    assert (np.asarray(gradient)[~mask] == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_one_prompt_at_a_time_is_the_same(name):
  function, arguments, _ = CASES[name]
  value = jax.jit(function)(*arguments)
  rows = jax.jit(jax.vmap(function))(*arguments)
  np.testing.assert_allclose(rows, value, rtol=2e-5, atol=1e-6)


def gain_sum(values, mask):
  collected = information_gain.information_gains(
    values, mask, jnp.zeros(mask.shape[:-1])
  )
  span = last(values, mask) - first(values, mask)
  return collected.sum(-1), jnp.where(mask.any(-1), span, 0.0)


def progress_sum(values, mask):
  start = jnp.full(mask.shape[:-1], 0.25)
  collected = gains.step_gains(values, start, mask)
  some = mask.any(-1)
  return collected.sum(-1), jnp.where(some, last(values, mask) - 0.25, 0.0)


def delta_sum(values, mask):
  """Delta collects the first step's score, if a second one follows."""
  collected = step_rewards.delta_rewards(values, mask)
  several = mask.sum(-1) > 1
  return collected.sum(-1), jnp.where(several, first(values, mask), 0.0)


def first(values, mask):
  at = jnp.argmax(mask, -1)[..., None]
  return jnp.take_along_axis(values, at, -1)[..., 0]


def last(values, mask):
  at = mask.shape[-1] - 1 - jnp.argmax(mask[..., ::-1], -1)[..., None]
  return jnp.take_along_axis(values, at, -1)[..., 0]


# The rule, and whether it skips what is masked between entries.
TELESCOPING = {
  gain_sum: False,
  progress_sum: False,
  delta_sum: True,
}


@pytest.mark.parametrize("rule", TELESCOPING)
def test_the_sum_is_the_last_less_the_first(rule):
  rng = np.random.default_rng(1)
  values = jnp.asarray(rng.normal(size=(40, 7)), jnp.float32)
  if TELESCOPING[rule]:
    mask = jnp.asarray(rng.random((40, 7)) < 0.6)
  else:
    mask = jnp.arange(7) < jnp.asarray(rng.integers(1, 8, (40, 1)))
  mask = mask.at[0].set(False).at[1].set(True)
  total, expected = rule(values, mask)
  np.testing.assert_allclose(total, expected, atol=2e-6)


@pytest.mark.parametrize("rule", [gain_sum, progress_sum, delta_sum])
def test_a_detour_earns_nothing(rule):
  """Leaving and coming back between the ends does not change the sum."""
  straight, _ = rule(jnp.array([[0.2, 0.6]]), jnp.ones((1, 2), bool))
  detour, _ = rule(
    jnp.array([[0.2, 0.9, 0.1, 0.9, 0.6]]), jnp.ones((1, 5), bool)
  )
  np.testing.assert_allclose(straight, detour, atol=1e-6)


GATED = {  # hidden [S] -> total [S], and where the gate is closed
  "posterior": (
    lambda x: posterior.posterior_scores(CORRECT[0], x),
    CORRECT[0] == 0,
  ),
  "concise": (lambda x: concise.concise_scores(CORRECT[0], x), CORRECT[0] == 0),
  "flaw_aware": (
    lambda x: flaw_aware.flaw_aware_scores(CORRECT[0], x),
    CORRECT[0] == 0,
  ),
  "instead_of_nothing": (
    lambda x: instead_of_nothing.instead_of_nothing_scores(CORRECT[0], x),
    CORRECT[0] == 1,
  ),
  "calibrated": (
    lambda x: calibrated.calibrated_scores(0.8 * CORRECT[0], x),
    CORRECT[0] == 1,
  ),
  "accumulation": (
    lambda x: gated_accumulation.gated_accumulation(
      jnp.stack([x, jnp.ones(S)], -1)[..., None],
      jnp.stack([jnp.ones(S), jnp.asarray(CORRECT[0])], -1),
      jnp.array([0.5, 0.5]),
      jnp.ones((S, 1), bool),
    )[..., 0],
    CORRECT[0] == 0,
  ),
  "phase_entropy": (
    lambda x: phase_entropy.phase_entropy_scores(
      CORRECT[0], x[:, None], jnp.ones((S, 1), bool), jnp.int32(1)
    ),
    CORRECT[0] == 0,
  ),
  "staged": (
    lambda x: staged_constraints.dense(
      CORRECT[0],
      staged_constraints.Met(x, jnp.ones(S)),
      staged_constraints.Met(x, jnp.ones(S)),
    ),
    CORRECT[0] == 0,
  ),
  "combine": (
    lambda x: (
      combine.combine(
        {"ok": jnp.asarray(CORRECT[0]), "style": x},
        (combine.Part("ok"), combine.Part("style", 0.3, gates=(("ok", 0.5),))),
      ).total
    ),
    CORRECT[0] == 0,
  ),
  "trusted": (  # a group of one kind: nothing to compare, nothing counts
    lambda x: trusted.trusted_scores(jnp.ones(S), x, 0),
    np.ones(S, bool),
  ),
  "unanswered": (
    lambda x: negative_entropy.negative_entropy_scores(
      x[:, None], jnp.ones((S, 1), bool), CORRECT[0] == 1
    ),
    CORRECT[0] == 0,
  ),
}


@pytest.mark.parametrize("name", GATED)
def test_a_closed_gate_hides_what_is_behind_it(name):
  function, closed = GATED[name]
  hidden = jnp.asarray(SAMPLES[0])
  gradient = np.asarray(jax.grad(lambda x: function(x).sum())(hidden))
  assert (gradient[closed] == 0).all()
  assert (gradient[~closed] != 0).all()
  changed = jnp.where(closed, jnp.nan, hidden)
  np.testing.assert_array_equal(function(changed), function(hidden))


REFERENCE_SCORING = [
  reference_probability.reference_probability,
  reference_probability.mean_reference_probability,
  reference_probability.reference_log_probability,
  reference_probability.mean_reference_log_probability,
  debiased_probability.debiased_probability_scores,
]


@pytest.mark.parametrize("reward", REFERENCE_SCORING)
def test_one_value_per_sample_that_rises_with_every_log_prob(reward):
  logs, mask = jnp.asarray(LOGS[0]), jnp.asarray(TOKENS)
  value = reward(logs, mask)
  assert value.shape == (P, S)
  assert value.dtype == jnp.float32
  gradient = np.asarray(jax.grad(lambda x: reward(x, mask).sum())(logs))
  assert (gradient[TOKENS] > 0).all()
  assert (gradient[~TOKENS] == 0).all()
  for t in range(T):
    better = reward(logs.at[..., t].add(0.01), mask)
    assert (better > value)[TOKENS[..., t]].all()
    np.testing.assert_array_equal(
      better[~TOKENS[..., t]], value[~TOKENS[..., t]]
    )


@pytest.mark.parametrize("reward", REFERENCE_SCORING)
def test_padding_and_order_of_the_reference_change_nothing(reward):
  logs, mask = jnp.asarray(LOGS[0]), jnp.asarray(TOKENS)
  pad = ((0, 0), (0, 0), (0, 3))
  longer = reward(
    jnp.pad(logs, pad, constant_values=jnp.nan), jnp.pad(mask, pad)
  )
  np.testing.assert_allclose(longer, reward(logs, mask), rtol=1e-6)
  turned = reward(logs[..., ::-1], mask[..., ::-1])
  np.testing.assert_allclose(turned, reward(logs, mask), rtol=1e-6)


@pytest.mark.parametrize("reward", REFERENCE_SCORING)
def test_an_empty_reference_gives_every_sample_the_same(reward):
  value = reward(jnp.asarray(LOGS[0]), jnp.zeros((P, S, T), bool))
  np.testing.assert_array_equal(value, 0.0)
  gradient = jax.grad(lambda x: reward(x, jnp.zeros((S, T), bool)).sum())
  np.testing.assert_array_equal(gradient(jnp.asarray(LOGS[0, 0])), 0.0)
