"""Baselines and scales of a group: the advantages of the methods in `group`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import method_loss, methods, types
from rl.losses import aggregates
from rl.methods.group.riskpo import mixed_risk, track_quantiles
from rl.methods.group.unlikeliness import discount_likely
from rl.update_plan import Plan


def groups(scores, lengths=None, **extras):
  """Groups with these scores, whose samples have these numbers of tokens."""
  scores = np.atleast_2d(np.asarray(scores, np.float32))
  p, s = scores.shape
  lengths = np.ones((p, s)) if lengths is None else np.atleast_2d(lengths)
  t = int(np.max(lengths))
  base = tabular_policy.rollout(p=p, s=s, t=t, k=1, ragged=False)
  mask = jnp.asarray(np.arange(t) < lengths[..., None])
  return base.replace(
    tokens=base.tokens.replace(mask=mask),
    scores=jnp.asarray(scores),
    correct=jnp.asarray(scores > 0, jnp.int8),
    extras=types.Named({k: jnp.asarray(v) for k, v in extras.items()}),
  )


def advantage(name, rollout, **hyper):
  """The advantage of a method at its first rollout."""
  return worked_example.advantages(methods.get(name, **hyper), rollout)


def tokens(values):
  """`[P, S]` as `[P, S, 1]`, for samples of one token."""
  return np.asarray(values, np.float32)[..., None]


def z_score(scores, ddof=1):
  scores = np.asarray(scores, np.float64)
  spread = scores.std(-1, ddof=ddof, keepdims=True)
  return (scores - scores.mean(-1, keepdims=True)) / spread


# Baselines.


def test_the_worked_group_of_four():
  """Worked by hand: R = 1, 0, 0, 0 with lengths 10, 20, 30, 40."""
  rollout = groups([1, 0, 0, 0], [10, 20, 30, 40])
  for name, hyper, want in (
    ("grpo", {"ddof": 0}, [1.732, -0.577, -0.577, -0.577]),
    ("grpo", {"ddof": 1}, [1.5, -0.5, -0.5, -0.5]),
    ("dr_grpo", {}, [0.75, -0.25, -0.25, -0.25]),
    ("rloo", {}, [1, -1 / 3, -1 / 3, -1 / 3]),
    ("opo", {}, [0.9, -0.1, -0.1, -0.1]),
  ):
    got = advantage(name, rollout, **hyper)
    np.testing.assert_allclose(got, [want], atol=5e-4, err_msg=name)


def test_the_z_score_of_verdicts_weighs_prompts_by_their_difficulty():
  """A = sqrt((1 - p) / p) of a right sample, - sqrt(p / (1 - p)) of a wrong."""
  for right in range(1, 8):
    p = right / 8
    got = advantage("grpo", groups([1] * right + [0] * (8 - right)), ddof=0)
    np.testing.assert_allclose(got[0, 0], np.sqrt((1 - p) / p), rtol=1e-4)
    np.testing.assert_allclose(got[0, -1], -np.sqrt(p / (1 - p)), rtol=1e-4)


def test_the_z_score_does_not_see_an_affine_change():
  rollout = tabular_policy.rollout(ragged=False)
  changed = rollout.replace(scores=3 * rollout.scores - 5)
  for name in ("grpo", "qae", "lite_ppo"):
    np.testing.assert_allclose(
      advantage(name, changed), advantage(name, rollout), atol=1e-4
    )


def test_remax_needs_no_second_sample():
  """The greedy score comes from another completion; the group is not read."""
  rollout = groups(
    [[1, 9], [0, 9], [0, 9]], **{"sampler/greedy_scores": [0.0, 1.0, 0.0]}
  )
  alone = jnp.array([[True, False]] * 3)
  got = advantage("remax", rollout.replace(sample_mask=alone))
  np.testing.assert_array_equal(got[:, 0], [1, -1, 0])
  assert methods.get("remax").sampler.name == "greedy()"


def test_the_length_weighted_advantages_of_opo_cancel():
  """sum_i l_i A_i = 0; with equal lengths they are those of Dr. GRPO."""
  rollout = tabular_policy.rollout()
  weights = np.where(rollout.sample_mask, rollout.scored_lengths, 0)
  total = (weights * advantage("opo", rollout)).sum(-1)
  np.testing.assert_allclose(total, 0, atol=1e-5)
  even = groups(tabular_policy.rollout(ragged=False).scores)
  np.testing.assert_allclose(
    advantage("opo", even), advantage("dr_grpo", even), atol=1e-6
  )


def test_gpg_rescales_by_the_share_that_is_informative():
  """Scores 1, 0, 0, 1 have alpha 2 by scores and 1 by groups."""
  centred = np.array([[0.5, -0.5, -0.5, 0.5]])
  one = groups([1, 0, 0, 1])
  np.testing.assert_allclose(advantage("gpg", one, count="scores"), 2 * centred)
  np.testing.assert_allclose(advantage("gpg", one), centred)
  # B / (B - M): two of three groups say nothing.
  three = groups([[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
  got = advantage("gpg", three)
  np.testing.assert_allclose(got[:1], 3 * centred)
  assert not got[1:].any()
  nothing = groups(np.zeros((2, 4)))
  assert not advantage("gpg", nothing, count="scores").any()
  with pytest.raises(ValueError, match="did you mean 'groups'"):
    methods.get("gpg", count="group")


@pytest.mark.parametrize(
  ("right", "baseline"),
  [(0, 0), (1, 0), (4, 0), (5, 0.8), (6, 1), (7, 1), (8, 1)],
)
def test_the_quantile_baseline_trains_on_the_rarer_side(right, baseline):
  """A table for n = 8 and K = .4; equal scores have no advantage."""
  scores = np.array([1.0] * right + [0.0] * (8 - right))
  got = advantage("qae", groups(scores), ddof=0)[0]
  spread = scores.std() or np.inf
  np.testing.assert_allclose(got, (scores - baseline) / spread, atol=1e-5)


def test_the_middle_quantile_is_the_median():
  scores = np.array([0.1, 0.2, 0.6, 0.9, 1.0])
  got = advantage("qae", groups(scores), quantile=0.5, ddof=0)
  np.testing.assert_allclose(got, [(scores - 0.6) / scores.std()], atol=1e-5)


# Scales of the batch.


def test_lite_ppo_divides_by_the_spread_of_the_batch():
  """The uncentred scores of both groups have a standard deviation of 1/2."""
  rows = [[1, 0, 0, 0], [1, 1, 1, 0]]
  want = [[1.5, -0.5, -0.5, -0.5], [0.5, 0.5, 0.5, -1.5]]
  np.testing.assert_allclose(
    advantage("lite_ppo", groups(rows)), want, atol=1e-5
  )


def test_lite_ppo_of_one_prompt_is_grpo():
  one = groups([0.3, 0.1, 0.9, 1.0])
  np.testing.assert_allclose(
    advantage("lite_ppo", one, ddof=1), advantage("grpo", one), atol=1e-6
  )


def test_reinforce_pp_baseline_centres_then_whitens():
  """Worked by hand, for samples of one token."""
  rows = [[1, 0, 0, 0], [1, 1, 1, 0]]
  s = 1 / np.sqrt(3)
  want = np.array([[3 * s, -s, -s, -s], [s, s, s, -3 * s]])
  for over, shaped in (("token", tokens(want)), ("sample", want)):
    got = advantage("reinforce_pp_baseline", groups(rows), whiten_over=over)
    np.testing.assert_allclose(got, shaped, atol=1e-6)
  shifted = groups(np.add(rows, [[0], [5]]))
  np.testing.assert_allclose(
    advantage("reinforce_pp_baseline", shifted), tokens(want), atol=1e-5
  )


def test_whitening_over_tokens_weighs_long_samples():
  """One right sample of three tokens and one wrong sample of one token."""
  rollout = groups([1, 0], [3, 1])
  got = advantage("reinforce_pp_baseline", rollout)[0]
  np.testing.assert_allclose(got[0], [1 / np.sqrt(3)] * 3, atol=1e-5)
  np.testing.assert_allclose(got[1, 0], -np.sqrt(3), atol=1e-5)
  got = advantage("reinforce_pp_baseline", rollout, whiten_over="sample")
  np.testing.assert_allclose(got, [[1, -1]], atol=1e-5)


def with_log_ratio(rollout, k1):
  """log pi_old - log pi_ref is k1 at every token."""
  old = jnp.full(rollout.mask.shape, -1.0)
  arrays = {"old/log_probs": old, "ref/log_probs": old - k1}
  return rollout.replace(extras=types.Named(arrays))


def test_reinforce_pp_is_white_over_the_tokens_of_the_batch():
  rollout = tabular_policy.rollout()
  rollout = with_log_ratio(rollout, jnp.asarray(rollout.behavior_log_probs))
  got = advantage("reinforce_pp", rollout, beta=0.1)
  values = got[np.asarray(rollout.valid("token"))]
  np.testing.assert_allclose([values.mean(), values.std()], [0, 1], atol=1e-5)
  assert len(np.unique(values.round(4))) > rollout.sample_mask.sum()


def test_reinforce_pp_pays_for_the_kl_still_to_come():
  """With equal scores, returns fall by beta k1 per token and are whitened."""
  rollout = with_log_ratio(groups([1, 1], [3, 1]), 0.5)
  got = advantage("reinforce_pp", rollout, beta=0.2)[0]
  returns = np.array([0.7, 0.8, 0.9, 0.9])
  want = (returns - returns.mean()) / returns.std()
  np.testing.assert_allclose([*got[0], got[1, 0]], want, atol=1e-4)


def test_reinforce_pp_discounts_the_reward_of_the_last_token():
  got = advantage("reinforce_pp", groups([4, 0], [3, 2]), beta=0, gamma=0.5)[0]
  returns = np.array([1.0, 2, 4, 0, 0])
  want = (returns - returns.mean()) / returns.std()
  np.testing.assert_allclose([*got[0], *got[1, :2]], want, atol=1e-4)


# Several rewards.


def two_rewards(a, b):
  rollout = groups(a)
  parts = {"format": jnp.atleast_2d(jnp.asarray(b, jnp.float32))}
  return rollout.replace(components=parts)


def test_gdpo_of_one_reward_is_the_whitened_z_score():
  rollout = tabular_policy.rollout(ragged=False).replace(components={})
  z = z_score(rollout.scores)
  got = advantage("gdpo", rollout)
  np.testing.assert_allclose(got, (z - z.mean()) / z.std(), atol=1e-4)


def test_gdpo_keeps_apart_what_a_sum_of_rewards_confuses():
  """The first two samples have the sum 1, but one of the rewards is rarer."""
  right, format_kept = [1, 0, 0, 0], [0, 1, 1, 0]
  got = advantage("gdpo", two_rewards(right, format_kept))[0]
  np.testing.assert_allclose(got[0], np.sqrt(3) * got[1], rtol=1e-4)
  summed = advantage("grpo", groups(np.add(right, format_kept)))[0]
  np.testing.assert_allclose(summed[0], summed[1])


def test_gdpo_does_not_see_the_scale_of_a_reward():
  a, b = [0.1, 0.9, 0.4, 1.0], np.array([1, 0, 1, 1])
  want = advantage("gdpo", two_rewards(a, b))
  np.testing.assert_allclose(
    advantage("gdpo", two_rewards(a, 10 * b)), want, atol=1e-4
  )
  summed = [advantage("grpo", groups(a + scale * b)) for scale in (1, 10)]
  assert np.abs(summed[0] - summed[1]).max() > 0.1


def test_gdpo_weighs_rewards_and_a_constant_one_adds_nothing():
  rollout = two_rewards([1, 0, 0, 1], [1, 1, 1, 1])
  np.testing.assert_allclose(
    advantage("gdpo", rollout), [[1, -1, -1, 1]], atol=1e-5
  )
  assert not advantage("gdpo", rollout, weights=(0.0, 1.0)).any()
  assert not advantage("gdpo", rollout, names=("format",)).any()
  # A group without spread rests, whatever the rest of the batch does.
  both = two_rewards([[1, 0], [1, 1]], [[0, 0], [1, 1]])
  assert not advantage("gdpo", both)[1].any()


# Halves of a group.

CANON_SCORES = [1, 0, 1, 1, 0, 0, 1, 0]
CANON_METRIC = [0.3, 0.9, 0.1, 0.2, 0.5, 0.8, 0.7, 0.4]
INTER = [0.75, -0.75, 0.75, 0.75, -0.75, -0.75, 0.25, -0.25]
INTRA = [0.25, -0.25, 0.25, 0.25, -0.25, -0.25, 0.75, -0.75]


@pytest.mark.parametrize("metric", ["entropy", "length"])
def test_canon_judges_the_halves_of_a_group(metric):
  """Worked by hand; with mu = 1/2 both comparisons are that to the group."""
  rollout = groups(
    CANON_SCORES,
    np.multiply(CANON_METRIC, 10),
    **{"old/entropy": tokens([CANON_METRIC])},
  )
  for mu, want in ((1.0, INTER), (0.0, INTRA), (0.5, None), (None, None)):
    got = advantage("canon", rollout, metric=metric, mu=mu)
    if want is None:  # half of the batch is right, so None is 1/2 too
      want = advantage("dr_grpo", rollout)[0]
    np.testing.assert_allclose(got, [want], atol=1e-6, err_msg=mu)


def test_canon_discounts_the_low_entropy_or_the_long_half():
  """With alpha < 1 the discounted half has less advantage; all are right."""
  extras = {"old/entropy": tokens([[0.1, 0.2, 0.3, 0.4]])}
  rollout = groups([1, 1, 1, 1], [1, 2, 3, 4], **extras)
  got = advantage("canon", rollout, mu=1.0, alpha=0.9)
  np.testing.assert_allclose(got, [[-0.1, -0.1, 0.1, 0.1]], atol=1e-6)
  got = advantage("canon", rollout, metric="length", mu=1.0, alpha=0.9)
  np.testing.assert_allclose(got, [[0.1, 0.1, -0.1, -0.1]], atol=1e-6)
  assert not advantage("canon", rollout).any()


def test_canon_puts_the_middle_of_an_odd_group_above():
  """Scores 1, 0, 0 by increasing entropy: only the first is in the low half."""
  extras = {"old/entropy": tokens([[0.1, 0.2, 0.3]])}
  got = advantage("canon", groups([1, 0, 0], **extras), mu=1.0)
  np.testing.assert_allclose(got, [[1, -1, -1]], atol=1e-6)


# Consistency.


def answers(ids):
  return {"task/answer_ids": np.asarray(ids)}


def copo_signals(rollout, **hyper):
  """Advantages of the loss within groups, and of the loss across prompts."""
  m = methods.get("copo", **hyper)
  batch, _, _ = method_loss.prepare(m, rollout, m.init())
  return [np.asarray(signal)[..., 0] for signal in batch.signals]


def test_copo_of_unanimous_groups_is_global():
  """Two prompts with means 1/4 and 3/4: all samples have -1 and 1."""
  rollout = groups([[1, 0, 0, 0], [1, 1, 1, 0]], **answers(np.zeros((2, 4))))
  within, across = copo_signals(rollout, gamma=1e4)
  np.testing.assert_allclose(within, 0, atol=1e-6)
  np.testing.assert_allclose(across, [[-1] * 4, [1] * 4], atol=1e-5)


def test_copo_of_scattered_groups_is_grpo():
  """All answers differ, so H = 1 and only the group matters."""
  scores = [[1, 0, 0, 0], [1, 1, 1, 0]]
  rollout = groups(scores, **answers([[0, 1, 2, 3]] * 2))
  within, across = copo_signals(rollout, gamma=1e4)
  np.testing.assert_allclose(within, z_score(scores), atol=1e-5)
  np.testing.assert_allclose(across, 0, atol=1e-6)


@pytest.mark.parametrize(
  ("ids", "gate"),
  [([0, 0, 0, 0], 0.0067), ([0, 0, 7, 7], 0.5), ([0, 1, 2, -1], 0.9933)],
)
def test_the_gate_of_copo_opens_with_disagreement(ids, gate):
  """H is 0, 1/2 and 1 times log 4; the id -1 counts as an answer."""
  rollout = groups([[1, 0, 0, 0], [1, 1, 1, 0]], **answers([ids] * 2))
  within, across = copo_signals(rollout)
  np.testing.assert_allclose(within[0, 0], 1.5 * gate, atol=2e-4)
  np.testing.assert_allclose(across[0, 0], gate - 1, atol=2e-4)


def test_copo_pushes_a_unanimous_mistake_down():
  """GRPO has no gradient on such a group."""
  rollout = groups([[0, 0], [1, 0]], **answers([[3, 3], [0, 1]]))
  assert not advantage("grpo", rollout)[0].any()
  _, across = copo_signals(rollout)
  assert (across[0] < -0.9).all()


# Unlikeliness.


def test_an_unlikely_right_answer_earns_more():
  """R' = .8125, 1, 0, .875 by rank of the mean log-probability."""
  log_probs = [[-0.2, -0.9, -0.5, -0.4]]
  extras = {"old/log_probs": tokens(log_probs)}
  rollout = groups([1, 1, 0, 1], **extras)
  got = advantage("unlikeliness", rollout)
  np.testing.assert_allclose(got, z_score([[0.8125, 1, 0, 0.875]]), atol=1e-4)
  np.testing.assert_allclose(
    advantage("unlikeliness", rollout, beta_rank=0.0),
    advantage("grpo", rollout),
    atol=1e-6,
  )
  right = groups([1, 1, 1, 1], **extras)
  order = np.argsort(advantage("unlikeliness", right)[0])
  np.testing.assert_array_equal(order, np.argsort(log_probs[0])[::-1])
  assert not advantage("unlikeliness", groups([0] * 4, **extras)).any()


