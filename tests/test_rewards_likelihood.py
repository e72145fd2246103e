"""Rewards of likelihood and of confidence, on vocabularies one can enumerate."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import confidence, likelihood, self_aligned, variational

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


@pytest.mark.parametrize(
  ("reward", "expected"),
  [
    (likelihood.mean_probability, [0.5, 0.5]),
    (likelihood.probability, [0.09, 0.25]),
    (likelihood.log_probability, [-2.407946, -1.386294]),
    (likelihood.mean_log_probability, [-1.203973, -0.693147]),
    (likelihood.group_log_mean_advantages, [-0.385662, 0.635989]),
  ],
)
def test_the_family_s_numbers(reward, expected):
  np.testing.assert_allclose(reward(LOGS, MASK), expected, atol=1e-5)


def test_the_log_of_the_mean_is_at_least_the_mean_of_the_logs():
  value = likelihood.group_log_mean(LOGS, MASK)
  np.testing.assert_allclose(value, -1.771957, atol=1e-5)
  rng = np.random.default_rng(0)
  logs = jnp.asarray(rng.normal(-3, 2, (50, 6, 4)), jnp.float32)
  mask = jnp.ones(logs.shape, bool)
  mean = likelihood.log_probability(logs, mask).mean(-1)
  assert (likelihood.group_log_mean(logs, mask) >= mean - 1e-5).all()


def test_one_token_makes_all_probabilities_the_same():
  one = MASK & (jnp.arange(2) == 0)
  np.testing.assert_array_equal(
    likelihood.probability(LOGS, one), likelihood.mean_probability(LOGS, one)
  )


def test_long_references_do_not_underflow_in_log_space():
  logs = jnp.full((3, 400), -2.0).at[0, 0].set(-1.0)
  mask = jnp.ones(logs.shape, bool)
  assert (likelihood.probability(logs, mask) == 0).all()
  gained = likelihood.group_log_mean_advantages(logs, mask)
  expected = np.log((np.e + 2) / 3)
  np.testing.assert_allclose(gained[0], expected, atol=2e-4)
  assert (gained[1:] < 0).all()


def test_a_group_of_one_has_no_others():
  gained = likelihood.group_log_mean_advantages(LOGS[:1], MASK[:1])
  np.testing.assert_array_equal(gained, 0)


def test_verifree_is_the_exact_gradient():
  """E_z[p grad log pi(z) + p grad log p(a|z)] is grad E_z[p], enumerated.

  The leave-one-out baseline must not move it: all pairs of thoughts.
  """
  rng = np.random.default_rng(1)
  params = {
    "thought": jnp.asarray(rng.normal(size=3), jnp.float32),
    "answer": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
  }
  answer = 2

  def logs(params):
    thought = jax.nn.log_softmax(params["thought"])
    return thought, jax.nn.log_softmax(params["answer"], -1)[:, answer]

  def value(params):
    thought, reference = logs(params)
    return jnp.sum(jnp.exp(thought + reference))

  def estimate(params, pair):
    thought, reference = logs(params)
    rows = jnp.array(pair)
    mask = jnp.ones((2, 1), bool)
    ended = jnp.ones(2, bool)
    weights = likelihood.verifree(reference[rows][:, None], mask, ended)
    return jnp.mean(
      weights.thought * thought[rows] + weights.reference * reference[rows]
    )

  exact = jax.grad(value)(params)
  chance = np.exp(logs(params)[0])
  total = jax.tree.map(jnp.zeros_like, exact)
  for pair in itertools.product(range(3), repeat=2):
    one = jax.grad(estimate)(params, pair)
    weight = chance[pair[0]] * chance[pair[1]]
    total = jax.tree.map(lambda a, b, w=weight: a + w * b, total, one)
  for ours, theirs in zip(
    jax.tree.leaves(total), jax.tree.leaves(exact), strict=True
  ):
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_thought_without_an_end_is_worth_nothing():
  weights = likelihood.verifree(LOGS, MASK, jnp.array([True, False]))
  np.testing.assert_allclose(weights.reference, [0.09, 0], rtol=1e-5)
  np.testing.assert_allclose(weights.thought, [0.09, -0.09], rtol=1e-5)


def test_rlpr_takes_off_what_needs_no_thought():
  found = likelihood.debiased_probability(LOGS, MASK, 0.3, 1.0)
  np.testing.assert_allclose(found, 0.9 * 0.2 + 0.1, rtol=1e-5)
  worse = likelihood.debiased_probability(LOGS, MASK, 0.8, 1.0)
  np.testing.assert_allclose(worse, 0.1)  # never below the format's share
  plain = likelihood.debiased_probability(LOGS, MASK, 0.0, 0.0, 0.0)
  np.testing.assert_allclose(plain, likelihood.mean_probability(LOGS, MASK))


def test_groups_of_little_spread_are_left_out():
  rewards = jnp.array([[0.0, 1.0], [0.5, 0.6], [0.5, 0.5]])
  kept, mean = likelihood.spread_enough(rewards, 1.0, 0.5)
  np.testing.assert_array_equal(kept, [True, False, False])
  spreads = np.std(rewards, axis=-1, ddof=1)
  np.testing.assert_allclose(mean, spreads.mean(), rtol=1e-6)
  assert likelihood.spread_enough(rewards, 1.0, 0.0)[0].all()


def test_followups_of_both_kinds_exchanged_negate():
  rng = np.random.default_rng(2)
  good = jnp.asarray(rng.normal(-2, 1, (5, 2, 3, 4)), jnp.float32)
  bad = jnp.asarray(rng.normal(-2, 1, (5, 2, 2, 6)), jnp.float32)
  here, there = jnp.ones(good.shape, bool), jnp.ones(bad.shape, bool)
  there = there.at[:, 1, 1].set(False)  # a follow-up that is not there
  value = likelihood.followup_likelihood(good, here, bad, there)
  swapped = likelihood.followup_likelihood(bad, there, good, here)
  np.testing.assert_allclose(value, -swapped, atol=1e-6)
  by_hand = np.asarray(good).mean((2, 3)) - np.stack(
    [bad[:, 0].mean((1, 2)), bad[:, 1, 0].mean(1)], 1
  )
  np.testing.assert_allclose(value, by_hand.mean(1), rtol=1e-5)


def test_a_model_that_does_not_read_the_answer_gives_a_constant():
  logs = jnp.broadcast_to(jnp.array([-1.0, -2.0]), (4, 1, 2, 2))
  mask = jnp.ones(logs.shape, bool)
  value = likelihood.followup_likelihood(logs, mask, 2 * logs, mask)
  assert jnp.ptp(value) == 0


def test_the_weakness_is_to_state_the_answer():
  """A copied answer is likelier than any reasoned one, right or wrong."""
  copied = jnp.log(jnp.full((1, 4), 0.999))
  reasoned = jnp.log(jnp.full((1, 4), 0.8))
  mask = jnp.ones((1, 4), bool)
  for reward in (likelihood.probability, likelihood.mean_probability):
    assert reward(copied, mask) > reward(reasoned, mask)


# CoVRL.

PRIOR = np.array([0.6, 0.3, 0.1])
POSTERIOR = np.array([0.1, 0.2, 0.7])


def test_the_divergence_is_unbiased_and_never_negative():
  """Both forms' expectations are KL(p' || p), over a vocabulary of three."""
  composite = (PRIOR + POSTERIOR) / 2
  exact = np.sum(composite * np.log(composite / PRIOR))
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  for from_prior, chance in ((True, PRIOR), (False, POSTERIOR)):
    each = variational.divergence(
      prior, posterior, jnp.full(3, from_prior), mask
    )[:, 0]
    assert (each >= 0).all()
    np.testing.assert_allclose(np.sum(chance * each), exact, rtol=1e-5)


def test_equal_templates_are_on_policy():
  logs = jnp.log(PRIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  for alpha in (0.0, 0.3, 1.0):
    ratio = variational.log_ratios(logs, logs, logs, logs, mask, alpha)
    np.testing.assert_allclose(ratio, 0, atol=1e-6)
  same = variational.divergence(logs, logs, jnp.ones(3, bool), mask)
  np.testing.assert_allclose(same, 0, atol=1e-6)
  with pytest.raises(ValueError, match=r"alpha = 2 .* nearest: 1"):
    variational.log_ratios(logs, logs, logs, logs, mask, 2.0)


def test_the_ratio_is_the_composite_over_what_sampled():
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  found = variational.log_ratios(posterior, prior, prior, posterior, mask, 0.2)
  behavior = 0.2 * PRIOR + 0.8 * POSTERIOR
  expected = np.log((PRIOR + POSTERIOR) / 2 / behavior)
  np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)


def test_each_template_learns_by_its_share_of_the_composite():
  """d log p' / d log p = p / (p + q)."""
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)

  def total(new):
    return variational.log_ratios(new, posterior, prior, posterior, mask).sum()

  found = jax.grad(total)(jnp.asarray(prior, jnp.float32))[:, 0]
  np.testing.assert_allclose(found, PRIOR / (PRIOR + POSTERIOR), rtol=1e-5)


