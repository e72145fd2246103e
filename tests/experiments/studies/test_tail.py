"""Win rates of policies that follow a proxy reward, by enumeration."""

import itertools

import numpy as np
import pytest

from experiments.studies import tail


def test_best_of_is_the_share_of_all_draws():
  """All 4^3 draws of three answers."""
  draws = list(itertools.product(range(4), repeat=3))
  counts = np.bincount([max(draw) for draw in draws], minlength=4)
  np.testing.assert_allclose(tail.best_of(4, 3), counts / 4**3)


def test_tilted_prefers_by_exponents():
  p = tail.tilted(4, 2.0)
  np.testing.assert_allclose(p.sum(), 1)
  np.testing.assert_allclose(p[1:] / p[:-1], np.exp(0.5))
  # exp(0), exp(.5), exp(1), exp(1.5) over their sum, 9.84869
  np.testing.assert_allclose(p[-1], 4.48169 / 9.84869, rtol=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0, 0.4), (0.6, 1), (0.2, 0.8)])
def test_the_win_rate_is_the_mean_over_all_orders(low, high):
  """Five answers; every order of those in the region, and every opponent."""
  policy = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
  start, stop = round(low * 5), round(high * 5)
  rates = []
  for order in itertools.permutations(range(start, stop)):
    true_ranks = np.array([*range(start), *order, *range(stop, 5)])
    wins = [
      np.mean([(rank > other) + (rank == other) / 2 for other in range(5)])
      for rank in true_ranks
    ]
    rates.append(policy @ wins)
  np.testing.assert_allclose(tail.win_rate(policy, low, high), np.mean(rates))


def test_the_command_shows_that_the_tail_counts(capsys):
  assert tail.main([]) == 0
  rows = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in capsys.readouterr().out.splitlines()
  ]
  table = {name: list(map(float, cells)) for name, *cells in rows[2:]}
  assert set(table) == set(tail.REGIONS)
  np.testing.assert_allclose(table["everywhere"], 0.5)
  # The mean of the largest of 16 uniform numbers.
  np.testing.assert_allclose(table["nowhere"][2], 16 / 17, atol=2e-3)
  for low, high, nowhere in zip(
    table["lowest half"],
    table["highest half"],
    table["nowhere"],
    strict=True,
  ):
    assert nowhere - low < 0.01 < 0.1 < nowhere - high
  # With stronger optimisation only the best tenth counts.
  for column in (1, 3):
    nowhere = table["nowhere"][column]
    assert nowhere - table["lowest nine tenths"][column] <= 0.001
    assert nowhere - table["highest tenth"][column] > 0.03
  assert tail.main(["--answers", "3"]) == 2
