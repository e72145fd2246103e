"""Tests of the selection of prompts whose verdicts are used."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl.methods.process import labels

IDS = (0, 1, 2, 77, 65_536, 2**31 - 1, -1, -12_345)


def murmur(number):
  """The upper 24 bits of MurmurHash3's finalizer, in Python integers."""
  bits = 2**32 - 1
  x = (number + 0x9E3779B9) & bits
  x = (x ^ (x >> 16)) * 0x85EBCA6B & bits
  x = (x ^ (x >> 13)) * 0xC2B2AE35 & bits
  return (x ^ (x >> 16)) >> 8


def test_prompts_whose_hash_is_below_the_share_are_selected():
  """A hash that is equal to the share, in units of 2^-24, is not below it."""
  rollout = worked_example.rollout(np.zeros((8, 3)))
  rollout = rollout.replace(prompt_ids=jnp.array(IDS))
  hashes = np.array([murmur(i) for i in IDS])
  for limit in hashes:
    selected = labels.labelled(limit / 2**24)(rollout)
    expected = np.repeat((hashes < limit)[:, None], 3, 1)
    np.testing.assert_array_equal(selected, expected)


@pytest.mark.parametrize("share", [-0.001, 1.001])
def test_a_share_outside_0_to_1_is_refused(share):
  with pytest.raises(ValueError, match="must be a share of the prompts"):
    labels.labelled(share)
