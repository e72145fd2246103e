"""Properties of all surrogates, and the clips of single tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy
from helpers.surrogate_slopes import (
  OLD,
  bare,
  close,
  drifted,
  gradient,
  score_function,
  signs,
  slopes,
)

from rl import methods, scoring, types
from rl.losses import aggregates, ratios, surrogates, terms
from rl.methods.surrogates import (
  dppo,
  flex_clip,
  gmpo,
  kimi,
  off_policy_mask,
  sapo,
  simko,
  stable_reinforce,
  vespo,
  weights,
)
from rl.transforms import only, right_verdict

TAPERED = weights.weighted_reinforce((1.0, 1.0), (0.0, 1.0))

# The contract of surrogates.

FIXED = (("phase", flex_clip.time_phase(100)),)
SURROGATES = {
  "ppo_clip": (surrogates.ppo_clip(), {}),
  "ppo_clip, cap": (surrogates.ppo_clip(cap=4.0), {}),
  "gspo": (surrogates.ppo_clip(3e-4, 4e-4), {"ratio": ratios.sequence_mean}),
  "cispo": (weights.weighted_reinforce((0.0, 5.0), (0.0, 5.0)), {}),
  "dispo": (weights.weighted_reinforce((0.8, 11.0), (0.0, 101.0)), {}),
  "topr": (TAPERED, {"ratio": ratios.sequence}),
  "sapo": (sapo.soft_gate(1.0, 1.05), {}),
  "gmpo": (gmpo.geometric_mean(0.4), {}),
  "importance_weighted": (weights.importance_weighted(), {}),
  "kimi": (kimi.log_gain(), {}),
  "flex_clip": (
    flex_clip.moving_clip((-0.3, 0.4), (-0.2, 0.3), 0.2, False),
    {"prepared": FIXED},
  ),
  "stable_reinforce": (stable_reinforce.pre_clip(0.2, 1e3), {}),
  "dppo": (dppo.divergence_mask("tv", 0.1, 5.0), {}),
  "dppo, kl": (dppo.divergence_mask("kl", 0.05, 5.0), {}),
  "vespo": (
    vespo.gamma_weighted((2.0, 3.0), (3.0, 2.0)),
    {"ratio": ratios.sequence},
  ),
  "off_policy_mask": (
    # The rollouts of these tests have random log-probs of the behavior policy.
    off_policy_mask.mask_off_policy_samples(surrogates.ppo_clip(), 1e3),
    {},
  ),
  "simko": (simko.simko_clip(3, 0.01, 1.1, 0.8, 0.2), {}),
}
# Where the method is that the gradient goes elsewhere.
SPREADS = {"simko": "a share goes to the likeliest tokens, see `simko`"}
every_surrogate = pytest.mark.parametrize("name", SURROGATES)


@pytest.mark.parametrize("name", sorted(SURROGATES.keys() - SPREADS))
def test_at_the_old_policy_the_gradient_is_the_score_functions(name):
  """A grad log pi per token, divided by the length for sample surrogates."""
  surrogate, settings = SURROGATES[name]
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  is_per_sample = surrogate.gives == "sample"
  mean = (
    aggregates.seq_mean_token_mean if is_per_sample else aggregates.token_mean
  )
  want = score_function(rollout, params, mean())
  assert np.abs(want).max() > 1e-3
  close(gradient(bare(surrogate, **settings), rollout, params), want)


@every_surrogate
def test_weights_multiply_through(name):
  """Positively homogeneous in A, however far the policy has moved."""
  surrogate, settings = SURROGATES[name]
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.3)
  one = gradient(bare(surrogate, **settings), rollout, params, old)
  many = gradient(bare(surrogate, factor=7.0, **settings), rollout, params, old)
  assert np.abs(one).max() > 1e-4
  close(many, 7 * one)


@pytest.mark.parametrize(
  "aggregate",
  [
    aggregates.token_mean(),
    aggregates.seq_mean_token_mean(),
    aggregates.seq_mean_token_sum(),
    aggregates.seq_mean_token_sum_norm(50),
  ],
  ids=str,
)
@pytest.mark.parametrize("name", ["gspo", "sapo"])
def test_gspo_and_sapo_ignore_the_aggregate_asked_for(name, aggregate):
  """verl's do; here it is the one asked for."""
  surrogate, settings = SURROGATES[name]
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  want = score_function(rollout, params, aggregate)
  close(gradient(bare(surrogate, aggregate, **settings), rollout, params), want)


