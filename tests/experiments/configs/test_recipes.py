"""Every recipe is there, says what it is, and builds."""

import functools
import importlib
import itertools
import json
import pkgutil

import pytest
from helpers import small_gsm8k

from experiments.configs import recipes
from experiments.training import build
from models import presets

CHOICES = list(
  itertools.product(recipes.MODELS, recipes.DATASETS, recipes.METHODS)
)


def file_name(model, dataset, method):
  return f"{model.replace('.', '_').replace('-', '_')}_{dataset}_{method}"


def small_math(folder):
  """A few problems in MATH's format, after GSM8K's."""
  for split, first, count in (("train", 0, 23), ("test", 23, 7)):
    rows = [
      {
        "problem": f"What is ${i}+{i + 1}$?",
        "solution": f"We find\n${i} + {i + 1} = \\boxed{{{2 * i + 1}}}$.",
        "answer": str(2 * i + 1),
      }
      for i in range(first, first + count)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"math_{split}.jsonl").write_text(lines)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  folder = tmp_path_factory.mktemp("recipes")
  small_math(small_gsm8k.write(folder))
  return folder


def test_there_is_a_file_for_each_choice_and_no_other():
  found = {module.name for module in pkgutil.iter_modules(recipes.__path__)}
  assert found == {file_name(*choice) for choice in CHOICES}
  assert len(found) == 18


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: file_name(*c))
def test_every_recipe_builds(choice, data):
  """With the shape of its model, random weights and a few problems."""
  model, dataset, method = choice
  name = file_name(*choice)
  module = importlib.import_module(f"experiments.configs.recipes.{name}")
  config = module.get_config()
  assert f"--config experiments/configs/recipes/{name}.py" in module.__doc__
  assert "Not yet run." in module.__doc__
  for split in ("train", "test"):
    assert f"`{dataset}_{split}.jsonl`" in module.__doc__
  config.data.data_path = str(data)
  config.data.cache = str(data / "cache")
  config.evaluation.problems = 7  # as many as there are
  e = build.build(config)
  own = {
    "dtype": "bfloat16",
    "param_dtype": "float32",
    "remat": "full",
    "attention": "blocked",
  }
  assert e.model == presets.get(model, **own)
  assert e.task.name.startswith(f"{dataset}(")
  assert e.method.name == recipes.METHODS[method]
  assert (e.config.rollout.prompts, e.sampling.samples) == (64, 16)
  assert e.sampling.max_tokens == {"gsm8k": 512, "math": 1024}[dataset]
  assert {k: n for k, n in e.mesh.shape.items() if n > 1} == {"fsdp": 8}


def test_all_but_model_data_and_method_is_the_same():
  make = functools.partial(recipes.recipe, recipes.MODELS[0], "gsm8k")
  first, *others = [make(method).to_dict() for method in recipes.METHODS]
  for other in others:
    changed = {name for name in first if first[name] != other[name]}
    assert changed <= {"method", "task"}


def test_what_there_is_no_recipe_for_is_named():
  with pytest.raises(ValueError, match=r"'qwen3-0\.6'.*mean 'qwen3-0\.6b'"):
    recipes.recipe("qwen3-0.6", "gsm8k", "max_at_k")
  with pytest.raises(ValueError, match="method of the recipes 'grpo'"):
    recipes.recipe("qwen3-0.6b", "gsm8k", "grpo")
