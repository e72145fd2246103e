"""The stages of Tulu 3, each from the run before, on few steps."""

import json

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments import preferences
from experiments.configs import defaults, tulu3
from experiments.evaluation import summary
from experiments.training import iteration, placement, workdirs
from experiments.training_run import loop, validate


def test_the_stages_have_the_defaults_of_the_paper():
  sft, dpo, rlvr = map(tulu3.get_config, tulu3.names())
  assert [sft.kind, dpo.kind, rlvr.kind] == ["supervised", "preferences", "rl"]
  for config in (sft, dpo):
    assert config.optimizer.schedule == "linear"
    assert config.optimizer.final_scale == 0
    assert config.optimizer.decay_steps == config.steps
  assert sft.optimizer.warmup_steps == 0.03 * sft.steps
  assert dpo.optimizer.warmup_steps == dpo.steps // 10
  assert dpo.method == "dpo(beta=5.0, length_normalized=True)"
  assert dpo.rollout.prompts == 128
  assert rlvr.method == "tulu3()"
  assert rlvr.rollout.prompts * rlvr.rollout.samples == 512
  assert rlvr.plan.epochs == 4
  assert rlvr.optimizer.decay_steps == rlvr.steps
  assert dpo.init_from == "runs/tulu3_sft"
  assert rlvr.init_from == "runs/tulu3_dpo"


@pytest.mark.long
def test_every_stage_starts_from_the_run_before(tmp_path, monkeypatch):
  """The commands of the docstring, with a small decoder and few steps."""
  monkeypatch.chdir(tmp_path)

  def run(name):
    config = tulu3.get_config(name)
    model = small_run.config().model
    model.value_head = True
    config.model = model
    config.task = "countdown(count=2)"
    config.sinks = ()
    config.steps = {"sft": 200, "dpo": 3, "rlvr": 2}[name]
    config.optimizer.warmup_steps = 1
    config.rollout.prompts = 128 if name == "sft" else 8
    if name == "sft":
      config.optimizer.learning_rate = 1e-2
    config.steps_per_dispatch = min(config.steps_per_dispatch, config.steps)
    config.evaluation.update(small_run.config().evaluation)
    workdir = tmp_path / f"runs/tulu3_{name}"
    loop.run(validate.check_and_build(config, workdir), workdir)
    return workdir

  run("sft")
  words = "--workdir runs/tulu3_sft --out runs/tulu3_pairs.jsonl --problems 64"
  assert preferences.main(words.split()) == 0
  workdirs_of_stages = [run("dpo"), run("rlvr")]
  evaluations = [
    summary.load(workdir / file)
    for workdir in workdirs_of_stages
    for file in (workdirs.BASE_EVALUATION_FILE, workdirs.EVALUATION_FILE)
  ]
  # Two evaluations of one policy on the same problems have the same samples.
  np.testing.assert_array_equal(evaluations[1].scores, evaluations[2].scores)


def test_demonstrations_of_a_file(tmp_path):
  """A supervised run learns from the lines in place of the task's solutions."""
  file = tmp_path / "right.jsonl"
  line = {"prompt": "1 2 = d0 d3", "solution": "2 + 1"}
  file.write_text(json.dumps(line) + "\n")
  e = small_run.on_one_device(
    validate.check_and_build(
      small_run.config(
        "supervised", demonstrations=str(file), optimizer__warmup_steps=0
      )
    )
  )
  advance = iteration.make_dispatch(e, iteration.compile_rollout_fn(e))
  state, losses = placement.init_state(e), []
  for _ in range(20):
    state, metrics, *_ = advance(state)
    losses.append(float(jax.device_get(metrics["loss/total"])))
  assert losses[-1] < losses[0] / 2
  assert defaults.supervised().demonstrations == ""