# Confidence.


def test_entropy_s_ends():
  mask = jnp.ones((2, 4), bool)
  entropies = jnp.stack([jnp.zeros(4), jnp.full(4, jnp.log(32.0))])
  found = confidence.negative_entropy(entropies, mask)
  np.testing.assert_allclose(found, [0, -np.log(32)], rtol=1e-6)
  answered = jnp.array([False, True])
  found = confidence.negative_entropy(entropies, mask, answered)
  np.testing.assert_allclose(found, [-7, -np.log(32)], rtol=1e-6)
  empty = confidence.negative_entropy(entropies, jnp.zeros((2, 4), bool))
  np.testing.assert_array_equal(empty, -7)


def test_self_certainty_of_three_words():
  logits = jnp.log(jnp.array([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])) + 5
  found = confidence.divergence_from_uniform(logits)
  np.testing.assert_allclose(found, [0.324287, 0], atol=1e-5)
  mean = confidence.self_certainty(found, jnp.array([True, True]))
  np.testing.assert_allclose(mean, 0.324287 / 2, atol=1e-5)


def test_borda_is_a_majority_at_0_and_the_surest_at_infinity():
  answers = jnp.array([3, 3, 5, 5, 5, -1, 8])
  sure = jnp.array([0.9, 0.8, 0.1, 0.2, 0.3, 9.0, 0.95])
  majority = confidence.borda_votes(sure, answers, 0.0)
  np.testing.assert_allclose(majority, [2, 2, 3, 3, 3, 0, 1])
  surest = confidence.borda_votes(sure, answers, jnp.inf)
  assert jnp.argmax(surest) == 6
  # Ranks 5, 4, 1, 2, 3, 6 of 6 (6 the surest), answers 3: (5 + 4) / 6.
  linear = confidence.borda_votes(sure, answers, 1.0)
  np.testing.assert_allclose(
    linear, np.array([9, 9, 6, 6, 6, 0, 6]) / 6, rtol=1e-6
  )


