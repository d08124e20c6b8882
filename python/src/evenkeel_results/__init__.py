"""Reads the JSON documents that evenkeel writes: probes, comparisons, soaks, studies, replays and states of volumes.

>>> import evenkeel_results
>>> probe = evenkeel_results.load("probe.json")          # doctest: +SKIP
>>> [(row["buffer_bytes"], row["latency_s_p99"]) for row in probe.rows("points")]  # doctest: +SKIP

Times are seconds, sizes bytes, rates bytes per second; each name ends in its unit. What could not be had is ``None``.
"""

from .documents import Document, load, loads
from .errors import ResultsError, UnknownTable, UnknownVersion
from .tables import DOCUMENTS, Row

__all__ = ["DOCUMENTS", "Document", "ResultsError", "Row", "UnknownTable", "UnknownVersion", "load", "loads"]
