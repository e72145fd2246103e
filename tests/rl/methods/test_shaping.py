"""Credit by token: entropy, certainty, key tokens, segments, hidden states."""

import functools
import itertools
from math import asin, comb, exp, log2, sqrt, tanh

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, tabular_policy, worked_example

from rl import methods, scoring, types
from rl.advantages import group_normalize
from rl.methods.shaping import erv, ktae, less, progrpo

erv = compiled.functions(erv)
ktae = compiled.functions(ktae)
progrpo = compiled.functions(progrpo)

close = functools.partial(np.testing.assert_allclose, atol=1e-6)
RAISED = np.array([[1.0, 0.5, 0.0, 0.2]])  # graded scores, verdicts as given


def group(tokens=None, correct=(1, 1, 0, 0), scores=None, t=3, **extras):
  """One group of whole samples; extras by probe, of the old policy."""
  s = len(correct)
  t = t if tokens is None else len(tokens[0])
  base = tabular_policy.rollout(p=1, s=s, t=t, k=1, ragged=False)
  tokens = np.zeros((1, s, t), int) if tokens is None else [tokens]
  correct = jnp.array([correct])
  actual = {
    f"old/{name}": jnp.broadcast_to(jnp.asarray(x, jnp.float32), (1, s, t))
    for name, x in extras.items()
  }
  return base.replace(
    tokens=base.tokens.replace(
      completions=jnp.asarray(tokens), mask=jnp.ones((1, s, t), bool)
    ),
    correct=correct.astype(jnp.int8),
    scores=(correct == 1) * 1.0 if scores is None else jnp.asarray(scores),
    finished=jnp.zeros((1, s), bool),
    extras=types.Named(actual),
  )


@functools.cache
def compiled(name, hyper):
  m = methods.get(name, **dict(hyper))
  return jax.jit(lambda r: m.advantage.apply(None, r, m.advantage.init())[0][0])


def advantage(name, rollout, **hyper):
  return np.asarray(compiled(name, tuple(hyper.items()))(rollout))


def z_score(rollout):
  return np.asarray(group_normalize(rollout.scores))[0]


# Neutral settings leave GRPO.


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("rl_zvp", {}),  # a mixed group
    ("entropy_adv", {"alpha": 0.0}),
    ("ucas", {"right": 0.0, "wrong": 0.0, "penalty": 0.0}),
  ],
)
def test_without_its_shaping_it_is_grpo(name, hyper):
  rng = np.random.default_rng(0)
  read = ("entropy", "certainty", "chosen_logit")
  rollout = group(
    scores=RAISED, **{x: rng.uniform(0, 2, (1, 4, 3)) for x in read}
  )
  want = np.repeat(z_score(rollout)[:, None], 3, 1)
  np.testing.assert_array_equal(advantage(name, rollout, **hyper), want)


# RL-ZVP.


@pytest.mark.parametrize(
  ("verdict", "want"), [(1, [0.01, 0.05, 0.2]), (0, [-0.19, -0.15, 0.0])]
)
def test_rl_zvp_credits_groups_without_variance_by_entropy(verdict, want):
  """H = [.1, .5, 2], alpha = .1."""
  rollout = group(correct=(verdict,) * 4, entropy=[0.1, 0.5, 2.0])
  close(advantage("rl_zvp", rollout, alpha=0.1), [want] * 4)


def test_rl_zvp_has_no_credit_for_an_unknown_or_disputed_group():
  for verdicts in ((-1, -1), (1, 0), (1, -1)):
    rollout = group(correct=verdicts, scores=[[0.5, 0.5]], entropy=1.0)
    assert not advantage("rl_zvp", rollout).any()


def test_nobody_is_compared_in_a_group_of_one():
  alone = jnp.array([[True, False, False, False]])
  for name, rollout in (
    ("rl_zvp", group(correct=(1,) * 4, entropy=[0.1, 0.5, 2.0])),
    ("progrpo", confident_answers((1, 1, 1, 1))),
  ):
    assert advantage(name, rollout).any()
    assert not advantage(name, rollout.replace(sample_mask=alone)).any()


def test_rl_zvp_does_not_blame_a_wrong_answer_of_one_token():
  rollout = group(correct=(0, 0), t=1, entropy=0.7)
  assert not advantage("rl_zvp", rollout).any()


# EMPG.


