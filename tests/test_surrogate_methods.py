"""What surrogates promise, and what each method of the family is equal to."""

import dataclasses

import free
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl import (
  aggregates,
  masked,
  method,
  methods,
  probes,
  ratios,
  step,
  surrogates,
  terms,
  transforms,
  types,
)
from rl.methods.surrogates import (
  flex_clip,
  gmpo,
  kimi,
  kl_cov,
  lp_reg,
  overlong,
  sapo,
  selection,
  simko,
  siren,
  stable_reinforce,
  weights,
)
from rl.transform import chain

OLD = probes.Need("old", probes.log_probs)
TAPERED = weights.weighted_reinforce((1.0, 1.0), (0.0, 1.0))
PHASE = "prepared/phase"


def close(a, b, atol=1e-6, rtol=1e-5):
  np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=atol, rtol=rtol)


def drifted(scale=1.0):
  """The free policy's parameters, and others at some distance."""
  now, then = free.params(0)["hidden"], free.params(1)["hidden"]
  return {"hidden": now}, {"hidden": now + scale * (then - now)}


def gradient(m, rollout, params, old=None, state=None):
  """The gradient of the whole method's loss at every position's logits."""
  sources = {"old": params if old is None else old}
  needs = method.required(m, updates=2)
  scored = probes.passes(free.policy, sources, needs, rollout)
  state = m.init() if state is None else state
  batch, scales, _ = method.prepare(m, scored, state)
  plan = step.Plan()
  found, _ = step.gradients(m, free.policy, params, batch, scales, plan)
  return np.asarray(found["hidden"][..., : free.V])


@transforms.transform("none", "sample")
def signs(_, rollout):
  """Advantages of both signs, of several sizes."""
  return rollout.scores - 0.4


def bare(surrogate, aggregate=None, factor=1.0, prepared=(), **kwargs):
  """A method that is that surrogate and nothing else."""
  loss = terms.policy_gradient(surrogate, aggregate=aggregate, **kwargs)
  return method.Method(loss, factor * signs(), prepared=prepared)


def score_function(rollout, params, aggregate):
  """The gradient of - aggregate(A log pi)."""
  return gradient(bare(surrogates.reinforce(), aggregate), rollout, params)


# The contract of surrogates.

FIXED = (("phase", flex_clip.time_phase(100)),)
SURROGATES = {
  "ppo_clip": (surrogates.ppo_clip(), {}),
  "ppo_clip, dual": (surrogates.ppo_clip(dual=3.0), {}),
  "ppo_clip, cap": (surrogates.ppo_clip(cap=4.0), {}),
  "gspo": (surrogates.ppo_clip(3e-4, 4e-4), {"ratio": ratios.sequence_mean}),
  "cispo": (weights.weighted_reinforce((0.0, 5.0), (0.0, 5.0)), {}),
  "dispo": (weights.weighted_reinforce((0.8, 11.0), (0.0, 101.0)), {}),
  "topr": (TAPERED, {"ratio": ratios.sequence}),
  "sapo": (sapo.soft_gate(1.0, 1.05), {}),
  "gmpo": (gmpo.geometric_mean(0.4), {}),
  "kl_cov": (kl_cov.importance(), {}),
  "kimi": (kimi.log_gain(), {}),
  "flex_clip": (
    flex_clip.moving_clip((-0.3, 0.4), (-0.2, 0.3), 0.2, False),
    {"prepared": FIXED},
  ),
  "stable_reinforce": (stable_reinforce.pre_clip(0.2, 1e3), {}),
  "simko": (simko.spread_and_press(3, 0.01, 1.1, 0.8, 0.2), {}),
}
# Where the method is that the gradient goes elsewhere.
SPREADS = {"simko": "a share goes to the likeliest tokens; see below"}
every_surrogate = pytest.mark.parametrize("name", SURROGATES)


@pytest.mark.parametrize("name", sorted(SURROGATES.keys() - SPREADS))
def test_at_the_old_policy_the_gradient_is_the_score_functions(name):
  """A grad log pi at every token; of sample surrogates, over its length."""
  surrogate, settings = SURROGATES[name]
  rollout, params = free.rollout(), free.params()
  whole = surrogate.gives == "sample"
  mean = aggregates.seq_mean_token_mean if whole else aggregates.token_mean
  want = score_function(rollout, params, mean())
  assert np.abs(want).max() > 1e-3
  close(gradient(bare(surrogate, **settings), rollout, params), want)


@every_surrogate
def test_weights_multiply_through(name):
  """Positively homogeneous in A, however far the policy has moved."""
  surrogate, settings = SURROGATES[name]
  rollout, (params, old) = free.rollout(), drifted(0.3)
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
  rollout, params = free.rollout(), free.params()
  want = score_function(rollout, params, aggregate)
  close(gradient(bare(surrogate, aggregate, **settings), rollout, params), want)


# Clips.


