"""Tests of the command that trains a process reward model on labels."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.configs import chain, defaults
from experiments.prm import __main__ as command
from experiments.prm import fit, label, measure, reward, settings
from experiments.training import build, checkpointing, rollouts, workdirs
from models import checkpoint_reader
from rewards.process import labels, model
from rewards.process import metrics as step_metrics

pytestmark = pytest.mark.long

TINY = {
  "width": 16,
  "layers": 1,
  "heads": 2,
  "kv_heads": 2,
  "head_dim": 8,
  "mlp_width": 32,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """Returns the workdir of an untrained base policy: chains of 1 operation."""
  folder = tmp_path_factory.mktemp("base")
  config = chain.base()
  config.task = "chain(operations=1)"
  config.model = defaults.model(**TINY)
  workdirs.write_config(folder, config)
  params = build.build(config).init().params
  with checkpointing.Checkpoints(folder / checkpoint_reader.FOLDER) as saving:
    saving.save(0, {"params": params}, {})
  return folder


def small(base, kind, **changes):
  config = settings.default(kind, updates=6)
  config.init_from = str(base)
  config.base = {}
  config.problems, config.samples, config.batch = 12, 2, 4
  config.calibration = 4
  config.update({"continuations": 2, "prefixes": 16, "least": 1})
  config.checkpoint_every = 2
  config.evaluation.problems, config.evaluation.samples = 8, 4
  config.evaluation.batch, config.evaluation.ns = 8, (2, 4)
  config.update(changes)
  return config


def test_a_task_with_a_frozen_model_scores_steps_in_compiled_code(base):
  prepared = settings.prepare(small(base, "checker"), base / "none")
  e = prepared.base
  params = e.init().params
  trained = fit.start(prepared, params)["params"]
  scorer = fit.process_model(prepared)
  rollout_fns = {
    name: jax.jit(
      rollouts.make_rollout_fn(
        task, e.policy, label.sampling_settings(e.task, 3), 4
      )
    )
    for name, task in (
      ("task", e.task),
      ("model", reward.scored_by(e.task, scorer, trained)),
    )
  }
  by_task, by_model = (
    rollout_fns[name](e.init()) for name in ("task", "model")
  )
  mask = by_task.step_mask
  want = model.score_rollout(scorer, trained, by_task)
  np.testing.assert_allclose(by_model.step_scores, want.step_scores, atol=1e-6)
  assert (jnp.abs(by_model.step_scores) < 1).all()
  assert (by_model.step_scores[~mask] == 0).all()
  assert (by_model.step_scores[mask] != by_task.step_scores[mask]).all()
  np.testing.assert_array_equal(by_model.correct, by_task.correct)
  with pytest.raises(ValueError, match="does not split"):
    model.score_rollout(scorer, trained, by_task.replace(step_ids=None))


@pytest.mark.parametrize("kind", settings.CHECKER_BY_SOURCE)
def test_the_command_end_to_end(kind, base, tmp_path):
  metrics = command.run(settings.prepare(small(base, kind), tmp_path))
  saved = json.loads((tmp_path / "metrics.json").read_text())
  assert saved == metrics
  assert saved["labels"] == kind
  if kind == "checker":  # labels from the checker itself contain every error
    assert saved["labels/erroneous"] == 1.0
  for rule in ("worst", "mean", "last"):
    best, uplift = (saved[f"{x}/{rule}@4"] for x in ("accuracy", "uplift"))
    assert best["low"] <= best["mean"] <= best["high"]
    assert uplift["mean"] == pytest.approx(
      best["mean"] - saved["accuracy/maj@4"]["mean"], abs=1e-6
    )
  params = checkpoint_reader.restore_params(tmp_path / checkpoint_reader.FOLDER)
  assert set(params) == {"decoder", "head"}
  assert checkpoint_reader.latest_step(tmp_path / checkpoint_reader.FOLDER) == 6


def test_a_killed_run_ends_as_an_uninterrupted_one(base, tmp_path, monkeypatch):
  """The run is killed after its second save; it is not labelled again."""
  monkeypatch.setattr(fit, "DISPATCH", 2)
  config = small(base, "binary_search")
  complete = command.run(settings.prepare(config, tmp_path / "complete"))
  save, saves = checkpointing.Checkpoints.save, []

  def save_twice(self, step, *args, **kwargs):
    if step > 4:
      raise KeyboardInterrupt
    saves.append(step)
    return save(self, step, *args, **kwargs)

  with monkeypatch.context() as patch:
    patch.setattr(checkpointing.Checkpoints, "save", save_twice)
    with pytest.raises(KeyboardInterrupt):
      command.run(settings.prepare(config, tmp_path / "killed"))
  assert saves == [2, 4]
  assert not (tmp_path / "killed" / "metrics.json").exists()
  with monkeypatch.context() as patch:
    patch.setattr(label, "label", None)  # a second call would be an error
    killed = command.run(settings.prepare(config, tmp_path / "killed"))
  for metrics in (complete, killed):
    for name in [n for n in metrics if n.startswith("time/")]:
      del metrics[name]
  assert killed == complete
  folders = [
    tmp_path / n / checkpoint_reader.FOLDER for n in ("complete", "killed")
  ]
  one, other = map(checkpoint_reader.restore_params, folders)
  jax.tree.map(np.testing.assert_array_equal, one, other)
  # The results of a finished run are read from its file.
  again = command.run(settings.prepare(config, tmp_path / "complete"))
  assert again["loss"] == complete["loss"]


def test_calibration_labels_change_the_threshold_and_no_parameter(
  base, tmp_path
):
  e = settings.prepare(small(base, "checker"), tmp_path)
  start = e.base.init().params
  key = jax.random.key(0)
  problems = e.base.task.train(key, 0, e.config.problems)
  rollout = label.sample(
    e.base.task, e.base.policy, start, problems, 2, key, 12
  )
  mask = rollout.step_mask.astype(jnp.float32)
  last = jnp.arange(e.config.problems) >= 8  # calibration = 4 of 12
  fitted, thresholds = [], []
  for flipped in (0.0, 1.0):
    bad = last[:, None] & (jnp.arange(2) == flipped)
    values = jnp.where(bad[..., None], 0.0, mask)
    some_labels = labels.Labels(values, mask)
    with checkpointing.Checkpoints(tmp_path / str(flipped)) as checkpoints:
      state, _ = fit.fit(
        e, fit.start(e, start), rollout, some_labels, checkpoints
      )
    fitted.append(state["params"])
    scored = measure.score(fit.process_model(e), fitted[0], rollout, 12)
    threshold = measure.calibrate(e, fitted[0], rollout, some_labels)
    first = step_metrics.first_error(values, rollout.step_mask, 0.5)
    thresholds.append(threshold)
    want = step_metrics.best_threshold(
      scored.step_scores[8:], rollout.step_mask[8:], first[8:]
    )
    assert threshold == pytest.approx(float(want), abs=1e-6)
  jax.tree.map(np.testing.assert_array_equal, *fitted)
  assert thresholds[0] != thresholds[1]


def test_too_few_problems_to_fit_are_refused(base, tmp_path):
  with pytest.raises(ValueError, match=r"batch = 9 .* the 8 problems.* = 4"):
    settings.prepare(small(base, "checker", batch=9), tmp_path)


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    (["--labels=monte_carl"], ["'monte_carl'", "did you mean 'monte_carlo'?"]),
    (["--steps=0"], ["updates = 0", "at least 1"]),
    (["--base=/no/such/run"], ["/no/such/run holds no run"]),
  ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
  arguments, expected, tmp_path, capsys
):
  assert command.main([*arguments, f"--workdir={tmp_path / 'run'}"]) == 2
  err = capsys.readouterr().err
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  for part in expected:
    assert part in err
  assert not list(tmp_path.iterdir())


def test_a_base_on_a_task_without_checkable_steps_is_refused(tmp_path):
  config = chain.base()
  config.task = "countdown(count=2)"
  workdirs.write_config(tmp_path, config)
  params = build.build(config).init().params
  with checkpointing.Checkpoints(tmp_path / checkpoint_reader.FOLDER) as saving:
    saving.save(0, {"params": params}, {})
  with pytest.raises(
    ValueError, match=r"'countdown'.*that was trained on 'chain'"
  ):
    settings.prepare(small(tmp_path, "checker"), tmp_path / "run")
