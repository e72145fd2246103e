"""Hugging Face folders in and out, without PyTorch.

That the functions are those of transformers is
`tests/models/test_hf_parity.py`.
"""

import collections
import dataclasses
import importlib
import json
import math
import pathlib
import runpy

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from helpers import hf_folders, small_decoders

from experiments.training import checkpointing, workdirs
from models import (
  checkpoint_reader,
  checksums,
  hf,
  lora,
  sharding,
  tokenizer,
  transformer,
)
from models.config import ModelConfig, from_fields
from models.hf import config_conversion, families, load_folder
from models.rope import RopeScaling
from rl import types

CASES = list(hf_folders.CASES)
cli = importlib.import_module("models.hf.__main__")


def messages(name: str, **changes) -> dict:
  """The `config.json` of a case, as transformers writes it."""
  return json.loads(hf_folders.configuration(name, **changes).to_json_string())


def shape_of(name: str, **changes) -> ModelConfig:
  return config_conversion.from_hf(messages(name, **changes))


def random_params(config: ModelConfig, seed: int = 0) -> dict:
  """Parameters whose every number is another."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(seed).normal
  return jax.tree.map(
    lambda leaf: jnp.asarray(normal(size=leaf.shape), leaf.dtype), shapes
  )


def write(folder: pathlib.Path, name: str = "llama", **changes):
  """A folder of a case with random weights; its config and parameters."""
  config = shape_of(name, **changes)
  params = random_params(config)
  hf.save(config, params, folder)
  return config, params


def same(one, other) -> bool:
  """Bit for bit, names, dtypes and shapes included."""
  return jax.tree.structure(one) == jax.tree.structure(other) and all(
    a.dtype == b.dtype and np.array_equal(np.asarray(a), np.asarray(b))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
  )


def rewrite(folder: pathlib.Path, change) -> None:
  """Changes the tensors of a single-file folder."""
  path = folder / "model.safetensors"
  leaves = change(safetensors.numpy.load_file(path))
  safetensors.numpy.save_file(leaves, path, metadata={"format": "pt"})


def refused(folder: pathlib.Path, **options) -> str:
  """Returns the message of `load`, which must be one line."""
  with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
    hf.load(folder, **options)
  return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_a_config_comes_back_from_its_own_translation(name):
  config = shape_of(name)
  written = json.loads(config_conversion.to_hf(config).to_json_string())
  again = config_conversion.from_hf(written)
  assert config_conversion.canonical(again) == config_conversion.canonical(
    config
  )
  assert written["architectures"] == [
    families.FAMILIES[written["model_type"]].architecture
  ]


class Recorder:
  """A configuration that remembers which of its keys were read."""

  def __init__(self, config):
    self.config, self.keys_read = config, set()

  def __getattr__(self, key):
    self.keys_read.add(key)
    return getattr(self.config, key)


# What changes no logit, or is another key by the time it is read.
HARMLESS = {
  *("attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"),
  *("initializer_range", "use_cache", "pretraining_tp"),
  *("bos_token_id", "eos_token_id", "pad_token_id"),
  *("output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
  "reorder_and_upcast_attn",  # of half precision
  "max_window_layers",  # layer_types
  "no_rope_layer_interval",  # no_rope_layers
  "use_sliding_window",  # sliding_window is null without it
}


@pytest.mark.parametrize("name", CASES)
def test_every_key_of_a_config_that_matters_is_read(name):
  config = hf_folders.configuration(name)
  recorder = Recorder(config)
  config_conversion._to_model_config(recorder, "float32")
  keys = {
    key
    for key in type(config).__annotations__
    if not key.startswith("summary_") and "ClassVar" not in key
  }
  assert "vocab_size" in keys
  assert keys - recorder.keys_read - HARMLESS == set()


SIZES = {
  "vocab_size": 97,
  "hidden_size": 32,
  "intermediate_size": 48,
  "num_hidden_layers": 3,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.43.0",
}
LONGROPE = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0]}
PUBLISHED = {  # as checkpoints of before transformers 5 say it
  "llama 3.1": (
    {
      "model_type": "llama",
      "rope_theta": 500000.0,
      "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
      },
      "max_position_embeddings": 131072,
    },
    {
      "rope_theta": 500000.0,
      "rope_scaling.kind": "llama3",
      "rope_scaling.factor": 8.0,
      "rope_scaling.original": 8192,
      "max_positions": 131072,
      "head_dim": 8,
    },
  ),
  "llama 2, linear": (
    {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4.0}},
    {
      "rope_scaling.kind": "linear",
      "rope_scaling.factor": 4.0,
      "tied_embeddings": False,
    },
  ),
  "qwen 2.5": (
    {
      "model_type": "qwen2",
      "use_sliding_window": False,
      "sliding_window": 131072,
      "max_window_layers": 1,
      "rope_theta": 1000000.0,
    },
    {
      "layer_kinds": ("global",),
      "window": 0,
      "attention_bias": True,
      "output_bias": False,
      "rope_theta": 1e6,
    },
  ),
  "qwen 3, yarn": (
    {
      "model_type": "qwen3",
      "rope_theta": 1000000,
      "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
      },
      "max_position_embeddings": 131072,
    },
    {
      "qk_norm": "head",
      "head_dim": 128,
      "rope_scaling.original": 32768,
      "rope_scaling.attention_factor": 0.1 * math.log(4) + 1,  # Peng et al.
    },
  ),
  "gemma 1": (
    {"model_type": "gemma", "hidden_act": "gelu", "head_dim": 16},
    {
      "activation": "gelu_tanh",  # that release means the approximation
      "norm_offset": 1.0,
      "embedding_scale": math.sqrt(32),
      "tied_embeddings": True,
    },
  ),
  "gemma 3": (
    {
      "model_type": "gemma3_text",
      "head_dim": 16,
      "rope_theta": 1000000.0,
      "rope_local_base_freq": 10000.0,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 512,
      "sliding_window_pattern": 3,
      "query_pre_attn_scalar": 256,
    },
    {
      "layer_kinds": ("local", "local", "global"),
      "window": 512,
      "rope_theta": 1e6,
      "rope_scaling.factor": 8.0,
      "local_rope_theta": 1e4,
      "attention_scale": 1 / 16,
      "norm_place": "both",
    },
  ),
  "phi 3": (
    {
      "model_type": "phi3",
      "num_attention_heads": 8,
      "pad_token_id": 0,
      "rope_scaling": {"type": "su", **LONGROPE},
      "original_max_position_embeddings": 16,
      "max_position_embeddings": 256,
      "sliding_window": 7,
    },
    {
      "rope_scaling.kind": "longrope",
      "rope_scaling.original": 16,
      "rope_scaling.long_factors": (2.0, 4.0),
      # sqrt(1 + log(256 / 16) / log(16)), Ding et al.
      "rope_scaling.attention_factor": math.sqrt(2),
      "layer_kinds": ("local",),
      "window": 7,
    },
  ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_are_understood(name):
  data, expected = PUBLISHED[name]
  config = config_conversion.from_hf({**SIZES, **data})
  for path, value in expected.items():
    result = config
    for key in path.split("."):
      result = getattr(result, key)
    assert result == pytest.approx(value) or result == value, path
  # And the same in transformers 5's form.
  new = json.loads(config_conversion.to_hf(config).to_json_string())
  assert "rope_parameters" in new
  again = config_conversion.from_hf(new)
  assert config_conversion.canonical(again) == config_conversion.canonical(
    config
  )


def rotary(kind: str, **settings) -> dict:
  return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **settings}}


@pytest.mark.parametrize(
  ("name", "changes", "output"),
  [
    ("llama", {"model_type": "mamba"}, ["mamba", "llama", "qwen3_moe"]),
    ("llama", {"model_type": "lama"}, ["did you mean 'llama'"]),
    ("llama", {"hidden_act": "relu"}, ["hidden_act", "relu", "silu"]),
    ("llama", rotary("proportional"), ["rope_type", "proportional", "yarn"]),
    (
      "llama",
      rotary("default", partial_rotary_factor=0.5),
      ["partial_rotary_factor = 0.5"],
    ),
    (
      "llama",
      rotary("linear", factor=2.0, mrope_section=[1, 1, 2]),
      ["mrope_section = [1, 1, 2]"],
    ),
    (
      "llama",
      {"quantization_config": {"quant_method": "gptq"}},
      ["dtype mismatch", "gptq"],
    ),
    ("llama", {"hidden_size": 30}, ["hidden size (30)"]),
    ("mistral", {"layer_types": ["full_attention"]}, ["layer_types"]),
    (
      "gpt2",
      {"scale_attn_by_inverse_layer_idx": True},
      ["scale_attn_by_inverse_layer_idx = True"],
    ),
    ("gemma2", {"use_bidirectional_attention": True}, ["bidirectional"]),
    ("gemma3_text", {"attn_logit_softcapping": 9.0}, ["softcapping = 9.0"]),
    ("qwen2", {"layer_types": ["chunked_attention"] * 2}, ["chunked_attenti"]),
    ("qwen3_moe", {"mlp_only_layers": [1]}, ["mlp_only_layers = [1]"]),
    ("qwen3_moe", {"decoder_sparse_step": 2}, ["decoder_sparse_step = 2"]),
    (
      "smollm3",
      {
        "use_sliding_window": True,
        "sliding_window": 4,
        "layer_types": ["sliding_attention"] * 2,
      },
      ["no_rope_layers", "layer 1"],
    ),
  ],
)
def test_what_a_config_says_and_we_cannot_is_refused_by_name(
  name, changes, output
):
  with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
    config_conversion.from_hf({**messages(name), **changes})
  for words in output:
    assert words in str(caught.value)


@pytest.mark.parametrize(
  ("changes", "output"),
  [
    ({"qk_norm": "head"}, ["qk_norm = 'head'", "can: qwen3"]),
    ({"norm_place": "post"}, ["norm_place = 'post'", "can: none"]),
    (
      {"layer_kinds": ("local",), "window": 3},
      ["layer_kinds = ('local',)", "can: mistral, smollm3"],
    ),
    ({"family": "bert"}, ["unknown family 'bert'"]),
    ({"family": "gpt2"}, ["family 'gpt2' cannot express", "can: llama"]),
  ],
)
def test_what_a_family_cannot_express_is_refused_by_name(
  changes, output, tmp_path
):
  config = dataclasses.replace(shape_of("llama"), **changes)
  with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
    hf.save(config, {}, tmp_path / "out")
  for words in output:
    assert words in str(caught.value)
  assert not list(tmp_path.iterdir())


# Weights.


@pytest.mark.parametrize("name", CASES)
def test_export_and_import_are_bit_identical(name, tmp_path):
  config, params = write(tmp_path / "float32", name)
  result, again = hf.load(tmp_path / "float32")
  assert config_conversion.canonical(result) == config_conversion.canonical(
    config
  )
  assert result.family == config.family
  assert same(again, params)
  half = dataclasses.replace(config, dtype="bfloat16", param_dtype="bfloat16")
  rounded = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
  hf.save(half, rounded, tmp_path / "bfloat16")
  assert same(hf.load(tmp_path / "bfloat16", dtype="bfloat16")[1], rounded)
  # What is stored in one dtype is rounded to the other.
  assert same(hf.load(tmp_path / "float32", dtype="bfloat16")[1], rounded)
  assert hf.load(tmp_path / "bfloat16", "bfloat16")[0] == dataclasses.replace(
    result, dtype="bfloat16", param_dtype="bfloat16"
  )


def test_shards_hold_what_one_file_holds(tmp_path):
  config, params = write(tmp_path / "one", "qwen3_moe")
  hf.save(config, params, tmp_path / "many", shard_bytes=20_000)
  files = sorted(
    path.name for path in (tmp_path / "many").glob("*.safetensors")
  )
  assert len(files) > 3
  assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
  assert same(hf.load(tmp_path / "many")[1], params)
  index = json.loads((tmp_path / "many" / load_folder.INDEX).read_text())
  size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
  assert index["metadata"]["total_size"] == size
  for name, file in index["weight_map"].items():
    stored = safetensors.numpy.load_file(tmp_path / "many" / file)
    assert name in stored
    assert sum(leaf.nbytes for leaf in stored.values()) <= 20_000
  assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_half_precision_is_read(tmp_path):
  _, params = write(tmp_path, "qwen3")
  rewrite(
    tmp_path,
    lambda leaves: {k: v.astype(np.float16) for k, v in leaves.items()},
  )
  want = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), params)
  want = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), want)
  assert same(hf.load(tmp_path)[1], want)


def test_names_of_other_releases_are_read(tmp_path):
  _, params = write(tmp_path / "base", "gpt2")
  rewrite(
    tmp_path / "base",
    lambda leaves: {
      **{k.removeprefix("transformer."): v for k, v in leaves.items()},
      "h.0.attn.bias": np.ones((1, 1, 4, 4), np.bool_),
      "h.0.attn.masked_bias": np.array(-1e4, np.float32),
    },
  )
  assert same(hf.load(tmp_path / "base")[1], params)
  _, params = write(tmp_path / "old", "llama")
  rewrite(
    tmp_path / "old",
    lambda leaves: {
      **leaves,
      "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32),
    },
  )
  assert same(hf.load(tmp_path / "old")[1], params)


@pytest.mark.parametrize(
  "prefix", ["language_model.model.", "model.language_model."]
)
def test_the_text_decoder_of_a_larger_model_is_read(prefix, tmp_path):
  _, params = write(tmp_path, "gemma3_text")
  text = json.loads((tmp_path / "config.json").read_text())
  nested = {"model_type": "gemma3", "text_config": text, "vision_config": {}}
  (tmp_path / "config.json").write_text(json.dumps(nested))
  rewrite(
    tmp_path,
    lambda leaves: {
      **{k.replace("model.", prefix, 1): v for k, v in leaves.items()},
      "vision_tower.patch.weight": np.ones(3, np.float32),
      "multi_modal_projector.norm": np.ones(3, np.float32),
    },
  )
  config, again = hf.load(tmp_path)
  assert config.family == "gemma3_text"
  assert same(again, params)


def test_a_tied_unembedding_may_be_stored_but_not_differ(tmp_path):
  _, params = write(tmp_path, "qwen3")
  table = np.asarray(params["embed"]["table"])
  rewrite(tmp_path, lambda leaves: {**leaves, "lm_head.weight": table})
  assert same(hf.load(tmp_path)[1], params)
  table = table.copy()
  table[-1, -1] += 1
  rewrite(tmp_path, lambda leaves: {**leaves, "lm_head.weight": table})
  assert "lm_head.weight differs from model.embed_tokens" in refused(tmp_path)


# Sharded reading.


@pytest.fixture
def number(monkeypatch):
  """Bytes that are read of every tensor, by name."""
  counts = collections.Counter()
  opened = load_folder._StoredTensor.open

  class Counting:
    def __init__(self, tensor):
      self.name, self.slices = tensor.name, opened(tensor)

    def __getitem__(self, index):
      part = self.slices[index]
      counts[self.name] += part.nbytes
      return part

  monkeypatch.setattr(
    load_folder._StoredTensor, "open", lambda part: Counting(part)
  )
  return counts


MESHES = [(1, 4, 2), (2, 2, 2)]
SPLIT = ["llama_linear", "phi3_short", "gpt2", "mixtral", "olmoe"]


@pytest.mark.parametrize("sizes", MESHES)
@pytest.mark.parametrize("name", SPLIT)
def test_under_a_mesh_every_byte_is_read_once(name, sizes, tmp_path, number):
  even = {"num_key_value_heads": 2} if name == "phi3_short" else {}
  config, params = write(tmp_path / "in", name, vocab_size=96, **even)
  mesh = sharding.make_mesh(*sizes)
  _, result = hf.load(tmp_path / "in", mesh=mesh)
  assert same(result, params)
  assert jax.tree.map(lambda leaf: leaf.sharding, result) == sharding.shardings(
    params, mesh
  )
  stored = safetensors.numpy.load_file(tmp_path / "in" / "model.safetensors")
  assert number == {name: leaf.nbytes for name, leaf in stored.items()}
  hf.save(config, result, tmp_path / "out")
  assert same(hf.load(tmp_path / "out")[1], params)


def test_a_host_reads_only_what_its_shards_need(tmp_path, number, monkeypatch):
  _, params = write(tmp_path, "llama", vocab_size=96)
  mesh = sharding.make_mesh(1, 4, 2)
  placed = sharding.shardings(params, mesh)

  def on_one_device(shape, place, callback):
    index = place.devices_indices_map(shape)[jax.devices()[3]]
    return jnp.asarray(callback(index))

  monkeypatch.setattr(jax, "make_array_from_callback", on_one_device)
  _, result = hf.load(tmp_path, mesh=mesh)
  local = jax.tree.map(
    lambda leaf, place: next(
      shard.data
      for shard in jax.device_put(leaf, place).addressable_shards
      if shard.device == jax.devices()[3]
    ),
    params,
    placed,
  )
  assert same(result, local)
  # Heads are cut by rows of the file, so not a byte too much was read.
  needed = sum(leaf.nbytes for leaf in jax.tree.leaves(local))
  assert sum(number.values()) == needed


def test_loaded_parameters_may_be_donated(tmp_path):
  _, params = write(tmp_path, "llama", vocab_size=96)
  _, result = hf.load(tmp_path, mesh=sharding.make_mesh(8, 1, 1))
  doubled = jax.jit(
    lambda tree: jax.tree.map(lambda leaf: 2 * leaf, tree), donate_argnums=0
  )(result)
  for leaf, want in zip(
    jax.tree.leaves(doubled), jax.tree.leaves(params), strict=True
  ):
    for shard in leaf.addressable_shards:  # copies, one on each device
      np.testing.assert_array_equal(shard.data, 2 * np.asarray(want))


# Heads, adapters, tokenizers.


def test_heads_are_saved_and_loaded(tmp_path):
  config = dataclasses.replace(
    shape_of("llama"), value_head=True, extra_heads=(("step", 3), ("a", 2))
  )
  params = random_params(config)
  hf.save(config, params, tmp_path / "out")
  result, again = hf.load(tmp_path / "out", dtype="bfloat16")
  assert (result.value_head, result.extra_heads) == (True, config.extra_heads)
  assert hf.load_config(tmp_path / "out").extra_heads == config.extra_heads
  heads = {name: params[name] for name in ("value", "heads")}
  assert same({name: again[name] for name in heads}, heads)


def test_adapters_are_merged(tmp_path):
  config = dataclasses.replace(shape_of("llama"), lora_rank=2)
  params = random_params(config)
  hf.save(config, params, tmp_path / "out")
  _, merged = lora.merge(config, params)
  result, again = hf.load(tmp_path / "out")
  assert result.lora_rank == 0
  assert same(again, merged)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
  """A folder with a tokenizer of 258 tokens and a generation config."""
  folder = tmp_path_factory.mktemp("tokens")
  tokenizer.train(["one text"], 258).save_pretrained(folder)
  settings = {"eos_token_id": [1, 7], "temperature": 0.6}
  (folder / "generation_config.json").write_text(json.dumps(settings))
  return folder


def test_a_tokenizer_is_copied_beside(tokens, tmp_path):
  config = shape_of("llama", vocab_size=258)
  hf.save(config, random_params(config), tmp_path / "out", tokenizer=tokens)
  assert tokenizer.required_vocab_size(tokenizer.load(tmp_path / "out")) == 258
  copied = tokenizer.load(tmp_path / "out")
  assert tokenizer.stop_ids(copied, tmp_path / "out") == (1, 7)


def test_what_else_ended_completions_is_written_as_a_stop(tokens, tmp_path):
  """The end of a turn, which the folder of a base model does not name."""
  config = shape_of("llama", vocab_size=258)
  params, out = random_params(config), tmp_path / "out"
  hf.save(config, params, out, tokenizer=tokens, stops=(7, 3))
  assert tokenizer.stop_ids(tokenizer.load(out), out) == (1, 7, 3)
  for name in ("config.json", "generation_config.json"):
    messages = json.loads((out / name).read_text())
    assert messages["eos_token_id"] == [1, 7, 3], name
  assert messages["temperature"] == 0.6


def test_a_tokenizer_larger_than_the_embedding_is_refused(tokens, tmp_path):
  config = shape_of("llama")
  with pytest.raises(ValueError, match=r"has 258 tokens.* has 97 rows"):
    hf.save(config, {}, tmp_path / "out", tokenizer=tokens)
  with pytest.raises(ValueError, match=r"has 98 tokens.* has 97 rows"):
    hf.check_tokenizer(config, 98, "folder")
  hf.check_tokenizer(config, 97, "folder")


# Mistakes.


def test_bad_folders_are_refused_in_one_line(tmp_path):
  assert "absent' is not a folder" in refused(tmp_path / "absent")
  (tmp_path / "empty").mkdir()
  assert "no config.json" in refused(tmp_path / "empty")
  (tmp_path / "empty" / "config.json").write_text("{")
  assert "not JSON" in refused(tmp_path / "empty")
  (tmp_path / "empty" / "config.json").write_text(json.dumps(messages("llama")))
  assert "neither model.safetensors nor" in refused(tmp_path / "empty")
  (tmp_path / "empty" / "pytorch_model.bin").touch()
  output = refused(tmp_path / "empty")
  assert "pytorch_model.bin" in output
  assert "convert" in output
  write(tmp_path / "good")
  output = refused(tmp_path / "good", dtype="float16")
  assert "unknown dtype 'float16'" in output
  assert "float32, bfloat16, float64" in output


def test_a_corrupt_or_missing_shard_is_named(tmp_path):
  config, params = write(tmp_path / "one")
  path = tmp_path / "one" / "model.safetensors"
  complete = path.read_bytes()
  path.write_bytes(complete[:-5])
  assert f"corrupt shard {path}" in refused(tmp_path / "one")
  path.write_bytes(b"")
  assert f"corrupt shard {path}" in refused(tmp_path / "one")
  hf.save(config, params, tmp_path / "many", shard_bytes=20_000)
  lost = sorted((tmp_path / "many").glob("*.safetensors"))[1]
  lost.unlink()
  output = refused(tmp_path / "many")
  assert (
    f"shard {lost.name}, which {load_folder.INDEX} names, is missing" in output
  )


def test_missing_and_unknown_tensors_are_listed_by_name(tmp_path):
  write(tmp_path)
  gone = "model.layers.1.mlp.up_proj.weight"

  def change(leaves):
    del leaves[gone]
    strange = {f"extra.{n}": np.ones(2, np.float32) for n in range(6)}
    return {**leaves, **strange}

  rewrite(tmp_path, change)
  output = refused(tmp_path)
  assert f"1 missing tensor: {gone}; 6 unknown tensors: extra.0" in output
  assert "extra.3, ..." in output


def test_a_tensor_of_another_shape_or_dtype_is_named(tmp_path):
  name = "model.layers.0.mlp.up_proj.weight"
  write(tmp_path)
  rewrite(tmp_path, lambda leaves: {**leaves, name: leaves[name][1:]})
  output = refused(tmp_path)
  assert name in output
  assert "(47, 32)" in output
  assert "(48, 32)" in output
  quantised = np.zeros((48, 32), np.int8)
  rewrite(tmp_path, lambda leaves: {**leaves, name: quantised})
  assert f"dtype mismatch: {name} is stored as I8" in refused(tmp_path)
  small = np.zeros((48, 32), ml_dtypes.float8_e4m3fn)
  rewrite(tmp_path, lambda leaves: {**leaves, name: small})
  assert f"dtype mismatch: {name} is stored as F8" in refused(tmp_path)


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
  config = shape_of("llama")
  params = random_params(config)
  hf.save(config, params, tmp_path / "there")
  with pytest.raises(ValueError, match="exists already"):
    hf.save(config, params, tmp_path / "there")

  def full(*_, **__):
    raise OSError("no space left")

  monkeypatch.setattr(safetensors.numpy, "save_file", full)
  with pytest.raises(OSError, match="no space"):
    hf.save(config, params, tmp_path / "out")
  assert [path.name for path in tmp_path.iterdir()] == ["there"]


# The command line.


def test_import_makes_a_workdir_and_export_brings_it_back(
  tmp_path, tokens, capsys
):
  config = shape_of("qwen3", vocab_size=258)
  params = random_params(config)
  hf.save(config, params, tmp_path / "in", tokenizer=tokens)
  workdir, out = tmp_path / "run", tmp_path / "out"
  assert cli.main(["import", str(tmp_path / "in"), str(workdir)]) == 0
  count = sum(leaf.size for leaf in jax.tree.leaves(params))
  assert f"{count:,} parameters, {4 * count:,} bytes" in capsys.readouterr().out
  text = (workdir / "model.json").read_text()
  assert text.startswith('{\n  "model": {\n    "vocab_size"')
  built = json.loads(text)
  assert from_fields(built["model"]) == hf.load_config(tmp_path / "in")
  assert cli.main(["export", str(workdir), str(out)]) == 0
  assert same(hf.load(out)[1], params)
  assert tokenizer.required_vocab_size(tokenizer.load(out)) == 258
  assert tokenizer.stop_ids(tokenizer.load(out), out) == (1, 7)


def test_a_run_reads_what_import_wrote(tmp_path):
  config, params = write(tmp_path / "in")
  assert cli.main(["import", str(tmp_path / "in"), str(tmp_path / "run")]) == 0
  saved = tmp_path / "run" / checkpoint_reader.FOLDER
  assert same(checkpoint_reader.restore_params(saved), params)
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  assert same(checkpoint_reader.restore_params(saved, shapes), params)


def test_the_adapters_of_a_run_are_exported_on_their_base(tmp_path, capsys):
  config, base = write(tmp_path / "base")
  config = dataclasses.replace(config, lora_rank=2, value_head=True)
  trained, _ = lora.split(config, random_params(config, seed=1))
  origin = str(tmp_path / "base")
  workdirs.write_model(tmp_path / "run", config, origin, origin)
  # A relative path starts at the workdir.
  text = (tmp_path / "run" / "model.json").read_text()
  settings = json.loads(text) | {"frozen": "../base"}
  (tmp_path / "run" / "model.json").write_text(json.dumps(settings))
  with checkpointing.Checkpoints(tmp_path / "run" / "checkpoints") as saving:
    saving.save(3, {"params": trained, "step": jnp.int32(3)}, {})
  out = tmp_path / "out"
  assert cli.main(["export", str(tmp_path / "run"), str(out)]) == 0
  assert "frozen base" in capsys.readouterr().out
  _, merged = lora.merge(config, types.join(trained, base))
  result, again = hf.load(out)
  assert result.value_head
  assert same(again, merged)


def test_a_damaged_checkpoint_is_not_exported(tmp_path, capsys, monkeypatch):
  config = shape_of("llama")
  params = random_params(config)
  workdirs.write_model(tmp_path / "run", config, "", "")
  with checkpointing.Checkpoints(tmp_path / "run" / "checkpoints") as saving:
    saving.save(3, {"params": params}, {})
  words = ["export", str(tmp_path / "run"), str(tmp_path / "out")]
  messages, separate = {"params.embed.table": 1}, checksums.select
  with monkeypatch.context() as changed:
    changed.setattr(
      checksums, "select", lambda *args: separate(*args) | messages
    )
    assert cli.main(words) == 2
  error = capsys.readouterr().err
  assert "params.embed.table is not what was saved" in error
  assert not (tmp_path / "out").exists()
  assert cli.main(words) == 0


@pytest.mark.parametrize("text", ["{}", "[]", '{"model": {}}', "{"])
def test_a_model_file_without_a_decoder_is_named(text, tmp_path, capsys):
  (tmp_path / "model.json").write_text(text)
  assert cli.main(["export", str(tmp_path), str(tmp_path / "out")]) == 2
  error = capsys.readouterr().err
  assert f"{tmp_path / 'model.json'} describes no decoder" in error
  assert not (tmp_path / "out").exists()


def test_adapters_on_random_weights_are_not_exported(tmp_path, capsys):
  config = dataclasses.replace(shape_of("llama"), lora_rank=2)
  params = random_params(config)
  trained, _ = lora.split(config, params)
  workdirs.write_model(tmp_path / "run", config, "", "")
  with checkpointing.Checkpoints(tmp_path / "run" / "checkpoints") as saving:
    saving.save(3, {"params": trained, "step": jnp.int32(3)}, {})
  words = ["export", str(tmp_path / "run"), str(tmp_path / "out")]
  assert cli.main(words) == 2
  assert "adapters on a randomly initialized base" in capsys.readouterr().err
  with pytest.raises(ValueError, match=r"parameter embed\.table is absent"):
    hf.save(config, trained, tmp_path / "out")


def test_a_stored_unembedding_of_a_tied_decoder_may_not_differ(tmp_path):
  """`check` reads headers and cannot see it, `load` does."""
  config = dataclasses.replace(shape_of("llama"), tied_embeddings=True)
  hf.save(config, random_params(config), tmp_path / "out")
  path = tmp_path / "out" / "model.safetensors"
  tensors = safetensors.numpy.load_file(path)
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
  safetensors.numpy.save_file(tensors, path)
  hf.check_folder(tmp_path / "out")
  with pytest.raises(ValueError, match=r"lm_head\.weight differs"):
    hf.load(tmp_path / "out")


def test_the_command_says_mistakes_in_one_line(tmp_path, capsys):
  def says(*words):
    assert cli.main([str(word) for word in words]) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    return output

  with pytest.raises(SystemExit):
    cli.main([])
  assert "arguments are required: command" in capsys.readouterr().err
  assert "is not a folder" in says("import", tmp_path / "a", tmp_path / "b")
  assert "no model.json" in says("export", tmp_path, tmp_path / "b")
  write(tmp_path / "in")
  assert cli.main(["import", str(tmp_path / "in"), str(tmp_path / "run")]) == 0
  capsys.readouterr()
  run, out = tmp_path / "run", tmp_path / "out"
  assert "already" in says("import", tmp_path / "in", run)
  output = says("export", run, out, "--step", 5)
  assert "no checkpoint of step 5" in output
  assert "available: [0]" in output
  told_of = json.loads((run / "model.json").read_text())
  told_of["model"]["norm_place"] = "post"
  (run / "model.json").write_text(json.dumps(told_of))
  assert "cannot express norm_place = 'post'" in says("export", run, out)
  assert not out.exists()


def test_the_program_reads_the_command_line(tmp_path, capsys, monkeypatch):
  words = ["program", "export", str(tmp_path), str(tmp_path / "out")]
  monkeypatch.setattr("sys.argv", words)
  with (
    pytest.warns(RuntimeWarning, match="found in sys.modules"),
    pytest.raises(SystemExit) as ended,
  ):
    runpy.run_module("models.hf.__main__", run_name="__main__")
  assert ended.value.code == 2
  assert "no model.json" in capsys.readouterr().err


def test_a_workdir_may_exist_and_its_parents_need_not(tmp_path):
  write(tmp_path / "in")
  (tmp_path / "empty").mkdir()
  for out in (tmp_path / "a" / "b", tmp_path / "empty"):
    assert cli.main(["import", str(tmp_path / "in"), str(out)]) == 0
    assert checkpoint_reader.steps(out / checkpoint_reader.FOLDER) == [0]


def test_a_local_theta_has_an_effect_beside_a_scaling():
  """Layers of a window are not scaled, so that equal thetas differ there."""
  mixed = dataclasses.replace(
    small_decoders.BASE,
    layer_kinds=("local", "global"),
    window=3,
    rope_theta=500.0,
    local_rope_theta=500.0,
  )
  scaling = RopeScaling("linear", factor=2.0)
  canonical = config_conversion.canonical
  assert canonical(mixed).local_rope_theta == 0
  scaled = dataclasses.replace(mixed, rope_scaling=scaling)
  assert canonical(scaled).local_rope_theta == 500
  assert canonical(scaled).rope_scaling == scaling
  other = dataclasses.replace(mixed, local_rope_theta=400.0)
  assert canonical(other).local_rope_theta == 400
  # Without a layer that sees all tokens, the local theta alone counts.
  local = dataclasses.replace(
    scaled, layer_kinds=("local",), local_rope_theta=400.0
  )
  alone = canonical(local)
  assert (alone.rope_theta, alone.local_rope_theta) == (400, 0)
  assert alone.rope_scaling is None
  # Without a window, neither window nor local theta counts.
  wide = dataclasses.replace(mixed, layer_kinds=("global",))
  assert (canonical(wide).window, canonical(wide).local_rope_theta) == (0, 0)
