"""Losses of pairs and groups, judges and consistency bonuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, surrogate_slopes, tabular_policy, worked_example

from models import heads as head_lib
from models import policy as policy_lib
from models import transformer
from models.config import ModelConfig
from rl import method_loss, methods, scoring, types
from rl.methods.pairs import mah_dpo
from rl.methods.pairs.brpo_writing import against_random_member
from rl.methods.pairs.duration_aware import weighted_by_duration

mah_dpo = compiled.functions(mah_dpo)

LN2 = np.log(2)


def group(scores, t=1, extras=(), **changes):
  """One prompt with these scores (verdicts where they are 0 and 1)."""
  scores = jnp.asarray(scores, jnp.float32)[None]
  s = scores.shape[-1]
  base = tabular_policy.rollout(p=1, s=s, t=t, k=1, ragged=False)
  zeros = jnp.zeros((1, s, t))
  log_probs = {f"{slot}/log_probs": zeros for slot in ("old", "ref", "ema")}
  return base.replace(
    tokens=base.tokens.replace(mask=jnp.ones((1, s, t), bool)),
    behavior_log_probs=zeros,
    scores=scores,
    correct=(scores == 1).astype(jnp.int8),
    extras=types.Named({**log_probs, **dict(extras)}),
    **changes,
  )


def loss(m, rollout, log_probs):
  """The loss at log-probs `[S]` or `[P, S, T]`; the rollout is fixed."""
  if log_probs.ndim == 1:
    log_probs = log_probs[None, :, None]
  batch, scales, _ = method_loss.prepare(m, rollout, m.init())
  total = 0.0
  for term, signal, mask, coef, scale in zip(
    m.loss.terms,
    batch.signals,
    batch.masks,
    method_loss.aggregation_weights(m, batch),
    scales,
    strict=True,
  ):
    text = batch.rollout
    text = text.replace(tokens=text.tokens.replace(mask=mask))
    value = term.fn(signal, types.Named({"log_probs": log_probs}), text)
    value = value[0] if isinstance(value, tuple) else value
    total += scale * jnp.sum(jnp.where(coef != 0, value, 0.0) * coef)
  return total


def slope(m, rollout, log_probs=None):
  """The loss, and its gradient by each log-prob."""
  x = jnp.zeros(rollout.mask.shape) if log_probs is None else log_probs
  x = jnp.asarray(x, jnp.float32)
  slopes = jax.jit(jax.value_and_grad(lambda x: loss(m, rollout, x)))
  value, actual = slopes(x)
  return float(value), np.squeeze(np.asarray(actual))


advantage = worked_example.advantages


# PACS.


def test_pacs_starts_at_log_2_with_the_gradient_of_rloo():
  """R = [1, 0, 0, 1] with beta 2 gives [-1/3, 1/3, 1/3, -1/3]."""
  value, actual = slope(methods.get("pacs", beta=2.0), group([1, 0, 0, 1]))
  np.testing.assert_allclose(value, LN2, rtol=1e-6)
  np.testing.assert_allclose(actual, np.array([-1, 1, 1, -1]) / 3, atol=1e-6)


@pytest.mark.parametrize("verdict", [0, 1])
def test_pacs_leaves_a_group_of_one_verdict_alone_at_first(verdict):
  value, actual = slope(methods.get("pacs"), group([verdict] * 4))
  np.testing.assert_allclose(value, LN2, rtol=1e-6)
  np.testing.assert_allclose(actual, 0, atol=1e-7)


def test_pacs_balances_the_verdicts_of_a_group():
  """One right sample of four weighs 2, the wrong ones 2/3: worked by hand."""
  rollout = group([1, 0, 0, 0])
  _, even = slope(methods.get("pacs"), rollout)
  np.testing.assert_allclose(even, [-1 / 3, *[1 / 9] * 3], atol=1e-6)
  _, unweighted = slope(methods.get("pacs", balanced=False), rollout)
  np.testing.assert_allclose(unweighted, [-1 / 4, *[1 / 12] * 3], atol=1e-6)


def test_pacs_leaves_unknown_verdicts_out_of_the_group():
  judged_group = group([1, 0])
  rollout = group([1, 0, 1]).replace(correct=jnp.array([[1, 0, -1]], jnp.int8))
  m = methods.get("pacs")
  want, (*actual, last) = slope(m, judged_group), slope(m, rollout)[1]
  np.testing.assert_allclose(actual, want[1], atol=1e-7)
  assert last == 0


# P3O.


@pytest.mark.parametrize("clipping", ["separate", "joint"])
def test_p3o_of_two_samples_is_rloo_on_policy(clipping):
  """1/2 (R1 - R2) (grad log pi(y1) - grad log pi(y2))."""
  m = methods.get("p3o", clipping=clipping)
  _, actual = slope(m, group([0.2, 0.9]))
  np.testing.assert_allclose(actual, [0.35, -0.35], atol=1e-6)


@pytest.mark.parametrize("clipping", ["separate", "joint"])
def test_p3o_of_all_pairs_is_rloo_and_blind_to_a_constant(clipping):
  m = methods.get("p3o", clipping=clipping)
  rewards = np.array([0.2, 0.9, 0.4, -0.3, 7.0])
  others = (rewards[:4].sum() - rewards[:4]) / 3
  for shift in (0.0, 5.0):
    exists = jnp.array([[True] * 4 + [False]])
    rollout = group(rewards + shift, sample_mask=exists)
    _, actual = slope(m, rollout)
    np.testing.assert_allclose(
      actual, [*(others - rewards[:4]) / 4, 0], atol=2e-6
    )


def test_p3o_clips_each_ratio_or_their_product():
  """The better sample is 1.3 times as likely: it is clipped, or the pair is.

  The product 1.3 clips the pair in the order in which A is positive, and
  1 / 1.3 in the other order; the mean over both orders is half of the slope.
  """
  moved = jnp.log(jnp.array([1.3, 1.0]))
  rollout = group([1.0, 0.0])
  _, separate = slope(methods.get("p3o"), rollout, moved)
  np.testing.assert_allclose(separate, [0, 0.5], atol=1e-6)
  joint = methods.get("p3o", clipping="joint")
  for away, product in ((moved, 1.3), (-moved, 1 / 1.3)):
    half = 0.5 * product / 2
    np.testing.assert_allclose(
      slope(joint, rollout, away)[1], [-half, half], atol=1e-6
    )
  back = jnp.log(jnp.array([1.3, 1 / 1.3]))  # the product is 1 again
  np.testing.assert_allclose(
    slope(joint, rollout, back)[1], [-0.5, 0.5], atol=1e-6
  )


def test_p3o_pays_for_the_distance_to_the_reference():
  ref = {"ref/log_probs": jnp.array([[[-1.0, -2.0], [0.0, 0.0]]])}
  rollout = group([1.0, 1.0], t=2, extras=ref)
  np.testing.assert_allclose(
    advantage(methods.get("p3o", beta=0.1), rollout), [[0.7, 1.0]], atol=1e-6
  )
  with pytest.raises(ValueError, match=r"'join'; did you mean 'joint'"):
    methods.get("p3o", clipping="join")


# Semi-online.


def test_semi_online_dpo_starts_at_log_2_and_moves_the_pair_apart():
  """The first right and the first wrong sample, by -+ beta / 2."""
  value, actual = slope(methods.get("semi_online_dpo"), group([0, 1, 1, 0, 1]))
  np.testing.assert_allclose(value, LN2, rtol=1e-6)
  np.testing.assert_allclose(actual, [0.05, -0.05, 0, 0, 0], atol=1e-7)


def test_semi_online_dpo_takes_the_highest_and_the_lowest_score():
  m = methods.get("semi_online_dpo")
  rollout = group([0.3, 0.1, 0.8, 0.5])
  np.testing.assert_array_equal(advantage(m, rollout), [[0, -1, 1, 0]])
  value, actual = slope(m, group([0.4] * 3))
  assert value == 0
  assert not actual.any()


def test_semi_online_dpo_may_imitate_the_chosen_sample():
  m = methods.get("semi_online_dpo", nll_coef=0.5)
  _, actual = slope(m, group([0, 1, 1]))
  np.testing.assert_allclose(actual, [0.05, -0.55, 0], atol=1e-7)
  assert not slope(m, group([1, 1, 1]))[1].any()


@pytest.mark.parametrize("name", ["semi_online_dpo", "semi_online_grpo"])
def test_the_generator_follows_after_so_many_steps(name):
  for every, want in ((1, [1, 1, 1, 1]), (2, [0, 1, 0, 1])):
    m = methods.get(name, every=every)
    assert m.behavior == "generator"
    rule = dict(m.parameter_sets)["generator"]
    follows = [
      int(rule.update({"w": jnp.zeros(())}, {"w": jnp.ones(())}, i)["w"])
      for i in jnp.arange(4)
    ]
    assert follows == want


def test_semi_online_grpo_on_policy_is_grpo():
  rollout = tabular_policy.rollout()
  now = rollout.behavior_log_probs
  ref = {"ref/log_probs": now - 0.3, "old/log_probs": now}
  rollout = rollout.replace(extras=rollout.extras.update(ref))
  _, want = slope(methods.get("grpo", beta=0.001), rollout, now)
  _, actual = slope(methods.get("semi_online_grpo"), rollout, now)
  np.testing.assert_allclose(actual, want, atol=1e-7)


def test_semi_online_grpo_caps_the_weight_and_clips_nothing():
  m = methods.get("semi_online_grpo", beta=0.0, ddof=0, eps=0.0)
  ratios = np.array([5.0, 0.5, 5.0, 0.5])
  old = {"old/log_probs": jnp.ones((1, 4, 1))}  # not who sampled
  rollout = group([1, 1, 0, 0], extras=old)
  _, actual = slope(m, rollout, jnp.log(jnp.asarray(ratios)))
  np.testing.assert_allclose(
    actual, np.array([-2, -0.5, 2, 0.5]) / 4, rtol=1e-5
  )


# ACO.


def foreseen(w, **kwargs):
  """A group whose samples have these mean log-probs."""
  rollout = group([0.0] * len(w), **kwargs)
  likely = jnp.asarray(w, jnp.float32)[None, :, None]
  return rollout.replace(
    behavior_log_probs=jnp.broadcast_to(likely, rollout.mask.shape)
  )


def test_aco_at_the_reference_is_log_2_whatever_the_factor():
  for w in ([-0.1, -0.2], [-0.1, -2.0], [-0.1, -9.0]):
    value, _ = slope(methods.get("aco"), foreseen(w))
    np.testing.assert_allclose(value, LN2, rtol=1e-6)


def test_aco_pushes_the_worst_down_by_how_far_it_is_behind():
  """d loss / d d_- = beta f sigma(-beta (d_+ - f d_-)), f = e^(w_+ - w_-)."""
  beta, moved = 0.1, jnp.array([0.4, 0.0, -0.7])
  for alpha, f in ((1.0, np.exp(1.5)), (0.5, 10.0), (1e9, 1.0)):
    m = methods.get("aco", alpha=alpha)
    _, (best, middle, worst) = slope(m, foreseen([-0.5, -1.0, -2.0]), moved)
    rate = beta / (1 + np.exp(beta * (0.4 + f * 0.7)))
    assert middle == 0
    np.testing.assert_allclose(best, -rate, rtol=1e-5)
    np.testing.assert_allclose(worst, f * rate, rtol=1e-5)


def test_aco_without_a_difference_has_no_pair():
  value, actual = slope(methods.get("aco"), foreseen([-1.0, -1.0, -1.0]))
  assert value == 0
  assert not actual.any()


def test_aco_judges_a_first_step_by_what_follows_it():
  likely = jnp.array([[[-9.0, -0.1, -0.1], [-0.1, -2.0, -2.0]]])
  rollout = group([0, 0], t=3).replace(behavior_log_probs=likely)
  m = methods.get("aco")
  without_steps = rollout.replace(step_ids=None)
  np.testing.assert_array_equal(np.sign(advantage(m, without_steps)), [[-1, 1]])
  rollout = rollout.replace(step_ids=jnp.array([[[0, 1, 1]] * 2]))
  np.testing.assert_array_equal(np.sign(advantage(m, rollout)), [[1, -1]])


# PRDP.


def test_prdp_is_zero_at_the_tilted_policy_and_nowhere_steeper():
  """pi ~ ref exp(R / beta) on a table: the partition function cancels."""
  beta, ref = 0.5, jax.nn.log_softmax(jnp.array([0.3, -0.4, 0.1, 0.9]))
  rewards = jnp.array([0.2, 1.0, -0.5, 0.4])
  tilted = jax.nn.log_softmax(ref + rewards / beta)
  ref_log_probs = {"ref/log_probs": ref[None, :, None]}
  rollout = group(
    rewards, extras={**ref_log_probs, "old/log_probs": tilted[:, None]}
  )
  value, actual = slope(methods.get("prdp", beta=beta), rollout, tilted)
  np.testing.assert_allclose(value, 0, atol=1e-10)
  np.testing.assert_allclose(actual, 0, atol=1e-6)


def test_prdp_starts_parallel_to_p3o():
  """At pi = ref: -2 beta (R1 - R2) (grad log pi(y1) - grad log pi(y2))."""
  for rewards in ([0.9, 0.2], [0.2, 0.9]):
    value, actual = slope(methods.get("prdp", beta=0.3), group(rewards))
    gap = rewards[0] - rewards[1]
    np.testing.assert_allclose(value, 0.49, rtol=1e-5)
    np.testing.assert_allclose(actual, [-0.6 * gap, 0.6 * gap], rtol=1e-5)


def test_prdp_rests_where_a_token_has_moved_far_enough():
  """Beyond the clip the gradient towards the target is 0, back it is full."""
  m, unclipped = (methods.get("prdp", beta=0.1, clip=c) for c in (0.2, np.inf))
  rollout = group([1.0, 0.0])
  ahead, behind = jnp.array([0.5, 0.0]), jnp.array([-0.5, 0.0])
  assert slope(m, rollout, ahead)[1][0] == 0
  assert slope(unclipped, rollout, ahead)[1][0] < 0
  np.testing.assert_allclose(
    slope(m, rollout, behind)[1], slope(unclipped, rollout, behind)[1]
  )


def test_prdp_of_equal_rewards_pulls_the_log_ratios_together():
  _, actual = slope(methods.get("prdp"), group([1, 1]), jnp.array([0.1, -0.1]))
  assert actual[0] > 0 > actual[1]


# SuperHF.


def test_superhf_imitates_the_first_best_that_has_a_token():
  rollout = group([0.3, 2.0, 0.9, 0.9], t=2)
  mask = rollout.mask.at[0, 1].set(False)
  rollout = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  _, actual = slope(methods.get("superhf"), rollout)
  np.testing.assert_allclose(actual, [[0, 0], [0, 0], [-0.5, -0.5], [0, 0]])


def test_superhf_of_one_sample_moves_nothing_on_average():
  """E grad log pi = 0, with every token as the only sample of one prompt."""
  base = tabular_policy.rollout(p=tabular_policy.V, s=2, t=1, k=1, ragged=False)
  ids = jnp.broadcast_to(
    jnp.arange(tabular_policy.V)[:, None, None], base.mask.shape
  )
  rollout = base.replace(
    tokens=base.tokens.replace(completions=ids),
    sample_mask=jnp.array([[True, False]] * tabular_policy.V),
  )
  hidden = tabular_policy.params(3, p=1, s=2, t=1)["hidden"]
  params = {"hidden": jnp.repeat(hidden, tabular_policy.V, 0)}
  m = methods.get("superhf")
  actual = surrogate_slopes.gradient(m, rollout, params)
  p = jax.nn.softmax(hidden[0, 0, 0, : tabular_policy.V])
  assert np.abs(actual).max() > 0.01
  mean = jnp.einsum("a,av->v", p, actual[:, 0, 0])
  np.testing.assert_allclose(mean, 0, atol=1e-7)


def test_superhf_holds_on_to_the_reference_at_every_sample():
  """The gradient of k3 at d is 1 - e^-d."""
  m = methods.get("superhf", beta=0.4)
  moved = np.array([0.5, -0.2])
  _, actual = slope(m, group([0.0, 1.0]), jnp.asarray(moved))
  want = 0.2 * (1 - np.exp(-moved)) - np.array([0, 1])
  np.testing.assert_allclose(actual, want, rtol=1e-5)


# Judges.


def judged(preferred):
  preferred = jnp.asarray(preferred, jnp.float32)[None]
  return group(
    [0.0] * preferred.shape[-1], extras={"task/preferences": preferred}
  )


def win_rates(rollout, preferences="scores"):
  m = methods.get("pref_grpo", preferences=preferences)
  (source, _) = (stage for _, stage in m.advantage.links)
  return np.asarray(jax.jit(source.apply)(None, rollout, ())[0])


def test_win_rates_of_a_strict_order_are_evenly_spread():
  rates = win_rates(group([0.1, 0.4, 0.5, 9.0]))
  np.testing.assert_allclose(rates, [[0, 1 / 3, 2 / 3, 1]], rtol=1e-6)


def test_win_rates_average_one_half_and_read_only_the_order():
  rollout = tabular_policy.rollout()
  rates, real = win_rates(rollout), np.asarray(rollout.sample_mask)
  for row, exists in zip(rates, real, strict=True):
    np.testing.assert_allclose(row[exists].mean(), 0.5, rtol=1e-6)
    assert not row[~exists].any()
  m = methods.get("pref_grpo")
  stretched = rollout.replace(scores=jnp.exp(3 * rollout.scores))
  np.testing.assert_array_equal(advantage(m, stretched), advantage(m, rollout))
  grpo = methods.get("grpo")
  assert (
    np.abs(advantage(grpo, stretched) - advantage(grpo, rollout)).max() > 0.1
  )


def test_ties_and_cycles_teach_pref_grpo_nothing():
  cycle = [[0.5, 1, 0], [0, 0.5, 1], [1, 0, 0.5]]
  for preferred in (np.full((3, 3), 0.5), cycle):
    m = methods.get("pref_grpo", preferences="task")
    assert not advantage(m, judged(preferred)).any()


def test_win_rates_of_some_opponents_divide_by_their_number():
  preferred = [[0.5, 1, 1], [0, 0.5, np.nan], [0, np.nan, 0.5]]
  rates = win_rates(judged(preferred), "task")
  np.testing.assert_allclose(rates, [[1, 0, 0]])


def test_judgements_and_scores_may_contradict_each_other():
  rollout = judged([[0.5, 0], [1, 0.5]]).replace(scores=jnp.array([[9.0, 0.0]]))
  np.testing.assert_allclose(win_rates(rollout, "task"), [[0, 1]])
  np.testing.assert_allclose(win_rates(rollout, "scores"), [[1, 0]])


MANY = 2000  # prompts, each with its own reference


def against_random(scores, limit):
  """Advantages of many prompts that all have these scores."""
  base = tabular_policy.rollout(p=MANY, s=len(scores), ragged=False)
  rollout = base.replace(scores=jnp.tile(jnp.asarray(scores), (MANY, 1)))
  t = against_random_member(limit)
  return rollout, worked_example.apply(t, rollout)


def test_brpo_is_the_sign_of_the_gap_to_a_uniform_reference():
  """Its mean is (#below - #above) / G."""
  scores = np.array([0.3, 0.9, -0.2, 0.5, 0.4])
  _, a = against_random(scores, 1.0)
  for row in a[:50]:
    (reference,) = np.flatnonzero(row == 0)
    np.testing.assert_array_equal(row, np.sign(scores - scores[reference]))
  want = np.array([-2, 4, -4, 2, 0]) / 5
  np.testing.assert_allclose(a.mean(0), want, atol=4 / np.sqrt(MANY))


def test_brpo_counts_ties_as_losses_and_drops_lopsided_groups():
  _, ties = against_random([0.5] * 5, 1.0)
  assert (np.sort(ties) == [-1, -1, -1, -1, 0]).all()
  assert not against_random([0.5] * 5, 0.6)[1].any()
  rollout, a = against_random([0.1, 0.2, 0.3, 0.4, 0.5], 0.6)
  assert set(np.abs(a.sum(-1))[a.any(-1)]) == {0, 2}  # 4 of 5 is too much
  m = methods.get("brpo_writing")
  in_loss, _ = jax.jit(m.loss_filter.apply)(None, rollout, m.loss_filter.init())
  np.testing.assert_array_equal(in_loss, np.repeat(a.any(-1)[:, None], 5, 1))


def test_brpo_drops_a_group_of_one():
  alone = group([1.0, 0.0], sample_mask=jnp.array([[True, False]]))
  m = methods.get("brpo_writing")
  assert not advantage(m, alone).any()
  assert not jax.jit(m.loss_filter.apply)(None, alone, m.loss_filter.init())[
    0
  ].any()


def test_the_source_of_preferences_is_part_of_the_method():
  """Judgements that a task does not provide are missed before a run."""
  for name in ("pref_grpo", "brpo_writing"):
    assert "(preferences=scores)" in str(methods.get(name)).replace(
      "limit=0.6, ", ""
    )
    m = methods.get(name, preferences="task")
    with pytest.raises(ValueError, match="rollout has no task/preferences"):
      scoring.passes(None, {}, m.signal_needs, group([1.0, 0.0]))
    with pytest.raises(ValueError, match="did you mean 'task'"):
      methods.get(name, preferences="tasks")


# GRPO-CARE.


def answers(verdicts, likelihoods, **changes):
  """Samples of two tokens: a step, less likely by sample, and the answer."""
  log_p = jnp.log(jnp.asarray(likelihoods, jnp.float32))[None]
  copy = jnp.stack([-jnp.ones_like(log_p).cumsum(-1), log_p], -1)
  ids = jnp.broadcast_to(jnp.array([0, 1]), copy.shape)
  rollout = group(verdicts, t=2, extras={"ema/log_probs": copy})
  return rollout.replace(**{"step_ids": ids, **changes})


def rewards(rollout):
  _, (_, bonus), _ = methods.get("grpo_care").advantage.links
  actual, _ = bonus.apply(rollout.scores, rollout, ())
  return np.asarray(actual)[0]


def test_care_pays_every_right_answer_where_all_are_as_likely():
  np.testing.assert_allclose(
    rewards(answers([1, 0, 1, 0], [0.3] * 4)), [1.5, 0, 1.5, 0]
  )


def test_care_pays_right_answers_as_likely_as_their_mean():
  """Right ones have the mean .5: .495 is within the margin .01, .46 not."""
  rollout = answers([1, 1, 1, 0], [0.46, 0.495, 0.545, 0.9])
  np.testing.assert_allclose(rewards(rollout), [1, 1.5, 1.5, 0])


def test_care_caps_the_likelihood():
  """With the cap .95 the mean is .947, of which .94 is within the margin."""
  rollout = answers([1, 1, 1], [0.94, 0.999, 0.999])
  np.testing.assert_allclose(rewards(rollout), [1.5, 1.5, 1.5])


def test_care_pays_no_wrong_or_unknown_answer_and_needs_a_right_one():
  assert not rewards(answers([0, 0, 0], [0.1, 0.5, 0.9])).any()
  unknown = jnp.full((1, 2), -1, jnp.int8)
  np.testing.assert_allclose(
    rewards(answers([1, 1], [0.9, 0.9], correct=unknown)), [1, 1]
  )


def test_care_needs_steps_to_tell_the_answer_apart():
  rollout = answers([1, 1, 0], [0.1, 0.9, 0.9], step_ids=None)
  with pytest.raises(ValueError, match="the rollout has no steps, of which"):
    rewards(rollout)


# Durations.


def timed(durations, **changes):
  """One token per action; the first axis of `durations` is the sample."""
  durations = jnp.asarray(durations, jnp.float32)[None]
  s, k = durations.shape[1:]
  rollout = group([1, *[0] * (s - 1)], t=k, **changes)
  return rollout.replace(
    step_ids=jnp.broadcast_to(jnp.arange(k), (1, s, k)),
    step_scores=jnp.zeros((1, s, k)),
    step_mask=jnp.ones((1, s, k), bool),
    extras=rollout.extras.update({"task/durations": durations}),
  )


def time_weights(rollout, **hyper):
  """The factor on the advantage of GRPO."""
  unweighted = advantage(methods.get("grpo"), rollout)[..., None]
  weighted = advantage(methods.get("duration_aware", **hyper), rollout)
  return (weighted / unweighted)[0]


def test_time_weights_average_1_and_have_no_unit():
  durations = np.array([[1.0, 7.0], [2.0, 30.0], [4.0, 4.0]])
  weights = time_weights(timed(durations))
  np.testing.assert_allclose(weights, durations / durations.mean(), rtol=1e-5)
  np.testing.assert_allclose(
    time_weights(timed(1000 * durations)), weights, rtol=1e-5
  )


def test_equal_or_unknown_durations_are_grpo():
  rollout = timed(np.full((3, 2), 5.0))
  np.testing.assert_allclose(time_weights(rollout), 1, rtol=1e-6)
  without = rollout.replace(extras=types.Named(), step_ids=None)
  np.testing.assert_allclose(time_weights(without), 1, rtol=1e-6)
  some = timed([[2.0, np.nan], [6.0, np.nan]])
  np.testing.assert_allclose(
    time_weights(some), [[0.5, 1], [1.5, 1]], rtol=1e-6
  )


def test_a_timeout_bounds_the_longest_action():
  weights = time_weights(timed([[1.0, 1e6], [3.0, 2.0]]), timeout=4.0)
  np.testing.assert_allclose(weights, [[0.4, 1.6], [1.2, 0.8]], rtol=1e-5)


def test_time_weights_balance_what_fast_actions_deliver():
  """In 8 time units: 8 actions of length 1 and 2 of length 4, paid alike."""
  durations = np.array([1.0] * 8 + [4.0] * 2)
  weights = time_weights(timed(durations[:, None]))[:, 0]
  np.testing.assert_allclose(weights[:8].sum(), weights[8:].sum(), rtol=1e-5)


def test_durations_of_no_steps_say_what_is_missing():
  rollout = timed([[1.0], [2.0]]).replace(step_ids=None)
  with pytest.raises(ValueError, match="step_ids"):
    advantage(methods.get("duration_aware"), rollout)


# The advantage model.


def ranking(values, scores, margin=2.5):
  """The model's loss of one group, and its gradient by each value."""
  m = methods.get("advantage_model", margin=margin)["advantage_model"]
  rollout = group(scores)
  (term,) = m.loss.terms

  def total(v):
    named = types.Named({"values": v[None, :, None]})
    return term.fn(rollout.scores, named, rollout).sum()

  return jax.value_and_grad(total)(jnp.asarray(values, jnp.float32))


def test_the_advantage_model_settles_within_its_bounds():
  """Two samples, a = +-x: sigma(-2 x) = sigma(x - m) at x = m / 3."""
  for margin in (2.5, 6.0):
    x = margin / 3
    _, at = ranking([x + 4, -x + 4], [1, 0], margin)  # 4: a is centred
    np.testing.assert_allclose(at, 0, atol=1e-6)
    _, inside = ranking([x / 2, -x / 2], [1, 0], margin)
    assert inside[0] < 0 < inside[1]
    _, outside = ranking([2 * x, -2 * x], [1, 0], margin)
    assert outside[0] > 0 > outside[1]


def test_without_bounds_the_advantage_model_is_bradley_terry():
  values = np.array([0.3, -0.8, 1.1])
  actual, _ = ranking(values, [1.0, 0.0, 0.5], 1e3)
  pairs = [values[0] - values[1], values[0] - values[2], values[2] - values[1]]
  np.testing.assert_allclose(actual, np.log1p(np.exp(-np.array(pairs))).mean())


def test_the_advantage_model_is_blind_to_a_constant_of_the_prompt():
  values, scores = [0.3, -0.8, 1.1], np.array([1.0, 0.0, 0.5])
  for actual, want in zip(
    ranking(values, scores + 7), ranking(values, scores), strict=True
  ):
    np.testing.assert_array_equal(actual, want)
  actual, slopes = ranking(values, [1.0, 1.0, 1.0])
  assert actual == 0
  assert not slopes.any()


def test_modelled_advantages_are_centred_and_read_before_the_last_token():
  rollout = tabular_policy.rollout()
  values = np.random.default_rng(0).normal(size=rollout.mask.shape)
  extras_ = {"advantage_model/values": jnp.asarray(values, jnp.float32)}
  rollout = rollout.replace(extras=rollout.extras.update(extras_))
  m = methods.get("advantage_model")["policy"]
  a, real = advantage(m, rollout), np.asarray(rollout.sample_mask)
  last = np.asarray(rollout.scored_lengths) - 1
  last_values = np.take_along_axis(values, last[..., None], -1)[..., 0]
  for row, exists, v in zip(a, real, last_values, strict=True):
    np.testing.assert_allclose(
      row[exists], v[exists] - v[exists].mean(), atol=1e-6
    )
    assert not row[~exists].any()
  rehearsed, _ = jax.jit(m.loss.terms[1].loss_filter.apply)(
    None, rollout, ((), ())
  )
  np.testing.assert_array_equal(np.argmax(rehearsed, -1), np.argmax(a, -1))
  assert (rehearsed.sum(-1) == 1).all()


def test_without_rehearsal_the_advantage_model_pays_plain_ppo():
  (term,) = methods.get("advantage_model", gamma=0.0)["policy"].loss.terms
  assert term.name.startswith("policy_gradient(ppo_clip(low=0.2, high=0.2)")


def test_what_the_judge_did_not_compare_is_neither_won_nor_lost():
  """A sample without preferences has A = 0 and is in no statistic."""
  nan = np.nan
  wins = np.array(
    [[0.5, 1, 1, nan], [0, 0.5, 0, nan], [0, 1, 0.5, nan], [nan] * 4]
  )
  rollout = judged(jnp.asarray(wins, jnp.float32))
  m = methods.get("pref_grpo", preferences="task")
  rates = advantage(m, rollout)
  alone = judged(jnp.asarray(wins[:3, :3], jnp.float32))
  np.testing.assert_allclose(rates[0, :3], advantage(m, alone)[0], atol=1e-6)
  assert rates[0, 3] == 0
  for seed in range(6):
    keys = jax.random.split(jax.random.key(seed), 1)
    signs = against_random_member(1.0, "task").apply(
      None, rollout.replace(keys=keys), ()
    )[0]
    assert signs[0, 3] == 0


def test_an_action_that_never_returned_took_the_timeout():
  rollout = tabular_policy.rollout(p=1, s=2, t=2, k=2, ragged=False)
  rollout = rollout.replace(
    step_ids=jnp.array([[[0, 1], [0, 1]]]),
    step_mask=jnp.ones((1, 2, 2), bool),
    tokens=rollout.tokens.replace(mask=jnp.ones((1, 2, 2), bool)),
    extras=rollout.extras.update(
      {"task/durations": jnp.array([[[1.0, np.inf], [2.0, np.nan]]])}
    ),
  )
  t = weighted_by_duration(9.0)
  got, _ = t.apply(jnp.ones((1, 2)), rollout, ())
  np.testing.assert_allclose(got[0], [[0.25, 2.25], [0.5, 1]], atol=1e-6)


# MAH-DPO.

WORDS, WIDTH = 5, 3


def _trunk(params, tokens):
  samples, length = tokens.completions.shape[1:]
  return params["trunk"][tokens.prompts[:, 0]][:, :samples, :length]


def _score(params, tokens):
  """A trunk of free hidden states under the model's head and two others."""
  heads = {"logits": lambda h: h @ params["head"]}
  for name, head in params["heads"].items():
    heads[name] = lambda h, head=head: h @ head["kernel"] + head["bias"]
  return types.Scored(_trunk(params, tokens), heads)


def multi_headed(noise=0.0, p=3):
  """Its policy, its parameters, and a rollout with two components."""
  trunk_key, head_key, key = jax.random.split(jax.random.key(0), 3)
  head = jax.random.normal(head_key, (WIDTH, WORDS))
  rollout = tabular_policy.rollout(p=p, ragged=False)
  params = {
    "trunk": jax.random.normal(trunk_key, (*rollout.mask.shape, WIDTH)),
    "head": head,
    "heads": mah_dpo.copied_heads(key, head, ("accuracy", "format"), noise),
  }
  policy = types.Policy(_score, None, None)
  return policy, params, rollout


def gradients(m, policy, params, rollout, reference=None, temperature=1.0):
  @jax.jit
  def value_and_gradient(params, reference, rollout):
    sources = {"old": params, "ref": reference}
    rollout = scoring.passes(
      policy, sources, method_loss.required(m), rollout, temperature
    )
    batch, scales, _ = method_loss.prepare(m, rollout, m.init())
    weights = method_loss.aggregation_weights(m, batch)

    def value(params):
      return method_loss.loss(
        m, policy, params, batch, weights, scales, temperature=temperature
      )[0]

    return jax.value_and_grad(value)(params)

  reference = params if reference is None else reference
  return value_and_gradient(params, reference, rollout)


def test_mah_dpo_of_one_objective_is_dpo():
  rollout = tabular_policy.rollout()
  actual = []
  for name in ("mah_dpo", "semi_online_dpo"):
    m = methods.get(name)
    params, ref = tabular_policy.params(), tabular_policy.params(1)
    actual.append(gradients(m, tabular_policy.policy, params, rollout, ref))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), *actual
  )


