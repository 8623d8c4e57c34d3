"""A training run, or the record of one, as facts, charts and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torchlean.report.escape import cut
from torchlean.report.view import Chart, Curve, Run, Table
from torchlean.train import TrainResult, TrainSession
from torchlean.train.describe import described
from torchlean.train.provenance import canonical_json

_NAMES = (
    ("model", "model"),
    ("parameter_count", "parameters"),
    ("objective", "objective"),
    ("optimizer", "optimizer"),
    ("steps", "updates"),
    ("seed", "seed"),
    ("scalar", "numbers"),
    ("arithmetic", "arithmetic"),
    ("device", "device"),
    ("profile", "profile"),
    ("execution", "execution"),
    ("python", "Python"),
    ("machine", "machine"),
    ("date", "date"),
)
_CAPSULE_COLUMNS = ("capsule", "trust", "vjp", "reduction")


def run_of_result(result: TrainResult) -> Run:
    """A finished run with the loss of every update."""
    record = result.record
    first = int(record["steps"]) - result.steps  # updates before, when the run was resumed
    each = Curve("samples of the update", True, tuple([(first + at + 1, y) for at, y in enumerate(result.losses)]))
    ends = [(first, result.loss_before), (first + result.steps, result.loss_after)]
    whole = Curve("mean over the data set", False, tuple([(x, y) for x, y in ends if y is not None]))
    chart = Chart(
        title="Loss",
        x_axis="update",
        y_axis=f"loss ({record['objective']})",
        curves=tuple([curve for curve in (each, whole) if curve.points]),
    )
    made = run_of_record(record)
    facts = (*made.facts, ("time", f"{result.seconds:.3g} s"))
    return Run(facts=facts, charts=(chart, *made.charts), tables=made.tables, record=made.record)


def run_of_record(record: Mapping[str, Any]) -> Run:
    """A provenance record, written by `TrainResult.save_record`, `torchlean digits --out` or `--json`."""
    facts = [(name, _text(record[key])) for key, name in _NAMES if record.get(key) is not None]
    data = record.get("data")
    if isinstance(data, Mapping):
        facts.append(("data", f"{_text(data.get('name'))}, {_text(data.get('samples'))} samples"))
        facts.append(("data SHA-256", cut(_text(data.get("sha256")), 17)))
    code = record.get("code")
    if isinstance(code, Mapping):
        commit = code.get("commit")
        edited = ", edited" if code.get("edited") else ""
        facts.append(
            (
                "code",
                f"torchlean {_text(code.get('package'))}" + (f", {cut(str(commit), 11)}{edited}" if commit else ""),
            )
        )
    libraries = record.get("libraries")
    if isinstance(libraries, Mapping):
        facts.append(("libraries", ", ".join([f"{key} {_text(held)}" for key, held in libraries.items() if held])))
    result = record.get("result")
    held: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
    plain = [(key.replace("_", " "), _text(value)) for key, value in held.items() if _is_plain(value)]
    charts = [chart for value in held.values() for chart in _charts(value, record)]
    return Run(
        facts=(*facts, *plain), charts=tuple(charts), tables=_capsules(record), record=canonical_json(dict(record))
    )


def run_of_session(session: TrainSession) -> Run:
    """A session between updates: it holds no history, so there are no curves."""
    task = session.task
    facts = (
        ("model", described(task.model)),
        ("objective", str(task.objective)),
        ("optimizer", described(task.optimizer)),
        ("updates", str(session.steps_done)),
        ("learning rate of the next", f"{session.learning_rate:g}"),
        ("seed", str(session.seed)),
        ("device", str(task.profile.device)),
        ("profile", task.profile.name),
        ("execution", session.execution.name),
    )
    report = session.execution.report.as_json()
    return Run(facts=facts, charts=(), tables=_capsules({"capsules": report}), record="")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def _text(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _charts(value: Any, record: Mapping[str, Any]) -> list[Chart]:
    """One chart per quantity of a list of entries that each have `steps`."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return []
    if not all([isinstance(entry, Mapping) and 0 <= (_number(entry.get("steps")) or 0.0) < 2**53 for entry in value]):
        return []
    made: list[Chart] = []
    for key in dict.fromkeys([key for entry in value for key in entry if key != "steps"]):
        points = [(float(entry.get("steps") or 0), _number(entry.get(key))) for entry in value]
        found = tuple([(x, y) for x, y in points if y is not None])
        if found:
            name = str(key).replace("_", " ")
            unit = f"({record.get('objective')})" if name == "loss" else "(fraction)" if "accuracy" in name else ""
            title = name[:1].upper() + name[1:]
            made.append(
                Chart(title=title, x_axis="update", y_axis=f"{name} {unit}".strip(), curves=(Curve(name, True, found),))
            )
    return made


def _number(value: Any) -> float | None:
    """Records hold NaN and infinities as strings."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**1000 or value != value else math.inf
    return float(value) if value in ("nan", "inf", "-inf") else None


def _capsules(record: Mapping[str, Any]) -> tuple[Table, ...]:
    found = record.get("capsules")
    held: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    rows = [
        (str(phase), *[_text(entry.get(column)) for column in _CAPSULE_COLUMNS])
        for phase, listed in held.items()
        if isinstance(listed, Sequence) and not isinstance(listed, str)
        for entry in listed
        if isinstance(entry, Mapping)
    ]
    if not rows:
        return ()
    table = Table(
        title="Capsules that ran",
        about="In order of first use. Forward: what the model and its loss selected; derivative: what only VJPs and "
        "parameter updates did.",
        head=("phase", *_CAPSULE_COLUMNS),
        rows=tuple(rows),
    )
    return (table,)
