"""Label sources by hand, on forests of words."""

import importlib
import inspect
import itertools
import math

import numpy as np
import pytest
from helpers.tabular_forest import RatedForest, WordForest

from rewards.process import label_sources
from rewards.process.label_sources import (
  base,
  compressed_tree,
  consensus,
  divide_and_conquer,
  entropy_regularized,
  prefix_counts,
  tool_tree,
  uncertainty,
)


def is_right(word):
  """A word is right if it ends with r."""
  return word.endswith("r")


def labels_by_word(forest, labels):
  """Returns `{word: [label or None of each step]}`."""
  result = {}
  for row, values, weights in zip(*labels, strict=True):
    word = forest.word(row)
    assert word not in result
    assert not weights[len(word) :].any()
    result[word] = [
      round(float(value), 4) if weight else None
      for value, weight in zip(values, weights, strict=True)
    ][: len(word)]
  return result


def run(forest, name, **settings):
  return labels_by_word(forest, label_sources.get(name, **settings)(forest))


# Settings of papers, or of their released code, by label source.
DEFAULTS = {
  "best_first": {"children": 4, "continuations": 8, "expansions": 4},
  "binary_search": {"continuations": 8, "least": 1},
  "checker": {"noise": 0.0, "until_error": True},
  "compressed_tree": {
    "children": 4,
    "levels": 3,
    "probability": 0.5,
    "least": 4,
    "seed": 0,
  },
  "consensus": {"first": "monte_carlo", "second": "judge", "least": 1},
  "divide_and_conquer": {
    "continuations": 8,
    "searches": 4,
    "alpha": 0.5,
    "beta": 0.9,
    "scale": 500,
    "weight": 0.125,
  },
  "entropy_regularized": {"eta": 2.0, "continuations": 8},
  "judge": {},
  "mixture": {
    "sources": ("monte_carlo", "judge", "checker"),
    "weights": (1.0, 1.0, 1.0),
    "soft": True,
  },
  "monte_carlo": {"continuations": 8, "least": 1, "soft": False},
  "mutation": {"mutations": 2, "refactorings": 2, "seed": 0},
  "prefix_counts": {},
  "relative_progress": {"threshold": 0.8, "continuations": 8},
  "self_denoised": {
    "window": 2,
    "confidence": 0.75,
    "continuations": 8,
    "balance": True,
  },
  "stepwise_outcome": {"continuations": 8, "balance": True},
  "tool_tree": {"simulations": 16, "exploration": 1.414, "decay": 0.9},
  "uncertainty": {"order": "entropy", "continuations": 16},
}


def test_settings_of_the_papers():
  assert set(DEFAULTS) == set(label_sources.names())
  for name, settings in DEFAULTS.items():
    module = importlib.import_module(f"{label_sources.__name__}.{name}")
    parameters = inspect.signature(getattr(module, name)).parameters
    assert {k: p.default for k, p in parameters.items()} == settings, name


def test_names_and_mistakes():
  assert "monte_carlo" in label_sources.names()
  with pytest.raises(ValueError, match="did you mean 'monte_carlo'"):
    label_sources.get("monte_calro")
  with pytest.raises(ValueError, match="least"):
    label_sources.get("monte_carlo", leest=1)
  for name in label_sources.names():
    assert label_sources.summary(name).endswith(".")
  with pytest.raises(ValueError, match="need a judge"):
    run(WordForest(["r"], is_right), "judge")


def test_monte_carlo_counts_right_continuations():
  """After a, 1 of 4 is right; after ab, 2 of 4; the verdict is the last."""
  script = {"a": ["ar", "ax", "ax", "ax"], "ab": ["abr", "abr", "abx", "abx"]}

  def forest():
    return WordForest(["abx"], is_right, script)

  soft = run(forest(), "monte_carlo", continuations=4, soft=True)
  assert soft == {"abx": [0.25, 0.5, 0.0]}
  hard = run(forest(), "monte_carlo", continuations=4)
  assert hard == {"abx": [1, 1, 0]}
  assert run(forest(), "monte_carlo", continuations=4, least=2) == {
    "abx": [0, None, None]
  }
  one = forest()
  run(one, "monte_carlo", continuations=4)
  assert one.looks == [("a", 4), ("ab", 4)]
  # Each continuation of a has one new token; so has each of ab.
  assert one.tokens == 8
  for name in ("monte_carlo", "binary_search"):
    with pytest.raises(ValueError, match=r"least = 5.*valid value is 4"):
      label_sources.get(name, continuations=4, least=5)


def test_samples_without_steps_or_verdicts_have_no_labels():
  forest = WordForest(["ar", "br", "cr"], is_right, {"a": ["ar"]})
  forest.samples.correct[1] = -1
  forest.samples.num_steps[2] = 0
  assert run(forest, "monte_carlo", continuations=1) == {"ar": [1, 1]}


@pytest.mark.parametrize(
  ("eta", "label"), [(1.0, 0.35737), (5.0, 0.72674), (-1.0, 0.17201), (0, 0.25)]
)
def test_entropy_regularized_labels(eta, label):
  forest = RatedForest(["ar", "ax"], is_right, {"a": 0.25})
  source = label_sources.get("entropy_regularized", eta=float(eta))
  values = source(forest).values
  np.testing.assert_allclose(values[:, :2], [[label, 1], [label, 0]], atol=1e-5)


