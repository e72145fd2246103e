"""Tests of `provenance`, which reads the commit of a real repository."""

import hashlib
import importlib
import re
import subprocess
import sys

import jax

from experiments.logging import provenance


def test_a_commit_is_named_and_a_changed_file_is_marked(
  tmp_path, monkeypatch, capfd
):
  monkeypatch.setattr(provenance, "__file__", str(tmp_path / "module.py"))
  monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
  assert provenance.commit() == "unknown"  # no repository
  who = ["-c", "user.name=n", "-c", "user.email=e"]

  def git(*words):
    subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

  git("init", "--quiet")
  file = tmp_path / "file"
  file.write_text("a")
  git("add", "file")
  git("commit", "--quiet", "--message", "first")
  commit = provenance.commit()
  assert re.fullmatch("[0-9a-f]{7,}", commit)
  file.write_text("b")
  assert provenance.commit() == f"{commit}+"
  monkeypatch.setenv("PATH", "")  # no Git
  assert provenance.commit() == "unknown"
  assert capfd.readouterr() == ("", "")  # Git's own words are not shown


def test_a_description_names_the_version_and_the_devices(monkeypatch):
  monkeypatch.setattr(provenance, "commit", lambda: "88bb434+")
  devices = jax.devices()
  assert re.fullmatch(
    rf"\d{{4}}-\d\d-\d\d, commit 88bb434\+, "
    rf"jax {re.escape(jax.__version__)} on {len(devices)} cpu",
    provenance.describe(),
  )


def test_a_file_has_the_hash_of_the_code_that_was_loaded(tmp_path, monkeypatch):
  file = tmp_path / "my_method_to_hash.py"
  file.write_text("A = 1\n")
  monkeypatch.syspath_prepend(tmp_path)
  importlib.import_module(file.stem)
  old = hashlib.sha256(b"A = 1\n").hexdigest()
  assert provenance.source_hashes()[str(file)] == old
  file.write_text("A = 2\n")  # the loaded code is still that of before
  hashes = provenance.source_hashes()
  assert hashes[str(file)] == old
  assert provenance.__file__ in hashes
  assert jax.__file__ not in hashes
  file.unlink()
  assert str(file) not in provenance.source_hashes()
  del sys.modules[file.stem]
