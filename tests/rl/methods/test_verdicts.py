"""Learning from verdicts without a baseline, and from verdicts with errors."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import method_loss, methods, types
from rl.advantages import group_normalize, leave_one_out
from rl.methods.verdicts import noise
from rl.update_plan import Plan

P3 = np.array([0.5, 0.3, 0.2])
close = functools.partial(np.testing.assert_allclose, atol=1e-6, rtol=0)


def _score(params, tokens):
  hidden = jnp.broadcast_to(params["logits"], (*tokens.completions.shape, 3))
  return types.Scored(hidden, {"logits": lambda h: h})


SOFTMAX = dataclasses.replace(tabular_policy.policy, score=_score)


def group(tokens, correct=None, scores=None, sample_mask=None):
  """`[P, S]` samples of one token each."""
  tokens = jnp.asarray(tokens)
  p, s = tokens.shape
  base = tabular_policy.rollout(p=p, s=s, t=1, k=1, ragged=False)
  real = jnp.ones((p, s), bool) if sample_mask is None else sample_mask
  nothing = jnp.zeros((p, s))
  return base.replace(
    tokens=base.tokens.replace(
      completions=tokens[..., None], mask=jnp.ones((p, s, 1), bool)
    ),
    sample_mask=jnp.asarray(real),
    correct=jnp.asarray(nothing if correct is None else correct, jnp.int8),
    scores=jnp.asarray(nothing if scores is None else scores, jnp.float32),
  )


@functools.cache
def compiled(name, hyper):
  m = methods.get(name, **dict(hyper))

  def run(rollout):
    params = {"logits": jnp.log(jnp.asarray(P3, jnp.float32))}
    batch, scales, _ = method_loss.prepare(m, rollout, m.init())
    actual, _ = method_loss.gradient(m, SOFTMAX, params, batch, scales, Plan())
    return -actual["logits"]

  return jax.jit(run)


def gradient(name, rollout, **hyper):
  """The ascent direction of each logit of the softmax P3, per unit of step."""
  return compiled(name, tuple(sorted(hyper.items())))(rollout)


def advantages(m, rollout):
  return worked_example.advantages(m, rollout)


# Positive and negative samples.

TOKENS = np.array([[0, 1, 2, 0, 1]])
CORRECT = np.array([[1, 0, 0, 1, 0]])


def of(name, **hyper):
  return np.asarray(gradient(name, group(TOKENS, CORRECT), **hyper))


def test_a_wrong_token_gives_its_mass_to_the_others_in_proportion():
  """p = .5, .3, .2, with token 0 sampled and wrong."""
  close(gradient("nsr", group([[0, 1]], [[0, -1]])), [-0.5, 0.3, 0.2])


def test_a_right_token_takes_mass_from_the_others_in_proportion():
  close(gradient("psr", group([[0, 1]], [[1, -1]])), [0.5, -0.3, -0.2])


@pytest.mark.parametrize("positive", [1.0, 0.1])
def test_weighted_reinforce_is_reinforce_with_lambda_and_minus_one(positive):
  reward = np.where(CORRECT[0] == 1, positive, -1)
  want = np.mean(reward[:, None] * (np.eye(3)[TOKENS[0]] - P3), 0)
  close(of("w_reinforce", positive=positive), want)


def test_positive_and_negative_parts_sum_to_reinforce():
  """Each part is multiplied by the number of tokens that it divides by."""
  parts = 2 * of("psr") + 3 * of("nsr")
  close(parts, 5 * of("w_reinforce", positive=1.0))
  weighted = 0.1 * 2 * of("psr") + 3 * of("nsr")
  close(weighted, 5 * of("w_reinforce"))


@pytest.mark.parametrize(("name", "solved"), [("nsr", 1), ("psr", 0)])
def test_a_group_without_such_samples_contributes_nothing(name, solved):
  alone = gradient(name, group(TOKENS, CORRECT))
  beside = gradient(
    name,
    group(
      np.concatenate([TOKENS, TOKENS]),
      np.concatenate([CORRECT, np.full_like(CORRECT, solved)]),
    ),
  )
  close(beside, alone)
  nothing = gradient(name, group(TOKENS, np.full_like(CORRECT, solved)))
  np.testing.assert_array_equal(nothing, np.zeros(3))


@pytest.mark.parametrize("name", ["psr", "nsr", "w_reinforce"])
def test_an_unknown_verdict_teaches_nothing_and_is_not_counted(name):
  unknown = CORRECT.copy()
  unknown[0, 3:] = -1
  real = np.array([[True] * 3 + [False] * 2])
  close(
    gradient(name, group(TOKENS, unknown)),
    gradient(name, group(TOKENS, CORRECT, sample_mask=real)),
  )


# Verifiers that err.

RATES = [(0.0, 0.0), (0.1, 0.2), (0.3, 0.05), (0.4, 0.4), (0.0, 0.9)]


def chance(truth, observed, r0, r1):
  """P(the verdict that is observed | the truth)."""
  accepted = np.where(truth == 1, 1 - r1, r0)
  return np.where(observed == 1, accepted, 1 - accepted)


@pytest.mark.parametrize(("r0", "r1"), RATES)
def test_corrections_have_the_clean_expectation(r0, r1):
  observed = np.array([0.0, 1.0])
  for truth in (0, 1):
    p = chance(np.full(2, truth), observed, r0, r1)
    close(p @ noise.backward_correction(observed, r0, r1), truth, atol=1e-12)
    want = -(1 - r0 - r1) * (1 - truth)
    close(p @ noise.forward_weights(observed, r1), want, atol=1e-12)


def test_the_corrections_worked_by_hand():
  """Rates .1 and .2, accepted and rejected; rates by prompt broadcast."""
  observed = np.array([[1.0, 0.0], [1.0, 0.0]])
  rates = np.array([[0.1], [0.0]]), np.array([[0.2], [0.0]])
  want = [[1.285714, -0.142857], [1, 0]]
  close(noise.backward_correction(observed, *rates), want)
  close(noise.forward_weights(observed, rates[1]), [[0.2, -0.8], [0, -1]])


@pytest.mark.parametrize(("r0", "r1"), [(0.1, 0.2), (0.4, 0.4)])
def test_backward_advantages_are_the_clean_ones_on_average(r0, r1):
  """The mean is over all 8 combinations of errors in a group of three."""
  truth = np.array([1, 0, 0])
  observed = np.array(list(itertools.product((0, 1), repeat=3)))
  p = chance(truth, observed, r0, r1).prod(-1)
  m = methods.get("noisy_backward", false_positive=r0, false_negative=r1)
  actual = advantages(m, group(np.zeros((8, 3), int), scores=observed))
  close(p @ actual, leave_one_out(jnp.asarray(truth, jnp.float32)))


@pytest.mark.parametrize(
  ("name", "rates", "size"),
  [
    ("noisy_backward", {"false_positive": 0.3, "false_negative": 0.2}, 1.0),
    ("noisy_forward", {"false_negative": 0.2}, 0.5),
  ],
)
def test_the_expected_gradient_is_the_clean_one(name, rates, size):
  """Over all pairs of tokens and all errors; forward: times 1 - r0 - r1."""
  truth = np.array([1, 0, 1])
  draws = list(itertools.product(range(3), (0, 1)))
  pairs = np.array(list(itertools.product(draws, repeat=2)))
  tokens, observed = pairs[..., 0], pairs[..., 1]
  p = (P3[tokens] * chance(truth[tokens], observed, 0.3, 0.2)).prod(-1)
  run = jax.vmap(
    lambda t, r: gradient(name, group(t[None], scores=r[None]), **rates)
  )
  got = p @ np.asarray(run(tokens, observed))
  clean = P3 * (truth - P3 @ truth)  # d E[R] / d logits
  close(got, size * clean)


@pytest.mark.parametrize("name", ["noisy_backward", "noisy_forward"])
def test_they_read_what_was_observed_and_not_the_truth(name):
  observed = np.array([[1, 0, 0, 1, 0]])
  m = methods.get(name)
  truths = [
    advantages(m, group(TOKENS, t, observed)) for t in (observed, 1 - observed)
  ]
  np.testing.assert_array_equal(*truths)
  assert (truths[0][observed == 1] > 0).all()
  assert (truths[0][observed == 0] < 0).all()


def test_constant_rates_cancel_under_a_groups_normalisation():
  observed = jnp.array([[1.0, 0, 0, 1, 0], [1, 1, 1, 0, 1]])
  corrected = noise.backward_correction(observed, 0.3, 0.2)
  weights = noise.forward_weights(observed, 0.2)
  for reward in (corrected, weights):
    close(group_normalize(reward, eps=0.0), group_normalize(observed, eps=0.0))


@pytest.mark.parametrize(
  ("name", "rates", "error"),
  [
    ("noisy_backward", (0.6, 0.4), r"0.6 \+ 0.4 = 1 .*choose .*< 0.4"),
    ("noisy_backward", (0.7, 0.7), "= 1.4 must be below 1"),
    (
      "noisy_backward",
      (-0.1, 0.2),
      "false_positive = -0.1 must be a probability",
    ),
    ("noisy_forward", (1.0,), r"false_negative = 1 must be .* below 1"),
  ],
)
def test_a_verifier_that_tells_nothing_is_refused(name, rates, error):
  keys = ("false_positive", "false_negative")[-len(rates) :]
  with pytest.raises(ValueError, match=error):
    methods.get(name, **dict(zip(keys, rates, strict=True)))
