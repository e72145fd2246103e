"""Tests of `rl.losses.terms`: values, metrics, weights, needs and names."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import scoring, types
from rl.losses import aggregates, ratios, surrogates, terms
from rl.transforms import LevelError, broadcast, chain, scores, transform
from rl.transforms import filters as filters_of_samples

close = np.testing.assert_allclose
POLICY = scoring.Need("policy", scoring.log_probs)
OLD = scoring.Need("old", scoring.log_probs)
# Two samples of three and two tokens; log pi is known by its ratios.
BEHAVIOR = np.array([[[-3.0, -2.0, -4.0], [-2.5, -1.5, -9.0]]])
TO_BEHAVIOR = np.log([[[2.0, 0.5, 1.25], [3.0, 0.25, 1.0]]])
TO_OLD = np.log([[[1.5, 0.5, 1.0], [0.75, 4.0, 1.0]]])
LOG_PROBS = jnp.float32(BEHAVIOR + TO_BEHAVIOR)
ADVANTAGES = jnp.array([[[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]]])
ROLLOUT = worked_example.rollout(
  [1.0, 0.0],
  [3, 2],
  behavior_log_probs=BEHAVIOR,
  extras={
    "old/log_probs": LOG_PROBS - jnp.float32(TO_OLD),
    "ref/log_probs": LOG_PROBS - jnp.float32([[[0.5, -1, 0], [2, 0.1, 0]]]),
    "ema/log_probs": LOG_PROBS,
  },
)
NAMED = types.Named({"log_probs": LOG_PROBS, "entropy": 7 * LOG_PROBS})


def _evaluate(term, signal=ADVANTAGES):
  return term.fn(signal, NAMED, ROLLOUT)


def test_the_negative_surrogate_is_minimised():
  term = terms.policy_gradient(surrogates.ppo_clip(0.2, 0.3))
  values, metrics = _evaluate(term)
  rho = np.exp(TO_OLD)
  a = np.asarray(ADVANTAGES)
  close(values, -np.minimum(a * rho, a * rho.clip(0.8, 1.3)), rtol=1e-5)
  close(metrics["policy/ratio_mean"], rho, rtol=1e-5)
  close(metrics["policy/ratio_max"], rho, rtol=1e-5)
  close(metrics["policy/ppo_kl"], -TO_OLD, rtol=1e-5)
  low = [[[0, 0, 0], [1, 0, 0]]]
  high = [[[1, 0, 0], [0, 0, 0]]]
  np.testing.assert_array_equal(metrics["policy/clip_frac_low"], low)
  np.testing.assert_array_equal(metrics["policy/clip_frac_high"], high)
  assert (term.takes, term.gives, term.denominator) == ("token", "token", "old")
  assert str(term.aggregate) == "token_mean"
  assert term.needs == {POLICY, OLD}
  assert not term.on_policy
  name = "policy_gradient(ppo_clip(low=0.2, high=0.3), token ratio to old)"
  assert str(term) == name


def test_the_denominator_may_be_the_behavior_policy():
  term = terms.policy_gradient(
    surrogates.ppo_clip(10.0, 10.0),
    ratios.sequence_mean,
    aggregates.token_sum(),
    "behavior",
  )
  values, metrics = _evaluate(term)
  # (2 * 0.5 * 1.25)^(1/3), and (3 * 0.25)^(1/2) without the padding.
  means = np.array([1.25 ** (1 / 3), 0.75**0.5])[:, None]
  close(values, -np.asarray(ADVANTAGES) * means, rtol=1e-5)
  # The logged ratios are those of tokens.
  close(metrics["policy/ratio_max"], np.exp(TO_BEHAVIOR), rtol=1e-5)
  close(metrics["policy/ppo_kl"], -TO_BEHAVIOR, rtol=1e-5)
  assert term.needs == {POLICY}
  assert term.denominator == "behavior"
  assert str(term.aggregate) == "token_sum"
  assert "sequence_mean ratio to behavior" in str(term)
  with pytest.raises(ValueError, match="unknown denominator 'ref'"):
    terms.policy_gradient(surrogates.ppo_clip(), denominator="ref")


def test_a_surrogate_without_a_ratio_is_on_policy():
  term = terms.policy_gradient(surrogates.reinforce())
  values, metrics = _evaluate(term)
  close(values, -np.asarray(ADVANTAGES * LOG_PROBS), rtol=1e-6)
  assert metrics == {}
  assert term.on_policy
  assert (term.needs, term.denominator) == ({POLICY}, "")
  assert str(term) == "policy_gradient(reinforce())"


def test_needs_and_levels_of_a_surrogate_are_those_of_its_term():
  need = scoring.Need("ref", scoring.entropy)

  @surrogates.surrogate(gives="sample", needs={need}, token_mean="geometric")
  def totals(log_ratio, advantages, policy, rollout, *, factor=2.0):
    """Sums over tokens."""
    del policy
    values = (factor * log_ratio * advantages).sum(-1)
    return values, {"policy/ratio_max": rollout.scores}

  term = terms.policy_gradient(totals(3.0))
  values, metrics = _evaluate(term)
  close(values, -3 * (TO_OLD * np.asarray(ADVANTAGES)).sum(-1), rtol=1e-4)
  # A metric of the surrogate replaces that of the term.
  assert metrics["policy/ratio_max"] is ROLLOUT.scores
  assert set(metrics) == {
    "policy/ratio_mean",
    "policy/ratio_max",
    "policy/ppo_kl",
  }
  assert (term.gives, str(term.aggregate)) == ("sample", "sample_mean")
  assert (term.needs, term.token_mean) == ({POLICY, OLD, need}, "geometric")


def test_the_estimators_of_the_kl():
  d = np.array([[[0.5, -1, 0], [2, 0.1, 0]]])
  k3 = np.exp(-d) - 1 + d
  values = {"k1": d, "k1+": d, "k2": d**2 / 2, "k3": k3, "k3+": k3}
  slopes = {"k1": d**0, "k1+": d, "k2": d, "k3": 1 - np.exp(-d), "k3+": d}
  assert set(values) == set(terms.KL_ESTIMATORS)
  for estimator, expected in values.items():
    term = terms.kl(estimator)
    result, metrics = _evaluate(term, None)
    close(result, expected, atol=1e-5)
    close(metrics["policy/kl"], k3, atol=1e-5)

    def total(log_probs, term=term):
      named = types.Named({"log_probs": log_probs})
      return term.fn(None, named, ROLLOUT)[0].sum()

    close(jax.grad(total)(LOG_PROBS), slopes[estimator], atol=1e-5)
  assert str(terms.kl()) == "kl(k2, ref)"
  assert terms.kl().needs == {POLICY, scoring.Need("ref", scoring.log_probs)}
  other = terms.kl("k1", "ema", aggregates.token_sum())
  values, metrics = _evaluate(other, None)
  assert not values.any()
  assert list(metrics) == ["policy/kl_ema"]
  assert (str(other), str(other.aggregate)) == ("kl(k1, ema)", "token_sum")


def test_an_estimator_times_the_ratio_to_the_sampling_policy():
  """rho is differentiated too; the metric is without it."""
  d = np.array([[[0.5, -1, 0], [2, 0.1, 0]]])
  k3, mask = np.exp(-d) - 1 + d, np.array([[[1, 1, 1], [1, 1, 0]]])
  tokens, n = mask.sum(-1, keepdims=True), mask.sum()
  for denominator, log_rho in (("old", TO_OLD), ("behavior", TO_BEHAVIOR)):
    mean = (log_rho * mask).sum(-1, keepdims=True) / tokens
    shared = np.broadcast_to(mean, mask.shape)
    for ratio, log_ratio in (
      (ratios.token, log_rho),
      (ratios.shared_sequence_mean, shared),
    ):
      term = terms.kl("k3", ratio=ratio, denominator=denominator)
      values, metrics = _evaluate(term, None)
      rho_k3 = np.exp(log_ratio) * k3 * mask
      close(values, rho_k3, rtol=1e-5, atol=1e-6)
      close(metrics["policy/kl"], k3, atol=1e-5)

      def total(log_probs, term=term):
        named = types.Named({"log_probs": log_probs})
        return term.fn(None, named, ROLLOUT)[0].sum() / n

      # The slope of k3 times rho, and that of rho times k3.
      through_ratio = rho_k3
      if ratio is ratios.shared_sequence_mean:
        through_ratio = rho_k3.sum(-1, keepdims=True) / tokens * mask
      slope = np.exp(log_ratio) * (1 - np.exp(-d)) * mask + through_ratio
      close(jax.grad(total)(LOG_PROBS), slope / n, rtol=1e-4, atol=1e-6)
      if ratio is ratios.token:
        close(slope, np.exp(log_rho) * d * mask, atol=1e-12)
      assert term.denominator == denominator
      old = {OLD} if denominator == "old" else set()
      ref = scoring.Need("ref", scoring.log_probs)
      assert term.needs == {POLICY, ref} | old
      assert str(term).endswith(f"{ratio.__name__} ratio to {denominator})")
  assert terms.kl().denominator == ""
  with pytest.raises(ValueError, match="unknown denominator 'ref'"):
    terms.kl(denominator="ref")


def test_an_infinite_estimate_outside_of_the_loss_does_not_reach_the_ratio():
  mask = jnp.array([[[True, True, False]] * 2])
  rollout = ROLLOUT.replace(tokens=ROLLOUT.tokens.replace(mask=mask))
  log_probs = jnp.where(mask, LOG_PROBS, -500.0)
  term = terms.kl("k3", ratio=ratios.shared_sequence_mean)

  def total(log_probs):
    values, _ = term.fn(None, types.Named({"log_probs": log_probs}), rollout)
    return jnp.where(mask, values, 0.0).sum()

  assert np.isfinite(jax.grad(total)(log_probs)[mask]).all()


def test_entropy_and_negative_log_likelihood():
  entropy = -0.5 * terms.entropy()
  close(_evaluate(entropy, None), NAMED["entropy"])
  assert str(entropy) == "-0.5 * entropy"
  assert entropy.needs == {scoring.Need("policy", scoring.entropy)}
  nll = terms.nll()
  close(_evaluate(nll, None), -LOG_PROBS)
  assert (str(nll), nll.view, nll.needs) == ("nll(completions)", "", {POLICY})
  answer = terms.nll("answer", aggregates.token_sum())
  named = types.Named({"answer/log_probs": LOG_PROBS + 1})
  close(answer.fn(None, named, ROLLOUT), -LOG_PROBS - 1)
  assert (str(answer), answer.view) == ("nll(answer)", "answer")
  assert answer.needs == {scoring.Need("policy", scoring.log_probs, "answer")}
  for term in (entropy, nll):
    assert (term.takes, term.gives) == ("none", "token")
    assert str(term.aggregate) == "token_mean"


@transform(takes="none", gives="scalar")
def schedule(_, rollout):
  """A weight that grows with the step."""
  return rollout.step * 1.0


def test_weights_of_terms_multiply_and_print():
  term = terms.nll()
  assert term.weight == 1
  assert (0.5 * (4.0 * term)).weight == 2
  assert str(0.5 * (4.0 * term)) == "2 * nll(completions)"
  assert str(0.5 * (2.0 * term)) == str(term) == "nll(completions)"
  scheduled = schedule() * term
  assert str(scheduled) == "schedule() * nll(completions)"
  loss = term + 0.5 * term
  both = loss + scheduled
  assert [t.weight for t in loss.terms] == [1, 0.5]
  assert len((term + both).terms) == 4
  assert len((loss + both).terms) == 5
  assert str(loss) == "nll(completions) + 0.5 * nll(completions)"
  with pytest.raises(TypeError, match="already has the weight schedule"):
    2.0 * scheduled
  for twice in (2.0, 3.0):
    with pytest.raises(TypeError, match=f"already has the weight {twice:g}; "):
      schedule() * (twice * term)
  with pytest.raises(LevelError, match=r"scores\(\) gives a sample signal"):
    scores() * term


def test_a_decorated_function_has_the_aggregate_of_its_level():
  need = scoring.Need("ref", scoring.entropy)

  def scaled(signal, policy, rollout, *, factor=3.0):
    """Scales its signal."""
    del policy
    return factor * signal * rollout.scores

  for gives in ("token", "sample", "prompt"):
    make = terms.term(gives=gives, needs=lambda factor: {need})(scaled)
    term = make(2.0)
    assert (str(term), term.takes) == ("scaled(factor=2)", "sample")
    assert str(term.aggregate) == f"{gives}_mean"
    assert term.needs == {need}
    close(_evaluate(term, jnp.array([[5.0, 6.0]])), [[10.0, 0.0]])
    assert make().name == "scaled(factor=3)"
  summed = terms.term(aggregate=aggregates.token_sum())(scaled)()
  assert (str(summed.aggregate), summed.gives) == ("token_sum", "token")


def test_levels_of_a_term_are_checked():
  term = terms.nll()
  with pytest.raises(LevelError, match="takes a step signal; a term can take"):
    dataclasses.replace(term, takes="step")
  for level in ("none", "prompt", "sample", "token"):
    dataclasses.replace(term, takes=level)
  with pytest.raises(LevelError, match="per token, but the aggregate sample_m"):
    dataclasses.replace(term, aggregate=aggregates.sample_mean())
  with pytest.raises(LevelError, match="a filter must give a sample or token"):
    term.of(loss_filter=schedule())
  finished = filters_of_samples.finished()
  assert term.of(loss_filter=finished).loss_filter is finished
  everywhere = chain(finished, broadcast())
  assert term.of(loss_filter=everywhere).loss_filter is everywhere


def test_terms_and_losses_are_values():
  for value in (terms.nll(), terms.Loss((terms.nll(),))):
    with pytest.raises(dataclasses.FrozenInstanceError):
      value.terms = ()