def test_mah_dpo_is_the_mean_of_dpo_under_each_head():
  """Each head alone is the model's, with its component as the score.

  All distributions are at the sampling temperature.
  """
  policy, params, rollout = multi_headed(noise=0.5)
  _, reference, _ = multi_headed()
  names = ("accuracy", "format")
  m = methods.get("mah_dpo", objectives=names)
  value, slope = gradients(m, policy, params, rollout, reference, 0.6)
  alone = []
  for name in names:
    single = {**params, "head": params["heads"][name]["kernel"]}
    other = rollout.replace(scores=rollout.components[name])
    m = methods.get("mah_dpo")
    alone.append(gradients(m, policy, single, other, reference, 0.6))
  np.testing.assert_allclose(value, np.mean([v for v, _ in alone]), rtol=1e-6)
  np.testing.assert_allclose(
    slope["trunk"], sum(g["trunk"] for _, g in alone) / 2, atol=1e-6
  )
  for name, (_, single) in zip(names, alone, strict=True):
    kernel = slope["heads"][name]["kernel"]
    np.testing.assert_allclose(kernel, single["head"] / 2, atol=1e-6)
  assert not slope["head"].any()  # the model's own head learns nothing


def test_an_objective_without_a_pair_is_not_in_the_mean():
  policy, params, rollout = multi_headed(noise=0.5)
  flat = jnp.zeros_like(rollout.components["format"])
  rollout = rollout.replace(components={**rollout.components, "format": flat})
  both, alone = (
    gradients(methods.get("mah_dpo", objectives=o), policy, params, rollout)
    for o in (("accuracy", "format"), ("accuracy",))
  )
  np.testing.assert_allclose(both[0], alone[0], rtol=1e-6)
  np.testing.assert_allclose(both[1]["trunk"], alone[1]["trunk"], atol=1e-7)
  assert not both[1]["heads"]["format"]["kernel"].any()


