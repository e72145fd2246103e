"""PURE in all its layouts, from token ids to advantages; clip, delta, products.

The worked example is `pure_groups`, at temperature 0.1.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled
from helpers.step_groups import (
  EOS,
  GLUED,
  LAYOUTS,
  SEP,
  WORD,
  L,
  advantages,
  close,
  group,
  prompts,
  returns,
  value,
  worked_example,
)

from rewards.process.segmentation import segment_steps, step_mask
from rl import methods, transforms
from rl.methods.process import step_rewards, step_transforms
from rl.transforms import chain

step_rewards = compiled.functions(step_rewards)

every_layout = pytest.mark.parametrize(("name", "hyper"), LAYOUTS)


@pytest.fixture(scope="module")
def worked():
  return worked_example()


# Segmentation.


@pytest.mark.parametrize(
  ("tokens", "steps", "ids"),
  [
    pytest.param([5, 7, 5, 5, 7, 1], None, [0, 0, 1, 1, 1, 2], id="plain"),
    pytest.param([5, 9, 5, 1], None, [0, 0, 1, 1], id="glued_separator"),
    pytest.param([5, 7, 7, 5, 1], None, [0, 0, 1, 2, 2], id="empty_step"),
    pytest.param([7, 5, 1], None, [0, 1, 1], id="starts_with_one"),
    pytest.param([5, 5, 5, 1], None, [0, 0, 0, 0], id="no_separator"),
    pytest.param([5, 7, 5, 5], None, [0, 0, 1, 1], id="truncated"),
    pytest.param([5, 7, 5, 7], None, [0, 0, 1, 1], id="ends_with_one"),
    pytest.param([7, 7, 7, 5], None, [0, 1, 2, 3], id="separators_only"),
    pytest.param([7, 7, 7, 5], 4, [0, 1, 2, 3], id="just_fits"),
    pytest.param([5, 7, 7, 5, 7, 1], 2, [0, 0, 1, 1, 1, 1], id="overflow"),
    pytest.param([5, 7, 5, 7, 1], 1, [0] * 5, id="one_step_of_room"),
    pytest.param([], None, [], id="no_token"),
  ],
)
def test_steps_end_at_separators(tokens, steps, ids):
  size = 8
  padded = jnp.array(tokens + [SEP] * (size - len(tokens)), jnp.int32)
  got = segment_steps(padded, jnp.array(len(tokens)), (SEP, GLUED), steps)
  np.testing.assert_array_equal(got, ids + [-1] * (size - len(ids)))
  exists = step_mask(got, 6)
  np.testing.assert_array_equal(exists, np.arange(6) < len(set(ids)))


def test_segmentation_is_that_of_reading_left_to_right():
  rng = np.random.default_rng(0)
  tokens = rng.choice([WORD, SEP, GLUED, EOS], (3, 4, 9))
  lengths = rng.integers(0, 10, (3, 4))
  got = jax.jit(segment_steps, static_argnums=(2, 3))(
    tokens, lengths, (SEP, GLUED), 3
  )
  for row in np.ndindex(lengths.shape):
    step = 0
    for t in range(9):
      inside = t < lengths[row]
      assert got[(*row, t)] == (min(step, 2) if inside else -1)
      step += inside and tokens[(*row, t)] in (SEP, GLUED)


def test_no_separators_to_look_for_is_one_step():
  got = segment_steps(jnp.array([5, 7, 1]), jnp.array(3), ())
  np.testing.assert_array_equal(got, [0, 0, 0])


def test_no_room_for_a_step_is_refused():
  with pytest.raises(ValueError, match=r"steps = 0 must be at least 1"):
    segment_steps(jnp.array([5]), jnp.array(1), (SEP,), 0)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_every_score_of_a_step_is_collected_once(k):
  """This includes empty, truncated and overflowing steps."""
  tokens = [[5, 7, 7, 5, 7, 5], [7, 7, 7, 7, 0, 0], [5, 5, 1, 0, 0, 0]]
  lengths = jnp.array([[6, 4, 3]])
  completions = jnp.array([tokens])
  ids = segment_steps(completions, lengths, (SEP,), k)
  rollout = group([[6], [4], [3]], [[0]] * 3, capacity=6).replace(
    step_ids=ids,
    step_mask=step_mask(ids, k),
    step_scores=jnp.array([[[1.0, 10, 100, 1000][:k]] * 3]),
  )
  placed = value(
    chain(transforms.step_scores(), transforms.place_at_step_ends()), rollout
  )
  count = np.minimum([4, 4, 1], k)
  np.testing.assert_array_equal(placed.sum(-1)[0], (10**count - 1) // 9)
  last = np.take_along_axis(placed[0], np.array([[5], [3], [2]]), -1)[:, 0]
  np.testing.assert_array_equal(last, 10.0 ** (count - 1))


# The worked example in every layout.

PROCESS = [
  [0.056376] * 3 + [0.055562] * 2 + [-0.14292] * 3,
  [0.621821] * 2 + [0.526459] * 4 + [0] * 2,
  [-0.774615] * 2 + [-0.274616] * 2 + [-0.274617] * 4,
]
VERL = [
  [0.681376] * 3 + [0.680562] * 2 + [0.48208] * 3,
  [1.121821] * 2 + [1.026459] * 4 + [0] * 2,
  [-1.649615] * 2 + [-1.149616] * 2 + [-1.149617] * 4,
]
VERL_WHITENED = [
  [0.620764] * 3 + [0.619969] * 2 + [0.426162] * 3,
  [1.050835] * 2 + [0.957719] * 4 + [0] * 2,
  [-1.655324] * 2 + [-1.167102] * 2 + [-1.167103] * 3 + [-1.167104],
]
OPENRLHF = {
  "token": [
    [0.659747] * 2 + [0, 0.676624, 0] + [0.486989] * 2 + [0],
    [1.197845, 0] + [1.083982] * 3 + [0] * 3,
    [-1.736516, 0, -1.177387, 0, -1.118258, 0, -1.059129, 0],
  ],
  "step": [
    [0.423595] * 2 + [0, 0.516241, 0] + [0.41122] * 2 + [0],
    [1.180847, 0] + [1.056982] * 3 + [0] * 3,
    [-2.259822, 0, -1.569867, 0, -1.379911, 0, -1.189956, 0],
  ],
}
OUTCOME = [[0.5] * 8, [0.5] * 6 + [0] * 2, [-1.0] * 8]
VERL_OUTCOME = [[1 - 6 / 16] * 8, [1 - 8 / 16] * 6 + [0] * 2, [-14 / 16] * 8]
# Strict: others' mean returns are (3.6 + 4.4) / 16, (3.1 + 4.4) / 16, 6.7 / 16.
STRICT = [
  [0.2 - 0.5] * 5 + [0.7 - 0.5] * 3,
  [0.6 - 0.46875] * 6 + [0] * 2,
  [-0.5 - 0.41875] * 2 + [0.9 - 0.41875] * 6,
]


@pytest.mark.worked_example(
  "method:min_form", "method:strict_min_form", "method:pure_verl"
)
@pytest.mark.parametrize(
  ("name", "hyper", "want"),
  [
    ("min_form", {}, PROCESS),
    ("min_form", {"verifiable": 1.0}, np.add(PROCESS, OUTCOME)),
    ("strict_min_form", {}, STRICT),
    ("strict_min_form", {"verifiable": 1.0}, np.add(STRICT, OUTCOME)),
    ("pure_verl", {"verifiable": 0.0}, PROCESS),
    ("pure_verl", {}, VERL),
  ],
)
def test_the_worked_example_before_whitening(worked, name, hyper, want):
  close(advantages(name, worked, **hyper)[0], want)


@pytest.mark.worked_example("method:pure_openrlhf")
@pytest.mark.parametrize("baseline", ["token", "step"])
def test_the_worked_example_with_the_baseline_in_the_reward(worked, baseline):
  """Tokens that end a step are left out of the whitening."""
  inside = np.asarray(step_transforms.within_steps(worked))
  got = advantages("pure_openrlhf", worked, baseline=baseline)
  close(np.where(inside, got, 0)[0], OPENRLHF[baseline])


def test_the_worked_example_whitened(worked):
  """The released variance is over n - 1 = 21."""
  biased = advantages("pure_verl", worked, whitened=True, ddof=0)[0]
  close(biased, VERL_WHITENED)
  released = advantages("pure_verl", worked, whitened=True)[0]
  close(released, np.multiply(VERL_WHITENED, np.sqrt(21 / 22)))


@pytest.mark.parametrize("baseline", ["token", "step"])
def test_separators_stay_at_zero_and_out_of_the_whitening(worked, baseline):
  got = advantages("pure_openrlhf", worked, whitened=True, baseline=baseline)[0]
  before = np.array(OPENRLHF[baseline])
  inside = before != 0
  assert (got[~inside] == 0).all()
  x = before[inside]
  np.testing.assert_allclose(got[inside], (x - x.mean()) / x.std(), atol=3e-6)


def test_gamma_decay_is_the_sum_form_with_a_discount(worked):
  """Second sample: .8 and .6 are on tokens 1 and 5, with gamma = 1/2 per token.

  Differences within a sample do not depend on its baseline, which is one
  number.
  """
  got = advantages("sum_form", worked, gamma=0.5)[0, 1, :6]
  returns = np.array([0.41875, 0.8375, 0.075, 0.15, 0.3, 0.6])
  close(got - got[0], returns - returns[0])


# Limits and identities.


def random_group(rng, n=3, longest=L, equal=False):
  steps, scores = [], []
  for _ in range(n):
    count = rng.integers(1, 4)
    length = longest if equal else rng.integers(count, longest + 1)
    cuts = np.sort(rng.choice(np.arange(1, length), count - 1, replace=False))
    steps.append(np.diff([0, *cuts, length]).tolist())
    scores.append(rng.uniform(-1, 1, count).tolist())
  return group(steps, scores, rng.integers(0, 2, n).tolist(), longest)


def test_cold_returns_are_the_minimum_until_it_is_met_and_then_nothing(worked):
  close(
    returns(worked, 1e-3)[0],
    [
      [0.2] * 5 + [0] * 3,
      [0.6] * 6 + [0] * 2,
      [-0.5] * 2 + [0] * 6,
    ],
  )


def test_hot_returns_are_the_mean(worked):
  close(returns(worked, 1e6)[0, :, 0], [0.6, 0.7, 0.55])


def test_a_shift_of_all_scores_shifts_every_samples_return_by_it(worked):
  shifted = worked.replace(step_scores=worked.step_scores + 0.1)
  got = returns(shifted, 0.1) - returns(worked, 0.1)
  close(got[0, :, 0], 0.1)


@every_layout
def test_avoiding_separators_earns_the_leave_one_out_score(name, hyper):
  """With one step per sample, credit is that of the sequence in every form."""
  scores = [0.3, -0.7, 0.9]
  rollout = group([[L]] * 3, [[s] for s in scores])
  want = [0.3 - 0.1, -0.7 - 0.6, 0.9 + 0.2]
  close(advantages(name, rollout, **hyper)[0], np.transpose([want] * L))


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("min_form", {"verifiable": 1.0}),
    ("strict_min_form", {"verifiable": 1.0}),
    ("sum_form", {"verifiable": 1.0}),
    ("pure_verl", {}),
    ("clip_delta", {}),
  ],
)
def test_advantages_of_a_group_of_full_length_sum_to_nothing(name, hyper):
  rollout = random_group(np.random.default_rng(1), equal=True)
  got = advantages(name, rollout, **hyper)
  assert np.abs(got).max() > 0.05
  close(got.sum(), 0, atol=1e-5)


def test_verl_and_paper_part_only_by_where_the_outcome_enters(worked):
  """verl subtracts the others' success by their length: 6 and 8 tokens of 8."""
  outcome = advantages("pure_verl", worked) - advantages("min_form", worked)
  close(outcome[0], VERL_OUTCOME)


