"""Tests of the times and the learning rates in a line of metrics."""

import re
import types as python

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments.training import metric_buffer, nan_guard, step_timer
from models import flop_counts
from models.config import ModelConfig
from rl.update_plan import Plan


def test_each_learner_has_the_rate_of_its_own_updates():
  """Eight updates of the policy are 2 of its steps, of the critic 4."""
  schedules = {
    "policy": lambda step: 1.0 / (1 + step),
    "critic": lambda step: 10.0 * step,
  }
  rates = metric_buffer.learning_rates(
    schedules,
    {"policy": 8, "critic": 9},
    {"policy": 4, "critic": 2},
  )
  assert rates == {"optim/lr": 1 / 3, "critic/optim/lr": 40.0}


def test_the_utilisation_of_a_step_is_relative_to_all_devices(monkeypatch):
  """2 x 3 samples of 4 tokens, two epochs: 1 + 2 x 3 forward passes."""
  devices = [python.SimpleNamespace(device_kind="NVIDIA H100")] * 2
  e = python.SimpleNamespace(
    mesh=python.SimpleNamespace(devices=np.array(devices)),
    is_rl=True,
    config=python.SimpleNamespace(rollout=python.SimpleNamespace(prompts=2)),
    sampling=python.SimpleNamespace(samples=3),
    model=ModelConfig(8, 16, 1, 2, 2, head_dim=8, mlp_width=32),
    task=python.SimpleNamespace(prompt_length=5),
    plan=Plan(epochs=2),
  )
  metrics, times = {"length/mean": 4.0}, {"time/step_s": 0.5}
  buffer = python.SimpleNamespace(_e=e)
  measured = metric_buffer.MetricBuffer._utilisation(buffer, metrics, times)
  forward = flop_counts.scored(e.model, 5, np.full((2, 3), 4))
  # The logits of the first tokens of a prompt are computed once.
  flops = 7 * forward - 2 * 16 * 8 * 2 * 2
  assert measured == {"perf/mfu": pytest.approx(flops / 0.5 / (2 * 989e12))}
  devices[0].device_kind = "cpu"
  assert metric_buffer.MetricBuffer._utilisation(buffer, metrics, times) == {}