def test_unlikeliness_ranks_only_the_samples_that_exist():
  """The most likely of three samples has rank 2 of 3."""
  rollout = groups(
    [1, 1, 0, 1], **{"old/log_probs": tokens([[-0.2, -0.9, -0.5, np.nan]])}
  )
  rollout = rollout.replace(
    sample_mask=jnp.array([[True, True, True, False]]),
    scores=jnp.array([[1, 1, 0, jnp.nan]]),
  )
  got = advantage("unlikeliness", rollout)
  want = z_score([[1 - 0.25 * 2 / 3, 1, 0]])
  np.testing.assert_allclose(got[:, :3], want, atol=1e-4)
  assert got[0, 3] == 0


# Risk.


def test_the_mixed_risk_worked_by_hand():
  """Totals 0, 1, 3, 5 with quantiles 1 and 4."""
  totals, quantiles = jnp.array([0.0, 1, 3, 5]), jnp.array([1.0, 4])
  for w, want in (
    (0.0, [-5, -5, -5 / 3, 0]),
    (1.5, [-5, -2, -2 / 3, 0]),
    (1e6, [-5, 0, 0, 0]),
  ):
    got = mixed_risk(totals, quantiles, (0.2, 0.8), w)
    np.testing.assert_allclose(got, want, atol=1e-4)
  linear = mixed_risk(totals, jnp.array([-1.0, 6]), (0.2, 0.8), 0.0)
  np.testing.assert_allclose(np.diff(linear), np.diff(totals) / 0.6, rtol=1e-5)


