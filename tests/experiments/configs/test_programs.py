"""The configs of programs, after the commands before them."""

import json

import numpy as np
import pytest
from helpers import fitted_model

from experiments import tasks
from experiments.configs import defaults, programs
from experiments.logging import json_files
from experiments.prm import __main__ as command
from experiments.prm import policy_forest
from experiments.training import build, checkpointing, workdirs
from experiments.training_run import loop, validate
from models import checkpoint_reader
from rewards.tasks import programs as rules
from rewards.verifiers import sandbox

if sandbox.missing_protections():
  pytest.skip(
    f"this machine lacks {'; '.join(sandbox.missing_protections())}",
    allow_module_level=True,
  )


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """Returns the workdir of an untrained base policy."""
  folder = tmp_path_factory.mktemp("base")
  config = shrink(programs.base())
  workdirs.write_config(folder, config)
  checkpoints = folder / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(checkpoints) as saving:
    saving.save(0, {"params": build.build(config).init().params}, {})
  return folder


def shrink(config):
  """Makes a config small enough for tests."""
  value_head = config.model.value_head
  config.task = "programs(operations=2)"
  config.model = defaults.model(**fitted_model.TINY)
  config.model.value_head = value_head
  config.evaluation.problems = config.evaluation.batch = 8
  config.evaluation.samples = 2
  config.rollout.prompts = 8
  config.sinks = ()
  config.steps = 2
  return config


def test_labels_a_model_and_two_runs(base, tmp_path, monkeypatch):
  """The commands of the docstring; gold programs stand for right samples."""
  generate = policy_forest._generate

  def generate_gold(policy, params, prompts, prompt_mask, keys, sampling):
    samples = generate(policy, params, prompts, prompt_mask, keys, sampling)
    facts = {
      "operators": prompts[:, :-1:2] - rules.ID[rules.OPERATORS[0]],
      "operands": prompts[:, 1:-1:2] - rules.ID[rules.OPERANDS[0]],
    }
    task = tasks.get("programs", operations=2)
    completions, lengths = task.gold(task.test(1).replace(facts=facts))
    count = sampling.samples
    return samples.replace(
      completions=np.repeat(completions[:, None], count, 1),
      lengths=np.repeat(lengths[:, None], count, 1),
      finished=np.ones((len(lengths), count), bool),
    )

  prm = tmp_path / "prm"
  with monkeypatch.context() as patch:
    patch.setattr(policy_forest, "_generate", generate_gold)
    words = ("--workdir", str(prm), "--policy", str(base))
    words += ("--source", "mutation", "--problems", "16", "--samples", "2")
    assert command.main(["label", *words, "--batch", "8"]) == 0
  lines = [json.loads(x) for x in (prm / "labels.jsonl").open()]
  labels = [x for line in lines for x in line["labels"]]
  assert {0.0, 1.0, None} == set(labels)
  for line in lines:
    # A sample is as right as its last labelled line.
    labelled = [x for x in line["labels"] if x is not None]
    assert labelled[-1] == line["correct"]
    assert labelled[:-1] == [1.0] * (len(labelled) - 1)
  assert (
    command.main(["fit", "--workdir", str(prm), "--steps", "4", "--batch", "8"])
    == 0
  )
  for name in ("prlcoder", "outcome"):
    config = shrink(programs.get_config(name))
    for path in (config.init_from, config.models.prm.workdir):
      assert f"--workdir {path}" in programs.__doc__
    text = f"--config experiments/configs/programs.py:{name} "
    assert text in programs.__doc__
    config.init_from = str(base)
    config.models.prm.workdir = str(prm)
    folder = tmp_path / name
    e = validate.check_and_build(config, folder)
    assert (e.method.reward is not None) == (name == "prlcoder")
    loop.run(e, folder)
    rows = list(json_files.read(folder / "metrics.jsonl"))
    rows = [row for row in rows if "prm/score" in row]
    assert rows
    assert all(np.isfinite(row["loss/total"]) for row in rows)
