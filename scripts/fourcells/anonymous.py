"""Takes names of machines and of people, and absolute paths, out of what is published.

What was the same stays the same and what differed still differs: `host A`, `session 1`, `boot 1`
and `path 1` each stand for one thing. The commit stays, and whether it was changed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

# Everybody's, so nobody's name, and the words that stand for names.
EVERYBODY = ("root", "localhost", "host", "session", "boot", "path", "user")
# Folders that are the same on every machine.
SYSTEM = ("/proc/", "/sys/", "/dev/")
# Keys of a spec's model whose value may be a folder, and so hold spaces.
FOLDERS = ("path", "weights")
# Two parts at least: "</i>" in a name is no path. Nor is what follows "https:/" or "tok".
_PART = r"/[^\s/'\"<>|;:,()\[\]{}\\]+"
_PATH = rf"(?:(?<=file://)|(?<![\w/.~])){_PART}(?:{_PART})+/?(?<!\.)"
_PATHS = re.compile(_PATH)
_HOME = re.compile(r"/(?:home|Users)/([^\s/'\"]+)")


@dataclass(frozen=True)
class Machine:
    """The machine that publishes: it may be none of those that measured."""

    hosts: Sequence[str] = ()
    users: Sequence[str] = ()
    folders: Sequence[str] = ()


@dataclass(frozen=True)
class Names:
    """What stands for each name: `provenance` by key and value; anywhere in a text `words`, and
    `people`, hosts and users, whose names in lower case may be written as they like."""

    provenance: Mapping[str, Mapping[str, str]]
    words: Mapping[str, str]
    people: Mapping[str, str]
    pattern: re.Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        paths = _any_of(word for word in self.words if word.startswith("/"))
        others = _any_of(word for word in self.words if not word.startswith("/"))
        people = f"(?i:{_any_of(self.people)})"
        pattern = (
            rf"(?<![\w/.~])(?:{paths})(?![\w/-])|{_PATH}"
            f"|(?<![A-Za-z0-9])(?:{others}|{people})(?![A-Za-z0-9])"
        )
        object.__setattr__(self, "pattern", re.compile(pattern))


def _any_of(words: Iterable[str]) -> str:
    """The longest first: a session begins with its host. Of no words: what never matches."""
    return "|".join(map(re.escape, sorted(words, key=lambda w: (-len(w), w)))) or r"(?!)"


def gather(
    metadata: Sequence[Mapping], documents: Iterable[Any], here: Machine, kept: Iterable[str] = ()
) -> Names:
    """The names to take out.

    Args:
        metadata: of every file that is published.
        documents: JSON-like values that are published beside them.
        here: the machine that publishes.
        kept: words of the product (engines, workloads, ...): a machine of that name is taken out
            of the provenance, but not out of the texts, where the word means the product's.
    """
    metadata, documents = list(metadata), list(documents)
    texts = sorted({text for document in (*metadata, *documents) for text in texts_in(document)})
    origins = [meta.get("provenance") or {} for meta in metadata]
    origins.sort(key=lambda origin: (origin.get("started") is None, str(origin.get("started"))))

    def numbered(key: str, number: Callable[[int], str], more: Sequence[str] = ()) -> dict:
        values = [value for origin in origins if (value := origin.get(key))]
        distinct = dict.fromkeys(map(str, [*values, *more]))
        return {value: f"{key} {number(place)}" for place, value in enumerate(distinct)}

    provenance = {
        "session": numbered("session", lambda place: str(place + 1)),
        "boot": numbered("boot", lambda place: str(place + 1)),
        "host": numbered("host", _letter, here.hosts),
    }
    folders = {v for doc in (*metadata, *documents) for v in _folders(doc) if v.startswith("/")}
    paths = folders | {path for text in texts if text not in folders for path in _paths(text)}
    known = [
        *sorted(paths),
        *(f for f in here.folders if f not in paths and f.startswith("/") and f != "/"),
    ]
    users = [*here.users, *(user for text in (*texts, *known) for user in _HOME.findall(text))]

    hosts = provenance["host"]
    people = dict.fromkeys(users, "user")
    people |= {host.partition(".")[0]: stand_in for host, stand_in in hosts.items()} | hosts
    spared = {word.casefold() for word in (*kept, *EVERYBODY)}
    words = {path: f"path {number}" for number, path in enumerate(known, start=1)}
    # HOST/BOOT/RUN, and the kernel's id; a plain word is none of them
    words |= {name: told for name, told in provenance["session"].items() if "/" in name}
    words |= {name: told for name, told in provenance["boot"].items() if "-" in name}
    return Names(
        provenance,
        words,
        {
            name.casefold(): stand_in
            for name, stand_in in people.items()
            # one letter or a number says nothing, and may mean anything
            if name.casefold() not in spared and not name.isdigit() and len(name) > 1
        },
    )


def clean(value: Any, names: Names) -> Any:
    """A JSON-like value without the names, in keys as in values; `value` itself stays as it is."""
    if isinstance(value, str):
        return names.pattern.sub(lambda match: _stand_in(match[0], names), value)
    if isinstance(value, Mapping):
        return {clean(key, names): clean(each, names) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(each, names) for each in value]
    return value


def clean_metadata(metadata: Mapping, names: Names) -> dict:
    """The metadata of a timing without the names. In its provenance a name is taken out whatever
    it is, and the folder of the Python that ran is left out."""
    cleaned = clean(metadata, names)
    origin = metadata.get("provenance")
    if isinstance(origin, Mapping):
        told = {k: v for k, v in cleaned["provenance"].items() if k != "executable"}
        for key, stand_ins in names.provenance.items():
            if origin.get(key):
                told[key] = stand_ins[str(origin[key])]
        cleaned["provenance"] = told
    return cleaned


def clean_table(table: pa.Table, names: Names) -> pa.Table:
    """The table without the names in its columns of text, and without the schema's metadata."""
    columns = [
        pa.array(clean(column.to_pylist(), names), column.type) if _holds_text(column) else column
        for column in table.columns
    ]
    heads = [clean(name, names) for name in table.column_names]
    return pa.table(dict(zip(heads, columns, strict=True)))


