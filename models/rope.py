"""Rotary frequencies, and the scalings that stretch a decoder's context.

All of it is known when a program is traced: the tables are constants.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rl import choices

KINDS = ("linear", "dynamic", "llama3", "yarn", "longrope")


@dataclasses.dataclass(frozen=True)
class RopeScaling:
  """How rotary frequencies are stretched beyond the length of pretraining.

  With f_i = theta^(-2 i / d), i < d / 2, and `length` the longest sequence that
  a program can hold (prompt and completion):

    linear    f_i / factor
    dynamic   theta (factor r - factor + 1)^(d / (d - 2)) in theta's place, with
              r = max(length / original, 1)
    llama3    f_i / factor where a wavelength passes original / low, f_i below
              original / high, and between them a blend
    yarn      f_i / factor for the frequencies that turn fewer than `slow` times
              in `original` positions, f_i for more than `fast`, a ramp between
    longrope  f_i / long_factors_i if `length` exceeds `original`, else
              f_i / short_factors_i

  `length` is that of the program, not of a row: a sampler that has room for T
  tokens and a scorer of T tokens turn alike, at whatever length a row ends.
  (transformers decides by the longest row so far, so that its sampler and its
  scorer differ beyond `original`.)

  Attributes:
    kind: one of `KINDS`.
    factor: of the stretch.
    original: length of pretraining; of "dynamic" too.
    low_freq_factor, high_freq_factor: "llama3".
    beta_fast, beta_slow: turns, "yarn".
    truncate: rounds the ends of yarn's ramp outwards.
    attention_factor: multiplies cosines and sines, "yarn" and "longrope".
    short_factors, long_factors: one for each frequency, "longrope".

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
    if self.kind not in KINDS:
      raise ValueError(choices.unknown("rope scaling", self.kind, KINDS))
    if self.kind != "linear" and self.original < 1:
      raise ValueError(
        f"original = {self.original} of {self.kind} rope scaling must be the "
        "length of pretraining, at least 1"
      )
    if not (math.isfinite(self.factor) and self.factor > 0):
      raise ValueError(
        f"factor = {self.factor} of {self.kind} rope scaling must be positive "
        "and finite"
      )
    if self.high_freq_factor <= self.low_freq_factor:
      raise ValueError(
        f"high_freq_factor = {self.high_freq_factor} must be above "
        f"low_freq_factor = {self.low_freq_factor}"
      )
    for name in ("short_factors", "long_factors"):  # lists of a JSON file
      object.__setattr__(self, name, tuple(getattr(self, name)))


def frequencies(
  dim: int, theta: float, scaling: RopeScaling | None, length: int
) -> tuple[np.ndarray, float]:
  """Angle per position of each rotated pair, and the factor of its length.

  Args:
    dim: rotated channels of a head, even.
    theta: base of the wavelengths.
    scaling: of the frequencies; None leaves them as they are.
    length: longest sequence that the program can hold.

  Returns:
    `[dim / 2]` float32, and what multiplies cosines and sines.
  """
  exponents = np.arange(0, dim, 2) / dim
  plain = theta**-exponents
  if scaling is None:
    return plain.astype(np.float32), 1.0
  if scaling.kind == "linear":
    found = plain / scaling.factor
  elif scaling.kind == "dynamic":
    over = max(length, scaling.original) / scaling.original
    stretch = scaling.factor * over - (scaling.factor - 1)
    found = (theta * stretch ** (dim / (dim - 2))) ** -exponents
  elif scaling.kind == "llama3":
    found = _llama3(plain, scaling)
  elif scaling.kind == "yarn":
    found = _yarn(plain, dim, theta, scaling)
  else:
    far = length > scaling.original
    factors = scaling.long_factors if far else scaling.short_factors
    found = plain / np.asarray(factors)
  return found.astype(np.float32), scaling.attention_factor


def yarn_attention_factor(
  factor: float, mscale: float = 1.0, mscale_all_dim: float = 0.0
) -> float:
  """YaRN's temperature where a checkpoint does not name one."""
  if factor <= 1:
    return 1.0
  grown = lambda scale: 0.1 * scale * math.log(factor) + 1.0  # noqa: E731
  if mscale and mscale_all_dim:
    return grown(mscale) / grown(mscale_all_dim)
  return grown(1.0)


def longrope_attention_factor(factor: float, original: int) -> float:
  """LongRoPE's temperature where a checkpoint does not name one."""
  if factor <= 1:
    return 1.0
  return math.sqrt(1 + math.log(factor) / math.log(original))


def _llama3(plain: np.ndarray, s: RopeScaling) -> np.ndarray:
  wavelengths = 2 * math.pi / plain
  smooth = s.original / wavelengths - s.low_freq_factor
  smooth /= s.high_freq_factor - s.low_freq_factor
  blend = (1 - smooth) * plain / s.factor + smooth * plain
  found = np.where(
    wavelengths > s.original / s.low_freq_factor, plain / s.factor, blend
  )
  return np.where(wavelengths < s.original / s.high_freq_factor, plain, found)


def _yarn(
  plain: np.ndarray, dim: int, theta: float, s: RopeScaling
) -> np.ndarray:
  def pair_of(turns: float) -> float:
    wavelength = s.original / (turns * 2 * math.pi)
    return dim * math.log(wavelength) / (2 * math.log(theta))

  low, high = pair_of(s.beta_fast), pair_of(s.beta_slow)
  if s.truncate:
    low, high = math.floor(low), math.ceil(high)
  low, high = max(low, 0), min(high, dim - 1)
  ramp = (np.arange(dim // 2) - low) / max(high - low, 0.001)
  stretched = np.clip(ramp, 0, 1)
  return plain / s.factor * stretched + plain * (1 - stretched)
