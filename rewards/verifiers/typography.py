"""Brings LaTeX and unicode mathematics to one spelling, for parsing.

Commands that only affect the layout are removed (spaces, `\\left`,
`\\displaystyle`), and so are dollar signs around formulas; `\\$` becomes `$`.
Different spellings become one: `\\dfrac12`, `½` and `\\frac{1}{2}`; `\\le`,
`\\leq` and `≤`; `\\{` and `\\lbrace`. Commas that LaTeX marks as thousands
separators are removed (`1{,}000`, `1,\\!000`). Spaces after other commas are
kept (`1,\\,000` is a list). Relations, set operations and brackets become
single characters. A word in `\\text{}` becomes `⟦word⟧`, except for names of
functions (`\\sin`) and for single letters that are variables. The words `or`
and `and` become `∨` and `∧` everywhere.

Usage:
  normalize_latex("\\\\left( -\\\\infty, \\\\dfrac12 \\\\right]")
    == "( -∞, \\\\frac{1}{2} ]"
"""

from __future__ import annotations

import functools
import re

# Characters that look like letters are written by name.
OR, AND = "\N{LOGICAL OR}", "\N{LOGICAL AND}"
UNION, INTERSECTION = "\N{UNION}", "\N{INTERSECTION}"
WITHOUT, REALS = "\N{SET MINUS}", "\N{DOUBLE-STRUCK CAPITAL R}"

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_VULGAR = {
  "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5",
  "⅖": "2/5", "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8",
  "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_CHARACTERS = str.maketrans(
  {
    **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
    **{
      fraction: "\\frac{{{}}}{{{}}}".format(*value.split("/"))
      for fraction, value in _VULGAR.items()
    },
    **dict.fromkeys("\N{MINUS SIGN}\N{EN DASH}\N{HYPHEN}", "-"),
    **dict.fromkeys("\u2009\u200a\u202f\u200b\u2060", ""),
    **dict.fromkeys("\u00a0\t\n\r", " "),
    "\N{MULTIPLICATION SIGN}": "\\times ",
    "\N{MIDDLE DOT}": "\\cdot ", "\N{DOT OPERATOR}": "\\cdot ",
    "\N{DIVISION SIGN}": "/", "\N{FRACTION SLASH}": "/",
    "\N{ASTERISK OPERATOR}": "*", "π": "\\pi ", "θ": "\\theta ",
    "\N{GREEK SMALL LETTER ALPHA}": "\\alpha ", "β": "\\beta ",
    "\N{GREEK SMALL LETTER GAMMA}": "\\gamma ",
    "λ": "\\lambda ", "φ": "\\phi ", "ω": "\\omega ",
    "⩽": "≤", "⩾": "≥", "ø": "∅",
    "\N{MICRO SIGN}": "\N{GREEK SMALL LETTER MU}",
  }
)  # fmt: skip
_SYMBOLS = {
  "le leq leqslant": "≤", "ge geq geqslant": "≥", "ne neq": "≠", "lt": "<",
  "gt": ">", "in": "∈", "cup": UNION, "cap": INTERSECTION,
  "setminus backslash": WITHOUT,
  "infty": "∞", "emptyset varnothing": "∅", "pm": "±", "lor vee": OR,
  "land wedge": AND, "langle": "⟨", "rangle": "⟩", "lbrace": "⦃",
  "rbrace": "⦄", "degree": "°", "R": REALS, "lvert rvert vert": "|", "ast": "*",
  "quad qquad": " ",
  "left right big Big bigl bigr Bigl Bigr displaystyle textstyle limits": "",
}  # fmt: skip
_COMMANDS = {
  name: symbol for names, symbol in _SYMBOLS.items() for name in names.split()
}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# Matches a comma in braces, or before a negative space, between digits.
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|,\s*\\!)\s*(?=[0-9]{3}(?![0-9]))")
_SPACE_AFTER_COMMA = re.compile(r"(?<!\\),\s*(?:\\[,;: ]|~)")
# Matches `$5` without a second `$`, which would end a formula.
_DOLLARS = re.compile(r"(?<!\\)\$(?=\s*[-+]?[0-9.][^$]*\Z)")
_QUOTIENT = re.compile(r"⟧\s*/\s*⟦")  # of units: `⟦m⟧/⟦s⟧`
# TeX's negative space also removes the space after it.
_SPACES = re.compile(r"(?<!\\)\\!\s*|(?<!\\)\\[,;:]|(?<!\\)\\ |~|\\[()\[\]]")
_SIZED_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_REALS = re.compile(r"\\(?:mathbb|Bbb|mathbf)\s*\{?\s*R\s*\}?")
_TEXT = re.compile(
  r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|operatorname|rm)"
  r"\s*\{([^{}]*)\}"
)
_NAMED = re.compile(  # names of points and vectors; the bar of z is not z
  r"\\(?:overline|overrightarrow|vec|angle|triangle)\s*"
  r"(?:\{([A-Z]{2,})\}|(?=\s*[A-Z]{2}))"
)
_EXPONENTIAL = re.compile(r"\\exp\s*(?:\(([^()]*)\)|\{([^{}]*)\})")
_FUNCTION = re.compile(r"(sin|cos|tan|ln|log|arcsin|arccos|arctan)")
_CONJUNCTION = re.compile(r"(?<![A-Za-z\\])(or|and)(?![A-Za-z])")
_DEGREE = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|(\d+|[A-Za-z]))")
_SINGLE_SCRIPT = re.compile(r"([\^_])\{\s*([A-Za-z0-9])\s*\}")
_BARE_ROOT = re.compile(r"\\sqrt\s*([A-Za-z0-9])")
_BARE_NUMERATOR = re.compile(r"\\frac\s*([A-Za-z0-9])")
_BARE_DENOMINATOR = re.compile(r"(\\frac\{[^{}]*\})\s*([A-Za-z0-9])")
_MAX_CHARACTERS = 1000  # longer answers are not changed


