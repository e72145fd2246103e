"""A workdir is that of one config and of the same data."""

import dataclasses
import json

import jax.numpy as jnp
import ml_collections
import pytest
from helpers import small_run
from orbax.checkpoint import checkpoint_manager as orbax

from experiments import tasks
from experiments.configs import countdown, defaults
from experiments.training import build, checkpointing, preemption, workdirs
from experiments.training_run import validate


def _config(**changes):
  return small_run.config(**{"steps": 40, **changes})


def _edit(workdir, edit):
  """Changes the values of `config.json`, as another version has written it."""
  path = workdir / "config.json"
  values = json.loads(path.read_text())
  edit(values)
  path.write_text(json.dumps(values))


def test_a_run_goes_on_with_its_config_and_other_lengths(tmp_path):
  workdirs.check_config(tmp_path / "new", _config())
  assert not (tmp_path / "new").exists()
  workdirs.write_config(tmp_path, _config())
  workdirs.check_config(tmp_path, _config())
  workdirs.check_config(tmp_path, _config(steps=80, log_every=10))


def _forget(values):
  """Removes keys of the root and of blocks, as if they were newer."""
  del values["stop_after_skips"], values["policy"], values["cpu_devices"]
  del values["evaluation"]["rows"], values["base"]["evaluation"]["seed"]
  del values["base"]["optimizer"]["decay_steps"]
  del values["step_reward"]
  del values["judge"]["retries"], values["models"]["prm"]["every"]


def test_keys_that_are_newer_than_a_run_have_their_defaults(tmp_path):
  config = countdown.max_at_k()
  config.base.steps = 70
  config.reward = "length_charge()"
  with config.unlocked():
    config.judge = defaults.judge("http://x", "y", quality="grade()")
  config.models.prm = defaults.reward_model("runs/prm")
  workdirs.write_config(tmp_path, config)
  _edit(tmp_path, _forget)
  workdirs.check_config(tmp_path, config)
  assert workdirs.read_config(tmp_path).to_dict() == config.to_dict()
  values = workdirs.read_config(tmp_path)
  assert values.base.optimizer.decay_steps == 70


@pytest.mark.parametrize(
  ("key", "value", "message"),
  [
    ("stop_after_skips", 3, None),  # it may differ
    ("policy.path", "x", 'policy.path is "" there, "x" here'),
    ("evaluation.rows", 2, "evaluation.rows is 0 there, 2 here"),
    ("base.evaluation.seed", 1, "base.evaluation.seed is 0 there, 1 here"),
  ],
)
def test_a_newer_key_with_another_value_is_refused(
  tmp_path, key, value, message
):
  config = countdown.max_at_k()
  workdirs.write_config(tmp_path, config)
  config.update_from_flattened_dict({key: value})
  *blocks, name = key.split(".")

  def forget(values):
    for block in blocks:
      values = values[block]
    del values[name]

  _edit(tmp_path, forget)
  if message is None:
    workdirs.check_config(tmp_path, config)
    return
  with pytest.raises(ValueError, match="another config") as error:
    workdirs.check_config(tmp_path, config)
  assert message in str(error.value)


def test_a_key_that_no_longer_exists_is_named_with_what_to_do(tmp_path):
  config = _config(base=defaults.supervised())
  workdirs.write_config(tmp_path, config)
  _edit(tmp_path, lambda values: values["base"]["rollout"].update(sampels=4))
  for read in (
    workdirs.read_config,
    lambda workdir: workdirs.check_config(workdir, config),
  ):
    with pytest.raises(
      ValueError, match="version of the code does not"
    ) as error:
      read(tmp_path)
    for part in (
      str(tmp_path / "config.json"),
      "config.base.rollout 'sampels'; did you mean 'samples'",
      "or delete it if the run did not depend on it",
    ):
      assert part in str(error.value)
  _edit(tmp_path, lambda values: values["base"]["rollout"].pop("sampels"))
  workdirs.check_config(tmp_path, config)


