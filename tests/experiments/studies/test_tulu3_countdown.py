"""The table of the stages of Tulu 3, and the page that shows it."""

import pathlib

from experiments.studies.real_model import tulu3_countdown, unit

PAGE = pathlib.Path(tulu3_countdown.__file__).with_name("README.md")


def record(seed, *rows):
  stages = zip(tulu3_countdown.STAGES, rows, strict=True)
  return {
    "seed": seed,
    "stages": {
      stage: dict(zip(("1", "8", "64"), row, strict=True))
      for stage, row in stages
    },
  }


def test_differences_are_paired_by_seed():
  """Two seeds: a Student interval is the mean +- 12.706 std / sqrt(2)."""
  records = [
    record(0, (0.2, 0.6, 0.9), (0.3, 0.6, 0.9), (0.4, 0.5, 0.8)),
    record(1, (0.4, 0.6, 0.9), (0.5, 0.7, 0.9), (0.6, 0.5, 0.8)),
  ]
  head, line, first, second, third = tulu3_countdown.table(records).split("\n")
  assert head == "| 2 seeds | pass@1 | pass@8 | pass@64 |"
  assert line == "|---|---|---|---|"
  # std 0.1414, times 12.706 / 1.414: 1.2706.
  assert first.startswith("| supervised | 0.300 [-0.971, 1.571] | 0.600 [0.600")
  assert "0.400 [-0.871, 1.671]; +0.100 [+0.100, +0.100]" in second
  # std 0.0707 of the differences 0 and 0.1: 0.6353.
  assert "; +0.050 [-0.585, +0.685]" in second
  assert third.startswith("| then RLVR | 0.500")
  assert "0.500 [0.500, 0.500]; -0.150 [-0.785, +0.485]" in third


def test_one_seed_has_no_intervals():
  rows = (0.2, 0.6, 0.9), (0.3, 0.6, 0.9), (0.4, 0.5, 0.8)
  head, _, first, second, _ = tulu3_countdown.table([record(0, *rows)]).split(
    "\n"
  )
  assert head == "| 1 seed | pass@1 | pass@8 | pass@64 |"
  assert first == "| supervised | 0.200 | 0.600 | 0.900 |"
  assert second.startswith("| then DPO | 0.300; +0.100 | 0.600; +0.000 |")


def test_the_page_has_the_table_of_the_results():
  records = unit.STUDY.read("tulu3_countdown_seed")
  assert [record["seed"] for record in records] == [0, 1, 2]
  assert tulu3_countdown.table(records) in PAGE.read_text()