# Modes: verifiable only, process only, mixed.


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("min_form", {"verifiable": 1.0}),
    ("sum_form", {"verifiable": 1.0}),
    ("strict_min_form", {"verifiable": 1.0}),
    ("pure_openrlhf", {}),
    ("pure_verl", {}),
    ("clip_delta", {}),
  ],
)
def test_verifiable_only_is_rloo(name, hyper):
  """Without process scores; verl's shared baseline needs full lengths."""
  rollout = random_group(np.random.default_rng(2), equal=name == "pure_verl")
  rollout = rollout.replace(
    step_scores=jnp.zeros_like(rollout.step_scores),
    correct=jnp.array([[1, 0, 1]], jnp.int8),
    scores=jnp.array([[1.0, 0, 1]]),
  )
  want = value(
    chain(methods.get("rloo").advantage, transforms.broadcast()), rollout
  )
  close(advantages(name, rollout, **hyper), want)


@every_layout
def test_process_only_ignores_the_verdicts(worked, name, hyper):
  flipped = worked.replace(correct=1 - worked.correct)
  np.testing.assert_array_equal(
    advantages(name, flipped, **hyper), advantages(name, worked, **hyper)
  )


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("min_form", {}),
    ("strict_min_form", {}),
    ("pure_verl", {}),
    ("pure_openrlhf", {"baseline": "step"}),
  ],
)
def test_a_fraction_of_labelled_prompts(worked, name, hyper):
  """Unlabelled prompts have no outcome term; the others' does not change."""
  unknown = worked.replace(correct=-jnp.ones_like(worked.correct))
  some, every = prompts(unknown, worked), prompts(worked, worked)
  process, both, all_labelled = (
    advantages(name, rollout, verifiable=weight, **hyper)
    for rollout, weight in ((some, 0.0), (some, 1.0), (every, 1.0))
  )
  np.testing.assert_array_equal(both[0], process[0])
  np.testing.assert_array_equal(both[1], all_labelled[1])
  outcome = VERL_OUTCOME if name == "pure_verl" else OUTCOME
  close((both - process)[1], outcome)


