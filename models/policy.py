"""Binds a decoder's config to its functions, as the `Policy` that `rl` uses."""

from __future__ import annotations

import functools

from models import decoding, forward_pass
from models.config import ModelConfig
from rl import types


@functools.cache
def bind(config: ModelConfig) -> types.Policy:
  """Returns the decoder's policy: pure functions of the parameters.

  The result is cached: the same config returns the same functions, so that
  `jax.jit` reuses the programs that it has compiled with these functions.

  Args:
    config: the decoder's config. `transformer.init` makes parameters for it.
  """
  return types.Policy(
    score=functools.partial(forward_pass.score, config),
    prefill=functools.partial(decoding.prefill, config),
    decode=functools.partial(decoding.decode, config),
    serve=functools.partial(decoding.serve, config),
    resize=decoding.resize,
  )
