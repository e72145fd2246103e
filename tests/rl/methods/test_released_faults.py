"""Known faults of released code, each of which does not happen here.

Found by running verl, TRL, rlax, OpenRLHF, and the code of Pass@k Training and
of PURE. The contract of `test_methods.py` holds two more for every method:
unequal microbatches, and what leaks from padding.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy
from helpers.step_groups import (
  LAYOUTS,
  RELEASED,
  WORKED_CORRECT,
  WORKED_SCORES,
  WORKED_STEPS,
  L,
  advantages,
  close,
  group,
  prompts,
  returns,
  value,
  worked_example,
)

from rl import (
  best_of_k,
  credit,
  method_loss,
  methods,
  metrics,
  scoring,
  transforms,
  types,
)
from rl.losses import aggregates, ratios, surrogates, terms
from rl.methods.process.step_transforms import within_steps
from rl.transforms import among, chain

every_layout = pytest.mark.parametrize(("name", "hyper"), LAYOUTS)
GROUP_METHODS = [
  ("grpo", {}),
  ("dr_grpo", {}),
  ("rloo", {}),
  ("dapo", {}),
  ("pass_at_k", {"k": 1}),
  ("pass_at_k", {"k": 2}),
  ("pass_at_k_exceeding", {"k": 2}),
  ("pass_at_k_combination", {"k": 2}),
  ("max_at_k", {"k": 2}),
  ("bon_mean", {"k": 2}),
  ("noisy_backward", {}),
]
every_group_method = pytest.mark.parametrize(
  ("name", "hyper"), GROUP_METHODS, ids=str
)


@pytest.fixture(scope="module")
def worked():
  return worked_example()


def outcome_advantages(name, hyper, scores, valid):
  rollout = tabular_policy.rollout(
    p=scores.shape[0], s=scores.shape[1], ragged=False
  )
  rollout = rollout.replace(scores=scores, sample_mask=valid)
  return value(methods.get(name, **hyper).advantage, rollout)


# Groups that hold nothing to compare.


@every_group_method
def test_a_group_of_one_keeps_its_raw_score_as_advantage(name, hyper):
  """This is so in most of verl's estimators. Here its advantage is 0."""
  valid = jnp.arange(6) == jnp.array([[0], [3]])
  scores = jnp.where(valid, 0.7, jnp.nan)
  assert not outcome_advantages(name, hyper, scores, valid).any()


@every_group_method
def test_rounding_of_equal_scores_becomes_an_advantage(name, hyper):
  """verl: up to 0.11. 0.1, 0.7 and 1/3 have no finite binary form."""
  levels = jnp.array([0.1, 0.7, 1 / 3, -3.3, 1e4])[:, None]
  for n in (3, 5, 6, 7):
    valid = jnp.broadcast_to(jnp.arange(7) < n, (5, 7))
    scores = jnp.where(valid, levels, jnp.nan)
    assert not outcome_advantages(name, hyper, scores, valid).any(), n


@pytest.mark.parametrize(
  ("name", "hyper"),
  [*LAYOUTS, *RELEASED, ("clip_delta", {"threshold": 0.5})],
)
def test_process_credit_of_a_group_of_one(worked, name, hyper):
  """It is 0: not its score, and not minus the batch's mean after whitening."""
  only = worked.replace(sample_mask=jnp.array([[True, False, False]]))
  got = advantages(name, prompts(worked, only), whitened=True, **hyper)
  assert (got[1] == 0).all()
  close(got[0], advantages(name, worked, whitened=True, **hyper)[0])


@every_layout
def test_equal_process_scores_leave_rounding_only(name, hyper):
  """0.1 and 0.7 have no finite binary form; two units in the last place stay.

  Whitening divides them by sqrt(eps) = 1e-4 at least.
  """
  rollout = prompts(*(group([[L]] * 3, [[s]] * 3, [1] * 3) for s in (0.1, 0.7)))
  close(advantages(name, rollout, **hyper), 0, atol=2.5e-7)
  whitened = advantages(name, rollout, whitened=True, **hyper)
  close(whitened, 0, atol=2.5e-7 / 1e-4)


@pytest.mark.parametrize(("name", "hyper"), [LAYOUTS[0], *RELEASED], ids=str)
def test_empty_slots_count_as_samples(name, hyper):
  pair = group(WORKED_STEPS[:2], WORKED_SCORES[:2], [1, 0])
  third = group(WORKED_STEPS, WORKED_SCORES, [1, 0, 1])
  third = third.replace(sample_mask=jnp.array([[True, True, False]]))
  got = advantages(name, third, whitened=True, **hyper)
  close(got[0, :2], advantages(name, pair, whitened=True, **hyper)[0])
  assert not got[0, 2].any()


