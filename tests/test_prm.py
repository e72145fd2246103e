"""Process reward models: losses, labels, scores of steps, and the command."""

import dataclasses
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from experiments import build, checkpoint, collect
from experiments.configs import chain_base, common
from experiments.prm import __main__ as command
from experiments.prm import fit, label, reward, settings
from models import grow, heads, transformer
from models import policy as policies
from models.config import ModelConfig
from rewards.process import continuations, labels, losses, model
from rl import rollout as rollouts
from rl import step_metrics, types

TINY = {
  "width": 16,
  "layers": 1,
  "heads": 2,
  "kv_heads": 2,
  "head_dim": 8,
  "mlp_width": 32,
}


# Losses.


def test_the_gradient_of_bce_is_sigmoid_minus_label():
  rng = np.random.default_rng(0)
  logits, labelled = rng.normal(size=(2, 3, 5)).astype(np.float32)
  labelled = 1 / (1 + np.exp(-labelled))
  weights = rng.integers(0, 3, (3, 5)).astype(np.float32)
  found = jax.grad(losses.soft_label_bce)(logits, labelled, weights)
  want = (jax.nn.sigmoid(logits) - labelled) * weights / weights.sum()
  np.testing.assert_allclose(found, want, atol=1e-7)


def test_a_constant_feature_learns_the_weighted_mean_label():
  labelled = jnp.array([1.0, 0.0, 0.3, 0.9])
  weights = jnp.array([2.0, 1.0, 1.0, 4.0])
  mean = float((labelled * weights).sum() / weights.sum())
  best = math.log(mean / (1 - mean))
  slope = jax.grad(
    lambda s: losses.soft_label_bce(jnp.full(4, s), labelled, weights)
  )
  assert abs(slope(best)) < 1e-7
  assert slope(best - 0.1) < 0 < slope(best + 0.1)


def test_undecided_labels_cost_log_two():
  halves, ones = jnp.full((2, 3), 0.5), jnp.ones((2, 3))
  for found in (
    losses.soft_label_bce(jnp.zeros((2, 3)), halves, ones),
    losses.two_class_cross_entropy(jnp.zeros((2, 3, 2)), halves, ones),
  ):
    assert found == pytest.approx(math.log(2), abs=1e-6)


def test_two_classes_are_one_logit():
  """The difference of two logits is a logit; PURE's score is 2 p - 1."""
  logits = jax.random.normal(jax.random.key(0), (4, 3, 2))
  labelled = jax.random.uniform(jax.random.key(1), (4, 3))
  weights = jax.random.uniform(jax.random.key(2), (4, 3))
  one = logits[..., 1] - logits[..., 0]
  np.testing.assert_allclose(
    losses.two_class_cross_entropy(logits, labelled, weights),
    losses.soft_label_bce(one, labelled, weights),
    rtol=1e-6,
  )
  good = jax.nn.softmax(logits, -1)
  np.testing.assert_allclose(
    heads.two_class_score(logits), good[..., 1] - good[..., 0], atol=1e-6
  )
  np.testing.assert_allclose(
    heads.two_class_score(logits), 2 * jax.nn.sigmoid(one) - 1, atol=1e-6
  )


@pytest.mark.parametrize("extra", [3.0, jnp.nan, jnp.inf])
def test_a_step_without_weight_is_not_there(extra):
  logits = jnp.array([0.5, -1.0, extra])
  given = (jnp.array([1.0, 0.0, extra]), jnp.array([1.0, 2.0, 0.0]))
  part = (given[0][:2], given[1][:2])
  loss, gradient = jax.value_and_grad(losses.soft_label_bce)(logits, *given)
  want, slope = jax.value_and_grad(losses.soft_label_bce)(logits[:2], *part)
  assert loss == want
  np.testing.assert_array_equal(gradient, [*slope, 0.0])
  pair = jnp.stack([-logits, logits], -1)
  loss = losses.two_class_cross_entropy(pair, *given)
  assert loss == losses.two_class_cross_entropy(pair[:2], *part)
  nothing = jnp.zeros(3)
  assert losses.soft_label_bce(logits, given[0], nothing) == 0