def test_entropy_regularized_limits():
  rates = np.array([0.0, 0.3, 1.0])
  log_mean_exp = entropy_regularized.log_mean_exp
  np.testing.assert_allclose(log_mean_exp(rates, 80.0), [0, 1, 1], atol=0.02)
  np.testing.assert_allclose(log_mean_exp(rates, -80.0), [0, 0, 1], atol=0.02)
  with pytest.raises(ValueError, match="nearest valid value is -80"):
    label_sources.get("entropy_regularized", eta=-81.0)


def test_relative_progress():
  """Rates of .5 (prompt), .5, .45, .3, 0, .2: ratios of 1, .9, .67, 0, ..."""
  rates = {"a": 0.5, "ab": 0.45, "abc": 0.3, "abcd": 0.0, "abcde": 0.2}
  words = ["abcdex", "r"]  # half of the samples of the problem are right
  forest = RatedForest(words, is_right, rates)
  assert run(forest, "relative_progress") == {
    "abcdex": [1, 1, 0, 0, 0, 0],
    "r": [1],
  }
  # With a threshold of 0, only the first zero ends the labels of 1.
  assert run(forest, "relative_progress", threshold=0.0)["abcdex"] == [
    *(1, 1, 1, 0, 0, 0)
  ]
  hopeless = RatedForest(["ax"], is_right, {"a": 0.5})
  assert run(hopeless, "relative_progress") == {}


def test_binary_search_finds_what_a_scan_finds():
  """For every length n and every first error, in 1 + ceil(log2 n) looks."""
  for n, error in itertools.product(range(1, 7), range(7)):
    if error > n:
      continue
    # A word of n letters; the states after the error have no hope.
    word = "abcdef"[: n - 1] + ("r" if error == n else "x")
    rates = {word[: k + 1]: float(k < error) for k in range(n - 1)}
    forest = RatedForest([word], is_right, rates)
    labels = run(forest, "binary_search")[word]
    expected = [1] * error + [0] + [None] * (n - error - 1)
    assert labels == (expected if error < n else [1] * n)
    assert len(forest.looks) <= 1 + math.ceil(math.log2(n))
    assert forest.looks[0][0] == word  # the verdict, which costs nothing


def test_binary_search_counts_right_continuations():
  forest = RatedForest(["abx"], is_right, {"a": 0.5, "ab": 0.25})
  assert run(forest, "binary_search", continuations=4)["abx"] == [1, 1, 0]
  assert run(forest, "binary_search", continuations=4, least=2)["abx"] == [
    *(1, 0, None)
  ]


def test_self_denoised_labels():
  """The confidence is .8; the last two steps before the error have p / .8."""
  words = ["abcdx", "r", "sr", "tr", "ur"]
  rates = {"a": 0.1, "ab": 0.5, "abc": 0.9, "abcd": 0.0}
  rates |= dict.fromkeys("stu", 0.0)  # never looked at
  forest = RatedForest(words, is_right, rates)
  labels = run(forest, "self_denoised", balance=False)
  assert labels["abcdx"] == [1, 0.625, 1, 0, None]
  assert labels["sr"] == [1, 1]
  assert all(prefix[0] == "a" for prefix, _ in forest.looks)
  assert run(forest, "self_denoised", balance=False, window=0)["abcdx"] == [
    1,
    1,
    1,
    0,
    None,
  ]
  assert (
    run(forest, "self_denoised", balance=False, window=3)["abcdx"][0] == 0.125
  )
  assert run(forest, "self_denoised", balance=False, confidence=0.81) == {}
  # The last step of a wrong sample is wrong, so that an error always exists.
  hopeful = RatedForest(["ax", "r", "sr", "tr"], is_right, {"a": 0.5})
  # Of the three right samples, one is kept.
  balanced = run(hopeful, "self_denoised")
  assert balanced.pop("ax") == [round(0.5 / 0.75, 4), 0]
  assert list(balanced.values()) in ([[1]], [[1, 1]])


def test_step_entropies():
  """Equal log-probs give log n; the scale of 5 is inside of the softmax."""
  log_probs = np.array([[-1.0, -1, -1, -5, -10]])
  ids = np.array([[0, 0, 0, 1, 1]])
  q = 1 / (1 + math.exp(-1))  # softmax of -1 and -2
  second = -q * math.log(q) - (1 - q) * math.log(1 - q)
  actual = uncertainty.step_uncertainties(log_probs, ids, 3)
  np.testing.assert_allclose(actual, [[math.log(3), second, 0]], rtol=1e-6)
  # exp(-2000) underflows; the ratios of the weights do not.
  shifted = uncertainty.step_uncertainties(log_probs - 10000, ids, 3)
  np.testing.assert_allclose(shifted, actual, rtol=1e-6)
  sums = uncertainty.step_uncertainties(log_probs, ids, 3, "log_sum")
  second = -math.log(q) - math.log(1 - q)
  np.testing.assert_allclose(sums, [[3 * math.log(3), second, 0]], rtol=1e-6)


def test_rounding_adds_no_right_continuation():
  """7 / 25 * 25 exceeds 7 in floating point; 8 are asked for."""
  assert 7 / 25 * 25 > 7
  script = {"a": ["ar"] * 7 + ["ax"] * 18}
  forest = WordForest(["ar"], is_right, script)
  labels = run(forest, "monte_carlo", continuations=25, least=8)
  assert labels == {"ar": [0, None]}