# The samples of a prompt share a reference, and many of them an answer.
@functools.lru_cache(maxsize=2048)
def normalize_latex(answer: str) -> str:
  """Returns an answer in one spelling; "" if it has only layout commands."""
  if len(answer) > _MAX_CHARACTERS:
    return answer
  text = _RAISED.sub(
    lambda match: f"^{{{match[0].translate(_SUPERSCRIPTS)}}}", answer
  )
  text = _SPACE_AFTER_COMMA.sub(", ", _THOUSANDS.sub("", text))
  text = _DOLLARS.sub(r"\\$", text)
  text = text.replace("\\$", "\1").replace("$", "").replace("\1", "$")
  text = text.translate(_CHARACTERS).replace("{,}", ",")
  text = text.replace("\\\\%", "%").replace("\\%", "%").replace("\\&", "&")
  text = text.replace("\\{", "⦃").replace("\\}", "⦄").replace("\\|", "|")
  text = text.replace("\\\\", "\0")  # protects the line ends of a matrix
  text = _SPACES.sub("", text.replace("\\ ", " "))
  text = _REALS.sub(REALS, _SIZED_FRACTION.sub(r"\\frac", text))
  text = _QUOTIENT.sub("/", _TEXT.sub(_word, _DEGREE.sub("°", text)))
  text = _NAMED.sub(lambda match: match[1] or "", text)
  text = _EXPONENTIAL.sub(lambda match: f"e^{{{match[1] or match[2]}}}", text)
  text = _COMMAND.sub(lambda match: _COMMANDS.get(match[1], match[0]), text)
  text = _CONJUNCTION.sub(lambda match: OR if match[1] == "or" else AND, text)
  text = re.sub(rf",\s*([{AND}{OR}])", r"\1", text)  # 3, 5, and 7
  text = _ROOT.sub(lambda match: f"\\sqrt{{{match[1] or match[2]}}}", text)
  text = _BARE_ROOT.sub(r"\\sqrt{\1}", _BARE_NUMERATOR.sub(r"\\frac{\1}", text))
  text = _BARE_DENOMINATOR.sub(r"\1{\2}", text).replace("\0", "\\\\")
  text = _SINGLE_SCRIPT.sub(r"\1\2", text)
  return text.strip().rstrip(" \\").removesuffix(".").strip(" *")


def _word(match: re.Match[str]) -> str:
  """Returns the replacement of one `\\text{word}`."""
  word = " ".join(match[1].split()).strip(".")
  if word in ("or", "and", ""):
    return f" {word} "
  # Units such as m and g, and capital letters, stay words.
  if len(word) == 1 and word not in "mgshlL" and not word.isupper():
    return f" {word} "  # a variable
  return f"\\{word} " if _FUNCTION.fullmatch(word) else f" ⟦{word}⟧ "
