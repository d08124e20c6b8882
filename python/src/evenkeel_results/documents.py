"""Documents: read, checked, and given as what they hold or as rows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from .errors import ResultsError, UnknownTable, UnknownVersion
from .tables import DOCUMENTS, Row

if TYPE_CHECKING:
    import pandas

_PREFIX = "evenkeel."


@dataclass(frozen=True)
class Document:
    """A document that evenkeel wrote."""

    #: ``probe``, ``compare``, ``soak`` and so on: a key of :data:`evenkeel_results.DOCUMENTS`.
    kind: str
    #: The version of its schema.
    version: int
    #: All of it, as it was written.
    data: Dict[str, Any]
    #: Where it was read from, for messages.
    source: str

    def __getitem__(self, name: str) -> Any:
        """A field of the document, by its name."""
        return self.data[name]

    @property
    def tables(self) -> List[str]:
        """The names of its tables, the main one first."""
        return list(DOCUMENTS[self.kind].tables)

    def rows(self, table: Optional[str] = None) -> List[Row]:
        """The rows of a table, of the main one unless named; each a flat ``dict``.

        :raises UnknownTable: documents of this kind have no such table.
        :raises ResultsError: the document is not what its schema says.
        """
        tables = DOCUMENTS[self.kind].tables
        name = self.tables[0] if table is None else table
        if name not in tables:
            what = f"a {self.kind} has no table {name!r}, but {', '.join(tables)}"
            raise UnknownTable(self.source, what)
        try:
            return list(tables[name](self.data))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"its {name} are not as evenkeel.{self.kind}/{self.version} has them ({type(error).__name__}: {error})"
            raise ResultsError(self.source, what) from error

    def to_frame(self, table: Optional[str] = None) -> "pandas.DataFrame":
        """The same as a ``pandas.DataFrame``.

        :raises ImportError: pandas is not installed.
        """
        rows = self.rows(table)
        try:
            import pandas
        except ImportError as error:
            what = "to_frame needs pandas (pip install 'evenkeel-results[pandas]'); rows() does without"
            raise ImportError(what) from error
        return pandas.DataFrame.from_records(rows)


def load(path: Union[str, "os.PathLike[str]"]) -> Document:
    """Reads the document in a file.

    :raises ResultsError: the file cannot be read, or is no document of a version that this package reads.
    """
    source = os.fspath(path)
    try:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ResultsError(source, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ResultsError(source, "not a document of evenkeel: it is no text in UTF-8") from error
    return loads(text, source)


def loads(text: str, source: str = "<text>") -> Document:
    """As :func:`load`, of a text, as of what ``evenkeel status --json`` prints; ``source`` is what messages call it.

    :raises ResultsError: the text is no document of a version that this package reads.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultsError(source, f"not a document of evenkeel: it is no JSON ({error})") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str):
        raise ResultsError(source, "not a document of evenkeel: it names no schema")
    kind, separator, digits = schema[len(_PREFIX) :].partition("/")
    if not schema.startswith(_PREFIX) or not separator or kind not in DOCUMENTS:
        known = ", ".join(DOCUMENTS)
        raise ResultsError(source, f"its schema is {schema!r}; what is read is evenkeel.KIND/VERSION of {known}")
    wanted = DOCUMENTS[kind].version
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise UnknownVersion(source, f"its schema is {schema!r}, of which the version is no number")
    version = int(digits)
    if version > wanted:
        what = f"{schema} is newer than evenkeel.{kind}/{wanted}, which is read; get a newer evenkeel-results"
        raise UnknownVersion(source, what)
    if version < wanted:
        what = f"{schema} is older than evenkeel.{kind}/{wanted}, which is read; write it again with a newer evenkeel"
        raise UnknownVersion(source, what)
    return Document(kind=kind, version=version, data=data, source=source)