def test_mean_log_probs_are_those_of_drawn_tokens():
  """The log-probs of the letters of a word are -1, -2, -3."""
  forest = WordForest(
    ["abx"], is_right, {"a": ["acr"]}, log_prob=lambda prefix: -len(prefix)
  )
  forest.branch([0], [1], 1)
  # Of the continuation c and r were drawn.
  np.testing.assert_allclose(uncertainty._mean_log_probs(forest), [-2, -2.5])
  # All tokens of a sample from the prompt were, also those outside of steps.
  forest.samples.step_ids[0, 0] = -1
  np.testing.assert_allclose(uncertainty._mean_log_probs(forest)[0], -2)


def test_likelihood_weighted_success():
  correct = np.array([True, False, False])
  means = np.log([0.5, 0.25, 0.25])
  actual = uncertainty.likelihood_weighted(correct, means)
  np.testing.assert_allclose(actual, 0.5)
  equal = uncertainty.likelihood_weighted(correct, np.full(3, -2.0))
  np.testing.assert_allclose(equal, 1 / 3)


def test_uncertain_steps_are_verified_first():
  """Steps of one token are equally certain, so they are tried in order.

  The prompt succeeds with 1/2, the state after a with 1/2, which is no error,
  and that after ab with 0.
  """
  script = {"a": ["ar", "ax"], "ab": ["abx", "aby"], "abc": ["abcr", "abcx"]}
  forest = WordForest(["abcx", "r"], is_right, script)
  labels = run(forest, "uncertainty", continuations=2)
  assert labels == {"abcx": [1, 0, 0, 0], "r": [1]}
  # A right sample of two steps; a wrong one whose only error is its last step.
  script = {"a": ["ar", "ar"]}
  longer = WordForest(["ax", "cr"], is_right, script)
  labels = run(longer, "uncertainty", continuations=2)
  assert labels == {"ax": [1, 0], "cr": [1, 1]}
  # The first step is the error.
  hopeless = WordForest(["abx", "r"], is_right, {"a": ["ax", "ay"]})
  labels = run(hopeless, "uncertainty", continuations=2)
  assert labels == {"abx": [0, 0, 0], "r": [1]}
  assert [prefix for prefix, _ in forest.looks] == ["a", "ab"]


def test_the_most_uncertain_step_is_tried_first():
  """The last step has two tokens, and the first ones have one."""
  script = {"a": ["ar"], "ab": ["abx"]}
  forest = WordForest(["abcd", "r"], is_right, script)
  forest.samples.step_ids[0, :4] = [0, 1, 2, 2]
  forest.samples.num_steps[0] = 3
  labels = label_sources.get("uncertainty", continuations=1)(forest)
  # The state after the last step has the verdict, which is below 1/2.
  np.testing.assert_array_equal(labels.values[0, :3], [1, 1, 0])
  assert forest.looks == []


def test_the_order_by_increase_of_uncertainty():
  """U is log 2, log 3, 0: the increases are log 2, log 1.5, -log 3."""
  script = {"ab": ["abx"], "abcde": ["abcdex"]}
  for order, first in (("entropy", "abcde"), ("entropy_increase", "ab")):
    forest = WordForest(["abcdex", "r"], is_right, script)
    forest.samples.step_ids[0, :6] = [0, 0, 1, 1, 1, 2]
    forest.samples.num_steps[0] = 3
    # `WordForest` cuts words by letters: a state after n steps has these.
    sample = forest.sample

    def sample_letters(rows, steps, count, sample=sample):
      return sample(rows, np.array([{1: 2, 2: 5}[n] for n in steps]), count)

    forest.sample = sample_letters
    label_sources.get("uncertainty", order=order, continuations=1)(forest)
    assert forest.looks[0] == (first, 1)
  with pytest.raises(ValueError, match="must be one of entropy"):
    label_sources.get("uncertainty", order="length")


def test_consensus_keeps_samples_with_the_same_error():
  class Judged(RatedForest):
    def first_errors(self, rows):
      # A b is wrong, and there is no verdict of a word with a q.
      words = [self.word(row) for row in rows]
      return np.array([-2 if "q" in word else word.find("b") for word in words])

  rates = {"a": 0.5, "ab": 0.0, "c": 0.5, "cd": 0.5, "e": 0.5, "eb": 0.5}
  rates |= {"q": 0.5}
  words = ["qr", "abx", "cdr", "ebr", "cdx"]
  forest = Judged(words, is_right, rates)
  assert run(forest, "consensus") == {"abx": [1, 0, None], "cdr": [1, 1, 1]}
  by_judge = run(forest, "judge")
  assert by_judge["ebr"] == [1, 0, None]
  assert by_judge["cdx"] == [1, 1, 1]
  assert "qr" not in by_judge
  both = run(forest, "consensus", second="monte_carlo")
  assert set(both) == set(words)
  for name, settings in (("judge", {}), ("consensus", {})):
    assert label_sources.reads_judge(label_sources.get(name, **settings))
  without = label_sources.get("consensus", second="monte_carlo")
  assert not label_sources.reads_judge(without)


