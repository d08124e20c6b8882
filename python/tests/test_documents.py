"""Documents that the program wrote: the folder EVENKEEL_DOCUMENTS holds them, for each kind some."""

import copy
import json
import os
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, List

from evenkeel_results import DOCUMENTS, Document, load

try:
    import jsonschema
except ImportError:
    jsonschema = None

try:
    import pandas
except ImportError:
    pandas = None

FOLDER = os.environ.get("EVENKEEL_DOCUMENTS")
SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def documents() -> List[Document]:
    return [load(path) for path in sorted(Path(FOLDER or "").glob("*.json"))]


def objects(schema: Any) -> Iterator[Dict[str, Any]]:
    """Every part of a schema that is about an object with known fields."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and schema.get("type") != "string":
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


def strict(schema: Dict[str, Any]) -> Dict[str, Any]:
    """The schema without room for fields that it does not name."""
    schema = copy.deepcopy(schema)
    for part in objects(schema):
        part.setdefault("additionalProperties", False)
    return schema


@unittest.skipUnless(FOLDER, "EVENKEEL_DOCUMENTS names no folder")
class Documents(unittest.TestCase):
    def test_there_is_one_of_each_kind_and_a_schema(self) -> None:
        self.assertEqual({document.kind for document in documents()}, set(DOCUMENTS))
        kept = {path.stem: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
        self.assertEqual(set(kept), set(DOCUMENTS))
        for kind, schema in kept.items():
            self.assertEqual(schema["properties"]["schema"]["const"], f"evenkeel.{kind}/{DOCUMENTS[kind].version}")

    def test_rows_are_flat_and_of_one_shape(self) -> None:
        filled = set()
        for document in documents():
            for table in document.tables:
                with self.subTest(document.source, table=table):
                    rows = document.rows(table)
                    if rows:
                        filled.add((document.kind, table))
                    for row in rows:
                        self.assertFalse([name for name, value in row.items() if isinstance(value, dict)])
                        # An object that may be null has its columns only where it is there.
                        if table not in ("ratios", "devices", "order"):
                            self.assertEqual(row.keys(), rows[0].keys())
        for kind, (_, tables) in DOCUMENTS.items():
            self.assertTrue({table for of, table in filled if of == kind}, kind)
        for wanted in [("probe", "matrix"), ("probe", "runs"), ("pairs", "latencies"), ("check", "damaged"),
                       ("salvage", "ranges"), ("status", "devices"), ("study", "explained")]:  # fmt: skip
            self.assertIn(wanted, filled)

    def test_a_probe_s_rows_agree_with_each_other(self) -> None:
        probes = [document for document in documents() if document.kind == "probe"]
        for probe in probes:
            with self.subTest(probe.source):
                points = {row["buffer_bytes"]: row for row in probe.rows()}
                runs, latencies = probe.rows("runs"), probe.rows("latencies")
                for size, point in points.items():
                    counted = [run for run in runs if run["buffer_bytes"] == size and run["counted"]]
                    self.assertEqual(len(counted), point["runs"])
                    writes = [row["writes"] for row in latencies if row["buffer_bytes"] == size]
                    self.assertEqual(sum(writes), point["writes"])
                    low, high = point["latency_s_ci95_low"], point["latency_s_ci95_high"]
                    if low is not None:
                        self.assertTrue(low <= point["latency_s_mean"] <= high)

    @unittest.skipUnless(jsonschema, "no jsonschema")
    def test_documents_are_as_their_schemas_say_and_have_no_other_fields(self) -> None:
        for document in documents():
            with self.subTest(document.source):
                schema = strict(json.loads((SCHEMAS / f"{document.kind}.json").read_text()))
                jsonschema.Draft202012Validator.check_schema(schema)
                errors = list(jsonschema.Draft202012Validator(schema).iter_errors(document.data))
                self.assertEqual([f"{error.json_path}: {error.message[:200]}" for error in errors[:5]], [])

    @unittest.skipUnless(jsonschema, "no jsonschema")
    def test_a_field_that_the_schema_lacks_or_that_lacks_is_found(self) -> None:
        for document in documents():
            with self.subTest(document.source):
                schema = strict(json.loads((SCHEMAS / f"{document.kind}.json").read_text()))
                validator = jsonschema.Draft202012Validator(schema)
                self.assertFalse(validator.is_valid({**document.data, "new_field": 1}))
                some = next(name for name in document.data if name != "mirror")
                self.assertFalse(validator.is_valid({k: v for k, v in document.data.items() if k != some}))

    @unittest.skipUnless(pandas, "no pandas")
    def test_frames_hold_the_rows(self) -> None:
        for document in documents():
            for table in document.tables:
                with self.subTest(document.source, table=table):
                    rows, frame = document.rows(table), document.to_frame(table)
                    self.assertEqual(len(frame), len(rows))
                    self.assertEqual(set(frame.columns), {name for row in rows for name in row})
                    for name in frame.columns:
                        for row, value in zip(rows, frame[name]):
                            known = row.get(name)
                            if isinstance(known, (int, float, str)):
                                self.assertEqual(value, known)
                            elif known is None:
                                self.assertTrue(pandas.isna(value), name)
            self.assertEqual(len(document.to_frame()), len(document.rows()))

    @unittest.skipUnless(pandas, "no pandas")
    def test_frames_are_of_numbers_where_the_rows_are(self) -> None:
        for document in documents():
            if document.kind == "probe" and document.rows("runs"):
                runs = document.to_frame("runs")
                self.assertTrue(pandas.api.types.is_numeric_dtype(runs["latency_s"]))
                typical = runs[runs["counted"]].groupby("buffer_bytes")["latency_s"].median()
                self.assertEqual(set(typical.index), set(runs["buffer_bytes"]))

    @unittest.skipIf(pandas, "pandas is there")
    def test_without_pandas_it_is_said_what_to_install(self) -> None:
        with self.assertRaisesRegex(ImportError, "pip install"):
            documents()[0].to_frame()


if __name__ == "__main__":
    unittest.main()
