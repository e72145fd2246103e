"""The study of a real model: records, tables, arms."""

import dataclasses
import json

import numpy as np
import pytest
from helpers import small_policy

from experiments.configs import smollm2
from experiments.data import pretrained
from experiments.evaluation import summary
from experiments.studies import units
from experiments.studies.real_model import __main__ as command
from experiments.studies.real_model import arms, tables, unit


def make_evaluation(correct):
  """An evaluation whose problem i has `correct[i]` right ones of 16 samples."""
  counts = np.array(correct)[:, None]
  right = np.arange(16) < counts
  return summary.Evaluation(
    task="task",
    step=30,
    temperature=1.0,
    ids=np.arange(len(counts), dtype=np.int32),
    scores=right.astype(np.float32),
    correct=right.astype(np.int8),
    answer_ids=np.where(right, 5_000_000, -1).astype(np.int32),
    lengths=np.full(right.shape, 10, np.int32),
    finished=right,
  )


def write(folder, arm, seed, correct, entropy=(3.0, 2.0), page=-3.0, **series):
  record = {
    "seed": seed,
    "page_log_prob": page,
    "series": {"entropy": list(entropy), **series},
    "evaluation": unit._to_json(make_evaluation(correct)),
  }
  (folder / f"{arm}_{seed}.json").write_text(json.dumps(record))


@pytest.fixture
def results(tmp_path, monkeypatch):
  study = dataclasses.replace(unit.STUDY, results=tmp_path)
  monkeypatch.setattr(unit, "STUDY", study)
  return tmp_path


def test_an_evaluation_survives_its_record():
  evaluation = make_evaluation([0, 4, 16])
  record = json.loads(json.dumps({"evaluation": unit._to_json(evaluation)}))
  restored = unit.load_evaluation(record)
  # Answers are numbered anew within a problem: equal answers stay equal.
  changed = dataclasses.replace(
    evaluation,
    answer_ids=np.where(evaluation.answer_ids < 0, -1, restored.answer_ids),
  )
  for field in dataclasses.fields(summary.Evaluation):
    np.testing.assert_array_equal(
      getattr(restored, field.name), getattr(changed, field.name)
    )
  assert set(restored.answer_ids[1, :4]) == {0}


def read_rows(table):
  lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
  return {line[0]: line[1:] for line in lines if len(line) > 1}


def test_the_table_shows_changes_from_the_base_with_intervals(results):
  """pass@1 of the base is 4 / 16; the seeds of `grpo` have 6, 8 and 10."""
  write(results, "texts_base", 0, [4, 4], entropy=())
  for seed, count in enumerate((6, 8, 10)):
    write(results, "grpo", seed, [count, count])
    # One more right sample in every problem than GRPO.
    write(results, "max_at_4", seed, [count + 1, count + 1], page=-3.5)
  rows = read_rows(tables.compare(["grpo", "max_at_4"]))
  base, grpo, max_at_4, difference = rows["pass@1"]
  assert base == ".250"
  # Changes .125, .25, .375: mean .25, standard error .0722, t = 4.303.
  assert grpo == "+.250 [-.061, +.561]"
  assert max_at_4.startswith("+.312 ")
  assert difference == "+.062 [+.062, +.062]"  # paired by seed
  assert rows["log-prob of a page, nats per token"][2].startswith("-.500 ")
  # The base policy samples the first step.
  assert rows["entropy, nats"][0] == "3"
  assert rows["entropy, nats"][1].startswith("-.500 ")  # mean of 3 and 2


def test_an_arm_with_one_seed_has_its_interval_over_problems(results):
  write(results, "texts_base", 0, [4, 4])
  write(results, "grpo", 0, [8, 8])  # the same change in both problems
  rows = read_rows(tables.compare(["grpo"]))
  assert rows["pass@1"] == [".250", "+.250 [+.250, +.250]"]
  assert rows["entropy, nats"][1] == "-.500"  # not a mean over problems


def test_a_missing_result_is_named(results, capsys):
  write(results, "texts_base", 0, [4, 4])
  assert command.main(["table", "grpo"]) == 2
  assert "'grpo' has no result" in capsys.readouterr().err
  assert command.main(["table", "gpo"]) == 2
  assert "did you mean 'grpo'" in capsys.readouterr().err


def test_the_picture_is_written(results, tmp_path):
  write(results, "texts_base", 0, [4, 4])
  for seed in range(3):
    write(results, "grpo", seed, [6 + seed, 8])
  tables.draw(["grpo"], tmp_path / "picture.png")
  assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_lists_have_lines_and_a_picture(results, tmp_path):
  write(results, "lists_base", 0, [4, 4], entropy=())
  for seed in range(2):
    series = {"lines": [4.0, 5.0 + seed, 7.0], "pass@1": [0.1, 0.2, 0.1]}
    write(results, "lists_sum_form", seed, [2, 2], **series)
  rows = read_rows(tables.compare(["lists_sum_form"]))
  # The means of the three steps are 16 / 3 and 17 / 3; the first step has 4.
  assert rows["lines"][0] == "4"
  assert rows["lines"][1].startswith("+1.500 ")
  file = tmp_path / "lists.png"
  arguments = ["table", "lists_sum_form", "--lists-picture", str(file)]
  assert command.main(arguments) == 0
  assert file.stat().st_size > 10_000