def test_mixture_is_the_mean_of_labels_by_weight():
  class Judged(RatedForest):
    def first_errors(self, rows):
      return np.array([self.word(row).find("b") for row in rows])

  rates = {"a": 0.5, "ab": 0.25, "c": 0.75}
  forest = Judged(["abx", "cr"], is_right, rates)
  # Success rates .5, .25, 0 and .75, 1. The judge calls "b" wrong, and labels
  # nothing after it. The checker calls every step good.
  settings = {"weights": (1, 2, 1)}
  assert run(forest, "mixture", **settings) == {
    "abx": [0.875, 0.3125, None],
    "cr": [0.9375, 1],
  }
  pair = {"sources": ("checker", "monte_carlo"), "weights": (3, 1)}
  assert run(forest, "mixture", **pair) == {
    "abx": [0.875, 0.8125, 0.75],
    "cr": [0.9375, 1],
  }
  hard = run(forest, "mixture", **pair, soft=False)
  assert hard == {"abx": [1, 1, 0.75], "cr": [1, 1]}
  assert label_sources.reads_judge(label_sources.get("mixture"))
  assert not label_sources.reads_judge(label_sources.get("mixture", **pair))
  with pytest.raises(ValueError, match="one number for each of the 3 sources"):
    label_sources.get("mixture", weights=(1, 1))
  for weights in ((1, -1, 1), (0, 0, 0)):
    with pytest.raises(ValueError, match="must not be negative"):
      label_sources.get("mixture", weights=weights)


def test_a_mixture_labels_what_all_sources_label():
  """The judge has no verdict about the first sample."""

  class Judged(RatedForest):
    def first_errors(self, rows):
      return np.array([-2 if row == 0 else -1 for row in rows])

  forest = Judged(["ax", "cr"], is_right, {"a": 0.5, "c": 0.75})
  sources = {"sources": ("monte_carlo", "judge"), "weights": (1, 1)}
  assert run(forest, "mixture", **sources) == {"cr": [0.875, 1]}
  # A source of weight 0 still says which samples are labelled.
  sources = {"sources": ("monte_carlo", "judge"), "weights": (1, 0)}
  assert run(forest, "mixture", **sources) == {"cr": [0.75, 1]}


def test_stepwise_outcome_labels_do_not_rise():
  rates = {"a": 0.0, "ab": 0.25, "abc": 0.0}
  forest = RatedForest(["abcx", "abcr"], is_right, rates)
  assert run(forest, "stepwise_outcome", balance=False) == {
    "abcx": [1, 1, 0, 0],
    "abcr": [1, 1, 1, 1],
  }
  # The first two steps have no label 0, and the others have one label 0 and two
  # labels 1, of which one is kept.
  forest = RatedForest(["abcx", "abcr", "abdr"], is_right, rates | {"abd": 0.0})
  balanced = run(forest, "stepwise_outcome")
  assert balanced.pop("abcx") == [None, None, 0, 0]
  assert [
    sum(labels[k] is not None for labels in balanced.values()) for k in range(4)
  ] == [0, 0, 1, 1]


def test_balance_draws_from_all_samples():
  """40 of 120 samples are kept, of all parts of the forest."""
  values = np.ones((120, 2))
  values[80:, 0] = 0  # 80 right, 40 wrong
  values[::3, 1] = 0  # the same numbers, mixed
  weights = base.balance_steps(values, np.ones((120, 2)))
  for k in range(2):
    for label in (0, 1):
      assert (weights[:, k] * (values[:, k] == label)).sum() == 40
  drawn = np.flatnonzero(weights[:80, 0])
  assert 10 <= (drawn < 40).sum() <= 30
  labels = base.StepLabels(np.arange(120), values, np.ones((120, 2)))
  balanced = base.balance_samples(labels, values[:, 0] == 1)
  assert (balanced.values[:, 0] == 1).sum() == 40
  np.testing.assert_array_equal(np.flatnonzero(weights[:, 0]), balanced.rows)
  np.testing.assert_array_equal(balanced.values, values[balanced.rows])


def test_prefix_counts():
  """Of four samples with a, two are right; of two with ab, one is."""
  words = ["abr", "abx", "ar", "axx", "br"]
  forest = WordForest(words, is_right, problems=[0, 0, 0, 0, 1])
  assert run(forest, "prefix_counts") == {
    "abr": [0.5, 0.5, 1],
    "abx": [0.5, 0.5, 0],
    "ar": [0.5, 1],
    "axx": [0.5, 0, 0],
    "br": [1, 1],
  }
  assert forest.looks == []


def test_prefix_counts_are_a_martingale():
  """A target is the mean of those of the next tokens, weighted by samples."""
  words = ["".join(word) for word in itertools.product("ab", "ab", "rx")][:7]
  forest = WordForest(words, is_right)
  s = forest.samples
  targets = prefix_counts.token_targets(
    s.completions, s.lengths, s.problems, s.correct == 1
  )
  for prefix in ("a", "b", "aa", "bb"):
    rows = [i for i, word in enumerate(words) if word.startswith(prefix)]
    t = len(prefix)
    np.testing.assert_allclose(
      targets[rows, t - 1], np.mean(targets[rows, t]), rtol=1e-6
    )


def mutable_forest(words=("abr", "bx"), **settings):
  """Words are right that end with r and have no x; b is written B, too."""
  changes = {"a": ("xA", ""), "b": ("x", "B"), "r": ("xy", "")}
  return WordForest(
    words,
    lambda word: is_right(word) and "x" not in word,
    changes=changes,
    **settings,
  )


