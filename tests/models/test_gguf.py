"""GGUF files become Hugging Face folders with the same decoder."""

import dataclasses
import functools
import json
import pathlib
import types

import jax
import numpy as np
import pytest

gguf = pytest.importorskip(
  "gguf", reason="files are written by the package gguf: pip install .[gguf]"
)

from helpers import small_gguf  # noqa: E402

from models import hf, tokenizer, transformer  # noqa: E402
from models.hf import __main__ as command  # noqa: E402
from models.hf import gguf_import  # noqa: E402

Q8_0 = gguf.GGMLQuantizationType.Q8_0


@pytest.fixture(scope="module", params=list(small_gguf.CONFIGS))
def example(request, tmp_path_factory):
  """Architecture, decoder, and a GGUF file of it."""
  folder = tmp_path_factory.mktemp(request.param)
  decoder = small_gguf.make_decoder(request.param, folder / "original")
  small_gguf.write(folder / "m.gguf", request.param, decoder.tensors)
  return request.param, decoder, folder / "m.gguf"


@pytest.fixture
def llama(tmp_path):
  return small_gguf.make_decoder("llama", tmp_path / "original")


def test_the_decoder_is_the_same_number_by_number(example, tmp_path):
  architecture, decoder, file = example
  gguf_import.convert(file, tmp_path / "out")
  config, params = hf.load(tmp_path / "out")
  assert config == decoder.config
  # Files of Gemma store the scales of norms with 1 added, which rounds them.
  atol = 2**-22 if architecture == "gemma3" else 0.0
  close = functools.partial(np.testing.assert_allclose, rtol=0, atol=atol)
  jax.tree.map(close, params, decoder.params)


def test_quantized_tensors_are_what_gguf_reads(llama, tmp_path):
  name = "blk.1.ffn_up.weight"
  small_gguf.write(
    tmp_path / "m.gguf", "llama", llama.tensors, types={name: Q8_0}
  )
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  kernel = hf.load(tmp_path / "out")[1]["layers"]["mlp"]["up"]["kernel"][1]
  original = llama.tensors["model.layers.1.mlp.up_proj.weight"]
  expected = gguf.dequantize(gguf.quantize(original, Q8_0), Q8_0)
  np.testing.assert_array_equal(kernel, expected.T)
  assert 0 < abs(expected - original).max() < 0.02


def test_the_folder_has_the_tokenizer_and_its_template(example, tmp_path):
  *_, file = example
  gguf_import.convert(file, tmp_path / "out")
  loaded = tokenizer.load(tmp_path / "out")
  tokens = small_gguf.TOKENS
  ids = [tokens.index(token) for token in ("abc", "ab", "Ġ", "a")]
  assert loaded.encode("abcab a") == ids
  assert loaded.decode(ids) == "abcab a"
  # A special token stays whole.
  assert loaded.encode("a<|endoftext|>") == [tokens.index("a"), small_gguf.EOS]
  messages = [{"role": "user", "content": "abc"}]
  text = loaded.apply_chat_template(messages, tokenize=False)
  assert text == "abc<|endoftext|>"
  assert loaded.eos_token_id == small_gguf.EOS
  config = json.loads((tmp_path / "out/config.json").read_text())
  assert config["eos_token_id"] == small_gguf.EOS
  assert config["bos_token_id"] == small_gguf.BOS


# Words into which the published tokenizers cut a text before they merge, by
# hand from the rules of each. GPT-2's are contractions in lower case, and
# letters, numbers or signs with one space before them. SmolLM2 cuts digits off
# first. Llama 3 has numbers of up to three digits; a line's end belongs to the
# signs before it, and one sign to the letters after it. Qwen 2 has single
# digits.
_WORDS = {
  "a\n\n1.": {
    "gpt-2": "a|\n|\n|1|.",  # the last white space before a word is apart
    "smollm": "a|\n\n|1|.",
    "llama-bpe": "a|\n\n|1|.",
    "qwen2": "a|\n\n|1|.",
  },
  " 12345 x": {
    "gpt-2": " 12345| x",
    "smollm": " |1|2|3|4|5| x",
    "llama-bpe": " |123|45| x",
    "qwen2": " |1|2|3|4|5| x",
  },
  "I'll DON'T": {
    "gpt-2": "I|'ll| DON|'|T",
    "smollm": "I|'ll| DON|'|T",
    "llama-bpe": "I|'ll| DON|'T",
    "qwen2": "I|'ll| DON|'T",
  },
  "f(x);\n  (y)": {
    "gpt-2": "f|(|x|);|\n | (|y|)",
    "smollm": "f|(|x|);|\n | (|y|)",
    "llama-bpe": "f|(x|);\n| | (|y|)",
    "qwen2": "f|(x|);\n| | (|y|)",
  },
  "x²٣½": {
    "gpt-2": "x|²٣½",
    "smollm": "x|²|٣|½",
    "llama-bpe": "x|²٣½",
    "qwen2": "x|²|٣|½",
  },
}


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_texts_are_split_as_the_published_tokenizer_splits_them(
  llama, tmp_path, name
):
  small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors, pre=name)
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  splitter = tokenizer.load(tmp_path / "out").backend_tokenizer.pre_tokenizer
  for text, words in _WORDS.items():
    actual = "|".join(
      text[start:end] for _, (start, end) in splitter.pre_tokenize_str(text)
    )
    assert actual == words[name], text


