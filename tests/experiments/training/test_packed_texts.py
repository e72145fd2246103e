"""The room of packed texts: enough, as small as possible, the same again."""

import dataclasses
import itertools
import math
import types

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.logging import json_files
from experiments.training import checkpointing, packed_texts, placement
from experiments.training_run import loop
from models import checkpoint_reader, sharding
from rl import learners, method_loss, scoring

pytestmark = pytest.mark.several_devices

P, S = small_run.PROMPTS, small_run.SAMPLES
T = 64


def experiment(**changes):
  """A run whose completions have room for 64 tokens, on one device."""
  return small_run.experiment(rollout__max_tokens=T, **changes)


def with_lengths(e, lengths, prompt_lengths):
  """A rollout of zeros with these numbers of tokens."""
  rollout = learners.by_learner(e.abstract_rollout)[learners.POLICY]
  rollout = jax.tree.map(
    lambda x: np.zeros(x.shape, x.dtype), rollout.replace(keys=None)
  )
  L = rollout.tokens.prompts.shape[-1]
  prompt_mask = np.arange(L) >= L - prompt_lengths[:, None]
  return rollout.replace(
    tokens=rollout.tokens.replace(
      lengths=np.int32(lengths),
      prompt_mask=prompt_mask,
      mask=np.arange(T) < lengths[..., None],
    )
  )


def pack(e, lengths, prompt_lengths):
  assert packed_texts.packs(e)
  rollout = with_lengths(e, lengths, prompt_lengths)
  return packed_texts.pack(rollout, e.model, e.plan, e.mesh)


def rows_of(lengths):
  """Rows of T - 1 tokens that completions need, the longest placed first."""
  free = []
  for length in sorted(np.maximum(lengths - 1, 0), reverse=True):
    row = next((i for i, room in enumerate(free) if room >= length), None)
    if row is None:
      free.append(T - 1 - length)
    else:
      free[row] -= length
  return len(free)


def smallest_size(e, lengths, prompt_lengths, positions, shards):
  """The size of a rollout, found by counting what every part needs."""
  inputs = prompt_lengths + np.maximum(lengths - 1, 0).sum(-1)
  rows = np.array([rows_of(row) for row in lengths])

  def largest_mean(counts):
    means = []
    slicings = e.plan.microbatches, e.plan.minibatches * e.plan.microbatches
    for slices in slicings:
      for first in range(slices):
        part = counts[first::slices]
        groups = shards if len(part) % shards == 0 else 1
        means += [group.mean() for group in np.split(part, groups)]
    return max(means)

  enough = []
  for size in packed_texts.SIZES:
    room = math.ceil(size * positions)
    most_rows = min(math.ceil(S * room / positions) + 1, S)
    if largest_mean(inputs) <= room and largest_mean(rows) <= most_rows:
      enough.append(size)
  return min(enough, default=None)


@pytest.mark.parametrize(
  ("plan", "shards"),
  [((1, 1), 1), ((1, 1), 4), ((2, 2), 2), ((2, 2), 4), ((4, 1), 2)],
)
def test_the_room_is_the_smallest_that_is_enough(plan, shards):
  e = experiment(plan__minibatches=plan[0], plan__microbatches=plan[1])
  e = e.on_mesh(sharding.make_mesh(devices=jax.devices()[:shards]))
  L = e.task.prompt_length
  positions = L + S * (T - 1)
  rng = np.random.default_rng(0)
  seen = set()
  for most in (5, 15, 30, 45, 64, 64):
    lengths = rng.integers(0, most + 1, (P, S))
    lengths[rng.integers(P)] = most  # one prompt has long completions
    prompt_lengths = rng.integers(1, L + 1, P)
    packed = pack(e, lengths, prompt_lengths)
    size = smallest_size(e, lengths, prompt_lengths, positions, shards)
    room = math.ceil(size * positions) if size else 0
    assert packed.tokens.room == room, (most, size)
    seen.add(room)
  assert 3 <= len(seen) <= 4