@pytest.mark.parametrize("name", ["gspo", "gmpo"])
def test_the_order_of_log_ratios_within_a_sample_does_not_matter(name):
  """For the sequence's weight: d loss / d log pi_t is the same at all t."""
  surrogate, settings = SURROGATES[name]
  rollout = tabular_policy.rollout(p=1, s=2, t=5, ragged=False)
  tokens = rollout.tokens.replace(mask=jnp.ones((1, 2, 5), bool))
  old = rollout.behavior_log_probs
  rollout = rollout.replace(tokens=tokens, extras=types.Named({str(OLD): old}))
  term = terms.policy_gradient(
    surrogate, **{k: v for k, v in settings.items() if k == "ratio"}
  )
  moved = jnp.array([0.3, -0.2, 0.1, 0.0, -0.1]) * 1e-3
  a = jnp.broadcast_to(jnp.array([1.0, -2.0])[None, :, None], old.shape)

  def total(shift):
    named = types.Named({"log_probs": old + shift})
    value = term.fn(a, named, rollout)[0]
    return jnp.sum(term.aggregate.fn(rollout.mask) * value)

  slope = jax.grad(total)(jnp.broadcast_to(moved, old.shape))
  close(slope, jnp.broadcast_to(slope[..., :1], slope.shape))
  again = jax.grad(total)(jnp.broadcast_to(moved[::-1], old.shape))
  close(again, slope)


# Clips.


def test_ppo_clip_on_the_cards_table():
  rho, a = [0.5, 0.5, 1.5, 1.5], [1, -1, 1, -1]
  value, slope = slopes(surrogates.ppo_clip(), np.log(rho), a)
  close(-value, [-0.5, 0.8, -1.2, 1.5])
  close(slope, [0.5, 0, 0, -1.5])
  value, slope = slopes(surrogates.ppo_clip(cap=3.0), [np.log(10)], [-1])
  close(-value, [3])
  close(slope, [0])
  value, _ = slopes(surrogates.ppo_clip(), [np.log(10)], [-1])
  close(-value, [10])


def test_the_share_of_clipped_tokens_leaves_out_those_at_the_bounds():
  """Tokens whose advantage is 0, or pushes the ratio back, are left out too."""
  # 1 - 0.5 and 1 + 0.5 are exact in binary, as are these ratios.
  rho = jnp.array([0.25, 0.5, 0.25, 0.25, 2.0, 1.5, 2.0, 2.0, 1.0])
  a = jnp.array([-0.5, -0.5, 0.5, 0.0, 0.5, 0.5, -0.5, 0.0, 0.5])
  wide = surrogates.ppo_clip(0.5, 0.5)
  _, metrics = wide.fn(jnp.log(rho), a, None, None)
  low, high = (
    np.flatnonzero(metrics[f"policy/clip_frac_{side}"]).tolist()
    for side in ("low", "high")
  )
  assert (low, high) == ([0], [4])
  # The bounds are 0.2 by default.
  rho, a = jnp.array([0.79, 0.81, 1.19, 1.21]), jnp.array([-1, -1, 1, 1])
  _, metrics = surrogates.ppo_clip().fn(jnp.log(rho), a, None, None)
  assert metrics["policy/clip_frac_low"].tolist() == [True] + [False] * 3
  assert metrics["policy/clip_frac_high"].tolist() == [False] * 3 + [True]


