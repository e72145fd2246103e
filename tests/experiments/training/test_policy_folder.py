"""Runs that start from a Hugging Face folder, whole or with adapters."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_gsm8k, small_run
from ml_collections import ConfigDict

from experiments.training import (
  build,
  checkpointing,
  initial_state,
  iteration,
  placement,
  workdirs,
)
from experiments.training.experiment import Experiment
from experiments.training_run import loop, validate
from models import checkpoint_reader, hf, lora, transformer
from models import tokenizer as bpe
from models.config import ModelConfig
from models.hf.__main__ import main as convert
from rl import types
from rl.sampling import generation

pytestmark = pytest.mark.long

MODEL = ModelConfig(
  vocab_size=304,
  width=16,
  layers=2,
  heads=2,
  kv_heads=1,
  head_dim=8,
  mlp_width=32,
  max_positions=256,
  qk_norm="head",
  tied_embeddings=True,
  family="qwen3",
)
LORA = {
  "model__lora_rank": 2,
  "model__lora_targets": r"attention\.(query|value)|mlp\.up",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return small_gsm8k.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data):
  """A checkpoint as one downloads it: weights, shape and tokenizer."""
  built = tmp_path_factory.mktemp("downloaded")
  texts = (data / "gsm8k_train.jsonl").read_text().splitlines()
  tokenizer = bpe.train(texts, MODEL.vocab_size - 4)
  tokenizer.save_pretrained(built / "tokenizer")
  params = transformer.init(MODEL, jax.random.key(7))
  hf.save(MODEL, params, built / "model", tokenizer=built / "tokenizer")
  return built / "model"


def experiment(folder, **changes) -> Experiment:
  changes = {"steps": 2, "optimizer__learning_rate": 1e-2, **changes}
  return small_run.experiment(policy__path=str(folder), **changes)


def run(e: Experiment, workdir):
  loop.run(e, workdir)
  with checkpointing.Checkpoints(
    workdir / checkpoint_reader.FOLDER
  ) as checkpoints:
    return checkpoints.restore(
      placement.abstract_state(e).with_carried(frozen={})
    )[0]


def leaves(tree):
  return {
    jax.tree_util.keystr(path): np.asarray(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def test_the_shape_is_the_folders_and_the_rest_the_configs(folder):
  e = build.build(
    small_run.config(policy__path=str(folder), model__remat="full", steps=1)
  )
  assert e.model == dataclasses.replace(
    MODEL, remat="full", attention="blocked"
  )


@pytest.fixture(scope="module")
def full(folder, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("whole")
  e = experiment(folder)
  return workdir, e, run(e, workdir)


def test_training_starts_from_the_folders_weights(folder, full):
  workdir, e, state = full
  start = placement.init_state(
    e, initial_state.starting_params(e, workdir)
  ).params
  _, stored = hf.load(folder)
  assert leaves(start).keys() == leaves(stored).keys()
  for name, leaf in leaves(stored).items():
    np.testing.assert_array_equal(leaves(start)[name], leaf)
  moved = [
    np.abs(leaf - leaves(stored)[name]).max()
    for name, leaf in leaves(state.params).items()
  ]
  assert min(moved) > 0


def test_a_run_is_exported_as_a_folder(full, tmp_path):
  workdir, _, state = full
  assert convert(["export", str(workdir), str(tmp_path / "out")]) == 0
  config, params = hf.load(tmp_path / "out")
  assert config == MODEL
  for name, leaf in leaves(state.params).items():
    np.testing.assert_array_equal(leaves(params)[name], leaf)


@pytest.fixture(scope="module")
def adapted(folder, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("adapted")
  e = experiment(folder, method="grpo(beta=0.01)", **LORA)
  return workdir, e, run(e, workdir)


def test_sampling_that_learns_moves_adapters_alone(folder, tmp_path):
  """EEPO unlearns its first half for a moment: of what is trained."""
  e = experiment(folder, method="eepo(rate=0.1, threshold=9.0)", **LORA)
  state = placement.init_state(e, initial_state.starting_params(e, tmp_path))
  rollout = iteration.compile_rollout_fn(e)(state)
  assert np.isfinite(np.asarray(rollout.behavior_log_probs)).all()
  observed = []
  forget = e.method.sampler.run

  def run(sampler, memory):
    observed.append(jax.tree.structure(sampler.params))
    return forget(sampler, memory)

  stage = dataclasses.replace(e.method.sampler, run=run)
  method = dataclasses.replace(e.method, sampler=stage)
  watched = dataclasses.replace(e, methods={"policy": method})
  iteration.compile_rollout_fn(watched)(state)
  assert observed[0] == jax.tree.structure(state.params)


def test_a_checkpoint_holds_the_adapters_alone(adapted):
  workdir, _, state = adapted
  assert all("lora" in name for name in leaves(state.params))
  everything = sum(leaf.size for leaf in jax.tree.leaves(state))
  trained = sum(leaf.size for leaf in leaves(state.params).values())
  # The adapters, their reference, two moments, and some counts and keys.
  assert everything < 4 * trained + 20
  size = sum(
    path.stat().st_size
    for path in (workdir / checkpoint_reader.FOLDER).rglob("*")
    if "frozen" in str(path)
  )
  assert size == 0


def test_resuming_with_adapters_is_bit_identical(folder, adapted, tmp_path):
  _, e, expected = adapted
  settings = {"method": "grpo(beta=0.01)", **LORA}
  loop.run(experiment(folder, steps=1, **settings), tmp_path)
  result = run(e, tmp_path)
  for name, leaf in leaves(result.params).items():
    np.testing.assert_array_equal(leaf, leaves(expected.params)[name])


def test_adapters_are_merged_on_export(folder, adapted, tmp_path):
  workdir, e, state = adapted
  assert convert(["export", str(workdir), str(tmp_path / "out")]) == 0
  config, merged = hf.load(tmp_path / "out")
  assert config == MODEL
  _, base = hf.load(folder)
  adapted_params = types.join(state.params, base)
  tokens = np.random.default_rng(0).integers(0, 300, (2, 6))
  mask = jnp.ones((2, 6), bool)
  result = transformer.logits(config, merged, tokens, mask)
  expected = transformer.logits(e.model, adapted_params, tokens, mask)
  np.testing.assert_allclose(result, expected, atol=1e-5)
  reference = transformer.logits(config, base, tokens, mask)
  assert np.abs(result - reference).max() > 1e-3


def test_adapters_on_another_run_are_merged_with_it(folder, full, tmp_path):
  """`init_from`: the base is what that run had learned."""
  source, _, learned = full
  e = experiment(folder, init_from=str(source), steps=1, **LORA)
  state = run(e, tmp_path / "run")
  assert convert(["export", str(tmp_path / "run"), str(tmp_path / "out")]) == 0
  _, merged = hf.load(tmp_path / "out")
  _, expected = lora.merge(e.model, types.join(state.params, learned.params))
  for name, leaf in leaves(expected).items():
    np.testing.assert_allclose(leaves(merged)[name], leaf, atol=1e-6)


def test_heads_are_those_that_the_config_asks_for(folder, tmp_path):
  """A folder may have others, and may lack some."""
  headed = dataclasses.replace(
    MODEL, value_head=True, extra_heads=(("steps", 2), ("gone", 1))
  )
  params = transformer.init(headed, jax.random.key(3))
  hf.save(headed, params, tmp_path / "headed")
  e = experiment(
    tmp_path / "headed", model__extra_heads=(("steps", 2), ("new", 3))
  )
  state = placement.init_state(e, initial_state.starting_params(e, tmp_path))
  result = leaves(state.params)
  assert (
    result.keys()
    == leaves(initial_state.abstract_params_without_lora(e)).keys()
  )
  np.testing.assert_array_equal(
    result["['heads']['steps']['kernel']"], params["heads"]["steps"]["kernel"]
  )
  assert result["['heads']['new']['kernel']"].shape == (16, 3)
  assert not any(name.startswith("['value']") for name in result)
  assert not any("gone" in name for name in result)
  with pytest.raises(ValueError, match=r"'steps' of .* has 2 outputs, not 3"):
    validate.check_experiment(
      experiment(tmp_path / "headed", model__extra_heads=(("steps", 3),))
    )


@pytest.mark.parametrize("settings", [{}, LORA], ids=["whole", "adapters"])
def test_what_is_exported_says_the_same_in_transformers(
  folder, data, tmp_path, settings
):
  """Text in, greedy text out, after training on text with its tokenizer."""
  torch = pytest.importorskip("torch", reason="the extra .[parity]")
  transformers = pytest.importorskip("transformers")
  workdir = tmp_path / "run"
  config = small_run.config(
    policy__path=str(folder),
    task="gsm8k(prompt_length=128, completion_length=100)",
    rollout__max_tokens=12,
    data__folder=str(data),
    data__cache=str(tmp_path / "cache"),
    steps=2,
    optimizer__learning_rate=1e-2,
    evaluation__problems=4,
    **settings,
  )
  e = small_run.on_one_device(build.build(config))
  state = run(e, workdir)
  out = tmp_path / "out"
  assert convert(["export", str(workdir), str(out)]) == 0
  params = types.join(state.params, initial_state.frozen_params(e, workdir))
  problems = e.task.test(2)
  sampling = dataclasses.replace(e.sampling, samples=1, temperature=0.0)
  drawn_samples = generation.generate(
    e.policy,
    params,
    jnp.asarray(problems.prompts),
    jnp.asarray(problems.prompt_mask),
    generation.prompt_keys(jax.random.key(0), 0, jnp.asarray(problems.ids)),
    sampling,
  )
  tokenizer = transformers.AutoTokenizer.from_pretrained(out)
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
    out, dtype=torch.float32
  )
  for row in range(2):
    real = np.asarray(problems.prompt_mask)[row]
    requested = torch.tensor(
      np.asarray(problems.prompts)[row][real][None]
    ).long()
    with torch.no_grad():
      output = theirs.generate(
        requested,
        attention_mask=torch.ones_like(requested),
        max_new_tokens=e.sampling.max_tokens,
        do_sample=False,
        pad_token_id=e.task.pad_id,
      )[0, requested.shape[1] :]
    length = int(drawn_samples.lengths[row, 0])
    mine = np.asarray(drawn_samples.completions)[row, 0, :length]
    assert tokenizer.decode(output.tolist()) == tokenizer.decode(mine.tolist())
    assert length > 1


def test_a_config_of_a_run_is_read_back(adapted):
  """`experiments.evaluate --workdir` builds from the JSON."""
  workdir, e, _ = adapted
  text = (workdir / workdirs.CONFIG_FILE).read_text()
  assert build.build(ConfigDict(json.loads(text))).model == e.model


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"policy__path": "nowhere"}, "nowhere"),
    (
      {"policy__preset": "qwen3-0.6"},
      "unknown preset.*did you mean 'qwen3-0.6b",
    ),
    (
      {"model__lora_rank": 2, "model__lora_targets": "mlp.gates"},
      "unknown lora_targets 'mlp.gates'; did you mean 'mlp.gate'",
    ),
  ],
)
def test_mistakes_are_found_before_anything_runs(changes, message):
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(small_run.config(**changes))


def test_a_vocabulary_that_does_not_hold_the_task_is_refused(tmp_path):
  small = dataclasses.replace(MODEL, vocab_size=8)
  params = transformer.init(small, jax.random.key(0))
  hf.save(small, params, tmp_path / "model")
  with pytest.raises(ValueError, match="8"):
    validate.check_and_build(
      small_run.config(policy__path=str(tmp_path / "model"))
    )
