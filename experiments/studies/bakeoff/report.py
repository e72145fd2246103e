"""The files of a bake-off: paragraphs and tables as Markdown, HTML and JSON."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from etils import epath

from experiments.logging import json_files
from experiments.report import shell


class Cell(NamedTuple):
  """A cell of a table: its text, and whether it is bold."""

  text: str
  bold: bool = False


class Line(NamedTuple):
  """A line of a table.

  Attributes:
    name: the first cell.
    cells: the cells after it.
    notes: the last cell, which is no number; None if the table has none.
    is_code: whether the name is one that users type.
  """

  name: str
  cells: Sequence[Cell]
  notes: str | None = None
  is_code: bool = True


class Grid(NamedTuple):
  """A table.

  Attributes:
    titles: titles of all columns.
    groups: pairs of a heading, "" for none, and the lines below it.
  """

  titles: Sequence[str]
  groups: Sequence[tuple[str, Sequence[Line]]]


@dataclasses.dataclass(frozen=True)
class Report:
  """The content of the files.

  Attributes:
    title: title of the page.
    blocks: paragraphs and tables, in order.
    not_run: `{name: reason}` of entries that cannot run or that failed.
    results: content of `bakeoff.json`.
  """

  title: str
  blocks: Sequence[str | Grid]
  not_run: Mapping[str, str]
  results: Mapping[str, Any]

  def markdown(self) -> str:
    """Returns the text of `bakeoff.md`."""
    texts = [
      block if isinstance(block, str) else _markdown_table(block)
      for block in self.blocks
    ]
    if self.not_run:
      reasons = sorted(self.not_run.items())
      items = (f"- `{name}`: {reason}" for name, reason in reasons)
      texts += ["Not run:", "\n".join(items)]
    return "\n\n".join(texts) + "\n"

  def page(self) -> str:
    """Returns the text of `index.html`, which links to no other file."""
    texts = [f"<h1>{self.title}</h1>"] + [
      f"<p>{html.escape(block)}</p>"
      if isinstance(block, str)
      else _html_table(block)
      for block in self.blocks
    ]
    if self.not_run:
      items = "".join(
        f"<li><code>{name}</code>: {html.escape(reason)}</li>"
        for name, reason in sorted(self.not_run.items())
      )
      texts.append(f"<h2>Not run</h2><ul>{items}</ul>")
    return shell.page(self.title, "".join(texts))

  def write(self, folder: epath.PathLike) -> None:
    """Writes `bakeoff.md`, `index.html` and `bakeoff.json` into a folder."""
    folder = epath.Path(folder)
    json_files.replace(folder / "bakeoff.md", self.markdown())
    json_files.replace(folder / "index.html", self.page())
    text = json.dumps(json_files.to_strict_json(self.results), indent=2)
    json_files.replace(folder / "bakeoff.json", text + "\n")


def _markdown_table(grid: Grid) -> str:
  def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

  rows = [row(grid.titles), row(["---"] * len(grid.titles))]
  for heading, lines in grid.groups:
    if heading:
      rows.append(row([f"**{heading}**", *[""] * (len(grid.titles) - 1)]))
    for line in lines:
      name = f"`{line.name}`" if line.is_code else line.name
      cells = [f"**{c.text}**" if c.bold else c.text for c in line.cells]
      notes = [] if line.notes is None else [line.notes]
      rows.append(row([name, *cells, *notes]))
  return "\n".join(rows)


def _html_table(grid: Grid) -> str:
  head = "".join(
    f"<th scope='col'>{html.escape(title)}</th>" for title in grid.titles
  )
  body = ""
  for heading, lines in grid.groups:
    if heading:
      body += (
        f"<tr><th scope='rowgroup' colspan='{len(grid.titles)}'>"
        f"{html.escape(heading)}</th></tr>"
      )
    for line in lines:
      name = f"<code>{line.name}</code>" if line.is_code else line.name
      texts = (
        f"<strong>{c.text}</strong>" if c.bold else c.text for c in line.cells
      )
      cells = "".join(f"<td class='number'>{text}</td>" for text in texts)
      notes = "" if line.notes is None else f"<td>{line.notes}</td>"
      body += f"<tr><th scope='row'>{name}</th>{cells}{notes}</tr>"
  return (
    f"<div class='wide broad'><table><thead><tr>{head}</tr></thead>"
    f"<tbody>{body}</tbody></table></div>"
  )
