"""GroundedPRM: a tree search whose steps a tool verifies."""

from __future__ import annotations

import math

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def simulation_reward(verdicts: np.ndarray, final: int) -> float:
  """Returns u = (1/n) sum_{i=0}^{n-1} v_i (n - i)/n + F / n.

  Args:
    verdicts: `[n]`, v: the tool's verdicts of the steps between the node and
      the end of the simulation, 1 for right, -1 for wrong and 0 for unknown.
    final: F in {-1, +1}, the verdict of the answer.

  Returns:
    u; F if n = 0.
  """
  n = len(verdicts)
  if not n:
    return float(final)
  weights = (n - np.arange(n)) / n
  return float(np.mean(np.asarray(verdicts) * weights) + final / n)


def tool_tree(
  simulations: int = 16, exploration: float = 1.414, decay: float = 0.9
):
  """Labels the steps of a tree by the sign of their simulated rewards.

  For each problem, and `simulations` times: from the prompt, the search walks
  to the child with the largest

    Q + exploration sqrt(ln(N_parent + 1) / (N + 1))

  as long as a node has two children or more, and simulates one continuation of
  the node that it reaches. The first step of the continuation becomes a child
  of the node, and gets the reward u of `simulation_reward` of the steps between
  it and the last one, which the checker of the task verifies, and of the
  answer, which is the last step. Q of an ancestor at distance d grows by
  decay^d u; it is a sum over the N simulations, as in the released code, and
  not their mean. The label is 1 if Q > 0 and 0 if Q < 0; a step with Q = 0 has
  none. Below a step with Q < 0, a step with Q >= 0 and all steps after it have
  no label.
  Source: Zhang et al. 2025, GroundedPRM: Tree-Guided and Fidelity-Aware Process
  Reward Modeling, and its released code. Deviation: the paper trains on
  rationales, and drops those whose own verdict contradicts the label.

  Args:
    simulations: number of continuations of a problem.
    exploration: factor of the exploration term.
    decay: discount of a reward per ancestor.
  """

  def label(forest: Forest) -> base.StepLabels:
    roots = base.root_rows(forest)
    problems = forest.samples.problems[roots]
    trees = [
      _Node(int(roots[np.argmax(problems == problem)]), 0, None)
      for problem in np.unique(problems)
    ]
    for _ in range(simulations):
      leaves = [tree.select(exploration) for tree in trees]
      rows = np.array([leaf.row for leaf in leaves])
      steps = np.array([leaf.steps for leaf in leaves])
      open_leaves = steps < forest.samples.num_steps[rows]
      new = forest.branch(rows, steps, 1)[:, 0]
      for leaf, row, is_open in zip(leaves, new, open_leaves, strict=True):
        # A leaf that ends the sample is simulated again without a new child.
        node = leaf.add(int(row)) if is_open else leaf
        node.update(_simulate(forest, int(row), node.steps), decay)
    values = np.zeros((len(forest.samples.problems), forest.max_steps))
    weights = np.zeros(values.shape)
    for tree in trees:
      tree.label(values, weights, turned=False)
    return base.make(np.arange(len(values)), values, weights)

  return label


def _simulate(forest: Forest, row: int, steps: int) -> float:
  """Returns u of a sample, of the node that its first `steps` steps reach."""
  samples = forest.samples
  later = samples.step_scores[row, steps : samples.num_steps[row] - 1]
  final = 1 if samples.correct[row] == 1 else -1
  return simulation_reward(np.sign(later), final)


class _Node:
  """A state of the tree.

  Attributes:
    row: a sample that passes the state.
    steps: number of steps of the state.
    q: sum of the discounted rewards.
    visits: number of simulations below.
  """

  def __init__(self, row: int, steps: int, parent: _Node | None) -> None:
    self.row, self.steps, self._parent = row, steps, parent
    self.q, self.visits = 0.0, 0
    self._children: list[_Node] = []

  def add(self, row: int) -> _Node:
    """Adds the child that sample `row` reaches with its next step."""
    self._children.append(_Node(row, self.steps + 1, self))
    return self._children[-1]

  def select(self, exploration: float) -> _Node:
    """Returns the node below that the search reaches."""
    if len(self._children) < 2:
      return self

    def score(child: _Node) -> float:
      bonus = math.sqrt(math.log(self.visits + 1) / (child.visits + 1))
      return child.q + exploration * bonus

    return max(self._children, key=score).select(exploration)

  def update(self, reward: float, decay: float) -> None:
    """Adds a reward to this node, and its discounted values to ancestors."""
    node: _Node | None = self
    while node is not None:
      node.q += reward
      node.visits += 1
      node, reward = node._parent, reward * decay

  def label(self, values: np.ndarray, weights: np.ndarray, turned: bool):
    """Labels the children, and the nodes below them.

    Args:
      values: `[N, K]`, written.
      weights: `[N, K]`, written.
      turned: whether a node above has a negative Q.
    """
    for child in self._children:
      if turned and child.q >= 0:
        continue
      if child.q != 0:
        values[child.row, child.steps - 1] = float(child.q > 0)
        weights[child.row, child.steps - 1] = 1
      child.label(values, weights, turned or child.q < 0)
