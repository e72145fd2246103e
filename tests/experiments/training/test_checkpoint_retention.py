"""The checkpoints that a run keeps until its end."""

import math

import pytest
from etils import epath
from helpers import small_run

from experiments.logging import json_files
from experiments.logging.writers import METRICS_FILE
from experiments.training import checkpoint_retention, workdirs
from experiments.training_run import loop, validate
from models import checkpoint_reader

METRIC = "evaluation/reward/mean"


class Step:
  def __init__(self, step):
    self.step = step


def test_a_minus_in_front_of_a_metric_is_its_sign():
  assert checkpoint_retention.parse_metric("-loss/total") == (-1, "loss/total")
  assert checkpoint_retention.parse_metric("loss/total") == (1, "loss/total")


def test_a_config_chooses_the_rules():
  workdir = epath.Path("folder")
  config = small_run.config(keep_every=500, keep_best="-loss/total")
  every, best = checkpoint_retention.make_policies(config, workdir)
  assert every.interval_steps == 500
  assert best == checkpoint_retention.BestByMetric(workdir, "-loss/total")
  assert len({best, checkpoint_retention.BestByMetric(workdir, "m")}) == 2
  config = small_run.config(keep_every=0, keep_best="")
  assert checkpoint_retention.make_policies(config, workdir) == []


def best(workdir, metric, *steps):
  policy = checkpoint_retention.BestByMetric(epath.Path(workdir), metric)
  saved = policy.should_preserve(list(map(Step, steps)), context=None)
  return [step for step, is_kept in zip(steps, saved, strict=True) if is_kept]


def test_the_best_is_the_highest_or_the_lowest_and_the_first_of_equals(
  tmp_path,
):
  values = {2: 0.5, 4: math.nan, 6: 0.75, 8: 0.75, 10: 0.25}
  json_files.write(
    tmp_path / METRICS_FILE, [{"step": s, "m": v} for s, v in values.items()]
  )
  assert best(tmp_path, "m", 2, 4, 6, 8, 10) == [6]
  assert best(tmp_path, "-m", 2, 4, 6, 8, 10, 12) == [10]
  assert best(tmp_path, "m", 2, 8, 10) == [8]  # 6 is there no more
  assert best(tmp_path, "m", 4, 12) == []
  assert best(tmp_path / "empty", "m", 2) == []


@pytest.mark.long
def test_a_run_keeps_the_latest_every_sixth_and_the_best(tmp_path):
  e = small_run.experiment(
    steps=14,
    checkpoint_every=2,
    evaluate_every=2,
    keep_checkpoints=1,
    keep_every=6,
    keep_best=METRIC,
  )
  validate.check_experiment(e)
  loop.run(e, tmp_path)
  result = {
    int(path.name) for path in (tmp_path / checkpoint_reader.FOLDER).iterdir()
  }
  worth = {
    line["step"]: line[METRIC]
    for line in json_files.read(tmp_path / METRICS_FILE)
    if METRIC in line
  }
  assert sorted(worth) == [2, 4, 6, 8, 10, 12]
  best = min(s for s, v in worth.items() if v == max(worth.values()))
  assert result == {6, 12, 14, best}


def test_what_a_run_keeps_may_change_when_it_goes_on(tmp_path):
  workdirs.write_config(tmp_path, small_run.config())
  workdirs.check_config(
    tmp_path,
    small_run.config(keep_every=10, keep_best="loss/total", stop_after_skips=3),
  )
