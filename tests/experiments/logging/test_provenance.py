"""Tests of `provenance`, which reads the commit of a real repository."""

import re
import subprocess

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
