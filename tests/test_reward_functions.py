"""Flaws, disentangled heads, patterns, controls, novelty and consistency.

What the cards say, worked by hand, by enumeration, or against plain numpy; and
for each reward what a null answer gets.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import (
  controls,
  dimensions,
  disentangled,
  flaws,
  hybrid,
  labelfree,
  novelty,
  patterns,
  spread,
)
from rewards.consistency import answer_consistency, restored
from rl import advantages

# FAPO.


def test_a_flaw_costs_what_it_weighs():
  correct = jnp.array([1, 1, 0, 0, -1])
  flawed = jnp.array([0, 1, 0, 1, 1])
  found = flaws.flaw_aware(correct, flawed)
  np.testing.assert_array_equal(found, [1, 0, -1, -1, -1])
  found = flaws.flaw_aware(correct, flawed, weight=0.5)
  np.testing.assert_array_equal(found, [1, 0.5, -1, -1, -1])
  with pytest.raises(ValueError, match="nearest: 2"):
    flaws.flaw_aware(correct, flawed, weight=3.0)


def test_without_flaws_it_is_the_signed_verdict():
  correct = jnp.array([1, 0, 1, 0])
  for flawed in (jnp.zeros(4), jnp.full(4, jnp.nan)):  # none, or no judge
    found = flaws.flaw_aware(correct, flawed)
    np.testing.assert_array_equal(found, 2 * correct - 1)
    np.testing.assert_allclose(
      advantages.group_normalize(found),
      advantages.group_normalize(correct.astype(jnp.float32)),
      atol=2e-6,
    )


@pytest.mark.parametrize("weight", [0.0, 1.0, 1.9])
def test_no_flaw_makes_a_wrong_answer_beat_a_right_one(weight):
  """Empty, stuffed or long: what is wrong has -1 whatever the judge says."""
  flawed = jnp.array([0.0, 0.5, 1.0, jnp.nan])
  right = flaws.flaw_aware(jnp.ones(4), flawed, weight)
  wrong = flaws.flaw_aware(jnp.array([0, 0, -1, -1]), flawed, weight)
  np.testing.assert_array_equal(wrong, -1)
  assert right.min() > -1


def test_a_flawed_answer_turns_bad_once_clean_ones_outnumber_wrong_ones():
  """The card: its advantage is positive while clean < wrong, 0 at equality."""
  for clean, flawed, wrong in itertools.product(range(5), (1, 2), range(5)):
    correct = jnp.array([1] * (clean + flawed) + [0] * wrong)
    marks = jnp.array([0] * clean + [1] * flawed + [0] * wrong)
    advantage = advantages.center(flaws.flaw_aware(correct, marks))[clean]
    assert np.sign(np.round(float(advantage), 6)) == np.sign(wrong - clean)


def test_the_judge_of_flaws_is_paid_by_distance():
  truth = jnp.array([-1, -1, 2, 2, 2, 2, 2])
  named = jnp.array([-1, 0, -1, 2, 0, 3, 9])
  found = flaws.located(named, truth, jnp.int32(4))
  np.testing.assert_allclose(found, [1, -1, -1, 1, 0.5, 0.75, -1])
  unread = flaws.located(named, truth, jnp.int32(4), jnp.zeros(7, bool))
  np.testing.assert_array_equal(unread, -1)


def test_the_weakness_of_the_judges_pay_is_to_find_nothing():
  """With three of four solutions clean, "no error" earns 1/2 on average."""
  truth = jnp.array([-1, -1, -1, 1])
  lazy = flaws.located(jnp.full(4, -1), truth, jnp.int32(5))
  np.testing.assert_allclose(lazy.mean(), 0.5)
  assert (flaws.located(truth, truth, jnp.int32(5)) == 1).all()


# ODIN.


def test_correlation_is_pearsons():
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(2, 30, 2))
  y += 0.5 * x
  mask = rng.random((30, 2)) < 0.7
  found = disentangled.correlation(jnp.asarray(x), jnp.asarray(y), mask)
  np.testing.assert_allclose(
    found, np.corrcoef(x[mask], y[mask])[0, 1], rtol=1e-5
  )
  flat = jnp.full((30, 2), 0.1)
  assert disentangled.correlation(jnp.asarray(x), flat) == 0
  slope = jax.grad(lambda x: disentangled.correlation(x, flat))(jnp.asarray(x))
  np.testing.assert_array_equal(slope, 0)
  one = jnp.zeros((30, 2), bool).at[0, 0].set(True)
  assert disentangled.correlation(jnp.asarray(x), jnp.asarray(y), one) == 0


def test_the_parts_of_odins_loss():
  q = jnp.array([[2.0, 1.0], [0.0, 3.0]])
  zero = jnp.zeros((2, 2))
  across, along = jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])
  total, parts = disentangled.loss(q, zero, q, across, along)
  np.testing.assert_allclose(parts["length"], 1.0, rtol=1e-6)  # q is length
  assert parts["overlap"] == 0
  expected = np.mean(np.log1p(np.exp([-1.0, 3.0])))
  np.testing.assert_allclose(parts["preference"], expected, rtol=1e-6)
  np.testing.assert_allclose(total, expected + 1, rtol=1e-6)
  _, parts = disentangled.loss(-q, zero, q, across, -3 * across)
  np.testing.assert_allclose(parts["length"], 1.0, rtol=1e-6)
  np.testing.assert_allclose(parts["overlap"], 1.0, rtol=1e-6)
  _, parts = disentangled.loss(zero, q, q, across, along)
  np.testing.assert_allclose(parts["length"], -1.0, rtol=1e-6)
  _, parts = disentangled.loss(q, q, jnp.full((2, 2), 7), across, along)
  assert parts["length"] == 0  # of one length nothing can be said
  plain, _ = disentangled.loss(
    q, q, q, across, across, length_weight=0.0, orthogonal_weight=0.0
  )
  np.testing.assert_allclose(
    plain, np.mean(np.log1p(np.exp([-2.0, 6.0]))), rtol=1e-6
  )


def test_odins_masked_pairs_are_not_there():
  rng = np.random.default_rng(1)
  q, l, n = (jnp.asarray(x, jnp.float32) for x in rng.normal(size=(3, 6, 2)))
  w = jnp.asarray(rng.normal(size=(2, 5)), jnp.float32)
  mask = jnp.arange(6) < 4
  dirty = [jnp.where(mask[:, None], x, jnp.nan) for x in (q, l, n)]

  def value(q, l, n):
    return disentangled.loss(q, l, n, *w, mask=mask)[0]

  short = disentangled.loss(q[:4], l[:4], n[:4], *w)[0]
  np.testing.assert_allclose(value(*dirty), short, rtol=1e-6)
  slopes = jax.grad(value, (0, 1))(*dirty)
  assert all(np.isfinite(x).all() and not x[4:].any() for x in slopes)


def test_the_quality_head_is_rid_of_length():
  """People like both quality and length; the paid head keeps the first.

  The features show both, mixed by a rotation.
  """
  rng = np.random.default_rng(2)
  quality, size = rng.normal(size=(2, 2000, 2))
  swap = rng.random(2000) > 1 / (
    1 + np.exp(-((quality + size) @ np.array([1.0, -1.0])) * 2)
  )
  order = np.where(swap[:, None], [1, 0], [0, 1])
  quality, size = (np.take_along_axis(x, order, 1) for x in (quality, size))
  turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
  features = jnp.asarray(np.stack([quality, size], -1) @ turn, jnp.float32)
  size = jnp.asarray(size, jnp.float32)

  def fit(weight):
    def value(w):
      scores = jnp.moveaxis(features @ w.T, -1, 0)
      return disentangled.loss(
        *scores,
        size,
        *w,
        length_weight=weight,
        orthogonal_weight=weight,
      )[0]

    def step(w, _):
      return w - 0.2 * jax.grad(value)(w), None

    start = jnp.asarray([[0.3, 0.1], [-0.1, 0.2]])
    w, _ = jax.lax.scan(step, start, length=800)
    paid = features @ w[0]
    return tuple(
      abs(float(disentangled.correlation(paid, jnp.asarray(x, jnp.float32))))
      for x in (quality, size)
    )

  good, length = fit(1.0)
  assert good > 0.97
  assert length < 0.1
  _, plain = fit(0.0)
  assert plain > 0.5


# Patterns of reasoning.

PHRASES = patterns.spelled([[[7], [17]], [[8, 9]], [[9, 8, 9]]])
USER = patterns.spelled([[[3, 4]]])


def text(*tokens, room=12):
  tokens = jnp.asarray(tokens, jnp.int32)
  padded = jnp.pad(tokens, (0, room - len(tokens)), constant_values=7)
  return padded, jnp.int32(len(tokens))


def pattern_score(*tokens, **hyper):
  return float(
    patterns.reasoning_patterns(*text(*tokens), PHRASES, USER, **hyper)
  )


def test_occurrences_against_a_scan_of_the_list():
  rng = np.random.default_rng(3)
  tokens = rng.integers(7, 11, (50, 12))
  lengths = rng.integers(0, 13, 50)
  found = jax.jit(patterns.occurrences)(
    jnp.asarray(tokens), jnp.asarray(lengths), PHRASES
  )
  for row, n, counts in zip(tokens, lengths, found, strict=True):
    seen = list(row[:n])
    for phrase, count in zip(PHRASES, counts, strict=True):
      spellings = [[t for t in one if t >= 0] for one in phrase]
      expected = sum(
        any(one and seen[i : i + len(one)] == one for one in spellings)
        for i in range(n)
      )
      assert count == expected


def test_the_score_of_patterns_by_hand():
  """hits / enough, less what is repeated, less what others say."""
  np.testing.assert_allclose(pattern_score(7, 1, 17, 2, enough=4), 0.25)
  np.testing.assert_allclose(pattern_score(9, 8, 9, 2, enough=4), 0.5)
  np.testing.assert_allclose(pattern_score(7, 8, 9, enough=2), 1.0)
  # 5 bigrams of which 2 are different: (7, 1) and (1, 7).
  np.testing.assert_allclose(
    pattern_score(7, 1, 7, 1, 7, 1, repeated=2, enough=1), 0.4, rtol=1e-6
  )
  np.testing.assert_allclose(
    pattern_score(7, 1, 2, 1, 2, 5, repeated=2, enough=1), 0.8
  )
  assert pattern_score(7, 8, 9, 3, 4, enough=2) == 0  # "user:"


def test_no_answer_scores_nothing_and_neither_do_null_texts():
  tokens, n = text(7, 8, 9)
  gated = patterns.reasoning_patterns(
    tokens, n, PHRASES, answered=jnp.array(False), enough=2
  )
  assert gated == 0
  nulls = {"empty": (), "constant": (1,) * 12, "echo": (2, 5, 6)}
  for null in nulls.values():
    assert pattern_score(*null, enough=2) == 0


def test_the_weakness_of_patterns_is_a_list_of_them():
  assert pattern_score(7, 9, 8, 9, enough=3) == 1
  rewards = patterns.instead_of_nothing(jnp.array([0, 1]), jnp.array([1.0, 0]))
  np.testing.assert_allclose(rewards, [0.1, 1.0])  # but right stays best
  raised = patterns.calibrated(jnp.array([0.49, 0.5]), jnp.array([1.0, 1.0]))
  assert raised[0] > raised[1]  # of a model's scores it does not


def test_calibration_of_low_scores():
  found = patterns.calibrated(
    jnp.array([0.2, 0.45, 0.5, 0.9]), jnp.array([1.0, 0.5, 1.0, jnp.nan])
  )
  np.testing.assert_allclose(found, [0.3, 0.5, 0.5, 0.9], rtol=1e-6)


def test_phrases_need_tokens():
  with pytest.raises(ValueError, match="spelling"):
    patterns.spelled([[[1], []]])
  with pytest.raises(ValueError, match="spelling"):
    patterns.spelled([])
  with pytest.raises(ValueError, match="spelling"):
    patterns.spelled([[[1]], []])  # a phrase that nobody can write
  with pytest.raises(ValueError, match="token id -1"):
    patterns.spelled([[[1], [5, -1, 3]]])


# Controls.


def keys(n, seed=0):
  return jax.random.split(jax.random.key(seed), n)


def test_flipped_groups_of_no_and_of_sure_noise():
  correct = jnp.array([[1, 0, 0], [0, 1, 1]])
  same = controls.flipped_groups(correct, keys(2), 0.0)
  np.testing.assert_array_equal(same, correct)
  turned = controls.flipped_groups(correct, keys(2), 1.0)
  np.testing.assert_array_equal(turned, 1 - correct)
  np.testing.assert_allclose(
    advantages.center(turned), -advantages.center(same), atol=1e-6
  )


def test_what_nobody_judged_is_paid_nothing_turned_or_not():
  correct = jnp.array([[1, -1, 0], [-1, -1, -1]])
  for p, expected in ((0.0, [1, 0, 0]), (1.0, [0, 0, 1])):
    found = controls.flipped_groups(correct, keys(2), p)
    np.testing.assert_array_equal(found, [expected, [0, 0, 0]])


def test_no_two_controls_share_a_draw():
  """Fair coins of one sample, and turns of one wrong sample, by one key."""
  n = 20000
  coins = np.asarray(controls.coins(keys(n), 1))[:, 0]
  turned = controls.flipped_groups(jnp.zeros((n, 1), int), keys(n), 0.5)
  uniform = jax.vmap(jax.random.uniform)(keys(n))  # what others may draw
  others = [np.asarray(turned)[:, 0], np.asarray(uniform)]
  for other in others:
    assert abs(np.corrcoef(coins, other)[0, 1]) < 5 / np.sqrt(n)
  assert abs(np.corrcoef(*others)[0, 1]) < 5 / np.sqrt(n)


def test_flipped_groups_expect_what_the_card_says():
  """(1 - 2 p) ok + p within five standard errors; whole groups turn."""
  p, n = 0.3, 20000
  correct = jnp.broadcast_to(jnp.array([1, 0, 1]), (n, 3))
  found = np.asarray(controls.flipped_groups(correct, keys(n), p))
  expected = (1 - 2 * p) * np.array([1, 0, 1]) + p
  error = 5 * np.sqrt(p * (1 - p) / n)
  np.testing.assert_allclose(found.mean(0), expected, atol=error)
  turned = found != np.asarray(correct)
  assert (turned.all(1) | ~turned.any(1)).all()


def test_coins_are_fair_independent_and_blind():
  n, p = 20000, 0.3
  found = np.asarray(controls.coins(keys(n), 3, p))
  error = 5 * np.sqrt(p * (1 - p) / n)
  np.testing.assert_allclose(found.mean(0), p, atol=error)
  np.testing.assert_allclose(
    np.corrcoef(found.T), np.eye(3), atol=5 / np.sqrt(n)
  )
  # By prompt and sample: neither the batch nor the group's size matters.
  np.testing.assert_array_equal(
    controls.coins(keys(n)[5:7], 2, p), found[5:7, :2]
  )
  assert (controls.coins(keys(4), 3, 1.0) == 1).all()
  with pytest.raises(ValueError, match="nearest: 1"):
    controls.coins(keys(1), 1, 1.5)


@pytest.mark.parametrize(
  "baseline", [advantages.leave_one_out, advantages.group_normalize]
)
def test_coins_teach_nothing_on_average(baseline):
  """The advantage of each of four coins has mean 0, to 5 standard errors."""
  n = 20000
  found = np.asarray(baseline(controls.coins(keys(n), 4)))
  assert found.std(0).min() > 0.4
  error = 5 * found.std(0) / np.sqrt(n)
  assert (np.abs(found.mean(0)) < error).all()
  alone = baseline(controls.coins(keys(8), 1))
  np.testing.assert_array_equal(alone, 0)


def test_a_wrong_vote_is_the_label_of_those_who_err_alike():
  ids = jnp.array([[0, 5, 5, 3], [2, 2, 2, 2], [4, -1, -1, 1]])
  correct = jnp.array([[1, 0, 0, 0], [1, 1, 1, 1], [-1, 0, 0, 0]])
  labels = controls.wrong_vote(ids, correct)
  np.testing.assert_array_equal(labels, [5, -1, 1])
  found = labelfree.agreement(ids, labels)
  np.testing.assert_array_equal(
    found, [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
  )
  assert not (found * (correct == 1)).any()  # a right answer earns nothing


def test_the_opposite_charges_for_what_was_paid():
  valid = jnp.array([True, True, True, False])
  rewards = jnp.array([1.0, 0.0, 0.25, jnp.nan])
  found = controls.opposite(rewards, valid)
  np.testing.assert_allclose(found, [0, 1, 0.75, 0])
  paid = advantages.center(jnp.where(valid, rewards, 0), valid)
  np.testing.assert_allclose(advantages.center(found, valid), -paid, atol=1e-6)


def test_formats_and_talk_of_code():
  """5 is the word, 6 opens and closes code."""
  word, fence = patterns.spelled([[[5]]]), patterns.spelled([[[6]]])
  cases = {
    (1, 5, 2): 1,
    (1, 6, 5, 6): 0,
    (6, 1, 6, 5): 1,
    (6, 5): 0,
    (1, 2): 0,
    (): 0,
  }
  for tokens, expected in cases.items():
    assert patterns.says(*text(*tokens), word, fence) == expected
    assert patterns.says(*text(*tokens), word) == (5 in tokens)


# Random network distillation.


next_bonus = jax.jit(novelty.next_bonus, static_argnames=("gamma", "rate"))


def stream(batches, share=1.0, rate=1e-2, d=4, **hyper):
  """Bonuses of batches `[N, K, D]`, one after another."""
  state = novelty.init(jax.random.key(0), d, width=16, outputs=8)
  found = []
  for i, batch in enumerate(batches):
    bonus, state = next_bonus(
      state,
      jnp.asarray(batch, jnp.float32),
      jnp.ones(batch.shape[:-1], bool),
      jax.random.key(i),
      share=share,
      rate=rate,
      **hyper,
    )
    found.append(np.asarray(bonus))
  return found, state


def test_what_is_seen_again_and_again_is_no_longer_new():
  rng = np.random.default_rng(4)
  batch = rng.normal(size=(16, 1, 4))
  found, state = stream([batch] * 300)
  assert found[-1].mean() < 0.02 * found[0].mean()
  other = 3 + rng.normal(size=(16, 1, 4))
  bonus, _ = novelty.next_bonus(
    state,
    jnp.asarray(np.concatenate([batch, other]), jnp.float32),
    jnp.ones((32, 1), bool),
    jax.random.key(1),
  )
  assert bonus[16:].min() > 5 * bonus[:16].max()


def test_the_scale_is_the_deviation_of_all_discounted_sums():
  """Offline over the stream, by a loop; nothing is learned meanwhile."""
  rng = np.random.default_rng(5)
  batches = [rng.normal(size=(8, 3, 4)) * (1 + i) for i in range(4)]
  batches[2][3, 1] = 1e3  # over 5 deviations off in every channel: clipped
  gamma = 0.9
  found, state = stream(batches, rate=0.0, gamma=gamma)
  sums = []
  for i, batch in enumerate(batches):
    seen = np.concatenate([b.reshape(-1, 4) for b in batches[: i + 1]])
    x = (batch - seen.mean(0)) / seen.std(0)
    x = jnp.asarray(np.clip(x, -5, 5), jnp.float32)
    raw = np.asarray(novelty.errors(state, x))
    so_far = np.zeros(8)
    for k in range(3):
      so_far = gamma * so_far + raw[:, k]
      sums.append(so_far)
    expected = raw / np.concatenate(sums).std()
    np.testing.assert_allclose(found[i], expected, rtol=1e-4)


def test_without_a_share_nothing_is_learned():
  rng = np.random.default_rng(12)
  start = novelty.init(jax.random.key(0), 4, width=16, outputs=8)
  _, state = stream([rng.normal(size=(8, 2, 4)) for _ in range(3)], share=0.0)
  jax.tree.map(
    np.testing.assert_array_equal,
    *((s.target, s.predictor, s.adam) for s in (state, start)),
  )
  assert state.observations.count[0] == 3 * 16  # but they were seen


def test_a_first_batch_of_one_kind_is_finite():
  found, _ = stream([np.ones((4, 1, 4))] * 2)
  assert all(np.isfinite(x).all() for x in found)


def test_masked_observations_are_not_seen():
  rng = np.random.default_rng(6)
  batch = rng.normal(size=(6, 2, 4))
  mask = rng.random((6, 2)) < 0.6
  state = novelty.init(jax.random.key(0), 4)
  args = jnp.asarray(mask), jax.random.key(1)
  clean = novelty.next_bonus(state, jnp.asarray(batch), *args, share=1.0)
  dirty = np.where(mask[..., None], batch, np.nan)
  again = novelty.next_bonus(state, jnp.asarray(dirty), *args, share=1.0)
  jax.tree.map(np.testing.assert_array_equal, again, clean)
  assert not clean[0][~mask].any()
  nobody = jnp.zeros_like(args[0])
  bonus, same = novelty.next_bonus(state, jnp.asarray(dirty), nobody, args[1])
  assert not bonus.any()
  jax.tree.map(np.testing.assert_array_equal, same, state)


def test_novelty_never_makes_a_wrong_answer_beat_a_right_one():
  rng = np.random.default_rng(7)
  correct = jnp.asarray(rng.integers(0, 2, (50, 8)))
  bonus = jnp.asarray(rng.exponential(size=(50, 8)) * 100, jnp.float32)
  found = np.asarray(hybrid.stratified(correct, bonus))
  assert found[correct == 1].min() > found[correct == 0].max()
  for row, right, new in zip(found, correct, bonus, strict=True):
    for kind in (0, 1):
      mine = np.asarray(right == kind)
      order = np.argsort(np.asarray(new)[mine])
      assert (np.diff(row[mine][order]) >= 0).all()


# Answer consistency.


def test_lines_of_the_consistency_reward():
  first = jnp.array([2, 2, 1, 1, -1, 2])
  second = jnp.array([2, 0, 1, 0, -1, -1])
  correct = jnp.array([1, 1, 0, 0, 0, 1])
  found = answer_consistency(first, second, correct, consistent_wrong=0.2)
  np.testing.assert_allclose(found, [1, 0.5, 0.2, 0, 0, 0.5])
  skipped = answer_consistency(first, second, correct, jnp.zeros(6, bool))
  np.testing.assert_array_equal(skipped, 0)


ORDERS = np.array(list(itertools.permutations(range(4))))


def test_who_follows_the_options_gets_the_top_value_under_every_shuffle():
  for truth in range(4):
    place = np.argsort(ORDERS, -1)[:, truth]  # where the option went
    again = restored(jnp.asarray(place), jnp.asarray(ORDERS))
    np.testing.assert_array_equal(again, truth)
    found = answer_consistency(jnp.full(24, truth), again, jnp.ones(24, int))
    np.testing.assert_array_equal(found, 1.0)


def test_who_follows_the_letter_is_found_out():
  """Always the first option, right by luck: caught in 18 of 24 shuffles."""
  again = restored(jnp.zeros(24, int), jnp.asarray(ORDERS))
  found = answer_consistency(jnp.zeros(24, int), again, jnp.ones(24, int))
  assert (found == 0.5).sum() == 18
  assert (restored(jnp.array([-1, 4]), jnp.asarray(ORDERS[:2])) == -1).all()


def test_consistency_s_null_audit():
  """Nothing that is wrong beats, in all, what is right."""
  for first, second, correct in itertools.product(
    (-1, 0, 1), (-1, 0, 1), (0, -1)
  ):
    null = answer_consistency(*(jnp.array(x) for x in (first, second, correct)))
    assert null + 0 < 1 + 0.5  # accuracy and the least of r_c


# A narrow band, stretched.


def test_stretching_keeps_the_order_and_has_width_1():
  rng = np.random.default_rng(8)
  scores = jnp.asarray(0.8 + 0.01 * rng.random((20, 6)), jnp.float32)
  valid = jnp.asarray(rng.random((20, 6)) < 0.8).at[:, :2].set(True)
  found = np.asarray(spread.stretched(scores, valid))
  for s, f, v in zip(scores, found, valid, strict=True):
    s, f = np.asarray(s)[v], f[v]
    np.testing.assert_array_equal(np.argsort(s), np.argsort(f))
    np.testing.assert_allclose((f.min(), f.max()), (0, 1), atol=1e-6)
  assert not found[~np.asarray(valid)].any()


def test_a_constant_group_is_not_stretched_and_little_not_by_much():
  for group in (jnp.full(4, 0.3), jnp.full(4, 0.3).at[2].set(jnp.nan)):
    valid = jnp.isfinite(group)
    np.testing.assert_array_equal(spread.stretched(group, valid), 0)
  narrow = jnp.array([0.5, 0.51])
  np.testing.assert_allclose(
    spread.stretched(narrow, least=0.1), [0, 0.1], rtol=1e-4
  )


def test_stretching_comes_with_progress():
  scores = jnp.array([0.8, 0.82, 0.81])

  def blended(progress):
    return spread.stretched_with_progress(scores, progress)

  np.testing.assert_array_equal(blended(0.0), scores)
  np.testing.assert_allclose(blended(1.0), [0, 1, 0.5], atol=1e-4)
  np.testing.assert_allclose(blended(9.0), blended(1.0))
  np.testing.assert_allclose(
    blended(0.25), 0.75 * scores + 0.25 * blended(1.0), rtol=1e-5
  )


def test_the_variance_of_each_group_is_numpys():
  rng = np.random.default_rng(11)
  scores, valid = rng.normal(size=(6, 5)), rng.random((6, 5)) < 0.7
  valid[0] = False
  dirty = jnp.asarray(np.where(valid, scores, np.nan))
  found = spread.group_variance(dirty, jnp.asarray(valid))
  for s, v, f in zip(scores, valid, found, strict=True):
    np.testing.assert_allclose(f, s[v].var() if v.any() else 0, rtol=1e-5)
  np.testing.assert_array_equal(spread.group_variance(jnp.full(7, 0.1)), 0)


def test_the_weakness_of_stretching_is_noise():
  """A hair's breadth between two scores becomes the whole scale."""
  hair = jnp.array([0.5, 0.5 + 1e-6])
  np.testing.assert_allclose(spread.stretched(hair), [0, 1])


