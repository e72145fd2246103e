"""A fitted process reward model scores, and pays, the samples of a run."""

import dataclasses
import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import fitted_model, worked_example

from experiments import tasks
from experiments.configs import defaults
from experiments.evaluation import policy_loader
from experiments.logging import json_files
from experiments.training import (
  build,
  checkpointing,
  initial_state,
  iteration,
  placement,
  reward_models,
)
from experiments.training_run import loop, validate
from rewards import base
from rewards.process import step_losses, step_model
from rl import method_loss, methods, training_state

TASK = "chain(operations=1)"
NEED = base.model_scores("prm")


def write_model(workdir, loss="bce", vocab_size=0):
  """Writes a model of the policy's size; returns the model and parameters."""
  config = defaults.rl()
  config.task, config.model = TASK, defaults.model(**fitted_model.TINY)
  config.model.vocab_size = vocab_size
  decoder = build.build(config, jax.devices()[:1]).model
  return fitted_model.write(workdir, decoder, loss)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
  """Returns a workdir, the model that it has, and its parameters."""
  workdir = tmp_path_factory.mktemp("prm")
  return workdir, *write_model(workdir)


def make_config(workdir, labels="", **keys):
  config = defaults.rl(steps=4)
  config.task, config.model = TASK, defaults.model(**fitted_model.TINY)
  config.method = "sum_form()"
  config.step_reward = "model_steps(model='prm')"
  config.models.prm = defaults.reward_model(str(workdir))
  config.models.prm.labels = labels
  config.rollout.prompts, config.rollout.samples = 4, 4
  config.evaluation.problems = config.evaluation.batch = 4
  config.evaluation.samples = 2
  config.sinks = ()
  for name, value in keys.items():
    config[name] = value
  return config


def run(config, folder, devices=1):
  e = validate.check_and_build(config, folder, devices=jax.devices()[:devices])
  loop.run(e, folder)
  return e, json_files.read(folder / "metrics.jsonl")


def start(e, folder):
  """Returns the state at step 0 of an experiment."""
  with checkpointing.Checkpoints(folder / "none") as checkpoints:
    return initial_state.restore_or_initialise(e, folder, checkpoints)


def test_the_model_pays_the_run(fitted, tmp_path):
  """The reward of a step is what the model computes for it, and no other."""
  workdir, model, params = fitted
  e = validate.check_and_build(
    make_config(workdir), tmp_path, devices=jax.devices()[:1]
  )
  state = start(e, tmp_path)
  rollout = iteration.compile_rollout_fn(e)(state)
  expected = model.scores(params, step_model.of_rollout(rollout))
  scores = rollout.extras[NEED]
  np.testing.assert_allclose(scores, expected, atol=1e-5)
  assert np.unique(np.asarray(scores)[np.asarray(rollout.step_mask)]).size > 8
  in_parts = reward_models.add_scores(e.reward_models, state, rollout, 2)
  np.testing.assert_allclose(in_parts.extras[NEED], expected, atol=1e-5)
  batch, _, _ = method_loss.prepare(
    e.method, rollout, state.policy.method_state
  )
  np.testing.assert_array_equal(batch.rollout.step_scores, scores)
  # The task's own scores remain in the rollout, as the gold score.
  assert set(np.unique(rollout.step_scores)) <= {-1.0, 0.0, 1.0}
  # Another model pays other rewards.
  other = jax.tree.map(lambda x: -x, params["head"])
  models = {"prm": {**params, "head": other}}
  again = iteration.compile_rollout_fn(e)(state.with_carried(models=models))
  np.testing.assert_array_equal(again.tokens.completions, rollout.completions)
  assert np.abs(again.extras[NEED] - scores).max() > 0.1