def test_the_tracked_quantiles_start_at_the_batchs_and_find_the_laws():
  """Totals uniform on [0, 1] have the quantiles .2 and .8 at these levels."""
  levels, rate = (0.2, 0.8), 0.02
  rng = np.random.default_rng(0)
  totals_by_step = jnp.asarray(rng.random((2000, 2, 16)), jnp.float32)
  everyone = jnp.ones((2, 16), bool)
  start = {"quantiles": jnp.zeros(2), "seen": jnp.array(False)}
  first = track_quantiles(start, totals_by_step[0], everyone, levels, rate)
  want = np.quantile(totals_by_step[0], levels)
  np.testing.assert_allclose(first["quantiles"], want, atol=1e-6)

  def after(state, totals):
    return track_quantiles(state, totals, everyone, levels, rate), None

  start = {"quantiles": jnp.array([0.5, 0.5]), "seen": jnp.array(True)}
  last, _ = jax.lax.scan(after, start, totals_by_step)
  np.testing.assert_allclose(last["quantiles"], levels, atol=0.05)
  nobody = jnp.zeros((2, 16), bool)
  unchanged = track_quantiles(first, totals_by_step[1], nobody, levels, rate)
  np.testing.assert_array_equal(unchanged["quantiles"], first["quantiles"])


