"""Rewards of steps and turns, and how they are tied to the outcome."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rewards import gates, hybrid, progress, turns
from rl import advantages, credit

# Gates.


def test_levels_count_behind_those_above_them():
  rewards = jnp.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
  mask = jnp.ones(2, bool)
  thresholds = jnp.array([0.0, 0.5, 0.5])

  def run(*levels):
    return gates.gated_accumulation(
      rewards, jnp.array(levels, jnp.float32), thresholds, mask
    )

  np.testing.assert_array_equal(run(0, 1, 1), [111, 222])
  np.testing.assert_array_equal(run(1, 1, 0), [100, 200])
  np.testing.assert_array_equal(run(1, 0, 1), [110, 220])
  np.testing.assert_array_equal(run(1, 1, jnp.nan), [100, 200])


def test_a_higher_threshold_never_adds():
  rng = np.random.default_rng(0)
  rewards = jnp.asarray(rng.uniform(size=(50, 3, 4)), jnp.float32)
  levels = jnp.asarray(rng.uniform(size=(50, 3)), jnp.float32)
  mask = jnp.ones((50, 4), bool)
  previous = jnp.inf
  for threshold in (-1.0, 0.3, 0.6, 2.0):
    total = gates.gated_accumulation(
      rewards, levels, jnp.full(3, threshold), mask
    ).sum(-1)
    assert (total <= previous + 1e-6).all()
    previous = total
  np.testing.assert_allclose(previous, rewards[:, 2].sum(-1), rtol=1e-6)


def test_a_thought_counts_where_the_answer_is_right():
  correct, thought = jnp.array([1, 0, 1]), jnp.array([0.7, 0.9, 0.2])
  found = gates.posterior(correct, thought, jnp.array([1, 1, 0]))
  np.testing.assert_allclose(found, [2.7, 1, 1.2], rtol=1e-6)
  # A perfect thought never makes a wrong answer beat a right one.
  assert gates.posterior(0, 1.0, 1.0) < gates.posterior(1, 0.0, 1.0)
  constant = gates.posterior(correct, jnp.full(3, 0.4))
  np.testing.assert_allclose(
    advantages.group_normalize(constant),
    advantages.group_normalize(correct.astype(jnp.float32)),
    atol=1e-5,
  )


def test_conciseness_is_bounded_and_needs_a_right_answer():
  c = jnp.linspace(0.1, 1, 10)
  right = gates.concise(jnp.ones(10), c, 0.5, 0.3, alpha=0.4)
  np.testing.assert_allclose(right, 1 + 0.4 * c * 0.8, rtol=1e-6)
  assert right.max() <= 1 + 0.4 * 0.8 + 1e-6
  np.testing.assert_array_equal(gates.concise(jnp.zeros(10), c), 0)
  plain = gates.concise(jnp.array([1, 0]), jnp.array([0.1, 1.0]), alpha=0.0)
  np.testing.assert_array_equal(plain, [1, 0])


# Verifier and model.

OK = jnp.array([1, 1, 0, 0])
MODEL = jnp.array([2.0, 1.0, 0.5, -1.0])


def test_strata_have_the_paper_s_numbers():
  found = hybrid.stratified(OK, MODEL, 0.1, 0.1)
  np.testing.assert_allclose(found, [1.1, 0.9, 0.1, -0.1], atol=1e-5)
  weight = hybrid.prompt_weights(MODEL, 1.0)
  np.testing.assert_allclose(jnp.std(MODEL), 1.0825, atol=1e-4)
  np.testing.assert_allclose(weight, 2.0155, atol=1e-3)


def test_strata_do_not_overlap_and_do_not_see_the_scale():
  rng = np.random.default_rng(1)
  model = jnp.asarray(rng.normal(size=(200, 8)), jnp.float32)
  correct = jnp.asarray(rng.integers(0, 2, (200, 8)))
  found = hybrid.stratified(correct, model, 0.4, 0.5)
  right = jnp.where(correct == 1, found, jnp.inf).min(-1)
  wrong = jnp.where(correct == 0, found, -jnp.inf).max(-1)
  assert (right > wrong).all()
  moved = hybrid.stratified(correct, 5 * model - 3, 0.4, 0.5)
  np.testing.assert_allclose(moved, found, atol=2e-4)
  plain = hybrid.stratified(correct, model, 0.0, 0.0)
  np.testing.assert_array_equal(plain, correct)
  alone = hybrid.stratified(jnp.array([1, 0]), jnp.array([3.0, 4.0]), 0.1, 0.1)
  np.testing.assert_allclose(alone, [0.9, -0.1], rtol=1e-6)


def test_a_weight_per_prompt_cancels_in_a_z_score():
  """Why `prompt_weights` belongs on advantages."""
  scores = hybrid.stratified(OK, MODEL)
  np.testing.assert_allclose(
    advantages.group_normalize(3.0 * scores),
    advantages.group_normalize(scores),
    atol=1e-4,
  )


def test_trust_s_numbers():
  outcomes = jnp.array([1.0, 1.0, 0.0, 0.0])
  thoughts = jnp.array([0.3, 0.5, 0.6, 0.8])
  np.testing.assert_allclose(
    hybrid.trust(outcomes, thoughts), 0.740818, rtol=1e-5
  )
  for step, weight in ((0, 0.222245), (500, 0.081760)):
    found = hybrid.trusted(outcomes, thoughts, step)
    np.testing.assert_allclose(
      found, outcomes + weight * thoughts, rtol=1e-5, atol=1e-6
    )
  late = hybrid.trusted(outcomes, thoughts, 10**6)
  np.testing.assert_array_equal(late, outcomes)
  agreeing = hybrid.trusted(outcomes, thoughts[::-1], 0)
  np.testing.assert_allclose(agreeing, outcomes + 0.3 * thoughts[::-1])


def test_no_thought_makes_a_wrong_answer_beat_a_right_one():
  """0.3 of a thought is less than an outcome; the audit's keyword-stuffer."""
  outcomes, thoughts = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
  right, wrong = hybrid.trusted(outcomes, thoughts, 0)
  assert right > wrong
  right, wrong = hybrid.stratified(outcomes, 1e6 * thoughts)
  assert right > wrong


