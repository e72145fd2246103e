"""Any Hugging Face folder on any task, as the command line does it."""

import dataclasses
import functools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from etils import epath
from helpers import small_chat, small_gsm8k, small_run

from experiments import evaluate, tasks
from experiments.configs import defaults
from experiments.evaluation import policy_loader, summary
from experiments.tasks.text import free_prompts
from experiments.training import build, decoder
from rl.sampling import generation

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

T = 6


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return small_gsm8k.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A Llama of random weights that stops at every third token."""
  folder = tmp_path_factory.mktemp("policy")
  size = len(small_chat.write(folder))
  shape = transformers.LlamaConfig(
    vocab_size=size + 5,  # more rows than the tokenizer has tokens
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    initializer_range=0.5,
  )
  torch.manual_seed(0)
  transformers.LlamaForCausalLM(shape).save_pretrained(folder)
  small_chat.write(folder, stops=list(range(0, size, 3)))
  return folder


def run(folder, task, out, *words):
  """The evaluation that the command writes."""
  usual = ["--problems", "4", "--samples", "2", "--batch", "8"]
  usual += ["--max_tokens", str(T), "--out", str(out)]
  named = ["--policy", str(folder), "--task", task]
  assert evaluate.main([*named, *usual, *words]) == 0
  return summary.load(out)


def test_greedy_lengths_are_those_of_transformers(folder, data, tmp_path):
  settings = f"folder={str(data)!r}, cache={str(tmp_path)!r}"
  text = f"gsm8k({settings}, prompt_length=160)"
  result = run(folder, text, tmp_path / "a.json", "--temperature", "0")
  task = tasks.get(
    "gsm8k",
    folder=str(data),
    cache=str(tmp_path),
    prompt_length=160,
    tokenizer=str(folder),
  )
  assert "chat=True" in task.name
  assert result.task == task.name
  problems = task.test(4)
  model = transformers.AutoModelForCausalLM.from_pretrained(folder)
  with torch.no_grad():
    drawn_samples = model.generate(
      torch.tensor(problems.prompts, dtype=torch.long),
      attention_mask=torch.tensor(problems.prompt_mask, dtype=torch.long),
      max_new_tokens=T,
      min_new_tokens=T,
      do_sample=False,
      eos_token_id=model.config.vocab_size - 1,  # goes on to the end
    ).numpy()[:, 160:]
  stops = np.isin(drawn_samples, task.eos_ids)
  ended = stops.any(-1)
  lengths = np.where(ended, stops.argmax(-1) + 1, T)
  assert len(set(lengths)) > 1
  np.testing.assert_array_equal(result.ids, problems.ids)
  np.testing.assert_array_equal(result.lengths, lengths[:, None].repeat(2, 1))
  np.testing.assert_array_equal(result.finished, ended[:, None].repeat(2, 1))


def test_a_folder_and_a_run_decode_in_the_same_forms(folder, data, tmp_path):
  """Attention and the loop over layers are chosen in one place for both."""
  settings = f"folder={str(data)!r}, cache={str(tmp_path)!r}"
  config = defaults.rl()
  config.policy.path = str(folder)
  config.task = f"gsm8k({settings}, prompt_length=160)"
  of_run = decoder.make(
    config, build.make_task(config, str(folder)), str(folder)
  )
  evaluated = []
  bind = policy_loader.policy.bind
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(
      policy_loader.policy, "bind", lambda s: (evaluated.append(s), bind(s))[1]
    )
    policy_loader.load_from_folder(
      folder, "countdown(count=2)", problems=8, batch=8
    )
  (of_folder,) = evaluated
  assert of_folder.attention == of_run.attention == "blocked"
  assert of_folder.unroll == of_run.unroll == 0
  assert of_folder == of_run


def test_a_run_is_evaluated_with_its_settings(tmp_path):
  config = {"evaluation__problems": 12, "evaluation__temperature": 0.5}
  e = small_run.experiment(rollout__max_tokens=0, **config)
  small_run.save_untrained(e, epath.Path(tmp_path))
  loaded = policy_loader.load_from_run(tmp_path, None, {"samples": 3})
  assert loaded.settings == {
    "max_tokens": e.sampling.max_tokens,
    "problems": 12,
    "samples": 3,  # the caller's
    "batch": 8,
    "rows": 0,
    "temperature": 0.5,
    "seed": 0,
  }


def test_an_embedded_task_reads_its_own_ids(folder, tmp_path, capsys):
  result = run(folder, "countdown(count=2)", tmp_path / "b.json")
  assert result.correct.shape == (4, 2)
  problems = tasks.get("countdown", count=2).test(4)
  np.testing.assert_array_equal(result.ids, problems.ids)
  assert result.lengths.max() <= T
  assert str(folder) in capsys.readouterr().out


def test_bfloat16_and_the_seed_are_taken(folder, data, tmp_path):
  settings = f"folder={str(data)!r}, cache={str(tmp_path)!r}"
  task = f"gsm8k({settings}, prompt_length=160)"
  one, other = (
    run(folder, task, tmp_path / "c.json", "--dtype", "bfloat16", "--seed", s)
    for s in ("0", "1")
  )
  np.testing.assert_array_equal(one.ids, other.ids)
  assert (one.lengths != other.lengths).any()


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "expected exactly one of --workdir"),
    (["--workdir", "a", "--policy", "b"], "expected exactly one of --workdir"),
    (["--policy", "{}"], "--policy needs a --task; available: aime"),
    (["--policy", "{}", "--task", "countdwon"], "did you mean 'countdown'"),
    (["--policy", "{}", "--task", "gsm8k(chatt=1)"], "did you mean 'chat'"),
    (["--policy", "{}", "--task", "gsm8k(folder='no')"], "not a folder"),
    (["--policy", "no", "--task", "countdown"], "'no' is not a folder"),
    (["--policy", "{}", "--task", "countdown", "--step", "1"], "--step has no"),
    (["--workdir", "a", "--dtype", "bfloat16"], "--dtype has no effect"),
    (
      ["--policy", "{}", "--task", "countdown", "--dtype", "float16"],
      "unknown dtype 'float16'",
    ),
    (
      ["--policy", "{}", "--task", "countdown", "--batch", "12"],
      "--batch 12 is not divisible by the 8 devices; the nearest multiple is ",
    ),
    (["--policy", "{}", "--task", "countdown", "--samples", "0"], "samples"),
    (["--policy", "{}", "--task", "countdown", "--problems", "0"], "at least"),
    (["--policy", "{}", "--task", "countdown", "--max_tokens", "0"], "max_tok"),
  ],
)
@pytest.mark.several_devices
def test_a_mistake_is_one_line(folder, capsys, words, message):
  assert evaluate.main([word.format(folder) for word in words]) == 2
  error = capsys.readouterr().err
  assert message in error
  assert error.count("\n") == 1


def test_tokens_beyond_the_embedding_are_refused(folder, tmp_path, capsys):
  small = transformers.LlamaConfig(
    vocab_size=12,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
  )
  transformers.LlamaForCausalLM(small).save_pretrained(tmp_path)
  small_chat.write(tmp_path)
  words = ["--policy", str(tmp_path), "--task"]
  assert evaluate.main([*words, "countdown"]) == 2
  assert "has only 12;" in capsys.readouterr().err
  data = small_gsm8k.write(tmp_path / "data")
  text = f"gsm8k(folder={str(data)!r}, cache={str(tmp_path / 'c')!r})"
  assert evaluate.main([*words, text]) == 2
  assert "12 rows" in capsys.readouterr().err


def test_learned_positions_must_be_enough(tmp_path, capsys):
  shape = transformers.GPT2Config(
    vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2
  )
  transformers.GPT2LMHeadModel(shape).save_pretrained(tmp_path)
  words = ["--policy", str(tmp_path), "--task", "countdown"]
  assert evaluate.main([*words, "--max_tokens", "16"]) == 2
  assert "learned embeddings of 16" in capsys.readouterr().err


def test_the_command_is_there():
  done = subprocess.run(
    [sys.executable, "-m", "experiments.evaluate", "--help"],
    capture_output=True,
    text=True,
    check=True,
  )
  assert "--policy" in done.stdout


# What a policy is evaluated with, of a task and a model that are not read.

TASK = SimpleNamespace(
  name="small",
  vocab_size=10,
  prompt_length=5,
  completion_length=7,
  sampling=functools.partial(generation.Sampling, eos_ids=(0,), pad_id=0),
  test=lambda count: None,
)
SETTINGS = {
  "problems": 1,
  "samples": 1,
  "batch": 2,
  "rows": 0,
  "temperature": 1.0,
  "max_tokens": 1,
  "seed": 0,
}


def _check(shards=1, positions="rotary", **changes):
  model = SimpleNamespace(positions=positions, max_positions=8)
  policy_loader._check_settings(TASK, model, shards, **SETTINGS | changes)


def test_the_smallest_settings_are_accepted():
  _check()
  _check(batch=1)
  _check(shards=2, batch=4)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"problems": 0}, "--problems 0 must be at least 1"),
    ({"batch": 0}, "nearest multiple is 1$"),
    ({"batch": 1, "shards": 4}, "nearest multiple is 4$"),
    ({"batch": 11, "shards": 4}, "nearest multiple is 12$"),
    ({"batch": 9, "shards": 4}, "nearest multiple is 8$"),
  ],
)
def test_a_batch_is_split_by_the_devices(changes, message):
  with pytest.raises(ValueError, match=message):
    _check(**changes)


def test_learned_positions_are_those_of_the_inputs():
  """A prompt of 5 and a completion of 4 have 8 inputs; the last is none."""
  _check(positions="learned", max_tokens=4)
  _check(positions="rotary", max_tokens=5)
  with pytest.raises(ValueError, match="need 9 positions"):
    _check(positions="learned", max_tokens=5)


def test_the_problems_of_a_task_must_exist_but_not_those_of_a_user(monkeypatch):
  problem_counts = []
  monkeypatch.setattr(TASK, "test", problem_counts.append)
  _check(problems=3)
  assert problem_counts == [3]
  monkeypatch.setattr(TASK, "name", free_prompts.NAME)
  _check(problems=3)
  assert problem_counts == [3]


def test_a_model_has_all_tokens_of_a_task(monkeypatch):
  monkeypatch.setattr(
    policy_loader.build, "make_task_from_text", lambda text, tokenizer: TASK
  )
  make = policy_loader._make_task
  model = SimpleNamespace(vocab_size=10)
  assert make("countdown(count=2)", "folder", model) is TASK
  assert make("gsm8k(chat=True)", "folder", model) is TASK
  model.vocab_size = 9
  with pytest.raises(ValueError, match="of folder has only 9"):
    make("countdown(count=2)", "folder", model)
  with pytest.raises(ValueError, match="the tokenizer of folder has 10 tokens"):
    make("gsm8k(chat=True)", "folder", model)


@pytest.fixture
def unread(monkeypatch):
  """Makes `load_from_folder` read no files; returns the calls that matter."""
  calls = SimpleNamespace(devices=[], dtypes=[])
  fakes = {
    "pretrained.resolve": lambda folder: folder,
    "devices.configure": lambda n, batches: calls.devices.append((n, batches)),
    "decoder.choose_fast_forms": lambda model: model,
    "hf.load_config": lambda folder, dtype: (
      calls.dtypes.append(dtype),
      SimpleNamespace(positions="rotary"),
    )[1],
    "hf.load": lambda folder, dtype, mesh: (None, f"{dtype} params"),
    "sharding.make_mesh": lambda: SimpleNamespace(size=3),
    "sharding.batch_sharding": lambda mesh: "sharding",
    "policy.bind": lambda model: "policy",
  }
  for name, fake in fakes.items():
    module, function = name.split(".")
    monkeypatch.setattr(getattr(policy_loader, module), function, fake)
  monkeypatch.setattr(
    policy_loader, "_make_task", lambda text, folder, model: TASK
  )
  monkeypatch.setattr(policy_loader, "_describe", lambda model, reason: "forms")
  return calls


def test_a_folder_has_the_default_settings(unread, monkeypatch):
  """The batch is a multiple of the devices, and smaller on a CPU."""
  loaded = policy_loader.load_from_folder("folder", "small")
  assert loaded.settings == {
    "problems": 256,
    "samples": 16,
    "batch": 9,
    "rows": 0,
    "temperature": 1.0,
    "seed": 0,
    "max_tokens": 7,  # of the task
  }
  assert (loaded.step, loaded.params) == (0, "float32 params")
  assert (unread.devices, unread.dtypes) == ([(0, (8,))], ["float32"])
  with pytest.raises(dataclasses.FrozenInstanceError):
    loaded.step = 1
  monkeypatch.setattr(policy_loader.jax, "default_backend", lambda: "gpu")
  loaded = policy_loader.load_from_folder("folder", "small")
  assert loaded.settings["batch"] == 66


def test_settings_of_the_user_take_precedence(unread):
  changes = {"batch": 6, "seed": 3, "max_tokens": 2}
  loaded = policy_loader.load_from_folder(
    "folder", "small", dtype="bfloat16", cpu_devices=2, **changes
  )
  assert {name: loaded.settings[name] for name in changes} == changes
  assert loaded.params == "bfloat16 params"
  assert (unread.devices, unread.dtypes) == ([(2, (6,))], ["bfloat16"])


def test_an_evaluation_has_the_settings_of_its_policy(unread, monkeypatch):
  loaded = policy_loader.load_from_folder("folder", "small", seed=3)
  calls = []
  monkeypatch.setattr(
    policy_loader.evaluator,
    "evaluate",
    lambda *arguments, **settings: calls.append((arguments, settings)),
  )
  update = print
  policy_loader.evaluate(loaded, update)
  ((arguments, settings),) = calls
  assert arguments == (TASK, "policy", "float32 params")
  assert settings.pop("key") == policy_loader.prng_keys.from_seed(3)
  expected = {**loaded.settings, "step": 0, "sharding": "sharding"}
  del expected["seed"]
  assert settings == {**expected, "update": update}
