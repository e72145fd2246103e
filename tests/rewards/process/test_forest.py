"""A forest of samples: states, branches, rates and tokens."""

import numpy as np
from helpers.tabular_forest import WordForest


def is_right(word):
  return word.endswith("r")


def make(**settings):
  script = {"a": ["abr", "acx"], "ac": ["acr", "acdx"]}
  return WordForest(["abx", "cr"], is_right, script, [0, 1], **settings)


def test_a_branch_shares_the_steps_of_its_prefix():
  forest = make()
  branches = forest.branch([0, 1], [1, 2], 2)
  # Nothing follows the last step of the second sample.
  assert branches.tolist() == [[2, 3], [1, 1]]
  assert [forest.word(row) for row in (2, 3)] == ["abr", "acx"]
  assert forest.samples.parents.tolist() == [-1, -1, 0, 0]
  assert forest.samples.num_shared.tolist() == [0, 0, 1, 1]
  # "abr" and "acx" have two tokens each after "a".
  assert forest.tokens == 4
  forest.branch([3], [2], 1)
  assert forest.tokens == 5  # "acr" after "ac"


def test_the_state_of_a_prefix_is_that_of_the_first_sample():
  forest = make()
  forest.branch([0], [1], 2)  # 2: abr, 3: acx
  forest.branch([3], [2], 2)  # 4: acr, 5: acdx, which share "ac" with 3
  assert forest.state(5, 3) == (5, 3)
  assert forest.state(5, 2) == (3, 2)
  assert forest.state(5, 1) == (0, 1)
  assert forest.state(3, 2) == (3, 2)
  assert forest.state(2, 1) == (0, 1)
  # The prompt belongs to the first sample of the problem.
  assert forest.state(5, 0) == (0, 0)
  assert forest.state(1, 0) == (1, 0)


def test_rates_leave_out_samples_without_a_verdict():
  forest = make()
  rates = forest.success_rates([0, 1], [1, 2], 2)
  np.testing.assert_array_equal(rates, [0.5, 1])
  forest.samples.correct[2] = -1
  rates = forest.success_rates([0], [1], 2)
  np.testing.assert_array_equal(rates, [0.5])
  # Of the samples from the prompts, those with a verdict are counted.
  words = ["ar", "bx", "cu", "dx"]
  forest = WordForest(words, is_right, {"a": ["ax"]}, [0, 0, 0, 1])
  forest.samples.correct[2] = -1
  forest.branch([0], [1], 1)
  np.testing.assert_array_equal(forest.problem_rates(), [0.5, 0.5, 0.5, 0, 0.5])
  forest.samples.correct[:] = -1
  np.testing.assert_array_equal(forest.problem_rates(), np.zeros(5))