# Turns.


def test_a_potential_moves_no_optimum():
  """On a two-step bandit the exact policy gradient is unchanged."""
  rng = np.random.default_rng(2)
  logits = jnp.asarray(rng.normal(size=(3, 2)), jnp.float32)  # state, action
  rewards = jnp.asarray(rng.normal(size=(2, 2, 2)), jnp.float32)  # a, b, step
  potential = jnp.asarray(rng.normal(size=3), jnp.float32)  # start, after a

  def value(logits, phi):
    policy = jax.nn.softmax(logits, -1)
    total = 0.0
    for a, b in itertools.product(range(2), repeat=2):
      shaped = turns.shape_by_potential(
        rewards[a, b], jnp.stack([phi[0], phi[1 + a]]), jnp.ones(2, bool)
      )
      total += policy[0, a] * policy[1 + a, b] * shaped.sum()
    return total

  plain, shaped = (
    jax.grad(value)(logits, phi) for phi in (0 * potential, potential)
  )
  np.testing.assert_allclose(shaped, plain, atol=1e-6)
  moved = value(logits, potential) - value(logits, 0 * potential)
  np.testing.assert_allclose(moved, -potential[0], atol=1e-6)


def test_information_gain_s_numbers():
  before = jnp.array([0.1, 0.3, 0.2])
  mask = jnp.ones(3, bool)
  found = turns.information_gain(before, mask, 1.0)
  np.testing.assert_allclose(found, [0.2, -0.1, 1.0], atol=1e-6)
  returns = credit.returns_to_go(found, mask)
  np.testing.assert_allclose(returns, [1.1, 0.9, 1.0], atol=1e-6)
  alone = turns.information_gain(before, jnp.arange(3) < 1, 0.7)
  np.testing.assert_allclose(alone, [0.7, 0, 0], rtol=1e-6)
  idle = turns.information_gain(jnp.full(3, 0.4), mask, 0.0)
  np.testing.assert_array_equal(idle, 0)


def test_steps_of_a_group_are_normalised_together():
  rng = np.random.default_rng(3)
  rewards = jnp.asarray(rng.normal(size=(4, 5)), jnp.float32)
  mask = jnp.asarray(rng.random((4, 5)) < 0.7)
  found = turns.normalize_in_group(rewards, mask)
  every = np.asarray(rewards)[np.asarray(mask)]
  expected = (every - every.mean()) / every.std()
  np.testing.assert_allclose(found[mask], expected, rtol=1e-4, atol=1e-5)
  flat = turns.normalize_in_group(jnp.full((4, 5), 0.1), mask)
  np.testing.assert_array_equal(flat, 0)
  # One step per sample is the group's z-score.
  one = turns.normalize_in_group(rewards[:, :1], jnp.ones((4, 1), bool))
  np.testing.assert_allclose(
    one[:, 0], advantages.group_normalize(rewards[:, 0], ddof=0), atol=1e-5
  )