def test_confidence_of_an_answer_is_its_probability():
  logs = jnp.log(jnp.array([[0.5, 0.25, 0.9], [1.0, 1.0, 1.0]]))
  mask = jnp.array([[False, True, False], [False, True, True]])
  found = confidence.answer_confidence(logs, mask)
  np.testing.assert_allclose(found, [0.25, 1.0], rtol=1e-6)
  nothing = confidence.answer_confidence(logs, jnp.zeros((2, 3), bool))
  np.testing.assert_array_equal(nothing, 0)
  # A mean of probabilities, not a geometric one.
  both = confidence.answer_confidence(logs[:1], jnp.ones((1, 3), bool))
  np.testing.assert_allclose(both, (0.5 + 0.25 + 0.9) / 3, rtol=1e-6)


def test_pairs_of_right_and_wrong():
  gaps, pairs = confidence.confidence_gaps(
    jnp.array([0.9, 0.5, 0.7, 0.1]), jnp.array([1, 0, 0, -1])
  )
  assert pairs.sum() == 2
  np.testing.assert_allclose(gaps[0], [0, 0.4, 0.2, 0], atol=1e-6)
  assert (gaps[1:] == 0).all()


def test_confident_errors_cost_most():
  logs = jnp.log(jnp.array([0.5, 0.8, 0.99, 0.01]))[:, None]
  mask = jnp.ones((4, 1), bool)
  right = confidence.clipped_confidence(jnp.ones(4), logs, mask)
  wrong = confidence.clipped_confidence(jnp.zeros(4), logs, mask)
  np.testing.assert_allclose(right, [0.5, 0.8, 0.9, 0.1], rtol=1e-6)
  np.testing.assert_allclose(wrong, -right)
  plain = confidence.clipped_confidence(
    jnp.array([1, 0, 0, 1]), logs, mask, 1.0, 1.0
  )
  np.testing.assert_array_equal(plain, [1, -1, -1, 1])
  unsigned = confidence.clipped_confidence(
    jnp.zeros(4), logs, mask, wrong_weight=0.0
  )
  np.testing.assert_array_equal(unsigned, 0)
  with pytest.raises(ValueError, match=r"low = 0.9 and high = 0.1"):
    confidence.clipped_confidence(jnp.ones(4), logs, mask, 0.9, 0.1)


