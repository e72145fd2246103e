"""The command that labels steps, on samples that no policy writes."""

import json
import types as python

import jax
import numpy as np
import pytest
from etils import epath

from experiments import tasks
from experiments.prm import label, policy_forest
from experiments.training import prng_keys
from rewards.process import forest

TASK = tasks.get("chain", operations=1)
SETTINGS = label.Settings(
  policy="p",
  task="",
  source="checker",
  potentials="",
  problems=3,
  samples=1,
  batch=2,
  temperature=0.5,
  seed=3,
)


class FakeForest(forest.Forest):
  """One sample of two steps of each problem; the second step is wrong."""

  def __init__(
    self, task, policy, params, problems, key, sampling, judge, num_problems
  ):
    assert (policy, params, judge) == ("policy", "params", None)
    assert (sampling.samples, sampling.temperature) == (1, 0.5)
    assert key == prng_keys.from_seed(3)
    # Copies of the last problem fill up the batch.
    assert len(problems.ids) == 2
    assert (problems.ids[num_problems - 1 :] == problems.ids[-1]).all()
    ids = [*task.completion_ids("+ 3 7 ;")[:-1], *task.completion_ids("ANS 7")]
    step_ids = np.repeat([0, 1], [4, len(ids) - 4])
    one = np.ones((num_problems, 1), int)
    samples = forest.Samples(
      problems=np.arange(num_problems),
      completions=one * np.array(ids),
      lengths=np.full(num_problems, len(ids)),
      log_probs=np.zeros((num_problems, len(ids)), np.float32),
      step_ids=one * step_ids,
      num_steps=np.full(num_problems, 2),
      step_scores=one * np.array([1, -1], np.float32),
      correct=np.zeros(num_problems, np.int8),
      answer_ids=np.zeros(num_problems, int),
      parents=np.full(num_problems, -1),
      num_shared=np.zeros(num_problems, int),
    )
    super().__init__(samples, max_steps=2)
    self.problems, self.tokens, self.unjudged = problems, 10, num_problems

  def sample(self, rows, steps, count):
    raise NotImplementedError


@pytest.fixture
def loaded(monkeypatch):
  monkeypatch.setattr(policy_forest, "PolicyForest", FakeForest)
  return python.SimpleNamespace(
    task=TASK, policy="policy", params="params", step=5
  )


def test_problems_are_labelled_in_batches(loaded, tmp_path):
  """Three problems in batches of two, in a new folder."""
  folder, calls = epath.Path(tmp_path) / "a" / "b", []
  record = label.run(SETTINGS, loaded, folder, calls.append)
  assert calls == [2, 3]
  content = (folder / "labels.jsonl").read_bytes()
  written = [json.loads(text) for text in content.splitlines()]
  problems = label.training_lines.distinct_problems(
    TASK, prng_keys.from_seed(3), 3
  )
  prompts = TASK.prompt_texts(jax.tree.map(np.asarray, problems))
  assert [line["prompt"] for line in written] == list(prompts)
  assert [line["labels"] for line in written] == [[1, 0]] * 3
  assert record == json.loads((folder / "label.json").read_text())
  assert record.pop("settings")["problems"] == 3
  assert record == {
    "policy_step": 5,
    "is_complete": True,
    "problems": 3,
    "lines": 3,
    "bytes": len(content),
    "tokens": 20,
    "unjudged": 3,
    "steps": 6,
    "sum": 3.0,
  }
  # Nothing is left to do.
  label.run(SETTINGS, loaded, folder, calls.append)
  assert calls == [2, 3]


def stop(done):
  raise KeyboardInterrupt


def test_an_older_record_is_continued(loaded, tmp_path):
  """A record of before judges has no number of unjudged samples."""
  folder = epath.Path(tmp_path)
  with pytest.raises(KeyboardInterrupt):
    label.run(SETTINGS, loaded, folder, stop)
  record = label.read_record(folder)
  assert (record["problems"], record["is_complete"]) == (2, False)
  assert record.pop("unjudged") == 2
  (folder / "label.json").write_text(json.dumps(record))
  calls = []
  record = label.run(SETTINGS, loaded, folder, calls.append)
  assert calls == [3]
  assert (record["unjudged"], record["lines"]) == (1, 3)
  # The lines that the record counts are needed.
  path = folder / "labels.jsonl"
  path.write_bytes(path.read_bytes()[:-1])
  with pytest.raises(ValueError, match="has lost lines"):
    label.run(SETTINGS, loaded, folder, calls.append)


def test_a_judge_is_asked_by_its_url_and_model(monkeypatch):
  monkeypatch.setenv("KEY", "secret")
  settings = label.dataclasses.replace(
    SETTINGS,
    source="judge",
    judge="http://localhost:1/v1",
    judge_model="m",
    judge_key="KEY",
  )
  endpoints = []
  monkeypatch.setattr(
    label.llm_judge, "Endpoint", lambda *words: endpoints.append(words)
  )
  assert settings.make_judge() is not None
  assert endpoints == [("http://localhost:1/v1", "m", "KEY")]


def test_one_of_two_sources_may_ask_a_judge(tmp_path):
  """The potentials are from a judge that is not named."""
  settings = label.dataclasses.replace(SETTINGS, potentials="judge")
  with pytest.raises(ValueError, match="asks a judge; name the URL"):
    label.check_settings(settings, epath.Path(tmp_path))


def test_labels_of_other_settings_are_refused(loaded, tmp_path):
  folder = epath.Path(tmp_path)
  label.run(SETTINGS, loaded, folder, lambda done: None)
  label.check_settings(SETTINGS, folder)
  other = label.dataclasses.replace(SETTINGS, batch=4)
  with pytest.raises(ValueError, match=r"with batch = 2 \(now 4\); use"):
    label.check_settings(other, folder)