class Buffer:
  """A buffer at a moment that the test sets, and what it logs."""

  def __init__(self, monkeypatch, started=None, **config):
    self.now, self.lines, self.printed, self.faults = 100.0, [], [], []
    clock = python.SimpleNamespace(perf_counter=lambda: self.now)
    monkeypatch.setattr(metric_buffer, "time", clock)
    usual = {"steps_per_dispatch": 1, "log_every": 1, "steps": 99}
    e = python.SimpleNamespace(
      config=python.SimpleNamespace(**(usual | config)),
      schedules={
        "policy": lambda step: 1.0 / (1 + step),
        "value": lambda step: 10.0 * step,
      },
      plan=Plan(epochs=2),  # two updates of the policy, one of the value
      is_rl=True,
      mesh=python.SimpleNamespace(devices=np.array(jax.devices()[:1])),
      task=python.SimpleNamespace(advice_if_cut="raise the limit"),
    )
    self.made = metric_buffer.MetricBuffer(
      e,
      python.SimpleNamespace(
        log=lambda step, line: self.lines.append((step, line)),
        print=self.printed.append,
        print_once=lambda *line: self.printed.append(line),
      ),
      python.SimpleNamespace(
        check=lambda metrics: self.faults.pop() if self.faults else ""
      ),
      state_of(0, 0),
      started,
    )

  def add(self, done, metrics=None, updates=0, rollout_ready=None, **times):
    usual = {
      "optim/skipped": jnp.float32(0),
      "value/optim/skipped": jnp.float32(0),
      "cost/sampled_tokens": jnp.float32(100),
      "guard/bad_sample": jnp.int32(-1),
      "length/truncated_frac": jnp.float32(0),
      "loss/total": jnp.float32(0),
      "optim/grad_norm": jnp.float32(1),
    }
    metrics = usual | (metrics or {})
    for value in metrics.values():
      value.block_until_ready()
    state = state_of(updates, updates // 2)
    timer = step_timer.StepTimer()
    timer.metrics, timer.rollout_ready = times, rollout_ready
    self.made.add(done, metrics, timer, state)

  def logged(self, *names):
    return [(step, *map(line.get, names)) for step, line in self.lines]


def state_of(policy, value):
  """A state whose optimizers have made some updates."""

  def opt_state(count):
    return (optax.ScaleByScheduleState(count=jnp.int32(count)),)

  return python.SimpleNamespace(
    learners={
      name: python.SimpleNamespace(opt_state=opt_state(count))
      for name, count in (("policy", policy), ("value", value))
    }
  )


def test_a_line_has_the_times_of_its_own_step(monkeypatch):
  buffer = Buffer(monkeypatch, started=90.0)
  made = buffer.made
  made.note_end()
  buffer.now = 104.0
  made.flush()  # there is nothing yet
  buffer.add(1, updates=2, rollout_ready=103.0, **{"time/rollout_s": 2.5})
  buffer.now = 110.0
  made.note_end()
  buffer.now = 111.0
  made.note_end()  # it had ended before
  buffer.now = 120.0
  made.flush(115.0)
  assert buffer.printed == ["first step after 20.0 s"]
  # The host waits for the rollout of the first step alone.
  buffer.add(2, updates=3, rollout_ready=103.0, **{"time/score_s": 0.5})
  buffer.now = 130.0
  with made.between_steps("time/checkpoint_s"):
    buffer.now = 137.0
  buffer.now = 140.0
  with made.between_steps("time/checkpoint_s"):
    buffer.now = 141.0
  buffer.add(3, updates=5)
  buffer.now = 156.0
  made.flush(151.0)
  buffer.add(4, updates=7)
  buffer.now = 161.0
  made.flush()
  made.flush()
  assert buffer.printed == ["first step after 20.0 s"]
  times = [
    {name: value for name, value in line.items() if name.startswith("time/")}
    for _, line in buffer.lines
  ]
  assert times == [
    {
      "time/rollout_s": 2.5,
      "time/update_s": 7.0,  # from 103 to 110
      "time/step_s": 10.0,
      "time/start_s": 20.0,
    },
    {"time/score_s": 0.5, "time/step_s": 20.0},
    # 7 seconds, and 3 + 1 of the second time, since no step was between them.
    {"time/checkpoint_s": 11.0, "time/step_s": 10.0},
    {"time/step_s": 10.0},
  ]
  names = ("perf/tokens_per_s", "optim/lr", "value/optim/lr")
  assert buffer.logged(*names) == [
    (1, 10.0, 1.0, 0.0),
    (2, 5.0, 0.5, 10.0),  # 2 updates are one step, and 1 of the value is one
    (3, 10.0, 0.5, 10.0),
    (4, 10.0, pytest.approx(1 / 3), 20.0),
  ]


def test_the_steps_of_a_dispatch_share_its_time(monkeypatch):
  """Skipped updates do not count within it; then the optimizers count."""
  buffer = Buffer(monkeypatch, steps_per_dispatch=2)
  metrics = {
    "optim/skipped": jnp.array([2.0, 0.0]),
    "value/optim/skipped": jnp.array([0.0, 1.0]),
    "cost/sampled_tokens": jnp.array([100.0, 300.0]),
    "guard/bad_sample": jnp.array([-1, -1]),
    "length/truncated_frac": jnp.zeros(2),
    "loss/total": jnp.zeros(2),
    "optim/grad_norm": jnp.ones(2),
  }
  for done, updates in ((2, 2), (4, 6)):
    buffer.add(done, metrics, updates)
    buffer.now += 10.0
    buffer.made.flush()
  assert not buffer.printed
  names = ("time/step_s", "perf/tokens_per_s", "optim/lr", "value/optim/lr")
  assert buffer.logged(*names) == [
    (1, 5.0, 20.0, 1.0, 0.0),
    (2, 5.0, 60.0, 1.0, 10.0),  # the two updates of step 1 were skipped
    (3, 5.0, 20.0, 0.5, 10.0),
    (4, 5.0, 60.0, 0.5, 20.0),
  ]


def test_some_steps_and_the_last_one_are_logged(monkeypatch):
  """Work between two lines is in the second, whatever step it followed."""
  buffer = Buffer(monkeypatch, log_every=2, steps=5)
  for done in range(1, 6):
    buffer.add(done)
    buffer.now += 10.0
    with buffer.made.between_steps("time/samples_s"):
      buffer.now += done
  assert buffer.logged("time/step_s", "time/samples_s") == [
    (2, 10.0, 1.0),
    (4, 10.0, 5.0),
    (5, 10.0, 4.0),
  ]


def test_the_sample_dump_is_no_part_of_its_step(monkeypatch):
  buffer = Buffer(monkeypatch, log_every=2, steps=5)
  for done in range(1, 5):
    seconds = {"time/samples_s": 1.0 + done} if done < 4 else {}
    buffer.add(done, **seconds)
    buffer.now += 10.0
    buffer.made.flush()
  assert buffer.logged("time/step_s", "time/samples_s") == [
    (2, 10.0 - 3.0, 2.0 + 3.0),
    (4, 10.0, 4.0),
  ]


def test_a_fault_of_a_step_ends_the_run_at_that_step(monkeypatch):
  buffer = Buffer(monkeypatch, steps_per_dispatch=2)
  buffer.faults = ["a score is not finite", ""]
  pair = jnp.zeros(2)
  names = ("optim/skipped", "value/optim/skipped", "cost/sampled_tokens")
  names += ("guard/bad_sample", "length/truncated_frac", "loss/total")
  buffer.add(8, dict.fromkeys((*names, "optim/grad_norm"), pair))
  buffer.now += 1.0
  with pytest.raises(nan_guard.Stopped, match="step 8: a score") as stopped:
    buffer.made.flush()
  assert stopped.value.step == 8


def printed(monkeypatch, done, updates=0, **metrics):
  """Returns the lines that a buffer prints on a step of a run of 99 steps."""
  buffer = Buffer(monkeypatch)
  names = {name.replace("__", "/"): value for name, value in metrics.items()}
  buffer.add(done, {n: jnp.float32(v) for n, v in names.items()}, updates)
  buffer.now += 1.0
  buffer.made.flush()
  return buffer


def test_what_is_not_finite_is_printed_with_the_commands_that_find_it(
  monkeypatch,
):
  nan = float("nan")
  metrics = {"loss__clip": nan, "loss__total": nan, "optim__grad_norm": nan}
  buffer = printed(monkeypatch, 3, optim__skipped=2, **metrics)
  ((where, line),) = buffer.printed
  assert where == ("step 3: a term of the loss is not finite: loss/clip is nan")
  assert "experiments.run --debug" in line
  assert "experiments.replay" in line


@pytest.mark.parametrize(
  ("cut", "unscored", "is_printed"),
  [(0.5, 0.0, False), (0.51, 0.0, True), (0.8, 0.5, False)],
)
def test_samples_most_of_which_are_cut_are_told(
  monkeypatch, cut, unscored, is_printed
):
  """Unscored samples count as samples: 0.8 of one half are 0.4 of all."""
  metrics = {"length__truncated_frac": cut, "verifier__unscored_frac": unscored}
  buffer = printed(monkeypatch, 3, **metrics)
  assert buffer.printed == [("step 3", "raise the limit")] * is_printed


@pytest.mark.parametrize(
  ("done", "updates", "norm", "line"),
  [
    (98, 0, 0.0, None),  # not the last step
    (99, 2, 0.5, None),
    (99, 0, 0.0, "no step made an update; .*no token was in the loss"),
    (99, 2, 0.0, "no step changed the policy: the gradient was 0 in all"),
  ],
)
def test_a_run_without_an_update_says_so_at_its_end(
  monkeypatch, done, updates, norm, line
):
  metrics = {"optim__skipped": 2, "optim__grad_norm": norm}
  buffer = printed(monkeypatch, done, updates, **metrics)
  assert len(buffer.printed) == bool(line)
  assert not line or re.match(line, buffer.printed[0])


@pytest.mark.parametrize(("unscored", "is_printed"), [(0.5, 0), (0.51, 1)])
def test_samples_most_of_which_have_no_score_are_told(
  monkeypatch, unscored, is_printed
):
  buffer = printed(monkeypatch, 3, verifier__unscored_frac=unscored)
  line = "more than half of the samples have no score; see the warnings"
  assert buffer.printed == [("step 3", line)] * is_printed


def test_scores_that_no_sample_has_are_not_zero(monkeypatch):
  for unscored in (0.5, 1.0):
    metrics = {
      "reward__mean": 0.0,
      "reward__weight__short": 2.0,
      "score__answered__mean": 0.0,
      "verifier__unscored_frac": unscored,
    }
    buffer = printed(monkeypatch, 1, **metrics)
    names = ("reward/mean", "score/answered/mean", "reward/weight/short")
    ((_, *values),) = buffer.logged(*names)
    expected = [0.0, 0.0] if unscored < 1 else [float("nan")] * 2
    np.testing.assert_array_equal(values, [*expected, 2.0])
