"""The page of a report.

What can be read without a script (headline, tables) is HTML; charts and the
rollout browser are drawn by the scripts in `web/` from the data in the page.
What policies wrote is text to them, and the page's content security policy lets
nothing be fetched.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.logging import json_files
from experiments.report import shell

_POLICY = (
  '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
  "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
)
_SIGNS = {1: "up", 0: "", -1: "down"}
SCRIPTS = (
  "dom.js",
  "scales.js",
  "charts.js",
  "heatmap.js",
  "evaluation.js",
  "training.js",
  "counts.js",
  "samples.js",
  "sample.js",
  "browser.js",
  "steps.js",
  "main.js",
)


class Section(NamedTuple):
  """A part of the page that a script fills.

  Attributes:
    id: of the element.
    link: in the bar at the top.
    heading: of the section.
    lead: how to read it.
  """

  id: str
  link: str
  heading: str
  lead: str


SECTIONS = (
  Section(
    "pass",
    "pass@k",
    "Held-out problems",
    "What k samples of a problem come to, with 95 % bands over problems.",
  ),
  Section(
    "training",
    "Training",
    "Training curves",
    "Faint: as logged; strong: smoothed. One cursor runs over all of them; it "
    "moves with the arrow keys too. Without it a number is the last one.",
  ),
  Section(
    "groups",
    "Groups",
    "How many of a prompt's samples are right",
    "Left: the share of prompts by samples right, step by step. Right: one step "
    "of it, the one under the cursor, and over it the advantage that the "
    "objective gives to a right and to a wrong sample of such a group.",
  ),
  Section("terms", "Terms", "Reward terms", "What the reward is made of."),
  Section(
    "steps",
    "Steps",
    "Step scores",
    "A row is a sample, a column one of its reasoning steps; the dot marks its "
    "worst one, where they are not all the same.",
  ),
  Section(
    "rollouts",
    "Rollouts",
    "Rollouts",
    "The key / goes to the search; arrow keys move in the list and over the "
    "tokens of a text.",
  ),
)


def page(data: Mapping[str, Any], samples: str = "") -> str:
  """The page of a report.

  Args:
    data: of `experiments.report.data`.
    samples: of `experiments.report.samples`; empty without rollouts.

  Returns:
    HTML.
  """
  there = [s for s in SECTIONS if s.id in data["sections"]]
  inside = {"pass": "".join(map(_table, data["tables"]))}
  body = _head(data) + "".join(
    _section(s, data["notes"].get(s.id, ""), inside.get(s.id, ""))
    for s in there
  )
  body += _config(data["config"])
  nav = [("result", "Result"), *((s.id, s.link) for s in there)]
  nav.append(("config", "Settings"))
  scripts = _scripts(data["runs"], samples)
  return shell.page(data["title"], body, nav, _POLICY, scripts)


def _scripts(runs: Sequence[Mapping[str, Any]], samples: str) -> str:
  content = json.dumps(json_files.strict({"runs": runs}), separators=(",", ":"))
  # "<" could begin a tag that ends the script.
  content = content.replace("<", "\\u003c")
  blocks = [f'<script type="application/json" id="data">{content}</script>']
  if samples:
    blocks.append(f'<script type="text/plain" id="samples">{samples}</script>')
  code = "\n".join(map(shell.file, SCRIPTS))
  blocks.append(f'<script type="module">\n{code}</script>')
  return "\n".join(blocks)


def _head(data: Mapping[str, Any]) -> str:
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
  """One large number: from the base to the trained policy."""
  text, sign = figure["difference"]
  arrow = " <i>→</i> ".join(map(_numbers, figure["values"]))
  return (
    f"<div><dt>{html.escape(figure['label'])}</dt><dd>{arrow}"
    f"<small class='{_SIGNS[sign]}'>{_numbers(text)}</small></dd></div>"
  )


def _numbers(text: str) -> str:
  """Numbers as they are printed, a minus being no hyphen."""
  return html.escape(text).replace("-", "\u2212")


def _table(table: Mapping[str, Any]) -> str:
  """What `tables.plain` made of a terminal's table."""
  head = "".join(
    f"<th scope='col' class='number'>{html.escape(name)}</th>"
    for name in table["columns"]
  )
  rows = ""
  for row in table["rows"]:
    cells = "".join(
      f"<td class='number'><b class='{_SIGNS[cell['sign']]}'>"
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


def _section(section: Section, note: str, inside: str) -> str:
  said = f"<p class='note'>{html.escape(note)}</p>" if note else ""
  return (
    f"<section id='{section.id}'><h2>{html.escape(section.heading)}</h2>"
    f"<p class='note'>{html.escape(section.lead)}</p>{said}"
    f"<div class='slot'>{inside}</div></section>"
  )


def _config(config: Mapping[str, Any]) -> str:
  """The settings of one run, or those in which runs differ."""
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
