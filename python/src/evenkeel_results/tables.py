"""Which documents there are, and what of each becomes rows."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple

#: A row of a table: flat, by the names of columns.
Row = Dict[str, Any]

#: What gives the rows of a table.
Rows = Callable[[Mapping[str, Any]], Iterable[Row]]

_INTERVALS = ("ci95", "interval")


def flat(value: Mapping[str, Any], without: Iterable[str] = (), prefix: str = "") -> Row:
    """The entries of an object as one row: those of inner objects behind ``_``, intervals as ``_low`` and ``_high``."""
    row: Row = {}
    for name, inner in value.items():
        if name in without:
            continue
        column = prefix + name
        if name.endswith(_INTERVALS):
            low, high = inner if inner is not None else (None, None)
            row[column + "_low"], row[column + "_high"] = low, high
        elif isinstance(inner, Mapping):
            row.update(flat(inner, prefix=column + "_"))
        else:
            row[column] = inner
    return row


_LISTS = ("run_data", "latency_histogram")


def _points(probe: Mapping[str, Any]) -> Iterable[Row]:
    for point in probe["points"]:
        yield flat(point, without=_LISTS)


def _runs(probe: Mapping[str, Any]) -> Iterable[Row]:
    for point in probe["points"]:
        for run in point["run_data"]:
            yield {"buffer_bytes": point["buffer_bytes"], **flat(run)}


def _latencies(probe: Mapping[str, Any]) -> Iterable[Row]:
    for point in probe["points"]:
        # Documents of before there were histograms have none.
        for latency_s, writes in point.get("latency_histogram", []):
            yield {"buffer_bytes": point["buffer_bytes"], "latency_s": latency_s, "writes": writes}


def _matrix(probe: Mapping[str, Any]) -> Iterable[Row]:
    for cell in (probe["matrix"] or {"cells": []})["cells"]:
        for point in cell["points"]:
            asked = {"method_asked": cell["method"], "file_state": cell["file_state"]}
            yield {**asked, **flat(point, without=_LISTS)}


def _ratios(found: Mapping[str, Any]) -> Iterable[Row]:
    for comparison in found["comparisons"]:
        names = {"a": comparison["a"], "b": comparison["b"]}
        whole = flat({"throughput": comparison["throughout"]})
        yield {**names, "buffer_bytes": None, **whole}
        for point in comparison["points"]:
            yield {**names, **flat(point)}


def _of_probes(rows: Rows) -> Rows:
    def each(pairs: Mapping[str, Any]) -> Iterable[Row]:
        for name, probe in zip(pairs["names"], pairs["probes"]):
            for row in rows(probe):
                yield {"name": name, **row}

    return each


def _list(*path: str) -> Rows:
    """The list at a path of the document, an object a row."""

    def rows(document: Mapping[str, Any]) -> Iterable[Row]:
        found: Any = document
        for name in path:
            found = found[name]
        return [flat(entry) for entry in found]

    return rows


def _histogram(soak: Mapping[str, Any]) -> Iterable[Row]:
    for latency_s, writes in soak["histogram"]:
        yield {"latency_s": latency_s, "writes": writes}


def _counters(status: Mapping[str, Any]) -> Iterable[Row]:
    for name, value in status["counters"].items():
        yield {"counter": name, "value": value}


def _members(status: Mapping[str, Any]) -> Iterable[Row]:
    # What is no mirror has none.
    mirror = status.get("mirror") or {"members": [], "logs": []}
    for kind, name in (("member", "members"), ("log", "logs")):
        for device in mirror[name]:
            yield {"kind": kind, **flat(device)}


_SAMPLE = ("number", "uptime_s", "state", "buffer_share", "log_share", "dirty_share")
_RECENT = ("over_s", "commits_per_s", "writes_per_commit", "checkpoints_per_s", "log_bytes_per_s", "home_bytes_per_s")
_ACTIVITY = ("per_s", "errors_per_s", "bytes_per_s", "p50_s", "p99_s", "p999_s")


def _samples(history: Mapping[str, Any]) -> Iterable[Row]:
    for sample in history["samples"]:
        # Of the first sample there is nothing.
        recent = sample["recent"] or {}
        row = {name: sample[name] for name in _SAMPLE}
        row.update({name: recent.get(name) for name in _RECENT})
        for kind in ("reads", "writes", "syncs"):
            activity = recent.get(kind) or {}
            row.update({f"{kind}_{name}": activity.get(name) for name in _ACTIVITY})
        yield row


def _member_samples(history: Mapping[str, Any]) -> Iterable[Row]:
    for sample in history["samples"]:
        for place, member in enumerate(sample["members"]):
            yield {"number": sample["number"], "member": place, **flat(member)}


def _curves(gallery: Mapping[str, Any]) -> Iterable[Row]:
    for figure in gallery["figures"]:
        for chart in figure["charts"]:
            for series in chart["series"]:
                names = {"figure": figure["name"], "chart": chart["title"], "series": series["name"]}
                for x, y in series["points"]:
                    yield {**names, "x": x, "y": y, "x_unit": chart["x_unit"], "y_unit": chart["y_unit"]}


def _swept(tune: Mapping[str, Any]) -> Iterable[Row]:
    # Every setting was tried only where that was asked for.
    for tried in (tune["sweep"] or {"tried": []})["tried"]:
        yield flat(tried)


def _lateness(drive: Mapping[str, Any]) -> Iterable[Row]:
    yield {"model": drive["model"], **flat(drive["lateness_s"])}


class Kind(NamedTuple):
    """A kind of document."""

    #: The version that is read.
    version: int
    #: What becomes rows; the first table is the one that is meant unless another is named.
    tables: Dict[str, Rows]


_STUDY: List[str] = [
    "variation", "explained", "case_studies", "layouts", "bands", "window_ranges", "instantaneous", "latency_curves",
    "latency_ranges", "operation_correlations", "operations_beside_repeats", "steadiness", "outliers",
    "condition_correlations", "remedy_effects", "taken_by_others", "findings", "left_out",
]  # fmt: skip

#: Every kind of document by its name.
DOCUMENTS: Dict[str, Kind] = {
    "probe": Kind(
        1,
        {
            "points": _points,
            "runs": _runs,
            "latencies": _latencies,
            "matrix": _matrix,
            "warnings": _list("warnings"),
        },
    ),
    "pairs": Kind(
        1,
        {
            "ratios": lambda pairs: _ratios(pairs["comparison"]),
            "points": _of_probes(_points),
            "runs": _of_probes(_runs),
            "latencies": _of_probes(_latencies),
        },
    ),
    "compare": Kind(2, {"ratios": _ratios}),
    "soak": Kind(1, {"windows": _list("windows"), "stalls": _list("stalls"), "latencies": _histogram}),
    "study": Kind(2, {name: _list(name) for name in _STUDY}),
    "replay": Kind(1, {"windows": _list("windows", "list")}),
    "reproduce": Kind(1, {"claims": _list("claims"), "curves": _curves}),
    "status": Kind(
        1,
        {
            "counters": _counters,
            "requests": _list("requests"),
            "events": _list("events"),
            "reasons": _list("state", "reasons"),
            "devices": _members,
        },
    ),
    "history": Kind(1, {"samples": _samples, "members": _member_samples}),
    "check": Kind(1, {"damaged": _list("damaged", "pages"), "unchecked": _list("damaged", "unchecked")}),
    "drive": Kind(1, {"lateness": _lateness}),
    "salvage": Kind(1, {"ranges": _list("ranges"), "missing": _list("missing")}),
    "tune": Kind(1, {"batches": _list("batches"), "thresholds": _list("thresholds"), "sweep": _swept}),
}