def test_a_changed_step_has_the_verdict_of_its_sample():
  """The steps before it are right, and those after it have no label."""
  forest = mutable_forest()
  assert run(forest, "mutation") == {
    "abr": [1, 1, 1],
    "xbr": [0, None, None],
    "Abr": [1, None, None],  # a mutation that changes nothing
    "axr": [1, 0, None],
    "aBr": [1, 1, None],
    "abx": [1, 1, 0],
    "aby": [1, 1, 0],
  }
  samples = forest.samples
  words = [forest.word(row) for row in range(len(samples.problems))]
  assert samples.parents.tolist() == [-1, -1, *[0] * 6]
  shared = dict(zip(words, samples.num_shared.tolist(), strict=True))
  assert shared == {
    **{"abr": 0, "bx": 0, "xbr": 0, "Abr": 0},
    **{"axr": 1, "aBr": 1, "abx": 2, "aby": 2},
  }
  assert forest.tokens == 0
  assert forest.looks == []


def test_numbers_of_mutations_and_refactorings():
  only = run(mutable_forest(), "mutation", mutations=0)
  assert only == {"abr": [1, 1, 1], "aBr": [1, 1, None]}
  forest = mutable_forest()
  labels = label_sources.get("mutation", mutations=1, refactorings=0)(forest)
  words = {forest.word(row) for row in labels.rows}
  assert {"abr", "axr"} < words
  assert len(words & {"xbr", "Abr"}) == len(words & {"abx", "aby"}) == 1
  assert len(words) == 4
  for settings in ({"mutations": -1}, {"mutations": 0, "refactorings": 0}):
    with pytest.raises(ValueError, match="at least 0, and one of them"):
      label_sources.get("mutation", **settings)


def test_the_drawn_mutations_depend_on_seed_and_sample():
  def drawn(seed, words):
    forest = mutable_forest(words)
    source = label_sources.get(
      "mutation", mutations=1, refactorings=0, seed=seed
    )
    return [forest.word(row) for row in source(forest).rows][len(words) :]

  assert drawn(0, ["ar", "abr"])[:2] == drawn(0, ["ar", "aaaar"])[:2]
  assert len({tuple(drawn(seed, ["aaaar"])) for seed in range(8)}) > 3
  # Equal samples have different changes.
  assert len(set(drawn(0, ["ar"] * 8))) == 4


def test_a_changed_sample_without_a_verdict_has_no_label():
  forest = mutable_forest(["ar"])
  write = forest.write

  def write_unknown(rows, steps, texts):
    samples = write(rows, steps, texts)
    samples.correct[np.array(steps) == 0] = -1
    return samples

  forest.write = write_unknown
  assert run(forest, "mutation") == {
    "ar": [1, 1],
    "ax": [1, 0],
    "ay": [1, 0],
  }


def test_mutation_needs_right_samples_and_changes():
  assert run(mutable_forest(["abx"]), "mutation") == {}
  with pytest.raises(ValueError, match="need changes of steps"):
    run(WordForest(["ar"], is_right), "mutation")


def test_the_checker_labels_up_to_the_first_error():
  forest = WordForest(
    ["abr", "bbr"], is_right, is_good=lambda prefix: prefix[-1] != "b"
  )
  assert run(forest, "checker") == {"abr": [1, 0, None], "bbr": [0, None, None]}
  assert run(forest, "checker", until_error=False) == {
    "abr": [1, 0, 1],
    "bbr": [0, 0, 1],
  }
  assert forest.looks == []


def test_a_score_of_0_judges_nothing():
  """Such a step has no label, and it does not end the labels."""
  forest = WordForest(
    ["abcr"], is_right, is_good=lambda prefix: prefix[-1] != "c"
  )
  forest.samples.step_scores[0, 1] = 0
  assert run(forest, "checker") == {"abcr": [1, None, 0, None]}
  labels = run(forest, "checker", until_error=False)
  assert labels == {"abcr": [1, None, 0, 1]}


def test_the_noise_of_the_checker_flips_labels():
  """With noise 1 all labels flip, and a tenth flips with noise .1."""
  words = ["abcr"] * 400
  forest = WordForest(words, is_right, is_good=lambda prefix: prefix[-1] != "c")
  (label,) = {tuple(x) for x in label_sources.get("checker")(forest).values}
  assert label[:4] == (1, 1, 0, 0)
  flipped = label_sources.get("checker", noise=1.0)(forest)
  assert flipped.values.tolist() == [[0.0] * 6] * 400
  assert (flipped.weights.sum(-1) == 1).all()  # the first step is an error
  noisy = label_sources.get("checker", noise=0.1)(forest)
  share = (noisy.values[:, 0] == 0).mean()
  assert 0.055 < share < 0.145  # three standard deviations
  again = label_sources.get("checker", noise=0.1)(forest)
  np.testing.assert_array_equal(again.values, noisy.values)
  with pytest.raises(ValueError, match=r"noise = 1.5 must be from 0 to 1"):
    label_sources.get("checker", noise=1.5)


