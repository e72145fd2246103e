"""The configs of a small judge and of a model of thoughts."""

import pytest
from helpers import fitted_model, small_run

from experiments import judge_lines
from experiments.configs import small_judge
from experiments.logging import json_files
from experiments.training import build, checkpointing
from experiments.training_run import loop, validate
from models import checkpoint_reader


def small(config, **changes):
  """Returns a config whose base policy and evaluation are small."""
  made = small_run.config(task="chain(operations=1)", steps=2, **changes)
  for key in ("model", "evaluation", "sinks", "steps", "log_every"):
    config[key] = made[key]
  config.rollout.prompts = 8
  return config


def run(config, workdir):
  e = validate.check_and_build(config, workdir)
  loop.run(small_run.on_one_device(e), workdir)
  if config.kind == "rl":
    return json_files.read(workdir / "metrics.jsonl")
  return None


@pytest.mark.parametrize("name", small_judge.names())
def test_the_docstring_shows_every_config(name):
  command = f"--config experiments/configs/small_judge.py:{name}"
  assert command in small_judge.__doc__


def test_the_commands_follow_each_other():
  text = small_judge.__doc__
  fit, paid, thoughts = map(small_judge.get_config, ("fit", "paid", "thoughts"))
  assert f"--out {fit.data.file}\n" in text
  for folder in (
    paid.judge.policy,
    thoughts.init_from,
    thoughts.models.thoughts.workdir,
  ):
    assert f"--workdir {folder}" in text


@pytest.mark.long
def test_a_run_is_paid_by_a_judge_that_is_a_run(tmp_path):
  """The judge is hardly trained: its rewards are strictly between 0 and 1."""
  responses, lines = tmp_path / "responses.jsonl", tmp_path / "lines.jsonl"
  json_files.write(
    responses,
    [
      {
        "question": f"{i} + 3 =",
        "reference": f"ANS {(i + 3) % 10}",
        "response": f"+ 3 {j} ; ANS {j}",
        "label": j == (i + 3) % 10,
      }
      for i in range(10)
      for j in range(10)
    ],
  )
  words = ["--data", str(responses), "--out", str(lines), "--openings", "0.5"]
  assert judge_lines.main(words) == 0
  config = small(small_judge.get_config("fit"))
  config.data.file, config.data.cache = str(lines), str(tmp_path)
  config.optimizer.warmup_steps = 0
  run(config, tmp_path / "judge")
  config = small(small_judge.get_config("paid"))
  config.task, config.base = "chain(operations=1)", {}
  config.judge.policy = str(tmp_path / "judge")
  config.judge.cache, config.judge.workers = str(tmp_path / "replies"), 8
  # An untrained judge seldom says 1 or 0 first, so that "soft" would be 0.
  soft = config.judge.questions.right
  config.judge.questions.right = soft.replace("'soft'", "'probability'")
  for line in run(config, tmp_path / "paid"):
    assert line["judge/unanswered_frac"] == 0
    assert 0 < line["reward/mean"] == line["score/right/mean"] < 1


@pytest.mark.long
def test_a_run_is_paid_by_a_model_of_thoughts(tmp_path):
  """The score of a thought counts for right samples alone."""
  config = small(small_judge.get_config("thoughts"))
  config.task = "chain(operations=1)"
  unpaid = small_run.config(task=config.task)
  e = build.build(unpaid)
  checkpoints = tmp_path / "base" / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(checkpoints) as saving:
    saving.save(0, {"params": e.init().params}, {})
  (tmp_path / "prm").mkdir()
  fitted_model.write(tmp_path / "prm", e.model, "bradley_terry")
  config.init_from = str(tmp_path / "base")
  config.models.thoughts.workdir = str(tmp_path / "prm")
  for line in run(config, tmp_path / "run"):
    form = 1 - line["length/truncated_frac"]
    right, total = line["accuracy/pass@1"], line["reward/mean"]
    assert form + right <= total <= form + 2 * right
