"""Values of `rope_parameters` that a file leaves out."""

import math
import types

import pytest

from models.hf import rope_parameters
from models.hf.config_reader import ConfigReader
from models.rope import RopeScaling


def scaling_of(parameters: dict, **keys) -> RopeScaling:
  """The scaling of a config with a context of 256 tokens."""
  config = types.SimpleNamespace(max_position_embeddings=256, **keys)
  reader = ConfigReader(config)
  theta, scaling = rope_parameters.from_hf(reader, parameters)
  assert theta == 10_000.0  # that of Llama, if there is none
  return scaling


LONG = {
  "rope_type": "longrope",
  "short_factor": [1, 2],
  "long_factor": [3, 4],
}


def test_the_factor_is_by_default_the_growth_of_the_context():
  scaling = scaling_of({**LONG, "original_max_position_embeddings": 64})
  assert (scaling.factor, scaling.original) == (4.0, 64)
  assert scaling.short_factors == (1.0, 2.0)
  assert scaling.long_factors == (3.0, 4.0)
  # sqrt(1 + ln 4 / ln 64), where 64 = 4^3.
  assert scaling.attention_factor == pytest.approx(math.sqrt(4 / 3))
  # The key of the config comes before that of the dict.
  scaling = scaling_of(
    {**LONG, "original_max_position_embeddings": 64},
    original_max_position_embeddings=128,
  )
  assert (scaling.factor, scaling.original) == (2.0, 128)
  # Without either, the context was not extended.
  scaling = scaling_of(LONG)
  assert (scaling.factor, scaling.original) == (1.0, 256)
  assert scaling.attention_factor == 1.0
  assert scaling_of({**LONG, "attention_factor": 1.5}).attention_factor == 1.5


def test_yarn_has_the_values_of_its_paper_by_default():
  scaling = scaling_of({"rope_type": "yarn", "factor": 8})
  assert (scaling.beta_fast, scaling.beta_slow) == (32.0, 1.0)
  assert scaling.truncate
  assert scaling.original == 256
  assert scaling.attention_factor == pytest.approx(0.1 * math.log(8) + 1)
  scaling = scaling_of(
    {
      **{"rope_type": "yarn", "factor": 8, "truncate": False},
      **{"beta_fast": 16, "beta_slow": 2, "mscale": 2, "mscale_all_dim": 0.5},
    }
  )
  assert (scaling.beta_fast, scaling.beta_slow) == (16.0, 2.0)
  assert not scaling.truncate
  expected = (0.2 * math.log(8) + 1) / (0.05 * math.log(8) + 1)
  assert scaling.attention_factor == pytest.approx(expected)


def test_linear_and_dynamic_scale_the_context_of_the_config():
  scaling = scaling_of({"rope_type": "linear", "factor": 2})
  assert scaling == RopeScaling("linear", 2.0)
  scaling = scaling_of({"rope_type": "dynamic", "factor": 2})
  assert scaling == RopeScaling("dynamic", 2.0, original=256)
  assert scaling_of({}) is None


@pytest.mark.parametrize(
  "scaling",
  [
    None,
    RopeScaling("linear", 2.0),
    RopeScaling(
      "llama3",
      2.0,
      original=64,
      low_freq_factor=2.0,
      high_freq_factor=3.0,
    ),
    RopeScaling(
      "yarn",
      2.0,
      original=64,
      beta_fast=16.0,
      beta_slow=2.0,
      truncate=False,
      attention_factor=1.5,
    ),
    RopeScaling(
      "longrope",
      2.0,
      original=64,
      attention_factor=1.5,
      short_factors=(1.0, 2.0),
      long_factors=(3.0, 4.0),
    ),
  ],
)
def test_a_scaling_comes_back_from_its_keys(scaling):
  keys = rope_parameters.to_hf(500.0, scaling)
  reader = ConfigReader(types.SimpleNamespace(max_position_embeddings=256))
  assert rope_parameters.from_hf(reader, keys) == (500.0, scaling)