def test_entropy_of_thought_and_answer():
  entropies = jnp.array([[0.8, 0.8, 9.0, 0.3, 0.3, 5.0]])
  mask = jnp.arange(6) < 5
  completions = jnp.array([[4, 4, 7, 4, 4, 7]])
  end = confidence.first_position(completions, mask, 7)
  assert end == 2
  reward = confidence.phase_entropy
  np.testing.assert_allclose(
    reward(jnp.array([1]), entropies, mask, end), 0.5, rtol=1e-6
  )
  assert reward(jnp.array([0]), entropies, mask, end, 0.25) == 0.25
  assert reward(jnp.array([1]), entropies, mask, end, alpha=9.0) == 1
  same = jnp.full((1, 6), 0.4)
  np.testing.assert_allclose(reward(jnp.array([1]), same, mask, end), 1)
  # Without a marker all of it is thought.
  missing = confidence.first_position(completions, mask, 99)
  assert missing == 6
  found = reward(jnp.array([1]), same, mask, missing)
  np.testing.assert_allclose(found, 0.6, rtol=1e-6)


def test_the_weakness_of_confidence_is_degenerate_text():
  """Certain repetition beats a correct answer: there is no truth in it."""
  loop = jnp.full((1, 50), 0.001)
  careful = jnp.full((1, 50), 0.6)
  mask = jnp.ones((1, 50), bool)
  reward = confidence.negative_entropy
  assert reward(loop, mask) > reward(careful, mask)


def test_alignment_s_numbers():
  given = -jnp.log(jnp.array([[2.0], [12.0], [3.0], [1e30]]))
  alone = -jnp.log(jnp.array([[5.0], [5.0], [3.0], [1.0]]))
  mask = jnp.ones((4, 1), bool)
  found = self_aligned.alignment(given, alone, mask)
  np.testing.assert_allclose(found, [0.6, -1, 0, -1], atol=1e-6)
  total = self_aligned.self_aligned(jnp.array([1, 0, 1, 0]), given, alone, mask)
  np.testing.assert_allclose(total, [1.12, -0.2, 1, -0.2], atol=1e-6)
  gradient = jax.grad(lambda x: self_aligned.alignment(x, alone, mask).sum())
  assert np.isfinite(gradient(given)).all()


def test_an_echo_never_beats_a_right_answer():
  """The echo's alignment is at its bound; the verdict still outweighs it."""
  logs, alone = jnp.array([[0.0], [-9.0]]), jnp.array([[-50.0], [-9.0]])
  mask = jnp.ones((2, 1), bool)
  echo, right = self_aligned.self_aligned(jnp.array([0, 1]), logs, alone, mask)
  assert echo < right
  terms = self_aligned.alignment(logs, alone, mask)
  assert terms[0] > terms[1]  # the weakness of the term alone
