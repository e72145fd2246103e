"""A run that learns nothing any more ends, and shows why."""

import contextlib
import dataclasses
import io
import json
import math
import shutil
import types as python

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from helpers import small_run

from experiments import replay
from experiments.cli import errors
from experiments.logging import json_files, provenance
from experiments.training import (
  iteration,
  nan_guard,
  packed_texts,
  placement,
  workdirs,
)
from experiments.training_run import loop
from rl import learners, method, scoring
from rl.losses import terms
from rl.update_plan import Plan

FINE = {
  "optim/skipped": 0.0,
  "optim/grad_norm": 1.0,
  "loss/total": 0.5,
  "guard/bad_sample": -1,
}
SPOILT = 2  # steps after which a loss is NaN


@terms.term(
  takes="none", gives="token", needs={scoring.Need("policy", scoring.log_probs)}
)
def breaking(_, policy, rollout):
  late = rollout.step >= SPOILT
  return jnp.where(late, jnp.log(-1.0 - late), 1.0) * policy["log_probs"]


def broken(**changes):
  """An experiment whose loss becomes NaN, though its config knows nothing."""
  e = small_run.experiment(stop_after_skips=3, **changes)
  loss = method.Method(breaking(), name="breaking")
  return dataclasses.replace(e, methods={learners.POLICY: loss})


def skipped(**more):
  return FINE | {"optim/skipped": 1.0} | more


LOSS_IS_NAN = "a term of the loss is not finite: loss/total is nan"
REASONS = [
  (FINE, ""),
  (skipped(**{"optim/grad_norm": 0.0}), ""),  # nothing to learn from
  (skipped(**{"loss/total": math.nan}), LOSS_IS_NAN),
  (
    skipped(**{"optim/grad_norm": math.inf}),
    "the gradient is not finite: optim/grad_norm is inf",
  ),
  (
    skipped(**{"policy/ratio_mean": 11.0}),
    "policy/ratio_mean is 11, over plan.max_mean_ratio = 10",
  ),
  # A ratio of exactly the limit is none over it.
  (
    skipped(**{"policy/ratio_mean": 10.0}),
    "the optimizer's update is not finite",
  ),
  (skipped(), "the optimizer's update is not finite"),
  (
    FINE
    | {
      "value/optim/skipped": 1.0,
      "value/optim/grad_norm": math.nan,
      "value/loss/total": 1.0,
    },
    "the gradient is not finite: value/optim/grad_norm is nan",
  ),
]


NAN = math.nan
SOURCES = [
  ({}, ""),
  ({"reward/task": NAN, "score/a/mean": NAN}, "the score of the task"),
  ({"score/a/mean": math.inf, "reward/mean": NAN}, "a part of the score"),
  ({"reward/mean": NAN, "advantage/abs_mean": NAN}, "the score"),
  ({"policy/entropy": NAN, "loss/kl": NAN}, "the forward pass"),
  ({"advantage/abs_mean": NAN, "loss/kl": NAN}, "the advantage"),
  ({"loss/unlikely": NAN}, "a term of the loss"),
  ({"value/loss/square": NAN}, "a term of the loss"),
  ({"optim/grad_norm": NAN, "loss/total": 0.5}, "the gradient"),
]


@pytest.mark.parametrize(("bad", "source"), SOURCES)
def test_the_first_that_is_not_finite_is_named(bad, source):
  """By the name of its metric, and the terms of the loss before their sum."""
  spoilt = {"loss/total": NAN, "optim/grad_norm": NAN} if bad else {}
  metrics = FINE | {"reward/mean": 0.5, "score/b/mean": 0.1} | spoilt | bad
  name, value = next(iter(bad.items()), ("", 0))
  expected = f"{source} is not finite: {name} is {value}" if bad else ""
  assert nan_guard.first_non_finite(metrics) == expected


def test_a_part_that_no_update_reads_is_no_fault():
  """But it is the cause if a score is not finite."""
  metrics = FINE | {"score/a/mean": NAN, "optim/skipped": 1.0}
  assert nan_guard.first_non_finite(metrics) == ""
  metrics["guard/bad_sample"] = 0
  assert nan_guard.first_non_finite(metrics).endswith("score/a/mean is nan")


