"""The smallest and largest values of a config, and what they imply."""

import dataclasses
import json

import pytest

from models.config import ModelConfig, from_fields
from models.rope import RopeScaling

SIZES = {
  "vocab_size": 11,
  "width": 8,
  "layers": 2,
  "heads": 2,
  "kv_heads": 2,
  "head_dim": 4,
  "mlp_width": 12,
}
BASE = ModelConfig(**SIZES)
# What the first Llama does not have, as its paper describes it.
ABSENT = {
  "max_positions": 0,
  "local_rope_theta": 0.0,
  "window": 0,
  "norm_offset": 0.0,
  "attention_bias": False,
  "output_bias": False,
  "mlp_bias": False,
  "experts": 0,
  "experts_per_token": 0,
  "tied_embeddings": False,
  "attention_softcap": 0.0,
  "logit_softcap": 0.0,
  "qkv_clip": 0.0,
  "value_head": False,
  "lora_rank": 0,
}


def changed(**changes) -> ModelConfig:
  return dataclasses.replace(BASE, **changes)


def test_the_defaults_are_those_of_llama():
  """The first Llama: RMSNorm before each part, SwiGLU, and RoPE of all."""
  llama = ModelConfig(
    **SIZES,
    **ABSENT,
    rope_theta=10_000.0,
    rope_fraction=1.0,
    norm_eps=1e-6,
    gated_mlp=True,
    embedding_scale=1.0,
    attention_scale=0.0,  # 1 / sqrt(head_dim)
    normalize_experts=True,
    unroll=1,
    lora_alpha=16.0,
  )
  assert llama == BASE
  assert hash(llama) == hash(BASE)


@pytest.mark.parametrize(
  "changes",
  [
    dict.fromkeys(("vocab_size", "width", "layers", "mlp_width"), 1),
    {"heads": 1, "kv_heads": 1},
    {"head_dim": 2},
    {"head_dim": 6},
    {"unroll": 0, "decode_unroll": 0},
    {"experts": 2, "experts_per_token": 1},
    {"experts": 2, "experts_per_token": 2},
    {"extra_heads": (("one", 1), ("two", 1))},
    {
      "rope_scaling": RopeScaling(
        "longrope", original=8, short_factors=(1, 1), long_factors=(2, 3)
      )
    },
  ],
)
def test_the_smallest_values_are_allowed(changes):
  config = changed(**changes)
  for name, value in changes.items():
    assert getattr(config, name) == value


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"layers": True}, "layers = True must be a positive integer"),
    ({"unroll": -1}, "unroll = -1 must be an integer, 0 or more"),
    ({"decode_unroll": -1}, "decode_unroll = -1 must be an integer, 0 or"),
    (
      {"heads": 12, "kv_heads": 7},
      r"kv_heads = 7 .* one of \[1, 2, 3, 4, 6, 12\]; the nearest is 6$",
    ),
    ({"qkv_clip": -1.0}, "qkv_clip = -1.0 must be finite and not negative"),
    ({"qkv_clip": float("inf")}, "qkv_clip = inf must be finite"),
    ({"lora_alpha": 0}, "lora_alpha = 0 must be positive"),
    ({"rope_fraction": 0.1}, "rotates 0 channels.*the nearest is 2"),
    ({"rope_fraction": 1.5}, "rotates 6 channels.*from 2 to 4"),
    ({"experts_per_token": 1}, "at most experts = 0"),
    ({"experts": 2, "experts_per_token": 3}, "at most experts = 2"),
    ({"experts": 2}, "experts_per_token = 0 must be at least 1"),
    (
      {"experts": 2, "experts_per_token": 1, "mlp_bias": True},
      "experts are gated MLPs without bias",
    ),
    ({"extra_heads": (("one", 0),)}, "extra head 'one' = 0 must be a positive"),
    ({"extra_heads": (("a", 1), ("a", 2))}, "extra head 'a' exists already"),
    ({"extra_heads": (("a b", 1),)}, "may have only letters, digits and _"),
    (
      {
        "rope_scaling": RopeScaling(
          "longrope", original=8, short_factors=(1, 1), long_factors=(1,)
        )
      },
      "long_factors has 1 numbers; it must have 2",
    ),
    ({"layer_kinds": ()}, "layer_kinds is empty"),
    (
      {"positions": "learned", "max_positions": 4, "layer_kinds": ("nope",)},
      "layer kind 'nope' is a layer without rotary embedding",
    ),
  ],
)
def test_values_beyond_the_limits_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    changed(**changes)


def test_layer_kinds_are_repeated_for_all_layers():
  config = changed(layers=5, layer_kinds=("nope", "global"))
  assert config.kinds == ("nope", "global", "nope", "global", "nope")
  assert changed(layers=1, layer_kinds=("nope", "global")).kinds == ("nope",)


def test_a_fraction_of_a_head_is_rotated():
  assert changed(head_dim=8, rope_fraction=0.75).rotary_dim == 6
  assert BASE.rotary_dim == 4


@pytest.mark.parametrize(
  ("unroll", "layers", "loop"),
  [(0, 2, False), (1, 2, True), (2, 2, False), (1, 1, False), (2, 3, True)],
)
def test_layers_run_in_a_loop_unless_all_are_unrolled(unroll, layers, loop):
  config = changed(layers=layers, unroll=unroll)
  assert config.looped == loop
  # Decoding unrolls as many, unless it has a number of its own.
  assert config.decodes_in_loop == loop
  config = changed(layers=layers, unroll=1, decode_unroll=unroll)
  assert config.looped == (layers > 1)
  assert config.decodes_in_loop == loop


@pytest.mark.parametrize(
  ("form", "changes", "limit"),
  [
    ("splash", {"layer_kinds": ("local",), "window": 2}, ""),
    ("splash", {"layer_kinds": ("nope", "global")}, ""),
    ("splash", {"layer_kinds": ("local", "nope"), "window": 2}, "one window"),
    ("plain", {"layer_kinds": ("local", "nope"), "window": 2}, ""),
    ("cudnn", {"dtype": "bfloat16", "head_dim": 8}, ""),
    ("cudnn", {"dtype": "bfloat16", "head_dim": 128}, ""),
    ("cudnn", {"dtype": "bfloat16", "head_dim": 136}, "head_dim in 8"),
    ("cudnn", {"dtype": "bfloat16", "head_dim": 12}, "head_dim in 8"),
    ("cudnn", {"head_dim": 8}, "computes in bfloat16"),
    ("cudnn", {"attention_softcap": 2.0}, "cannot compute attention_softcap"),
    ("blocked", {"head_dim": 12, "attention_softcap": 2.0}, ""),
  ],
)
def test_which_decoders_a_form_of_attention_can_compute(form, changes, limit):
  result = changed(**changes).attention_limit(form)
  assert limit in result
  assert bool(limit) == bool(result)


@pytest.mark.parametrize(
  "scaling",
  [
    None,
    RopeScaling(
      "longrope", original=8, short_factors=(1, 1), long_factors=(2, 3)
    ),
  ],
)
def test_a_config_comes_back_from_json(scaling):
  config = changed(
    rope_scaling=scaling,
    layer_kinds=("nope", "global"),
    extra_heads=(("steps", 3),),
  )
  fields = json.loads(json.dumps(dataclasses.asdict(config)))
  assert from_fields(fields) == config
