"""Tests of the number of CPU devices (`experiments.cli.cpu_devices`)."""

import concurrent.futures
import dataclasses
import json
import os
import subprocess
import sys
import types

import jax
import pytest

from experiments.cli import cache_folders, cpu_devices
from models import presets, transformer
from rl.sampling import generation


@pytest.fixture
def lines(tmp_path, monkeypatch):
  """An empty cache on a machine of four cores; lists the printed lines."""
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  monkeypatch.setattr(cpu_devices, "num_cores", lambda: 4)
  return []


def measure(monkeypatch, seconds):
  """Replaces the processes that measure; returns the counts of the calls."""
  calls = []
  times = {count: iter(values) for count, values in seconds.items()}
  monkeypatch.setattr(
    cpu_devices,
    "_time_process",
    lambda count: (calls.append(count), next(times[count]))[1],
  )
  return calls


def test_the_faster_number_counts_if_it_saves_a_tenth():
  assert cpu_devices.pick({1: 1.0, 2: 0.89, 4: 0.7}) == 4
  assert cpu_devices.pick({1: 1.0, 2: 0.7, 4: 0.89}) == 2
  assert cpu_devices.pick({1: 10.0, 2: 9.0}) == 2
  assert cpu_devices.pick({1: 1.0, 2: 0.95}) == 1
  assert cpu_devices.pick({1: 1.0, 2: 1.14}) == 1


def test_a_processor_is_measured_once(lines, monkeypatch):
  calls = measure(monkeypatch, {1: [3.0, 2.0], 2: [1.0, 1.5], 4: [2.0, 2.5]})
  chosen = cpu_devices.choose(report=lines.append)
  assert calls == [1, 2, 4, 1, 2, 4]
  assert chosen == (2, "measured: 50% less time than 1")
  assert len(lines) == 1
  assert "measuring once" in lines[0]
  assert cpu_devices.choose(report=lines.append) == chosen
  assert len(calls) == 6
  assert len(lines) == 1
  # Another number of cores is another machine, beside which this one stays.
  monkeypatch.setattr(cpu_devices, "num_cores", lambda: 2)
  measure(monkeypatch, {1: [1.0, 1.0], 2: [1.14, 1.2]})
  assert cpu_devices.choose(report=lines.append) == (
    1,
    "measured: 2 take 14% longer",
  )
  monkeypatch.setattr(cpu_devices, "num_cores", lambda: 4)
  assert cpu_devices.choose(report=lines.append) == chosen
  assert len(lines) == 2


def test_the_number_divides_every_batch(lines, monkeypatch):
  measure(monkeypatch, {1: [4.0] * 2, 2: [2.0] * 2, 4: [1.0] * 2})
  assert cpu_devices.choose([8, 64], lines.append)[0] == 4
  count, reason = cpu_devices.choose([8, 6], lines.append)
  assert (count, reason) == (2, "4 are faster, but do not divide [8, 6]")
  assert cpu_devices.choose([8, 3], lines.append)[0] == 1


def test_a_number_that_divides_and_is_slower_than_one_is_not_taken(
  lines, monkeypatch
):
  measure(monkeypatch, {1: [10.0] * 2, 2: [12.0] * 2, 4: [8.0] * 2})
  count, reason = cpu_devices.choose([6], lines.append)
  assert (count, reason) == (1, "4 are faster, but do not divide [6]")


def test_nothing_is_measured_where_one_device_is_certain(lines, monkeypatch):
  calls = measure(monkeypatch, {})
  assert cpu_devices.choose([1, 8], lines.append) == (1, "")
  monkeypatch.setattr(cpu_devices, "_has_accelerator", lambda: True)
  assert cpu_devices.choose([], lines.append) == (1, "")
  monkeypatch.setattr(cpu_devices, "num_cores", lambda: 1)
  assert cpu_devices.choose([], lines.append) == (1, "")
  assert calls == lines == []


@pytest.mark.parametrize(
  "error", [OSError("no memory"), subprocess.TimeoutExpired("x", 60.0)]
)
def test_a_failure_is_one_device_and_is_remembered(lines, monkeypatch, error):
  def fail(count):
    raise error

  monkeypatch.setattr(cpu_devices, "_time_process", fail)
  chosen = cpu_devices.choose(report=lines.append)
  assert chosen[0] == 1
  assert chosen[1].startswith(f"the measurement failed: {error}; without ")
  assert cpu_devices.choose(report=lines.append) == chosen
  assert len(lines) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"4 cores, jax": 3}'])
def test_a_damaged_file_is_measured_again(lines, monkeypatch, text):
  path = cache_folders.of_measurements() / cpu_devices.FILE
  path.parent.mkdir(parents=True)
  path.write_text(text)
  measure(monkeypatch, {1: [2.0] * 2, 2: [1.0] * 2, 4: [2.0] * 2})
  assert cpu_devices.choose(report=lines.append)[0] == 2
  assert list(path.parent.iterdir()) == [path]
  (*_, record) = json.loads(path.read_text()).values()
  assert record["seconds"] == {"1": 2.0, "2": 1.0, "4": 2.0}


