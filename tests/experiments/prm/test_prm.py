"""The commands that label steps, and fit and evaluate a model of them."""

import dataclasses
import http.server
import json
import shutil
import threading

import jax
import numpy as np
import pytest
from helpers import fitted_model, small_policy

from experiments.configs import chain, defaults
from experiments.evaluation import policy_loader
from experiments.prm import __main__ as command
from experiments.prm import evaluate, fit, label, step_lines
from experiments.training import build, checkpointing, placement, workdirs
from models import checkpoint_reader
from rewards.process import step_losses

FIT = ("--steps", "4", "--batch", "8")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """Returns the workdir of an untrained base policy: chains of 1 operation."""
  return save_base(tmp_path_factory.mktemp("base"), "chain(operations=1)")


def save_base(folder, task):
  """Writes the workdir of an untrained policy; returns it."""
  config = chain.base()
  config.task = task
  config.model = defaults.model(**fitted_model.TINY)
  config.evaluation.problems, config.evaluation.batch = 8, 8
  workdirs.write_config(folder, config)
  params = placement.init_state(build.build(config)).params
  with checkpointing.Checkpoints(folder / checkpoint_reader.FOLDER) as saving:
    saving.save(0, {"params": params}, {})
  return folder


@pytest.fixture(scope="module")
def loaded(base):
  return policy_loader.load_from_run(base, None, {}, cpu_devices=1)


@pytest.fixture(scope="module")
def labelled(base, tmp_path_factory):
  """Returns a workdir with labels of 24 problems."""
  folder = tmp_path_factory.mktemp("labelled")
  assert run_label(base, folder) == 0
  return folder


def no_report(done):
  """Takes the progress of a fit."""


def run_label(base, folder, *words):
  return command.main(
    [
      *("label", "--workdir", str(folder), "--policy", str(base)),
      *("--problems", "24", "--samples", "2", "--batch", "8"),
      *("--source", "checker", *words),
    ]
  )


def run(name, folder, *words):
  return command.main([name, "--workdir", str(folder), *words])


def test_label_fit_and_evaluate(labelled, capsys):
  record = json.loads((labelled / "label.json").read_text())
  lines = (labelled / "labels.jsonl").read_text().splitlines()
  assert record["lines"] == len(lines)
  assert record["tokens"] == 0  # the checker samples no continuations
  labels = [x for text in lines for x in json.loads(text)["labels"]]
  numbers = [x for x in labels if x is not None]
  assert record["steps"] == len(numbers)
  assert record["sum"] == sum(numbers)
  assert run("fit", labelled, *FIT) == 0
  fitted = json.loads((labelled / "fit.json").read_text())
  assert np.isfinite(fitted["loss"])
  assert fitted["examples"] + fitted["calibration_lines"] == len(lines)
  words = ("--problems", "8", "--samples", "4", "--batch", "8")
  assert run("evaluate", labelled, *words) == 0
  metrics = json.loads((labelled / "metrics.json").read_text())
  assert metrics["source"] == "checker"
  for rule in evaluate.RULES:
    best, uplift = (metrics[f"{x}/{rule}@2"] for x in ("accuracy", "uplift"))
    assert best["low"] <= best["mean"] <= best["high"]
    assert uplift["mean"] == pytest.approx(
      best["mean"] - metrics["accuracy/maj@2"]["mean"], abs=1e-6
    )
  assert "first_error/f1" in capsys.readouterr().out
  for text in ("step_beam(width=2, candidates=4)", "refine"):
    assert run("evaluate", labelled, *words, "--search", text) == 0
    searched = json.loads((labelled / "metrics.json").read_text())
    assert "accuracy/" + text.partition("(")[0] in searched
    # What does not come from the search is as before.
    assert metrics.items() <= searched.items()
    assert searched["search_tokens"]["mean"] > 0