def slopes(surrogate, log_ratio, advantages):
  """Value and slope in the log-ratio of single tokens, `[N]`."""

  def one(x, a):
    value = surrogate.fn(x, a, types.Named({"log_probs": x}), None)
    return value[0] if isinstance(value, tuple) else value

  found = jax.vmap(jax.value_and_grad(one))
  return found(jnp.float32(log_ratio), jnp.float32(advantages))


def test_ppo_clip_on_the_cards_table():
  rho, a = [0.5, 0.5, 1.5, 1.5], [1, -1, 1, -1]
  value, slope = slopes(surrogates.ppo_clip(), np.log(rho), a)
  close(-value, [-0.5, 0.8, -1.2, 1.5])
  close(slope, [0.5, 0, 0, -1.5])
  value, slope = slopes(surrogates.ppo_clip(dual=3.0), [np.log(10)], [-1])
  close(-value, [3])
  close(slope, [0])
  value, _ = slopes(surrogates.ppo_clip(), [np.log(10)], [-1])
  close(-value, [10])


def test_the_two_sided_clip_is_the_dual_clip_from_the_upper_bound_up():
  """INTELLECT-2's delta = 4, in value and in gradient; below it is its own."""
  rho = np.array([0.1, 0.7, 1.0, 1.3, 3.9, 4.1, 50.0])
  grid = np.log(np.tile(rho, 2)), np.repeat([1.0, -1.0], len(rho))
  cap = slopes(surrogates.ppo_clip(cap=4.0), *grid)
  dual = slopes(surrogates.ppo_clip(dual=4.0), *grid)
  for a, b in zip(cap, dual, strict=True):
    close(a, b)
  close(cap[0][-2:], [-4, -4])
  close(cap[1][-2:], [0, 0])
  tight, _ = slopes(surrogates.ppo_clip(cap=1.1), np.log([1.3]), [1.0])
  close(tight, [1.1])


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


def test_cispo_without_bounds_is_reinforce_with_importance_weights():
  rollout, (params, old) = free.rollout(), drifted(0.3)
  m = bare(weights.weighted_reinforce((0.0, np.inf), (0.0, np.inf)))
  close(
    gradient(m, rollout, params, old),
    gradient(bare(kl_cov.importance()), rollout, params, old),
  )


def test_dispo_with_equal_bounds_is_cispo():
  rollout, (params, old) = free.rollout(), drifted()
  equal = (0.3, 0.5)
  dispo = methods.get("dispo", positive=equal, negative=equal)
  dispo = dataclasses.replace(dispo, keep=None)
  cispo = methods.get("cispo", low=0.3, high=0.5)
  close(
    gradient(dispo, rollout, params, old), gradient(cispo, rollout, params, old)
  )


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
  """Of weight 1 where right, at most 1 where wrong, 0 as pi -> 0."""
  log_ratio = np.array([-18.0, -1.0, 0.0, 3.0])
  _, right = slopes(TAPERED, log_ratio, np.ones(4))
  close(right, [1, 1, 1, 1])
  _, wrong = slopes(TAPERED, log_ratio, -np.ones(4))
  close(wrong, [0, -np.exp(-1), -1, -1])


@pytest.mark.parametrize(
  ("share", "c", "want"),
  [(0.5, 0, 0.5), (0.5, 0.6, 0.2), (0.5, 0.8, 0.1), (0.1, 0, 0.1)],
)
def test_the_baseline_of_topr_reweighs_right_and_wrong(share, c, want):
  rollout = free.rollout(p=1, s=10, ragged=False)
  correct = (jnp.arange(10) < 10 * share).astype(jnp.int8)[None]
  rollout = rollout.replace(correct=correct)
  m = methods.get("topr", baseline=c)
  a, _ = m.advantage.apply(None, rollout, m.advantage.init())
  right = jnp.where(correct == 1, a, 0.0).sum()
  close(right / jnp.abs(a).sum(), want)
  close(want, share * (1 - c) / (1 + (1 - 2 * share) * c))


def test_topr_on_policy_is_reinforce_and_unknown_verdicts_rest():
  rollout, params = free.rollout(), free.params()
  rollout = rollout.replace(correct=rollout.correct.at[0, 2].set(-1))
  scored = probes.passes(free.policy, {"old": params}, {OLD}, rollout)
  rollout = rollout.replace(behavior_log_probs=scored.extras[OLD])
  m = methods.get("topr")
  plain = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_sum()
  )
  g = gradient(m, rollout, params)
  close(g, gradient(dataclasses.replace(m, loss=plain), rollout, params))
  assert not g[0, 2].any()
  with pytest.raises(ValueError, match=r"baseline = 1 must be within"):
    methods.get("topr", baseline=1.0)