def test_the_language_loss_of_a_uniform_guess_is_log_v():
  tokens = jnp.array([[1, 2, 3], [4, 0, 0]])
  mask = jnp.array([[True] * 3, [True, False, False]])
  flat = jnp.zeros((2, 3, 7))
  found = losses.language_loss(flat, tokens, mask)
  assert found == pytest.approx(math.log(7), abs=1e-6)
  sure = 50.0 * jax.nn.one_hot(jnp.where(mask, tokens, 6), 7)
  assert losses.language_loss(sure, tokens, mask) == pytest.approx(0, abs=1e-6)


def test_a_head_is_an_affine_map_in_float32():
  params = heads.init_linear(jax.random.key(0), 6, 3)
  hidden = jax.random.normal(jax.random.key(1), (2, 5, 6))
  params["bias"] = jnp.array([1.0, 2.0, 3.0])
  found = heads.linear(params, hidden)
  want = np.einsum("abd,dk->abk", hidden, params["kernel"]) + params["bias"]
  np.testing.assert_allclose(found, want, atol=1e-6)
  assert heads.linear(params, hidden.astype(jnp.bfloat16)).dtype == jnp.float32
  wide = heads.init_linear(jax.random.key(0), 1000, 64)["kernel"]
  assert jnp.std(wide) == pytest.approx(1 / 1001, rel=0.02)


def test_a_grown_decoder_is_the_same_function_and_can_learn():
  config = ModelConfig(vocab_size=11, **TINY)
  params = transformer.init(config, jax.random.key(0))
  deeper, grown = grow.append_layers(config, params, 2, jax.random.key(1))
  assert deeper.layers == 3
  tokens = jnp.arange(10).reshape(2, 5)
  mask = jnp.ones((2, 5), bool)
  np.testing.assert_array_equal(
    transformer.logits(deeper, grown, tokens, mask),
    transformer.logits(config, params, tokens, mask),
  )
  slopes = jax.grad(
    lambda p: transformer.logits(deeper, p, tokens, mask)[..., 3].sum()
  )(grown)
  for name, part in (("attention", "output"), ("mlp", "down")):
    kernel = slopes["layers"][name][part]["kernel"]
    assert (jnp.abs(kernel).max((1, 2)) > 0).all()
  assert grow.append_layers(config, params, 0, None) == (config, params)
  with pytest.raises(ValueError, match=r"layers = -1.*nearest: 0"):
    grow.append_layers(config, params, -1, None)


# Scores of steps.

CONFIG = ModelConfig(vocab_size=11, **TINY)
# Steps of 2, 3 and 1 tokens, one of 6, and a sample cut after 2 steps.
STEP_IDS = np.array(
  [[[0, 0, 1, 1, 1, 2], [0] * 6], [[0, 1, -1, -1, -1, -1], [0, 0, 0, 1, 2, 3]]]
)


@pytest.fixture(scope="module")
def scored():
  """(model, parameters, tokens, jitted scorer) of an untrained decoder."""
  scorer = model.ProcessModel(
    policies.bind(CONFIG), heads.linear, heads.two_class_score
  )
  params = {
    "decoder": transformer.init(CONFIG, jax.random.key(0)),
    "head": heads.init_linear(jax.random.key(1), CONFIG.width, 2),
  }
  rng = np.random.default_rng(0)
  prompts = jnp.asarray(rng.integers(1, 11, (2, 4)))
  mask = jnp.array([[True] * 4, [False, True, True, True]])
  real = jnp.asarray(STEP_IDS >= 0)
  tokens = types.Tokens(
    prompts=jnp.where(mask, prompts, 0),
    prompt_mask=mask,
    completions=jnp.where(real, rng.integers(1, 11, STEP_IDS.shape), 0),
    lengths=real.sum(-1),
    mask=real,
  )
  run = jax.jit(
    lambda params, tokens, ids: model.score_steps(
      scorer, params, tokens, ids, 4
    )
  )
  return scorer, params, tokens, run


def test_step_ends_are_the_last_tokens():
  ends, exists = model.step_ends(jnp.asarray(STEP_IDS), 4)
  for p, s, k in np.ndindex(2, 2, 4):
    (at,) = np.nonzero(STEP_IDS[p, s] == k)
    assert exists[p, s, k] == (at.size > 0)
    assert not at.size or ends[p, s, k] == at[-1]