def test_a_model_reads_maths_without_words(labelled, tmp_path, capsys):
  base = save_base(tmp_path / "base", "narrated_chain(operations=1)")
  folder = tmp_path / "prm"
  assert run_label(base, folder) == 0
  assert run("fit", folder, *FIT, "--text", "maths") == 0
  loaded = policy_loader.load_from_run(base, None, {}, cpu_devices=1)
  fitted = fit.load(folder, loaded)
  assert fitted.model.left_out == loaded.task.word_ids
  # The other words of a line change nothing.
  data = step_lines.read(folder / "labels.jsonl", loaded.task, 32).data
  is_word = np.isin(data.tokens.completions, loaded.task.word_ids)
  assert is_word.any()
  other = np.where(is_word, loaded.task.word_ids[0], data.tokens.completions)
  changed = data.replace(tokens=data.tokens.replace(completions=other))
  first, second = (
    fit.score(fitted.model, fitted.params, x) for x in (data, changed)
  )
  np.testing.assert_allclose(first, second, atol=1e-6)
  words = ("--problems", "8", "--samples", "4", "--batch", "8")
  assert run("evaluate", folder, *words) == 0
  capsys.readouterr()
  assert run("fit", folder, *FIT) == 2
  assert "text = 'maths' (now 'all')" in capsys.readouterr().err
  # A task without words, and a text that does not exist.
  shutil.copytree(labelled, tmp_path / "chain")
  (tmp_path / "chain" / "fit.json").unlink(missing_ok=True)
  assert run("fit", tmp_path / "chain", *FIT, "--text", "maths") == 2
  assert "does not tell words from maths" in capsys.readouterr().err
  assert run("fit", tmp_path / "chain", *FIT, "--text", "math") == 2
  assert "did you mean 'maths'?" in capsys.readouterr().err


def test_a_resumed_command_labels_the_rest(
  base, labelled, tmp_path, monkeypatch
):
  """The command is killed after the second of three batches."""
  done = []

  def update_twice(self, *arguments, **settings):
    done.append(arguments)
    if len(done) == 3:
      raise KeyboardInterrupt
    return make(self, *arguments, **settings)

  make = label.policy_forest.PolicyForest.__init__
  with monkeypatch.context() as patch:
    patch.setattr(label.policy_forest.PolicyForest, "__init__", update_twice)
    with pytest.raises(KeyboardInterrupt):
      run_label(base, tmp_path)
  assert json.loads((tmp_path / "label.json").read_text())["problems"] == 16
  # A line that was written after the last record does not count.
  with (tmp_path / "labels.jsonl").open("a") as file:
    file.write('{"prompt": "cut')
  assert run_label(base, tmp_path) == 0
  for name in ("labels.jsonl", "label.json"):
    assert (tmp_path / name).read_text() == (labelled / name).read_text()


def test_a_later_checkpoint_of_the_policy_changes_nothing(base, tmp_path):
  run_folder, folder = tmp_path / "run", tmp_path / "prm"
  shutil.copytree(base, run_folder)
  assert run_label(run_folder, folder) == 0
  checkpoints = run_folder / checkpoint_reader.FOLDER
  params = checkpoint_reader.restore_params(checkpoints)
  later = jax.tree.map(lambda x: x * 0, params)
  with checkpointing.Checkpoints(checkpoints, keep=2) as saving:
    saving.save(5, {"params": later}, {})
  assert run("fit", folder, *FIT) == 0
  assert json.loads((folder / "fit.json").read_text())["policy_step"] == 0
  fitted = fit.load(folder, policy_loader.load_from_run(run_folder, 0, {}, 1))
  embed = np.asarray(fitted.params["decoder"]["embed"]["table"])
  first = np.asarray(params["embed"]["table"])
  # Four updates move it little.
  assert np.abs(embed - first).max() < 0.1 * np.abs(first).max()


def test_potentials_are_labels_of_a_second_source(base, tmp_path):
  words = ("--potentials", "monte_carlo(continuations=2, soft=True)")
  assert run_label(base, tmp_path, *words) == 0
  first = json.loads((tmp_path / "labels.jsonl").read_text().splitlines()[0])
  assert len(first["potentials"]) == len(first["labels"])
  assert run("fit", tmp_path, *FIT, "--loss", "dual_head") == 0


class JudgeServer(http.server.BaseHTTPRequestHandler):
  """Calls the first step with a 5 wrong; cannot say if the question has a 7.

  The second request is refused once.
  """

  requests = 0

  def do_POST(self):
    type(self).requests += 1
    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    self.send_response(503 if type(self).requests == 2 else 200)
    self.end_headers()
    fields = json.loads(body["messages"][1]["content"])
    wrong = [int(n) for n, text in fields["steps"].items() if "5" in text]
    reply = json.dumps({"first_error": min(wrong, default=0)})
    if "7" in fields["question"]:
      reply = "I cannot say."
    choices = [{"message": {"content": reply}}]
    self.wfile.write(json.dumps({"choices": choices}).encode())

  def log_message(self, *arguments):
    """Keeps quiet."""