def test_the_share_of_tokens_that_the_dual_clip_bounds():
  """A ratio at the cap, and one with A > 0, are not counted."""
  rho, a = jnp.array([2.0, 4.0, 4.0, 4.0]), jnp.array([-1.0, -1.0, 1.0, 0.0])
  _, metrics = surrogates.ppo_clip(cap=2.0).fn(jnp.log(rho), a, None, None)
  expected = [False, True, False, False]
  assert metrics["policy/clip_frac_cap"].tolist() == expected
  _, metrics = surrogates.ppo_clip().fn(jnp.log(rho), a, None, None)
  assert "policy/clip_frac_cap" not in metrics


def test_a_clip_range_of_width_0_has_the_value_of_the_old_policy_at_most():
  value, _ = slopes(surrogates.ppo_clip(0.0, 0.0), np.log([0.5, 2.0]), [1, 1])
  close(value, [0.5, 1.0])
  value, _ = slopes(surrogates.ppo_clip(0.0, 0.5), np.log([0.5, 2.0]), [1, -1])
  close(value, [0.5, -2.0])


def test_a_ratio_is_clamped_at_20_nats():
  log_ratio = jnp.array([-30.0, -19.0, 0.5, 19.0, 30.0])
  want = np.exp([-20.0, -19.0, 0.5, 19.0, 20.0])
  close(surrogates.ratio(log_ratio), want, atol=0)


def test_attributes_of_a_surrogate_are_those_of_its_decorator():
  def scaled_ratio(log_ratio, advantages, policy, rollout, *, factor=2.0):
    """Scales the ratio."""
    del policy, rollout
    return factor * log_ratio * advantages

  surrogate = surrogates.surrogate()(scaled_ratio)(3.0)
  assert (str(surrogate), surrogate.gives) == (
    "scaled_ratio(factor=3)",
    "token",
  )
  assert surrogate.uses_ratio
  assert (surrogate.needs, surrogate.token_mean) == (set(), "arithmetic")
  assert surrogate.fn(5.0, 7.0, None, None) == 105
  assert surrogates.Surrogate("bare", scaled_ratio).uses_ratio
  assert not surrogates.reinforce().uses_ratio
  log_probs = types.Named({"log_probs": jnp.array([-2.0, -3.0])})
  value = surrogates.reinforce().fn(None, jnp.array([5.0, 7.0]), log_probs, 0)
  close(value, [-10, -21])
  with pytest.raises(dataclasses.FrozenInstanceError):
    surrogate.name = "other"


@pytest.mark.parametrize("side", ["low", "high"])
@pytest.mark.parametrize("width", [-0.2, float("nan")])
def test_ppo_clip_refuses_a_negative_clip_range(side, width):
  with pytest.raises(ValueError, match=f"{side} = {width} must be at least 0"):
    slopes(surrogates.ppo_clip(**{side: width}), [0.0], [1.0])


@surrogates.surrogate()
def dual_clip(log_ratio, advantages, policy, rollout, *, bound):
  """max(PPO-clip, A bound) where A < 0, as Ye et al. 2020 write it."""
  value, _ = surrogates.ppo_clip().fn(log_ratio, advantages, policy, rollout)
  bounded = jnp.maximum(value, advantages * bound)
  return jnp.where(advantages < 0, bounded, value)


def test_the_two_sided_clip_is_the_dual_clip_from_the_upper_bound_up():
  """INTELLECT-2's delta = 4, in value and in gradient; below it is its own."""
  rho = np.array([0.1, 0.7, 1.0, 1.3, 3.9, 4.1, 50.0])
  grid = np.log(np.tile(rho, 2)), np.repeat([1.0, -1.0], len(rho))
  for bound in (1.2, 1.25, 4.0):
    cap = slopes(surrogates.ppo_clip(cap=bound), *grid)
    for a, b in zip(cap, slopes(dual_clip(bound), *grid), strict=True):
      close(a, b)
  close(cap[0][-2:], [-4, -4])
  close(cap[1][-2:], [0, 0])
  tight, _ = slopes(surrogates.ppo_clip(cap=1.1), np.log([1.3]), [1.0])
  close(tight, [1.1])