def test_llama_3_takes_a_whole_word_and_qwen_2_composes_accents(
  llama, tmp_path
):
  """Both are settings of the published tokenizer that no file has."""
  folders = {}
  for name in ("llama-bpe", "qwen2", "gpt-2"):
    small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors, pre=name)
    folders[name] = tmp_path / name
    gguf_import.convert(tmp_path / "m.gguf", folders[name])
  loaded = {name: tokenizer.load(folder) for name, folder in folders.items()}
  is_whole = {
    name: json.loads(each.backend_tokenizer.to_str())["model"]["ignore_merges"]
    for name, each in loaded.items()
  }
  assert is_whole == {"llama-bpe": True, "qwen2": False, "gpt-2": False}
  normalizer = loaded["qwen2"].backend_tokenizer.normalizer
  assert normalizer.normalize_str("e\u0301") == "\u00e9"
  assert loaded["llama-bpe"].backend_tokenizer.normalizer is None
  # llama.cpp adds BOS for Llama 3 where the file does not say.
  ids = loaded["llama-bpe"]("a").input_ids
  assert ids == [small_gguf.BOS, small_gguf.TOKENS.index("a")]
  assert loaded["qwen2"]("a").input_ids == ids[1:]


def test_a_file_of_sentencepiece_may_add_no_space(llama, tmp_path):
  small_gguf.write(
    tmp_path / "m.gguf",
    "llama",
    llama.tensors,
    tokenizer="llama",
    more={"tokenizer.ggml.add_space_prefix": False},
  )
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  loaded = tokenizer.load(tmp_path / "out")
  assert loaded.tokenize("ab ab") == ["ab", "▁ab"]
  ids = loaded("ab ab", add_special_tokens=False).input_ids
  assert loaded.decode(ids) == "ab ab"
  assert loaded.decode(ids[1:]) == " ab"


def test_pieces_of_sentencepiece_are_joined_after_bos(llama, tmp_path):
  small_gguf.write(
    tmp_path / "m.gguf", "llama", llama.tensors, tokenizer="llama"
  )
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  loaded = tokenizer.load(tmp_path / "out")
  pieces = small_gguf.PIECES
  ids = [pieces.index(piece) for piece in ("<s>", "▁ab", "c", "▁ab")]
  assert loaded("abc ab").input_ids == ids
  assert loaded.decode(ids, skip_special_tokens=True) == "abc ab"
  assert loaded.eos_token_id == 2


def test_export_and_import_change_no_bit(example, tmp_path):
  *_, file = example
  gguf_import.convert(file, tmp_path / "out")
  config, params = hf.load(tmp_path / "out")
  hf.save(config, params, tmp_path / "again", tokenizer=tmp_path / "out")
  config_again, params_again = hf.load(tmp_path / "again")
  assert config_again == config
  jax.tree.map(np.testing.assert_array_equal, params_again, params)


@pytest.mark.parametrize(
  ("more", "kind", "fields"),
  [
    (
      {"scaling.type": "linear", "scaling.factor": 4.0},
      "linear",
      {"factor": 4.0},
    ),
    (
      {
        "scaling.type": "yarn",
        "scaling.factor": 2.0,
        "scaling.original_context_length": 32,
      },
      "yarn",
      {"factor": 2.0, "original": 32},
    ),
  ],
)
def test_the_rotary_embedding_is_scaled(llama, tmp_path, more, kind, fields):
  more = {f"llama.rope.{key}": value for key, value in more.items()}
  small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors, more=more)
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  scaling = hf.load_config(tmp_path / "out").rope_scaling
  assert scaling.kind == kind
  assert {name: getattr(scaling, name) for name in fields} == fields