@pytest.mark.parametrize(
  ("name", "hyper"),
  [
    ("min_form", {}),
    ("strict_min_form", {}),
    ("pure_openrlhf", {"baseline": "step"}),
  ],
)
def test_an_unknown_verdict_is_not_a_wrong_one(worked, name, hyper):
  """It is not in the baseline of the two other samples either."""
  partly = worked.replace(correct=jnp.array([[1, 0, -1]], jnp.int8))
  process, both = (
    advantages(name, partly, verifiable=weight, **hyper)
    for weight in (0.0, 1.0)
  )
  close((both - process)[0], [[1.0] * 8, [-1.0] * 6 + [0] * 2, [0.0] * 8])


def test_a_step_is_charged_for_its_tokens_but_not_for_its_separator():
  """The others have .6 on 3 tokens; steps of 3, 1 (empty) and 2 tokens."""
  rewards = jnp.array([[0, 0, 1.0, 2, 0, 3], [0, 0, 0.6, 0, 0, 0]])
  mask = jnp.array([[True] * 6, [True] * 3 + [False] * 3])
  ends = jnp.array([[0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0]], bool)
  got = step_rewards.minus_others_token_rate(rewards, mask, ends)
  close(got, [[0, 0, 1 - 0.4, 2, 0, 3 - 0.2], [0, 0, 0.6 - 2, 0, 0, 0]])