def test_without_a_cache_that_can_be_written_it_goes_on(lines, monkeypatch):
  cache_folders.of_measurements().parent.parent.mkdir()
  cache_folders.of_measurements().parent.write_text("a file")
  measure(monkeypatch, {1: [2.0] * 2, 2: [1.0] * 2, 4: [2.0] * 2})
  assert cpu_devices.choose(report=lines.append)[0] == 2


@pytest.mark.long
def test_a_process_measures_with_its_number_of_devices():
  assert cpu_devices._time_process(2) > 0


def test_the_decoder_is_that_of_smollm2_in_small():
  model = cpu_devices.small_smollm2()
  assert (model.layers, model.vocab_size, model.width) == (2, 4096, 576)
  assert model.attention == "blocked"


def test_a_decoder_is_timed_on_all_devices():
  model = presets.get("smollm2-135m", layers=1, width=16, vocab_size=8)
  model = dataclasses.replace(model, heads=1, kv_heads=1, mlp_width=8)
  seconds = cpu_devices.time_decoder(model, repeats=1)
  assert 0 < seconds < 60


def test_the_fastest_call_of_each_program_counts(monkeypatch):
  """All samples of a batch of 8 prompts are 16 tokens long."""
  calls = []

  def generate(policy, params, inputs, mask, keys, sampling):
    calls.append((inputs.shape, mask.shape, len(keys), sampling))
    return types.SimpleNamespace(completions=inputs)

  monkeypatch.setattr(generation, "generate", generate)
  monkeypatch.setattr(
    transformer,
    "init",
    lambda model, key: {"w": jax.numpy.zeros(8)},
  )
  monkeypatch.setattr(
    transformer,
    "logits",
    lambda model, params, inputs, mask: inputs[..., None] * params["w"],
  )
  clock = iter([0, 3, 10, 12, 20, 25, 30, 34])
  monkeypatch.setattr(
    cpu_devices, "time", types.SimpleNamespace(perf_counter=lambda: next(clock))
  )
  model = presets.get("smollm2-135m", layers=1)
  assert cpu_devices.time_decoder(model, repeats=2) == 2 + 4
  ((inputs, mask, keys, sampling),) = calls
  assert inputs == mask == (8, 32)
  assert (keys, sampling.samples, sampling.max_tokens) == (8, 4, 16)
  assert sampling.eos_ids == ()


@pytest.mark.parametrize(
  ("seconds", "count", "text"),
  [
    ({1: 10.0, 2: 7.5}, 2, "25% less time than 1"),
    ({1: 10.0, 2: 9.5, 4: 12.0}, 1, "2 save only 5% of the time"),
    ({1: 10.0, 2: 13.0, 4: 12.5}, 1, "4 take 25% longer"),
    ({1: 10.0, 2: 10.0}, 1, "2 take 0% longer"),
  ],
)
def test_the_reason_names_what_was_measured(seconds, count, text):
  assert cpu_devices._describe(seconds, count) == f"measured: {text}"


def test_an_attached_accelerator_has_a_file(monkeypatch):
  config = types.SimpleNamespace(jax_platforms=None)
  monkeypatch.setattr(cpu_devices, "jax", types.SimpleNamespace(config=config))
  for names, expected in ((["null", "no_such"], True), (["no_such"], False)):
    monkeypatch.setattr(cpu_devices, "_ACCELERATORS", names)
    assert cpu_devices._has_accelerator() == expected


def test_the_measuring_process_has_its_number_of_devices(monkeypatch, tmp_path):
  """A process that prints its number of devices instead of the seconds."""
  program = tmp_path / "program"
  program.write_text(
    '#!/bin/sh\ntest "$XLA_FLAGS" = "--other " -a "$JAX_PLATFORMS" = cpu '
    '-a "$JAX_ENABLE_COMPILATION_CACHE" = false || exit 1\n'
    'test "$*" = "-m experiments.cli.cpu_devices" || exit 1\n'
    "echo $JAX_NUM_CPU_DEVICES\n"
  )
  program.chmod(0o755)
  monkeypatch.setattr(sys, "executable", str(program))
  flags = "--other --xla_force_host_platform_device_count=8"
  monkeypatch.setenv("XLA_FLAGS", flags)
  assert cpu_devices._measure([1, 4]) == {"seconds": {"1": 1.0, "4": 4.0}}
  monkeypatch.setenv("XLA_FLAGS", "--unexpected")
  assert "exit status 1" in cpu_devices._measure([1])["failure"]


def test_the_cores_are_those_of_this_process():
  assert cpu_devices.num_cores() == len(os.sched_getaffinity(0))
  with concurrent.futures.ThreadPoolExecutor(1) as threads:
    # The affinity is that of a thread.
    def bind():
      os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
      return cpu_devices.num_cores()

    assert threads.submit(bind).result() == 1


@pytest.mark.parametrize(
  ("platforms", "expected"), [("cpu", False), ("cuda,cpu", True)]
)
def test_platforms_that_jax_may_use(monkeypatch, platforms, expected):
  monkeypatch.setattr(
    cpu_devices, "jax", types.SimpleNamespace(config=types.SimpleNamespace())
  )
  cpu_devices.jax.config.jax_platforms = platforms
  assert cpu_devices._has_accelerator() == expected