def test_topr_weighs_wrong_samples_by_their_whole_ratio_to_the_sampler():
  rollout, params = free.rollout(ragged=False), free.params()
  rollout = rollout.replace(correct=jnp.zeros_like(rollout.correct))
  scored = probes.passes(free.policy, {"old": params}, {OLD}, rollout)
  drift = jnp.linspace(-0.6, 0.4, free.S)[:, None]
  rollout = rollout.replace(behavior_log_probs=scored.extras[OLD] - drift)
  m = methods.get("topr")
  plain = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_sum()
  )
  naive = gradient(dataclasses.replace(m, loss=plain), rollout, params)
  moved = (drift[:, 0] * rollout.mask.sum(-1))[..., None, None]
  want = np.minimum(np.exp(moved), 1) * naive
  close(gradient(m, rollout, params), want)


# Sequences.


@pytest.mark.parametrize("name", ["gspo", "gmpo", "sapo"])
def test_at_the_old_policy_it_is_grpo_without_kl(name):
  rollout, params = free.rollout(), free.params()
  grpo = gradient(methods.get("grpo", beta=0.0), rollout, params)
  close(gradient(methods.get(name), rollout, params), grpo)


def test_gspo_is_ppo_on_samples_of_one_token():
  rollout = free.rollout(t=1, k=1)
  cut = lambda x: {"hidden": x["hidden"][:, :, :1]}  # noqa: E731
  params, old = map(cut, drifted(0.2))
  close(
    gradient(methods.get("gspo", low=0.2, high=0.2), rollout, params, old),
    gradient(methods.get("grpo", beta=0.0), rollout, params, old),
  )


def test_gspo_weighs_all_tokens_of_a_sample_by_their_geometric_mean():
  """Within the bounds: s_i times the gradient of REINFORCE."""
  rollout, (params, old) = free.rollout(), drifted(0.2)
  m = methods.get("gspo", low=1.0, high=1e3)
  plain = terms.policy_gradient(
    surrogates.reinforce(), aggregate=aggregates.seq_mean_token_mean()
  )
  naive = gradient(dataclasses.replace(m, loss=plain), rollout, params)
  now, then = (
    probes.passes(free.policy, {"old": p}, {OLD}, rollout).extras[OLD]
    for p in (params, old)
  )
  s = np.exp(masked.mean(now - then, rollout.mask))[..., None, None]
  assert np.ptp(s) > 0.1
  close(gradient(m, rollout, params, old), s * naive)


@pytest.mark.parametrize("name", ["gspo", "gmpo"])
def test_the_order_of_log_ratios_within_a_sample_does_not_matter(name):
  """For the sequence's weight: d loss / d log pi_t is the same at all t."""
  surrogate, settings = SURROGATES[name]
  rollout = free.rollout(p=1, s=2, t=5, ragged=False)
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


def test_gmpo_cuts_a_token_on_the_side_that_its_advantage_pushes():
  """(prod rho)^(1/T) with log rho at most .4 if A > 0, at least -.4 if < 0."""
  log_ratio = jnp.array([[[1.0, -1.0, 0.1]] * 2])
  a = jnp.array([[[2.0] * 3, [-3.0] * 3]])
  seen = free.rollout(p=1, s=2, t=3, ragged=False)
  seen = seen.replace(
    tokens=seen.tokens.replace(mask=jnp.ones((1, 2, 3), bool))
  )
  surrogate = gmpo.geometric_mean(0.4)
  value, slope = jax.vmap(
    jax.value_and_grad(lambda x, i: surrogate.fn(x, a, None, seen)[0, i]),
    (None, 0),
  )(log_ratio, jnp.arange(2))
  want = [2 * np.exp((0.4 - 1 + 0.1) / 3), -3 * np.exp((1 - 0.4 + 0.1) / 3)]
  close(value, want)
  close(slope[0, 0, 0], want[0] / 3 * np.array([0, 1, 1]))
  close(slope[1, 0, 1], want[1] / 3 * np.array([1, 0, 1]))


def test_a_sample_without_a_token_is_counted_by_the_geometric_mean():
  """verl's geo_mean counts it: 8/7 apart on a batch of 8."""
  rollout, params = free.rollout(ragged=False), free.params()
  mask = rollout.mask.at[0, 0].set(False)
  empty = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  absent = rollout.replace(sample_mask=rollout.sample_mask.at[0, 0].set(False))
  m = bare(gmpo.geometric_mean(0.4))
  close(gradient(m, empty, params), gradient(m, absent, params))


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


def test_kimi_comes_to_rest_where_the_log_ratio_is_the_advantage_over_tau():
  """At A / tau of whole samples, wherever its tokens moved; else not."""
  tau = 0.7
  rollout, params = free.rollout(), free.params()
  m = methods.get("kimi", tau=tau)
  scored = probes.passes(free.policy, {"old": params}, {OLD}, rollout)
  a, _ = m.advantage.apply(None, rollout, m.advantage.init())
  now = scored.extras[OLD]
  share = np.random.default_rng(0).dirichlet(np.ones(free.T), (free.P, free.S))
  share = jnp.where(rollout.mask, share, 0.0)
  share /= share.sum(-1, keepdims=True)

  def slope(factor):
    old = now - factor * share * (a / tau)[..., None]
    seen = rollout.replace(extras=types.Named({str(OLD): old}))
    batch, scales, _ = method.prepare(m, seen, m.init())
    plan = step.Plan()
    found, _ = step.gradients(m, free.policy, params, batch, scales, plan)
    return np.abs(found["hidden"]).max()

  assert slope(1.0) < 1e-6
  assert min(slope(0.9), slope(1.1)) > 1e-3


