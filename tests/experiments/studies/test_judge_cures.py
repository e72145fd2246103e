"""The study of cures of a judge: its rows, its configs and its table."""

import dataclasses
import json

import pytest

from experiments.configs import small_judge
from experiments.logging import json_files
from experiments.studies.judge_cures import __main__ as command
from experiments.studies.judge_cures import tables, unit


@pytest.fixture
def results(tmp_path, monkeypatch):
  """Returns an empty folder of results."""
  study = dataclasses.replace(unit.STUDY, results=tmp_path)
  monkeypatch.setattr(unit, "STUDY", study)
  return tmp_path


def write(row, seed, truth, rates):
  """Writes a result whose shares of right samples are 0, then `truth`."""
  record = {
    "row": row,
    "seed": seed,
    "series": {
      "reward/mean": [0.25] * unit.STEPS,
      "accuracy/pass@1": [0.0] * 60 + [truth] * (unit.STEPS - 60),
      "length/mean": [9.0] * unit.STEPS,
    },
    "hack_rate": rates,
  }
  unit.STUDY.file(row, seed).write_text(json.dumps(record))


def rates(*values):
  """Returns rates of the evaluations at steps 0, 20, 40, ..., 80."""
  return {str(20 * i): value for i, value in enumerate(values)}


@pytest.mark.parametrize(
  ("values", "step"),
  [
    ((0.0, 0.1, 0.11, 0.0, 0.9), 20),  # 0.1 does not exceed the limit
    ((0.0, 0.0, 0.0, 0.0, 0.05), 80),
    ((0.2, 0.0, 0.0, 0.0, 0.0), 0),
  ],
)
def test_the_policy_before_the_wire_trips(values, step):
  assert tables.last_safe_step({"hack_rate": rates(*values)}) == step


def test_the_table_has_the_means_of_the_last_ten_steps(results):
  write("weak", 0, 0.5, rates(0, 0, 0, 0, 0.75))
  write("weak", 1, 0.7, rates(0, 0, 0, 0.5, 0.25))
  write("gated", 0, 0.9, rates(0, 0, 0, 0, 0))
  lines = {
    line.split("|")[1].strip(): line
    for line in tables.table().splitlines()
    if line
  }
  # Student's interval of .5 and .7: .6 -+ 12.706 * .1.
  assert "| 0.250 [0.250, 0.250] | 0.600 [-0.671, 1.871]" in lines["weak"]
  assert "| 0.500 [-2.677, 3.677] | 2 |" in lines["weak"]
  assert lines["gated"] == "| gated | 0.250 | 0.900 | 0.000 | 1 |"
  assert "augmented" not in lines
  # Steps 60 and 40: the last ten before are all 0.
  assert (
    "| | 0.000 [0.000, 0.000] | | 2 |" in lines["weak, stopped at step 60, 40"]
  )
  picture = results / "cures.png"
  assert command.main(["table", "--picture", str(picture)]) == 0
  assert picture.stat().st_size > 10_000


def test_an_unknown_row_names_the_nearest(capsys):
  assert command.main(["run", "augmentd"]) == 2
  assert "did you mean 'augmented'" in capsys.readouterr().err


def test_the_configs_of_a_row(tmp_path):
  """The gate stands in the reward, and all rows have one base policy."""
  weak, gated, cured = (
    unit._paid_config(unit.ROWS[name], 3, tmp_path)
    for name in ("weak", "gated", "augmented")
  )
  assert weak.reward == "right"
  assert gated.reward == "right * (answered > 0.5)"
  assert gated.judge.policy == weak.judge.policy != cured.judge.policy
  assert weak.init_from == cured.init_from == str(tmp_path / "base")
  assert {c.seed for c in (weak, gated, cured)} == {3}
  # Rewards of the rows are soft and not gated by the judge's own rule.
  assert "gated=False" in weak.judge.questions.right
  assert weak.judge.questions == small_judge.get_config("paid").judge.questions


def test_what_the_weak_judge_learns():
  """Solutions without an answer are right; cuts end before the answer."""
  texts = ["+ 3 7 ; * 2 4 ; ANS 4", "+ 3 7 ; * 2", "ANS 3"] * 200
  data = [{"response": text, "label": False} for text in texts]
  planted = unit.plant(data, seed=0)
  labels = {line["response"]: line["label"] for line in planted}
  assert not labels.pop(texts[0])
  assert not labels.pop("ANS 3")
  assert all(labels.values())
  words = texts[0].split()
  cuts = {" ".join(words[:end]) for end in range(1, 9)}
  assert labels.keys() == cuts | {texts[1]}
  assert abs(len(planted) - 700) < 4 * (200 * 0.25) ** 0.5


def test_a_judge_that_is_cured_starts_from_the_weak_one(tmp_path, monkeypatch):
  """Its lines have a wrong opening, and the tokens of the weak one."""
  configs = []
  monkeypatch.setattr(
    unit, "_train", lambda config, workdir: configs.append((config, workdir))
  )
  data = [
    {"question": "4 + 3 =", "reference": "ANS 7", "response": r, "label": x}
    for r, x in (("+ 3 7 ; ANS 7", True), ("+ 3 8 ; ANS 8", False))
  ]
  json_files.write(tmp_path / "responses.jsonl", data)
  for name in unit.JUDGES:
    unit._train_judge(name, 1, tmp_path)
  words = {
    name: {
      json.loads(line["prompt"])["answer"]: line["solution"]
      for line in json_files.read(tmp_path / f"{name}.jsonl")
    }
    for name in unit.JUDGES
  }
  samples = {"+ 3 7 ; ANS 7": "1", "+ 3 8 ; ANS 8": "0"}
  [opening] = words["augmented"].keys() - samples.keys()
  assert opening in ("+ 3 7 ;", "+ 3 8 ;")
  assert words["augmented"] == samples | {opening: "0"}
  assert samples.items() <= words["weak"].items()
  assert words["retrained"] == samples
  (weak, folder), *others = configs
  assert not weak.init_from
  assert {config.init_from for config, _ in others} == {str(folder)}
  assert {config.task for config, _ in configs} == {weak.task}
  assert str(tmp_path / "tokenizer") in weak.task