def test_heads_start_as_the_models_and_mix_by_their_weights():
  _, params, _ = multi_headed(noise=1e-3)
  heads, h = params["heads"], jnp.ones(WIDTH)
  for head in heads.values():
    apart = np.asarray(head["kernel"] - params["head"])
    assert 0 < np.abs(apart).max() < 6e-3
  first, second = (h @ x["kernel"] + x["bias"] for x in heads.values())
  mixed = mah_dpo.mixed_head(heads, {"accuracy": 0.3, "format": 0.7})
  np.testing.assert_allclose(
    h @ mixed["kernel"] + mixed["bias"], 0.3 * first + 0.7 * second, rtol=1e-5
  )
  alone = mah_dpo.mixed_head(heads, {"format": 1.0})
  np.testing.assert_array_equal(alone["kernel"], heads["format"]["kernel"])


def two_headed(**shape):
  """A decoder with a head of its vocabulary's size for each objective."""
  return ModelConfig(
    vocab_size=8,
    width=8,
    layers=1,
    heads=2,
    kv_heads=2,
    head_dim=4,
    mlp_width=8,
    extra_heads=(("accuracy", 8), ("format", 8)),
    **shape,
  )


def test_a_mixed_head_samples_as_the_models_own_but_for_its_bias():
  config = two_headed(tied_embeddings=False)
  params = transformer.init(config, jax.random.key(0))
  kernel = params["unembed"]["kernel"]
  heads = mah_dpo.copied_heads(
    jax.random.key(1), kernel, ("accuracy", "format"), noise=0.5
  )
  heads["format"]["bias"] = jnp.arange(8.0)  # trained
  weights = {"accuracy": 0.3, "format": 0.7}
  mixed = mah_dpo.mixed_head(heads, weights)
  params["unembed"]["kernel"] = mixed["kernel"]
  hidden = jax.random.normal(jax.random.key(2), (4, 8))
  want_logits = sum(
    w * head_lib.linear(heads[n], hidden) for n, w in weights.items()
  )
  actual = transformer.unembed(config, params, hidden)
  np.testing.assert_allclose(
    actual + 0.7 * jnp.arange(8.0), want_logits, atol=1e-5
  )
  np.testing.assert_allclose(
    head_lib.linear(mixed, hidden), want_logits, atol=1e-5
  )