@pytest.mark.parametrize(("metrics", "reason"), REASONS)
def test_why_an_update_was_refused(metrics, reason):
  assert nan_guard.skip_reason(metrics, Plan()) == reason


def test_a_verifier_that_scores_nothing_skips_steps():
  """Although no token is in the loss, which otherwise is no reason."""
  metrics = skipped(**{"optim/grad_norm": 0.0})
  assert nan_guard.skip_reason(metrics, Plan()) == ""
  metrics["verifier/unscored_frac"] = 0.9
  assert nan_guard.skip_reason(metrics, Plan()) == ""
  metrics["verifier/unscored_frac"] = 1.0
  reason = "the verifier gave no sample a score"
  assert nan_guard.skip_reason(metrics, Plan()) == reason


def test_without_a_ratio_no_limit_is_exceeded():
  plan = Plan(max_mean_ratio=1.5)
  reason = nan_guard.skip_reason(skipped(), plan)
  assert reason == "the optimizer's update is not finite"


def test_a_bad_score_is_named_by_its_sample_and_its_prompt():
  guard = nan_guard.Guard(Plan(), 0)
  for sample, prompt in ((0, 3), (2, 0)):
    bad = {"guard/bad_sample": sample, "guard/bad_prompt": prompt}
    expected = (
      f"the score of sample {sample} of the prompt with the id {prompt} is"
    )
    assert guard.check(FINE | bad).startswith(expected)


class Fused:
  """A rollout function whose rollouts are the numbers of their states."""

  def replace(self, step):
    other = Fused()
    other.step = step
    return other

  def saved_part(self):
    return f"state after {self.step}"


@pytest.mark.parametrize(
  ("steps_per_dispatch", "failed", "done", "saved"),
  [
    (1, 7, 7, "rollout 6"),
    (1, 7, 8, "rollout 6"),  # seen after the next step
    (4, 8, 8, "rollout 7"),  # sampled again, as the last one
    (4, 6, 8, None),
  ],
)
def test_the_rollout_of_the_step_that_failed_is_saved(
  monkeypatch, steps_per_dispatch, failed, done, saved
):
  """A rollout is named after the steps that were finished before it."""
  written = []
  monkeypatch.setattr(
    nan_guard, "save_rollout", lambda *args: written.append(args)
  )
  e = python.SimpleNamespace(
    config=python.SimpleNamespace(steps_per_dispatch=steps_per_dispatch),
  )
  recent = [f"rollout {done - 2}", f"rollout {done - 1}"]
  state = Fused().replace(done)
  line = nan_guard.save_failed_rollout(
    *(e, "run", failed, done, state, recent),
    lambda state: f"rollout {state.step}",
  )
  if saved is None:
    assert not written
    assert line.startswith(f"run: the rollout of step {failed} is lost")
    return
  assert written == [("run", failed, f"state after {done}", saved)]
  assert line.startswith(f"run/stopped/step_00000{failed}: the rollout of")
  assert line.endswith(f"--workdir run --step {failed}")


def test_of_several_updates_all_must_be_refused():
  bad = {"loss/total": math.nan}
  plan = Plan(epochs=2, minibatches=2)
  assert not nan_guard.skip_reason(FINE | bad | {"optim/skipped": 3.0}, plan)
  assert nan_guard.skip_reason(FINE | bad | {"optim/skipped": 4.0}, plan)


def test_so_many_in_a_row_end_a_run():
  guard = nan_guard.Guard(Plan(), 3)
  bad = skipped(**{"loss/total": math.nan})
  for metrics, near, visited in [
    (bad, False, False),
    (bad, True, False),
    (FINE, False, False),
    (bad, False, False),
    (bad, True, False),
    (bad, True, True),
  ]:
    assert guard.check(metrics) == ""
    assert guard.may_stop_within(1) == near
    assert bool(guard.stop_reason) == visited
  assert (
    guard.stop_reason == f"3 steps in a row were skipped, because {LOSS_IS_NAN}"
  )


