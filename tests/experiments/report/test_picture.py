"""The picture that compares runs, on two tiny evaluations."""

import numpy as np
import pytest
from etils import epath
from helpers import untrained_runs

from experiments.evaluation import summary
from experiments.report import picture, runs


def run_of(name, **evaluations):
  return runs.Run(
    workdir=epath.Path("/runs") / name,
    config={},
    method="",
    advantages={},
    series={},
    evaluations=evaluations,
    intermediate=[],
  )


@pytest.fixture(scope="module")
def evaluations():
  """Evaluations of 3 and of 5 samples of four problems."""
  return [
    untrained_runs.evaluation(0.5, step, samples=samples, problems=4)
    for step, samples in ((0, 3), (10, 5), (20, 5))
  ]


@pytest.fixture(scope="module")
def axes(evaluations):
  base, first, second = evaluations
  figure = picture.comparison(
    [run_of("a", base=base, trained=first), run_of("b", trained=second)]
  )
  (axes,) = figure.axes
  return axes


def test_dots_are_the_values_of_the_tables(axes, evaluations):
  """Each evaluation has a line over every k, and dots at those of tables."""
  for i, (evaluation, ks) in enumerate(
    zip(evaluations, ([1, 2, 3], [1, 2, 4, 5], [1, 2, 4, 5]), strict=True)
  ):
    line, dots = axes.get_lines()[2 * i : 2 * i + 2]
    numbers = range(1, evaluation.samples + 1)
    for artist, wanted in ((line, numbers), (dots, ks)):
      assert list(artist.get_xdata()) == list(wanted)
      np.testing.assert_allclose(
        artist.get_ydata(),
        [evaluation.estimates[f"accuracy/pass@{k}"].mean for k in wanted],
      )
    assert line.get_linestyle() == "-"
    assert dots.get_linestyle() == "None"
    assert dots.get_marker() == "o"
    # Dots are wider than the line, so that they are seen.
    assert dots.get_markersize() > line.get_linewidth() > 0


def test_bands_are_the_intervals(axes, evaluations):
  """They are light and have no edge, so that lines can be seen on them."""
  for band, evaluation in zip(axes.collections, evaluations, strict=True):
    (path,) = band.get_paths()
    vertices = {tuple(np.round(xy, 6)) for xy in path.vertices}
    for k in range(1, evaluation.samples + 1):
      estimate = evaluation.estimates[f"accuracy/pass@{k}"]
      assert (k, round(float(estimate.low), 6)) in vertices
      assert (k, round(float(estimate.high), 6)) in vertices
    assert band.get_alpha() < 0.25
    assert band.get_linewidth() == 0


def test_the_base_is_gray_and_runs_have_other_colors(axes):
  colors = [line.get_color() for line in axes.get_lines()[::2]]
  assert colors == list(picture.COLORS[:3])
  assert [line.get_color() for line in axes.get_lines()[1::2]] == colors


def test_colors_of_runs_begin_anew_without_the_gray(evaluations):
  """Six trained policies need five colors, and the first of them again."""
  base, trained, _ = evaluations
  names = "abcdef"
  (axes,) = picture.comparison(
    [run_of(name, base=base, trained=trained) for name in names]
  ).axes
  colors = [line.get_color() for line in axes.get_lines()[::2]]
  assert colors == [*picture.COLORS, picture.COLORS[1]]


def test_axes_begin_at_zero_and_have_the_budgets_of_the_largest(axes):
  assert axes.get_ylim()[0] == 0
  assert axes.get_xticks().tolist() == summary.budgets(5)
  assert axes.xaxis.get_transform().base == 2
  assert axes.get_axisbelow() is True  # the grid is behind the lines
  assert not axes.get_legend().get_frame_on()
  ticks = [*axes.xaxis.get_major_ticks(), *axes.yaxis.get_major_ticks()]
  assert all(tick.tick1line.get_markersize() == 0 for tick in ticks)
  assert "on 4 held-out problems" in axes.get_title(loc="left")


def test_a_comparison_has_960_x_660_pixels(axes):
  """An inch has 150 pixels."""
  assert (150 * axes.figure.get_size_inches()).tolist() == [960, 660]
  figure = picture.matplotlib.figure.Figure(figsize=(0.5, 0.25))
  content = picture.png(figure)
  # Width and height follow the name of the first chunk of a PNG file.
  assert np.frombuffer(content[16:24], ">u4").tolist() == [75, 37]


def test_runs_without_evaluations_have_no_picture():
  with pytest.raises(ValueError, match="none of the runs has been evaluated"):
    picture.comparison([run_of("a")])
