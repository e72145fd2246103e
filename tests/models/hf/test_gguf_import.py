"""Keys of GGUF files, without a file."""

import pathlib

import numpy as np
import pytest

from models.hf import gguf_import

EMBEDDING = np.zeros((8, 100))  # GGUF stores shapes in reversed order
KEYS = {
  "embedding_length": 8,
  "block_count": 2,
  "feed_forward_length": 12,
  "attention.head_count": 4,
  "attention.layer_norm_rms_epsilon": 1e-5,
  "context_length": 64,
}


class File(gguf_import._File):
  """A file whose tensors are arrays in memory."""

  def read(self, name: str) -> np.ndarray:
    return self.tensors[name]


def file_of(tensors=None, layers=2, **keys) -> File:
  """A file of the architecture "llama"; a key of None is absent."""
  keys = {name.replace("__", "."): value for name, value in keys.items()}
  metadata = {
    f"llama.{name}": value
    for name, value in {**KEYS, **keys}.items()
    if value is not None
  }
  metadata["general.architecture"] = "llama"
  blocks = {f"blk.{i}.attn_q.weight": np.zeros((8, 8)) for i in range(layers)}
  return File(
    pathlib.Path("m.gguf"),
    metadata,
    {"token_embd.weight": EMBEDDING, **blocks, **(tensors or {})},
  )


def test_a_number_for_each_layer_may_be_that_of_all():
  assert file_of(heads=[4]).get("heads") == 4
  assert file_of(heads=[4, 4]).get("heads") == 4
  with pytest.raises(ValueError, match=r"differs between layers \(\[4, 2\]\)"):
    file_of(heads=[4, 2]).get("heads")
  assert file_of().get("heads", 3) == 3
  with pytest.raises(ValueError, match=r"m.gguf lacks the key llama.heads"):
    file_of().get("heads")


def test_counts_are_integers_from_1_on():
  assert file_of(heads=1).count("heads") == 1
  assert file_of().count("heads", 2) == 2
  for wrong in (0, 1.5):
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
      file_of(heads=wrong).count("heads")


def test_positive_numbers_are_rounded_to_the_shortest_decimal():
  assert file_of(eps=float(np.float32(1e-5))).positive("eps") == 1e-5
  assert file_of(eps=2).positive("eps") == 2.0
  assert file_of().positive("eps", 0.5) == 0.5
  for wrong in (0, 0.0, -1.0, float("inf"), "1"):
    with pytest.raises(ValueError, match="must be a finite number above 0"):
      file_of(eps=wrong).positive("eps")


def test_layers_are_those_of_the_tensors():
  assert gguf_import._num_layers(file_of()) == 2
  for count, layers in ((3, 2), (1, 2), (4, 2), (2, 3)):
    file = file_of(block_count=count, layers=layers)
    with pytest.raises(ValueError, match=f"is {count}, .* of {layers} layers"):
      gguf_import._num_layers(file)


@pytest.mark.parametrize(
  ("keys", "head_dim"),
  [
    ({}, 2),  # 8 channels in 4 heads
    ({"attention__head_count": 16}, 1),  # more heads than channels
    ({"attention__head_count": 8}, 1),
    ({"rope__dimension_count": 3}, 3),
    ({"rope__dimension_count": 3, "attention__key_length": 5}, 5),
  ],
)
def test_channels_of_a_head(keys, head_dim):
  config = gguf_import._shared_config(file_of(**keys))
  assert config["head_dim"] == head_dim
  # As many key heads as query heads.
  assert config["num_key_value_heads"] == config["num_attention_heads"]


def test_keys_that_all_architectures_share():
  config = gguf_import._llama_config(file_of(attention__head_count_kv=2))
  expected = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "intermediate_size": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "vocab_size": 100,
    "tie_word_embeddings": True,  # there is no output.weight
    "rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default"},
    "model_type": "llama",
    "attention_bias": False,
    "mlp_bias": False,
  }
  assert {name: config[name] for name in expected} == expected
  file = file_of({"output.weight": EMBEDDING, "blk.0.attn_q.bias": np.zeros(8)})
  config = gguf_import._llama_config(file)
  assert not config["tie_word_embeddings"]
  assert config["attention_bias"]