def text_columns(table: pa.Table) -> Iterator[str]:
    """The heads of a table and the texts in its columns."""
    yield from table.column_names
    for column in filter(_holds_text, table.columns):
        yield from texts_in(column.to_pylist())


def _holds_text(column: pa.ChunkedArray) -> bool:
    """Or might: a list or a struct does, too."""
    return not (pa.types.is_primitive(column.type) or pa.types.is_null(column.type))


def left_in(text: str, names: Names) -> list[str]:
    """The names that a text still holds."""
    found = (match[0] for match in names.pattern.finditer(text))
    return sorted({name for name in found if _stand_in(name, names) != name})


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON-like value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts_in(key)
            yield from texts_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


def _stand_in(found: str, names: Names) -> str:
    if found.startswith(SYSTEM):
        return found
    return names.words.get(found) or names.people.get(found.casefold(), "path")


def _paths(text: str) -> list[str]:
    """The absolute paths of a text; of a word that starts with a slash, the word."""
    alone = [text] if re.fullmatch(r"/[\w.-]\S*", text) else _PATHS.findall(text)
    return [path for path in alone if not path.startswith(SYSTEM)]


def _folders(value: Any) -> Iterator[str]:
    """Folders of models, wherever the value holds specs."""
    if isinstance(value, Mapping):
        model = value.get("model")
        if isinstance(model, Mapping):
            yield from (str(model[key]) for key in FOLDERS if model.get(key))
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _folders(each)


def _letter(place: int) -> str:
    letters = string.ascii_uppercase
    return letters[place] if place < len(letters) else str(place + 1)