def test_a_score_is_the_head_after_the_steps_last_token(scored):
  """The state there, from the plain forward pass over prompt and completion."""
  _, params, tokens, run = scored
  found = run(params, tokens, STEP_IDS)
  # With the identity as unembedding, the logits are the hidden states.
  open_ = dataclasses.replace(CONFIG, vocab_size=CONFIG.width)
  table = jnp.pad(params["decoder"]["embed"]["table"], ((0, 5), (0, 0)))
  decoder = {
    **params["decoder"],
    "embed": {"table": table},
    "unembed": {"kernel": jnp.eye(CONFIG.width)},
  }
  sequences = jnp.concatenate(
    [jnp.repeat(tokens.prompts[:, None], 2, 1), tokens.completions], -1
  ).reshape(4, 10)
  mask = jnp.concatenate(
    [jnp.repeat(tokens.prompt_mask[:, None], 2, 1), tokens.mask], -1
  ).reshape(4, 10)
  hidden = transformer.logits(open_, decoder, sequences, mask)
  hidden = hidden.reshape(2, 2, 10, CONFIG.width)
  for p, s, k in np.ndindex(2, 2, 4):
    (at,) = np.nonzero(STEP_IDS[p, s] == k)
    if at.size:
      want = heads.linear(params["head"], hidden[p, s, 4 + at[-1]])
      np.testing.assert_allclose(found[p, s, k], want, atol=1e-5)


def test_a_token_moves_its_own_step_and_no_earlier_one(scored):
  _, params, tokens, run = scored
  before = run(params, tokens, STEP_IDS)
  for t in range(6):
    changed = tokens.completions.at[0, 0, t].add(1) % 11
    after = run(params, tokens.replace(completions=changed), STEP_IDS)
    step = STEP_IDS[0, 0, t]
    np.testing.assert_array_equal(after[0, 0, :step], before[0, 0, :step])
    for later in range(step, 3):
      assert jnp.abs(after[0, 0, later] - before[0, 0, later]).max() > 1e-6
    np.testing.assert_array_equal(after[1], before[1])
    np.testing.assert_array_equal(after[0, 1], before[0, 1])


# Labels.


class Table:
  """A Markov policy on {0 pad, 1 EOS, 2 lost, 3 well}; success: never lost.

  Well goes on with chance 1/2, is lost or ends with 1/4 each; lost stays lost
  or ends. So the chance of success is known by counting.
  """

  law = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 2, 2, 0], [0, 1, 1, 2]]) / [
    [1],
    [1],
    [4],
    [4],
  ]
  sampling = rollouts.Sampling(
    samples=256, max_tokens=5, eos_ids=(1,), pad_id=0
  )

  @classmethod
  def policy(cls):
    logits = jnp.log(jnp.asarray(cls.law, jnp.float32))
    return types.Policy(
      score=None,
      prefill=lambda params, prompts, mask, samples, room: (
        logits[prompts[:, -1]],
        (),
      ),
      decode=lambda params, tokens, t, cache: (logits[tokens], cache),
    )

  @staticmethod
  def chance(state, room):
    """Of success from a state, with room for so many tokens more."""
    total = 0.0
    for length in range(1, room + 1):
      for path in itertools.product((2, 3), repeat=length - 1):
        steps = [state, *path, 1]
        if state != 2 and 2 not in path:
          total += math.prod(
            Table.law[a, b] for a, b in itertools.pairwise(steps)
          )
    return total

  @staticmethod
  def judge(prompts, completions, lengths, finished):
    return finished & (completions != 2).all(-1)


@pytest.fixture(scope="module")
def counted():
  """Rollouts of the table whose every token is a step, and their successes."""
  completions = jnp.array(
    [
      [[3, 3, 3, 3, 3], [3, 1, 0, 0, 0], [3, 3, 2, 1, 0]],
      [[2, 2, 1, 0, 0], [3, 3, 3, 3, 1], [3, 2, 2, 2, 2]],
    ]
  )
  mask = completions != 0
  finished = (completions == 1).any(-1)
  correct = Table.judge(None, completions, None, finished)
  rollout = types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.array([[0, 3], [3, 3]]),
      prompt_mask=jnp.array([[False, True], [True, True]]),
      completions=completions,
      lengths=mask.sum(-1),
      mask=mask,
    ),
    sample_mask=jnp.ones((2, 3), bool),
    behavior_log_probs=jnp.zeros((2, 3, 5)),
    finished=finished,
    scores=correct.astype(jnp.float32),
    correct=correct.astype(jnp.int8),
    prompt_ids=jnp.arange(2),
    keys=jax.random.split(jax.random.key(0), 2),
    step=jnp.int32(0),
    step_ids=jnp.where(mask, jnp.arange(5), -1),
    step_mask=mask,
  )
  evaluate = continuations.evaluator(
    Table.policy(), (), rollout, Table.judge, Table.sampling, batch=8
  )
  return rollout, evaluate, labels.monte_carlo(evaluate, mask)