def test_an_empty_step_has_its_own_score_and_its_own_credit():
  """The second of two separators in a row is the worst step and sets G."""
  rollout = group([[2, 1, 3], [6], [6]], [[0.9, -0.8, 0.7], [0], [0]])
  got = returns(rollout, 1e-3)[0, 0]
  close(got, [-0.8, -0.8, -0.8, 0, 0, 0, 0, 0])


def test_the_last_token_of_a_truncated_sample_ends_its_last_step():
  """Without EOS and separator at the end, the reward is not lost."""
  rollout = group([[3, 5], [8], [7]], [[0.9, -0.4], [0.2], [0.3]])
  cut = rollout.replace(finished=jnp.zeros((1, 3), bool))
  want = [[-0.4] * 8, [0.2] * 8, [0.3] * 7 + [0]]
  close(returns(cut, 1e-3)[0], want)


# Clip, delta and the aggregations of step scores.

NINE_TWO_SEVEN = jnp.array([0.9, 0.2, 0.7])
EVERY = jnp.ones(3, bool)


def togo(rewards):
  return np.cumsum(np.asarray(rewards)[..., ::-1], -1)[..., ::-1]


def test_clip_and_delta_worked_by_hand_by_step():
  clipped = step_rewards.clip_rewards(NINE_TWO_SEVEN, EVERY, 0.5)
  close(clipped, [0, -0.3, 0])
  delta = step_rewards.delta_rewards(NINE_TWO_SEVEN, EVERY)
  close(delta, [0.7, 0.2, 0])
  close(togo(delta), [0.9, 0.2, 0])
  both = step_rewards.delta_rewards(clipped, EVERY)
  close(both, [0.3, -0.3, 0])
  close(togo(both), [0, -0.3, 0])