def test_a_lower_bound_of_one_never_clips_a_negative_advantage():
  """The clipped and the unclipped surrogate agree where A is negative."""
  log_ratio = np.log([1e-4, 0.5, 1.0, 9.0, 11.0, 1e3])
  clipped = slopes(surrogates.ppo_clip(1.0, 9.0), log_ratio, -np.ones(6))
  for a, b in zip(
    clipped,
    slopes(weights.importance_weighted(), log_ratio, -np.ones(6)),
    strict=True,
  ):
    close(a, b)
  _, right = slopes(surrogates.ppo_clip(1.0, 9.0), log_ratio, np.ones(6))
  assert np.asarray(right != 0).tolist() == [True] * 4 + [False] * 2


def test_cispo_caps_the_weight_at_one_plus_high():
  """verl's meaning; TRL's epsilon_high is the cap itself, 5 for our 4."""
  (term,) = methods.get("cispo").loss.terms
  assert "negative=(0, 5)" in term.name
  surrogate = weights.weighted_reinforce((0.0, 5.0), (0.0, 5.0))
  rho = np.array([0.01, 1.0, 4.9, 5.1, 1e4])
  for sign in (1.0, -1.0):
    _, slope = slopes(surrogate, np.log(rho), np.full(5, sign))
    close(slope, sign * np.array([0.01, 1, 4.9, 5, 5]))
  assert (np.asarray(slope) != 0).all(), "no token loses its gradient"


def test_dispo_has_bounds_of_its_own_for_right_and_wrong():
  (term,) = methods.get("dispo").loss.terms
  assert "positive=(0.8, 11), negative=(0, 101)" in term.name
  surrogate = weights.weighted_reinforce((0.8, 11.0), (0.0, 101.0))
  rho = np.array([0.1, 1.0, 50.0, 500.0])
  _, right = slopes(surrogate, np.log(rho), np.ones(4))
  _, wrong = slopes(surrogate, np.log(rho), -np.ones(4))
  close(right, [0.8, 1, 11, 11])
  close(wrong, [-0.1, -1, -50, -101])


def test_the_taper_never_lifts_a_wrong_sample_and_lets_go_of_it():
  """Weights are 1 if right, at most 1 if wrong, and 0 as pi -> 0."""
  log_ratio = np.array([-18.0, -1.0, 0.0, 3.0])
  _, right = slopes(TAPERED, log_ratio, np.ones(4))
  close(right, [1, 1, 1, 1])
  _, wrong = slopes(TAPERED, log_ratio, -np.ones(4))
  close(wrong, [0, -np.exp(-1), -1, -1])


def test_sapo_fades_and_is_nowhere_cut_off():
  """f(1) = 2 / tau, f'(1) = 1, f' = sech^2(tau (rho - 1) / 2)."""
  rho = np.array([0.05, 0.5, 1.0, 2.0, 4.0])
  for sign, tau in ((1.0, 1.0), (-1.0, 1.05)):
    value, slope = slopes(
      sapo.soft_gate(1.0, 1.05), np.log(rho), np.full(5, sign)
    )
    want = rho / np.cosh(tau * (rho - 1) / 2) ** 2
    close(slope, sign * want)
    close(value[2], sign * 2 / tau)
    assert (np.asarray(slope) * sign > 0).all()


def test_gmpo_cuts_a_token_on_the_side_that_its_advantage_pushes():
  """(prod rho)^(1/T) with log rho at most .4 if A > 0, at least -.4 if < 0."""
  log_ratio = jnp.array([[[1.0, -1.0, 0.1]] * 2])
  a = jnp.array([[[2.0] * 3, [-3.0] * 3]])
  rollout = tabular_policy.rollout(p=1, s=2, t=3, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.ones((1, 2, 3), bool))
  )
  surrogate = gmpo.geometric_mean(0.4)
  value, slope = jax.vmap(
    jax.value_and_grad(lambda x, i: surrogate.fn(x, a, None, rollout)[0][0, i]),
    (None, 0),
  )(log_ratio, jnp.arange(2))
  want = [2 * np.exp((0.4 - 1 + 0.1) / 3), -3 * np.exp((1 - 0.4 + 0.1) / 3)]
  close(value, want)
  close(slope[0, 0, 0], want[0] / 3 * np.array([0, 1, 1]))
  close(slope[1, 0, 1], want[1] / 3 * np.array([1, 0, 1]))