def stepped(entropy, ids):
  """Two samples of one token per entry; A is +-sqrt(1/2) each."""
  t = len(entropy)
  rollout = group(correct=(1, 0), t=t, entropy=entropy)
  ids = jnp.broadcast_to(jnp.array(ids), (1, 2, t))
  mask = jnp.arange(4) <= ids.max(-1, keepdims=True)
  return rollout.replace(step_ids=ids, step_mask=mask)


def test_empg_worked_by_hand():
  """h = [.2, .6, 1, .4]; the gains are read from the two samples' credit.

  A = (a, -a), so the gain is half the difference of the two samples' credit,
  divided by a, and half their sum is the centred bonus.
  """
  a = np.sqrt(0.5)
  got = advantage("empg", stepped([0.2, 0.6, 1.0, 0.4], [0, 1, 2, 3]))
  close((got[0] - got[1]) / 2 / a, [1.4529, 0.8812, 0.5345, 1.1315], atol=1e-4)
  bonus = np.array([1.5135, 0.9180, 0.6124, 1.1315]) - [
    1.4529,
    0.8812,
    0.5345,
    1.1315,
  ]
  close((got[0] + got[1]) / 2, bonus - bonus.mean(), atol=1e-4)


def test_empg_reads_the_mean_entropy_of_a_step_and_gives_it_to_its_tokens():
  rows = ([0.2, 0.6, 1.0, 0.4], [0, 1, 2, 3])
  apart = ([0.1, 0.3, 0.6, 1.5, 0.5, 0.4], [0, 0, 1, 2, 2, 3])
  want = advantage("empg", stepped(*rows))[:, apart[1]]
  close(advantage("empg", stepped(*apart)), want)


def test_empg_of_equal_entropies_or_without_gains_is_the_centred_advantage():
  """With one step there is no bonus; the mean over samples is subtracted."""
  a = group_normalize(jnp.array([1.0, 0.0]))
  for entropy, ids, hyper in (
    ([0.7, 0.7, 0.7], [0, 0, 0], {}),
    ([0.1, 0.7, 0.3], [0, 1, 2], {"k": 0.0, "zeta": 0.0}),
  ):
    got = advantage("empg", stepped(entropy, ids), **hyper)
    close(got, np.repeat(a[:, None], 3, 1))


def test_empg_says_that_it_needs_steps():
  rollout = group(entropy=1.0).replace(step_ids=None)
  with pytest.raises(ValueError, match="no steps"):
    advantage("empg", rollout)


# UCAS.


def test_the_certainty_of_ucas_is_the_kl_from_uniform():
  """logsumexp z - mean z = KL(uniform || pi) + log V."""
  m = methods.get("ucas")
  (need,) = (n for n in m.signal_needs if n.probe.name == "certainty")
  logits = jnp.array([[2.0, 0.0, -1.0, 0.5]])
  p = jax.nn.softmax(logits)
  kl = jnp.sum(0.25 * jnp.log(0.25 / p))
  close(need.probe.fn(logits, jnp.array([0]))[0], kl + np.log(4))


def test_ucas_pays_sure_right_answers_less_and_blames_sure_wrong_ones_more():
  """w = exp(-.25 c) where A > 0, exp(.35 c) elsewhere, c the z-score."""
  sure = np.array([1.0, 3.0, 1.0, 3.0])
  rollout = group(certainty=sure[:, None], chosen_logit=0.0)
  c = np.asarray(group_normalize(jnp.asarray(sure)))
  weight = np.exp(np.where(z_score(rollout) > 0, -0.25 * c, 0.35 * c))
  got = advantage("ucas", rollout, penalty=0.0)
  close(got, np.repeat((z_score(rollout) * weight)[:, None], 3, 1))
  assert got[1, 0] < got[0, 0]
  assert got[3, 0] < got[2, 0]
  # Equal logits are flat: every token pays half of the penalty.
  close(advantage("ucas", rollout), got - 0.5 * 0.05)


def test_the_penalty_of_ucas_spans_the_batch_and_never_turns_a_right_answer():
  logits = np.array([[0.0, 5.0, 10.0]] * 4)
  rollout = group(certainty=1.0, chosen_logit=logits)
  a = z_score(rollout)[:, None]
  got = advantage("ucas", rollout, penalty=2.0)
  want = np.where(a > 0, np.maximum(a - [0, 1, 2], 0), a - [0, 1, 2])
  close(got, want, atol=1e-5)


