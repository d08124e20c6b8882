"""What is no document is refused with the file's name and a reason."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from evenkeel_results import DOCUMENTS, ResultsError, UnknownTable, UnknownVersion, load, loads


class BadInput(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "some.json"

    def refused(self, content: bytes, *parts: str, error: type = ResultsError) -> None:
        self.path.write_bytes(content)
        with self.assertRaises(error) as caught:
            load(self.path)
        self.assertTrue(str(caught.exception).startswith(f"{self.path}: "), caught.exception)
        for part in parts:
            self.assertIn(part, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_what_cannot_be_read(self) -> None:
        with self.assertRaises(ResultsError) as caught:
            load(self.path)
        self.assertEqual(str(caught.exception), f"{self.path}: No such file or directory")
        with self.assertRaises(ResultsError):
            load(self.folder.name)

    def test_what_is_no_document(self) -> None:
        self.refused(b"", "no JSON")
        self.refused(b'{"schema": "evenkeel.probe/1"', "no JSON")
        self.refused(b"\xff\xfe", "UTF-8")
        self.refused(b"[" * 100_000, "no JSON")
        for content in (b"7", b"null", b"[]", b"{}", b'{"schema": 1}', b'{"schema": null}'):
            self.refused(content, "names no schema")
        for schema in ("evenkeel.probe", "evenkeel.nothing/1", "probe/1", "", "evenkeel./1"):
            self.refused(json.dumps({"schema": schema}).encode(), repr(schema), "compare, soak")

    def test_other_versions(self) -> None:
        self.refused(b'{"schema": "evenkeel.probe/2"}', "newer than evenkeel.probe/1", error=UnknownVersion)
        self.refused(b'{"schema": "evenkeel.compare/1"}', "older than evenkeel.compare/2", error=UnknownVersion)
        for digits in ("", "x", "-1", "1.0", "\u00b2", "9" * 5000):
            self.refused(json.dumps({"schema": f"evenkeel.probe/{digits}"}).encode(), "no number", error=UnknownVersion)

    def test_documents_that_are_not_as_their_schema_says(self) -> None:
        for kind, (version, tables) in DOCUMENTS.items():
            document = loads(json.dumps({"schema": f"evenkeel.{kind}/{version}"}), "empty.json")
            self.assertEqual(document.tables, list(tables))
            for table in set(tables) - {"devices"}:
                with self.assertRaises(ResultsError, msg=f"{kind}, {table}") as caught:
                    document.rows(table)
                self.assertIn(f"empty.json: its {table} are not as evenkeel.{kind}/{version}", str(caught.exception))
        odd = loads('{"schema": "evenkeel.probe/1", "points": [{"ratio_ci95": 7}], "matrix": 3}')
        for table in ("points", "runs", "matrix"):
            with self.assertRaises(ResultsError):
                odd.rows(table)

    def test_a_table_that_there_is_not(self) -> None:
        document = loads('{"schema": "evenkeel.soak/1"}', "soak.json")
        with self.assertRaises(UnknownTable) as caught:
            document.rows("points")
        self.assertEqual(
            str(caught.exception), "soak.json: a soak has no table 'points', but windows, stalls, latencies"
        )
        with self.assertRaises(KeyError):
            document["points"]

    def test_without_pandas(self) -> None:
        document = loads('{"schema": "evenkeel.soak/1", "windows": []}')
        with mock.patch.dict("sys.modules", {"pandas": None}), self.assertRaises(ImportError) as caught:
            document.to_frame()
        self.assertIn("rows() does without", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