def test_a_run_with_a_base_goes_on_on_other_devices(tmp_path):
  config = countdown.max_at_k()
  workdirs.write_config(tmp_path, config)
  config.cpu_devices = 2
  config.mesh.data, config.mesh.fsdp = 1, 2
  assert config.base.cpu_devices == 2
  workdirs.check_config(tmp_path, config)
  # What the base learned from is fixed.
  config.base.rollout.prompts *= 2
  with pytest.raises(ValueError, match=r"base\.rollout\.prompts is") as error:
    workdirs.check_config(tmp_path, config)
  assert "cpu_devices, base.mesh, base.cpu_devices may change" in str(
    error.value
  )


def test_a_key_that_only_begins_like_another_may_not_change(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(workdirs, "MAY_DIFFER", ("see", "evaluation.sam"))
  workdirs.write_config(tmp_path, _config())
  other = _config(seed=1, evaluation__samples=3)
  with pytest.raises(ValueError, match="another config") as error:
    workdirs.check_config(tmp_path, other)
  assert "evaluation.samples is 2 there, 3 here; seed is 0" in str(error.value)


def test_a_model_that_no_run_made_is_no_runs_workdir(tmp_path):
  (tmp_path / "imported" / "checkpoints").mkdir(parents=True)
  with pytest.raises(ValueError, match=r"init_from=.*imported in another"):
    workdirs.check_config(tmp_path / "imported", _config())


def test_another_config_is_refused_with_both_values(tmp_path):
  workdirs.write_config(tmp_path, _config())
  before = (tmp_path / "config.json").read_bytes()
  other = _config(seed=1, init_from="x", method="max_at_k")
  with pytest.raises(ValueError, match="was made with another config") as error:
    workdirs.check_config(tmp_path, other)
  for part in (
    'init_from is "" there, "x" here',
    'method is "grpo(beta=0.0)" there, "max_at_k" here',
    "seed is 0 there, 1 here",
  ):
    assert part in str(error.value)
  assert "\n" not in str(error.value)
  assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize("text", ['{"steps": 40,\n', "[]", ""])
def test_a_config_that_was_cut_off_is_named(tmp_path, text):
  (tmp_path / "config.json").write_text(text)
  for read in (
    workdirs.read_config,
    lambda w: workdirs.check_config(w, _config()),
  ):
    with pytest.raises(
      ValueError, match=r"config\.json is no config: "
    ) as error:
      read(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_another_projects_config_is_no_run(tmp_path):
  (tmp_path / "config.json").write_text('{"kind": "rl", "model_type": "llama"}')
  with pytest.raises(ValueError, match=r"config.json is not the config of a r"):
    workdirs.read_config(tmp_path)


def test_a_second_watch_counts_on_and_orbax_asks_nothing(tmp_path, monkeypatch):
  """JAX has one count of how often a process asked whether it must end."""
  requested = []
  monkeypatch.setattr(preemption.jax, "process_count", lambda: 2)
  monkeypatch.setattr(
    preemption.multihost_utils,
    "reached_preemption_sync_point",
    lambda number: requested.append(number) or False,
  )
  for _ in range(2):
    watch = preemption.Watch()
    watch.check()
    watch.check()
  assert requested == list(range(requested[0], requested[0] + 4))
  monkeypatch.undo()
  with checkpointing.Checkpoints(tmp_path / "c") as checkpoints:
    monkeypatch.setattr(orbax.utils, "reached_preemption", requested.append)
    assert checkpoints.save(7, {"params": jnp.zeros(2)}, {})
  assert len(requested) == 4


def test_a_run_whose_data_have_changed_is_refused(tmp_path):
  data = {"tokenizer": "a", "problems": "b"}
  workdirs.check_fingerprints(tmp_path, data)  # not begun
  workdirs.write_fingerprints(tmp_path, data)
  workdirs.check_fingerprints(tmp_path, data)
  with pytest.raises(ValueError, match="the problems of the task, changed"):
    workdirs.check_fingerprints(tmp_path, {**data, "problems": "c"})
  other = {**data, "tokenizer": "c"}
  with pytest.raises(ValueError, match="its token ids mean other texts"):
    workdirs.check_fingerprints(tmp_path, other)
  workdirs.check_fingerprints(tmp_path, other, names=("problems",))
  # The first ones stay.
  workdirs.write_fingerprints(tmp_path, other)
  workdirs.check_fingerprints(tmp_path, data)
  with pytest.raises(ValueError, match="the problems of the task, changed"):
    workdirs.check_fingerprints(tmp_path, {"tokenizer": "a"})


def test_the_fingerprints_of_a_text_task_follow_its_file(tmp_path):
  """Another row trains another BPE of the same size, and ids change."""
  file = tmp_path / "rows.jsonl"
  rows = [
    {"prompt": f"Add {i} and {i + 1}, please.", "answer": str(2 * i + 1)}
    for i in range(40)
  ]

  def fingerprints(rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = tasks.get(
      "jsonl", file=str(file), vocab_size=262, cache=str(tmp_path / "cache")
    )
    return task.vocab_size, dict(task.fingerprints)

  size, first = fingerprints(rows)
  assert set(first) == {"tokenizer", "problems"}
  assert fingerprints(rows) == (size, first)
  zebras = [{"prompt": f"{i} zebras " * 20, "answer": "z"} for i in range(9)]
  more = [*rows, *zebras]
  size_of_more, second = fingerprints(more)
  assert size_of_more == size
  assert not set(first.items()) & set(second.items())
  # Another answer changes the problems alone, with the same tokenizer.
  changed = [{**row, "answer": row["answer"][::-1]} for row in rows]
  task = tasks.get(
    "jsonl",
    file=str(file),
    tokenizer=str(next((tmp_path / "cache").glob("tokenizer-*"))),
    cache=str(tmp_path / "cache"),
  )
  file.write_text("".join(json.dumps(row) + "\n" for row in changed))
  again = tasks.get(
    "jsonl",
    file=str(file),
    tokenizer=str(next((tmp_path / "cache").glob("tokenizer-*"))),
    cache=str(tmp_path / "cache"),
  )
  assert task.fingerprints["tokenizer"] == again.fingerprints["tokenizer"]
  assert task.fingerprints["problems"] != again.fingerprints["problems"]


def test_changed_data_are_found_before_a_run_goes_on(tmp_path):
  config = small_run.config()
  e = build.build(config)
  e = dataclasses.replace(
    e, task=dataclasses.replace(e.task, fingerprints={"tokenizer": "a"})
  )
  workdirs.write_fingerprints(tmp_path, e.fingerprints)
  validate.check_workdir(e, tmp_path)
  other = dataclasses.replace(
    e, task=dataclasses.replace(e.task, fingerprints={"tokenizer": "b"})
  )
  with pytest.raises(ValueError, match="was made with other data"):
    validate.check_workdir(other, tmp_path)


@pytest.mark.parametrize(
  ("count", "end"), [(3, "."), (4, "; 1 more."), (6, "; 3 more.")]
)
def test_three_differences_are_named_and_further_ones_counted(
  tmp_path, count, end
):
  workdirs.write_config(tmp_path, _config(learners={"a": 0}))
  keys = {str(i): i for i in range(count)}
  other = _config(learners={**keys, "a": 0})
  shown = "; ".join(f"learners.{i} is absent there, {i} here" for i in range(3))
  with pytest.raises(ValueError, match="another config") as error:
    workdirs.check_config(tmp_path, other)
  assert f"another config: {shown}{end} Use another" in str(error.value)


def test_files_of_a_workdir_are_indented_by_two_spaces(tmp_path):
  """People read and compare them, line by line."""
  workdirs.write_config(tmp_path, ml_collections.ConfigDict({"a": {"b": 1}}))
  text = (tmp_path / workdirs.CONFIG_FILE).read_text()
  assert text == '{\n  "a": {\n    "b": 1\n  }\n}\n'
  workdirs.write_fingerprints(tmp_path, {"texts": "x"})
  text = (tmp_path / workdirs.FINGERPRINTS_FILE).read_text()
  assert text == '{\n  "texts": "x"\n}\n'
  model = build.build(small_run.config()).model
  workdirs.write_model(tmp_path, model, "", "", stops=(1,))
  text = (tmp_path / workdirs.MODEL_FILE).read_text()
  assert text.startswith('{\n  "model": {\n    "')
  assert text.endswith('  "stops": [\n    1\n  ]\n}\n')
  assert workdirs.read_frozen_step(tmp_path) is None