# Lengths.


def test_the_soft_overlong_punishment_on_the_cards_numbers():
  lengths = np.array([[0, 16384, 18432, 20480]])
  mask = np.arange(20481) < lengths[..., None]
  rollout = free.rollout(p=1, s=4, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.asarray(mask))
  )
  punish = overlong.soft_overlong()
  got, _ = punish.apply(jnp.ones((1, 4)), rollout, ())
  close(got, [[1, 1, 0.5, 0]])
  longer = overlong.soft_overlong(max_length=10000, cache=100)
  got, _ = longer.apply(jnp.zeros((1, 4)), rollout, ())
  close(got, [[0, -1, -1, -1]])
  at_once = overlong.soft_overlong(max_length=18432, cache=0)
  got, _ = at_once.apply(jnp.zeros((1, 4)), rollout, ())
  close(got, [[0, 0, 0, -1]])


def test_dapo_is_grpo_without_its_filters_on_samples_of_one_length():
  rollout, (params, old) = free.rollout(), drifted(0.2)
  tokens = rollout.tokens.replace(mask=jnp.ones_like(rollout.mask))
  rollout = rollout.replace(tokens=tokens)
  dapo = dataclasses.replace(methods.get("dapo", high=0.2), keep=None)
  grpo = methods.get("grpo", beta=0.0)
  close(
    gradient(dapo, rollout, params, old), gradient(grpo, rollout, params, old)
  )


def test_dapo_punishes_length_before_it_compares():
  rollout = free.rollout(p=1, s=3, t=7, ragged=False)
  lengths = jnp.array([[2, 4, 6]])
  rollout = rollout.replace(
    scores=jnp.ones((1, 3)),
    tokens=rollout.tokens.replace(mask=jnp.arange(7) < lengths[..., None]),
  )
  m = methods.get("dapo", max_length=6, cache=4)
  a, _ = m.advantage.apply(None, rollout, m.advantage.init())
  close(a, [[1, 0, -1]], atol=1e-5)


# Covariances.


def test_the_covariance_of_the_batch_and_its_highest_tokens():
  a = jnp.array([[[1.0, 1.0, -1.0, -1.0, 9.0]]])
  log_probs = jnp.array([[[-1.0, -5.0, -1.0, -5.0, np.nan]]])
  mask = jnp.array([[[True, True, True, True, False]]])
  found = selection.token_covariance(a, log_probs, mask)
  close(found, [[[2, -2, -2, 2, 0]]])
  top = selection.lowest(-found, mask & (found > 0), jnp.array(1))
  assert np.asarray(top).tolist() == [[[True, False, False, True, False]]]
  for count, want in ((0, 0), (1, 1), (2, 2), (5, 3)):
    values = jnp.array([[[3.0, 1.0, 2.0, np.nan]]])
    real = jnp.array([[[True, True, True, False]]])
    assert selection.lowest(values, real, jnp.array(count)).sum() == want


def test_clip_cov_rests_tokens_and_counts_them():
  """Those it drops have no gradient; the others keep theirs exactly."""
  rollout, params = free.rollout(), free.params()
  plain = gradient(methods.get("grpo", beta=0.0), rollout, params)
  token_mean = terms.policy_gradient(surrogates.ppo_clip())
  grpo = dataclasses.replace(methods.get("grpo", beta=0.0), loss=token_mean)
  plain = gradient(grpo, rollout, params)
  n = int(rollout.valid("token").sum())
  fraction = 5.5 / n
  m = methods.get("clip_cov", fraction=fraction, low=0.05, high=50.0)
  g = gradient(m, rollout, params)
  dropped = (plain != 0).any(-1) & ~(g != 0).any(-1)
  assert dropped.sum() == 5
  close(g[~dropped], plain[~dropped])
  scored = probes.passes(free.policy, {"old": params}, {OLD}, rollout)
  a, _ = grpo.advantage.apply(None, rollout, grpo.advantage.init())
  mask = rollout.valid("token")
  wide = jnp.broadcast_to(a[..., None], mask.shape)
  covariance = selection.token_covariance(wide, scored.extras[OLD], mask)
  assert (np.asarray(covariance)[dropped] > 0.05).all()
  # Other draws, other tokens; no token inside, none dropped.
  other = rollout.replace(keys=jax.random.split(jax.random.key(7), free.P))
  assert (gradient(m, other, params) != g).any()
  far = methods.get("clip_cov", low=50.0, high=60.0)
  close(gradient(far, rollout, params), plain)


