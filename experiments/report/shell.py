"""What every page of HTML here looks like: a report, claims, a bake-off.

A page is one file: its style and its scripts stand in it.
"""

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
  """A whole page in the manner of all of them.

  Args:
    title: of the window.
    body: HTML, of the main part.
    nav: `(id, text)` of the sections that the bar at the top links to.
    head: HTML of its head.
    scripts: HTML behind the body.

  Returns:
    The page.
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
  """The text of a file of `web/`."""
  folder = importlib.resources.files(__package__) / "web"
  return (folder / name).read_text(encoding="utf-8")
