"""What came out of the claims: one page, one table."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
from collections.abc import Sequence
from typing import Any

import matplotlib.figure
from etils import epath

from experiments import jsonl
from experiments.claims.claim import Claim, Comparison, verdict

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #8884; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; background: white; border-radius: 6px; }
.reproduced { color: light-dark(#1a7f37, #56d364); }
.not-reproduced { color: light-dark(#cf222e, #ff7b72); }
.inconclusive { color: light-dark(#9a6700, #e3b341); }
section { margin-top: 3rem; }
"""


_COLUMNS = ("comparison", "effect", "claimed", "as claimed")


@dataclasses.dataclass(frozen=True)
class Tried:
  """A claim with what its run said.

  Attributes:
    claim: the claim.
    comparisons: of its test.
    seeds: how many ran.
    made: when and by what code its arms were trained.
    picture: PNG bytes.
  """

  claim: Claim
  comparisons: Sequence[Comparison]
  seeds: int
  made: Sequence[str]
  picture: bytes

  @property
  def verdict(self) -> str:
    return verdict(self.comparisons)


def png(drawn: matplotlib.figure.Figure) -> bytes:
  """A figure's bytes."""
  picture = io.BytesIO()
  drawn.savefig(picture, format="png", dpi=130, facecolor="white")
  return picture.getvalue()


def markdown(tried: Sequence[Tried]) -> str:
  """The table that the README shows."""
  rows = [
    f"{_made(tried)}. Effects are means over "
    f"{', '.join(map(str, sorted({t.seeds for t in tried})))} seeds with "
    "Student's 95 % intervals, on the same held-out problems for all.",
    "",
    "| claim | measured | effect | claimed | |",
    "|---|---|---|---|---|",
  ]
  for t in tried:
    rows.append(f"| {t.claim.statement} | | | | **{t.verdict}** |")
    rows += [
      f"| | {c.label} | {effect(c)} | {c.expected} | {mark(c)} |"
      for c in t.comparisons
    ]
  return "\n".join(rows) + "\n"


def _made(tried: Sequence[Tried]) -> str:
  return "; ".join(sorted({made for t in tried for made in t.made}))


def record(tried: Sequence[Tried]) -> dict[str, Any]:
  """The same for programs."""
  return {
    t.claim.name: {
      "statement": t.claim.statement,
      "verdict": t.verdict,
      "seeds": t.seeds,
      "made": list(t.made),
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
    f"<title>Claims</title><style>{STYLE}</style>"
    f"<h1>Claims</h1><p>{html.escape(_made(tried))}. The test of a "
    "claim stands in its file; intervals are Student's, 95 %, over seeds of training, on "
    "the same held-out problems for all.</p>"
    "<table><tr><th scope='col'>claim</th><th scope='col'>verdict</th></tr>"
    f"{head}</table>" + "".join(map(_section, tried)) + "</html>\n"
  )


def _section(t: Tried) -> str:
  rows = "".join(
    f"<tr><td>{html.escape(c.label)}</td>"
    f"<td class='number'>{effect(c)}</td><td>{c.expected}</td>"
    f"<td>{mark(c)}</td></tr>"
    for c in t.comparisons
  )
  picture = base64.b64encode(t.picture).decode()
  spoken = f"{t.verdict}: " + "; ".join(
    f"{c.label} {effect(c)}" for c in t.comparisons
  )
  return (
    f"<section id='{t.claim.name}'><h2>{t.claim.name.replace('_', ' ')}: "
    f"{_verdict(t)}</h2><p>{html.escape(t.claim.statement)}<br>"
    f"<small>{html.escape(t.claim.source)}</small></p>"
    f"<p>{html.escape(t.claim.setting)}; {t.seeds} seeds.</p><table><tr>"
    + "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
    + f"</tr>{rows}</table><img alt='{html.escape(spoken)}' "
    f"src='data:image/png;base64,{picture}'></section>"
  )


def _verdict(t: Tried) -> str:
  css = t.verdict.replace(" ", "-")
  return f"<strong class='{css}'>{t.verdict}</strong>"


def effect(c: Comparison) -> str:
  """Mean and interval, as one reads them."""
  low, high = c.interval
  return f"{c.mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def mark(c: Comparison) -> str:
  """Whether it is as claimed."""
  if c.region == "reported":
    return ""
  if c.holds is None:
    return f"open, {c.detectable:.3f} could be seen"
  return "holds" if c.holds else "fails"


def write(tried: Sequence[Tried], folder: epath.PathLike) -> None:
  """Writes `index.html`, `claims.md`, `claims.json` and a PNG per claim."""
  folder = epath.Path(folder)
  for t in tried:
    jsonl.replace(folder / f"{t.claim.name}.png", t.picture)
  jsonl.replace(folder / "index.html", page(tried))
  jsonl.replace(folder / "claims.md", markdown(tried))
  text = json.dumps(jsonl.strict(record(tried)), indent=2)
  jsonl.replace(folder / "claims.json", text + "\n")