def test_prefixes_are_prompts_padded_on_the_left(counted):
  tokens = counted[0].tokens
  found, mask = continuations.prefix_prompts(
    tokens, jnp.array([2, 4]), jnp.array([3, 1])
  )
  np.testing.assert_array_equal(found[0], [0, 0, 0, 3, 3, 3, 2])
  np.testing.assert_array_equal(mask[0], [False] * 3 + [True] * 4)
  np.testing.assert_array_equal(found[1], [0, 0, 0, 0, 3, 3, 3])
  np.testing.assert_array_equal(mask[1], [False] * 4 + [True] * 3)


def test_completions_continue_their_prefix(counted):
  rollout = counted[0]
  rows, kept = jnp.array([0, 4, 5]), jnp.array([2, 4, 1])
  completions, lengths, finished = jax.jit(
    lambda keys: continuations.complete(
      Table.policy(), (), rollout.tokens, rows, kept, keys, Table.sampling
    )
  )(jax.random.split(jax.random.key(1), 3))
  given = rollout.completions.reshape(6, 5)[rows]
  for i, cut in enumerate(kept):
    assert (completions[i, :, :cut] == given[i, :cut]).all()
  ended = (completions == 1).any(-1)
  np.testing.assert_array_equal(finished, ended)
  np.testing.assert_array_equal(lengths, (completions != 0).sum(-1))
  assert (lengths[~finished] == 5).all()  # cut by the room alone
  assert finished.any()
  assert not finished.all()


def test_monte_carlo_labels_estimate_the_enumerated_chance(counted):
  rollout, _, successes = counted
  M = successes.shape[-1]
  soft = labels.soft_labels(successes, rollout.step_mask)
  hard = labels.hard_labels(successes, rollout.step_mask)
  for p, s, k in zip(*np.nonzero(rollout.step_mask), strict=True):
    tokens = np.asarray(rollout.completions[p, s])
    whole = k + 1 == rollout.tokens.lengths[p, s]
    lost = (tokens[: k + 1] == 2).any()
    exact = 0.0 if lost else Table.chance(tokens[k], 4 - k)
    if whole:
      exact = float(rollout.correct[p, s])
    error = math.sqrt(exact * (1 - exact) / M)
    assert soft.values[p, s, k] == pytest.approx(exact, abs=4 * error)
    assert hard.values[p, s, k] == (exact > 0)
    assert soft.weights[p, s, k] == 1
  assert (soft.weights.sum(-1) == rollout.tokens.lengths).all()


def test_a_prefix_has_the_same_continuations_in_any_batch(counted):
  _, evaluate, successes = counted
  rows, steps = np.array([3, 0, 4, 0]), np.array([0, 3, 1, 0])
  np.testing.assert_array_equal(
    evaluate(rows, steps), successes.reshape(6, 5, -1)[rows, steps]
  )


def test_search_and_count_agree_on_the_same_continuations(counted):
  rollout, evaluate, successes = counted
  mask = rollout.step_mask
  hard = labels.drop_after_error(labels.hard_labels(successes, mask))
  first, _ = labels.first_error_by_binary_search(evaluate, mask)
  found = labels.from_first_error(first, mask)
  np.testing.assert_array_equal(found.values, hard.values)
  np.testing.assert_array_equal(found.weights, hard.weights)


@pytest.mark.parametrize("room", [1, 2, 7, 8])
def test_binary_search_finds_what_a_scan_finds(room):
  """Every monotone sequence of every length, in 1 + ceil(log2 n) looks."""
  cases = [(n, e) for n in range(room + 1) for e in range(n + 1)]
  lengths, errors = np.array(cases).T
  mask = np.arange(room) < lengths[:, None]
  looks = []

  def evaluate(rows, steps):
    assert mask[rows, steps].all()
    looks.append(len(rows))
    return np.repeat((steps < errors[rows])[:, None], 3, -1)

  first, asked = labels.first_error_by_binary_search(evaluate, mask[None])
  want = np.where(errors < lengths, errors, -1)
  np.testing.assert_array_equal(first[0], want)
  bound = 1 + np.ceil(np.log2(np.maximum(lengths, 1)))
  assert (asked[0] <= np.where(lengths, bound, 0)).all()
  assert (asked[0][(want < 0) & (lengths > 0)] == 1).all()
  assert len(looks) <= 1 + math.ceil(math.log2(room))
  assert sum(looks) == asked.sum()


