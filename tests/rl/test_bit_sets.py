"""Sets of tokens as bits of words."""

import numpy as np
import pytest
from helpers import compiled

from rl import bit_sets

bit_sets = compiled.functions(bit_sets)


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 70])
def test_a_set_survives_its_words(vocab_size):
  members = np.random.default_rng(vocab_size).random((3, vocab_size)) < 0.5
  words = bit_sets.pack(members)
  assert words.dtype == np.uint32
  assert words.shape == (3, bit_sets.num_words(vocab_size))
  np.testing.assert_array_equal(bit_sets.unpack(words, vocab_size), members)


def test_the_bits_of_a_word_are_in_order():
  members = np.zeros(40, bool)
  members[[0, 3, 31, 33]] = True
  np.testing.assert_array_equal(bit_sets.pack(members), [2**31 + 8 + 1, 2])
