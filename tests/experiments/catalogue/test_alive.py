"""A paper's quantity varies, and permuting it changes the update."""

import dataclasses
import json
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run, worked_example

from experiments.catalogue import alive, alive_labels, papers
from experiments.catalogue.alive import Quantity
from experiments.configs import method as method_configs
from rl import methods


def small_config(**changes):
  """Returns a run of an untrained policy on chained arithmetic."""
  return small_run.config(
    **{"task": "chain(operations=2)", "rollout__temperature": 0.5} | changes
  )


def test_a_docstring_names_its_quantity():
  text = """First line.

  Source: Someone 2025,
  A Title.
  Quantity: old/entropy, by prompt.

  Args:
  """
  assert alive.quantity_of(text, "scores") == Quantity("old/entropy", "prompt")
  assert alive.quantity_of("Quantity: a.\nMore.", "") == Quantity("a")
  assert alive.quantity_of("Quantity: a, by group.", "") == Quantity(
    "a", "group"
  )
  assert alive.quantity_of("Quantity: none, since.", "") == Quantity("none")
  assert alive.quantity_of("No quantity", "scores") == Quantity("scores")
  assert alive.quantity_of(None, "scores") == Quantity("scores")


def rollout_of(correct, **fields):
  correct = np.asarray(correct)
  rollout = worked_example.rollout(
    np.zeros(correct.shape[1]), [2] * correct.shape[1], correct=correct[0]
  )
  return dataclasses.replace(rollout, **fields)


def test_samples_move_among_those_of_equal_verdict():
  rollout = rollout_of([[1, 0, 1, 1, 0]])
  order = alive._order(rollout, "sample", Quantity("old/entropy"))
  assert order.tolist() == [[3, 4, 0, 2, 1]]
  scores = alive._order(rollout, "sample", Quantity("scores"))
  assert scores.tolist() == [[4, 0, 1, 2, 3]]
  values = jnp.arange(5.0)[None]
  assert alive._permute(values, order).tolist() == [[3, 4, 0, 2, 1]]
  pairs = jnp.stack([values, values + 10], -1)
  assert alive._permute(pairs, order)[0, 0].tolist() == [3, 13]


def test_steps_move_within_a_sample():
  mask = jnp.array([[[True, True, True], [True, False, False]]])
  rollout = rollout_of([[1, 1]], step_mask=mask)
  order = alive._order(rollout, "step", Quantity("step_scores"))
  assert order.tolist() == [[[2, 0, 1], [0, 2, 1]]]
  values = jnp.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
  assert alive._permute(values, order)[0, 0].tolist() == [3, 1, 2]


@pytest.mark.parametrize(
  ("values", "name", "expected"),
  [
    ([5, 1, 5, 5, 1], "quality", False),  # a function of the verdict
    ([5, 1, 5, 4, 1], "quality", True),
    ([1, 0, 1, 1, 0], "scores", True),
    ([1, 1, 1, 1, 1], "scores", False),
  ],
)
def test_what_varies_among_samples_of_equal_verdict(values, name, expected):
  rollout = rollout_of([[1, 0, 1, 1, 0]])
  values = np.array([values], float)
  assert alive._varies(values, rollout, Quantity(name)) is expected
  hidden = rollout.sample_mask.at[0, 3].set(False)
  changed = rollout.replace(sample_mask=hidden)
  if name == "quality":  # the only sample that differs does not exist
    assert not alive._varies(values, changed, Quantity(name))


def test_every_quantity_is_named_beside_a_source():
  for name in methods.names():
    quantity = alive._quantity("method", name, None)
    assert re.fullmatch(r"[\w/]+", quantity.name), name
  assert alive._quantity("method", "canon", None).name == "old/entropy"
  assert alive._quantity("method", "grpo", None).name == "scores"
  assert alive._quantity("reward", "majority", None).name == "majority"


def test_an_entropy_that_shapes_advantages_is_alive(tmp_path):
  config = small_config(method="entropy_adv", reward="task() + coins()")
  result = alive.measure(config, Quantity("old/entropy"), tmp_path)
  assert result.varies
  assert result.change > 0.01
  assert result.is_alive


@pytest.mark.parametrize(
  ("changes", "quantity", "varies"),
  [
    # R3 paid ten times the verdict.
    ({"reward": "coins() + 10 * verdict()"}, "verdict", False),
    # The entropy counts nothing.
    ({"method": "entropy_adv(alpha=0.0)"}, "old/entropy", True),
    # Half of the entropy's groups against the other half cancel.
    pytest.param(
      {"method": "canon(mu=0.5, alpha=1.0)"},
      *("old/entropy", True),
      marks=pytest.mark.long,
    ),
    # A part that the total does not have.
    pytest.param(
      {"reward": "luck = coins(); task()"},
      *("coins", True),
      marks=pytest.mark.long,
    ),
    # A weight that has fallen to 0.
    pytest.param(
      {"reward": "task() + linear(0, 0, 9) * coins()"},
      *("coins", True),
      marks=pytest.mark.long,
    ),
  ],
)
def test_a_planted_dead_config_fails(changes, quantity, varies, tmp_path):
  config = small_config(**changes)
  result = alive.measure(config, Quantity(quantity), tmp_path)
  assert result.varies is varies
  if varies:
    assert result.change < 1e-9
  assert not result.is_alive


def test_a_run_without_the_quantity_is_refused(tmp_path):
  with pytest.raises(ValueError, match="no quantity 'task/durations'"):
    alive.measure(
      small_config(method="rloo"), Quantity("task/durations"), tmp_path
    )


def test_labels_are_moved_within_their_lines():
  lines = [
    {"prompt": "p", "labels": [1, 0, None], "correct": 1},
    {"prompt": "p", "labels": [0.5], "correct": 0, "potentials": [0.1]},
  ]
  moved = alive_labels._move(lines, ("labels",))
  assert [line["labels"] for line in moved] == [[0, None, 1], [0.5]]
  assert [line["correct"] for line in moved] == [1, 0]
  moved = alive_labels._move(lines, ("verdicts",))
  assert [line["correct"] for line in moved] == [0, 1]
  assert not alive_labels._vary(lines)
  assert alive_labels._vary([*lines, lines[0] | {"labels": [1, 1, None]}])


@pytest.mark.long  # reads the config of every paper
def test_the_results_are_those_of_the_catalogue():
  records = json.loads(alive.RESULTS.read_text())
  measured = {
    f"{row['kind']} {row['name']} | {row['paper']}"
    for row in papers.rows()
    if alive._measurement(row, pathlib.Path()) is not None
  }
  assert set(records) == measured
  assert [label for label, r in records.items() if not r["alive"]] == []


# Twelve papers: their quantities are in each of the places where one can be.
TWELVE = (
  *("rloo", "psr", "min_form", "canon", "earl", "clip_cov", "erv"),
  *("siren", "oprl", "prime", "pass_at_k_adaptive", "unlikeliness"),
)


@pytest.mark.long
@pytest.mark.parametrize("name", TWELVE)
def test_papers_are_alive_with_a_base_of_few_steps(name, tmp_path):
  config = method_configs.get_config(name)
  config.base.steps = 100
  quantity = alive._quantity("method", name, config)
  assert alive.measure(config, quantity, tmp_path).is_alive