def test_zero_never_ends_a_run_and_one_waits_for_every_step():
  bad = skipped(**{"loss/total": math.nan})
  never, once = nan_guard.Guard(Plan(), 0), nan_guard.Guard(Plan(), 1)
  assert once.may_stop_within(1)
  for guard in (never, once):
    guard.check(bad)
  assert not never.may_stop_within(1)
  assert not never.stop_reason
  assert once.stop_reason == f"an update was skipped, because {LOSS_IS_NAN}"


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
  """(workdir, experiment, how it ended) of a run that learns nothing."""
  workdir = tmp_path_factory.mktemp("stuck")
  e = broken(steps=30)
  output = io.StringIO()
  with (
    pytest.raises(nan_guard.Stopped) as stopped,
    contextlib.redirect_stdout(output),
  ):
    loop.run(e, workdir)
  lines = output.getvalue().splitlines()
  (workdir / "output.txt").write_text("\n".join(lines))
  return workdir, e, stopped.value


def test_a_run_whose_loss_stays_nan_ends_after_so_many_steps(stuck):
  workdir, _, stopped = stuck
  lines = json_files.read(workdir / "metrics.jsonl")
  assert [line["optim/skipped"] for line in lines] == [0, 0, 1, 1, 1]
  assert stopped.step == 5
  assert str(stopped) == (
    "step 5: 3 steps in a row were skipped, because a term of the loss is not "
    "finite: loss/breaking is nan"
  )
  assert isinstance(stopped, errors.RunError)


def test_the_first_loss_that_is_nan_is_printed_once(stuck):
  workdir, _, _ = stuck
  text = (workdir / "output.txt").read_text()
  assert text.count("is not finite") == 1
  assert (
    f"step {SPOILT + 1}: a term of the loss is not finite: loss/breaking is nan"
  ) in text


def test_replay_tells_code_that_has_changed_since(
  stuck, tmp_path, capsys, monkeypatch
):
  original, _, _ = stuck
  workdir = shutil.copytree(original, tmp_path / "copy")
  state = python.SimpleNamespace(with_carried=lambda frozen: None)
  monkeypatch.setattr(nan_guard, "load_rollout", lambda *_: (state, {}))
  monkeypatch.setattr(replay, "describe", lambda *_: ["no operation"])
  assert replay.main(["--workdir", str(workdir)]) == 0
  assert "changed" not in capsys.readouterr().out
  path = workdir / provenance.CODE_FILE
  code = json.loads(path.read_text())
  code |= {terms.__file__: "other", "/deleted/my_method.py": "old"}
  assert __file__ in code
  json_files.replace_object(path, code)
  assert replay.main(["--workdir", str(workdir)]) == 0
  *_, line, last = capsys.readouterr().out.splitlines()
  assert line == f"the code has changed since the run: {terms.__file__}"
  assert last == "no operation"


def test_what_it_was_to_learn_from_is_kept(stuck):
  workdir, e, stopped = stuck
  state, rollouts = nan_guard.load_rollout(e, workdir, stopped.step)
  assert int(state.step) == stopped.step - 1
  folder = nan_guard.rollout_folder(workdir, stopped.step)
  assert [path.name for path in (folder / "state").iterdir()] == ["4"]
  arrays = safetensors.numpy.load_file(folder / "rollout.safetensors")
  assert {"policy.scores", "policy.tokens.mask"} <= arrays.keys()
  saved = rollouts[learners.POLICY]
  again = iteration.compile_rollout_fn(e)(state)

  def data(x):
    is_key = jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)

  jax.tree.map(
    lambda a, b: np.testing.assert_array_equal(data(a), data(b)), saved, again
  )


def test_replay_names_the_operation_that_makes_a_nan(stuck):
  workdir, e, stopped = stuck
  output = "\n".join(
    replay.describe(e, *nan_guard.load_rollout(e, workdir, stopped.step))
  )
  assert "metric loss/total: nan" in output
  assert "the update is skipped: a term of the loss is not finite" in output
  assert "gradient: not finite in" in output
  assert "first NaN: invalid value (nan) encountered in log" in output
  assert f"in breaking, {__file__}" in output