@pytest.mark.parametrize("baseline", ["token", "step"])
def test_a_sample_without_tokens_is_a_baseline(baseline):
  rollout = group([[3, 5], []], [[0.9, -0.4], []])
  got = advantages("pure_openrlhf", rollout, baseline=baseline)
  assert not got.any(), "as in a group of one"


# KL penalties.


def kl_value(estimator, log_probs, reference):
  """The term's value at every token of `[N]`."""
  need = scoring.Need("ref", scoring.log_probs)
  rollout = tabular_policy.rollout(p=1, s=2, ragged=False)
  rollout = rollout.replace(extras=types.Named({str(need): reference}))
  named = types.Named({str(scoring.log_probs): log_probs})
  return terms.kl(estimator).fn(None, named, rollout)[0]


def test_a_clamped_k3_lets_go_where_the_policy_is_furthest():
  """verl clamps its value at 10, reached at d = -2.6. Here: 1 - e^-d."""
  d = jnp.array([-8.0, -4.0, -2.6, 1.0, 6.0])
  slope = jax.grad(lambda x: kl_value("k3", x, jnp.zeros(5)).sum())(d)
  np.testing.assert_allclose(slope, 1 - np.exp(-d), rtol=1e-5)
  assert (np.diff(np.abs(slope[:3])) < 0).all(), "the further the stronger"


def test_k1_and_k3_in_the_loss_do_not_descend_the_reverse_kl():
  """Over all tokens of a softmax: zero, reverse, forward."""
  ref = jnp.log(jnp.array([0.2, 0.5, 0.3]))
  logits = jnp.array([0.4, -0.3, 0.1])

  def sampled(logits, estimator):
    log_p = jax.nn.log_softmax(logits)
    p = jax.lax.stop_gradient(jnp.exp(log_p))  # how often each is drawn
    return p @ kl_value(estimator, log_p, ref)

  def reverse(logits):
    log_p = jax.nn.log_softmax(logits)
    return jnp.exp(log_p) @ (log_p - ref)

  def forward(logits):
    return jnp.exp(ref) @ (ref - jax.nn.log_softmax(logits))

  k1, k2, k3 = (jax.grad(sampled)(logits, k) for k in ("k1", "k2", "k3"))
  close(k1, 0)
  close(k2, jax.grad(reverse)(logits))
  close(k3, jax.grad(forward)(logits))
  assert np.abs(k2 - k3).max() > 0.01


# Aggregation.


@pytest.mark.parametrize(
  "aggregate",
  [
    aggregates.seq_mean_token_mean(),
    aggregates.seq_mean_token_sum(),
    aggregates.seq_mean_token_sum_norm(2),
    aggregates.sample_mean(),
  ],
  ids=str,
)
def test_a_fully_masked_row_is_counted(aggregate):
  """verl and TRL divide by 8 rows, one of them empty; here by 7."""
  mask = jnp.ones((2, 4, 2), bool).at[1, 3].set(False)
  without_row = jnp.ones((1, 7, 2), bool)
  actual, want = aggregate.fn(mask), aggregate.fn(without_row)
  close(actual.reshape(8, -1)[:7], want.reshape(7, -1))
  assert not actual[1, 3].any()


def test_a_fully_masked_prompt_is_counted():
  mask = jnp.ones((3, 4, 2), bool).at[1].set(False)
  close(aggregates.prompt_mean().fn(mask), [0.5, 0, 0.5])
  close(aggregates.prompt_mean_token_sum().fn(mask)[:, 0, 0], [0.5, 0, 0.5])


@pytest.mark.parametrize(
  "make",
  [
    aggregates.token_mean,
    aggregates.token_sum,
    aggregates.seq_mean_token_mean,
    aggregates.seq_mean_token_sum,
    functools.partial(aggregates.seq_mean_token_sum_norm, 5),
    aggregates.prompt_mean_token_sum,
  ],
)
def test_losses_shrink_with_the_padding(make):
  """rlax, and verl's seq-mean-token-sum-norm, divide by the padded length."""
  rng = np.random.default_rng(0)
  mask = rng.random((2, 3, 5)) < 0.6
  wide = np.concatenate([mask, np.zeros((2, 3, 4), bool)], -1)
  narrow, padded = (make().fn(jnp.asarray(m)) for m in (mask, wide))
  np.testing.assert_array_equal(padded[..., :5], narrow)
  assert not padded[..., 5:].any()