def test_a_size_is_used_up_to_its_last_token():
  e = experiment()
  L = e.task.prompt_length
  room = math.ceil(packed_texts.SIZES[0] * (L + S * (T - 1)))
  # Inputs of the completions of a prompt: all of them, spread over samples.
  total = room - L
  lengths = np.full((P, S), 1 + total // S)
  lengths[:, 0] += total % S
  prompt_lengths = np.full(P, L)
  assert pack(e, lengths, prompt_lengths).tokens.room == room
  lengths[3, 1] += 1
  larger = pack(e, lengths, prompt_lengths).tokens.room
  assert larger == math.ceil(packed_texts.SIZES[1] * (L + S * (T - 1)))


@pytest.mark.parametrize("attention", ["blocked", "splash"])
def test_rows_of_the_attention_need_room_too(attention):
  """Eleven completions of more than half a row need eleven rows."""
  e = experiment(rollout__samples=16)
  e = dataclasses.replace(
    e, model=dataclasses.replace(e.model, attention=attention)
  )
  lengths = np.zeros((P, 16), int)
  lengths[:, :11] = 33
  prompt_lengths = np.full(P, e.task.prompt_length)
  positions = e.task.prompt_length + 16 * (T - 1)
  tokens = e.task.prompt_length + 11 * 32
  first, second, third = (
    math.ceil(size * positions) for size in packed_texts.SIZES
  )
  assert first < tokens <= second
  # Seven rows are enough for 3/8 of all tokens, and eleven for 5/8. Splash has
  # a row for each completion.
  packed = pack(e, lengths, prompt_lengths)
  assert packed.tokens.room == (second if attention == "splash" else third)
  # Eight rows are as many as there are.
  lengths[:, 8:] = 0
  assert pack(e, lengths, prompt_lengths).tokens.room == second


@pytest.mark.parametrize(
  "changes",
  [
    {"packing": False},
    {"rollout__max_tokens": T - 1},
    {"steps_per_dispatch": 2},
  ],
)
def test_what_is_not_packed(changes):
  e = small_run.experiment(**{"rollout__max_tokens": T, **changes})
  assert not packed_texts.packs(e)


def test_the_config_of_an_older_run_is_padded():
  e = experiment()
  config = e.config.copy_and_resolve_references()
  with config.unlocked():
    del config.packing
  assert not packed_texts.packs(dataclasses.replace(e, config=config))


def test_the_next_size_is_larger_by_at_most_a_factor_of_two():
  sizes = (*packed_texts.SIZES, 1.0)  # 1: a padded pass
  for size, larger in itertools.pairwise(sizes):
    assert size < larger <= 2 * size
  assert sizes[0] == 3 / 16


def test_all_texts_of_a_rollout_have_room():
  """One text fits into the smallest room, and the other one into no room."""
  e = experiment()
  prompt_lengths = np.ones(P, int)
  short, long = (
    with_lengths(e, np.full((P, S), length), prompt_lengths).tokens
    for length in (2, T)
  )

  def choose(*texts):
    return packed_texts.choose_size(list(texts), e.model, e.plan, e.mesh)

  assert choose(short, short) == packed_texts.SIZES[0]
  assert choose(short, long) == choose(long, short) == 0


def test_padding_of_further_texts_of_the_policy_is_counted(monkeypatch):
  """The loss also reads the view "reference" of the policy, half as long."""
  e = experiment()
  prompt_lengths = np.full(P, e.task.prompt_length)
  rollout = with_lengths(e, np.full((P, S), T), prompt_lengths)
  shorter = with_lengths(e, np.full((P, S), T // 2), prompt_lengths).tokens
  rollout = rollout.replace(views={"reference": shorter, "other": shorter})
  needs = {
    scoring.Need("policy", scoring.log_probs, "reference"),
    scoring.Need("ref", scoring.log_probs, "other"),
  }
  monkeypatch.setattr(method_loss, "required", lambda method, updates: set())
  metrics = packed_texts.padding_metrics(
    types.SimpleNamespace(
      method=types.SimpleNamespace(term_needs=needs),
      plan=e.plan,
      is_rl=False,
    ),
    rollout,
  )
  # Half of the inputs of the completions of one text are padding.
  L = e.task.prompt_length
  padding = S * (T - T // 2) / (2 * (L + S * (T - 1)))
  assert metrics.keys() == {"perf/padding_frac/updating"}
  np.testing.assert_allclose(
    metrics["perf/padding_frac/updating"], padding, rtol=1e-5
  )


@pytest.mark.parametrize("rows", [0, 1, 3, S + 2])
def test_padding_is_counted(rows):
  e = experiment(rollout__rows=rows, method="grpo(beta=0.1)")
  L = e.task.prompt_length
  rng = np.random.default_rng(1)
  lengths = rng.integers(0, 20, (P, S))
  prompt_lengths = rng.integers(1, L + 1, P)
  rollout = with_lengths(e, lengths, prompt_lengths)
  inputs = prompt_lengths.sum() + np.maximum(lengths - 1, 0).sum()

  # The decoder's rows take samples as they become free.
  num_rows = min(rows or S, S)
  steps = 0
  for samples in np.maximum(lengths - 1, 0):
    free_at = [0] * num_rows
    for sample in samples:
      free_at.sort()
      free_at[0] += sample
    steps = max(steps, *free_at)
  decoded = P * L + P * num_rows * steps
  expected = {"sampling": 1 - inputs / decoded}

  for packed in (rollout, pack(e, lengths, prompt_lengths)):
    computed = P * (packed.tokens.room or L + S * (T - 1))
    expected["updating"] = expected["scoring"] = 1 - inputs / computed
    metrics = packed_texts.padding_metrics(e, packed)
    assert metrics.keys() == {f"perf/padding_frac/{n}" for n in expected}
    for name, value in expected.items():
      result = metrics[f"perf/padding_frac/{name}"]
      np.testing.assert_allclose(result, value, rtol=1e-6, err_msg=name)


def results(workdir, e):
  """The last state, and the metrics without the times."""
  with checkpointing.Checkpoints(
    workdir / checkpoint_reader.FOLDER
  ) as checkpoints:
    state, _ = checkpoints.restore(placement.abstract_state(e))
  state = jax.device_get(
    state.with_carried(key=jax.random.key_data(state.carried.key))
  )
  lines = json_files.read(workdir / "metrics.jsonl")
  return state, [
    {k: v for k, v in line.items() if not k.startswith(("time/", "perf/tok"))}
    for line in lines
  ]


@pytest.mark.long
def test_a_packed_run_is_the_padded_one_and_goes_on_bit_for_bit(tmp_path):
  steps = 6
  # Two slices of each of two minibatches, with a reference policy.
  changes = {
    "method": "grpo(beta=0.1)",
    "plan__minibatches": 2,
    "plan__microbatches": 2,
  }
  e = experiment(steps=steps, **changes)
  loop.run(e, tmp_path / "straight")
  expected_state, expected_lines = results(tmp_path / "straight", e)

  loop.run(experiment(steps=3, **changes), tmp_path / "resumed")
  loop.run(e, tmp_path / "resumed")
  state, lines = results(tmp_path / "resumed", e)
  jax.tree.map(np.testing.assert_array_equal, state, expected_state)
  assert lines == expected_lines

  padded = experiment(steps=steps, packing=False, **changes)
  loop.run(padded, tmp_path / "padded")
  state, lines = results(tmp_path / "padded", padded)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
    state.params,
    expected_state.params,
  )
  for padded_line, line in zip(lines, expected_lines, strict=True):
    for name, value in line.items():
      if not name.startswith("perf/"):
        np.testing.assert_allclose(
          value, padded_line[name], rtol=1e-4, atol=1e-5, err_msg=name
        )
  name = "perf/padding_frac/updating"
  packed_steps = [
    line["step"]
    for padded_line, line in zip(lines, expected_lines, strict=True)
    if line[name] < padded_line[name] - 0.1
  ]
  assert packed_steps
