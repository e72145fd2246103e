"""Makes an HTML page, a single file that contains its styles and scripts."""

from __future__ import annotations

import html
import importlib.resources
import string
from collections.abc import Sequence


def page(
  title: str,
  body: str,
  nav: Sequence[tuple[str, str]] = (),
  head: str = "",
  scripts: str = "",
) -> str:
  """Returns the HTML of a page.

  Args:
    title: title of the page, as plain text.
    body: HTML of the main part.
    nav: (id, text) of each section that the navigation bar links to.
    head: HTML to add to the <head> element.
    scripts: HTML of the <script> elements after the main part.
  """
  links = "".join(
    f'<a href="#{id}">{html.escape(text)}</a>' for id, text in nav
  )
  return string.Template(file("page.html")).substitute(
    title=html.escape(title),
    style=file("page.css"),
    theme=file("theme.js"),
    head=head,
    nav=links,
    body=body,
    scripts=scripts,
  )


def file(name: str) -> str:
  """Returns the text of a file in `web/`."""
  folder = importlib.resources.files(__package__) / "web"
  return (folder / name).read_text(encoding="utf-8")