def test_the_default_threshold_is_the_mean_of_the_steps_that_exist():
  scores = jnp.array([[0.9, 0.2, 0.7], [0.6, jnp.nan, jnp.nan]])
  mask = jnp.array([[True] * 3, [True, False, False]])
  close(step_rewards.clip_rewards(scores, mask), [[0, -0.4, 0], [0, 0, 0]])


def ragged(rng, rows=40, k=6):
  scores = rng.uniform(-1, 1, (rows, k)).astype(np.float32)
  return scores, np.arange(k) < rng.integers(0, k + 1, rows)[:, None]


def test_delta_telescopes_to_a_look_one_step_ahead():
  """The return of step k is its score, and 0 at the last step."""
  rng = np.random.default_rng(3)
  scores, _ = ragged(rng)
  mask = rng.random(scores.shape) < 0.6
  rewards = step_rewards.delta_rewards(np.where(mask, scores, np.nan), mask)
  assert not np.asarray(rewards)[~mask].any()
  has_later = mask & (togo(mask) > 1)
  want = np.where(has_later, scores, 0)
  close(np.where(mask, togo(rewards), 0), want)


def test_clipped_returns_are_bounded_by_zero():
  rewards = step_rewards.clip_rewards(*ragged(np.random.default_rng(4)), 0.3)
  assert (togo(rewards) <= 0).all()
  assert (np.asarray(rewards) < 0).any()


def test_repeating_a_step_never_raises_a_clipped_total_and_delta_ignores_it():
  rng = np.random.default_rng(5)
  scores = rng.uniform(-1, 1, (20, 4)).astype(np.float32)
  for at in range(4):
    twice = np.insert(scores, at, scores[:, at], axis=1)
    once, more = (
      step_rewards.clip_rewards(s, np.ones(s.shape, bool), 0.2).sum(-1)
      for s in (scores, twice)
    )
    assert (more <= once + 1e-6).all()
    delta = step_rewards.delta_rewards(twice, np.ones(twice.shape, bool))
    close(delta.sum(-1), scores[:, 0])