def test_compressed_tree_labels_are_shares_of_right_samples():
  """Two samples at the prompt and after each step; nothing is merged."""
  script = {
    "": ["abr", "cdx"],
    "a": ["abr", "aex"],
    "c": ["cdx", "cdx"],
    "ab": ["abr", "abx"],
    "ae": ["aex", "aex"],
    "cd": ["cdx", "cdr"],
  }
  forest = WordForest(["zx"], is_right, script)
  source = label_sources.get(
    "compressed_tree", children=2, levels=3, probability=0.0
  )
  labels = source(forest)
  by_word = {}
  for row, values, weights in zip(*labels, strict=True):
    assert weights[:3].all()
    by_word.setdefault(forest.word(row), []).append(values[:3].tolist())
  # Below a: abr, abx, aex, aex; below ab: abr, abx.
  assert by_word["abr"] == [[0.25, 0.5, 1]]
  assert by_word["abx"] == [[0.25, 0.5, 0]]
  assert by_word["aex"] == [[0.25, 0, 0]] * 2
  # c has the states cd twice, each with cdx and cdr.
  assert by_word["cdr"] == [[0.5, 0.5, 1]] * 2


def test_the_default_tree_merges_steps():
  """With probability 1 every state with four children loses one of them."""
  words = ["".join(word) + "r" for word in itertools.product("abcd", repeat=3)]
  script = {"": [f"{letter}aar" for letter in "abcd"]}
  for word in words:
    for size in (1, 2):
      prefix = word[:size]
      rest = "aar"[size:]
      script[prefix] = [f"{prefix}{letter}{rest}" for letter in "abcd"]
  labels = []
  for probability in (0.0, 1.0):
    forest = WordForest(["zx"], is_right, script)
    source = label_sources.get("compressed_tree", probability=probability)
    labels.append(source(forest).weights)
  assert labels[0].sum() - labels[1].sum() == 16  # 4 states, 4 leaves each


def test_a_merged_step_has_one_label_and_leaves_its_parent():
  """Merges the step ab with a: of the children of a, it alone has children."""
  leaf = lambda row, steps: compressed_tree.Node(row, steps, leaves=[row])  # noqa: E731
  node = compressed_tree.Node
  ab = node(0, 2, children=[leaf(0, 3), leaf(1, 3)])
  a = node(0, 1, children=[ab, leaf(2, 2), leaf(3, 2), leaf(4, 2)])
  root = node(0, 0, children=[a])
  compressed_tree.compress(root, 1.0, 4, np.random.default_rng(0))
  assert [child.steps for child in root.children] == [1, 2]
  assert root.children[1] is ab
  assert a.all_leaves() == [2, 3, 4]
  assert sorted(root.all_leaves()) == [0, 1, 2, 3, 4]
  words = ["abcr", "abcx", "ax", "ar", "ax"]
  forest = WordForest(words, is_right)
  values, weights = np.zeros((5, 6)), np.zeros((5, 6))
  compressed_tree._label(forest, root, values, weights)
  # The boundary inside of the step ab has no label. The tree ends at abc; the
  # last step of the sample, which comes later, has its verdict.
  assert weights[0].tolist() == [0, 1, 1, 1, 0, 0]
  assert values[0, 1:4].tolist() == [0.5, 1, 1]
  assert weights[1].tolist() == [0, 1, 1, 1, 0, 0]
  assert values[1, 1:4].tolist() == [0.5, 0, 0]
  # a has lost the leaves below ab: one of three is right.
  np.testing.assert_allclose(values[3, :2], [1 / 3, 1])
  # With too few children nothing moves.
  few = node(0, 0, children=[node(0, 1, children=[ab])])
  compressed_tree.compress(few, 1.0, 4, np.random.default_rng(0))
  assert len(few.children) == 1
  never = node(0, 0, children=[a])
  compressed_tree.compress(never, 0.0, 1, np.random.default_rng(0))
  assert never.children == [a]


def test_continuations_without_a_verdict_do_not_count():
  class Unknown(WordForest):
    def _rows(self, *arguments):
      rows = super()._rows(*arguments)
      words = rows.completions[np.arange(len(rows.lengths)), rows.lengths - 1]
      rows.correct = np.where(words == ord("u"), -1, rows.correct)
      return rows

  script = {"a": ["ar", "au", "ax", "au"], "b": ["bu", "bu", "bu", "bu"]}
  forest = Unknown(["ax", "br", "cu"], is_right, script)
  labels = run(forest, "monte_carlo", continuations=4, soft=True)
  assert labels == {"ax": [0.5, 0], "br": [0, 1]}
  np.testing.assert_allclose(forest.problem_rates()[0], 0.5)


def test_priority_and_exploration_of_divide_and_conquer():
  q = divide_and_conquer.priority(0.5, 250, 0.5, 0.9, 500)
  np.testing.assert_allclose(q, 0.67082, atol=1e-5)
  u = divide_and_conquer.exploration(10, 2, 0.125)
  np.testing.assert_allclose(u, 0.13176, atol=1e-5)


def test_divide_and_conquer_searches_the_best_wrong_sample():
  """The prompt has MC 1/2. The sample abcx is halved: ab has hope, abc none.

  Samples of ab are then a state with 0 < MC < 1, and its wrong one is next.
  """
  script = {
    "ab": ["abr", "abdx"],
    "abc": ["abcx", "abcy"],
    "abd": ["abdr", "abdr"],
  }
  forest = WordForest(["abcx", "r"], is_right, script)
  labels = run(forest, "divide_and_conquer", continuations=2, searches=1)
  assert labels == {"abcx": [None, 0.5, 0, 0], "r": [1]}
  assert forest.looks == [("ab", 2), ("abc", 2)]
  # A second search: only the wrong sample abdx of ab is in the pool.
  forest = WordForest(["abcx", "r"], is_right, script)
  labels = run(forest, "divide_and_conquer", continuations=2, searches=5)
  assert labels == {
    "abcx": [None, 0.5, 0, 0],
    "r": [1],
    "abdx": [None, None, 1, None],
  }
  assert forest.looks[2:] == [("abd", 2)]