# Dimensions.


def test_one_hot_weights_recover_each_side():
  rng = np.random.default_rng(9)
  confidence, coherence = (jnp.asarray(x) for x in rng.normal(size=(2, 3, 5)))
  relevances = jnp.asarray(rng.normal(size=(3, 5, 3)))
  asked = jnp.broadcast_to(jnp.array([True, True, False]), (3, 5, 3))
  relevances = jnp.where(asked, relevances, jnp.nan)
  sides = confidence, relevances[..., :2].mean(-1), coherence
  for i, side in enumerate(sides):
    weights = tuple(float(i == j) for j in range(3))
    found = dimensions.dimension_level(
      confidence, relevances, coherence, weights, asked
    )
    np.testing.assert_allclose(
      found, advantages.group_normalize(side), atol=2e-5
    )


def test_no_side_is_swamped_by_the_scale_of_another():
  rng = np.random.default_rng(10)
  confidence, coherence = (jnp.asarray(x) for x in rng.normal(size=(2, 2, 6)))
  relevances = jnp.asarray(rng.normal(size=(2, 6, 3)))
  plain = dimensions.dimension_level(confidence, relevances, coherence)
  scaled = dimensions.dimension_level(
    100 * confidence + 7, 0.1 * relevances, coherence
  )
  np.testing.assert_allclose(scaled, plain, atol=1e-4)


def test_the_weakness_of_dimensions_is_fluent_nonsense():
  """Wrong and high on all sides beats right and clumsy; half of it does not."""
  sides, correct = jnp.array([0.9, 0.1]), np.array([0.0, 1.0])
  found = dimensions.dimension_level(sides, jnp.stack([sides] * 3, -1), sides)
  alone, added = np.asarray(found), correct + 0.5 * np.asarray(found)
  assert alone[0] > alone[1]
  assert added[1] > added[0]