def test_kl_cov_holds_back_only_what_has_moved():
  """On the first update it is REINFORCE; then |log rho| at chosen tokens."""
  rollout, (params, old) = free.rollout(), drifted(0.2)
  n = int(rollout.valid("token").sum())
  m = methods.get("kl_cov", fraction=4.5 / n, beta=2.0)
  free_m = dataclasses.replace(m, loss=m.loss.terms[0])
  close(gradient(m, rollout, params), gradient(free_m, rollout, params))
  extra = gradient(m, rollout, params, old) - gradient(
    free_m, rollout, params, old
  )
  held = np.abs(extra).max(-1) > 1e-6
  both = [
    probes.passes(free.policy, {"old": p}, {OLD}, rollout).extras[OLD]
    for p in (params, old)
  ]
  a, _ = m.advantage.apply(None, rollout, m.advantage.init())
  covariance = selection.token_covariance(a, both[1], rollout.valid("token"))
  fourth = np.sort(np.asarray(covariance).ravel())[-4]
  np.testing.assert_array_equal(held, covariance >= fourth)
  direction = np.sign(np.asarray(both[0] - both[1]))
  p = jax.nn.softmax(params["hidden"][..., : free.V])
  score = jax.nn.one_hot(rollout.completions, free.V) - p
  want = 2.0 / n * direction[..., None] * score
  close(extra[held], np.asarray(want)[held], atol=1e-6)


# Low probabilities.


def test_the_min_p_proxy_on_the_cards_numbers():
  p = jnp.array([[0.6, 0.3, 0.09, 0.0095, 0.0005]])
  need = lp_reg.proxy(0.02)
  got = [
    float(need.probe.fn(jnp.log(p) + 3.0, jnp.array([i]))[0]) for i in range(5)
  ]
  close(np.exp(got), [0.60606, 0.30303, 0.0909091, 0, 0])
  whole = lp_reg.proxy(0.0)
  for i in range(5):
    got = whole.probe.fn(jnp.log(p) + 3.0, jnp.array([i]))
    close(got, np.log(p[:, i]))


def wrong_and_unlikely():
  """One group; sample 0 right, 1 wrong, at given probabilities of its tokens.

  V = 5 with the old law [.6, .3, .09, .0095, .0005] at every position.
  """
  p = jnp.log(jnp.array([0.6, 0.3, 0.09, 0.0095, 0.0005]))
  hidden = jnp.broadcast_to(p, (1, 2, 5, 5))
  rollout = free.rollout(p=1, s=2, t=5, k=1, ragged=False)
  tokens = rollout.tokens.replace(
    completions=jnp.broadcast_to(jnp.arange(5), (1, 2, 5)),
    mask=jnp.ones((1, 2, 5), bool),
  )
  rollout = rollout.replace(tokens=tokens, scores=jnp.array([[1.0, 0.0]]))
  return rollout, {"hidden": jnp.pad(hidden, ((0, 0),) * 3 + ((0, 1),))}


def pulled(rollout, params, old, **hyper):
  """Where the pull changes the gradient, `[T]` of the wrong sample."""
  m = methods.get("lp_reg", **hyper)
  without = dataclasses.replace(m, loss=m.loss.terms[0])
  difference = gradient(m, rollout, params, old) - gradient(
    without, rollout, params, old
  )
  assert not difference[0, 0].any(), "the right sample"
  return difference[0, 1]


def test_unlikely_tokens_are_pulled_if_the_proxy_knows_them():
  """Of the 5 wrong tokens .8 are ranked: the last 4; two are in the tail."""
  rollout, params = wrong_and_unlikely()
  found = pulled(rollout, params, params, fraction=0.8)
  assert np.abs(found).max(-1).nonzero()[0].tolist() == [1, 2]
  d = np.log(0.3) - np.log(0.30303)  # log pi - log proxy
  p = np.array([0.6, 0.3, 0.09, 0.0095, 0.0005])
  want = (1 - np.exp(-d)) * (np.eye(5)[1] - p) / 10
  close(found[1], want, atol=1e-6)
  for rank, want in ((0.4, []), (0.6, [2])):
    found = pulled(rollout, params, params, fraction=rank)
    assert np.abs(found).max(-1).nonzero()[0].tolist() == want
  # Once it is likelier than the proxy says, a token is let go.
  up = jnp.log(0.12 / 0.09)
  risen = {"hidden": params["hidden"].at[0, 1, 2, 2].add(up)}
  found = pulled(rollout, risen, params, fraction=0.8)
  assert np.abs(found).max(-1).nonzero()[0].tolist() == [1]
  # Less than two: none, although the one would be known.
  likely = rollout.replace(
    tokens=rollout.tokens.replace(
      completions=jnp.array([[[0] * 5, [0, 0, 0, 0, 2]]])
    )
  )
  assert pulled(likely, params, params, fraction=0.4)[4].any()
  assert not pulled(likely, params, params, fraction=0.39).any()