def test_factors_of_frequencies_are_part_of_the_config(llama, tmp_path):
  """Files of Llama 3.1 have them as the tensor `rope_freqs.weight`."""
  factors = np.array([1.0, 1.5, 4.0, 8.0])
  tensors = {**llama.tensors, "rope_freqs.weight": factors}
  small_gguf.write(tmp_path / "m.gguf", "llama", tensors)
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  config, params = hf.load(tmp_path / "out")
  assert config.rope_scaling.long_factors == tuple(factors)
  assert config.rope_scaling.short_factors == tuple(factors)
  assert config.rope_scaling.attention_factor == 1.0
  same = dataclasses.replace(config, rope_scaling=None)
  assert same == llama.config
  jax.tree.map(np.testing.assert_array_equal, params, llama.params)


@pytest.mark.parametrize(
  ("architecture", "changes", "message"),
  [
    ("llama5", {}, "architecture of .* 'llama5'; did you mean 'llama'"),
    (
      "llama",
      {"tensors": {"blk.0.attn_sinks.weight": np.ones(4)}},
      "tensor blk.0.attn_sinks.weight of .* is unknown .* llama",
    ),
    ("llama", {"tokenizer": ""}, "has no tokenizer"),
    (
      "llama",
      {"pre": "smolm"},
      "tokenizer.ggml.pre of .* 'smolm'; did you mean 'smollm'",
    ),
    ("llama", {"pre": "default"}, "tokenizer.ggml.pre of .* 'default'"),
    (
      "llama",
      {"more": {"llama.rope.scaling.type": "su"}},
      "rope.scaling.type of .* 'su'",
    ),
    (
      "llama",
      {
        "more": {
          "llama.rope.scaling.type": "linear",
          "llama.rope.scaling.factor": 0.0,
        }
      },
      "rope.scaling.factor of .* is 0.0; it must be a finite number above 0",
    ),
    ("llama", {"keys": {"head_count": 0}}, "head_count of .* is 0; it must"),
    ("llama", {"keys": {"head_count_kv": 0}}, "head_count_kv of .* is 0"),
    ("llama", {"keys": {"embedding_length": 0}}, "embedding_length of .* is 0"),
    # 300 million layers would take long to list.
    (
      "gemma3",
      {"keys": {"block_count": 3 * 10**8}},
      "block_count of .* is 300000000, but its tensors are those of 2 layers",
    ),
    ("llama", {"keys": {"block_count": 1}}, "is 1, but .* of 2 layers"),
    (
      "llama",
      {"keys": {"feed_forward_length": 65}},
      r"mlp\.\w+_proj.weight of .* has the shape .* its keys ask for",
    ),
    (
      "llama",
      {"keys": {"eos_token_id": 100}},
      "eos_token_id of .* is 100; .* 99",
    ),
    ("llama", {"without": "model.embed_tokens.weight"}, "lacks .* token_embd"),
    (
      "llama",
      {"without": "model.layers.1.mlp.up_proj.weight"},
      r"lacks the tensor that is called model\.layers\.1\.mlp\.up_proj",
    ),
    ("llama", {"without": "model.norm.weight"}, "lacks .* model.norm.weight"),
    (
      "llama",
      {"tensors": {"model.norm.weight": np.full(32, np.nan)}},
      "tensor output_norm.weight of .* has numbers that are not finite",
    ),
    (
      "llama",
      {"tensors": {"rope_freqs.weight": np.array([1.0, 0.0, 1.0, 1.0])}},
      "rope_freqs.weight of .* has divisors that are not above 0",
    ),
  ],
)
def test_what_is_not_supported_is_named_and_nothing_is_written(
  llama, tmp_path, architecture, changes, message
):
  changes = dict(changes)
  tensors = {**llama.tensors, **changes.pop("tensors", {})}
  tensors.pop(changes.pop("without", ""), None)
  small_gguf.write(tmp_path / "m.gguf", architecture, tensors, **changes)
  with pytest.raises(ValueError, match=message):
    gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  assert not list(tmp_path.glob("*out*"))


