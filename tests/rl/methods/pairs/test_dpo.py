"""Worked examples of methods whose loss is DPO on a pair of each group."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import method_loss, methods, scoring, types
from rl.methods.pairs import mah_dpo
from rl.update_plan import Plan

# Two groups with a pair. d = log pi - log ref, by token; the first two samples
# of group 0 and the last two of group 1 are the pairs, and the other sample of
# each group is in between.
SCORES = [[1, 0, 0.5], [0.5, 0, 1]]
LENGTHS = [[3, 2, 1], [1, 1, 2]]
D = np.array(
  [
    [[0.2, 0.3, 0.4], [-0.1, -0.3, 8], [9, 9, 9]],
    [[9, 9, 9], [0.6, 8, 8], [-0.3, 0.5, 8]],
  ]
)
# By group: d of the chosen sample, d of the rejected one, and their lengths.
SUMS, SIZES = [(0.9, -0.4), (0.2, 0.6)], [(3, 2), (2, 1)]
PLACES = [((0, 0), (0, 1)), ((1, 2), (1, 1))]


@pytest.mark.worked_example("method:dpo")
@pytest.mark.parametrize(
  ("hyper", "beta", "eps", "normalized"),
  [
    ({}, 0.1, 0.0, False),
    ({"beta": 5.0, "length_normalized": True}, 5.0, 0.0, True),
    ({"beta": 0.5, "label_smoothing": 0.2}, 0.5, 0.2, False),
    (
      {"beta": 2.0, "label_smoothing": 0.1, "length_normalized": True},
      *(2.0, 0.1, True),
    ),
  ],
)
def test_dpo(hyper, beta, eps, normalized):
  """Sums and lengths by hand; sigma and its derivative from the equation."""
  rollout = worked_example.rollout(SCORES, LENGTHS)
  log_probs = np.full((2, 3, 3), -1.5)
  loss, slopes = worked_example.loss(
    methods.get("dpo", **hyper),
    rollout,
    log_probs,
    other={"ref": log_probs - D},
  )
  expected_loss, expected = 0.0, np.zeros((2, 3, 3))
  for (good, bad), sizes, places in zip(SUMS, SIZES, PLACES, strict=True):
    n = sizes if normalized else (1, 1)
    x = beta * (good / n[0] - bad / n[1])
    sigma = 1 / (1 + np.exp(-x))
    expected_loss -= (1 - eps) * np.log(sigma) + eps * np.log(1 - sigma)
    # d loss / dx = -(1 - eps) (1 - sigma) + eps sigma = sigma - 1 + eps
    rate = beta * (sigma - 1 + eps) / 2  # the mean over 2 groups
    for sign, place, size, length in zip(
      (1, -1), places, n, sizes, strict=True
    ):
      expected[place][:length] = sign * rate / size
  np.testing.assert_allclose(loss, expected_loss / 2, rtol=1e-5)
  np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.worked_example("method:dpo")
def test_dpo_of_tulu_3_in_numbers():
  """beta 5, length-normalised: x = 5 (0.3 + 0.2) and 5 (0.1 - 0.6)."""
  rollout = worked_example.rollout(SCORES, LENGTHS)
  log_probs = np.full((2, 3, 3), -1.5)
  m = methods.get("dpo", beta=5.0, length_normalized=True)
  loss, _ = worked_example.loss(
    m, rollout, log_probs, other={"ref": log_probs - D}
  )
  # -log sigma(2.5) = 0.078889 and -log sigma(-2.5) = 2.578889.
  np.testing.assert_allclose(loss, (0.078889 + 2.578889) / 2, rtol=1e-5)


@pytest.mark.worked_example("method:dpo")
def test_metrics_of_pairs():
  """Means over the groups with a pair: four of five."""
  more_scores = [[0, 1, 0.5], [1, 0, 0.5], [1, 1, 1]]
  rollout = worked_example.rollout(
    [*SCORES, *more_scores], [*LENGTHS, *[[1, 1, 1]] * 3]
  )
  log_probs = np.full((5, 3, 3), -1.5)
  d = np.full((5, 3, 3), 0.3)  # in group 3 the margin is 0
  d[:2], d[2, 1], d[2, 0] = D, 1.0, 0.4
  extras = {"ref/log_probs": jnp.float32(log_probs - d)}
  rollout = rollout.replace(extras=types.Named(extras))
  m = methods.get("dpo", beta=0.5)
  batch, weights, _ = method_loss.prepare(m, rollout, m.init())
  params = {
    "log_probs": jnp.float32(log_probs),
    "values": jnp.zeros((5, 3, 3)),
  }
  _, tally = method_loss.gradient(
    m, worked_example.POLICY, params, batch, weights, Plan()
  )
  metrics = tally.merge()
  expected = {
    "reward_chosen": 0.5 * (0.9 + 0.2 + 1.0 + 0.3) / 4,
    "reward_rejected": 0.5 * (-0.4 + 0.6 + 0.4 + 0.3) / 4,
    "reward_margin": 0.5 * (1.3 - 0.4 + 0.6 + 0.0) / 4,
    "accuracy": 2 / 4,
    "log_prob_chosen": -1.5 * (3 + 2 + 1 + 1) / 4,
    "log_prob_rejected": -1.5 * (2 + 1 + 1 + 1) / 4,
  }
  for name, value in expected.items():
    np.testing.assert_allclose(
      metrics[f"pairs/{name}"], value, rtol=1e-5, err_msg=name
    )


def test_dpo_refuses_what_makes_no_sense():
  for hyper, match in (
    ({"beta": 0.0}, r"beta=0\.0 must be above 0"),
    ({"label_smoothing": 0.5}, r"below 0\.5.*nearest: 0\.49"),
    ({"label_smoothing": -0.1}, r"at least 0.*nearest: 0\.0"),
  ):
    with pytest.raises(ValueError, match=match):
      methods.get("dpo", **hyper)


@pytest.mark.worked_example("method:semi_online_dpo", "method:mah_dpo")
@pytest.mark.parametrize("name", ["semi_online_dpo", "mah_dpo"])
def test_best_and_worst_sample(name):
  """Sample 2 of the first group is the best, 1 the worst; one group is flat."""
  rollout = worked_example.rollout(
    [[0.3, -0.4, 0.8, 0.8, 9], [0.5, 0.5, 0.5, 0.5, 9]],
    [[1, 3, 2, 1, 1], [1, 2, 1, 1, 1]],
    sample_mask=np.array([[True, True, True, True, False]] * 2),
  )
  log_probs = np.full((2, 5, 3), -1.0)
  # d = log pi - log ref: -0.7 + 0.3 + 1.2 = 0.8, and 0.9 - 0.4 = 0.5.
  d = np.full((2, 5, 3), 0.6)
  d[0, 1], d[0, 2] = [-0.7, 0.3, 1.2], [0.9, -0.4, 5]
  loss, slopes = worked_example.loss(
    methods.get(name), rollout, log_probs, other={"ref": log_probs - d}
  )
  # -log sigma(beta (d_+ - d_-)) with beta = 0.1.
  x = 0.1 * (0.5 - 0.8)
  np.testing.assert_allclose(loss, np.log1p(np.exp(-x)), rtol=1e-5)
  rate = 0.1 / (1 + np.exp(x))
  expected = np.zeros((2, 5, 3))
  expected[0, 1], expected[0, 2, :2] = rate, -rate
  np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.worked_example("method:semi_online_dpo")
def test_imitation_and_generator():
  """0.5 times the mean of -log pi over the tokens of the best sample."""
  rollout = worked_example.rollout([[0.3, 0.8, 0.1]], [[1, 2, 3]])
  log_probs = np.full((1, 3, 3), -1.0)
  log_probs[0, 1] = [-0.5, -2, -9]
  m = methods.get("semi_online_dpo", nll_coef=0.5)
  loss, slopes = worked_example.loss(m, rollout, log_probs)
  np.testing.assert_allclose(loss, np.log(2) + 0.5 * 2.5 / 2, rtol=1e-5)
  expected = [[0] * 3, [-0.05 - 0.25] * 2 + [0], [0.05] * 3]
  np.testing.assert_allclose(slopes[0], expected, atol=1e-6)
  # The generator is a copy that is renewed after every 10 training steps.
  for name in ("semi_online_dpo", "semi_online_grpo"):
    update = dict(methods.get(name).parameter_sets)["generator"].update
    copies = [update(jnp.zeros(()), jnp.ones(()), i) for i in (8, 9, 10)]
    assert [int(x) for x in copies] == [0, 1, 0]


@pytest.mark.worked_example("method:mah_dpo")
def test_pairs_by_objective_and_their_weight():
  """Two of three objectives have a pair; each has its own."""
  rollout = worked_example.rollout(
    [1, 2, 3],
    components={"a": [0.2, 0.9, 0.5], "b": [3, 2, 1], "c": [4, 4, 4]},
  )
  for name, pair in (("a", [-1, 1, 0]), ("b", [1, 0, -1]), ("", [-1, 0, 1])):
    actual = worked_example.apply(mah_dpo.pair_of(name), rollout)
    np.testing.assert_array_equal(actual, [pair])
  weight = mah_dpo.objective_weight(("a", "b", "c"))
  np.testing.assert_allclose(worked_example.apply(weight, rollout), 1 / 2)


def _score(params, tokens):
  """Reads log-probs of token 0 per head; token 1 has the rest."""
  names = sorted(params)
  rows = [params[name][tokens.prompts[:, 0]] for name in names]

  def head(i):
    return lambda h: jnp.stack([h[..., i], jnp.log1p(-jnp.exp(h[..., i]))], -1)

  heads = {name: head(i) for i, name in enumerate(names)}
  return types.Scored(jnp.stack(rows, -1), heads)


@pytest.mark.worked_example("method:mah_dpo")
def test_each_head_learns_from_the_pairs_of_its_objective():
  """Objective a has one pair in two groups, b has two, and c has none."""
  rollout = worked_example.rollout(
    np.zeros((2, 3)),
    [[1, 2, 1], [2, 1, 1]],
    components={
      "a": [[0.2, 0.9, 0.5], [0.4, 0.4, 0.4]],
      "b": [[3, 2, 1], [1, 3, 2]],
      "c": np.full((2, 3), 7),
    },
  )
  signs = {"a": [[-1, 1, 0], [0, 0, 0]], "b": [[1, 0, -1], [-1, 1, 0]]}
  rng = np.random.default_rng(0)
  # Log-probs under each head, and those of the reference under its own.
  tables = {
    name: rng.uniform(-2, -0.2, (2, 3, 2)) for name in ("a", "b", "c", "logits")
  }
  ref = rng.uniform(-2, -0.2, (2, 3, 2))
  params = jax.tree.map(jnp.float32, tables)
  m = methods.get("mah_dpo", objectives=("a", "b", "c"))
  policy = types.Policy(_score, None, None)
  sources = {"old": params, "ref": params | {"logits": jnp.float32(ref)}}
  scored = scoring.passes(policy, sources, method_loss.required(m), rollout)
  batch, weights, _ = method_loss.prepare(m, scored, m.init())
  slopes, tally = method_loss.gradient(
    m, policy, params, batch, weights, Plan()
  )
  mask, loss = np.asarray(rollout.mask), 0.0
  for name, number in (("a", 1), ("b", 2)):
    sign = np.array(signs[name])
    d = ((tables[name] - ref) * mask).sum(-1)  # log pi_d - log ref
    x = 0.1 * (sign * d).sum(-1)
    has_pair = sign.any(-1)
    # The mean over the groups with a pair, and over a and b.
    loss += (np.log1p(np.exp(-x)) * has_pair).sum() / number / 2
    rate = 0.1 / (1 + np.exp(x)) / number / 2
    expected = -rate[:, None, None] * sign[..., None] * mask
    np.testing.assert_allclose(slopes[name], expected, atol=1e-7)
  np.testing.assert_allclose(tally.merge()["loss/total"], loss, rtol=1e-5)
  assert not slopes["c"].any()
  assert not slopes["logits"].any()


def test_the_noise_of_copied_heads():
  """Its standard deviation is 0.001; each head has its own."""
  kernel = jnp.zeros((40, 50))
  heads = mah_dpo.copied_heads(jax.random.key(0), kernel, ("a", "b"))
  a, b = (np.asarray(heads[name]["kernel"]) for name in ("a", "b"))
  np.testing.assert_allclose([a.std(), b.std()], 1e-3, rtol=0.1)
  np.testing.assert_allclose((a - b).std(), 1e-3 * np.sqrt(2), rtol=0.1)
