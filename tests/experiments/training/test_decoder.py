"""The forms that are the fastest on a platform, and how they are described."""

import dataclasses

import pytest
from helpers import small_run

from experiments import tasks
from experiments.training import decoder
from models import presets

SMALL = presets.get("smollm2-135m", layers=2, vocab_size=512)
CPU_LIMIT = 20_000_000  # parameters


@pytest.mark.parametrize(
  ("platform", "remat", "unroll", "decode_unroll"),
  [
    ("cpu", "none", 0, None),
    ("cpu", "full", 1, None),
    ("gpu", "none", 1, 0),
    ("gpu", "full", 1, 0),
    ("tpu", "none", 1, None),
  ],
)
def test_small_decoders_are_unrolled_on_cpus_and_to_decode_on_gpus(
  platform, remat, unroll, decode_unroll
):
  model = dataclasses.replace(SMALL, remat=remat)
  chosen = decoder.choose_fast_forms(model, platform)
  assert (chosen.unroll, chosen.decode_unroll) == (unroll, decode_unroll)


def test_limits_of_unrolled_layers():
  assert presets.parameter_count(SMALL) < CPU_LIMIT  # unrolled, as above
  large = presets.get("smollm2-135m")
  assert decoder.choose_fast_forms(large, "cpu").unroll == 1
  for name, unroll in (("qwen2.5-1.5b", 0), ("qwen2.5-3b", None)):
    chosen = decoder.choose_fast_forms(presets.get(name), "gpu")
    assert (chosen.unroll, chosen.decode_unroll) == (1, unroll)
  # A number of the config is taken, for training and decoding alike.
  chosen = decoder.choose_fast_forms(large, "gpu", unroll=5)
  assert (chosen.unroll, chosen.decode_unroll) == (5, None)


@pytest.mark.parametrize(
  ("name", "platform", "splits", "attention"),
  [
    ("smollm2-135m", "cpu", False, "blocked"),
    ("smollm2-135m", "tpu", False, "splash"),
    ("smollm2-135m", "tpu", True, "blocked"),
    ("gemma2-2b", "tpu", False, "blocked"),  # caps its logits
  ],
)
def test_the_fastest_attention_that_can_compute_the_decoder(
  name, platform, splits, attention
):
  model = presets.get(name)
  chosen = decoder.choose_fast_forms(model, platform, splits_sequences=splits)
  assert chosen.attention == attention
  named = decoder.choose_fast_forms(model, platform, attention="blocked")
  assert named.attention == "blocked"


@pytest.mark.parametrize(
  ("unroll", "decode_unroll", "text"),
  [
    (0, None, "30 layers unrolled"),
    (30, 30, "30 layers unrolled"),
    (31, None, "30 layers unrolled"),
    (1, None, "30 layers in a loop"),
    (1, 1, "30 layers in a loop"),
    (5, None, "30 layers in a loop of 5 at a time"),
    (1, 0, "30 layers in a loop (decoding: unrolled)"),
    (0, 2, "30 layers unrolled (decoding: in a loop of 2 at a time)"),
  ],
)
def test_forms_as_text(unroll, decode_unroll, text):
  model = presets.get(
    "smollm2-135m",
    attention="blocked",
    dtype="bfloat16",
    unroll=unroll,
    decode_unroll=decode_unroll,
  )
  expected = f"attention blocked, {text}, bfloat16"
  assert decoder.describe_forms(model) == expected


def test_a_config_without_a_vocabulary_has_that_of_its_task():
  task = tasks.get("countdown", count=2)
  config = small_run.config()
  assert decoder.make(config, task).vocab_size == task.vocab_size
  config.model.vocab_size = 99
  assert decoder.make(config, task).vocab_size == 99
