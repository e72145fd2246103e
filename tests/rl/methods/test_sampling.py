"""Budgets, selections and masks: worked examples and brute force."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import compiled, tabular_policy, worked_example
from scipy import stats

from rl import method_loss, methods, step, training_state
from rl.methods.sampling import (
  aryabhata,
  brpo_anytime,
  coba,
  dars,
  diver,
  eepo,
  pf_ppo,
  prof,
  ticket_mask,
)
from rl.update_plan import Plan

coba = compiled.functions(coba)
dars = compiled.functions(dars)
pf_ppo = compiled.functions(pf_ppo)


def advantage(name, rollout, **hyper):
  m = methods.get(name, **hyper)
  m = m["policy"] if isinstance(m, dict) else m
  return worked_example.advantages(m, rollout)


def group(scores, **changes):
  """One group of one-token samples with these scores."""
  scores = jnp.asarray(scores, jnp.float32)[None]
  base = tabular_policy.rollout(p=1, s=scores.shape[1], t=1, k=1, ragged=False)
  mask = jnp.ones((1, scores.shape[1], 1), bool)
  return base.replace(
    tokens=base.tokens.replace(mask=mask),
    scores=scores,
    correct=(scores > 0.5).astype(jnp.int8),
    **changes,
  )


# DARS


@pytest.mark.parametrize(
  ("schedule", "standardized", "want"),
  [
    ("equal_treatment", False, [27, 11, 3, 1, 0]),
    ("hardness_weighted", False, [56, 24, 8, 3, 0]),
    ("equal_treatment", True, [9, 5, 2, 1, 0]),
    ("hardness_weighted", True, [23, 14, 6, 3, 0]),
  ],
)
def test_the_schedules_of_dars_at_none_to_four_of_eight(
  schedule, standardized, want
):
  solved = jnp.arange(5) / 8
  got = dars.further_samples(solved, 8, schedule, standardized)
  np.testing.assert_array_equal(got, want)


def test_equal_treatment_brings_every_hard_prompt_to_its_peak():
  solved = jnp.arange(1, 16) / 32
  extra = dars.further_samples(solved, 32, "equal_treatment", False)
  total = (32 + extra) * 2 * solved * (1 - solved)
  below = ((32 + extra - 1) * 2 * solved * (1 - solved))[extra > 0]
  assert (np.asarray(total) >= 16 - 1e-4).all()
  assert (np.asarray(below) < 16).all()


def test_the_budget_of_dars_is_capped_by_its_total_and_the_slots():
  stage = methods.get("dars", total=20).sampler
  rollout = group([0.0] * 8)
  calls = {}

  class PromptBatch:
    samples, params = 64, None

    def sample(self, params, count, first=0, active=None):
      calls["active"] = active
      return rollout if active is None else group([0.0] * count)

  merged = stage.run(PromptBatch(), ())
  assert calls["active"].shape == (1, 56)
  assert calls["active"].sum() == 12  # 8 + 12 = 20, of the 27 wanted
  assert merged.sample_mask.sum() == 20
  assert merged.scores.shape == (1, 64)


class Unjudged:
  """The samples of the first of two prompts have no score and no verdict."""

  samples, params = 32, None

  def __init__(self):
    self.masks = []

  def sample(self, params, count, first=0, active=None):
    self.masks.append(active)
    base = tabular_policy.rollout(p=2, s=count, t=1, k=1, ragged=False)
    unknown = jnp.arange(2)[:, None] == 0
    return base.replace(
      scores=jnp.zeros((2, count)),
      correct=jnp.where(unknown, -1, 0).astype(jnp.int8)
      * jnp.ones_like(base.correct),
      sample_mask=~unknown & base.sample_mask,
    )


@pytest.mark.parametrize("name", ["dars", "aryabhata"])
def test_a_prompt_that_nobody_can_judge_gets_no_more_samples(name):
  sampler = Unjudged()
  methods.get(name).sampler.run(sampler, ())
  more = [np.asarray(active) for active in sampler.masks if active is not None]
  assert more
  assert not any(active[0].any() for active in more)
  assert any(active[1].any() for active in more)


# CoBA


def test_dealing_by_the_largest_gain_is_optimal():
  """A worked allocation, against every other one of the same sum."""
  p = np.array([0.1, 0.3, 0.6, 0.9])
  a, b = 4.5, 6.5
  got = np.asarray(coba.allocate(jnp.asarray(p), a, b, 24, 2, 12))
  np.testing.assert_array_equal(got, [2, 12, 8, 2])

  def worth(n):
    gained = 1 - np.exp(-np.asarray(n) * p * (1 - p))
    return (gained * stats.beta.pdf(p, a, b)).sum()

  best = max(
    worth(n) for n in itertools.product(range(2, 13), repeat=4) if sum(n) == 24
  )
  np.testing.assert_allclose(worth(got), best, rtol=1e-6)


def test_a_prompt_without_hope_or_doubt_gets_the_least_it_can():
  p = jnp.array([0.0, 1.0, 0.5])
  got = coba.allocate(p, 4.5, 6.5, 14, 2, 12)
  np.testing.assert_array_equal(got, [2, 2, 10])


def test_a_policy_that_fails_more_is_given_easier_prompts():
  p = jnp.array([0.2, 0.8])
  hard = coba.allocate(p, 7.26, 3.74, 16, 2, 14)
  able = coba.allocate(p, 2.54, 8.46, 16, 2, 14)
  assert hard[1] > hard[0]
  assert able[0] > able[1]


def test_equal_gains_are_dealt_in_turn():
  got = coba.allocate(jnp.full(4, 0.5), 5.5, 5.5, 24, 2, 12)
  np.testing.assert_array_equal(got, [6] * 4)


# Aryabhata


def test_the_gradient_is_grpos_at_a_fixed_group():
  """Without ratio and clip the first update is the same."""
  rollout, params = (
    tabular_policy.rollout(ragged=False),
    tabular_policy.params(),
  )
  actual = []
  for name, hyper in (("aryabhata", {}), ("grpo", {"beta": 0.0})):
    m = methods.get(name, **hyper)
    tx = optax.sgd(1.0)
    state = training_state.init(m, params, tx, jax.random.key(0))
    new, _ = jax.jit(step.make(m, tabular_policy.policy, tx, Plan()))(
      state, rollout
    )
    actual.append(new.params["hidden"] - params["hidden"])
  np.testing.assert_allclose(*actual, atol=1e-7)


def test_every_prompt_weighs_the_same_whatever_its_group():
  mask = np.zeros((2, 4, 3), bool)
  mask[0, :4, 0], mask[1, :2, :2] = True, True
  weights = np.asarray(
    aryabhata.prompt_mean_seq_mean_token_mean().fn(jnp.asarray(mask))
  )
  np.testing.assert_allclose(weights.sum((1, 2)), [0.5, 0.5])
  np.testing.assert_allclose(weights[0, 0, 0], 0.5 / 4)
  np.testing.assert_allclose(weights[1, 0, 0], 0.5 / 4)


# PF-PPO


def test_the_worst_and_the_best_survive_and_no_other():
  keys = jax.random.split(jax.random.key(1), 1)  # draws both of them
  rollout = group([0.3, 0.9, 0.1, 0.5, 0.7], keys=keys)
  counts = np.asarray(pf_ppo.copies(rollout, "best_worst"))[0]
  assert counts.sum() == 5
  assert not counts[[0, 3, 4]].any()
  a = advantage("pf_ppo", rollout)[0]
  assert a[1] > 0 > a[2]
  assert not a[[0, 3, 4]].any()


def test_samples_are_drawn_in_proportion_to_their_weights():
  """Means over many keys against the rule, within five standard errors."""
  scores = np.array([1.0, 2.0, 3.0, 0.0])
  draws = 4000
  many = jax.vmap(
    lambda key: pf_ppo.copies(group(scores, keys=key[None]), "power")[0]
  )(jax.random.split(jax.random.key(1), draws))
  p = scores**2 / (scores**2).sum()
  error = 5 * np.sqrt(4 * p * (1 - p) / draws) + 1e-6
  np.testing.assert_array_less(np.abs(many.mean(0) - 4 * p), error)


def test_a_rule_that_leaves_one_sample_is_none():
  with pytest.raises(ValueError, match="did you mean 'best_worst'"):
    methods.get("pf_ppo", rule="best")


def test_equal_scores_are_drawn_alike_and_teach_nothing():
  rollout = group([2.0] * 4)
  assert pf_ppo.power(rollout.scores, rollout.sample_mask).std() == 0
  assert not advantage("pf_ppo", rollout, rule="power").any()


def test_the_drawn_group_is_standardised_with_its_copies():
  rollout = group([0.3, 0.9, 0.1, 0.5, 0.7])
  n = np.asarray(pf_ppo.copies(rollout, "best_random"))[0]
  resampled = np.repeat([0.3, 0.9, 0.1, 0.5, 0.7], n.astype(int))
  z = (np.asarray(rollout.scores)[0] - resampled.mean()) / resampled.std()
  got = advantage("pf_ppo", rollout, rule="best_random")[0]
  np.testing.assert_allclose(got, n * z, atol=1e-5)
  np.testing.assert_allclose(got.sum(), 0, atol=1e-5)


# DIVER


def test_bleu_is_one_of_a_copy_and_none_of_a_stranger():
  words = [1, 2, 3, 4, 5, 6]
  assert diver.bleu(words, words) == pytest.approx(1)
  assert diver.bleu(words, [7, 8, 9]) == 0
  # p_n of 3/6, 2/5, 1/4, with the weights of 1- to 3-grams, then no 4-gram.
  assert diver.bleu([1, 2, 3, 7, 8, 9], [1, 2, 3, 4, 5, 6]) == 0
  # 5/6, 4/5, 3/4, 2/3 and 1/2 by their weights, which sum to .9.
  precisions = np.array([5 / 6, 4 / 5, 3 / 4, 2 / 3, 1 / 2])
  assert diver.bleu([1, 2, 3, 4, 5, 9], words) == pytest.approx(
    np.exp(np.array(diver.WEIGHTS) @ np.log(precisions))
  )
  assert diver.bleu([1, 9], [1, 2, 3, 4]) == 0  # no common bigram
  assert diver.bleu([1], [1, 2]) == pytest.approx(np.exp(-1))


def test_copies_have_no_diversity_and_strangers_all():
  same, other = [1, 2, 3], [4, 5, 6]
  assert diver.bleu_diversity([same, same, same]) == pytest.approx([0] * 3)
  assert diver.bleu_diversity([same, other]) == pytest.approx([1] * 2)
  assert diver.bleu_diversity([same]) == [0]
  assert diver.bleu_diversity([same, same, other]) == pytest.approx(
    [0.5, 0.5, 1]
  )


def test_a_step_counts_if_no_other_sample_has_it():
  actual = diver.step_diversity([{"a", "b"}, {"a"}, {"c", "d", "a"}, set()])
  assert actual == pytest.approx([1 / 2, 0, 2 / 3, 0])


def test_only_right_samples_are_paid_for_being_different():
  rollout = tabular_policy.rollout()
  need = diver.diversity_need("bleu")
  spread = jnp.where(rollout.sample_mask, 0.05, jnp.nan).at[0, 1].set(0.5)
  rollout = rollout.replace(extras=rollout.extras.update({str(need): spread}))

  def shaped(at):
    t = diver.plus_diversity("bleu", 100)
    return np.asarray(t.apply(rollout.scores, rollout.replace(step=at), ())[0])

  gained = shaped(jnp.int32(3)) - np.where(
    rollout.sample_mask, rollout.scores, 0
  )
  right = np.asarray((rollout.correct == 1) & rollout.sample_mask)
  np.testing.assert_allclose(gained[~right], 0)
  assert gained[0, 1] == pytest.approx(0.09)  # the cap
  rest = right.copy()
  rest[0, 1] = False
  np.testing.assert_allclose(gained[rest], 0.05, atol=1e-6)
  after = shaped(jnp.int32(100))
  np.testing.assert_array_equal(
    after, np.where(rollout.sample_mask, rollout.scores, 0)
  )


# EEPO


def test_unlearning_is_strongest_where_the_policy_is_sure():
  """d/d log p of -log(1 - p) is p / (1 - p), for one sample of one token."""
  for p in (0.1, 0.5, 0.9):
    slope = jax.grad(
      lambda x: eepo.unlearning_loss(x, jnp.ones((1, 1, 1), bool))
    )(jnp.full((1, 1, 1), np.log(p)))
    np.testing.assert_allclose(slope, p / (1 - p), rtol=1e-4)
  sure = eepo.unlearning_loss(jnp.zeros((1, 1, 1)), jnp.ones((1, 1, 1), bool))
  assert np.isfinite(sure)


# BRPO of AnytimeReasoner


def test_the_worked_budgets():
  scores = jnp.array([[[0.0, 0, 1, 1], [0, 1, 1, 1]]])
  rollout = tabular_policy.rollout(p=1, s=2, t=4, k=4, ragged=False).replace(
    step_scores=scores, step_mask=jnp.ones((1, 2, 4), bool)
  )
  got = brpo_anytime.budget_relative().apply(scores, rollout, ())[0]
  want = [[-0.125, 0.03125, 0.25, 0.0804], [0.125, 0.28125, 0.0833, 0.0268]]
  np.testing.assert_allclose(got[0], want, atol=5e-5)
  # A budget that does not exist has the score of the last one that does.
  short = rollout.replace(step_mask=rollout.step_mask.at[0, 1, 2:].set(False))
  same = brpo_anytime.budget_relative().apply(
    scores.at[0, 1, 2:].set(jnp.nan), short, ()
  )[0]
  np.testing.assert_allclose(same, got, atol=1e-6)
  # One that nobody could score, before the first, has the score of the first.
  late = rollout.replace(step_mask=rollout.step_mask.at[0, 1, 0].set(False))
  filled = brpo_anytime.budget_relative().apply(
    scores.at[0, 1, 0].set(1.0), rollout, ()
  )[0]
  actual = brpo_anytime.budget_relative().apply(
    scores.at[0, 1, 0].set(jnp.nan), late, ()
  )[0]
  np.testing.assert_allclose(actual, filled, atol=1e-6)


def test_one_budget_is_the_mean_baseline():
  rollout = tabular_policy.rollout(k=1).replace(
    step_mask=jnp.ones((4, 6, 1), bool)
  )
  scores = rollout.scores[..., None]
  got = brpo_anytime.budget_relative().apply(scores, rollout, ())[0][..., 0]
  real = np.asarray(rollout.sample_mask)
  for p in range(4):
    x = np.asarray(rollout.scores)[p, real[p]]
    np.testing.assert_allclose(got[p, real[p]], x - x.mean(), atol=1e-6)


# Soft returns


def soft(log_probs, scores, **hyper):
  rollout = group(scores)
  old = jnp.asarray(log_probs, jnp.float32)[None, :, None]
  rollout = rollout.replace(
    extras=rollout.extras.update({"old/log_probs": old})
  )
  return advantage("soft_rl", rollout, **hyper)[0, :, 0]


def test_the_fixed_point_of_one_token_is_the_tilted_policy():
  """pi ~ exp(r / alpha) makes every soft return the same: advantages are 0."""
  scores, alpha = np.array([0.2, 1.0, -0.5]), 0.7
  log_pi = scores / alpha - np.log(np.exp(scores / alpha).sum())
  np.testing.assert_allclose(soft(log_pi, scores, alpha=alpha), 0, atol=1e-6)
  assert np.abs(soft(log_pi, scores, alpha=0.5)).max() > 0.1


def test_without_a_price_it_is_leave_one_out():
  scores = [1.0, 0, 0, 1]
  got = soft(np.log([0.1, 0.2, 0.3, 0.4]), scores, alpha=0.0)
  np.testing.assert_allclose(got, [2 / 3, -2 / 3, -2 / 3, 2 / 3], atol=1e-6)


def test_the_price_falls_while_entropy_is_above_its_target():
  m = methods.get("soft_rl", alpha=0.1, target=1.0, rate=0.1)
  rollout = group([1.0, 0.0])

  def after(log_prob):
    old = jnp.full((1, 2, 1), log_prob)
    batch = rollout.replace(
      extras=rollout.extras.update({"old/log_probs": old})
    )
    state = jax.jit(m.advantage.apply)(None, batch, m.advantage.init())[1]
    return float(jnp.exp(optax.tree.get(state, "log_alpha")))

  # Adam's first step has the size of its rate.
  np.testing.assert_allclose(after(-2.0), 0.1 * np.exp(-0.1), rtol=1e-3)
  np.testing.assert_allclose(after(-0.5), 0.1 * np.exp(0.1), rtol=1e-3)


def test_surprise_to_come_is_credited_to_the_tokens_before_it():
  rollout = tabular_policy.rollout(p=1, s=2, t=3, k=3, ragged=False)
  mask = jnp.ones((1, 2, 3), bool)
  old = jnp.array([[[-1.0, -2.0, -4.0], [0.0, 0.0, 0.0]]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=mask),
    scores=jnp.array([[5.0, 0.0]]),
    extras=rollout.extras.update({"old/log_probs": old}),
  )
  got = advantage("soft_rl", rollout, alpha=0.5, rate=0.0)
  returns = [5 + 3.5, 5 + 3, 5 + 2]
  np.testing.assert_allclose(got[0, 0], returns, atol=1e-5)
  np.testing.assert_allclose(got[0, 1], -np.mean(returns), atol=1e-5)


# Tickets


PARAMS = {"w": jnp.ones((200, 100)), "b": jnp.ones(500)}


def test_two_tickets_share_what_chance_lets_them():
  keep = 0.2
  a, b = (ticket_mask.random_mask(PARAMS, keep, seed)["w"] for seed in (0, 1))
  both, either = (a & b).sum(), (a | b).sum()
  error = 5 * np.sqrt(keep / 20000)
  np.testing.assert_allclose(a.mean(), keep, atol=error)
  np.testing.assert_allclose(both / either, keep / (2 - keep), atol=error)


def test_what_is_off_the_ticket_keeps_its_bits_and_has_no_moments():
  tx = methods.get("ticket_mask", keep=0.1).optimizer(
    optax.chain(
      optax.clip_by_global_norm(1.0), optax.adamw(0.1, weight_decay=0.1)
    )
  )
  mask = ticket_mask.random_mask(PARAMS, 0.1, 0)
  params, state = PARAMS, tx.init(PARAMS)
  for i in range(3):
    grads = jax.tree.map(lambda x, by=0.1 + i: x * by, PARAMS)
    updates, state = tx.update(grads, state, params)
    params = optax.apply_updates(params, updates)
  for name, chosen in mask.items():
    moved = params[name] != PARAMS[name]
    np.testing.assert_array_equal(moved, chosen)
    for moment in ("mu", "nu"):
      actual = optax.tree.get(state, moment)[name]
      np.testing.assert_array_equal(actual != 0, chosen)


def test_the_whole_ticket_is_grpo_bit_for_bit():
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  actual = []
  for name, hyper in (("ticket_mask", {"keep": 1.0}), ("grpo", {"beta": 0.0})):
    m, tx = methods.get(name, **hyper), optax.adam(0.1)
    state = training_state.init(m, params, tx, jax.random.key(0))
    train_step = step.make(m, tabular_policy.policy, tx, Plan())
    # Compiled, the two programs may round differently.
    with jax.disable_jit():
      actual.append(train_step(state, rollout)[0])
  np.testing.assert_array_equal(
    actual[0].params["hidden"], actual[1].params["hidden"]
  )


# Top minus second


@pytest.mark.parametrize(
  ("scores", "want"),
  [
    ([0.1, 0.7, 0.7, 1.0], [0, 0, 0, 0.3]),
    ([0.0, 0, 0, 1], [0, 0, 0, 1]),
    ([1.0, 0, 0, 1], [0, 0, 0, 0]),
    ([2.0], [0]),
  ],
)
def test_only_the_leader_is_paid_its_lead(scores, want):
  got = advantage("top_minus_second", group(scores))
  np.testing.assert_allclose(got[0], want, atol=1e-6)


def test_it_is_max_at_n_against_the_best_of_the_others():
  scores = np.random.default_rng(0).normal(size=5)
  got = advantage("top_minus_second", group(scores))
  want = advantage("max_at_k", group(scores), k=5)
  np.testing.assert_allclose(got, want, atol=1e-6)


# PROF


def processed(correct, values, steps=None, **changes):
  """One group with these verdicts and these mean step scores."""
  rollout = group(correct)
  values = np.asarray(values, np.float32)
  steps = np.full(len(values), 2) if steps is None else np.asarray(steps)
  mask = np.arange(4) < steps[:, None]
  scores = values[:, None] + np.where(np.arange(4) % 2, -0.1, 0.1)
  scores = np.where(steps[:, None] % 2, values[:, None], scores)
  return rollout.replace(
    correct=jnp.asarray([correct], jnp.int8),
    step_scores=jnp.asarray(np.where(mask, scores, np.nan))[None],
    step_mask=jnp.asarray(mask)[None],
    **changes,
  )


def chosen(rollout, **hyper):
  m = methods.get("prof", **hyper)
  return worked_example.apply(m.sample_filter, rollout)[0]


def test_the_counts_of_prof_by_trying_all_of_them():
  for right, wrong in itertools.product(range(9), repeat=2):
    for total in range(right + wrong + 1):
      possible = [
        k for k in range(total + 1) if k <= right and total - k <= wrong
      ]
      best = max(k * (total - k) for k in possible)
      k = int(prof.balanced_counts(*map(jnp.array, (right, wrong, total))))
      assert k in possible
      assert k * (total - k) == best


@pytest.mark.parametrize(
  ("right", "counts"), [(6, (2, 2)), (7, (3, 1)), (8, (4, 0))]
)
def test_the_counts_of_the_worked_example(right, counts):
  correct = [1] * right + [0] * (8 - right)
  actual = chosen(processed(correct, np.linspace(0, 1, 8)))
  assert (actual[:right].sum(), actual[right:].sum()) == counts


def test_right_samples_of_good_and_wrong_ones_of_bad_steps_stay():
  correct = [1, 1, 1, 0, 0, 0, 0, 1]
  values = [0.9, 0.1, 0.7, 0.8, 0.2, 0.3, 0.9, 0.5]
  rollout = processed(correct, values)
  np.testing.assert_array_equal(chosen(rollout), [1, 0, 1, 0, 1, 1, 0, 0])
  # Advantages are those of the kept: two right, two wrong.
  m = methods.get("prof")
  batch, _, _ = method_loss.prepare(m, rollout, m.init())
  z = 1 / np.std([1, 1, 0, 0], ddof=1) / 2
  np.testing.assert_allclose(
    np.asarray(batch.signals[0])[0, :, 0],
    [z, 0, z, 0, -z, -z, 0, 0],
    atol=1e-5,
  )


def test_wrong_samples_may_be_any():
  correct, values = [1] * 4 + [0] * 4, np.linspace(0, 1, 8)
  draws = 400
  keys = jax.random.split(jax.random.key(0), draws)
  m = methods.get("prof", wrong="random")
  actual = jax.vmap(
    lambda key: m.sample_filter.apply(
      None, processed(correct, values, keys=key[None]), m.sample_filter.init()
    )[0][0]
  )(keys)
  np.testing.assert_array_equal(actual[:, :4].mean(0), [0, 0, 1, 1])
  error = 5 * np.sqrt(0.25 / draws)
  np.testing.assert_allclose(actual[:, 4:].mean(0), 0.5, atol=error)


def test_one_step_and_very_many_are_penalised_on_either_side():
  values, steps = [0.5, 0.6, 0.5, 0.4], [2, 1, 2, 4]
  hyper = {"penalty": 0.3, "most_steps": 4}
  assert chosen(processed([1, 1, 0, 0], values, steps)).tolist() == [0, 1, 0, 1]
  actual = chosen(processed([1, 1, 0, 0], values, steps), **hyper)
  assert actual.tolist() == [1, 0, 0, 1]
  actual = chosen(processed([1, 1, 1, 1], values, steps), **hyper)
  assert actual.tolist() == [1, 0, 1, 0]


def test_all_of_a_group_is_grpo():
  rollout = tabular_policy.rollout()
  actual = [
    method_loss.prepare(m, rollout, m.init())[0].signals[0]
    for m in (
      methods.get("prof", share=1.0),
      methods.get("grpo", beta=0.0),
    )
  ]
  np.testing.assert_allclose(*actual, atol=1e-6)


def test_prof_leaves_out_what_nobody_judged_and_keeps_one_of_one():
  actual = chosen(processed([1, -1, 0, -1], [0.9, 0.9, 0.1, 0.1]), share=1.0)
  assert actual.tolist() == [1, 0, 1, 0]
  assert chosen(processed([1, -1], [0.9, 0.9])).tolist() == [1, 0]
  assert not chosen(processed([-1, -1], [0.9, 0.9])).any()


def test_an_unknown_choice_of_wrong_samples_names_the_nearest():
  with pytest.raises(ValueError, match="'random'"):
    methods.get("prof", wrong="randm")