def test_a_hard_label_asks_for_its_successes():
  """P(label = 1) over all outcomes of M fair continuations is binomial."""
  M = 5
  outcomes = np.array(list(itertools.product([False, True], repeat=M)))
  mask = np.ones((1, 1, 2**M), bool)
  for least in range(1, M + 1):
    found = labels.hard_labels(outcomes[None, None], mask, least)
    tail = sum(math.comb(M, i) for i in range(least, M + 1)) / 2**M
    assert found.values.mean() == pytest.approx(tail)
  with pytest.raises(ValueError, match=r"least=6.*1\.\.5, nearest 5"):
    labels.hard_labels(outcomes[None, None], mask, 6)


def test_exact_labels_and_what_follows_an_error():
  scores = jnp.array([[[1.0, -1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
  mask = jnp.array([[[True, True, True, False], [True, True, False, False]]])
  found = labels.from_checker(scores, mask)
  np.testing.assert_array_equal(found.values[0], [[1, 0, 1, 0], [1, 1, 0, 0]])
  np.testing.assert_array_equal(found.weights, mask)
  kept = labels.drop_after_error(found)
  np.testing.assert_array_equal(kept.weights[0], [[1, 1, 0, 0], [1, 1, 0, 0]])


# Metrics.


def test_the_first_error_is_the_first_step_below_the_threshold():
  scores = jnp.array([[0.9, 0.2, -0.1, -0.5], [0.3, 0.1, 0.4, -1.0]])
  mask = jnp.array([[True] * 4, [True] * 3 + [False]])
  assert step_metrics.first_error(scores, mask).tolist() == [2, -1]
  assert step_metrics.first_error(scores, mask, 0.25).tolist() == [1, 1]


def test_processbench_by_hand():
  """Of 5 erroneous 3 are located, of 10 correct 9 left alone: .6, .9 -> .72."""
  truth = jnp.array([0, 1, 2, 3, 4] + [-1] * 10)[:, None]
  named = jnp.array([0, 1, 2, 4, -1] + [-1] * 9 + [0])[:, None]
  found = step_metrics.first_error_f1(named, truth)
  np.testing.assert_allclose(found, [0.6, 0.9, 0.72], atol=1e-6)
  never = step_metrics.first_error_f1(jnp.full((15, 1), -1), truth)
  np.testing.assert_array_equal(never, [0.0, 1.0, 0.0])
  worst = step_metrics.first_error_f1(truth + 7, truth)
  np.testing.assert_array_equal(worst, [0.0, 0.0, 0.0])
  valid = jnp.arange(15)[:, None] < 5
  only = step_metrics.first_error_f1(named, truth, valid)
  assert only.erroneous == pytest.approx(0.6)
  assert jnp.isnan(only.correct)
  assert jnp.isnan(only.f1)


def test_the_interval_has_the_width_of_the_standard_error():
  """Of one sample a problem, a share has the deviation of a coin's mean."""
  rng = np.random.default_rng(0)
  truth = jnp.asarray(rng.permutation([0] * 800 + [-1] * 800))[:, None]
  named = jnp.where(rng.random((1600, 1)) < 0.8, truth, 5)
  key = jax.random.key(0)
  mean = step_metrics.first_error_f1(named, truth)
  low, high = step_metrics.first_error_interval(
    named, truth, key, resamples=2000
  )
  for share, a, b in zip(mean[:2], low, high, strict=False):
    error = math.sqrt(share * (1 - share) / 800)
    assert float(b - a) == pytest.approx(2 * 1.96 * error, rel=0.1)
  assert low.f1 < mean.f1 < high.f1
  with pytest.raises(ValueError, match=r"level=1\.5"):
    step_metrics.first_error_interval(named, truth, key, level=1.5)


def test_auc_counts_pairs():
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 5, (4, 9)).astype(np.float32)  # many ties
  good, valid = rng.random((2, 4, 9)) < 0.6
  found = jax.jit(step_metrics.auc)(scores, good, valid)
  high, low = scores[good & valid], scores[~good & valid]
  pairs = high[:, None] - low[None]
  want = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
  assert found == pytest.approx(want, abs=1e-6)
  mirrored = float(step_metrics.auc(-scores, good))
  assert step_metrics.auc(scores, good) == pytest.approx(1 - mirrored, abs=1e-6)
  assert jnp.isnan(step_metrics.auc(scores, np.ones((4, 9), bool)))


def test_scores_of_samples_by_their_steps():
  scores = jnp.array([[0.5, -0.2, 0.9], [0.7, 9.0, 9.0], [9.0, 9.0, 9.0]])
  mask = jnp.array([[True] * 3, [True, False, False], [False] * 3])
  never = -np.inf
  for rule, want in (
    (step_metrics.worst_step, [-0.2, 0.7, never]),
    (step_metrics.mean_step, [0.4, 0.7, never]),
    (step_metrics.last_step, [0.9, 0.7, never]),
  ):
    np.testing.assert_allclose(rule(scores, mask), want, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_best_of_n_is_the_mean_over_subsets(n):
  rng = np.random.default_rng(n)
  scores = rng.integers(0, 4, (3, 7)).astype(np.float32)
  scores[2, :3] = -np.inf
  correct = rng.integers(-1, 2, (3, 7))
  valid = np.ones((3, 7), bool)
  valid[1, 2] = False
  found = step_metrics.best_of_n_value(scores, correct, n, valid)
  for row in range(3):
    values = []
    for chosen in itertools.combinations(np.nonzero(valid[row])[0], n):
      chosen = np.array(chosen)
      best = scores[row, chosen] == scores[row, chosen].max()
      values.append((correct[row, chosen[best]] == 1).mean())
    assert found[row] == pytest.approx(np.mean(values), abs=1e-6)


def test_best_of_n_between_pass_at_1_and_pass_at_n():
  correct = jnp.asarray(np.random.default_rng(0).integers(0, 2, (5, 12)))
  verdict = correct.astype(jnp.float32)
  for n in (1, 3, 12):
    passed = [
      1 - math.comb(12 - int(c), n) / math.comb(12, n) for c in correct.sum(-1)
    ]
    np.testing.assert_allclose(
      step_metrics.best_of_n_value(verdict, correct, n), passed, atol=1e-6
    )
    np.testing.assert_allclose(
      step_metrics.best_of_n_value(jnp.zeros((5, 12)), correct, n),
      correct.mean(-1),
      atol=1e-6,
    )
  few = jnp.arange(12) < 2
  found = step_metrics.best_of_n_value(verdict, correct, 3, few[None])
  assert jnp.isnan(found).all()
  with pytest.raises(ValueError, match=r"n=13.*nearest 12"):
    step_metrics.best_of_n_value(verdict, correct, 13)


# In training, and as a command.


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """The folder of a base that answers chains of one operation at random."""
  folder = tmp_path_factory.mktemp("base")
  with tiny.compiled_once(tmp_path_factory.mktemp("programs")):
    yield _write_base(folder)


def _write_base(folder):
  config = chain_base.get_config()
  config.task = "chain(operations=1)"
  config.model = common.model(**TINY)
  checkpoint.write_config(folder, config)
  params = build.build(config).init().params
  with checkpoint.Checkpoints(folder / checkpoint.FOLDER) as saved:
    saved.save(0, {"params": params}, {})
  return folder


def small(base, kind, **changes):
  config = settings.default(kind, updates=6)
  config.init_from = str(base)
  config.base = {}
  config.problems, config.samples, config.batch = 8, 2, 4
  config.continuations, config.prefixes, config.least = 2, 16, 1
  config.checkpoint_every = 2
  config.evaluation.problems, config.evaluation.samples = 8, 4
  config.evaluation.batch, config.evaluation.ns = 8, (2, 4)
  config.update(changes)
  return config


def test_a_frozen_model_scores_rollouts_inside_the_loop(base):
  prepared = settings.prepare(small(base, "checker"), base / "none")
  e = prepared.base
  params = e.init().params
  trained = fit.start(prepared, params)["params"]
  scorer = fit.process_model(prepared)
  gather = {
    name: jax.jit(
      collect.on_device(task, e.policy, label.sampling(e.task, 3), 4)
    )
    for name, task in (
      ("plain", e.task),
      ("scored", reward.scored_by(e.task, scorer, trained)),
    )
  }
  plain, scored = (gather[name](e.init()) for name in ("plain", "scored"))
  want = model.score_rollout(scorer, trained, plain)
  np.testing.assert_allclose(scored.step_scores, want.step_scores, atol=1e-6)
  assert (jnp.abs(scored.step_scores) < 1).all()
  assert (scored.step_scores[~plain.step_mask] == 0).all()
  assert (
    scored.step_scores[plain.step_mask] != plain.step_scores[plain.step_mask]
  ).all()
  np.testing.assert_array_equal(scored.correct, plain.correct)
  with pytest.raises(ValueError, match="does not cut"):
    model.score_rollout(scorer, trained, plain.replace(step_ids=None))


@pytest.mark.parametrize("kind", settings.LABELS)
def test_the_command_end_to_end(kind, base, tmp_path):
  found = command.run(settings.prepare(small(base, kind), tmp_path))
  saved = json.loads((tmp_path / "metrics.json").read_text())
  assert saved == found
  assert saved["labels"] == kind
  for rule in ("worst", "mean", "last"):
    best, uplift = (saved[f"{x}/{rule}@4"] for x in ("accuracy", "uplift"))
    assert best["low"] <= best["mean"] <= best["high"]
    assert uplift["mean"] == pytest.approx(
      best["mean"] - saved["accuracy/maj@4"]["mean"], abs=1e-6
    )
  params = checkpoint.restore_params(tmp_path / checkpoint.FOLDER)
  assert set(params) == {"decoder", "head"}
  assert checkpoint.latest_step(tmp_path / checkpoint.FOLDER) == 6


def test_a_killed_run_ends_as_an_uninterrupted_one(base, tmp_path, monkeypatch):
  """Killed after the second save; labels and updates are not made again."""
  monkeypatch.setattr(fit, "DISPATCH", 2)
  config = small(base, "binary_search")
  whole = command.run(settings.prepare(config, tmp_path / "whole"))
  save, saves = checkpoint.Checkpoints.save, []

  def dying(self, step, *args, **kwargs):
    if step > 4:
      raise KeyboardInterrupt
    saves.append(step)
    return save(self, step, *args, **kwargs)

  with monkeypatch.context() as patch:
    patch.setattr(checkpoint.Checkpoints, "save", dying)
    with pytest.raises(KeyboardInterrupt):
      command.run(settings.prepare(config, tmp_path / "killed"))
  assert saves == [2, 4]
  assert not (tmp_path / "killed" / "metrics.json").exists()
  with monkeypatch.context() as patch:
    patch.setattr(label, "label", None)  # nothing is labelled twice
    killed = command.run(settings.prepare(config, tmp_path / "killed"))
  for found in (whole, killed):
    for name in [n for n in found if n.startswith("time/")]:
      del found[name]
  assert killed == whole
  folders = [tmp_path / n / checkpoint.FOLDER for n in ("whole", "killed")]
  one, other = map(checkpoint.restore_params, folders)
  jax.tree.map(np.testing.assert_array_equal, one, other)
  # A finished run is read, not run.
  again = command.run(settings.prepare(config, tmp_path / "whole"))
  assert again["loss"] == whole["loss"]


@pytest.mark.parametrize(
  ("given", "expected"),
  [
    (["--labels=monte_carl"], ["'monte_carl'", "did you mean 'monte_carlo'?"]),
    (["--steps=0"], ["updates = 0", "at least 1"]),
    (["--base=/no/such/run"], ["--base /no/such/run holds no run"]),
  ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
  given, expected, tmp_path, capsys
):
  assert command.main([*given, f"--workdir={tmp_path / 'run'}"]) == 2
  err = capsys.readouterr().err
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  for part in expected:
    assert part in err
  assert not list(tmp_path.iterdir())


def test_a_base_whose_steps_nobody_checks_is_refused(tmp_path):
  config = chain_base.get_config()
  config.task = "countdown(count=2)"
  checkpoint.write_config(tmp_path, config)
  params = build.build(config).init().params
  with checkpoint.Checkpoints(tmp_path / checkpoint.FOLDER) as saved:
    saved.save(0, {"params": params}, {})
  with pytest.raises(ValueError, match=r"'countdown'.*use a base of 'chain'"):
    settings.prepare(small(tmp_path, "checker"), tmp_path / "run")