def test_riskpo_shares_a_bundles_risk_by_each_prompts_spread():
  """Totals 0, 1, 2, 2 of two prompts; a third prompt is in no bundle."""
  rows = [[0, 0, 1, 1], [0, 1, 1, 1], [1, 0, 0, 0]]
  m = methods.get("riskpo", bundle=2)
  got, state = jax.jit(m.advantage.apply)(
    None, groups(rows), m.advantage.init()
  )
  totals = np.array([0.0, 1, 2, 2])
  low, high = np.quantile(totals, [0.2, 0.8])
  rvar = (np.clip(totals, low, high) - high) / 0.6
  cvar = -np.maximum(low - totals, 0) / 0.2
  risk = (1.5 * cvar + rvar) / 2.5 / totals.std(ddof=1)
  want = risk / np.std(rows[:2], -1, ddof=1, keepdims=True)
  np.testing.assert_allclose(got[:2], want, atol=1e-5)
  assert not np.asarray(got[2]).any()
  # The second rollout moves the quantiles by rate (level - share below).
  _, state = jax.jit(m.advantage.apply)(None, groups(np.ones((3, 4))), state)
  (moved,) = (x for x in jax.tree.leaves(state) if x.shape == (2,))
  np.testing.assert_allclose(moved, [low + 0.02, high + 0.08], atol=1e-6)