def test_a_file_without_a_number_of_key_heads_has_one_for_each_query(tmp_path):
  config = {**small_gguf.CONFIGS["llama"], "num_key_value_heads": 4}
  decoder = small_gguf.make_decoder("llama", tmp_path / "original", config)
  small_gguf.write(
    tmp_path / "m.gguf", "llama", decoder.tensors, keys={"head_count_kv": None}
  )
  gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  loaded, params = hf.load(tmp_path / "out")
  assert loaded == decoder.config
  jax.tree.map(np.testing.assert_array_equal, params, decoder.params)


@pytest.mark.parametrize(
  ("layers", "width", "scale"),
  # Gemma 3 12B divides by the root of head_dim = 256, and 27B by that of its
  # width 5376 over 32 heads.
  [(48, 3840, 256), (62, 5376, 168), (61, 5376, 256), (63, 5376, 256)],
)
def test_the_attention_scale_of_gemma_3(layers, width, scale):
  embedding = types.SimpleNamespace(shape=(width, 100))
  keys = {
    "embedding_length": width,
    "block_count": layers,
    "feed_forward_length": 64,
    "attention.head_count": 32,
    "attention.head_count_kv": 16,
    "attention.key_length": 256,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.sliding_window": 1024,
    "context_length": 131072,
  }
  file = gguf_import._File(
    pathlib.Path("m.gguf"),
    {
      "general.architecture": "gemma3",
      **{f"gemma3.{key}": value for key, value in keys.items()},
    },
    {
      "token_embd.weight": embedding,
      **{f"blk.{i}.attn_q.weight": None for i in range(layers)},
    },
  )
  config = gguf_import.ARCHITECTURES["gemma3"].make_config(file)
  assert config["query_pre_attn_scalar"] == scale
  # Every sixth layer sees all tokens, with a theta of its own.
  kinds = config["layer_types"]
  assert len(kinds) == layers
  full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
  assert full == list(range(5, layers, 6))
  assert config["rope_parameters"]["sliding_attention"]["rope_theta"] == 10_000


def test_a_tensor_type_that_cannot_be_read_is_named(
  llama, tmp_path, monkeypatch
):
  small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors)

  def refuse(data, kind):
    raise NotImplementedError

  monkeypatch.setattr(gguf, "dequantize", refuse)
  with pytest.raises(ValueError, match="has the type F32, which"):
    gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  assert not list(tmp_path.glob("*out*"))


def test_another_file_and_a_full_folder_are_refused(llama, tmp_path):
  (tmp_path / "m.gguf").write_bytes(b"GGML is older" * 10)
  with pytest.raises(ValueError, match=r"m\.gguf is not a GGUF file"):
    gguf_import.convert(tmp_path / "m.gguf", tmp_path / "out")
  with pytest.raises(ValueError, match=r"no\.gguf is not a file"):
    gguf_import.convert(tmp_path / "no.gguf", tmp_path / "out")
  small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors)
  with pytest.raises(ValueError, match="exists already"):
    gguf_import.convert(tmp_path / "m.gguf", tmp_path / "original")


def test_the_command_converts_and_counts(llama, tmp_path, capsys):
  small_gguf.write(tmp_path / "m.gguf", "llama", llama.tensors)
  arguments = ["import", str(tmp_path / "m.gguf"), str(tmp_path / "out")]
  assert command.main(arguments) == 0
  printed = capsys.readouterr().out
  count = sum(x.size for x in jax.tree.leaves(llama.params))
  assert f"{count:,} parameters, {4 * count:,} bytes" in printed
  # Files for people to read.
  text = (tmp_path / "out" / "config.json").read_text()
  assert text.startswith('{\n  "hidden_size": 32,\n  "num_hidden')
  text = (tmp_path / "out" / "generation_config.json").read_text()
  assert text.startswith('{\n  "')
  assert command.main(arguments) == 2
  assert "exists already" in capsys.readouterr().err


def test_logits_are_those_of_transformers_own_reading(example, tmp_path):
  for package in ("torch", "accelerate"):
    pytest.importorskip(package, reason="pip install .[parity]")
  import torch
  import transformers

  *_, file = example
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
    file.parent, gguf_file=file.name, dtype=torch.float32
  )
  gguf_import.convert(file, tmp_path / "out")
  config, params = hf.load(tmp_path / "out")
  tokens = np.random.default_rng(1).integers(0, config.vocab_size, (2, 24))
  ours = transformer.logits(config, params, tokens, np.ones((2, 24), bool))
  with torch.no_grad():
    expected = theirs(torch.tensor(tokens)).logits.numpy()
  np.testing.assert_allclose(ours, expected, atol=1e-3 * abs(expected).max())
