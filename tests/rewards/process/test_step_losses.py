"""Losses of process reward models and transforms of data, by hand."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.process import step_data, step_losses
from rewards.process.step_losses import base, preference, q_ranking
from rl import types


def data_of(lines, labels, correct=None, problems=None, max_steps=4):
  """Makes lines.

  Args:
    lines: for each line its steps, each a word with one token per letter.
    labels: for each line the labels of its steps; None is no label.
    correct: verdicts; None: 1.
    problems: problems of the lines; None: all are of problem 0.
    max_steps: K.
  """
  n, size = len(lines), max(len("".join(steps)) for steps in lines) + 1
  completions = np.zeros((n, 1, size), np.int32)
  step_ids = np.full((n, 1, size), -1, np.int32)
  values = np.zeros((n, 1, max_steps), np.float32)
  weights = np.zeros_like(values)
  for i, (steps, line_labels) in enumerate(zip(lines, labels, strict=True)):
    text = "".join(steps)
    completions[i, 0, : len(text)] = list(map(ord, text))
    numbers = np.repeat(np.arange(len(steps)), list(map(len, steps)))
    step_ids[i, 0, : len(text)] = numbers
    for k, label in enumerate(line_labels):
      if label is not None:
        values[i, 0, k], weights[i, 0, k] = label, 1
  return step_data.StepData(
    tokens=types.Tokens(
      prompts=np.zeros((n, 2), np.int32),
      prompt_mask=np.ones((n, 2), bool),
      completions=completions,
      lengths=(step_ids >= 0).sum(-1),
      mask=step_ids >= 0,
    ),
    step_ids=step_ids,
    values=values,
    weights=weights,
    potentials=np.zeros_like(values),
    potential_weights=np.zeros_like(values),
    correct=np.array(correct or [1] * n, np.int8)[:, None],
    problems=np.array(problems or [0] * n, np.int32),
  )


def outputs_of(data, steps=None, tokens=None, **others):
  """Returns outputs; those that are not given are NaN."""
  shape = data.values.shape
  if steps is None:
    steps = np.full((*shape, 2), np.nan)
  if tokens is None:
    tokens = np.full((*data.step_ids.shape, 2), np.nan)
  return base.Outputs(jnp.asarray(steps), jnp.asarray(tokens), **others)


def steps_of(rows, size=4, garbage=7.0):
  """Returns outputs `[E, 1, K, 1]` of the steps, padded with garbage."""
  result = np.full((len(rows), 1, size, 1), garbage)
  for i, row in enumerate(rows):
    result[i, 0, : len(row), 0] = row
  return result


def test_names_and_mistakes():
  assert "q_ranking" in step_losses.names()
  with pytest.raises(ValueError, match="did you mean 'two_class'"):
    step_losses.get("two_clas")
  with pytest.raises(ValueError, match="margin"):
    step_losses.get("q_ranking", margn=1.0)
  for name in step_losses.names():
    assert step_losses.summary(name).endswith(".")
    assert step_losses.get(name).name.startswith(name)


def test_cross_entropies_are_means_over_labelled_steps():
  data = data_of([["a", "b", "c"], ["d"]], [[1, None, 0.25], [0]])
  logits = steps_of([[0.5, 9.0, -1.0], [2.0]])
  softplus = lambda x: math.log1p(math.exp(x))  # noqa: E731
  expected = (softplus(-0.5) + softplus(-1.0) + 0.25 * 1.0 + softplus(2.0)) / 3
  bce, two_class = step_losses.get("bce"), step_losses.get("two_class")
  value = bce.loss(outputs_of(data, logits), data)
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  # Two classes with the same difference of logits.
  both = np.concatenate([np.full_like(logits, 3.0), 3.0 + logits], -1)
  np.testing.assert_allclose(
    two_class.loss(outputs_of(data, both), data), expected, rtol=1e-5
  )
  score = 2 / (1 + math.exp(-0.5)) - 1
  for loss, outputs in ((bce, logits), (two_class, both)):
    scores = loss.score(outputs_of(data, outputs), data)
    np.testing.assert_allclose(scores[0, 0, 0], score, rtol=1e-5)


@pytest.mark.parametrize(
  ("q", "labels", "expected"),
  [
    ([0.5, 1, -1], [1, 1, 0], 2.63643),
    ([0.5, 1], [1, 1], 0.57717),
    ([-1], [0], 3.04859),
    ([0.5, 5, 1, -1], [1, None, 1, 0], 2.63643),
  ],
)
def test_q_ranking(q, labels, expected):
  data = data_of([["a"] * len(q)], [labels])
  loss = step_losses.get("q_ranking")
  outputs = outputs_of(data, steps_of([q]))
  np.testing.assert_allclose(loss.loss(outputs, data), expected, atol=1e-5)


def test_q_ranking_is_a_mean_over_samples_and_pushes_bad_steps_down():
  data = data_of([["a"] * 3, ["a"], ["a"]], [[1, 1, 0], [0], [None]])
  q = steps_of([[0.5, 1, -1], [-1], [3]])
  loss = step_losses.get("q_ranking")
  value, slope = jax.value_and_grad(
    lambda q: loss.loss(outputs_of(data, q), data)
  )(jnp.asarray(q))
  np.testing.assert_allclose(value, (2.63643 + 3.04859) / 2, atol=1e-5)
  assert slope[0, 0, 2, 0] > 0 < slope[1, 0, 0, 0]
  assert np.isfinite(slope).all()
  assert not slope[2].any()
  assert not slope[0, 0, 3:].any()
  # Without a margin, with one good step: log(1 + e^-Q).
  alone = q_ranking.ranking_loss(
    jnp.array([0.5]), jnp.array([True]), jnp.array([False]), 0.0
  )
  np.testing.assert_allclose(alone, math.log1p(math.exp(-0.5)), rtol=1e-6)


def test_outcome_value_sums_over_tokens_and_scores_the_end_of_a_step():
  data = data_of(
    [["ab", "c"], ["d"], ["e"]], [[None] * 2, [None], [None]], [1, 0, -1]
  )
  values = np.full((*data.step_ids.shape, 1), 9.0)
  values[0, 0, :3, 0], values[1, 0, 0, 0] = [0.5, 0.75, 0.25], 0.5
  loss = step_losses.get("outcome_value")
  outputs = outputs_of(data, tokens=values)
  expected = (0.25 + 0.0625 + 0.5625 + 0.25) / 2
  np.testing.assert_allclose(loss.loss(outputs, data), expected, rtol=1e-6)
  scores = loss.score(outputs, data)
  np.testing.assert_allclose(scores[0, 0, :2], [0.5, -0.5], rtol=1e-6)


def test_token_value_has_the_rates_of_prefixes_as_targets():
  """One of abc and abd is right; each other token occurs in one sample."""
  data = data_of(
    [["abc"], ["abd"], ["abd"]], [[None]] * 3, [1, 0, 0], problems=[0, 0, 1]
  )
  loss = step_losses.get("token_value")
  ready = loss.prepare(data)
  np.testing.assert_allclose(
    ready.token_values[:, 0, :3], [[0.5, 0.5, 1], [0.5, 0.5, 0], [0, 0, 0]]
  )
  values = np.full((*data.step_ids.shape, 1), 0.5)
  actual = loss.loss(outputs_of(data, tokens=values), ready)
  np.testing.assert_allclose(actual, (0.25 + 0.25 + 0.75) / 3, rtol=1e-6)


def test_a_soft_label_of_one_half_is_good_for_the_ranking():
  """Labels of .5 and .75 are good, and .25 is bad, as 1, 1 and 0 are."""
  loss = step_losses.get("q_ranking")
  logits = steps_of([[0.5, 1.0, -1.0]])
  values = []
  for labels in ([0.5, 0.75, 0.25], [1, 1, 0]):
    data = data_of([["a", "b", "c"]], [labels])
    values.append(loss.loss(outputs_of(data, logits), data))
  np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_certain_errors_cost_a_finite_loss():
  """Both probabilities are 1, and the label is 0: -log(1e-6), in float32."""
  data = data_of([["a"]], [[0]])
  loss = step_losses.get("bidirectional")
  certain = steps_of([[100.0]])
  outputs = outputs_of(data, certain)._replace(
    reversed_steps=outputs_of(data, certain).steps
  )
  value = loss.loss(outputs, data)
  np.testing.assert_allclose(value, -math.log(1e-6), rtol=0.05)


def test_a_sample_without_a_verdict_has_no_token_values():
  """Values of .9 lose (.9 - 1)^2 for each of two tokens of the right sample."""
  data = data_of([["ab"], ["cd"]], [[None]] * 2, [1, -1], problems=[0, 1])
  loss = step_losses.get("token_value")
  values = np.full((*data.step_ids.shape, 1), 0.9)
  actual = loss.loss(outputs_of(data, tokens=values), loss.prepare(data))
  np.testing.assert_allclose(actual, 0.02, rtol=1e-5)


def test_dual_head_has_two_kinds_of_labels():
  data = data_of([["a", "b"]], [[1, None]])
  data.potentials[0, 0, :2], data.potential_weights[0, 0, :2] = [0.25, 1], 1
  logits = np.zeros((1, 1, 4, 2))
  logits[0, 0, :2] = [[1.0, -1.0], [5.0, 2.0]]
  softplus = lambda x: math.log1p(math.exp(x))  # noqa: E731
  expected = softplus(-1.0) + (softplus(-1.0) + 0.25 + softplus(-2.0)) / 2
  loss = step_losses.get("dual_head")
  outputs = outputs_of(data, logits)
  np.testing.assert_allclose(loss.loss(outputs, data), expected, rtol=1e-6)
  sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
  product = sigmoid(1.0) * sigmoid(-1.0)
  np.testing.assert_allclose(
    loss.score(outputs, data)[0, 0, 0], 2 * product - 1, rtol=1e-6
  )


def test_bidirectional_averages_probabilities():
  data = data_of([["a", "b"]], [[1, 0]])
  logit = lambda p: math.log(p / (1 - p))  # noqa: E731
  forward = steps_of([[logit(0.9), logit(0.5)]])
  backward = steps_of([[logit(0.7), logit(0.1)]])
  loss = step_losses.get("bidirectional")
  assert loss.reads_reversed
  outputs = outputs_of(data, forward, reversed_steps=jnp.asarray(backward))
  expected = -(math.log(0.8) + math.log(0.7)) / 2
  np.testing.assert_allclose(loss.loss(outputs, data), expected, rtol=1e-5)
  np.testing.assert_allclose(
    loss.score(outputs, data)[0, 0, :2], [0.6, -0.4], rtol=1e-5
  )


def test_merged_steps_have_the_label_of_the_second():
  data = data_of([["ab", "c", "de"], ["f"]], [[0, 1, None], [1]])
  merged = step_data.merge_steps(data)
  # Of the pairs (ab, c) and (c, de), the second one has no label.
  assert len(merged.problems) == 1
  assert merged.step_ids[0, 0].tolist() == [0, 0, 0, 1, 1, -1]
  assert merged.values[0, 0].tolist() == [1, 0, 0, 0]
  assert merged.weights[0, 0].tolist() == [1, 0, 0, 0]
  np.testing.assert_array_equal(
    merged.tokens.completions, data.tokens.completions[:1]
  )
  ready = step_losses.get("hierarchical").prepare(data)
  assert len(ready.problems) == 3
  # The last two of K steps are merged, too.
  full = data_of([["a", "b", "c", "d"]], [[None, None, None, 0.5]])
  merged = step_data.merge_steps(full)
  assert merged.values[0, 0].tolist() == [0, 0, 0.5, 0]
  assert merged.step_ids[0, 0].tolist() == [0, 1, 2, 2, -1]
  alone = data_of([["f"]], [[1]])
  assert len(step_data.merge_steps(alone).problems) == 0


@pytest.mark.parametrize("xp", [np, jnp])
def test_reversed_steps(xp):
  data = data_of([["ab", "c", "de"], ["f"]], [[None] * 3, [None]])
  tokens = jax.tree.map(xp.asarray, data.tokens)
  ids = xp.asarray(data.step_ids)
  backward = step_data.reverse_steps(tokens, ids)
  back_ids = step_data.reverse_ids(ids)
  text = "".join(chr(c) for c in np.asarray(backward.completions)[0, 0] if c)
  assert text == "decab"
  assert back_ids[0, 0].tolist() == [0, 0, 1, 2, 2, -1]
  assert back_ids[1, 0].tolist() == [0, -1, -1, -1, -1, -1]
  again = step_data.reverse_steps(backward, back_ids)
  np.testing.assert_array_equal(again.completions, tokens.completions)
  np.testing.assert_array_equal(step_data.reverse_ids(back_ids), ids)


@pytest.mark.parametrize(
  ("kind", "expected"),
  [
    ("ce", (0.64440 + 0.74440) / 2),  # a sum of log-ratios of 2, beta 0.05
    ("dpo", math.log(2)),
    ("nca", 0.64440 + (0.74440 + 0.74440) / 2),
  ],
)
def test_implicit_losses(kind, expected):
  data = data_of([["ab", "c"], ["de"]], [[None] * 2, [None]], [1, 0])
  loss = step_losses.get("implicit", kind=kind)
  assert loss.reads_reference
  examples = step_data.take(data, loss.examples(data))
  ratios = np.full(examples.step_ids.shape, 50.0)  # on padding
  flat = ratios.reshape(2, -1)
  flat[0, :3], flat[1, :2] = [0.5, 0.25, 1.25], [1.5, 0.5]
  outputs = outputs_of(examples, log_ratios=jnp.asarray(ratios))
  np.testing.assert_allclose(loss.loss(outputs, examples), expected, atol=1e-5)
  scores = loss.score(outputs, examples).reshape(2, -1)
  np.testing.assert_allclose(scores[0, :2], [0.0375, 0.0625], rtol=1e-6)
  assert not scores[0, 2:].any()


def test_implicit_cross_entropy_needs_a_verdict():
  data = data_of([["a"], ["b"]], [[None], [None]], [1, -1])
  loss = step_losses.get("implicit")
  ratios = jnp.full(data.step_ids.shape, 20.0)  # r = .05 * 20 = 1
  value = loss.loss(outputs_of(data, log_ratios=ratios), data)
  np.testing.assert_allclose(value, math.log1p(math.exp(-1)), rtol=1e-6)


def test_the_sign_of_the_implicit_pairs():
  data = data_of([["a"], ["b"]], [[None], [None]], [0, 1])
  for kind in ("dpo", "nca", "kto"):
    loss = step_losses.get("implicit", kind=kind)
    (pair,) = loss.examples(data)
    assert pair.tolist() == [1, 0]  # the right sample first
    examples = step_data.take(data, np.array([pair]))

    def value(ratios, loss=loss, examples=examples):
      return loss.loss(outputs_of(examples, log_ratios=ratios), examples)

    slope = jax.grad(value)(jnp.zeros(examples.step_ids.shape))
    assert slope[0, 0, 0] < 0 < slope[0, 1, 0]
  with pytest.raises(ValueError, match="must be one of ce, dpo, nca, kto"):
    step_losses.get("implicit", kind="sft")


@pytest.mark.parametrize(
  ("right", "wrong", "expected"),
  [
    # z_+ = 2 and z_- = 1: 1 - sigmoid(1) for both.
    (40.0, 20.0, 0.268941),
    # z_- = 0: 1 - (sigmoid(2) + sigmoid(3)) / 2.
    (40.0, -20.0, 0.083314),
  ],
)
def test_kto_compares_with_the_mean_of_the_other_samples(
  right, wrong, expected
):
  data = data_of([["a"], ["b"]], [[None], [None]], [1, 0])
  loss = step_losses.get("implicit", kind="kto")
  examples = step_data.take(data, loss.examples(data))
  ratios = jnp.zeros(examples.step_ids.shape)
  ratios = ratios.at[0, 0, 0].set(right).at[0, 1, 0].set(wrong)
  value = loss.loss(outputs_of(examples, log_ratios=ratios), examples)
  np.testing.assert_allclose(value, expected, atol=1e-5)


@pytest.mark.parametrize(
  ("name", "missing"),
  [
    ("bce", "labels"),
    ("dual_head", "potentials"),
    ("attribution", "verdicts"),
    ("outcome_value", "verdicts"),
    ("token_value", "verdicts"),
    ("implicit", "verdicts"),
  ],
)
def test_lines_without_targets_are_refused(name, missing):
  loss = step_losses.get(name)
  data = data_of([["a"]], [[1]])
  zeros = np.zeros_like(data.weights)
  data = data.replace(potential_weights=zeros + 1)
  loss.check_targets(data)
  loss.check_targets(data.replace(correct=np.zeros_like(data.correct)))
  without = {
    "labels": data.replace(weights=zeros),
    "potentials": data.replace(potential_weights=zeros),
    "verdicts": data.replace(correct=np.full_like(data.correct, -1)),
  }
  for kind, lines in without.items():
    if kind in loss.targets:
      assert kind == missing or name == "dual_head"
      with pytest.raises(ValueError, match=f"learns from {kind}, and no line"):
        loss.check_targets(lines)
    else:
      loss.check_targets(lines)


def test_attribution_adds_up_to_the_verdict():
  data = data_of([["a", "b"], ["c"], ["d"]], [[None] * 2, [None], [None]])
  data.correct[1], data.correct[2] = 0, -1
  loss = step_losses.get("attribution")
  outputs = outputs_of(data, steps_of([[0.5, 0.25], [0.5], [4.0]]))
  expected = ((0.75 - 1) ** 2 + 0.5**2) / 2
  np.testing.assert_allclose(loss.loss(outputs, data), expected, rtol=1e-6)
  scores = loss.score(outputs, data)
  np.testing.assert_allclose(scores[0, 0], [0.5, 0.25, 0, 0])


def test_preference_of_siblings():
  """Lines part at their second step; the third exists in both."""
  lines = [["a", "b", "c"], ["a", "x", "y", "z"], ["a", "x", "w"], ["q", "b"]]
  labels = [[None, 0.875, 1], [None, 0.5, None], [None, 0.6, 0], [0.9, 0]]
  data = data_of(lines, labels)
  loss = step_losses.get("preference")
  assert loss.examples(data).tolist() == [[0, 1]]  # a gap of exactly 0.375
  assert preference.sibling_pairs(data, 0.2).tolist() == [[0, 1], [0, 2]]
  other = data.replace(problems=np.array([0, 1, 0, 0], np.int32))
  assert loss.examples(other).tolist() == []
  examples = step_data.take(data, np.array([[0, 1]]))
  s = np.zeros((1, 2, 4, 1))
  s[0, 0, :, 0], s[0, 1, :, 0] = [5, 1, 2, 9], [0, 0.5, 3, 9]
  value = loss.loss(outputs_of(examples, s), examples)
  expected = math.log1p(math.exp(-0.5)) + math.log1p(math.exp(1))
  np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_equal_steps_after_the_first_difference_count():
  """Both steps of the samples count, although their second steps are equal."""
  data = data_of([["a", "c"], ["b", "c"]], [[1, 1], [0, 0]])
  loss = step_losses.get("preference")
  examples = step_data.take(data, np.array([[0, 1]]))
  s = np.zeros((1, 2, 4, 1))
  s[0, 0, :2, 0], s[0, 1, :2, 0] = [1, 2], [0.5, 3]
  value = loss.loss(outputs_of(examples, s), examples)
  expected = math.log1p(math.exp(-0.5)) + math.log1p(math.exp(1))
  np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_bradley_terry_compares_last_steps():
  """The better sample ends at its second step, the worse one at its third."""
  lines = [["a", "b"], ["a", "x", "y"], ["c"], ["d"], ["e"]]
  labels = [[0, 1], [None, 1, 0], [None], [0.5], [1]]
  data = data_of(lines, labels)
  loss = step_losses.get("bradley_terry")
  pairs = [[0, 1], [0, 3], [3, 1], [4, 1], [4, 3]]
  assert sorted(loss.examples(data).tolist()) == sorted(pairs)
  other = data.replace(problems=np.array([0, 1, 0, 0, 1], np.int32))
  assert loss.examples(other).tolist() == [[0, 3], [4, 1]]
  examples = step_data.take(data, np.array([[0, 1]]))
  s = np.zeros((1, 2, 3, 1))
  s[0, 0, :, 0], s[0, 1, :, 0] = [9, 0.5, 7], [8, 6, 2]
  value = loss.loss(outputs_of(examples, s), examples)
  np.testing.assert_allclose(value, math.log1p(math.exp(1.5)), rtol=1e-6)
  score = loss.score(outputs_of(examples, s), examples)
  reward = (score[0, 0, 1] + 1) / 2
  np.testing.assert_allclose(reward, 1 / (1 + math.exp(-0.5)), rtol=1e-6)


# Name -> outputs of the head, whether a score is a probability, and targets.
FORMS = {
  "attribution": (1, False, ("verdicts",)),
  "bce": (1, True, ("labels",)),
  "bidirectional": (1, True, ("labels",)),
  "bradley_terry": (1, False, ("labels",)),
  "dual_head": (2, True, ("labels", "potentials")),
  "hierarchical": (2, True, ("labels",)),
  "implicit": (1, False, ("verdicts",)),
  "outcome_value": (1, True, ("verdicts",)),
  "preference": (1, False, ("labels",)),
  "q_ranking": (1, False, ("labels",)),
  "token_value": (1, True, ("verdicts",)),
  "two_class": (2, True, ("labels",)),
}


def test_what_the_losses_read_and_give():
  forms = {}
  for name in step_losses.names():
    loss = step_losses.get(name)
    assert loss.name.partition("(")[0] == name
    assert loss.reads_reversed == (name == "bidirectional")
    assert loss.reads_reference == (name == "implicit")
    forms[name] = loss.outputs, loss.is_probability, loss.targets
  assert forms == FORMS


def test_examples_take_their_lines():
  data = data_of([["a"], ["bc"], ["d"]], [[1], [0], [0.5]], [1, 0, 1])
  examples = step_data.take(data, np.array([[2, 1], [0, 1]]))
  assert examples.tokens.completions.shape == (2, 2, 3)
  assert examples.correct.tolist() == [[1, 0], [1, 0]]
  assert examples.tokens.lengths.tolist() == [[1, 2], [1, 2]]
  assert examples.values[:, :, 0].tolist() == [[0.5, 0], [1, 0]]
  assert examples.step_mask[0].sum(-1).tolist() == [1, 1]
  pairs = list(itertools.product([0, 2], [1]))
  assert base.right_and_wrong(data).tolist() == [list(p) for p in pairs]


@pytest.mark.parametrize(
  "name", [n for n in step_losses.names() if step_losses.get(n).count]
)
def test_the_losses_of_slices_add_up_with_their_counts(name):
  """Slices of unlike size; one line has no label, another no verdict."""
  data = data_of(
    [["a", "b", "cc"], ["d"], ["e", "f"], ["gg", "h"]],
    [[1, None, 0.25], [0], [None, None], [1, 0]],
    correct=[1, 0, 1, -1],
  )
  rng = np.random.default_rng(0)
  shape = data.values.shape
  outputs = base.Outputs(
    jnp.asarray(rng.normal(size=(*shape, 2)), jnp.float32),
    jnp.asarray(rng.normal(size=(*data.step_ids.shape, 2)), jnp.float32),
    jnp.asarray(rng.normal(size=(*shape, 2)), jnp.float32),
    jnp.asarray(rng.normal(size=data.step_ids.shape), jnp.float32),
  )
  loss = step_losses.get(name)
  total, count = 0.0, 0.0
  for rows in ([0], [1, 2], [3]):
    part = step_data.take(data, np.array(rows)[:, None])
    values = jax.tree.map(lambda x, rows=rows: x[np.array(rows)], outputs)
    total += loss.count(part) * loss.loss(values, part)
    count += loss.count(part)
  assert count == loss.count(data) in (2, 3, 5)
  np.testing.assert_allclose(total / count, loss.loss(outputs, data), rtol=1e-5)