@pytest.mark.parametrize("levels", [(0.0, 1.0), (0.4, 0.4), (0.2, 1.1)])
def test_riskpo_refuses_levels_that_are_no_quantiles(levels):
  low, high = levels
  with pytest.raises(ValueError, match=rf"low = {low} .* with 0 < low < high"):
    methods.get("riskpo", low=low, high=high)
  methods.get("riskpo", low=0.01, high=1.0)


def test_riskpo_divides_by_a_spread_that_just_reaches_the_limit():
  """Bundles of one: 0.001 and 0.0011 divide twice, 0.0009 counts as 1."""
  rows = np.outer([0.001, 0.0011, 0.0009], [-1, 0, 1])
  got = advantage("riskpo", groups(rows), bundle=1, w=0.0)
  low, high = np.quantile(rows, [0.2, 0.8])
  risk = (np.clip(rows, low, high) - high) / 0.6
  divisors = np.array([[0.001], [0.0011], [1]]) ** 2
  np.testing.assert_allclose(got, risk / divisors, rtol=1e-3, atol=0.01)


def test_riskpo_bundles_only_slots_that_all_its_prompts_have():
  m = methods.get("riskpo", bundle=2)
  rollout = groups([[0, 1, 1], [1, 1, 0]])
  missing = jnp.array([[True, True, True], [True, True, False]])
  got, _ = m.advantage.apply(
    None, rollout.replace(sample_mask=missing), m.advantage.init()
  )
  assert np.asarray(got)[:, 0].all()
  assert not np.asarray(got)[:, 2].any()