@pytest.mark.long
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_a_decoder_carries_a_head_for_each_objective(temperature):
  """`extra_heads` of the vocabulary's size, copied from the model's own."""
  config = two_headed()
  params = transformer.init(config, jax.random.key(0))
  kernel = params["embed"]["table"].T
  if "unembed" in params:
    kernel = params["unembed"]["kernel"]
  copies = mah_dpo.copied_heads(
    jax.random.key(1), kernel, ("accuracy", "format"), noise=0.0
  )
  assert jax.tree.map(jnp.shape, copies) == jax.tree.map(
    jnp.shape, params["heads"]
  )
  params["heads"] = copies
  rollout = tabular_policy.rollout(p=2)
  m = methods.get("mah_dpo", objectives=("accuracy", "format"))
  value, slope = gradients(
    m, policy_lib.bind(config), params, rollout, temperature=temperature
  )
  np.testing.assert_allclose(value, LN2, rtol=1e-5)  # at the reference
  assert all(slope["heads"][n]["kernel"].any() for n in copies)


def test_a_policy_without_the_heads_is_named():
  rollout = tabular_policy.rollout()
  m = methods.get("mah_dpo", objectives=("accuracy",))
  with pytest.raises(ValueError, match="no head"):
    gradients(m, tabular_policy.policy, tabular_policy.params(), rollout)
