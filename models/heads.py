"""Heads: linear functions of the decoder's hidden states.

Every decoder has the head "logits", a product in the decoder's dtype
(`vocabulary_product`). It has a scalar head "value" if `ModelConfig.value_head`
is set, and the heads that `ModelConfig.extra_heads` names. Their parameters are
nested dicts, and they compute in float32 whatever the decoder's dtype is.
`transformer.heads` returns the heads of a decoder.

Axes: D channels of the hidden states, K outputs of a head, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

Array = jax.Array
Params = dict[str, Array]


@functools.cache
def vocabulary_product() -> Callable[[Array, Array, Array], Array]:
  """Returns the product of hidden states and a kernel, for the logits.

  The function `(hidden [..., D], kernel [D, V], cast [D, V]) -> [..., V]`
  computes `hidden @ cast`, where `cast` is the kernel in the dtype of the
  hidden states. They are two arguments because the product is computed for one
  chunk of positions after another: the kernel is cast once, and its gradient is
  summed over the chunks in its own dtype. `cast` has no gradient.

  The result is float32, or float64 if the hidden states are. Its gradient is
  rounded to the dtype of the hidden states, as the gradients of all other
  products are. JAX's own rule multiplies it in float32, which takes an H100
  three times as long as in bfloat16.
  """

  def sum_dtype(hidden: Array) -> jnp.dtype:
    return jnp.promote_types(hidden.dtype, jnp.float32)

  def multiply(hidden: Array, kernel: Array, cast: Array) -> Array:
    del kernel
    return jnp.matmul(hidden, cast, preferred_element_type=sum_dtype(hidden))

  def forward(
    hidden: Array, kernel: Array, cast: Array
  ) -> tuple[Array, tuple[Array, Array, Array]]:
    empty = jnp.zeros((), kernel.dtype)  # keeps the dtype
    return multiply(hidden, kernel, cast), (hidden, cast, empty)

  def backward(
    residuals: tuple[Array, Array, Array], gradient: Array
  ) -> tuple[Array, Array, None]:
    hidden, cast, empty = residuals
    gradient = gradient.astype(hidden.dtype)
    batch = list(range(hidden.ndim - 1))
    of_kernel = jax.lax.dot_general(
      hidden,
      gradient,
      ((batch, batch), ((), ())),
      preferred_element_type=sum_dtype(hidden),
    )
    return gradient @ cast.T, of_kernel.astype(empty.dtype), None

  function = jax.custom_vjp(multiply)
  function.defvjp(forward, backward)
  return function


def init_scalar(width: int) -> Params:
  """Initializes a `linear` of one output to 0, so that its outputs are 0.

  Args:
    width: D, channels of the hidden states.

  Returns:
    `{"kernel": [D], "bias": []}` float32.
  """
  return {"kernel": jnp.zeros(width), "bias": jnp.zeros(())}


def init_linear(key: Array, width: int, outputs: int) -> Params:
  """Initializes the parameters of `linear`.

  The kernel is normal with standard deviation `1 / (D + 1)`, and the bias is 0.
  The kernel is small, so outputs start near 0, and the first gradients through
  an untrained head change the decoder little.

  Args:
    key: PRNG key.
    width: D, channels of the hidden states.
    outputs: K, outputs per position.

  Returns:
    `{"kernel": [D, K], "bias": [K]}` float32.

  Source: the initialization of OpenRLHF's reward heads.
  """
  kernel = jax.random.normal(key, (width, outputs)) / (width + 1)
  return {"kernel": kernel, "bias": jnp.zeros(outputs)}


def linear(params: Params, hidden: Array) -> Array:
  """Returns `h @ W + b`, K numbers per position.

  Args:
    params: the kernel W and the bias b, as `init_linear` or `init_scalar`
      returns them.
    hidden: `[..., D]`, the states h after the decoder's final norm.

  Returns:
    `[..., K]` float32; `[...]` with the parameters of `init_scalar`.
  """
  hidden = hidden.astype(jnp.float32)
  kernel = params["kernel"].astype(jnp.float32)
  return hidden @ kernel + params["bias"].astype(jnp.float32)
