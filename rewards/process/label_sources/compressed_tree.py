"""HRM: a tree of samples, in which some steps are merged with their parents."""

from __future__ import annotations

import dataclasses

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


@dataclasses.dataclass
class Node:
  """A state of the tree.

  Attributes:
    row: a sample that passes the state.
    steps: number of steps of the state.
    children: states one step later.
    leaves: samples that end below the state, and have no further node.
  """

  row: int
  steps: int
  children: list[Node] = dataclasses.field(default_factory=list)
  leaves: list[int] = dataclasses.field(default_factory=list)

  @property
  def height(self) -> int:
    """Number of levels of nodes, from this one to the lowest one below it."""
    return 1 + max((child.height for child in self.children), default=0)

  def all_leaves(self) -> list[int]:
    """Returns all samples that end below the state."""
    below = [leaf for child in self.children for leaf in child.all_leaves()]
    return self.leaves + below


def compress(
  node: Node, probability: float, least: int, rng: np.random.Generator
) -> None:
  """Moves children of the node's children up to the node, in place.

  Of every child with at least `least` children, with the given probability one
  child of it whose height is at least 2 is merged with it: it becomes a child
  of `node`, and its step consists of both steps. The number of leaves does not
  change. Nodes below are treated first.

  Args:
    node: the root of a tree.
    probability: probability of a merge.
    least: smallest number of children of a node that may lose one.
    rng: random numbers.
  """
  for child in list(node.children):
    compress(child, probability, least, rng)
    candidates = [one for one in child.children if one.height >= 2]
    if len(child.children) < least or not candidates:
      continue
    if rng.random() < probability:
      moved = candidates[rng.integers(len(candidates))]
      # By identity: two nodes may have equal fields.
      child.children = [one for one in child.children if one is not moved]
      node.children.append(moved)


def compressed_tree(
  children: int = 4,
  levels: int = 3,
  probability: float = 0.5,
  least: int = 4,
  seed: int = 0,
):
  """Labels the steps of a tree by the share of right samples below them.

  For each problem, `children` samples are drawn at the prompt and at the state
  after each of their steps, for `levels` levels. Then some states are merged
  with their parents (`compress`), which changes the share of the parents and
  gives a step of two: the boundary inside of it has no label. The label of a
  step is the share of right samples among those that end below its state. Every
  sample that ends at a leaf is a line with the labels of the states that it
  passes; the label of its last step is its verdict, even if it has more steps
  than the tree has levels.
  Source: Wang et al. 2025, Towards Hierarchical Multi-Step Reward Models for
  Enhanced Reasoning in Large Language Models (HRM), its hierarchical node
  compression. Deviation: the released code builds its trees by a search.

  Args:
    children: number of samples that are drawn in a state.
    levels: number of steps after which samples branch.
    probability: probability that a state with enough children loses one.
    least: this number of children is enough.
    seed: seed of the merges.
  """

  def label(forest: Forest) -> base.StepLabels:
    roots = base.root_rows(forest)
    problems = forest.samples.problems[roots]
    trees = [
      Node(int(roots[np.argmax(problems == problem)]), 0)
      for problem in np.unique(problems)
    ]
    _grow(forest, trees, children, levels)
    rng = np.random.default_rng(seed)
    shape = len(forest.samples.problems), forest.max_steps
    values, weights = np.zeros(shape), np.zeros(shape)
    for tree in trees:
      compress(tree, probability, least, rng)
      _label(forest, tree, values, weights)
    return base.make(np.arange(shape[0]), values, weights)

  return label


def _grow(
  forest: Forest, trees: list[Node], children: int, levels: int
) -> None:
  """Draws samples at all states of each level, and adds them to the trees."""
  states = trees
  for _ in range(levels):
    if not states:
      return
    rows = np.array([node.row for node in states])
    steps = np.array([node.steps for node in states])
    branches = forest.branch(rows, steps, children)
    following = []
    for node, drawn in zip(states, branches, strict=True):
      for row in map(int, drawn):
        child = Node(row, node.steps + 1)
        node.children.append(child)
        if forest.samples.num_steps[row] > child.steps:
          following.append(child)
        else:
          child.leaves.append(row)
    states = following
  for node in states:  # the last level is not continued
    node.leaves.append(node.row)


def _label(
  forest: Forest,
  root: Node,
  values: np.ndarray,  # [N, K], changed in place
  weights: np.ndarray,  # [N, K], changed in place
) -> None:
  """Writes the labels of all samples that end below a root, in place."""
  correct, num_steps = forest.samples.correct, forest.samples.num_steps

  # Each entry of `path` is a step, and the share of right samples below the
  # state after it. The root has no entry, because its state has no label.
  def walk(node: Node, path: list[tuple[int, float]]) -> None:
    for leaf in node.leaves:
      if correct[leaf] < 0:  # no verdict
        continue
      for step, share in path:
        values[leaf, step], weights[leaf, step] = share, 1
      # The label of a last step is the sample's verdict.
      last = num_steps[leaf] - 1
      values[leaf, last], weights[leaf, last] = correct[leaf] == 1, 1
    for child in node.children:
      judged = [leaf for leaf in child.all_leaves() if correct[leaf] >= 0]
      if not judged:
        continue
      share = float(np.mean(correct[judged] == 1))
      walk(child, [*path, (child.steps - 1, share)])

  walk(root, [])