def test_one_step_alone_is_left_to_the_success_reward():
  one = jnp.array([True, False, False])
  assert not step_rewards.delta_rewards(NINE_TWO_SEVEN, one).any()


@pytest.mark.worked_example("method:clip_delta")
@pytest.mark.parametrize(
  ("form", "dense"),
  [
    # Returns -.3 -.3 0, then .9 .2 0 and .8 0, then 0 -.3 0; the other sample's
    # are subtracted as their sum over L = 4.
    ("clip", [[-0.3, -0.3, 0, 0], [0.15, 0.15, 0, 0]]),
    ("delta", [[0.9 - 0.2, 0.2 - 0.2, -0.2, 0], [0.8 - 0.275, -0.275, 0, 0]]),
    ("clip_delta", [[0, -0.3, 0, 0], [0.075, 0.075, 0, 0]]),
  ],
)
def test_clip_delta_worked_by_hand(form, dense):
  """Steps of one token, scores .9 .2 .7 and .8 .6; eta = .5, L = 4."""
  rollout = group([[1, 1, 1], [1, 1]], [[0.9, 0.2, 0.7], [0.8, 0.6]], [1, 0], 4)
  got = advantages("clip_delta", rollout, form=form, threshold=0.5, alpha=0.1)
  success = np.array([[1.0] * 3 + [0], [-1.0] * 2 + [0] * 2])
  close(got[0], success + 0.1 * np.array(dense))


REDUCTIONS = {
  "avg": step_transforms.mean_steps,
  "prod": step_transforms.product_steps,
  "max": step_transforms.max_steps,
  "min": transforms.min_steps,
}


def reduced(name, steps, **changes):
  steps = [*steps, *[[]] * (6 - len(steps))]
  rollout = group([[1] * len(s) for s in steps], steps).replace(**changes)
  return value(chain(transforms.step_scores(), REDUCTIONS[name]()), rollout)[0]


@pytest.mark.parametrize(
  ("name", "want"), [("avg", 0.6), ("prod", 0.126), ("max", 0.9), ("min", 0.2)]
)
def test_aggregations_worked_by_hand(name, want):
  """Worked by hand in any order; one step is its score, no step is 0."""
  orders = list(itertools.permutations([0.9, 0.2, 0.7]))
  close(reduced(name, orders), want)
  close(reduced(name, [[0.3]]), [0.3, 0, 0, 0, 0, 0])
  nobody = jnp.zeros((1, 6), bool)
  close(reduced(name, orders, sample_mask=nobody), 0)


def test_no_product_of_probabilities_exceeds_their_minimum():
  """The length bias of the product: a further step never raises it."""
  rng = np.random.default_rng(6)
  steps = [rng.random(n).tolist() for n in (1, 2, 2, 3, 3, 4)]
  assert (reduced("prod", steps) <= reduced("min", steps) + 1e-7).all()


def test_two_wrong_steps_do_not_make_a_right():
  close(reduced("prod", [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0]])[:3], [0, 0, 1])


@pytest.mark.parametrize(
  ("name", "hyper", "message"),
  [
    ("pure_openrlhf", {"baseline": "tokens"}, "'tokens'; did you mean 'token'"),
    ("clip_delta", {"form": "clipped"}, "'clipped'; did you mean 'clip'"),
  ],
)
def test_an_unknown_form_names_the_nearest(name, hyper, message):
  with pytest.raises(ValueError, match=message):
    methods.get(name, **hyper)


def test_an_unknown_verdict_is_in_no_baseline():
  """Two right samples and one unknown: all advantages are 0."""
  steps, scores = ((2,), (2,), (2,)), ((0.0,), (0.0,), (0.0,))
  rollout = group(steps, scores, (1, -1, 1), capacity=2, k=1)
  for name in ("pure_verl", "min_form"):
    actual = advantages(name, rollout, verifiable=1.0)
    close(actual, np.zeros_like(actual))
