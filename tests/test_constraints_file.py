"""constraints.txt: versions known to work together, of all we ask for."""

import ast
import importlib.metadata
import pathlib
import platform

import pytest
from packaging import requirements, utils

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def requested():
  """The requirements of setup.py: of the package and of each extra."""
  constants = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in ast.parse((ROOT / "setup.py").read_text()).body
    if isinstance(node, ast.Assign)
  }
  lists = [constants["REQUIRES"], *constants["EXTRAS"].values()]
  return [requirements.Requirement(text) for some in lists for text in some]


def pinned(python):
  """Name -> version, of the lines that hold for a Python."""
  result = {}
  for line in (ROOT / "constraints.txt").read_text().splitlines():
    text = line.partition("#")[0].strip()
    if not text:
      continue
    pin = requirements.Requirement(text)
    if pin.marker and not pin.marker.evaluate({"python_version": python}):
      continue
    (exact,) = pin.specifier
    name = utils.canonicalize_name(pin.name)
    assert exact.operator == "==", line
    assert not pin.extras, line  # pip refuses them in a constraints file
    assert name not in result, line
    result[name] = exact.version
  return result


@pytest.mark.parametrize("python", PYTHONS)
def test_all_we_ask_for_has_a_version_that_we_allow(python):
  pins = pinned(python)
  assert {utils.canonicalize_name(one.name) for one in requested()} <= set(pins)
  for one in requested():
    version = pins[utils.canonicalize_name(one.name)]
    assert one.specifier.contains(version), f"{one} is pinned to {version}"


@pytest.mark.parametrize("python", PYTHONS)
def test_what_comes_as_a_set_is_pinned_as_one(python):
  pins = pinned(python)
  plugins = ["jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"]
  # A patch of jax alone may have a fourth number.
  release = pins["jax"].split(".")[:3]
  assert [pins[name].split(".")[:3] for name in plugins] == [release] * 3


def test_what_is_tested_here_is_what_the_file_says():
  """Installed with the constraints, as make and CI do."""
  differ = []
  pins = pinned(".".join(platform.python_version_tuple()[:2]))
  for name, version in pins.items():
    try:
      result = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue  # of an extra that is not here
    if result.partition("+")[0] != version:
      differ.append(f"{name} {result}, not {version}")
  assert not differ, (
    "this environment is not that of constraints.txt (install with "
    f"--constraint constraints.txt, or bring the file up to date): {differ}"
  )