def test_the_length_is_certainty_only_where_the_sum_is_asked_for():
  """All tokens are alike; one of the right samples is shorter."""
  rollout = group(certainty=1.0, chosen_logit=0.0)
  mask = rollout.mask.at[0, 0, 1:].set(False)
  rollout = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  mean, total = (advantage("ucas", rollout, reduce=r) for r in ("mean", "sum"))
  assert mean[0, 0] == mean[1, 0]
  assert total[0, 0] > total[1, 0]
  with pytest.raises(ValueError, match="'mena'; did you mean 'mean'"):
    methods.get("ucas", reduce="mena")


# KTAE.


@pytest.mark.parametrize(
  ("a", "b", "want"),
  [(4, 0, 0.6432), (3, 1, 0.0741), (2, 2, 0.0), (0, 4, -0.6432)],
)
def test_the_bonus_of_a_key_token(a, b, want):
  """An id in a of 4 right and b of 4 wrong samples, worked by hand."""
  key, other = 7, 1
  rows = [[key if i < a else other, 3] for i in range(4)]
  rows += [[key if i < b else other, 3] for i in range(4)]
  rollout = group(rows, (1,) * 4 + (0,) * 4)
  bonus = advantage("ktae", rollout) - z_score(rollout)[:, None]
  holders = np.array(rows)[:, 0] == key
  close(bonus[holders, 0], want, atol=1e-4)
  close(bonus[~holders, 0], -want, atol=1e-4)  # in whom it is not
  close(bonus[:, 1], 0.0)  # everyone has it


def test_the_bonus_against_the_hypergeometric_law():
  """The two-sided p-value by adding binomials, for every table."""

  def bits(k, n):
    return -sum(x / n * log2(x / n) for x in (k, n - k) if x) if n else 0.0

  tables, want = [], []
  for right, wrong in ((3, 5), (6, 2), (1, 7), (7, 1), (8, 8)):
    n = right + wrong
    for a, b in itertools.product(range(right + 1), range(wrong + 1)):
      ways = [comb(right, x) * comb(wrong, a + b - x) for x in range(a + b + 1)]
      p = sum(w for w in ways if w <= ways[a]) / comb(n, a + b)
      fisher = exp(-2 * p) if p < 1 else 0.0
      left = (a + b) / n * bits(a, a + b)
      left += (n - a - b) / n * bits(right - a, n - a - b)
      x = asin(sqrt(a / right)) - asin(sqrt(b / wrong))
      tables.append((a, b, right, wrong))
      want.append(tanh((fisher + bits(right, n) - left) * x / 4))
  got = jax.jit(ktae.key_bonus, static_argnums=4)(
    *jnp.array(tables, jnp.float32).T, 8
  )
  close(got, want, atol=2e-5)


def test_a_token_is_present_once_however_often_it_is_written():
  """Counts by set membership, padding and unknown verdicts left out."""
  rng = np.random.default_rng(1)
  tokens, valid = rng.integers(0, 5, (6, 4)), rng.random((6, 4)) < 0.8
  kinds = np.array([[1, 0], [0, 1], [1, 0], [0, 0], [0, 1], [1, 0]])
  got = ktae.presence(jnp.asarray(tokens), jnp.asarray(valid), jnp.array(kinds))
  ids = [set(row[on]) for row, on in zip(tokens, valid, strict=True)]
  for s, t in zip(*np.nonzero(valid), strict=True):
    holds = np.array([tokens[s, t] in actual for actual in ids])
    np.testing.assert_array_equal(got[s, t], kinds[holds].sum(0))


def test_one_sided_groups_and_the_end_have_no_key_tokens():
  rows = [[1, 2], [1, 3], [4, 2], [5, 3]]
  for verdict in (0, 1):
    rollout = group(rows, (verdict,) * 4)
    assert not advantage("ktae", rollout).any()
  rollout = group(rows)
  ended = rollout.replace(finished=jnp.ones((1, 4), bool))
  got, cut = advantage("ktae", ended), advantage("ktae", rollout)
  np.testing.assert_array_equal(got[:, 0], cut[:, 0])
  close(got[:, 1], z_score(rollout))
  assert np.abs(cut[2:, 0] - z_score(rollout)[2:]).min() > 0.05


# LESS.

FLAT, PEAKS = [0.1] * 5, [2.0, 2.1]


def runs(*rows):
  """Samples of two low-entropy runs of five with two peaks in between."""
  tokens = np.array([[*first, 90, 91, *second] for first, second in rows])
  entropy = np.array([FLAT + PEAKS + FLAT] * len(rows))
  return tokens, entropy, np.ones(tokens.shape, bool)


def fives(start):
  return list(range(start, start + 5))