def test_divide_and_conquer_prefers_short_samples_of_hopeful_states():
  """With equal rates the shorter of two wrong samples is searched first."""
  script = {"a": ["ar", "ar"], "bc": ["bcr", "bcr"], "bcd": ["bcdr"]}
  script["bcde"] = ["bcder"]
  words = ["bcdex", "ax", "r"]
  forest = WordForest(words, is_right, script)
  run(forest, "divide_and_conquer", continuations=2, searches=1, scale=1)
  assert forest.looks == [("a", 2)]
  forest = WordForest(words, is_right, script)
  long_first = {"beta": 1.2, "scale": 1, "searches": 1}
  run(forest, "divide_and_conquer", continuations=2, **long_first)
  assert forest.looks[0][0] == "bc"


def test_best_first_has_a_tree_for_each_problem():
  """The root of a problem is its own first sample."""
  script = {"": ["ar", "bx"], "a": ["ar"], "b": ["bx"]}
  words = ["ux", "vr", "wx", "yx"]
  forest = WordForest(words, is_right, script, [0, 1, 1, 2])
  source = label_sources.get(
    "best_first", children=1, continuations=1, expansions=1
  )
  labels = source(forest)
  problems = forest.samples.problems[labels.rows]
  assert sorted(problems.tolist()) == [0, 1, 2]
  parents = forest.samples.parents[labels.rows]
  assert sorted(parents.tolist()) == [0, 1, 3]


def test_a_problem_with_a_single_sample_is_searched_by_nobody():
  """The prompt has MC 0 or 1, and the verdicts are the only labels."""
  forest = WordForest(["ax", "r"], is_right, {}, [0, 1])
  labels = run(forest, "divide_and_conquer")
  assert labels == {"ax": [None, 0], "r": [1]}
  assert forest.looks == []


def test_the_search_goes_down_after_a_state_without_hope():
  """Four of eight steps leave no hope, and two of them do."""
  script = {
    "abcd": ["abcdx"],
    "ab": ["abr"],
    "abc": ["abcx"],
  }
  forest = WordForest(["abcdefgx", "r"], is_right, script, max_steps=8)
  run(forest, "divide_and_conquer", continuations=1, searches=1)
  assert [prefix for prefix, _ in forest.looks] == ["abcd", "ab", "abc"]


def test_the_length_of_a_sample_is_counted_from_its_state():
  """cdx has three tokens after the prompt, and acx two after a."""
  forest = WordForest(["cdx", "ar"], is_right, {"a": ["acx", "ar"]})
  tree = divide_and_conquer._Tree(forest, np.arange(2))
  [rows] = forest.branch([1], [1], 2)
  tree.add(forest.state(1, 1), rows)
  # Both states have a rate of 1/2, and exploration has no weight.
  assert tree.choose(0.5, 0.9, 1, 0.0) == (1, rows[0])
  assert tree.choose(0.5, 0.9, 1, 0.0) == (0, 0)


def test_a_search_counts_as_one_visit_of_its_state():
  forest = WordForest(["abx", "cx", "r"], is_right)
  tree = divide_and_conquer._Tree(forest, np.arange(3))
  root = forest.state(0, 0)
  assert tree.visits == {root: 0}
  tree.choose(0.5, 0.9, 500, 0.125)
  assert tree.visits == {root: 1}
  tree.choose(0.5, 0.9, 500, 0.125)
  assert tree.visits == {root: 2}
  assert tree.choose(0.5, 0.9, 500, 0.125) is None


def test_a_state_that_was_searched_less_is_explored():
  """The prompt has three visits and the state a none; all else is equal."""
  forest = WordForest(["abx", "r"], is_right, {"a": ["acx", "ar"]})
  tree = divide_and_conquer._Tree(forest, np.arange(2))
  [rows] = forest.branch([0], [1], 2)
  tree.add(forest.state(0, 1), rows)
  tree.visits[forest.state(0, 0)] = 3
  # sqrt(3) / 4 of the prompt and sqrt(3) of a.
  assert tree.choose(1.0, 1.0, 1, 1.0) == (1, rows[0])


def test_a_compressed_tree_begins_with_the_samples_of_its_problem():
  script = {"": ["cr", "dx"]}
  forest = WordForest(["ax", "br"], is_right, script, [0, 1])
  source = label_sources.get("compressed_tree", children=1, levels=1)
  source(forest)
  assert forest.samples.problems[2:].tolist() == [0, 1]
  assert forest.samples.parents[2:].tolist() == [0, 1]


def test_a_new_node_has_no_visits():
  node = tool_tree._Node(0, 0, None)
  assert (node.q, node.visits) == (0.0, 0)
  child = node.add(1)
  child.update(2.0, decay=0.5)
  assert (child.q, child.visits) == (2.0, 1)
  assert (node.q, node.visits) == (1.0, 1)


def test_progress_at_the_threshold_is_enough():
  """After a 2 of 5 are right, .8 of the 1 of 2 at the prompt."""
  script = {"a": ["ar", "ar", "ax", "ax", "ax"]}
  forest = WordForest(["ax", "r"], is_right, script)
  labels = run(forest, "relative_progress", continuations=5)
  assert labels["ax"] == [1, 0]


