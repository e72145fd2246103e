"""A decoder as the functions that `rl` knows of a model."""

from __future__ import annotations

import functools

from models import decoding, transformer
from models.config import ModelConfig
from rl import types


@functools.cache
def bind(config: ModelConfig) -> types.Policy:
  """The policy of a decoder: its functions with the shape filled in.

  The same shape gives the same functions, so that a program compiled with them
  is found again.

  Args:
    config: the decoder's shape; parameters come from `transformer.init`.

  Returns:
    The policy, pure functions of the parameters.
  """
  return types.Policy(
    score=functools.partial(transformer.score, config),
    prefill=functools.partial(decoding.prefill, config),
    decode=functools.partial(decoding.decode, config),
    serve=functools.partial(decoding.serve, config),
    resize=decoding.resize,
  )