def test_metrics_compare_the_model_with_the_task():
  """Two samples with two steps and one, by hand."""
  rollout = build.build(
    make_config_without_model(), jax.devices()[:1]
  ).abstract_rollout
  rollout = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), rollout)
  scores = jnp.full(rollout.step_mask.shape, 9.0)  # 9: no step
  task_scores, mask = scores, jnp.zeros(scores.shape, bool)
  scores = scores.at[0, 0, :2].set(jnp.array([0.5, -0.3]))
  task_scores = task_scores.at[0, 0, :2].set(jnp.array([1.0, 1.0]))
  scores = scores.at[0, 1, 0].set(0.05)
  task_scores = task_scores.at[0, 1, 0].set(-1.0)
  mask = mask.at[0, 0, :2].set(True).at[0, 1, 0].set(True)
  rollout = rollout.replace(
    step_scores=task_scores,
    step_mask=mask,
    sample_mask=jnp.ones_like(rollout.sample_mask),
    extras=rollout.extras.update({str(NEED): scores}),
  )
  # Three tokens of a prompt, and five of a completion, two of which are words.
  tokens = rollout.tokens
  rollout = rollout.replace(
    tokens=tokens.replace(
      prompt_mask=tokens.prompt_mask.at[1, 1:].set(True),
      completions=tokens.completions.at[2, 3, :5].set(
        jnp.array([1, 8, 9, 2, 3])
      ),
      lengths=tokens.lengths.at[2, 3].set(5),
    )
  )
  reader = step_model.StepModel(None, None, None, left_out=(8, 9))
  model = reward_models.RewardModel(None, reader, None, threshold=0.1)
  logged = reward_models.metrics("prm", model, rollout)
  assert logged["prm/score"] == pytest.approx(0.25 / 3)
  assert logged["prm/task_score"] == pytest.approx(1 / 3)
  assert logged["prm/worst"] == pytest.approx(-0.125)
  assert logged["prm/task_worst"] == pytest.approx(0.0)
  assert logged["cost/prm_tokens"] == 3 + 3
  # 0.5 and 1 agree, -0.3 and 1 do not, 0.05 (below .1) and -1 do.
  assert logged["prm/accuracy"] == pytest.approx(2 / 3)


def make_config_without_model():
  config = make_config("")
  config.models, config.step_reward = {}, ""
  return config


def test_labels_of_the_task_and_of_the_verdict():
  """0 is no judgement of the task, and -1 no verdict."""
  e = build.build(make_config_without_model(), jax.devices()[:1])
  rollout = jax.tree.map(
    lambda x: jnp.zeros(x.shape, x.dtype), e.abstract_rollout
  )
  scores = jnp.array([1.0, -1.0, 0.0, jnp.nan])
  scores = rollout.step_scores.at[0, 0, :4].set(scores)
  correct = rollout.correct.at[0, :3].set(jnp.array([1, 0, -1], jnp.int8))
  rollout = rollout.replace(step_scores=scores, correct=correct)
  labels, weights = reward_models.task_labels(rollout)
  np.testing.assert_array_equal(labels[0, 0, :4], [1, 0, 0, 0])
  np.testing.assert_array_equal(weights[0, 0, :4], [1, 1, 0, 0])
  labels, weights = reward_models.verdict_labels(rollout)
  np.testing.assert_array_equal(labels[0, :3, 0], [1, 0, 0])
  np.testing.assert_array_equal(weights[0, :3, 0], [1, 1, 0])
  assert labels.shape == rollout.step_mask.shape


def labelled_rollout():
  """Two prompts with two samples of two steps; one sample has no score."""
  rollout = worked_example.rollout(
    np.zeros((2, 2)),
    [[2, 1], [2, 2]],
    correct=[[1, 0], [1, 0]],
    step_ids=np.array([[[0, 1], [0, -1]], [[0, 1], [0, 1]]]),
    step_mask=np.array([[[1, 1], [1, 0]], [[1, 1], [1, 1]]], bool),
    sample_mask=np.array([[True, True], [True, False]]),
  )
  scores = np.array([[[1, -1], [1, 1]], [[-1, 0], [1, 1]]], np.float32)
  return rollout.replace(step_scores=scores)