@pytest.mark.parametrize("ratio", [ratios.sequence_mean, ratios.sequence])
@pytest.mark.parametrize(
  "aggregate",
  [
    aggregates.token_mean(),
    aggregates.seq_mean_token_mean(),
    aggregates.seq_mean_token_sum(),
  ],
  ids=str,
)
def test_a_sequence_ratio_ignores_the_aggregate_asked_for(ratio, aggregate):
  """verl's GSPO and SAPO do. Here d loss / d log pi_t is minus weight_t A."""
  rollout = tabular_policy.rollout(ragged=False)
  log_probs = rollout.behavior_log_probs
  old = scoring.Need("old", scoring.log_probs)
  rollout = rollout.replace(extras=types.Named({str(old): log_probs}))
  term = terms.policy_gradient(
    surrogates.ppo_clip(), ratio=ratio, aggregate=aggregate
  )
  advantage = jnp.broadcast_to(rollout.scores[..., None] - 0.4, log_probs.shape)
  coefficient = term.aggregate.fn(rollout.mask)

  def loss(x):
    named = types.Named({str(scoring.log_probs): x})
    return jnp.sum(coefficient * term.fn(advantage, named, rollout)[0])

  close(jax.grad(loss)(log_probs), -coefficient * advantage)


# Advantage estimation over tokens.


def test_gae_reads_stale_values_of_the_padding():
  """verl keeps them; here masked values may be anything, and results are 0."""
  rng = np.random.default_rng(1)
  rewards, values = rng.normal(size=(2, 3, 6))
  mask = np.arange(6) < np.array([[6], [4], [0]])
  stale = np.where(mask, values, np.nan)
  clean = credit.gae(rewards, np.where(mask, values, 0), mask, 0.9, 0.8)
  np.testing.assert_array_equal(
    credit.gae(np.where(mask, rewards, np.nan), stale, mask, 0.9, 0.8), clean
  )
  assert not np.asarray(clean)[~mask].any()


def test_whitening_weighs_long_samples_more():
  """Here too for token signals; sample signals count each sample once."""
  rollout = tabular_policy.rollout(p=1, s=2, t=6, ragged=False)
  lengths = jnp.array([[1], [5]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=(jnp.arange(6) < lengths)[None]),
    scores=jnp.array([[1.0, 0.0]]),
  )
  scores, whiten = transforms.scores(), transforms.whiten()
  broadcast = transforms.broadcast()
  by_sample = value(chain(scores, whiten, broadcast), rollout)[0, :, 0]
  by_token = value(chain(scores, broadcast, whiten), rollout)[0, :, 0]
  close(by_sample, [1, -1])
  close(by_token, [np.sqrt(5), -1 / np.sqrt(5)])


def test_a_ratio_is_clamped_after_it_has_overflowed():
  """exp(1000) is inf, and inf times 0 is NaN. The log-ratio is clamped."""
  advantage = jnp.array([1.0, -1.0, 0.0, 1.0, -1.0])
  log_ratio = jnp.array([1e3, 1e3, 1e3, -1e3, -1e3])

  def total(x):
    return surrogates.ppo_clip().fn(x, advantage, None, None)[0].sum()

  objective, slope = jax.value_and_grad(total)(log_ratio)
  assert np.isfinite(objective)
  np.testing.assert_array_equal(slope, np.zeros(5))


# Filters.


