"""The product of the logits, whose gradient is written by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from models import heads

TOKENS, D, V = 5, 4, 7


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Hidden states, a kernel and the gradient of the logits."""
  generator = np.random.default_rng(0)
  return tuple(
    generator.normal(size=shape).astype(np.float32)
    for shape in ((TOKENS, D), (D, V), (TOKENS, V))
  )


def multiply(dtype):
  """The logits, and the function of their gradient."""
  hidden, kernel, gradient = numbers()
  hidden = jnp.asarray(hidden, dtype)
  cast = jnp.asarray(kernel, dtype)
  logits, pull = jax.vjp(
    lambda h, k: heads.vocabulary_product()(h, k, cast), hidden, kernel
  )
  return logits, pull(jnp.asarray(gradient))


def test_float32_is_the_plain_product():
  hidden, kernel, gradient = numbers()
  logits, (of_hidden, of_kernel) = multiply("float32")
  np.testing.assert_allclose(logits, hidden @ kernel, rtol=1e-5)
  np.testing.assert_allclose(of_hidden, gradient @ kernel.T, rtol=1e-5)
  np.testing.assert_allclose(of_kernel, hidden.T @ gradient, rtol=1e-5)


def test_bfloat16_rounds_the_gradient_of_the_logits_and_sums_in_float32():
  rounded = [
    np.asarray(jnp.asarray(x, "bfloat16"), np.float32) for x in numbers()
  ]
  hidden, kernel, gradient = rounded
  logits, (of_hidden, of_kernel) = multiply("bfloat16")
  assert (logits.dtype, of_hidden.dtype) == ("float32", "bfloat16")
  np.testing.assert_allclose(logits, hidden @ kernel, rtol=1e-5)
  np.testing.assert_allclose(
    np.asarray(of_hidden, np.float32), gradient @ kernel.T, rtol=1e-2, atol=1e-2
  )
  # Nothing but the inputs was rounded.
  assert of_kernel.dtype == "float32"
  np.testing.assert_allclose(of_kernel, hidden.T @ gradient, rtol=1e-5)


def test_an_initial_kernel_has_the_documented_deviation():
  """1 / (D + 1) = 1 / 4 for the three channels here."""
  params = heads.init_linear(jax.random.key(0), 3, 5000)
  error = 4 * 0.25 / np.sqrt(2 * 15000)  # four standard errors
  assert abs(np.std(params["kernel"]) - 0.25) < error
  np.testing.assert_array_equal(params["bias"], np.zeros(5000))


def test_a_head_is_linear_with_a_bias():
  hidden = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
  params = {"kernel": np.array([2.0, 1.0]), "bias": np.array(0.5)}
  np.testing.assert_array_equal(heads.linear(params, hidden), [4.5, 5.5])
  assert heads.linear(params, hidden.astype(jnp.bfloat16)).dtype == "float32"


def test_leading_axes_are_summed_over():
  hidden, kernel, gradient = numbers()
  stacked = (np.stack([hidden, 2 * hidden]), np.stack([gradient, gradient]))
  _, pull = jax.vjp(
    lambda k: heads.vocabulary_product()(stacked[0], k, kernel), kernel
  )
  (of_kernel,) = pull(stacked[1])
  np.testing.assert_allclose(of_kernel, 3 * hidden.T @ gradient, rtol=1e-5)