def test_a_judge_on_a_server_labels_steps(base, tmp_path, monkeypatch, capsys):
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), JudgeServer)
  thread = threading.Thread(target=server.serve_forever, args=(0.01,))
  thread.start()
  url = f"http://127.0.0.1:{server.server_port}/v1"
  try:
    words = ("--source", "judge", "--judge", url, "--judge_model", "m")
    assert run_label(base, tmp_path, *words) == 0
  finally:
    server.shutdown()
    server.server_close()
    thread.join()
  lines = [
    json.loads(text)
    for text in (tmp_path / "labels.jsonl").read_text().splitlines()
  ]
  assert lines
  for line in lines:
    assert "7" not in line["prompt"]
    wrong = [k for k, text in enumerate(line["steps"]) if "5" in text]
    first = min(wrong, default=len(line["steps"]))
    expected = [1.0] * first + [0.0] + [None] * len(line["steps"])
    assert line["labels"] == expected[: len(line["steps"])]
  unjudged = json.loads((tmp_path / "label.json").read_text())["unjudged"]
  assert unjudged > 0
  output = " ".join(capsys.readouterr().out.split())
  assert f"the judge left {unjudged} samples unjudged" in output


def make_data(loaded, count=24):
  """Lines with random labels and verdicts, two per problem."""
  rng = np.random.default_rng(0)
  problems = loaded.task.train(jax.random.key(0), 0, count)
  prompts = loaded.task.prompt_texts(jax.tree.map(np.asarray, problems))
  lines = []
  for prompt in prompts:
    for verdict in (1, 0):
      first = f"+ {rng.integers(10)} {rng.integers(10)} ;"
      lines.append(
        {
          "prompt": prompt,
          "steps": [first, f"ANS {rng.integers(10)}"],
          "labels": [float(rng.uniform()), verdict],
          "potentials": [0.5, verdict],
          "correct": verdict,
        }
      )
  return lines


@pytest.mark.long
@pytest.mark.parametrize(
  "loss",
  [name for name in step_losses.names() if name != "implicit"]
  + [f"implicit(kind='{kind}')" for kind in ("ce", "dpo", "nca", "kto")],
)
def test_every_loss_falls(loss, loaded, tmp_path):
  """The loss of the last update is below that of the first one."""
  file = tmp_path / "lines.jsonl"
  lines = make_data(loaded)
  file.write_text("".join(json.dumps(line) + "\n" for line in lines))
  data = step_lines.read(file, loaded.task, 4).data
  settings = fit.Settings(
    loss=loss,
    updates=fit.DISPATCH,  # one program
    batch=8,
    learning_rate=1e-2,
    language_coefficient=0.0,
    max_steps=4,
  )
  _, model, params = fit._make_model(settings, loaded)
  train = model.loss.prepare(data)
  examples = model.loss.examples(train)
  batch = fit.take(train, examples)

  @jax.jit
  def value(params):
    outputs, _ = model.outputs(params, batch)
    return model.loss.loss(outputs, batch)

  before = value(params)
  record = fit.fit(settings, loaded, data, tmp_path, no_report)
  fitted = fit.load(tmp_path, loaded)
  assert value(fitted.params) < before
  assert record["threshold"] == fitted.threshold
  scores = fit.score(fitted.model, fitted.params, data)
  assert np.isfinite(scores).all()
  assert (scores[data.step_mask] != 0).any()


def test_a_killed_fit_ends_as_an_uninterrupted_one(
  labelled, tmp_path, monkeypatch
):
  monkeypatch.setattr(fit, "DISPATCH", 2)
  loaded = policy_loader.load_from_run(
    label.read_record(labelled)["settings"]["policy"], None, {}, cpu_devices=1
  )
  data = step_lines.read(labelled / "labels.jsonl", loaded.task, 32).data
  settings = fit.Settings(updates=6, batch=8, checkpoint_every=2)
  arguments = settings, loaded, data
  complete = fit.fit(*arguments, tmp_path / "complete", no_report)
  save, saves = checkpointing.Checkpoints.save, []

  def save_twice(self, step, *args, **kwargs):
    if step > 4:
      raise KeyboardInterrupt
    saves.append(step)
    return save(self, step, *args, **kwargs)

  with monkeypatch.context() as patch:
    patch.setattr(checkpointing.Checkpoints, "save", save_twice)
    with pytest.raises(KeyboardInterrupt):
      fit.fit(*arguments, tmp_path / "killed", no_report)
  assert saves == [2, 4]
  with pytest.raises(ValueError, match="not fitted to the end"):
    fit.load(tmp_path / "killed", loaded)
  with pytest.raises(ValueError, match="batch = 8"):
    fit.check_settings(
      dataclasses.replace(settings, batch=4), tmp_path / "killed"
    )
  assert fit.fit(*arguments, tmp_path / "killed", no_report) == complete
  one, other = (
    fit.load(tmp_path / name, loaded).params for name in ("complete", "killed")
  )
  jax.tree.map(np.testing.assert_array_equal, one, other)