def test_arms_change_only_what_they_say(tmp_path):
  for name, arm in arms.ARMS.items():
    config = arm.make_config(7, tmp_path)
    if arm.start:
      assert config.init_from == str(tmp_path / f"{arm.start}_7")
    assert config.seed == 7
    assert arms.base_of(name) in arms.ARMS
    unchanged = smollm2.get_config(arm.config)
    flat = dict(unchanged.iteritems(preserve_field_references=False))
    assert flat.keys() == dict(config.iteritems()).keys()
    for key, value in arm.changes.items():
      block, _, leaf = key.rpartition(".")
      assert (config[block] if block else config)[leaf] == value
    assert config.task == unchanged.task
    assert config.get("method") == unchanged.get("method")


def test_units_that_have_their_result_are_not_run_again(
  results, monkeypatch, capsys
):
  commands = []

  class Done:
    returncode = 0

  def run(arguments, check):
    del check
    commands.append(arguments[3:])
    return Done()

  monkeypatch.setattr(units.subprocess, "run", run)
  write(results, "grpo", 1, [4])
  assert command.main(["run", "grpo", "max_at_4", "--seeds", "1", "2"]) == 0
  assert [arguments[:3] for arguments in commands] == [
    ["unit", "max_at_4", "1"],
    ["unit", "grpo", "2"],
    ["unit", "max_at_4", "2"],
  ]
  assert "grpo, seed 1: already has a result" in capsys.readouterr().out


@pytest.fixture
def small_arms(results, tmp_path, monkeypatch):
  """A base model, an arm of RL and a supervised one, with a small decoder."""
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  folder = pretrained.folder_of("smollm2")
  folder.parent.mkdir(parents=True)
  small_policy.write(folder)
  lines = tmp_path / "right.jsonl"
  text = json.dumps({"prompt": "Write about rain.", "solution": "it rains"})
  lines.write_text(f"{text}\n" * 8)
  sizes = {
    "task": "short_texts(rules=('at_most_25_words',), rules_at_once=(1,), "
    "prompt_length=512)",
    "rollout.prompts": 8,
    "plan.microbatches": 1,  # eight devices split the prompts
    "rollout.max_tokens": 8,
    "evaluation.problems": 8,
    "evaluation.samples": 2,
    "evaluation.batch": 8,
    "sinks": (),
  }
  monkeypatch.setattr(
    unit,
    "ARMS",
    {
      "texts_base": arms.ModelArm("grpo", {**sizes, "steps": 0}),
      "grpo": arms.ModelArm("grpo", {**sizes, "steps": 2, "rollouts_every": 1}),
      "tulu3_sft": arms.ModelArm(
        "tulu3_sft", {**sizes, "steps": 2, "demonstrations": str(lines)}
      ),
      "tulu3_dpo": arms.ModelArm(
        "grpo",
        {**sizes, "steps": 1, "model.value_head": True},
        start="tulu3_sft",
      ),
    },
  )
  return tmp_path / "runs"


@pytest.mark.long
def test_units_write_their_results(small_arms, results):
  for name in ("texts_base", "grpo", "tulu3_sft", "tulu3_dpo"):
    unit.STUDY.write(name, 0, unit.run(name, 0, small_arms))
  records = {
    name: json.loads((results / f"{name}_0.json").read_text())
    for name in ("texts_base", "grpo", "tulu3_sft", "tulu3_dpo")
  }
  evaluations = {
    name: unit.load_evaluation(record) for name, record in records.items()
  }
  assert [e.step for e in evaluations.values()] == [0, 2, 2, 1]
  assert evaluations["grpo"].scores.shape == (8, 2)
  # Runs read the evaluation of the policy that they start from.
  for name, start in (("grpo", "texts_base"), ("tulu3_dpo", "tulu3_sft")):
    base = summary.load(small_arms / f"{name}_0" / "evaluation_base.json")
    assert base.step == 0
    np.testing.assert_array_equal(base.lengths, evaluations[start].lengths)
  assert len(records["grpo"]["series"]["entropy"]) == 2
  assert list(records["grpo"]["samples"]) == ["step_000000", "step_000001"]
  pages = [record["page_log_prob"] for record in records.values()]
  assert np.isfinite(pages).all()
  assert len(set(pages[:3])) == 3  # each of another policy
  # One step at the start of the warm-up, whose rate is 0, from `tulu3_sft`.
  assert pages[3] == pages[2]