def test_a_gap_of_a_thousand_nats_is_finite_and_has_no_gradient():
  surrogate = stable_reinforce.pre_clip(0.2, 1e3)
  log_ratio = np.array([1e3, 50.0, -1e3, 1e3, -1e3])
  a = np.array([-1.0, -1.0, 1.0, 1.0, -1.0])
  value, slope = slopes(surrogate, log_ratio, a)
  assert np.isfinite(value).all()
  close(value[:3], [-1e3, -1e3, 1e-3])
  np.testing.assert_array_equal(slope, np.zeros(5))
  _, slope = slopes(surrogate, [6.9], [-1.0])
  close(slope, [-np.exp(6.9)])


# Terms.


def test_a_term_with_another_signal_keeps_its_other_attributes():
  original = 0.5 * terms.policy_gradient(surrogates.ppo_clip())
  signal, chosen = signs(), only(right_verdict)
  term = original.of(signal=signal).of(loss_filter=chosen)
  assert (term.signal, term.loss_filter) == (signal, chosen)
  assert term.weight == 0.5
  assert original.signal is original.loss_filter is None


def test_k3_plus_is_worth_k3_and_descends_the_reverse_kl():
  ref = jnp.log(jnp.array([0.2, 0.5, 0.3]))
  logits = jnp.array([0.4, -0.3, 0.1])
  need = scoring.Need("ref", scoring.log_probs)
  rollout = tabular_policy.rollout(p=1, s=2, ragged=False)
  rollout = rollout.replace(extras=types.Named({str(need): ref}))

  def value(estimator, log_p):
    named = types.Named({"log_probs": log_p})
    return terms.kl(estimator).fn(None, named, rollout)[0]

  def sampled(logits):
    log_p = jax.nn.log_softmax(logits)
    return jax.lax.stop_gradient(jnp.exp(log_p)) @ value("k3+", log_p)

  def reverse(logits):
    log_p = jax.nn.log_softmax(logits)
    return jnp.exp(log_p) @ (log_p - ref)

  close(sampled(logits), reverse(logits))
  close(jax.grad(sampled)(logits), jax.grad(reverse)(logits))
  log_p = jax.nn.log_softmax(logits)
  close(value("k3+", log_p), value("k3", log_p))


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_times_the_ratio_an_estimator_has_the_gradient_of_the_reverse_kl(
  estimator,
):
  """Tokens are sampled from another policy; every outcome is enumerated."""
  log_mu = jnp.log(jnp.array([0.1, 0.3, 0.6]))
  ref = jnp.log(jnp.array([0.2, 0.5, 0.3]))
  need = scoring.Need("ref", scoring.log_probs)
  rollout = tabular_policy.rollout(p=1, s=1, t=3, ragged=False)
  tokens = rollout.tokens.replace(mask=jnp.ones((1, 1, 3), bool))
  rollout = rollout.replace(
    tokens=tokens,
    behavior_log_probs=log_mu[None, None],
    extras=types.Named({str(need): ref[None, None]}),
  )
  term = terms.kl(estimator, ratio=ratios.token, denominator="behavior")

  def expectation(logits):
    named = types.Named({"log_probs": jax.nn.log_softmax(logits)[None, None]})
    return jnp.sum(jnp.exp(log_mu) * term.fn(None, named, rollout)[0])

  def reverse(logits):
    log_p = jax.nn.log_softmax(logits)
    return jnp.exp(log_p) @ (log_p - ref)

  logits = jnp.array([0.4, -0.3, 0.1])
  close(expectation(logits), reverse(logits))
  close(jax.grad(expectation)(logits), jax.grad(reverse)(logits))
