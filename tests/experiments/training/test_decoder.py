"""The forms that are the fastest on a platform, and how they are described."""

import dataclasses
import types

import pytest
from helpers import small_run

from experiments import tasks
from experiments.training import decoder
from models import hf, presets
from rl import scoring

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
  if not splits:
    assert decoder.choose_fast_forms(model, platform) == chosen
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


@pytest.mark.parametrize(
  ("platform", "num_params", "unroll", "decode_unroll"),
  [
    ("cpu", CPU_LIMIT, 0, None),
    ("cpu", CPU_LIMIT + 1, 1, None),
    ("gpu", 2_000_000_000, 1, 0),
    ("gpu", 2_000_000_001, 1, None),
  ],
)
def test_a_limit_is_the_largest_decoder_that_is_unrolled(
  monkeypatch, platform, num_params, unroll, decode_unroll
):
  monkeypatch.setattr(presets, "parameter_count", lambda model: num_params)
  monkeypatch.setattr(decoder, "_has_cudnn", lambda: False)
  chosen = decoder.choose_fast_forms(SMALL, platform)
  assert (chosen.unroll, chosen.decode_unroll) == (unroll, decode_unroll)


@pytest.mark.parametrize(
  ("dtype", "has_cudnn", "attention"),
  [
    ("bfloat16", True, "cudnn"),
    ("bfloat16", False, "blocked"),
    ("float32", True, "blocked"),  # which cuDNN does not compute
  ],
)
def test_a_gpu_uses_cudnn_where_it_is_installed(
  monkeypatch, dtype, has_cudnn, attention
):
  def attend(query, key, value, implementation):
    assert implementation == "cudnn"
    if not has_cudnn:
      raise RuntimeError("cuDNN is not detected")
    return query + key + value

  monkeypatch.setattr(decoder.jax.nn, "dot_product_attention", attend)
  decoder._has_cudnn.cache_clear()
  model = dataclasses.replace(SMALL, dtype=dtype)
  assert decoder.choose_fast_forms(model, "gpu").attention == attention
  decoder._has_cudnn.cache_clear()


@pytest.mark.parametrize(
  ("context", "attention"), [(None, "splash"), (1, "splash"), (2, "blocked")]
)
def test_a_config_whose_devices_split_sequences_has_no_kernel(
  context, attention
):
  task = tasks.get("countdown", count=2)
  config = small_run.config()
  config.mesh.context = context
  assert decoder.make(config, task, platform="tpu").attention == attention


@pytest.mark.parametrize(
  ("attention", "context", "platform", "message"),
  [
    (None, 2, "cpu", None),
    ("blocked", 2, "cpu", None),
    ("splash", None, "tpu", None),
    ("splash", 1, "tpu", None),
    ("splash", 2, "tpu", "with mesh.context = 2 use 'blocked', or None"),
    ("splash", None, "cpu", "'splash' runs on tpu, not on cpu"),
    ("blocked", None, "gpu", None),
  ],
)
def test_a_form_of_attention_suits_the_platform_and_the_mesh(
  attention, context, platform, message
):
  config = small_run.config(model__attention=attention, mesh__context=context)
  if message is None:
    decoder.check_attention(config, platform)
    return
  with pytest.raises(ValueError, match=message):
    decoder.check_attention(config, platform)


def test_heads_of_a_folder_keep_their_size(monkeypatch):
  config = small_run.config()
  task = tasks.get("countdown", count=2)
  model = decoder.make(config, task)
  folder_heads = [("value", 3)]
  checked = []
  monkeypatch.setattr(
    hf,
    "load_config",
    lambda folder: types.SimpleNamespace(extra_heads=folder_heads),
  )
  monkeypatch.setattr(
    hf, "check_tokenizer", lambda *arguments: checked.append(arguments)
  )
  decoder.check(config, model, task, "folder")
  assert checked == [(model, task.vocab_size, "folder")]
  config.model.extra_heads = (("value", 3), ("other", 1))
  decoder.check(config, model, task, "folder")
  config.model.extra_heads = (("value", 2),)
  with pytest.raises(ValueError, match="has 3 outputs, not 2; use 3"):
    decoder.check(config, model, task, "folder")


def test_the_decoder_has_an_output_for_each_token():
  config = small_run.config()
  task = tasks.get("countdown", count=2)
  size = task.vocab_size

  def check(vocab_size):
    model = dataclasses.replace(SMALL, vocab_size=vocab_size)
    decoder.check(config, model, task, "")

  check(size)
  check(size + 1)
  with pytest.raises(ValueError, match=f"is smaller than the {size} tokens"):
    check(size - 1)


@pytest.mark.parametrize("part", ["signal_needs", "term_needs"])
def test_a_critic_needs_a_value_head(part):
  value = scoring.Need("policy", scoring.values)
  method = {"signal_needs": set(), "term_needs": set(), part: {value}}
  methods = {"policy": types.SimpleNamespace(name="critic", **method)}
  model = dataclasses.replace(SMALL, value_head=True)
  decoder.check_value_head(model, methods)
  model = dataclasses.replace(SMALL, value_head=False)
  with pytest.raises(ValueError, match="critic reads a value head"):
    decoder.check_value_head(model, methods)