def test_segments_weigh_by_who_shares_them():
  """1 in both right ones, 0 in one of each, 1/2 in one alone."""
  a, b = fives(1), fives(6)
  actual = runs((a, b), (a, fives(30)), (b, fives(40)), (fives(50), fives(60)))
  weights = less.segment_weights(*actual, np.array([1, 1, 0, 0]), 5, 0.8)
  want = np.full((4, 12), 0.5)
  want[:2, :5] = 1.0  # a, shared by the right
  want[0, 7:] = want[2, :5] = 0.0  # b, in a right and a wrong one
  want[:, 6] = 1.0  # above the quantile; its equal is not
  np.testing.assert_array_equal(weights, want)


def test_the_smallest_shared_piece_counts_where_it_first_occurs():
  """The shorter of two nested pieces counts, at the first of two places."""
  tokens = np.array(
    [
      [1, 2, 3, 4, 5, 90, 91, 2, 3],
      [70, 71, 90, 91, 1, 2, 3, 4, 5],
      [2, 3, 90, 2, 3, 91, 60, 61, 62],
    ]
  )
  entropy = np.where(tokens >= 90, 2.0, 0.1)
  scored = np.ones(tokens.shape, bool)
  weights = less.segment_weights(
    tokens, entropy, scored, np.array([1, 1, 1]), 2, 0.8
  )
  third = np.float32(1 / 3)
  want = np.full(tokens.shape, third)
  want[0, 1:3] = want[1, 5:7] = want[2, :2] = 1.0
  np.testing.assert_array_equal(weights, want)


def test_constant_entropy_has_no_segments():
  tokens = np.array([fives(1), fives(1), fives(6)])
  entropy, scored = np.full((3, 5), 0.3), np.ones((3, 5), bool)
  weights = less.segment_weights(
    tokens, entropy, scored, np.array([1, 1, 0]), 2, 0.8
  )
  np.testing.assert_array_equal(weights, [[0.5] * 5, [0.5] * 5, [1.0] * 5])


def test_less_never_amplifies_and_leaves_unknown_verdicts_alone():
  rollout = tabular_policy.rollout(t=12)
  verdicts = rollout.correct.at[:, -3].set(-1)
  rng = np.random.default_rng(2)
  entropy = jnp.asarray(rng.uniform(0, 1, rollout.mask.shape), jnp.float32)
  rollout = rollout.replace(
    correct=verdicts, extras=types.Named({"old/entropy": entropy})
  )
  m = methods.get("less", mu=2)
  rollout = scoring.compute_on_host(m.signal_needs, rollout)
  got, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  a = np.asarray(group_normalize(rollout.scores, rollout.sample_mask))[
    ..., None
  ]
  a = np.where(rollout.valid("token"), a, 0.0)
  assert (np.abs(got) <= np.abs(a)).all()
  assert (np.abs(got) < np.abs(a)).any()
  np.testing.assert_array_equal(got[:, -3], a[:, -3])


# ProGRPO.


def test_confidence_is_the_mean_of_the_least_likely_fifth():
  log_probs = -np.arange(1.0, 11.0)[::-1].copy()
  mask = np.ones(10, bool)
  close(progrpo.confidence(log_probs, mask, 0.2), np.exp(-9.5))
  close(progrpo.confidence(log_probs[:5], mask[:5], 0.2), np.exp(-10.0))
  few = mask & (np.arange(10) > 7)
  close(progrpo.confidence(log_probs, few, 0.2), np.exp(-2.0))
  assert progrpo.confidence(log_probs, ~mask, 0.2) == 1.0


def confident_answers(correct):
  """Four answers of decreasing confidence to one prompt of three tokens."""
  lows = -np.arange(1.0, 5.0)[:, None]
  rollout = group(correct=correct, t=4, log_probs=np.tile(lows, (1, 4)))
  prompt = jnp.array([[[-0.5, -0.5, jnp.nan]]])
  tokens = rollout.tokens.replace(
    prompts=jnp.zeros((1, 4), int),
    prompt_mask=jnp.array([[False, True, True, True]]),
  )
  extras = rollout.extras.update({"old@prompt/log_probs": prompt})
  return rollout.replace(tokens=tokens, extras=extras)


def test_the_less_confident_of_two_right_answers_gains_more():
  """A + alpha (c(q) - c(o))."""
  rollout = confident_answers((1, 1, 0, 0))
  got = advantage("progrpo", rollout, alpha=0.3)
  gap = np.exp(-0.5) - np.exp(-np.arange(1.0, 5.0))
  close(got, z_score(rollout) + 0.3 * gap)
  assert got[1] > got[0]
  close(advantage("progrpo", rollout, alpha=0.0), z_score(rollout))


