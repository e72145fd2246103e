"""Every recipe exists, has a phrase that says what it is, and builds."""

import itertools
import json

import pytest
from helpers import small_gsm8k

from experiments.configs import recipe
from experiments.training import build
from models import presets

pytestmark = pytest.mark.several_devices

CHOICES = list(
  itertools.product(recipe.MODELS, recipe.DATASETS, recipe.METHODS)
)


def recipe_name(model, dataset, method):
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


def test_there_is_a_recipe_for_each_choice_and_no_other():
  assert recipe.names() == sorted(recipe_name(*choice) for choice in CHOICES)
  assert len(recipe.names()) == 18


def test_a_phrase_names_the_model_the_data_and_the_method():
  assert recipe.summary("qwen3_0_6b_gsm8k_max_at_k") == (
    "max@8 of Qwen3-0.6B on GSM8K; not yet run"
  )


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: recipe_name(*c))
def test_every_recipe_builds(choice, data):
  """With the shape of its model, random weights and a few problems."""
  model, dataset, method = choice
  config = recipe.get_config(recipe_name(*choice))
  assert f"`{dataset}_train.jsonl`" in recipe.__doc__
  assert f"`{dataset}_test.jsonl`" in recipe.__doc__
  config.data.folder = str(data)
  config.data.cache = str(data / "cache")
  config.evaluation.problems = 7  # all of them
  e = build.build(config)
  settings = {
    "dtype": "bfloat16",
    "param_dtype": "float32",
    "remat": "full",
    "attention": "blocked",
  }
  assert e.model == presets.get(model, **settings)
  assert e.task.name.startswith(f"{dataset}(")
  assert e.method.name == recipe.METHODS[method]
  assert (e.config.rollout.prompts, e.sampling.samples) == (64, 16)
  assert e.sampling.max_tokens == {"gsm8k": 512, "math": 1024}[dataset]
  assert {k: n for k, n in e.mesh.shape.items() if n > 1} == {"fsdp": 8}


def test_all_but_model_data_and_method_is_the_same():
  first, *others = [
    recipe.get_config(f"qwen3_0_6b_gsm8k_{method}").to_dict()
    for method in recipe.METHODS
  ]
  for other in others:
    changed = {name for name in first if first[name] != other[name]}
    assert changed <= {"method", "task"}


def test_the_nearest_recipe_of_an_unknown_name_is_shown():
  with pytest.raises(
    ValueError, match=r"mean .*recipe\.py:qwen3_0_6b_gsm8k_max"
  ):
    recipe.get_config("qwen3_06b_gsm8k_max_at_k")