def test_calibration_lines_change_the_threshold_and_no_parameter(
  labelled, loaded, tmp_path
):
  data = step_lines.read(labelled / "labels.jsonl", loaded.task, 4).data
  settings = fit.Settings(updates=2, batch=8, calibration=0.5, max_steps=4)
  train, calibration = fit.split(data, 0.5)
  assert set(train.problems).isdisjoint(calibration.problems)
  assert len(train.problems) + len(calibration.problems) == len(data.problems)
  is_calibration = np.isin(data.problems, calibration.problems)
  fitted = []
  for parity in (0, 1):  # the first step of every second line is an error
    is_wrong = is_calibration & (np.arange(len(is_calibration)) % 2 == parity)
    values = data.values.copy()
    values[is_calibration] = 1.0
    values[is_wrong, :, 0] = 0.0
    changed = data.replace(values=values)
    folder = tmp_path / str(parity)
    fit.fit(settings, loaded, changed, folder, no_report)
    fitted.append(fit.load(folder, loaded))
  jax.tree.map(
    np.testing.assert_array_equal, fitted[0].params, fitted[1].params
  )
  assert fitted[0].threshold != fitted[1].threshold


def test_lines_of_a_person_are_evaluated_by_category(
  labelled, loaded, tmp_path
):
  """The F1 of a category is that of its lines alone."""
  if not (labelled / "fit.json").exists():
    assert run("fit", labelled, *FIT) == 0
  lines = make_data(loaded, 8)
  for i, line in enumerate(lines):
    line["category"] = "ab"[i % 2]
    line["labels"] = [i % 3 > 0, 1]
    line["labels"] = [float(x) for x in line["labels"]]
  file = tmp_path / "lines.jsonl"
  file.write_text("".join(json.dumps(line) + "\n" for line in lines))
  assert run("evaluate", labelled, "--data", str(file)) == 0
  metrics = json.loads((labelled / "metrics.json").read_text())
  assert {"first_error/f1/a", "first_error/f1/b"} <= metrics.keys()
  assert "accuracy/pass@1" not in metrics
  only_a = [line for line in lines if line["category"] == "a"]
  file.write_text("".join(json.dumps(line) + "\n" for line in only_a))
  assert run("evaluate", labelled, "--data", str(file)) == 0
  again = json.loads((labelled / "metrics.json").read_text())
  assert again["first_error/f1"]["mean"] == metrics["first_error/f1/a"]["mean"]
  assert again["prm_score"] == metrics["prm_score/a"]
  assert metrics["prm_score/a"] != metrics["prm_score/b"]


def test_a_perfect_model_finds_every_error():
  """A model whose scores have the wrong sign finds none of them."""
  truth = np.array([[1, -1, 1], [1, 1, 1], [-1, 0, 0], [1, 0, -1.0]])
  has_truth = truth != 0
  arguments = (truth > 0, has_truth, np.array([0, 0, 1, 2]), 0.0, [])
  perfect = evaluate._judge_steps(truth, *arguments)
  assert perfect["first_error/f1"]["mean"] == 1
  assert perfect["auc"]["mean"] == 1
  assert perfect["calibration"]["mean"] == 0
  wrong = evaluate._judge_steps(-truth, *arguments)
  assert wrong["first_error/f1"]["mean"] == 0
  assert wrong["auc"]["mean"] == 0
  # A threshold below all scores predicts no error.
  none = evaluate._judge_steps(truth, *arguments[:3], -2.0, [])
  assert none["first_error/correct"]["mean"] == 1
  assert none["first_error/erroneous"]["mean"] == 0