def test_unsolved_prompts_keep_the_advantage_of_grpo():
  """Solved prompts without variance do not: the correction is not 0 there."""
  assert not advantage("progrpo", confident_answers((0, 0, 0, 0))).any()
  assert advantage("progrpo", confident_answers((1, 1, 1, 1))).any()


# ERV.


def test_effective_rank_of_known_spectra():
  """1 for rank one, 3 for the centred identity of size 4."""

  def everyone(x):
    return erv.effective_rank(
      jnp.asarray(x, jnp.float32), jnp.ones(len(x), bool)
    )

  close(everyone(np.outer(np.arange(40.0), np.ones(8))), 1.0, atol=1e-5)
  close(everyone(np.eye(4)), 3.0, atol=1e-5)
  close(everyone(np.ones((5, 3))), 1.0)


@pytest.mark.parametrize("shape", [(9, 4), (5, 12)])
def test_effective_rank_by_gram_eigenvalues_is_that_of_the_svd(shape):
  rng = np.random.default_rng(3)
  hidden = rng.normal(size=shape)
  mask = np.arange(shape[0]) != 2
  centred = hidden[mask] - hidden[mask].mean(0)
  values = np.linalg.svd(centred, compute_uv=False)
  share = values[values > 1e-9] / values.sum()
  want = np.exp(-(share * np.log(share)).sum())
  dirty = jnp.asarray(np.where(mask[:, None], hidden, np.nan), jnp.float32)
  close(erv.effective_rank(dirty, jnp.asarray(mask)), want, rtol=1e-4)


def test_velocity_and_acceleration_of_the_prefixes():
  """Against the definition, prefix by prefix."""
  rng = np.random.default_rng(4)
  hidden = jnp.asarray(rng.normal(size=(10, 3)), jnp.float32)
  mask = jnp.arange(10) != 1  # nine tokens: prefixes of 3, 5, 7 and 9
  where = np.flatnonzero(mask)
  ranks = [
    float(erv.effective_rank(hidden[where[:n]], jnp.ones(n, bool)))
    for n in (3, 5, 7, 9)
  ]
  d = [ranks[j] - np.mean(ranks[:j]) for j in (1, 2, 3)]
  got, long = erv.rank_statistics(hidden, mask, 2)
  close(got, [np.mean(np.diff(d)), np.mean(d), ranks[-1]], rtol=1e-5, atol=1e-5)
  assert bool(long)
  assert not erv.rank_statistics(hidden, mask & (jnp.arange(10) < 5), 2)[1]


def with_hidden_states(seed):
  rng = np.random.default_rng(seed)
  rollout = tabular_policy.rollout(seed)
  hidden = jnp.asarray(rng.normal(size=(*rollout.mask.shape, 4)), jnp.float32)
  a = np.asarray(group_normalize(rollout.scores, rollout.sample_mask))
  return rollout.replace(extras=types.Named({"old/hidden": hidden})), a


def erv_steps(**hyper):
  """The compiled transform, and its first state."""
  t = methods.get("erv", **hyper).advantage
  return jax.jit(lambda r, state: t.apply(None, r, state)), t.init()


def test_the_first_rollout_is_grpo_and_later_ones_stay_within_half_of_a():
  run, state = erv_steps(stride=2)
  shaped = []
  for seed in range(4):
    rollout, a = with_hidden_states(seed)
    got, state = run(rollout, state)
    bonus = np.asarray(got) - a
    assert (bonus >= 0).all()
    assert (bonus <= np.abs(a) / 2 + 1e-6).all()
    assert not bonus[a == 0].any()
    shaped.append(bonus.any())
  assert shaped == [False, True, True, True]


def test_samples_shorter_than_two_prefixes_keep_their_advantage():
  run, state = erv_steps(stride=3)  # seven tokens make two prefixes
  _, state = run(with_hidden_states(0)[0], state)
  rollout, a = with_hidden_states(1)
  got, _ = run(rollout, state)
  short = np.asarray(rollout.scored_lengths) < 7
  np.testing.assert_array_equal(np.asarray(got)[short], a[short])


