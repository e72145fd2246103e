"""Frequencies of rotary position embeddings (RoPE), and their scalings.

The frequencies are NumPy constants, computed when a program is traced.
`models.transformer.position_tables` turns them into cosines and sines, and
`models.attention.rotate` rotates queries and keys with these. This module does
not import JAX, so that configs can be read without it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rl import UsageError, registry

KINDS = ("linear", "dynamic", "llama3", "yarn", "longrope")  # of RopeScaling


@dataclasses.dataclass(frozen=True)
class RopeScaling:
  """A scaling of rotary frequencies for contexts longer than in pretraining.

  Without scaling, pair i of the d rotated channels turns by
  `f_i = theta^(-2 i / d)` radians per position, where theta is
  `ModelConfig.rope_theta`. Below, `length` is that of the longest sequence
  (prompt and completion) that the program can hold. With a scaling of each
  kind, the pair turns by:

  - "linear": `f_i / factor`.
  - "dynamic": f_i, with theta replaced by
    `theta * (factor * r - factor + 1)^(d / (d - 2))`, where r is
    `max(length / original, 1)`.
  - "llama3": `f_i / factor` for wavelengths (`2 pi / f_i` positions) above
    `original / low_freq_factor`, `f_i` for those below
    `original / high_freq_factor`, and an interpolation between.
  - "yarn": `f_i / factor` for pairs that turn fewer than `beta_slow` times in
    `original` positions, `f_i` for those that turn more than `beta_fast` times,
    and a linear ramp between the two.
  - "longrope": `f_i / long_factors[i]` if `length > original`, otherwise
    `f_i / short_factors[i]`.

  `length` belongs to the program, not to a sequence: a sampler with space for T
  completion tokens and a scorer of T completion tokens use the same
  frequencies, wherever a completion ends. (Hugging Face transformers uses the
  longest sequence so far, so that beyond `original` its sampler and its scorer
  differ.)

  Attributes:
    kind: one of `KINDS`.
    factor: factor by which the context is extended.
    original: context length of pretraining, in tokens; not read by "linear".
    low_freq_factor: see "llama3".
    high_freq_factor: see "llama3".
    beta_fast: see "yarn".
    beta_slow: see "yarn".
    truncate: whether "yarn" rounds the ends of its ramp outwards to integers.
    attention_factor: factor of cosines and sines. The converters of
      `models.hf` set it for "yarn" and "longrope" only.
    short_factors: one divisor per frequency; see "longrope".
    long_factors: one divisor per frequency; see "longrope".

  Source: linear, Chen et al. 2023, Extending Context Window by Position
  Interpolation; dynamic, bloc97 and emozilla 2023; yarn, Peng et al. 2023,
  YaRN; longrope, Ding et al. 2024, LongRoPE; llama3, Grattafiori et al. 2024,
  The Llama 3 Herd of Models.
  """

  kind: str
  factor: float = 1.0
  original: int = 0
  low_freq_factor: float = 1.0
  high_freq_factor: float = 4.0
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  truncate: bool = True
  attention_factor: float = 1.0
  short_factors: tuple[float, ...] = ()
  long_factors: tuple[float, ...] = ()

  def __post_init__(self) -> None:
    registry.check_known("rope scaling", self.kind, KINDS)
    if self.kind != "linear" and self.original < 1:
      raise UsageError(
        f"original = {self.original} of {self.kind} rope scaling must be the "
        "context length of pretraining, at least 1"
      )
    if not (math.isfinite(self.factor) and self.factor > 0):
      raise UsageError(
        f"factor = {self.factor} of {self.kind} rope scaling must be positive "
        "and finite"
      )
    if self.high_freq_factor <= self.low_freq_factor:
      raise UsageError(
        f"high_freq_factor = {self.high_freq_factor} must be above "
        f"low_freq_factor = {self.low_freq_factor}"
      )
    # A JSON file has lists; tuples keep the dataclass hashable.
    for name in ("short_factors", "long_factors"):
      object.__setattr__(self, name, tuple(getattr(self, name)))


def frequencies(
  dim: int, theta: float, scaling: RopeScaling | None, length: int
) -> tuple[np.ndarray, float]:
  """Rotary frequencies after scaling.

  Args:
    dim: number of rotated channels of a head, even.
    theta: base of the frequencies.
    scaling: the scaling; None means none.
    length: number of tokens of the longest sequence that the program can hold.

  Returns:
    The angle per position of each channel pair in radians, `[dim / 2]` float32,
    and the factor by which cosines and sines are multiplied.
  """
  exponents = np.arange(0, dim, 2) / dim
  unscaled = theta**-exponents
  if scaling is None:
    return unscaled.astype(np.float32), 1.0
  if scaling.kind == "linear":
    scaled = unscaled / scaling.factor
  elif scaling.kind == "dynamic":
    ratio = max(length, scaling.original) / scaling.original
    stretch = scaling.factor * ratio - (scaling.factor - 1)
    scaled = (theta * stretch ** (dim / (dim - 2))) ** -exponents
  elif scaling.kind == "llama3":
    scaled = _llama3_frequencies(unscaled, scaling)
  elif scaling.kind == "yarn":
    scaled = _yarn_frequencies(unscaled, dim, theta, scaling)
  else:
    is_long = length > scaling.original
    factors = scaling.long_factors if is_long else scaling.short_factors
    scaled = unscaled / np.asarray(factors)
  return scaled.astype(np.float32), scaling.attention_factor


def yarn_attention_factor(
  factor: float, mscale: float, mscale_all_dim: float
) -> float:
  """Returns YaRN's attention factor, for a checkpoint that does not state one.

  Args:
    factor: factor by which the context is extended.
    mscale: value of the key `mscale` in `config.json`; 0 if absent.
    mscale_all_dim: value of the key `mscale_all_dim`; 0 if absent. Both values
      have an effect only if both are not 0.
  """
  growth = math.log(max(factor, 1.0))
  scaled = lambda scale: 0.1 * scale * growth + 1.0  # noqa: E731
  if mscale and mscale_all_dim:
    return scaled(mscale) / scaled(mscale_all_dim)
  return scaled(1.0)


def longrope_attention_factor(factor: float, original: int) -> float:
  """Returns LongRoPE's attention factor, if a checkpoint does not state one.

  Args:
    factor: factor by which the context is extended.
    original: context length of pretraining, in tokens.
  """
  if factor <= 1:
    return 1.0
  return math.sqrt(1 + math.log(factor) / math.log(original))


def _llama3_frequencies(unscaled: np.ndarray, s: RopeScaling) -> np.ndarray:
  wavelengths = 2 * math.pi / unscaled  # positions per turn
  # 0 at the wavelength original / low_freq_factor, and 1 at
  # original / high_freq_factor.
  weight = s.original / wavelengths - s.low_freq_factor
  weight /= s.high_freq_factor - s.low_freq_factor
  interpolated = (1 - weight) * unscaled / s.factor + weight * unscaled
  is_long = wavelengths > s.original / s.low_freq_factor
  is_short = wavelengths < s.original / s.high_freq_factor
  scaled = np.where(is_long, unscaled / s.factor, interpolated)
  return np.where(is_short, unscaled, scaled)


def _yarn_frequencies(
  unscaled: np.ndarray, dim: int, theta: float, s: RopeScaling
) -> np.ndarray:
  def pair_index(turns: float) -> float:
    """Index of the channel pair with this many turns in `original` positions.

    It is a float, because no pair may have exactly this many turns.
    """
    wavelength = s.original / (turns * 2 * math.pi)
    return dim * math.log(wavelength) / (2 * math.log(theta))

  low, high = pair_index(s.beta_fast), pair_index(s.beta_slow)
  if s.truncate:
    low, high = math.floor(low), math.ceil(high)
  low, high = max(low, 0), min(high, dim - 1)
  # max(..., 0.001) avoids a division by 0 if the ramp's ends coincide.
  ramp = (np.arange(dim // 2) - low) / max(high - low, 0.001)
  scaled_share = np.clip(ramp, 0, 1)
  return unscaled / s.factor * scaled_share + unscaled * (1 - scaled_share)
