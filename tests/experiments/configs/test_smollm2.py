"""The configs of SmolLM2, with a small model in its place."""

import pathlib
import re
import shlex

import pytest
from helpers import fitted_model, small_jsonl, small_policy

from experiments.configs import smollm2
from experiments.data import pretrained
from experiments.training import build
from experiments.training_run import validate

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Without the stages of Tulu 3, which read what earlier commands wrote.
FIRST = [name for name in smollm2.names() if not name.startswith("tulu3")]


@pytest.fixture
def small_smollm2(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  folder = pretrained.folder_of("smollm2")
  folder.parent.mkdir(parents=True)
  small_policy.write(folder)


@pytest.mark.parametrize("name", FIRST)
def test_every_first_config_can_run(name, small_smollm2, tmp_path):
  config = smollm2.get_config(name)
  # The small tokenizer has a token for nearly every letter.
  comma = "" if config.task.endswith("()") else ", "
  config.task = f"{config.task[:-1]}{comma}prompt_length=512)"
  if config.models:
    (tmp_path / "prm").mkdir()
    unpaid = smollm2.get_config("lists_min_form")
    fitted_model.write(tmp_path / "prm", build.build(unpaid).model)
    config.models.prm.workdir = str(tmp_path / "prm")
  e = validate.check_and_build(config, tmp_path / "run")
  problems = 32 if name.startswith("lists") else 128
  problems = 6 if name == "key_points" else problems
  assert e.config.evaluation.problems == problems
  assert not (tmp_path / "run").exists()
  assert e.task.test(problems)


def test_the_readmes_file_of_problems_passes_every_check(
  small_smollm2, tmp_path, monkeypatch
):
  """Tests the command of the README, where FILE has 36 lines."""
  readme = (ROOT / "README.md").read_text()
  section = re.search(r"^## A task of your own$(.*?)^## ", readme, re.M | re.S)
  verifier = re.search(r"<<'END'\n(.*?)^END", section[1], re.M | re.S)[1]
  (tmp_path / "my_verifier.py").write_text(verifier)
  monkeypatch.syspath_prepend(tmp_path)
  file = small_jsonl.write(tmp_path / "data", rows=36)
  command = re.search(r"-m experiments\.run(.*?)^```", section[1], re.M | re.S)
  words = shlex.split(command[1])
  values = dict(re.findall(r"--config\.([\w.]+)=(.*)", "\n".join(words)))
  assert values.pop("data.file") == "FILE"

  def make(problems):
    (name,) = re.findall(r"smollm2\.py:(\w+)", section[1])
    config = smollm2.get_config(name)
    config.task = values["task"]
    config.verifier = values["verifier"]
    config.data.file = str(file)
    config.evaluation.problems = problems
    return validate.check_and_build(config, tmp_path / "run")

  problems = int(values["evaluation.problems"])
  e = make(problems)
  assert e.task.test(problems)
  # Its rollouts are no larger than those of the config, which a laptop holds.
  lengths = e.task.prompt_length, e.task.completion_length
  assert lengths == (96, 64)
  with pytest.raises(
    ValueError, match=r"^evaluation\.problems = 32: n=32 .* ask for 1 to (\d+)$"
  ) as error:
    make(32)
  make(int(str(error.value).split()[-1]))  # as the refusal says


def test_the_stages_of_tulu_3_follow_each_other():
  sft, dpo, rlvr = map(
    smollm2.get_config, ("tulu3_sft", "tulu3_dpo", "tulu3_rlvr")
  )
  assert dpo.init_from in smollm2.__doc__
  assert rlvr.init_from in smollm2.__doc__
  assert dpo.init_from.endswith("tulu3_sft")
  assert rlvr.init_from.endswith("tulu3_dpo")
  for path in (sft.demonstrations, dpo.preferences):
    assert path in smollm2.__doc__
  for config in (sft, dpo, rlvr):
    assert config.model.value_head  # else a later stage could not start
    assert config.policy.path == "smollm2"
    assert config.optimizer.decay_steps == config.steps


@pytest.mark.parametrize("name", smollm2.names())
def test_the_docstring_shows_every_config(name):
  command = rf"--config experiments/configs/smollm2\.py:{name}\s"
  assert re.search(command, smollm2.__doc__)


def test_a_model_that_is_not_there_is_named_with_its_command(
  tmp_path, monkeypatch
):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  with pytest.raises(ValueError, match=r"experiments\.pretrained smollm2"):
    validate.check_and_build(smollm2.grpo(), tmp_path / "run")
