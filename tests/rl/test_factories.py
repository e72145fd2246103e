"""Tests of `rl.factories`."""

import pytest

from rl import factories


def _named(array, mask, *, low=0.2, high=None, names=("a", 1), flag=True):
  """Documents itself."""
  del array, mask
  return low, high, names, flag


MAKE = factories.factory(_named, 2, lambda hyper: hyper)


def test_a_factory_takes_hyper_parameters_by_position_and_by_keyword():
  defaults = {"low": 0.2, "high": None, "names": ("a", 1), "flag": True}
  assert MAKE() == defaults
  assert MAKE(0.3, flag=False) == {**defaults, "low": 0.3, "flag": False}
  assert MAKE.__name__ == "_named"
  assert MAKE.__doc__ == "Documents itself."


@pytest.mark.parametrize(
  ("arguments", "keywords"), [((), {"middle": 1}), ((1, 2, 3, 4, 5), {})]
)
def test_unknown_hyper_parameters_are_refused_by_name(arguments, keywords):
  with pytest.raises(TypeError, match=r"_named\(low=0.2, high=None"):
    MAKE(*arguments, **keywords)


def test_hyper_parameters_must_be_keyword_only():
  with pytest.raises(TypeError, match=r"hyper-parameters \['mask'\] must be"):
    factories.factory(_named, 1, dict)


def test_a_label_shows_what_is_set():
  hyper = {"low": 0.2, "big": 1e-7, "n": 3, "flag": True, "none": None}
  assert factories.label("clip", hyper) == (
    "clip(low=0.2, big=1e-07, n=3, flag=True)"
  )
  hyper = {"names": ("a", 0.5), "rule": "sum", "of": _named}
  assert factories.label("clip", hyper) == (
    "clip(names=(a, 0.5), rule=sum, of=_named)"
  )
  assert factories.label("clip", {}) == "clip()"


def test_needs_may_depend_on_hyper_parameters():
  assert factories.resolve_needs(["a", "a"], {"k": 2}) == {"a"}
  needs = factories.resolve_needs(lambda k: {"b"} if k > 1 else (), {"k": 2})
  assert needs == frozenset({"b"})