@pytest.mark.parametrize("factors", [[1.0, 0.0], [-1.0, 2.0], []])
def test_divisors_of_frequencies_are_above_0(factors):
  file = file_of({"rope_freqs.weight": np.array(factors)})
  with pytest.raises(ValueError, match="divisors that are not above 0"):
    gguf_import._rope_parameters(file)


def test_divisors_of_frequencies_are_those_of_all_lengths():
  file = file_of({"rope_freqs.weight": np.array([1.0, 0.5, 8.0])})
  assert gguf_import._rope_parameters(file) == {
    "rope_theta": 10_000.0,
    "rope_type": "longrope",
    "factor": 1.0,
    "attention_factor": 1.0,
    "short_factor": [1.0, 0.5, 8.0],
    "long_factor": [1.0, 0.5, 8.0],
    "original_max_position_embeddings": 64,
  }


def test_scalings_that_a_file_names():
  keys = {"rope__scaling__factor": 4.0, "rope__freq_base": 500.0}
  file = file_of(**keys, rope__scaling__type="linear")
  linear = {"rope_theta": 500.0, "rope_type": "linear", "factor": 4.0}
  assert gguf_import._rope_parameters(file) == linear
  original = {"rope__scaling__original_context_length": 32}
  file = file_of(**keys, **original, rope__scaling__type="yarn")
  assert gguf_import._rope_parameters(file) == {
    **linear,
    "rope_type": "yarn",
    "original_max_position_embeddings": 32,
  }
  file = file_of(**keys, rope__scaling__type="none")
  default = {"rope_theta": 500.0, "rope_type": "default"}
  assert gguf_import._rope_parameters(file) == default


def test_channels_of_a_query_are_halves_in_the_folder():
  """llama.cpp rotates channels 0 and 1, Hugging Face 0 and 2 of a head."""
  file = file_of(attention__head_count=2, attention__head_count_kv=1)
  tensor = np.arange(8)[:, None] * [1, 10]
  result = gguf_import._restore_halves(file, "blk.0.attn_q.weight", tensor)
  np.testing.assert_array_equal(result[:, 0], [0, 2, 1, 3, 4, 6, 5, 7])
  np.testing.assert_array_equal(result[:, 1], 10 * result[:, 0])
  # A single head of keys has all channels.
  result = gguf_import._restore_halves(file, "blk.0.attn_k.bias", np.arange(8))
  np.testing.assert_array_equal(result, [0, 2, 4, 6, 1, 3, 5, 7])
  result = gguf_import._restore_halves(file, "blk.0.attn_v.weight", tensor)
  np.testing.assert_array_equal(result, tensor)


def test_scales_of_gemma_are_stored_with_1_added():
  scale = np.array([1.0, 3.0])
  convert = gguf_import._subtract_one
  result = convert(None, "blk.0.attn_norm.weight", scale)
  np.testing.assert_array_equal(result, [0, 2])
  result = convert(None, "blk.0.attn_q.weight", scale)
  np.testing.assert_array_equal(result, scale)


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("rope_freqs.weight", ""),
    ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
  ],
)
def test_names_of_tensors(name, expected):
  architecture = gguf_import.ARCHITECTURES["llama"]
  assert gguf_import._folder_name(file_of(), architecture, name) == expected


@pytest.mark.parametrize(
  "name", ["output.bias", "blk.0.sinks.weight", "blk.0.attn_q.scale", "other"]
)
def test_unknown_tensors_are_refused(name):
  architecture = gguf_import.ARCHITECTURES["llama"]
  with pytest.raises(ValueError, match=f"tensor {name} of m.gguf is unknown"):
    gguf_import._folder_name(file_of(), architecture, name)