def test_a_label_of_one_half_is_no_error():
  labels = base.make(
    np.arange(5),
    np.array([[0.5, 0.4, 0], [0.5] * 3, [0.2, 0.9, 1], [0] * 3, [1, 1, 0]]),
    np.array([[1, 1, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]]),
  )
  assert consensus.first_errors(labels).tolist() == [1, -1, -1, 0, 2]


def test_best_first_expands_the_best_state():
  """From the prompt b succeeds more often than a, and is expanded next."""
  script = {
    "": ["ax", "bx"],
    "a": ["ar", "ax", "ax", "ax"],
    "b": ["br", "br", "bcx", "bx"],
    "bc": ["bcr", "bcx", "bcx", "bcx"],
  }
  forest = WordForest(["zx"], is_right, script)
  labels = label_sources.get(
    "best_first", children=2, continuations=4, expansions=2
  )(forest)
  # After the prompt: a with 1/4, b with 2/4. Two children of b: br (twice, by
  # the script), each of which is finished and right.
  by_state = {}
  for row, values, weights in zip(*labels, strict=True):
    for k in np.flatnonzero(weights):
      by_state[forest.word(row)[: k + 1], int(row)] = float(values[k])
  assert sorted((word, v) for (word, _), v in by_state.items()) == [
    ("a", 0.25),
    ("b", 0.5),
    ("br", 1.0),
    ("br", 1.0),
  ]
  assert [look for look in forest.looks if look[1] == 2] == [("", 2), ("b", 2)]


@pytest.mark.parametrize(
  ("verdicts", "final", "reward"),
  [
    ((1, -1, 1), 0, 0.22222),
    ((1, -1, 1), 1, 0.55556),
    ((1, 1, 1, 1), 1, 5 / 8 + 1 / 4),
    ((), -1, -1.0),
  ],
)
def test_simulation_reward(verdicts, final, reward):
  actual = tool_tree.simulation_reward(np.array(verdicts), final)
  np.testing.assert_allclose(actual, reward, atol=1e-5)


def test_tool_tree_labels_the_sign_of_the_rewards():
  """Two simulations from the prompt, then one from the better child.

  ab: no step is between a and the answer, which is wrong: u = -1.
  cdr: d is good, and the answer is right: u = 1 + 1.
  """
  script = {"": ["ab", "cdr"], "c": ["cxy", "cdr"]}
  forest = WordForest(
    ["zx"], is_right, script, is_good=lambda prefix: prefix[-1] not in "xy"
  )
  labels = run(forest, "tool_tree", simulations=2)
  assert labels == {"ab": [0, None], "cdr": [1, None, None]}
  forest = WordForest(
    ["zx"], is_right, script, is_good=lambda prefix: prefix[-1] not in "xy"
  )
  labels = run(forest, "tool_tree", simulations=3)
  # From c, the answer of cxy is wrong: u = -1 for cx, and Q of c is 2 - 0.9.
  assert labels["cdr"] == [1, None, None]
  assert labels["cxy"] == [None, 0, None]
  # Of a longer sample, all steps but the last are verified: cxyx has the bad
  # step y after x, u = -1 - 1, and Q of c is 2 - 1.8; after three of them it is
  # negative.
  script = {"": ["ab", "cdr"], "c": ["cxyx"], "cx": ["cxyx"]}
  forest = WordForest(
    ["zx"], is_right, script, is_good=lambda prefix: prefix[-1] not in "xy"
  )
  assert run(forest, "tool_tree", simulations=3)["cdr"] == [1, None, None]


def test_the_tree_search_compares_sums_of_rewards():
  """A mean of .75 over two visits is more than 1 of one visit, as a sum."""
  root = tool_tree._Node(0, 0, None)
  often, once = root.add(1), root.add(2)
  root.visits, often.visits, once.visits = 3, 2, 1
  often.q, once.q = 1.5, 1.0
  # 1.5 + 1.414 sqrt(ln 4 / 3) = 2.461, and 1 + 1.414 sqrt(ln 4 / 2) = 2.177
  assert root.select(1.414) is often
  # 1.5 + 4 sqrt(ln 4 / 3) = 4.219, and 1 + 4 sqrt(ln 4 / 2) = 4.330
  assert root.select(4.0) is once
  # 1.5 + c sqrt(ln 4 / 3) is larger than 1 + c sqrt(ln 4 / 2) below c = 3.273.
  assert root.select(2.0) is often
  assert root.select(3.25) is often
  assert root.select(3.3) is once


def test_a_path_that_has_turned_ends_before_a_good_step():
  root = tool_tree._Node(0, 0, None)
  bad = root.add(1)
  good = bad.add(2)
  worse = bad.add(3)
  root.q, bad.q, good.q, worse.q = 1.0, -1.0, 1.0, -2.0
  values, weights = np.zeros((4, 2)), np.zeros((4, 2))
  root.label(values, weights, turned=False)
  np.testing.assert_array_equal(weights, [[0, 0], [1, 0], [0, 0], [0, 1]])
  assert not values.any()


def test_first_zero_and_first_error():
  values = np.array([[1, 0, 1, 0], [0, 0, 0, 0]])
  weights = np.array([[1, 1, 1, 1], [0, 0, 1, 1]])
  np.testing.assert_array_equal(
    base.until_first_zero(values, weights), [[1, 1, 0, 0], [0, 0, 1, 0]]
  )