def test_a_truncated_sample_loses_only_its_tail():
  """DAPO's overlong filter drops the whole sample."""
  rollout = tabular_policy.rollout(ragged=False).replace(
    correct=jnp.tile(
      jnp.array([0, 1], jnp.int8), (tabular_policy.P, tabular_policy.S // 2)
    )
  )
  m = methods.get("dapo")
  batch, _, _ = method_loss.prepare(m, rollout, m.init())
  trained = batch.masks[0]
  want = rollout.mask & rollout.finished[..., None]
  np.testing.assert_array_equal(trained, want)
  assert not np.asarray(rollout.finished).all()


def test_shaping_a_reward_hides_a_solved_group_from_the_filter():
  """Dynamic sampling reads the verdict: shaped scores vary in every group."""
  rollout = tabular_policy.rollout(ragged=False)
  solved = rollout.replace(correct=jnp.ones_like(rollout.correct))
  assert (np.ptp(np.asarray(solved.scores), axis=-1) > 0).all()
  assert not value(transforms.mixed_verdicts(), solved).any()
  mixed = solved.replace(
    correct=solved.correct.at[:, 0].set(0),
    scores=jnp.full_like(solved.scores, 0.5),
  )
  assert value(transforms.mixed_verdicts(), mixed).all()


# pass@k and best-of-n.


@pytest.mark.parametrize("form", ["analytic", "full"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_scores_other_than_0_and_1_pass_through_as_advantages(form, k):
  """Pass@k Training replaces entries equal to 1 and to 0 and keeps the others.

  Here the scale of the scores does not matter, and graded ones are averaged
  over subsets like any other.
  """
  right = jnp.array([1.0, 0, 0, 1, 0, 0])
  a = best_of_k.pass_at_k_advantages
  signs = a(2 * right - 1, k, None, form)
  close(signs, a(right, k, None, form))
  close(a(10 * right + 3, k, None, form), signs, atol=1e-5)
  graded = jnp.array([0.1, 0.7, 0.7, 1.0])
  close(a(graded, 2), [-1 / 3, -1 / 3, -1 / 3, 1])


def test_k_above_n_is_not_a_number():
  """It is refused if known beforehand, and 0 in a group that is too small."""
  scores = jnp.array([1.0, 0, 0, 1])
  for f in (best_of_k.pass_at_k_advantages, best_of_k.max_at_k_weights):
    with pytest.raises(ValueError, match=r"k = 5 .*1 to the 4 .*value is 4"):
      f(scores, 5)
    assert not f(scores, 3, jnp.array([True, True, False, False])).any()
  with pytest.raises(
    ValueError, match=r"k ?= ?5 .*(nearest:?|nearest valid value is) 4"
  ):
    metrics.pass_at_k_curve(scores[None], [5])


def test_best_of_n_is_resampled_with_replacement():
  """verl: 1 right of 4 reads 1 - (3/4)^4 = .684 as best@4. One of the 4 is."""
  right = jnp.array([[1.0, 0, 0, 0]])
  close(metrics.pass_at_k_curve(right, [1, 2, 4]), [0.25, 0.5, 1])
  close(metrics.max_at_k_curve(0.3 * right, [4]), 0.3)


# PURE.


def test_strict_minima_are_taken_over_padded_zeros(worked):
  """Released: the minimum over later tokens of the row, so never above 0."""
  t = chain(
    transforms.step_scores(),
    transforms.returns_to_go(reduce="min"),
    transforms.broadcast_steps(),
  )
  close(
    value(t, worked)[0],
    [[0.2] * 5 + [0.7] * 3, [0.6] * 6 + [0] * 2, [-0.5] * 2 + [0.9] * 6],
  )


def test_the_padded_length_is_silently_part_of_the_baseline(worked):
  """Released: row sums over the padded length, which then sets the scale.

  Padded to 12, the baseline is 8/12 of that at 8, unless L is given.
  """
  wide = group(WORKED_STEPS, WORKED_SCORES, WORKED_CORRECT, 12)
  narrow = advantages("min_form", worked)[0]
  close(advantages("min_form", wide, horizon=8)[0, :, :8], narrow)
  actual = advantages("min_form", wide)[0, :, :8]
  togo = np.asarray(returns(worked, 0.1))[0]
  close(np.where(worked.mask[0], togo - actual, 0), (togo - narrow) * 8 / 12)


def test_separators_are_found_by_an_advantage_of_zero(worked):
  """Released, so that they enter the variance and real zeros are left out.

  Here they are left out by their place: a zero inside a step is whitened.
  """
  inside = np.asarray(within_steps(worked))
  signal = np.where(inside, np.arange(8) - 2.0, 50.0)
  t = among(within_steps, transforms.whiten()).bind("token")
  got = np.asarray(t.apply(jnp.asarray(signal), worked, t.init())[0])
  x = signal[inside]
  assert (x == 0).any()
  close(got[inside], (x - x.mean()) / x.std(), atol=1e-5)
  assert not got[~inside].any()


# Gradients, not only values.


def test_a_loss_of_the_right_value_has_a_wrong_gradient():
  """At the first update rho is 1: the value is - mean A whatever the policy.

  The gradient is A (onehot - p) at every logit all the same.
  """
  m = methods.get("pass_at_k", k=2)
  rollout = tabular_policy.rollout()
  batch, scales, _ = method_loss.prepare(m, rollout, m.init())
  coefficient = method_loss.aggregation_weights(m, batch)

  def loss(params):
    return method_loss.loss(
      m, tabular_policy.policy, params, batch, coefficient, scales
    )[0]

  run = jax.jit(jax.value_and_grad(loss))
  want = -jnp.sum(coefficient[0] * batch.signals[0])
  for seed in (0, 1):
    params = tabular_policy.params(seed)
    actual, slope = run(params)
    close(actual, want)
    p = jax.nn.softmax(params["hidden"][..., : tabular_policy.V])
    score = jax.nn.one_hot(rollout.completions, tabular_policy.V) - p
    weight = (coefficient[0] * batch.signals[0])[..., None]
    close(slope["hidden"][..., : tabular_policy.V], -weight * score)