def test_the_shaping_of_erv_worked_by_hand():
  """Phi from the deviations of the second rollout against the first."""
  run, state = erv_steps(stride=2, kappa=0.01)  # the cap is out of the way
  (first, _), (rollout, a) = with_hidden_states(0), with_hidden_states(1)
  _, state = run(first, state)
  got, _ = run(rollout, state)

  measure = functools.partial(erv.rank_statistics, stride=2)
  measure = jax.jit(jax.vmap(jax.vmap(measure)))

  def statistics(r):
    actual = measure(r.extras["old/hidden"], r.valid("token"))
    return [np.asarray(x).reshape(-1, *x.shape[2:]) for x in actual]

  values, long = statistics(first)
  usual = values[long].mean(0)
  values, long = statistics(rollout)
  x = np.clip((values - usual) / (np.abs(usual) + 1e-8), -5, 5)
  explore = 1 / (1 + np.exp(-2 * x[:, 0]))
  phi = explore * np.tanh(x[:, 2]) + (1 - explore) * np.tanh(x[:, 1])
  a = a.ravel()
  want = a + np.where(long & (a != 0), np.maximum(phi, 0), 0)
  close(np.ravel(got), want, atol=1e-4)


# The entropy advantage.


def test_the_entropy_bonus_is_capped_by_a_share_of_the_advantage():
  """A + min(.4 H, |A| / 2): no sign changes; H = 0 and A = 0 change nothing."""
  rollout = group(scores=RAISED, entropy=[0.0, 0.5, 9.0])
  a = z_score(rollout)[:, None]
  got = advantage("entropy_adv", rollout)
  close(got, a + np.minimum([0.0, 0.2, 3.6], np.abs(a) / 2))
  np.testing.assert_array_equal(got[:, 0], a[:, 0])
  assert (np.sign(got) == np.sign(a)).all()
  flat = group(correct=(1, 1), entropy=[0.0, 0.5, 9.0])
  assert not advantage("entropy_adv", flat).any()


# EARL.


def trained_tokens(rollout, **hyper):
  keep = methods.get("earl", **hyper).loss_filter
  return worked_example.apply(keep, rollout)


def test_a_fifth_of_the_tokens_of_each_response_is_trained():
  """Two of ten tokens, one of three, all tied ones, and no padding."""
  ramp = np.arange(10) / 10
  entropy = np.array([ramp, ramp[::-1], np.full(10, 0.7), ramp])
  rollout = group(t=10, entropy=entropy)
  finished = jnp.ones((1, 4), bool)
  mask = rollout.mask.at[0, 3, 3:].set(False)
  rollout = rollout.replace(
    finished=finished, tokens=rollout.tokens.replace(mask=mask)
  )
  got = trained_tokens(rollout)[0]
  np.testing.assert_array_equal(np.flatnonzero(got[0]), [8, 9])
  np.testing.assert_array_equal(np.flatnonzero(got[1]), [0, 1])
  assert got[2].all()
  np.testing.assert_array_equal(np.flatnonzero(got[3]), [2])


def test_the_gate_over_the_batch_follows_the_batch():
  entropy = np.repeat([[0.1], [0.2], [0.3], [0.9]], 5, 1)
  rollout = group(t=5, entropy=entropy)
  rollout = rollout.replace(finished=jnp.ones((1, 4), bool))
  got = trained_tokens(rollout, scope="batch")[0]
  np.testing.assert_array_equal(got.any(-1), [False, False, False, True])
  assert got[3].all()
  # What is not trained sets no limit to what is: the last sample was cut off.
  cut = rollout.replace(finished=jnp.array([[True, True, True, False]]))
  got = trained_tokens(cut, scope="batch")[0]
  np.testing.assert_array_equal(got.any(-1), [False, False, True, False])
  with pytest.raises(ValueError, match="'bach'; did you mean 'batch'"):
    methods.get("earl", scope="bach")


def test_earl_of_all_tokens_is_dapo():
  rollout = tabular_policy.rollout()
  rollout = rollout.replace(
    extras=types.Named({"old/entropy": jnp.ones(rollout.mask.shape)})
  )
  dapo = methods.get("dapo")
  ours = methods.get("earl", rho=1.0, beta=0.0)
  want, _ = jax.jit(dapo.loss_filter.apply)(
    None, rollout, dapo.loss_filter.init()
  )
  np.testing.assert_array_equal(
    trained_tokens(rollout, rho=1.0), want[..., None] & rollout.valid("token")
  )
  pair = (ours.advantage, dapo.advantage)
  a, b = (jax.jit(t.apply)(None, rollout, t.init())[0] for t in pair)
  np.testing.assert_array_equal(a, b)
  assert [str(t) for t in ours.loss.terms] == [str(t) for t in dapo.loss.terms]