@pytest.mark.long
@pytest.mark.parametrize("max_tokens", [0, 64])  # padded, and packed
def test_replay_finds_nothing_wrong_with_a_healthy_step(
  tmp_path, capsys, max_tokens
):
  e = small_run.experiment(steps=1, rollout__max_tokens=max_tokens)
  assert packed_texts.packs(e) == bool(max_tokens)
  workdirs.write_config(tmp_path, e.config)
  rollout = iteration.compile_rollout_fn(e)(state := placement.init_state(e))
  nan_guard.save_rollout(tmp_path, 1, state, rollout)
  assert replay.main(["--workdir", str(tmp_path)]) == 0
  output = capsys.readouterr().out.splitlines()
  assert output[-2:] == ["the update is made", "no operation makes a NaN"]


def test_an_array_with_one_value_that_is_not_finite_is_named():
  tree = {"a": np.ones(2), "b": {"c": np.array([1.0, np.nan]), "d": np.inf}}
  assert replay.non_finite_arrays(tree) == ["b.c", "b.d"]


def test_replay_counts_the_scores_that_are_not_finite(stuck):
  workdir, e, stopped = stuck
  state, rollouts = nan_guard.load_rollout(e, workdir, stopped.step)
  separate = rollouts[learners.POLICY]
  separate = separate.replace(
    scores=jnp.asarray(separate.scores).at[2, 1].set(jnp.inf)
  )
  output = list(replay.describe(e, state, {learners.POLICY: separate}))
  assert output[0] == (
    "the rollout: scores is not finite in 1 of "
    f"{separate.scores.size} samples; the "
    "first is sample 1 of prompt 2"
  )
  assert not any(line == "the update is made" for line in output)


@pytest.mark.parametrize(
  ("words", "says"),
  [
    (["--step", "2"], "has no saved rollout of step 2; available: "),
    (["--workdir", "nowhere"], "nowhere holds no run"),
  ],
)
def test_replay_refuses_what_is_not_there(stuck, capsys, words, says):
  workdir, _, _ = stuck
  assert replay.main(["--workdir", str(workdir), *words]) == errors.USAGE
  assert says in capsys.readouterr().err


def test_replay_names_what_is_damaged(stuck, tmp_path, capsys):
  full, _, stopped = stuck
  workdir = shutil.copytree(full, tmp_path / "copy")
  saved = (
    nan_guard.rollout_folder(workdir, stopped.step) / "rollout.safetensors"
  )
  saved.write_bytes(saved.read_bytes()[:100])
  assert replay.main(["--workdir", str(workdir)]) == errors.USAGE
  assert f"{saved.parent} cannot be read" in capsys.readouterr().err


@pytest.mark.long
def test_the_fused_loop_ends_too_and_keeps_the_last_of_a_dispatch(tmp_path):
  with pytest.raises(nan_guard.Stopped, match=r"step 10: 8 steps in a row"):
    loop.run(broken(steps=40, steps_per_dispatch=5), tmp_path)
  state, rollouts = nan_guard.load_rollout(broken(), tmp_path, 10)
  assert int(state.step) == int(rollouts[learners.POLICY].step) == 9


@pytest.mark.long
def test_a_healthy_run_makes_no_nan_that_debug_would_find(tmp_path):
  with jax.debug_nans(True):
    loop.run(small_run.experiment(steps=2, rollouts_every=1), tmp_path / "fine")
    with pytest.raises(FloatingPointError):
      loop.run(broken(steps=5), tmp_path / "broken")


def test_a_config_comes_back_as_it_was(tmp_path):
  config = small_run.config(sinks=("tensorboard",))
  workdirs.write_config(tmp_path, config)
  result = workdirs.read_config(tmp_path)
  assert result.to_dict() == config.to_dict()
  (tmp_path / workdirs.CONFIG_FILE).write_text("[1, 2")
  with pytest.raises(ValueError, match=r"config\.json is no config"):
    workdirs.read_config(tmp_path)
