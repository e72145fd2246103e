"""What came out of the claims: one page, one table."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import math
import pathlib
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import matplotlib.figure

from experiments import jsonl
from experiments.claims.claim import Claim, Comparison, verdict

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #8884; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; background: white; border-radius: 6px; }
.reproduced { color: #1a7f37; } .not { color: #cf222e; }
.inconclusive { color: #9a6700; }
section { margin-top: 3rem; }
"""


@dataclasses.dataclass(frozen=True)
class Tried:
  """A claim with what its run said.

  Attributes:
    claim: the claim.
    comparisons: of its test.
    seeds: how many ran.
    minutes: of computing, arms shared with other claims included.
    picture: PNG bytes.
  """

  claim: Claim
  comparisons: Sequence[Comparison]
  seeds: int
  minutes: float
  picture: bytes

  @property
  def verdict(self) -> str:
    return verdict(list(self.comparisons))


def png(drawn: matplotlib.figure.Figure) -> bytes:
  """A figure's bytes."""
  picture = io.BytesIO()
  drawn.savefig(picture, format="png", dpi=130, facecolor="white")
  return picture.getvalue()


def commit() -> str:
  """The short hash of the checkout, "+" where files differ from it."""
  try:
    found = subprocess.run(
      ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
      cwd=pathlib.Path(__file__).parent,
      capture_output=True,
      text=True,
      check=True,
    )
  except (OSError, subprocess.CalledProcessError):
    return "unknown"
  return found.stdout.strip()


def markdown(tried: Sequence[Tried]) -> str:
  """The table that the README shows."""
  seeds = sorted({t.seeds for t in tried})
  rows = [
    f"{time.strftime('%Y-%m-%d')}, commit {commit()}, "
    f"{', '.join(map(str, seeds))} seeds, mean and 95 % interval over seeds.",
    "",
    "| claim | verdict | evidence |",
    "|---|---|---|",
  ]
  for t in tried:
    evidence = "; ".join(
      f"{c.label} {effect(c)} ({c.expected}: {mark(c)})" for c in t.comparisons
    )
    rows.append(f"| {t.claim.statement} | **{t.verdict}** | {evidence} |")
  return "\n".join(rows) + "\n"


def record(tried: Sequence[Tried]) -> dict[str, Any]:
  """The same for programs."""
  return {
    t.claim.name: {
      "statement": t.claim.statement,
      "verdict": t.verdict,
      "seeds": t.seeds,
      "minutes": t.minutes,
      "comparisons": [
        {
          "label": c.label,
          "mean": c.mean,
          "low": c.interval[0],
          "high": c.interval[1],
          "expected": c.expected,
          "holds": c.holds,
          "detectable": c.detectable,
          "effects": [float(x) for x in c.effects],
        }
        for c in t.comparisons
      ],
    }
    for t in tried
  }


def page(tried: Sequence[Tried]) -> str:
  """One self-contained HTML page."""
  head = "".join(
    f'<tr><td><a href="#{t.claim.name}">{html.escape(t.claim.statement)}</a>'
    f"</td><td>{_verdict(t)}</td></tr>"
    for t in tried
  )
  return (
    "<!doctype html><html lang='en'><meta charset='utf-8'>"
    "<meta name='viewport' content='width=device-width'>"
    f"<title>Claims</title><style>{_STYLE}</style>"
    f"<h1>Claims</h1><p>{time.strftime('%Y-%m-%d')}, commit {commit()}. Every "
    "test was fixed before its run; intervals are Student's, 95 %, over "
    "seeds.</p>"
    f"<table><tr><th>claim</th><th>verdict</th></tr>{head}</table>"
    + "".join(map(_section, tried))
    + "</html>\n"
  )


def _section(t: Tried) -> str:
  rows = "".join(
    f"<tr><td>{html.escape(c.label)}</td>"
    f"<td class='number'>{effect(c)}</td><td>{c.expected}</td>"
    f"<td>{mark(c)}</td><td class='number'>{c.detectable:.3f}</td></tr>"
    for c in t.comparisons
  )
  picture = base64.b64encode(t.picture).decode()
  return (
    f"<section id='{t.claim.name}'><h2>{t.claim.name.replace('_', ' ')}: "
    f"{_verdict(t)}</h2><p>{html.escape(t.claim.statement)}<br>"
    f"<small>{html.escape(t.claim.source)}</small></p>"
    f"<p>{html.escape(t.claim.setting)}; {t.seeds} seeds, "
    f"{t.minutes:.1f} minutes (arms that claims share count in each).</p>"
    "<table><tr><th>comparison</th><th>effect</th><th>claimed</th><th></th>"
    f"<th>detectable</th></tr>{rows}</table>"
    f"<img alt='{t.claim.name}' src='data:image/png;base64,{picture}'>"
    "</section>"
  )


def _verdict(t: Tried) -> str:
  return f"<strong class='{t.verdict}'>{t.verdict}</strong>"


def effect(c: Comparison) -> str:
  digits = 3
  if c.mean:  # two figures of small effects
    digits = max(3, 1 - math.floor(math.log10(abs(c.mean))))
  low, high = c.interval
  return f"{c.mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def mark(c: Comparison) -> str:
  if c.holds is None:
    return f"open, {c.detectable:.3f} could be seen"
  return "holds" if c.holds else "fails"


def write(tried: Sequence[Tried], folder: pathlib.Path) -> None:
  """Writes `index.html`, `claims.md`, `claims.json` and a PNG per claim."""
  for t in tried:
    (folder / f"{t.claim.name}.png").write_bytes(t.picture)
  jsonl.replace(folder / "index.html", page(tried))
  jsonl.replace(folder / "claims.md", markdown(tried))
  text = json.dumps(jsonl.strict(record(tried)), indent=2)
  jsonl.replace(folder / "claims.json", text + "\n")