def linear_model(factor=1.0):
  """A model whose loss is its parameter times a mean over labelled steps.

  A right step counts 2, a wrong one -1, and every verdict of a sample 10.
  """

  def count(part):
    return part.weights.sum()

  def loss(outputs, part):
    steps = (part.weights * (3 * part.values - 1)).sum()
    total = steps + 10 * part.correct.sum()
    return factor * outputs * total / jnp.maximum(count(part), 1)

  reader = types.SimpleNamespace(
    filter_text=lambda data: data,
    outputs=lambda params, part: (params["w"], None),
    loss=types.SimpleNamespace(loss=loss, count=count),
  )
  return reward_models.RewardModel(
    None, reader, None, 0.5, labels="task", tx=optax.sgd(0.5)
  )


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
  ("factor", "labelled"), [(1.0, True), (1.0, False), (np.nan, True)]
)
def test_an_update_learns_from_the_steps_and_samples_that_exist(
  factor, labelled, parts
):
  """The number of slices changes nothing, though they have 3 and 1 labels."""
  model = linear_model(factor)
  rollout = labelled_rollout()
  if not labelled:
    rollout = rollout.replace(step_scores=0 * rollout.step_scores)
  params = {"w": np.float32(2)}
  state = training_state.Learner(params, model.tx.init(params))
  update = jax.jit(
    lambda state, rollout: reward_models._update_one(
      model, state, rollout, parts
    )
  )
  updated, loss = update(state, rollout)
  # The first prompt has right steps 2 + 2, a wrong one, and one right verdict:
  # 4 - 1 + 10. The second has a wrong step, one verdict that is right, and one
  # that is unknown, -1: -1 + 10 - 10. Four steps have a label.
  mean = (13 - 1) / 4 if labelled else 0
  np.testing.assert_allclose(loss, factor * 2 * mean)
  # A gradient that is not finite changes nothing.
  expected = 2 if np.isnan(factor) else 2 - 0.5 * mean
  np.testing.assert_allclose(updated.params["w"], expected)


@pytest.mark.parametrize("every", [None, 1, 2, 3])
def test_an_update_is_due_at_every_so_many_steps(every, monkeypatch):
  """A model is trained in every step unless it says otherwise."""
  monkeypatch.setattr(
    reward_models,
    "_update_one",
    lambda model, old, rollout, parts: (old + parts, jnp.float32(0.5)),
  )
  monkeypatch.setattr(
    reward_models, "metrics", lambda name, model, rollout: {f"{name}/seen": 1}
  )
  trained = linear_model()
  if every is not None:
    trained = dataclasses.replace(trained, every=every)
  models = {"prm": trained, "frozen": dataclasses.replace(trained, tx=None)}
  due = []
  for number in range(6):
    state = types.SimpleNamespace(
      step=jnp.int32(number), learners={"prm": jnp.int32(1), "policy": 7}
    )
    states, logged = reward_models.update(models, state, None, 10)
    assert list(states) == ["prm"]
    assert logged["prm/seen"] == logged["frozen/seen"] == 1
    assert "frozen/loss" not in logged
    is_due = int(states["prm"]) == 11
    assert is_due or int(states["prm"]) == 1
    np.testing.assert_equal(
      float(logged["prm/loss"]), 0.5 if is_due else np.nan
    )
    if is_due:
      due.append(number + 1)
  assert due == list(range(every or 1, 7, every or 1))


def test_gradients_are_clipped_and_the_reference_does_not_change():
  """Two updates of Adam with b1 = 0.9 and b2 = 0.98, the first one clipped."""
  tx = reward_models.optimizer(0.1)
  params = {
    "head": np.zeros(2, np.float32),
    "reference": np.ones(2, np.float32),
  }
  state = tx.init(params)
  m = v = np.zeros(2)
  for number, grad in enumerate(([6.0, 8.0], [0.3, -0.4]), 1):
    grad = np.array(grad, np.float32)
    changes, state = tx.update({"head": grad, "reference": 9 * grad}, state)
    clipped = grad / max(np.linalg.norm(grad), 1.0)
    m, v = 0.9 * m + 0.1 * clipped, 0.98 * v + 0.02 * clipped**2
    mean, variance = m / (1 - 0.9**number), v / (1 - 0.98**number)
    np.testing.assert_allclose(
      changes["head"], -0.1 * mean / np.sqrt(variance), rtol=1e-4
    )
    np.testing.assert_array_equal(changes["reference"], [0, 0])


def test_a_loss_with_work_on_the_host_cannot_learn_in_a_run():
  for labels in reward_models.LABELS:
    reward_models._check_trainable("prm", labels, step_losses.get("bce"))
  for name in ("hierarchical", "token_value", "bradley_terry", "preference"):
    with pytest.raises(ValueError, match="selects its examples on the host"):
      reward_models._check_trainable("prm", "verdict", step_losses.get(name))
  with pytest.raises(ValueError, match="selects its examples on the host"):
    reward_models._check_trainable(
      "prm", "verdict", step_losses.get("implicit", kind="kto")
    )