def test_signs_of_a_model_that_has_learnt_outcomes():
  """Three samples: the worst step is the last, the first, and the only one.

  The second and third have a right answer with a wrong step; one is found.
  """
  scores = np.array([[[0.5, 0.2, 9], [-0.5, 0.4, 0.3], [0.6, 9, 9]]])
  mask = np.array([[[1, 1, 0], [1, 1, 1], [1, 0, 0]]], bool)
  truth = np.array([[[1, 1, -1], [-1, 1, 1], [-1, 0, 0]]])
  correct = np.array([[0, 1, 1]])
  shares = evaluate._diagnose(scores, mask, truth, correct, 0.0)
  assert shares["worst_is_last"]["mean"] == 0.5
  assert shares["accuracy/right_answer_wrong_step"]["mean"] == 0.5
  none = evaluate._diagnose(scores, mask, truth, correct * 0, 0.0)
  assert "accuracy/right_answer_wrong_step" not in none


def test_calibration_error():
  """Two bins: .25 against 1/2, and .95 against 1."""
  p = np.array([0.25, 0.25, 0.95])
  is_right = np.array([True, False, True])
  expected = (2 * 0.25 + 0.05) / 3
  np.testing.assert_allclose(evaluate._calibration_error(p, is_right), expected)
  assert evaluate._calibration_error(np.ones(2), np.ones(2, bool)) == 0


def test_the_list_names_every_source_and_loss(capsys):
  assert command.main(["list"]) == 0
  text = capsys.readouterr().out
  for name in (*step_losses.names(), *label.label_sources.names()):
    assert f"  {name} " in text


@pytest.mark.parametrize(
  ("words", "expected"),
  [
    (["label", "--source", "monte_carl"], "did you mean 'monte_carlo'"),
    (["label", "--source", "monte_carlo(least=9)"], "least = 9"),
    (["label", "--problems", "0"], "--problems 0"),
    (["label", "--source", "judge"], "asks a judge; name the URL"),
    (["label", "--judge", "http://x"], "asks no judge; leave --judge out"),
    (["label", "--source", "judge", "--judge", "x"], "must start with http"),
    (["label", "--source", "judge", "--judge", "http://x"], "--judge_model"),
    (["label", "--policy", "/no/such/run"], "/no/such/run"),
    (["fit", "--loss", "two_clas"], "did you mean 'two_class'"),
    (["fit"], "has no labels"),
    (["evaluate", "--samples", "3"], "--samples 3 must be at least 4"),
    (["evaluate"], "has no fitted model"),
  ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
  words, expected, base, tmp_path, capsys
):
  if words[0] == "label" and "--policy" not in words:
    words = [*words, "--policy", str(base)]
  assert command.main([*words, f"--workdir={tmp_path / 'run'}"]) == 2
  err = capsys.readouterr().err
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  assert expected in err
  assert not list(tmp_path.iterdir())


def test_other_settings_in_a_workdir_are_refused(base, labelled, capsys):
  assert run_label(base, labelled, "--seed", "1") == 2
  assert "seed = 0 (now 1)" in capsys.readouterr().err
  if not (labelled / "fit.json").exists():
    assert run("fit", labelled, *FIT) == 0
  assert run("fit", labelled, *FIT, "--layers", "2") == 2
  assert "layers = 1 (now 2)" in capsys.readouterr().err


def test_too_few_examples_are_refused(labelled, loaded, tmp_path):
  data = step_lines.read(labelled / "labels.jsonl", loaded.task, 32).data
  settings = fit.Settings(batch=1000)
  with pytest.raises(ValueError, match="fewer than --batch 1000"):
    fit.fit(settings, loaded, data, tmp_path, no_report)


def test_adapters_are_refused(loaded):
  adapted = dataclasses.replace(
    loaded, model=dataclasses.replace(loaded.model, lora_rank=2)
  )
  with pytest.raises(ValueError, match="has LoRA adapters"):
    fit._make_model(fit.Settings(), adapted)


def test_a_model_folder_and_a_task_of_text(tmp_path):
  """The lines of numbered lists are labelled by rules, and a model fits."""
  folder = tmp_path / "policy"
  small_policy.write(folder)
  task = "numbered_lists(steps=True, max_steps=4, prompt_length=512)"
  words = ("--policy", str(folder), "--task", task, "--source", "checker")
  sizes = ("--problems", "4", "--samples", "2", "--batch", "4")
  work = tmp_path / "work"
  assert run("label", work, *words, *sizes) == 0
  lines = [
    json.loads(text)
    for text in (work / "labels.jsonl").read_text().splitlines()
  ]
  assert lines
  assert all("Write a numbered list" in line["prompt"] for line in lines)
  assert (
    run("fit", work, "--steps", "2", "--batch", "2", "--max_steps", "4") == 0
  )