def test_turns_are_paid_against_the_outcome():
  scores = jnp.array([0.5, 0.8, 0.9])
  mask = jnp.ones(3, bool)
  right = turns.outcome_centered(scores, mask, 1)
  np.testing.assert_allclose(right, [0.5, 0.8, 1], rtol=1e-6)
  wrong = turns.outcome_centered(scores, mask, 0)
  np.testing.assert_allclose(wrong, [-0.5, -0.2, 0], rtol=1e-6)
  unread = turns.outcome_centered(scores, mask, 0, judged=jnp.zeros(3, bool))
  np.testing.assert_array_equal(unread, [-1, -1, 0])
  alone = turns.outcome_centered(scores, jnp.arange(3) < 1, 1)
  np.testing.assert_array_equal(alone, [1, 0, 0])
  # A balanced judge of a balanced task pays nothing on the mean.
  p = jnp.linspace(0, 1, 11)[:, None] * jnp.ones(2)
  both = [turns.outcome_centered(p, jnp.ones(2, bool), o) for o in (0, 1)]
  np.testing.assert_allclose(jnp.stack(both)[..., 0].mean(), 0, atol=1e-6)


def test_critiques_vote_in_nested_sets():
  rng = np.random.default_rng(4)
  named = jnp.asarray(rng.random((100, 4, 6)) < 0.5)
  parsed = jnp.asarray(rng.random((100, 4)) < 0.7).at[0].set(False)
  share = turns.critique_share(named, parsed)
  votes = {name: rule(share) for name, rule in turns.VOTES.items()}
  assert (votes["intersection"] <= votes["majority"]).all()
  assert (votes["majority"] <= votes["union"]).all()
  assert (votes["union"][0] == 0).all()  # nothing could be read
  for row in range(1, 100):
    read = np.asarray(named[row])[np.asarray(parsed[row])]
    if len(read):
      np.testing.assert_array_equal(votes["union"][row], read.any(0))
      np.testing.assert_array_equal(votes["intersection"][row], read.all(0))
      np.testing.assert_array_equal(
        votes["majority"][row], read.sum(0) * 2 >= len(read)
      )


def test_tokens_of_wrong_steps_are_charged():
  ids = jnp.array([[0, 0, 1, -1], [0, 1, 1, 1]])
  errors = jnp.array([[0.0, 1.0], [1.0, 0.0]])
  found = turns.outcome_minus_errors(jnp.array([1, 0]), errors, ids)
  np.testing.assert_array_equal(found, [[2, 2, 1, 0], [-1, 0, 0, 0]])
  # Without the process part, and at one length, it is GRPO at every token.
  whole = jnp.zeros((2, 3), jnp.int32)
  plain = turns.outcome_minus_errors(
    jnp.array([1, 0]), errors, whole, process_weight=0.0
  )
  z = turns.normalize_in_group(plain, whole >= 0)
  expected = advantages.group_normalize(jnp.array([2.0, 0.0]), ddof=0)
  np.testing.assert_allclose(z, expected[:, None] * jnp.ones(3), rtol=1e-5)


def test_attribution_recovers_what_each_turn_brings():
  """The loss's minimum is the least-squares one; the sum then holds."""
  rng = np.random.default_rng(5)
  worth = np.array([0.5, -0.2, 0.1, 0.4])
  present = rng.random((200, 4)) < 0.6
  outcomes = (present * worth).sum(1)

  def loss(c):
    contributions = jnp.broadcast_to(c, present.shape)
    return turns.attribution_loss(
      contributions, jnp.asarray(present), outcomes
    ).mean()

  c = jnp.zeros(4)
  hessian, gradient = jax.jit(
    lambda c: (jax.hessian(loss)(c), jax.grad(loss)(c))
  )(c)
  c = c - jnp.linalg.solve(hessian, gradient)  # exact: it is quadratic
  np.testing.assert_allclose(c, worth, atol=1e-5)
  np.testing.assert_allclose(loss(c), 0, atol=1e-9)


def test_attributed_rewards_and_their_weakness():
  mask = jnp.arange(6) < 5
  found = turns.attributed(jnp.full(6, 0.1), jnp.ones(6), mask)
  np.testing.assert_allclose(found, [0.6] * 5 + [0], rtol=1e-6)
  # Idle accepted actions collect: five of them beat one that succeeds.
  idle = turns.attributed(jnp.zeros(6), jnp.ones(6), mask).sum()
  assert idle > turns.attributed(jnp.ones(6), jnp.ones(6), jnp.arange(6) < 1)[0]