# Notes on rewards and aggregates.


@pytest.mark.parametrize("name", ["dr_grpo", "grpo"])
def test_dividing_by_the_spread_breaks_a_proper_score(name):
  """Brier scores of forecasts .1, .2 and .6 for an event of probability 1/5.

  The centred score is highest on average for the true .2. The z-score weighs
  the more common outcome more, as its scores differ less, and is highest for
  .1.
  """
  forecasts = np.array([0.1, 0.2, 0.6])
  outcomes = np.array([[1], [0], [0], [0], [0]])
  earned = advantage(name, groups(-((forecasts - outcomes) ** 2))).mean(0)
  best = forecasts[np.argmax(earned)]
  assert best == {"dr_grpo": 0.2, "grpo": 0.1}[name]


def every_group(clip=None, **method):
  """All pairs of 3 actions with all pairs of random rewards, equally likely.

  Returns the expected ascent direction of the logits of a policy that has moved
  away from the uniform policy that sampled.
  """
  pairs = itertools.product(
    itertools.product(range(3), repeat=2), itertools.product((0, 1), repeat=2)
  )
  actions, rewards = map(np.array, zip(*pairs, strict=True))
  rollout = groups(rewards)
  sampled = jnp.full((*actions.shape, 1), -np.log(3), jnp.float32)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=jnp.asarray(actions)[..., None]),
    behavior_log_probs=sampled,
    extras=types.Named({"old/log_probs": sampled}),
  )

  def score(params, tokens):
    hidden = jnp.broadcast_to(params["logits"], (*tokens.completions.shape, 3))
    return types.Scored(hidden, {"logits": lambda h: h})

  name, now = method.pop("name"), method.pop("now")
  m = methods.get(name, **method, **({} if clip is None else {"clip": clip}))
  policy = types.Policy(score, None, None)

  @jax.jit
  def gradient(params, rollout):
    batch, scales, _ = method_loss.prepare(m, rollout, m.init())
    return method_loss.gradient(m, policy, params, batch, scales, Plan())[0]

  actual = gradient({"logits": np.asarray(now, np.float32)}, rollout)
  return -np.asarray(actual["logits"])


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("grpo", {"beta": 0.0}),
    ("dr_grpo", {}),
    ("lite_ppo", {}),
    ("reinforce_pp_baseline", {"beta": 0.0}),
    ("rloo", {}),
    ("gpg", {}),
    ("opo", {}),
  ],
)
def test_random_rewards_teach_nothing_on_policy(name, hyper):
  """Rewards independent of the samples: the expected gradient is 0."""
  got = every_group(name=name, now=[0.0, 0.0, 0.0], **hyper)
  np.testing.assert_allclose(got, 0, atol=1e-6)


