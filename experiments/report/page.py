"""Makes the HTML page of a report.

This module makes the HTML of the headline and the tables. The scripts in `web/`
draw the charts and the browser of samples, from data that the page contains.
They insert completions as text, never as HTML, and the page's content security
policy forbids all network requests.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.logging import json_files
from experiments.report import shell

_SECURITY_POLICY = (
  '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
  "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
)
# CSS class of a difference, by its sign if its interval excludes 0.
_SIGN_CLASSES = {1: "up", 0: "", -1: "down"}
# Files of `web/` in the order in which the page has them, as one module.
SCRIPTS = (
  *("dom.js", "scales.js", "charts.js", "heatmap.js", "evaluation.js"),
  *("training.js", "counts.js", "samples.js", "sample.js", "browser.js"),
  *("steps.js", "main.js"),
)


class Section(NamedTuple):
  """A section of the page that a script fills."""

  id: str  # of the HTML element; the script finds the section by it
  link: str  # text of the link in the navigation bar
  heading: str
  lead: str  # sentences below the heading that explain the charts


SECTIONS = (
  Section(
    "pass",
    "pass@k",
    "Held-out problems",
    "Results with k samples of each problem, with 95 % bands over problems.",
  ),
  Section(
    "training",
    "Training",
    "Training curves",
    "Faint lines are the logged values, strong lines are smoothed. One cursor "
    "runs over all charts; the arrow keys move it too. Numbers are logged "
    "values; without the cursor, those of the last step.",
  ),
  Section(
    "groups",
    "Groups",
    "How many of a prompt's samples are right",
    "Left: the share of prompts by the number of right samples, step by step. "
    "Right: the step under the cursor, and over it the advantage that the "
    "objective gives to a right and to a wrong sample of such a group.",
  ),
  Section(
    "terms", "Terms", "Reward terms", "The terms that make up the reward."
  ),
  Section(
    "steps",
    "Steps",
    "Step scores",
    "A row is a sample, and a column one of its reasoning steps. The dot marks "
    "the worst step, unless all steps have the same score.",
  ),
  Section(
    "rollouts",
    "Rollouts",
    "Rollouts",
    "The key / jumps to the search field. The arrow keys move through the list "
    "and over the tokens of a text.",
  ),
)


def page(data: Mapping[str, Any], samples: str = "") -> str:
  """Returns the HTML of the page of `data.collect`, with `Packed.text`."""
  sections = [s for s in SECTIONS if s.id in data["sections"]]
  contents = {"pass": "".join(map(_table, data["tables"]))}
  body = _head(data) + "".join(
    _section(s, data["notes"].get(s.id, ""), contents.get(s.id, ""))
    for s in sections
  )
  body += _config(data["config"])
  nav = [("result", "Result"), *((s.id, s.link) for s in sections)]
  nav.append(("config", "Settings"))
  scripts = _scripts(data["runs"], samples)
  return shell.page(data["title"], body, nav, _SECURITY_POLICY, scripts)


def _scripts(runs: Sequence[Mapping[str, Any]], samples: str) -> str:
  """Returns the <script> elements: the data, the samples and the code."""
  content = json.dumps(
    json_files.to_strict_json({"runs": runs}), separators=(",", ":")
  )
  # A "<" in a text could begin "</script>", which would end the element.
  content = content.replace("<", "\\u003c")
  blocks = [f'<script type="application/json" id="data">{content}</script>']
  if samples:
    blocks.append(f'<script type="text/plain" id="samples">{samples}</script>')
  code = "\n".join(map(shell.file, SCRIPTS))
  blocks.append(f'<script type="module">\n{code}</script>')
  return "\n".join(blocks)


def _head(data: Mapping[str, Any]) -> str:
  """Returns the first section: title, facts, headline and methods."""
  facts = " · ".join(map(html.escape, data["facts"]))
  figures = "".join(map(_figure, data["headline"]))
  methods = "".join(
    f"<h3>{html.escape(name if data['methods'][1:] else 'Method')}</h3>"
    f"<pre>{html.escape(text)}</pre>"
    for name, text in data["methods"]
  )
  return (
    f"<section id='result'><h1>{html.escape(data['title'])}</h1>"
    f"<p class='facts'>{facts}</p>"
    + (f"<dl class='figures'>{figures}</dl>" if figures else "")
    + f"{methods}</section>"
    + "<div class='hidden' id='announced' role='status'></div>"
    + "<noscript><p>Charts and rollouts need scripts.</p></noscript>"
  )


def _figure(figure: Mapping[str, Any]) -> str:
  """Returns one entry of the headline, "base -> trained" and the difference."""
  text, sign = figure["difference"]
  arrow = " <i>→</i> ".join(map(_numbers, figure["values"]))
  return (
    f"<div><dt>{html.escape(figure['label'])}</dt><dd>{arrow}"
    f"<small class='{_SIGN_CLASSES[sign]}'>{_numbers(text)}</small></dd></div>"
  )


def _numbers(text: str) -> str:
  """Returns the HTML of numbers, with minus signs in place of hyphens."""
  return html.escape(text).replace("-", "\u2212")


def _table(table: Mapping[str, Any]) -> str:
  """Returns the HTML of a table from `tables.to_json`."""
  head = "".join(
    f"<th scope='col' class='number'>{html.escape(name)}</th>"
    for name in table["columns"]
  )
  rows = ""
  for row in table["rows"]:
    cells = "".join(
      f"<td class='number'><b class='{_SIGN_CLASSES[cell['sign']]}'>"
      f"{_numbers(cell['mean'])}</b> <span>{_numbers(cell['interval'])}"
      "</span></td>"
      for cell in row["cells"]
    )
    css = " class='end'" if row["end"] else ""
    label = html.escape(row["label"])
    rows += f"<tr{css}><th scope='row'>{label}</th>{cells}</tr>"
  return (
    f"<div class='wide'><table><caption>{html.escape(table['title'])}</caption>"
    f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
  )


def _section(section: Section, note: str, content: str) -> str:
  """Returns the HTML of a section; its script fills the "slot" element."""
  note_html = f"<p class='note'>{html.escape(note)}</p>" if note else ""
  return (
    f"<section id='{section.id}'><h2>{html.escape(section.heading)}</h2>"
    f"<p class='note'>{html.escape(section.lead)}</p>{note_html}"
    f"<div class='slot'>{content}</div></section>"
  )


def _config(config: Mapping[str, Any]) -> str:
  """Returns the section with the table of settings, folded for a single run."""
  head = "".join(
    f"<th scope='col'>{html.escape(name)}</th>" for name in config["columns"]
  )
  rows = "".join(
    f"<tr><th scope='row'><code>{html.escape(key)}</code></th>"
    + "".join(f"<td class='value'>{html.escape(v)}</td>" for v in values)
    + "</tr>"
    for key, values in config["rows"]
  )
  table = (
    "<div class='wide'><table><thead><tr><th></th>"
    f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
  )
  if config["folded"]:
    count = len(config["rows"])
    table = f"<details><summary>{count} settings</summary>{table}</details>"
  return (
    "<section id='config'><h2>Settings</h2>"
    f"<p class='note'>{html.escape(config['note'])}</p>{table}</section>"
  )