def test_without_a_tail_nothing_is_pulled_and_beta_scales():
  rollout, params = wrong_and_unlikely()
  assert not pulled(rollout, params, params, fraction=0.8, kappa=0.0).any()
  assert not pulled(rollout, params, params, fraction=0.8, beta=0.0).any()
  once = pulled(rollout, params, params, fraction=0.8)
  twice = pulled(rollout, params, params, fraction=0.8, beta=2.0)
  close(twice, 2 * once)


def test_a_lower_bound_of_one_never_clips_a_negative_advantage():
  """So the unclipped surrogate of a protected token is the clipped one."""
  log_ratio = np.log([1e-4, 0.5, 1.0, 9.0, 11.0, 1e3])
  clipped = slopes(surrogates.ppo_clip(1.0, 9.0), log_ratio, -np.ones(6))
  for a, b in zip(
    clipped, slopes(kl_cov.importance(), log_ratio, -np.ones(6)), strict=True
  ):
    close(a, b)
  _, right = slopes(surrogates.ppo_clip(1.0, 9.0), log_ratio, np.ones(6))
  assert np.asarray(right != 0).tolist() == [True] * 4 + [False] * 2


# Entropies.


def test_the_nucleus_of_equal_tokens_has_the_log_of_its_size():
  """log ceil(.8 m); a nucleus of one has neither entropy nor gradient."""
  for m in (1, 5, 8, 10):
    fn = siren.top_p_entropy(0.8).fn
    close(fn(jnp.zeros((1, m)), None), np.log(np.ceil(0.8 * m)), atol=1e-6)
  sure = jnp.array([[3.0, 0.0, 0.1]])
  value, slope = jax.value_and_grad(lambda x: fn(x, None)[0])(sure)
  close(value, 0)
  close(slope, 0)


def test_the_whole_nucleus_has_the_ordinary_entropy_and_its_gradient():
  logits = jax.random.normal(jax.random.key(0), (6, 5))
  fn = siren.top_p_entropy(1.1).fn

  def total(f):
    return jax.value_and_grad(lambda x: f(x, None).sum())(logits)

  for a, b in zip(total(fn), total(probes.entropy.fn), strict=True):
    close(a, b, atol=2e-6)


def test_the_entropy_is_held_by_the_gradient_of_the_squared_gap():
  """At the first update of a rollout; the first rollout sets the anchor."""
  rollout, (params, later) = free.rollout(), drifted(0.5)
  rollout = rollout.replace(scores=jnp.zeros_like(rollout.scores))
  m = methods.get("siren", quantile=0.3, coef=0.7)
  assert not gradient(m, rollout, params).any(), "at the anchor"

  def scored(p):
    needs = method.required(m)
    return probes.passes(free.policy, {"old": p}, needs, rollout)

  entropy = scored(later).extras[probes.Need("old", probes.entropy)]
  mask = rollout.valid("token")
  edge = np.quantile(np.asarray(entropy)[np.asarray(mask)], 0.3)
  kept = mask & (entropy >= edge)

  def h(p, kept):
    flat = p["hidden"][..., : free.V].reshape(-1, free.V)
    value = siren.top_p_entropy(0.8).fn(flat, None).reshape(mask.shape)
    rows = masked.mean(value, kept)
    return masked.mean(rows, kept.any(-1), (0, 1))

  first = scored(params).extras[probes.Need("old", probes.entropy)]
  edge = np.quantile(np.asarray(first)[np.asarray(mask)], 0.3)
  anchor = h(params, mask & (first >= edge))
  want = jax.grad(lambda p: 0.7 * (h(p, kept) - anchor) ** 2)(later)
  _, _, state = method.prepare(m, scored(params), m.init())
  got = gradient(m, rollout, later, state=state)
  assert np.abs(got).max() > 1e-4
  close(got, want["hidden"][..., : free.V], atol=1e-6)


def test_a_rollout_without_tokens_sets_no_anchor():
  gap = siren.entropy_gap(0.8, 0.8)
  rollout = free.rollout()
  sources, needs = {"old": free.params()}, gap.needs
  nothing = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.zeros_like(rollout.mask))
  )
  _, state = gap.apply(
    None, probes.passes(free.policy, sources, needs, nothing), gap.init()
  )
  assert not state["set"]
  found, state = gap.apply(
    None, probes.passes(free.policy, sources, needs, rollout), state
  )
  assert state["set"]
  assert found == 0


# Candidates.


