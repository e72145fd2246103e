"""The API reference is what the code says, and its links lead somewhere."""

import pathlib
import re

import pytest

from experiments import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted(
  path
  for folder in (ROOT, ROOT / "docs", ROOT / "docs" / "api")
  for path in folder.glob("*.md")
)


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_a_page_is_what_the_code_says(package):
  text = reference.page(package)
  assert (reference.FOLDER / f"{package}.md").read_text() == text
  assert len(text) > 10_000


def test_what_everybody_calls_is_there_with_its_equation():
  text = reference.page("rl")
  part = text[text.index("### max_at_k_weights") :]
  assert "max_at_k_weights(" in part[:200]
  assert "sum_i w_i grad log pi(y_i)" in part[:900]
  blocks = re.findall(r"```python\n(.*?)```", text, re.S)
  assert blocks
  assert not any(" at 0x" in block for block in blocks)


@pytest.mark.parametrize(
  "page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_every_link_leads_somewhere(page):
  text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
  headings = {
    re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
    for line in text.splitlines()
    if line.startswith("#")
  }
  for target in re.findall(r"\]\(([^)\s]+)\)", text):
    path, _, anchor = target.partition("#")
    if "://" in target:
      continue
    assert not path or (page.parent / path).exists(), target
    assert path or anchor in headings, target