def test_random_rewards_teach_through_the_clip_alone():
  """Off-policy, an unclipped ratio still gives 0, and the clip does not.

  Action 0 has become likelier than the clip allows, action 2 less likely.
  """
  now = np.array([0.6, 0.0, -0.6])
  free_ratio = every_group(clip=1e3, name="grpo", beta=0.0, now=now)
  np.testing.assert_allclose(free_ratio, 0, atol=1e-6)
  clipped = every_group(clip=0.2, name="grpo", beta=0.0, now=now)
  assert clipped[0] < -1e-3
  assert clipped[2] > 1e-3


def test_sums_over_tokens_are_means_weighed_by_length():
  """LUSPO's mean over samples of length x mean over tokens."""
  values = np.random.default_rng(0).normal(size=(2, 3, 5))
  lengths = np.array([[1, 2, 5], [3, 0, 4]])
  mask = np.arange(5) < lengths[..., None]
  means = np.where(mask, values, 0).sum(-1) / np.maximum(lengths, 1)
  want = (lengths * means).sum() / 5  # five samples have a token
  coefficients = aggregates.seq_mean_token_sum().fn(jnp.asarray(mask))
  np.testing.assert_allclose((coefficients * values).sum(), want, rtol=1e-5)


def test_the_worked_aggregates_of_two_samples():
  """A loss of 1 on 2 tokens and of 2 on 4 tokens."""
  values = np.array([[[1, 1, 0, 0], [2, 2, 2, 2]]])
  mask = jnp.asarray(np.arange(4) < np.array([2, 4])[:, None])[None]
  for aggregate, want in (
    (aggregates.token_mean(), 10 / 6),
    (aggregates.token_sum(), 10),
    (aggregates.seq_mean_token_mean(), 1.5),
    (aggregates.seq_mean_token_sum(), 5),
    (aggregates.seq_mean_token_sum_norm(10), 0.5),
  ):
    got = (aggregate.fn(mask) * values).sum()
    np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=str(aggregate))


def test_a_batch_without_a_whole_bundle_is_refused():
  """Four prompts cannot form a bundle of five."""
  m = methods.get("riskpo", bundle=5)
  with pytest.raises(
    ValueError, match="bundle = 5 exceeds the 4 prompts of a step"
  ):
    jax.jit(m.advantage.apply)(
      None, tabular_policy.rollout(p=4), m.advantage.init()
    )


def test_a_greedy_answer_without_a_score_pays_nobody():
  rollout = tabular_policy.rollout()
  greedy = rollout.extras["sampler/greedy_scores"].at[1].set(jnp.nan)
  batch = rollout.replace(
    extras=rollout.extras.update({"sampler/greedy_scores": greedy})
  )
  a = advantage("remax", batch)
  assert not a[1].any()
  assert a[0].any()
  assert np.isfinite(a).all()


def test_unlikeliness_leaves_wrong_samples_alone_whatever_they_scored():
  """A score of -1 of a wrong sample does not rise if the sample is likely."""
  rollout = tabular_policy.rollout(p=1, s=4, ragged=False)
  rollout = rollout.replace(
    scores=jnp.array([[1.0, -1.0, 0.5, 1.0]]),
    correct=jnp.array([[1, 0, 0, 1]], jnp.int8),
    extras=rollout.extras.update({"old/log_probs": rollout.behavior_log_probs}),
  )
  t = discount_likely(0.25)
  shaped, _ = t.apply(rollout.scores, rollout, ())
  np.testing.assert_array_equal(shaped[0, 1:3], [-1.0, 0.5])
  assert (shaped[0, [0, 3]] <= 1).all()
  assert shaped[0, [0, 3]].min() < 1


@pytest.mark.parametrize("name", ["grpo", "lite_ppo", "qae"])
def test_equal_scores_are_worth_nothing_even_without_an_epsilon(name):
  rollout = tabular_policy.rollout()
  rollout = rollout.replace(scores=jnp.full_like(rollout.scores, 0.3))
  m = methods.get(name, eps=0.0)
  actual, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  assert not np.asarray(actual).any()