def test_the_ratio_keeps_its_value_and_spreads_its_gradient():
  """The card: p = [.6, .2, .1, .1], token 1: d ratio / d log p."""
  logits = jnp.log(jnp.array([0.6, 0.2, 0.1, 0.1]))
  ids = jnp.array([0, 1, 2])  # of .6, .2, .1; a tie, and the first wins
  rollout = free.rollout(p=1, s=2, t=2, k=1, ragged=False)
  extras = {
    "old/entropy": jnp.array([[[1.0, 0.0]] * 2]),  # the first is the open one
    "old/top_ids(3)": jnp.broadcast_to(ids, (1, 2, 2, 3)),
  }
  rollout = rollout.replace(
    extras=types.Named(extras),
    tokens=rollout.tokens.replace(
      completions=jnp.ones((1, 2, 2), int), mask=jnp.ones((1, 2, 2), bool)
    ),
  )
  surrogate = simko.spread_and_press(3, 0.01, 1.1, 0.5, 0.2)

  def ratio(log_p, a, token):
    at = jnp.broadcast_to(log_p[ids], (1, 2, 2, 3))
    named = types.Named({"log_probs_at_top(3)": at})
    own = jnp.full((1, 2, 2), log_p[token] - logits[token])
    seen = rollout.replace(
      tokens=rollout.tokens.replace(completions=jnp.full((1, 2, 2), token))
    )
    value, _ = surrogate.fn(own, jnp.full((1, 2, 2), a), named, seen)
    return value[0, 0]

  close(ratio(logits, 1.0, 1), [1, 1])
  slope = jax.jacobian(ratio)(logits, 1.0, 1)
  close(slope[0], np.array([0.01 / 3, 0.99 + 0.01 / 3, 0.01 / 3, 0]))
  close(slope[1], [0, 1, 0, 0])
  close(slope.sum(-1), [1, 1])
  # A wrong favourite is pressed, a wrong other token is not.
  close(ratio(logits, -1.0, 0), [-1.1, -1])
  close(ratio(logits, -1.0, 1), [-1, -1])


def test_simko_without_spread_and_press_is_grpo():
  rollout, (params, old) = free.rollout(), drifted(0.2)
  grpo = gradient(methods.get("grpo", beta=0.0), rollout, params, old)
  same = methods.get("simko", alpha=0.0, press=1.0)
  close(gradient(same, rollout, params, old), grpo)
  simko_ = gradient(methods.get("simko", alpha=0.2), rollout, params, old)
  assert np.abs(simko_ - grpo).max() > 1e-3


def test_the_candidates_are_the_old_policys_whoever_is_read():
  rollout, (params, old) = free.rollout(), drifted()
  needs = {simko.candidates(2)}
  scored = probes.passes(free.policy, {"old": old}, needs, rollout)
  ids = np.asarray(scored.extras[simko.candidates(2)])
  logits = np.asarray(old["hidden"][..., : free.V])
  np.testing.assert_array_equal(ids, np.argsort(-logits, -1)[..., :2])
  probe = simko.at_candidates(2).probe
  found = probes.read(
    free.policy, params, rollout.tokens, [probe], scored.extras
  )[probe.name]
  now = jax.nn.log_softmax(params["hidden"][..., : free.V])
  close(found, np.take_along_axis(np.asarray(now), ids, -1))


# Moving clips.


def ranges(schedule, phase):
  """1 - lower and 1 + upper bound at pi = .5 with lines of .1 and .5."""
  moving = flex_clip.moving_clip(
    (-0.3, 0.65), (-0.2, 0.2), 0.2, schedule == "did"
  )
  seen = types.Rollout(*[None] * 9, extras=types.Named({PHASE: phase}))
  named = types.Named({"log_probs": jnp.log(0.5)})

  def value(log_ratio, a):
    return moving.fn(jnp.float32(log_ratio), jnp.float32(a), named, seen)[0]

  return float(-value(-9.0, -1.0)), float(value(9.0, 1.0))


@pytest.mark.parametrize(
  ("schedule", "phase", "lower", "upper"),
  [
    ("id", 1.0, 0.2, 0.5),
    ("id", 0.5, 0.2, 0.35),
    ("id", 0.0, 0.1, 0.2),
    ("id", -0.5, 0.15, 0.2),
    ("id", -1.0, 0.2, 0.2),
    ("did", 1.0, 0.2, 0.2),
    ("did", 0.5, 0.2, 0.35),
    ("did", 0.0, 0.1, 0.5),
    ("did", -1.0, 0.2, 0.5),
    ("od", 1.0, 0.2, 0.5),
    ("od", 0.0, 0.1, 0.2),
  ],
)
def test_the_clip_range_follows_its_schedule(schedule, phase, lower, upper):
  close(ranges(schedule, phase), (1 - lower, 1 + upper))


