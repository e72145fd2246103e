"""Methods that keep a policy's entropy, and which tokens they choose for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from helpers import tabular_policy
from helpers.surrogate_slopes import OLD, close, drifted, gradient

from rl import masked, method_loss, methods, scoring, types
from rl.losses import surrogates, terms
from rl.methods.surrogates import lp_reg, selection, simko, siren

# Covariances.


def test_the_covariance_of_the_batch_and_its_highest_tokens():
  a = jnp.array([[[1.0, 1.0, -1.0, -1.0, 9.0]]])
  log_probs = jnp.array([[[-1.0, -5.0, -1.0, -5.0, np.nan]]])
  mask = jnp.array([[[True, True, True, True, False]]])
  actual = selection.token_covariance(a, log_probs, mask)
  close(actual, [[[2, -2, -2, 2, 0]]])
  top = selection.lowest(-actual, mask & (actual > 0), jnp.array(1))
  assert np.asarray(top).tolist() == [[[True, False, False, True, False]]]
  for count, want in ((0, 0), (1, 1), (2, 2), (5, 3)):
    values = jnp.array([[[3.0, 1.0, 2.0, np.nan]]])
    real = jnp.array([[[True, True, True, False]]])
    assert selection.lowest(values, real, jnp.array(count)).sum() == want


def test_clip_cov_rests_tokens_and_counts_them():
  """The dropped tokens have no gradient; that of the others does not change."""
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  reference = gradient(methods.get("grpo", beta=0.0), rollout, params)
  token_mean = terms.policy_gradient(surrogates.ppo_clip())
  grpo = dataclasses.replace(methods.get("grpo", beta=0.0), loss=token_mean)
  reference = gradient(grpo, rollout, params)
  n = int(rollout.valid("token").sum())
  fraction = 5.5 / n
  m = methods.get("clip_cov", fraction=fraction, low=0.05, high=50.0)
  g = gradient(m, rollout, params)
  dropped = (reference != 0).any(-1) & ~(g != 0).any(-1)
  assert dropped.sum() == 5
  close(g[~dropped], reference[~dropped])
  scored = scoring.passes(
    tabular_policy.policy, {"old": params}, {OLD}, rollout
  )
  a, _ = jax.jit(grpo.advantage.apply)(None, rollout, grpo.advantage.init())
  mask = rollout.valid("token")
  wide = jnp.broadcast_to(a[..., None], mask.shape)
  covariance = selection.token_covariance(wide, scored.extras[OLD], mask)
  assert (np.asarray(covariance)[dropped] > 0.05).all()
  # Other draws, other tokens; no token inside, none dropped.
  other = rollout.replace(
    keys=jax.random.split(jax.random.key(7), tabular_policy.P)
  )
  assert (gradient(m, other, params) != g).any()
  far = methods.get("clip_cov", low=50.0, high=60.0)
  close(gradient(far, rollout, params), reference)


def test_kl_cov_holds_back_only_what_has_moved():
  """The first update is REINFORCE; later |log rho| pulls at selected tokens."""
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  n = int(rollout.valid("token").sum())
  m = methods.get("kl_cov", fraction=4.5 / n, beta=2.0)
  free_m = dataclasses.replace(m, loss=m.loss.terms[0])
  close(gradient(m, rollout, params), gradient(free_m, rollout, params))
  extra = gradient(m, rollout, params, old) - gradient(
    free_m, rollout, params, old
  )
  penalized = np.abs(extra).max(-1) > 1e-6
  both = [
    scoring.passes(tabular_policy.policy, {"old": p}, {OLD}, rollout).extras[
      OLD
    ]
    for p in (params, old)
  ]
  a, _ = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  covariance = selection.token_covariance(a, both[1], rollout.valid("token"))
  fourth = np.sort(np.asarray(covariance).ravel())[-4]
  np.testing.assert_array_equal(penalized, covariance >= fourth)
  direction = np.sign(np.asarray(both[0] - both[1]))
  p = jax.nn.softmax(params["hidden"][..., : tabular_policy.V])
  score = jax.nn.one_hot(rollout.completions, tabular_policy.V) - p
  want = 2.0 / n * direction[..., None] * score
  close(extra[penalized], np.asarray(want)[penalized], atol=1e-6)


# Low probabilities.


def test_the_min_p_proxy_worked_by_hand():
  p = jnp.array([[0.6, 0.3, 0.09, 0.0095, 0.0005]])
  need = lp_reg.proxy(0.02)
  got = [
    float(need.probe.fn(jnp.log(p) + 3.0, jnp.array([i]))[0]) for i in range(5)
  ]
  close(np.exp(got), [0.60606, 0.30303, 0.0909091, 0, 0])
  full_proxy = lp_reg.proxy(0.0)
  for i in range(5):
    got = full_proxy.probe.fn(jnp.log(p) + 3.0, jnp.array([i]))
    close(got, np.log(p[:, i]))


def wrong_and_unlikely():
  """One group: sample 0 is right, sample 1 wrong with given probabilities.

  V = 5; the old distribution is [.6, .3, .09, .0095, .0005] at every position.
  """
  p = jnp.log(jnp.array([0.6, 0.3, 0.09, 0.0095, 0.0005]))
  hidden = jnp.broadcast_to(p, (1, 2, 5, 5))
  rollout = tabular_policy.rollout(p=1, s=2, t=5, k=1, ragged=False)
  tokens = rollout.tokens.replace(
    completions=jnp.broadcast_to(jnp.arange(5), (1, 2, 5)),
    mask=jnp.ones((1, 2, 5), bool),
  )
  rollout = rollout.replace(tokens=tokens, scores=jnp.array([[1.0, 0.0]]))
  return rollout, {"hidden": jnp.pad(hidden, ((0, 0),) * 3 + ((0, 1),))}


def pulled(rollout, params, old, **hyper):
  """`[T]` tokens of the wrong sample whose gradient the penalty changes."""
  m = methods.get("lp_reg", **hyper)
  without = dataclasses.replace(m, loss=m.loss.terms[0])
  difference = gradient(m, rollout, params, old) - gradient(
    without, rollout, params, old
  )
  assert not difference[0, 0].any(), "the right sample"
  return difference[0, 1]


def test_unlikely_tokens_are_pulled_if_the_proxy_knows_them():
  """A fraction .8 of 5 wrong tokens is the last 4; two are in the tail."""
  rollout, params = wrong_and_unlikely()
  actual = pulled(rollout, params, params, fraction=0.8)
  assert np.abs(actual).max(-1).nonzero()[0].tolist() == [1, 2]
  d = np.log(0.3) - np.log(0.30303)  # log pi - log proxy
  p = np.array([0.6, 0.3, 0.09, 0.0095, 0.0005])
  want = (1 - np.exp(-d)) * (np.eye(5)[1] - p) / 10
  close(actual[1], want, atol=1e-6)
  for rank, want in ((0.4, []), (0.6, [2])):
    actual = pulled(rollout, params, params, fraction=rank)
    assert np.abs(actual).max(-1).nonzero()[0].tolist() == want
  # Once it is likelier than the proxy says, a token is let go.
  up = jnp.log(0.12 / 0.09)
  risen = {"hidden": params["hidden"].at[0, 1, 2, 2].add(up)}
  actual = pulled(rollout, risen, params, fraction=0.8)
  assert np.abs(actual).max(-1).nonzero()[0].tolist() == [1]
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


# Entropies.


def test_the_nucleus_of_equal_tokens_has_the_log_of_its_size():
  """log ceil(.8 m); a nucleus of one token has no entropy and no gradient."""
  for m in (1, 5, 8, 10):
    fn = jax.jit(siren.top_p_entropy(0.8).fn)
    close(fn(np.zeros((1, m)), None), np.log(np.ceil(0.8 * m)), atol=1e-6)
  sure = jnp.array([[3.0, 0.0, 0.1]])
  value, slope = jax.value_and_grad(lambda x: fn(x, None)[0])(sure)
  close(value, 0)
  close(slope, 0)


def test_the_whole_nucleus_has_the_ordinary_entropy_and_its_gradient():
  logits = jax.random.normal(jax.random.key(0), (6, 5))
  fn = siren.top_p_entropy(1.1).fn

  def total(f):
    return jax.value_and_grad(lambda x: f(x, None).sum())(logits)

  for a, b in zip(total(fn), total(scoring.entropy.fn), strict=True):
    close(a, b, atol=2e-6)


def test_the_entropy_is_held_by_the_gradient_of_the_squared_gap():
  """At the first update of a rollout; the first rollout sets h*."""
  rollout, (params, later) = tabular_policy.rollout(), drifted(0.5)
  rollout = rollout.replace(scores=jnp.zeros_like(rollout.scores))
  m = methods.get("siren", quantile=0.3, coef=0.7)
  assert not gradient(m, rollout, params).any(), "at the anchor"

  @jax.jit
  def scored(p):
    needs = method_loss.required(m)
    return scoring.passes(tabular_policy.policy, {"old": p}, needs, rollout)

  entropy = scored(later).extras[scoring.Need("old", scoring.entropy)]
  mask = rollout.valid("token")
  edge = np.quantile(np.asarray(entropy)[np.asarray(mask)], 0.3)
  selected = mask & (entropy >= edge)

  def h(p, selected):
    flat = p["hidden"][..., : tabular_policy.V].reshape(-1, tabular_policy.V)
    value = siren.top_p_entropy(0.8).fn(flat, None).reshape(mask.shape)
    rows = masked.mean(value, selected)
    return masked.mean(rows, selected.any(-1), (0, 1))

  first = scored(params).extras[scoring.Need("old", scoring.entropy)]
  edge = np.quantile(np.asarray(first)[np.asarray(mask)], 0.3)
  anchor = h(params, mask & (first >= edge))
  want = jax.grad(lambda p: 0.7 * (h(p, selected) - anchor) ** 2)(later)
  _, _, state = method_loss.prepare(m, scored(params), m.init())
  got = gradient(m, rollout, later, state=state)
  assert np.abs(got).max() > 1e-4
  close(got, want["hidden"][..., : tabular_policy.V], atol=1e-6)


def test_a_rollout_without_tokens_sets_no_anchor():
  gap = siren.entropy_gap(0.8, 0.8)
  rollout = tabular_policy.rollout()
  sources, needs = {"old": tabular_policy.params()}, gap.needs
  nothing = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.zeros_like(rollout.mask))
  )
  _, state = gap.apply(
    None,
    scoring.passes(tabular_policy.policy, sources, needs, nothing),
    gap.init(),
  )
  assert not state["set"]
  actual, state = gap.apply(
    None, scoring.passes(tabular_policy.policy, sources, needs, rollout), state
  )
  assert state["set"]
  assert actual == 0


# Candidates.


def test_the_ratio_keeps_its_value_and_spreads_its_gradient():
  """d ratio / d log p for p = [.6, .2, .1, .1] and token 1."""
  logits = jnp.log(jnp.array([0.6, 0.2, 0.1, 0.1]))
  ids = jnp.array([0, 1, 2])  # of .6, .2, .1; a tie, and the first wins
  rollout = tabular_policy.rollout(p=1, s=2, t=2, k=1, ragged=False)
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
  surrogate = simko.simko_clip(3, 0.01, 1.1, 0.5, 0.2)

  def ratio(log_p, a, token):
    at = jnp.broadcast_to(log_p[ids], (1, 2, 2, 3))
    named = types.Named({"log_probs_at(old/top_ids(3))": at})
    log_ratio = jnp.full((1, 2, 2), log_p[token] - logits[token])
    batch = rollout.replace(
      tokens=rollout.tokens.replace(completions=jnp.full((1, 2, 2), token))
    )
    value, _ = surrogate.fn(log_ratio, jnp.full((1, 2, 2), a), named, batch)
    return value[0, 0]

  close(ratio(logits, 1.0, 1), [1, 1])
  slope = jax.jacobian(ratio)(logits, 1.0, 1)
  close(slope[0], np.array([0.01 / 3, 0.99 + 0.01 / 3, 0.01 / 3, 0]))
  close(slope[1], [0, 1, 0, 0])
  close(slope.sum(-1), [1, 1])
  # A wrong favourite is pressed, a wrong other token is not.
  close(ratio(logits, -1.0, 0), [-1.1, -1])
  close(ratio(logits, -1.0, 1), [-1, -1])


def test_simko_without_simko_clip_is_grpo():
  rollout, (params, old) = tabular_policy.rollout(), drifted(0.2)
  grpo = gradient(methods.get("grpo", beta=0.0), rollout, params, old)
  same = methods.get("simko", alpha=0.0, press=1.0)
  close(gradient(same, rollout, params, old), grpo)
  simko_ = gradient(methods.get("simko", alpha=0.2), rollout, params, old)
  assert np.abs(simko_ - grpo).max() > 1e-3


def test_the_candidates_are_the_old_policys_whoever_is_read():
  rollout, (params, old) = tabular_policy.rollout(), drifted()
  ids, log_probs = simko.candidates(2)
  scored = scoring.passes(tabular_policy.policy, {"old": old}, {ids}, rollout)
  ids = np.asarray(scored.extras[ids])
  logits = np.asarray(old["hidden"][..., : tabular_policy.V])
  np.testing.assert_array_equal(ids, np.argsort(-logits, -1)[..., :2])
  actual = scoring.read(
    tabular_policy.policy,
    params,
    rollout.tokens,
    [log_probs.probe],
    scored.extras,
  )[log_probs.probe.name]
  now = jax.nn.log_softmax(params["hidden"][..., : tabular_policy.V])
  close(actual, np.take_along_axis(np.asarray(now), ids, -1))
