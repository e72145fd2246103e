"""Estimators against enumeration of every subset; statistics by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from experiments.evaluation import intervals
from rl import metrics, scoring, types
from rl.metrics import Tally

RAGGED = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0]])


def _subset_mean(row, k, value):
  """Mean of `value(subset)` over every k-subset of the indices in `row`."""
  return np.mean([value(list(s)) for s in itertools.combinations(row, k)])


@pytest.mark.parametrize("valid", [None, RAGGED.astype(bool)])
def test_curves_are_means_over_all_subsets(valid):
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(3, 6)).astype(np.float32)
  correct = scores > 0.2
  exists = np.ones((3, 6), bool) if valid is None else valid
  ks = (1, 2, 4)
  pass_at_k = metrics.pass_at_k_curve(jnp.asarray(correct), ks, valid)
  best = metrics.max_at_k_curve(jnp.asarray(scores), ks, valid)
  for column, k in enumerate(ks):
    groups = [p for p in range(3) if exists[p].sum() >= k]
    rows = [np.flatnonzero(exists[p]) for p in groups]
    want_pass = np.mean(
      [
        _subset_mean(r, k, lambda s, p=p: correct[p, s].any())
        for p, r in zip(groups, rows, strict=True)
      ]
    )
    want_best = np.mean(
      [
        _subset_mean(r, k, lambda s, p=p: scores[p, s].max())
        for p, r in zip(groups, rows, strict=True)
      ]
    )
    np.testing.assert_allclose(pass_at_k[column], want_pass, atol=1e-6)
    np.testing.assert_allclose(best[column], want_best, atol=1e-6)


def test_no_group_large_enough_has_no_value():
  valid = jnp.array([[True, True, False, False]])
  curve = metrics.pass_at_k_curve(jnp.ones((1, 4)), (2, 3), valid)
  assert curve[0] == 1.0
  assert jnp.isnan(curve[1])


@pytest.mark.parametrize("k", [0, 5])
def test_impossible_budget_names_itself_and_what_is_possible(k):
  with pytest.raises(ValueError, match=f"k = {k} .*1 to the 4"):
    metrics.pass_at_k_curve(jnp.zeros((1, 4)), (k,))


def test_bootstrap_covers_the_true_mean_as_often_as_it_says():
  # 400 studies of 100 Bernoulli(.3) problems; the standard error of the
  # observed coverage at .9 is .015.
  keys = jax.random.split(jax.random.key(0), 400)

  def covered(key):
    data, draws = jax.random.split(key)
    values = jax.random.bernoulli(data, 0.3, (100,)).astype(jnp.float32)
    low, high = intervals.bootstrap_interval(values, draws, 0.9, 300)
    return (low <= 0.3) & (high >= 0.3)

  coverage = jnp.mean(jax.lax.map(covered, keys, batch_size=50))
  assert 0.85 <= coverage <= 0.95


def test_bootstrap_width_is_that_of_the_normal_limit():
  values = jax.random.normal(jax.random.key(1), (2000, 2)) * jnp.array([1, 3.0])
  low, high = intervals.bootstrap_interval(values, jax.random.key(2))
  standard_error = jnp.std(values, axis=0) / jnp.sqrt(2000.0)
  ratio = (high - low) / (2 * 1.96 * standard_error)
  np.testing.assert_allclose(ratio, 1.0, atol=0.1)
  assert bool((low < values.mean(0)).all() & (values.mean(0) < high).all())


def test_bootstrap_of_columns_is_paired_and_leaves_absent_values_out():
  values = np.random.default_rng(3).normal(size=(40, 1))
  both = np.concatenate([values, values + 2.0, np.full((40, 1), 7.0)], -1)
  both[::2, 2] = np.nan
  low, high = intervals.bootstrap_interval(both, jax.random.key(0))
  np.testing.assert_allclose(low[1] - low[0], 2.0, atol=1e-5)
  np.testing.assert_allclose([low[2], high[2]], 7.0, atol=1e-5)


def test_bootstrap_level_must_be_a_coverage():
  with pytest.raises(
    ValueError, match=r"level = 95 must be greater than 0 and less than 1"
  ):
    intervals.bootstrap_interval(jnp.zeros(3), jax.random.key(0), 95)


def _rollout():
  """Two groups of three; the last sample of the second group does not exist."""
  lengths = jnp.array([[2, 3, 4], [1, 4, 4]])
  mask = jnp.arange(4) < lengths[..., None]
  shape = (2, 3)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.zeros((2, 1), jnp.int32),
      prompt_mask=jnp.ones((2, 1), bool),
      completions=jnp.zeros((*shape, 4), jnp.int32),
      lengths=lengths,
      mask=mask,
    ),
    sample_mask=jnp.array([[True, True, True], [True, True, False]]),
    behavior_log_probs=jnp.zeros((*shape, 4)),
    finished=jnp.array([[True, True, False], [True, True, False]]),
    scores=jnp.array([[1.0, 0.0, 2.0], [0.5, 0.5, 99.0]]),
    correct=jnp.array([[1, 0, 1], [-1, 0, 1]], jnp.int8),
    prompt_ids=jnp.arange(2),
    keys=jax.random.split(jax.random.key(0), 2),
    step=jnp.array(0),
    components={"format": jnp.array([[1.0, 1.0, 0.0], [0.0, 0.0, 99.0]])},
    step_mask=jnp.array(
      [[[1, 0], [1, 1], [1, 1]], [[1, 0], [1, 1], [1, 1]]], bool
    ),
  )


def test_rollout_metrics_count_real_samples_and_known_verdicts_only():
  values = jax.jit(metrics.rollout_metrics)(_rollout())
  histogram = values.pop("group/solve_count_hist")
  want = {
    "reward/mean": 4 / 5,
    "reward/std": np.std([1, 0, 2, 0.5, 0.5]),
    "score/format/mean": 2 / 5,
    "accuracy/pass@1": (2 / 3 + 0) / 2,
    "accuracy/pass@3": 1.0,  # only the first group has three verdicts
    "group/zero_variance_frac": 1 / 2,
    "length/mean": 14 / 5,
    "length/max": 4.0,
    "length/truncated_frac": 1 / 5,
    "length/steps_mean": 8 / 5,
    "cost/sampled_tokens": 2 + 3 + 4 + 1 + 4,
  }
  assert set(values) == set(want)
  for name, value in want.items():
    np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)
  np.testing.assert_allclose(histogram, [0.5, 0, 0.5, 0])


def test_accuracy_without_a_verdict_is_not_a_number():
  rollout = _rollout().replace(correct=-jnp.ones((2, 3), jnp.int8))
  values = metrics.rollout_metrics(rollout)
  assert jnp.isnan(values["accuracy/pass@1"])
  assert values["reward/mean"] == pytest.approx(0.8)


def test_advantage_metrics_ignore_masked_entries():
  advantages = jnp.array([[1.0, -1.0, jnp.nan], [2.0, jnp.nan, -2.0]])
  values = metrics.advantage_metrics(advantages, ~jnp.isnan(advantages))
  assert float(values["advantage/mean"]) == 0.0
  assert float(values["advantage/abs_mean"]) == 1.5
  assert float(values["advantage/std"]) == pytest.approx(np.sqrt(2.5))


def test_shares_of_unscored_and_timed_out_samples_of_a_host_verifier():
  """The shares are over the samples that were drawn."""
  rollout = _rollout()
  lengths = rollout.tokens.lengths.at[1, 1].set(0)
  late = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(lengths=lengths),
    extras=rollout.extras.update({"task/timeout": late}),
  )
  shares = metrics.rollout_metrics(rollout)
  np.testing.assert_allclose(shares["verifier/unscored_frac"], 1 / 5)
  np.testing.assert_allclose(shares["verifier/timeout_frac"], 2 / 5)
  assert "verifier/unscored_frac" not in metrics.rollout_metrics(_rollout())


def test_a_rollout_without_samples_has_lengths_of_0():
  rollout = _rollout().replace(sample_mask=jnp.zeros((2, 3), bool))
  values = metrics.rollout_metrics(rollout)
  for name in ("length/max", "length/mean", "cost/sampled_tokens"):
    assert values[name] == 0
  assert jnp.isnan(values["group/solve_count_hist"]).all()


def test_a_sampler_may_report_the_tokens_that_it_has_drawn():
  rollout = _rollout()
  assert metrics.sampled_tokens(rollout) == 14
  extras = rollout.extras.update({"sampler/tokens": 99.0})
  drawn = metrics.sampled_tokens(rollout.replace(extras=extras))
  assert (int(drawn), drawn.dtype) == (99, jnp.int32)


def test_tokens_of_a_tool_are_not_sampled():
  """Two samples of 5 tokens, of which a tool wrote 2; one does not exist."""
  rollout = worked_example.rollout(np.zeros(3), [5, 5, 4])
  is_reply = np.isin(np.arange(5), [1, 2])
  rollout = rollout.replace(
    sample_mask=jnp.array([[True, True, False]]),
    tokens=rollout.tokens.replace(mask=rollout.mask & ~is_reply),
  )
  assert metrics.sampled_tokens(rollout) == 6
  assert metrics.rollout_metrics(rollout)["cost/sampled_tokens"] == 6


@pytest.mark.parametrize("shape", [(9,), (3, 3)])
def test_the_area_under_the_curve_is_a_share_of_pairs(shape):
  """A tie counts one half; entries that are not valid do not count."""
  nan = float("nan")
  scores = np.array([0.1, 0.4, 0.4, 0.9, nan, 0.3, 0.4, nan, 0.8])
  labels = np.array([0, 1, 0, 1, 1, 1, 0, 0, 0])
  valid = ~np.isnan(scores)
  pairs = [
    (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
    for i in np.flatnonzero(valid & (labels == 1))
    for j in np.flatnonzero(valid & (labels == 0))
  ]
  assert len(pairs) == 12
  result = metrics.auc(*(x.reshape(shape) for x in (scores, labels, valid)))
  np.testing.assert_allclose(result, np.mean(pairs), rtol=1e-6)
  clean = metrics.auc(scores[valid], labels[valid] == 1)
  np.testing.assert_allclose(clean, np.mean(pairs), rtol=1e-6)
  for label in (0, 1):  # one label alone has no pairs
    assert jnp.isnan(metrics.auc(scores[:4], np.full(4, label)))


def test_a_pass_reads_the_tokens_of_prompts_and_completions():
  """Once for all needs with the same parameters, text and depth."""
  answer = types.Tokens(
    prompts=jnp.zeros((2, 3), jnp.int32),
    prompt_mask=jnp.array([[False, True, True], [True, True, True]]),
    completions=jnp.zeros((2, 3, 2), jnp.int32),
    lengths=jnp.array([[1, 2, 1], [2, 1, 0]]),
    mask=jnp.ones((2, 3, 2), bool),
  )
  rollout = _rollout().replace(views={"answer": answer})
  early = scoring.Probe("early", lambda h, ids: h, head="hidden", depth=0.25)
  needs = {
    scoring.Need("old", scoring.log_probs),
    scoring.Need("old", scoring.entropy),
    scoring.Need("ref", scoring.log_probs, "answer"),
    scoring.Need("ref", early, "answer"),
    *(scoring.provided(source, "x") for source in scoring.EXTERNAL_SOURCES),
  }
  costs = metrics.pass_metrics(needs, rollout)
  assert {k: float(v) for k, v in costs.items()} == {
    "cost/old_tokens": 18 + 2,
    "cost/ref@answer_tokens": 7 + 5,
    "cost/ref@answer_to_0.25_tokens": 7 + 5,
  }


def test_a_tally_starts_without_entries():
  """A single entry is its own mean, and no entry has the mean 0."""
  values = {"a": jnp.array([3.0, -5.0]), "a_max": jnp.array([-3.0, 5.0])}
  tally = Tally().add(values, jnp.array([True, False]))
  tally = tally.add_sums({"loss": jnp.float32(7.0), "kept": jnp.float32(1.0)})
  tally = tally.add_sums({"loss": jnp.float32(8.0)})
  merged = jax.tree.map(lambda v: v[None], tally).merge()
  assert merged == {"a": 3, "a_max": -3, "loss": 8, "kept": 1}
  none = Tally().add(values, jnp.zeros(2, bool))
  merged = jax.tree.map(lambda v: v[None], none).merge()
  assert merged == {"a": 0, "a_max": 0}


def test_a_curve_is_over_groups_of_any_leading_axes():
  scores = jnp.array([[[1.0, 2.0, 4.0]], [[8.0, 0.0, 0.0]]])
  curve = metrics.max_at_k_curve(scores, (1, 3))
  np.testing.assert_allclose(curve, [5 / 2, 6], rtol=1e-6)
  right = metrics.pass_at_k_curve(scores > 1, (1, 2))
  np.testing.assert_allclose(right, [1 / 2, (1 + 2 / 3) / 2], rtol=1e-6)