def test_a_line_bounds_the_probability_in_closed_form():
  """pi / pi_old <= 1 + a pi + b is pi <= (1 + b) / (1 - a pi_old) pi_old."""
  a, b, old = -0.3, 0.4, 0.5
  edge = (1 + b) / (1 - a * old) * old
  moving = flex_clip.moving_clip((a, b), (-0.2, 0.3), 0.2, False)
  seen = types.Rollout(*[None] * 9, extras=types.Named({PHASE: 1.0}))

  def value(log_p):
    named = types.Named({"log_probs": log_p})
    return moving.fn(log_p - jnp.log(old), 1.0, named, seen)[0]

  close(jax.grad(value)(jnp.log(0.999 * edge)), 0.999 * edge / old)
  assert jax.grad(value)(jnp.log(1.001 * edge)) == 0


@pytest.mark.parametrize("schedule", flex_clip.SCHEDULES)
def test_flat_lines_are_ppo_clip(schedule):
  rollout, (params, old) = free.rollout(), drifted(0.2)
  flat = {"upper": (0.0, 0.2), "lower": (0.0, 0.2)}
  m = methods.get("flex_clip", schedule=schedule, **flat)
  plain = terms.policy_gradient(surrogates.ppo_clip())
  ppo = dataclasses.replace(m, loss=plain)
  close(gradient(m, rollout, params, old), gradient(ppo, rollout, params, old))


def test_phases_follow_time_and_entropy():
  rollout = free.rollout()
  t = flex_clip.time_phase(10)
  for at, want in ((0, 1.0), (5, 0.0), (10, -1.0), (15, -1.0)):
    found, _ = t.apply(None, rollout.replace(step=jnp.array(at)), ())
    close(found, want)
  moving = flex_clip.entropy_phase(10)
  state, key = moving.init(), "old/entropy"
  seen = []
  # H over H_0, at steps 0, 1, ...; the limit to let go is .2 + .8 (1 - t/10).
  for at, share in enumerate([1.0, 0.5, 0.19, 0.75, 0.7, 0.61, 0.3, 0.1]):
    entropy = jnp.full(rollout.mask.shape, 2.0 * share)
    here = rollout.replace(
      step=jnp.array(at), extras=types.Named({key: entropy})
    )
    phase, state = moving.apply(None, here, state)
    seen.append(float(phase))
  assert seen == [0, 0, 1, 1, 0, 0, 0, 1]
  with pytest.raises(ValueError, match=r"'idd'.*did you mean"):
    methods.get("flex_clip", schedule="idd")


# Numerics of StableReinforce.


def test_without_outliers_it_is_ppo_on_whitened_scores():
  rollout, (params, old) = free.rollout(), drifted(0.2)
  m = methods.get("stable_reinforce")
  plain = terms.policy_gradient(
    surrogates.ppo_clip(), aggregate=aggregates.seq_mean_token_mean()
  )
  ppo = method.Method(plain, chain(transforms.scores(), transforms.whiten(1)))
  close(gradient(m, rollout, params, old), gradient(ppo, rollout, params, old))


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


def test_outliers_are_dropped_and_ten_samples_have_none():
  """(n - 1) / sqrt(n) is the largest of n z-scores: 2.85 of 10, 3.02 of 11."""
  m = methods.get("stable_reinforce").advantage
  for n, dropped in ((10, False), (11, True)):
    rollout = free.rollout(p=1, s=n, ragged=False)
    rollout = rollout.replace(scores=jnp.zeros((1, n)).at[0, 0].set(1.0))
    a, _ = m.apply(None, rollout, m.init())
    assert (float(a[0, 0]) == 0) == dropped
    assert np.asarray(a[0, 1:]).all(), "the others keep theirs"
  hard = stable_reinforce.without_outliers(3.0)
  rollout = free.rollout(p=1, s=5, ragged=False)
  a, _ = hard.apply(jnp.array([[3.1, -4, np.nan, 3, -2]]), rollout, ())
  close(a, [[0, 0, 0, 3, -2]])


def test_the_reward_of_a_judge_is_between_0_and_2():
  """Consistency counts for nothing without the right verdict."""
  rollout = free.rollout(p=1, s=4, ragged=False)
  parts = {
    "format": jnp.array([[1.0, 0, 1, 1]]),
    "verdict": jnp.array([[1.0, 0, 0, 1]]),
    "consistent": jnp.array([[1.0, 0, 1, 0]]),
  }
  rollout = rollout.replace(components=parts)
  source = chain(
    transforms.components(tuple(parts)), stable_reinforce.judge_reward()
  )
  reward, _ = source.apply(None, rollout, source.init())
  close(reward, [[2, 0, 0.5, 1.5]])
  m = methods.get("stable_reinforce", parts=tuple(parts)).advantage
  a, _ = m.apply(None, rollout, m.init())
  close(a, transforms.whiten(1).bind("sample").apply(reward, rollout, ())[0])


# The straight-through KL.


def test_k3_plus_is_worth_k3_and_descends_the_reverse_kl():
  ref = jnp.log(jnp.array([0.2, 0.5, 0.3]))
  logits = jnp.array([0.4, -0.3, 0.1])
  need = probes.Need("ref", probes.log_probs)
  rollout = free.rollout(p=1, s=2, ragged=False)
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