# Progress.


def test_progress_of_the_best_of_four():
  chance = progress.best_of(jnp.array([0.2, 0.5]), 4)
  np.testing.assert_allclose(chance, [0.5904, 0.9375], rtol=1e-6)
  gain = progress.gains(chance[1:], chance[0], jnp.ones(1, bool))
  np.testing.assert_allclose(gain, 0.3471, rtol=1e-5)


def test_the_best_of_k_on_a_chain():
  """1 - (1 - V)^K is the chance that one of K independent tries succeeds."""
  v, k = 0.3, 3
  total = 0.0
  for tries in itertools.product((0, 1), repeat=k):
    weight = np.prod([v if t else 1 - v for t in tries])
    total += weight * max(tries)
  np.testing.assert_allclose(progress.best_of(v, k), total, rtol=1e-6)


def test_own_gains_are_advantages():
  """On a tabular chain E over actions of V(next) - V is 0 in every state."""
  rng = np.random.default_rng(6)
  policy = rng.dirichlet(np.ones(3), size=4)
  after = rng.random((4, 3))
  value = (policy * after).sum(1)
  gain = progress.gains(
    jnp.asarray(after, jnp.float32)[..., None],
    jnp.asarray(value, jnp.float32)[:, None],
    jnp.ones((4, 3, 1), bool),
  )[..., 0]
  np.testing.assert_allclose((policy * gain).sum(1), 0, atol=1e-6)


def test_steps_after_the_answer_is_known_gain_nothing():
  after = jnp.array([0.5, 1.0, 1.0, 0.75])
  gain = progress.gains(after, 0.25, jnp.ones(4, bool))
  np.testing.assert_allclose(gain, [0.25, 0.5, 0, -0.25], atol=1e-6)


def test_clear_gains_reach_back_to_the_steps_before():
  gain = jnp.array([0.0, 0.05, 0.4, 0.0, 0.0, 0.0, 0.0, -0.5])
  mask = jnp.ones(8, bool)
  found = progress.significant_gains(gain, mask, 0.1, 0.5, 2, -0.01)
  expected = [0.1, 0.2, 0.4, -0.01, -0.01, -0.125, -0.25, -0.5]
  np.testing.assert_allclose(found, expected, rtol=1e-6)
  # Known from the start: no gain, and only the charge.
  idle = progress.significant_gains(jnp.zeros(8), mask, idle=-0.01)
  np.testing.assert_allclose(idle, -0.01)


def test_thoughts_in_closed_form_are_sums_of_their_rewards():
  """Labels alternate after merging; suffix sums of rewards plus the outcome."""
  for right, o, labels in (
    (True, 1.0, [1, 0, 1]),
    (True, 0.5, [0, 1]),
    (False, -0.8, [1, 0, 1]),
    (False, -0.8, [0, 1, 0, 1]),
  ):
    accuracy = 0.5
    rewards = [
      ((accuracy if label else -accuracy) if right else (o if label else -o))
      for label in labels
    ]
    rewards[-1] = 0.0  # the last thought carries the outcome alone
    suffix = np.cumsum(rewards[::-1])[::-1] + o
    found = progress.judged_thoughts(
      o, int(right), jnp.array(labels, bool), jnp.ones(len(labels), bool), 0.5
    )
    if labels[-1]:
      np.testing.assert_allclose(found, suffix, atol=1e-6)


def test_a_tree_of_two_levels():
  leaves = jnp.array([[1.0, 0.0], [0.0, 0.0]])
  here = jnp.ones((2, 2), bool)
  nodes = progress.node_values(leaves, here)
  np.testing.assert_array_equal(nodes, [0.5, 0])
  np.testing.assert_allclose(
    progress.node_values(nodes, here[0]), leaves.mean()
  )
  found = progress.sibling_advantages(leaves, here)
  np.testing.assert_allclose(found, [[1, -1], [0, 0]], atol=1e-5)
  scale = np.sqrt(0.25 * 0.75)
  np.testing.assert_allclose(
    progress.sibling_advantages(nodes, here[0]),
    np.array([0.25, -0.25]) / scale,
    rtol=1e-5,
  )
  missing = progress.sibling_advantages(leaves, here.at[0, 1].set(False))
  np.testing.assert_array_equal(missing, 0)