@pytest.mark.parametrize(
  ("context", "splits"), [(None, False), (1, False), (2, True)]
)
def test_a_model_splits_sequences_as_the_mesh_does(
  context, splits, fitted, monkeypatch
):
  seen = []
  choose = reward_models.decoder.choose_fast_forms

  def choose_fast_forms(model, *, splits_sequences):
    seen.append(splits_sequences)
    return choose(model)

  monkeypatch.setattr(
    reward_models.decoder, "choose_fast_forms", choose_fast_forms
  )
  config = make_config(fitted[0])
  config.mesh.context = context
  reward_models.make(config)
  model = reward_models.read(fitted[0])
  assert seen == [splits, False]
  with pytest.raises(dataclasses.FrozenInstanceError):
    model.threshold = 0.0


def test_a_frozen_model_is_read_again_and_not_saved(fitted, tmp_path):
  workdir, _, params = fitted
  complete = tmp_path / "complete"
  e, metrics = run(make_config(workdir), complete)
  assert len(metrics) == 4
  assert {"prm/score", "prm/task_score", "cost/prm_tokens"} <= metrics[0].keys()
  assert "prm/loss" not in metrics[0]
  resumed = tmp_path / "resumed"
  run(make_config(workdir, steps=2), resumed)
  _, again = run(make_config(workdir), resumed)
  for line, expected in zip(again, metrics, strict=True):
    for name in ("loss/total", "prm/score", "prm/worst", "prm/accuracy"):
      assert line[name] == expected[name], name
  with checkpointing.Checkpoints(resumed / "checkpoints") as checkpoints:
    state, _ = checkpoints.restore(placement.abstract_state(e).saved_part())
    assert state.carried.models == {}
    assert list(state.learners) == ["policy"]
    state = initial_state.restore_or_initialise(e, resumed, checkpoints)
  jax.tree.map(
    np.testing.assert_array_equal, state.carried.models["prm"], params
  )


def test_a_trained_model_learns_the_labels_and_resumes(fitted, tmp_path):
  """Its loss falls, and its updates are due in every second step."""
  workdir, _, params = fitted

  def config(**keys):
    result = make_config(workdir, "task", **keys)
    result.models.prm.every, result.models.prm.learning_rate = 2, 3e-2
    return result

  e, metrics = run(config(steps=12), tmp_path / "complete")
  losses = [float(line["prm/loss"]) for line in metrics]  # "NaN" is a text
  assert np.isnan(losses[::2]).all()
  assert losses[-1] < losses[1]
  assert metrics[-1]["prm/accuracy"] > metrics[0]["prm/accuracy"]
  run(config(steps=5), tmp_path / "resumed")
  _, again = run(config(steps=12), tmp_path / "resumed")
  assert [line["prm/loss"] for line in again[1::2]] == losses[1::2]
  state = start(e, tmp_path)
  jax.tree.map(
    np.testing.assert_array_equal, state.learners["prm"].params, params
  )


@pytest.mark.several_devices
def test_the_fused_loop_and_a_mesh_have_the_same_scores(fitted, tmp_path):
  workdir = fitted[0]
  _, expected = run(make_config(workdir, "verdict"), tmp_path / "one")
  fused = make_config(workdir, "verdict", steps_per_dispatch=2)
  _, lines = run(fused, tmp_path / "fused")
  split = make_config(workdir, "verdict")
  split.mesh.fsdp, split.mesh.data = 2, 1
  _, split_lines = run(split, tmp_path / "split", devices=2)
  for name in ("prm/score", "prm/worst", "prm/loss", "loss/total"):
    values = [line[name] for line in expected]
    assert np.isfinite(values).all()
    for others in (lines, split_lines):
      np.testing.assert_allclose(
        [line[name] for line in others], values, atol=2e-5, err_msg=name
      )


def test_a_policy_is_loaded_without_its_model(tmp_path):
  model = tmp_path / "prm"
  model.mkdir()
  write_model(model)
  run(make_config(model, steps=1), tmp_path / "run")
  shutil.rmtree(model)
  loaded = policy_loader.load_from_run(tmp_path / "run", None, {}, 1)
  assert loaded.step == 1


def test_a_frozen_model_with_a_reference_pays(tmp_path):
  _, params = write_model(tmp_path, "implicit(kind='ce')")
  # Log-ratios are 0 while both decoders are the same.
  other = jax.tree.map(lambda x: 1.5 * x, params["decoder"])
  e = build.build(make_config(tmp_path), jax.devices()[:1])
  state = start(e, tmp_path)
  scores = iteration.compile_rollout_fn(e)(state).extras[NEED]
  np.testing.assert_allclose(scores, 0, atol=1e-6)
  models = {"prm": {**params, "decoder": other}}
  rollout = iteration.compile_rollout_fn(e)(state.with_carried(models=models))
  assert np.abs(rollout.extras[NEED]).max() > 1e-3


