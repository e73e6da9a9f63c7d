"""Names from the config in running text: set apart by direction, and broken where they may be.

A name stands in sentences, beside numbers. The direction of a Hebrew or Arabic one would reach over
a comma to the number behind it; a sign that commands a direction would reach to the end of the
line. Set apart, either ends with its name, and no sign of the name is lost.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

LETTERS = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff"
# signs that embed, override or isolate, and the marks of a direction
COMMANDS = "\u200e\u200f\u202a-\u202e\u2066-\u2069"
# letters of one name, with the signs that stand inside names; a comma or slash parts two names
RUN = re.compile(f"[{LETTERS}{COMMANDS}](?:[ '\"_.-]*[{LETTERS}{COMMANDS}])*")
ISOLATE, END = "\u2068", "\u2069"
# A word that is longer than this may break behind `_`, `.` and `/`, else after so many letters.
LONG = 12
LONG_WORD = re.compile(rf"[^\s<>&;]{{{LONG + 1},}}")
BREAK = re.compile(rf"[_./](?=[^\W\d])|[A-Za-z0-9]{{{LONG}}}(?=[A-Za-z0-9])")


def isolated(text: str) -> str:
    """Plain text (of an SVG) with every right-to-left run between isolating signs."""
    return RUN.sub(lambda match: f"{ISOLATE}{match[0]}{END}", text)


def marked(text: object) -> Markup:
    """The same for HTML: escaped, runs in `<bdi>`. Text that is safe HTML already stays."""
    if isinstance(text, Markup):
        return text
    text, made, at = str(text), [], 0
    for match in RUN.finditer(text):
        made += [escape(text[at : match.start()]), Markup("<bdi>{}</bdi>").format(match[0])]
        at = match.end()
    return Markup("").join([*made, escape(text[at:])])


def breakable(text: object) -> Markup:
    """`marked` for narrow places: long words may break, as in torch_continuous behind the `_`."""
    return Markup(LONG_WORD.sub(lambda word: BREAK.sub(r"\g<0><wbr>", word[0]), marked(text)))