def test_a_model_can_be_watched_without_paying(fitted, tmp_path):
  config = make_config(fitted[0], steps=1)
  config.method, config.step_reward = "grpo(beta=0.0)", ""
  _, metrics = run(config, tmp_path)
  assert np.isfinite(metrics[0]["prm/score"])
  assert np.isfinite(metrics[0]["prm/task_score"])


@pytest.mark.parametrize(
  ("change", "expected"),
  [
    ({"labels": "tasks"}, "did you mean 'task'"),
    ({"every": 0}, "models.prm.every = 0 must be at least 1"),
    ({"labels": "task", "learning_rate": 0.0}, "learning_rate = 0.0"),
    ({"workdir": "/no/such/prm"}, "/no/such/prm has no fitted model"),
    ({"worker": 1}, "did you mean 'workdir'"),
  ],
)
def test_wrong_settings_are_refused(change, expected, fitted):
  config = make_config(fitted[0])
  for name, value in change.items():
    config.models.prm[name] = value
  with pytest.raises((ValueError, FileNotFoundError), match=expected):
    validate.check_and_build(config, devices=jax.devices()[:1])


def test_a_model_of_other_tokens_is_refused(fitted):
  config = make_config(fitted[0])
  config.model.vocab_size = 64
  with pytest.raises(ValueError, match="and the policy 64; fit it on"):
    validate.check_and_build(config, devices=jax.devices()[:1])


def test_a_task_without_steps_is_refused(tmp_path):
  write_model(tmp_path, vocab_size=tasks.get("countdown").vocab_size)
  config = make_config(tmp_path)
  config.task, config.method = "countdown(count=2)", "grpo()"
  with pytest.raises(ValueError, match="does not divide completions"):
    validate.check_and_build(config, devices=jax.devices()[:1])


def test_a_reward_of_a_missing_model_is_refused(fitted):
  config = make_config(fitted[0])
  config.step_reward = "model_steps(model='prn')"
  with pytest.raises(ValueError, match=r"model/prn.*config\.models"):
    validate.check_and_build(config, devices=jax.devices()[:1])


@pytest.mark.parametrize(
  ("loss", "labels", "expected"),
  [
    ("implicit(kind='dpo')", "verdict", "selects its examples on the host"),
    ("attribution", "task", "reads no labels of steps; nearest: 'verdict'"),
    ("dual_head", "task", "learns from potentials"),
  ],
)
def test_a_loss_that_cannot_learn_in_a_run_is_refused(
  loss, labels, expected, tmp_path
):
  write_model(tmp_path, loss)
  config = make_config(tmp_path, labels)
  with pytest.raises(ValueError, match=expected):
    validate.check_and_build(config, devices=jax.devices()[:1])


METHODS = {"policy": methods.get("rloo")}


def test_a_reward_model_learns_at_most_in_every_step():
  settings = defaults.reward_model("none")
  reward_models.check({"prm": settings}, METHODS)
  settings.learning_rate = 0.0
  with pytest.raises(ValueError, match=r"models.prm.learning_rate = 0.0 must"):
    reward_models.check({"prm": settings}, METHODS)


def test_a_model_learns_from_step_scores_that_exist():
  table = types.SimpleNamespace(shape=(64, 16))
  model = types.SimpleNamespace(
    shapes={"decoder": {"embed": {"table": table}}}, labels="task"
  )
  task = types.SimpleNamespace(name="flat")
  rollout = types.SimpleNamespace(step_scores=None)
  with pytest.raises(ValueError, match="'task': flat does not score steps"):
    reward_models.check_fit({"prm": model}, task, 64, None, rollout)


@pytest.mark.parametrize("name", ["policy", "old", "ref", "prm"])
def test_a_model_has_a_name_beside_those_of_the_method(name):
  """The state keeps models, learners and parameter sets by their names."""
  methods_of_prime = methods.get("prime")
  settings = defaults.reward_model("none")
  with pytest.raises(ValueError, match=f"models.{name}: prime.* {name}_model"):
    reward_models.check({name: settings}, methods_of_prime)
  reward_models.check({f"{name}_model": settings}, methods_of_prime)
