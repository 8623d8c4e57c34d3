"""Training runs: facts, curves with axes and units, and values that are not finite."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.programs import NASTY
from report.reading import Reader, require_sound

from torchlean import optim, report
from torchlean.errors import DataError, SerializationError
from torchlean.report.chart import BINS, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, chart_data, chart_svg, linear, scales
from torchlean.report.view import Chart, Curve
from torchlean.runtime.config import RunConfig
from torchlean.train import Trainer, TrainResult
from torchlean.train.examples import quickstart_data, quickstart_model


def trainer(execution: str) -> Trainer:
    return Trainer(quickstart_model(), "mse", optim.Adam(0.03), RunConfig(execution=execution))


@pytest.fixture(scope="module")
def trained() -> TrainResult:
    return trainer("lowered").train(quickstart_data(), steps=20)


def chart_of(*points: tuple[float, float], joined: bool = True) -> Chart:
    return Chart(title="Loss", x_axis="update", y_axis="loss (mse)", curves=(Curve("a", joined, points),))


def test_a_run_shows_its_loss_its_facts_and_its_programs(trained: TrainResult) -> None:
    read = require_sound(report.html(trained))
    text = " ".join(read.texts)
    for said in ("Sequential(Linear(inputs=2, outputs=8)", "quickstart grid, 25 samples", "loss (mse)", "update"):
        assert said in text
    assert f"{trained.loss_after:.6g}" in text
    chart = read.data["charts"][0]
    assert chart["names"] == ["samples of the update", "mean over the data set"]
    first = [point[3:] for point in chart["points"] if point[2] == 0]
    assert first == [[str(at + 1), f"{loss:.6g}"] for at, loss in enumerate(trained.losses)]
    ends = [point[3:] for point in chart["points"] if point[2] == 1]
    assert ends == [["0", f"{trained.loss_before:.6g}"], ["20", f"{trained.loss_after:.6g}"]]
    titles = {read.data["strings"][sheet["title"]] for sheet in read.data["sheets"]}
    assert {"step", "sample_losses"} <= titles


def test_a_resumed_run_counts_on(trained: TrainResult, tmp_path: Path) -> None:
    saved = tmp_path / "state.safetensors"
    trainer("lowered").train(quickstart_data(), steps=3, save_to=saved)
    resumed = trainer("lowered").train(quickstart_data(), steps=2, resume_from=saved)
    points = Reader(report.html(resumed)).data["charts"][0]["points"]
    assert [point[3] for point in points if point[2] == 0] == ["4", "5"]


def test_an_eager_run_has_curves_and_no_graph() -> None:
    read = require_sound(report.html(trainer("eager").train(quickstart_data(), steps=3)))
    assert (len(read.data["charts"]), read.data["sheets"]) == (1, [])


def test_a_session_shows_its_facts_and_programs() -> None:
    session = trainer("lowered").open()
    data = quickstart_data()
    session.step(data.inputs[0], data.targets[0])
    read = require_sound(report.html(session))
    assert "learning rate of the next" in read.texts
    assert read.data["strings"][read.data["sheets"][0]["title"]] == "step"
    assert read.data["charts"] == []


def test_a_record_alone_has_a_page(trained: TrainResult, tmp_path: Path) -> None:
    path = trained.save_record(tmp_path / "run.json")
    record = report.read(path)
    assert require_sound(report.html(record)).data["sheets"] == []
    record["result"]["curve"] = [
        {"steps": 10, "loss": 0.5, "test_accuracy": 0.25},
        {"steps": 20, "loss": "nan", "test_accuracy": 0.5},
    ]
    charts = Reader(report.html(record)).data["charts"]
    assert [chart["names"] for chart in charts] == [["loss"], ["test accuracy"]]
    assert [point[3:] for point in charts[1]["points"]] == [["10", "0.25"], ["20", "0.5"]]
    assert "test accuracy (fraction)" in report.html(record)


def test_hostile_records_stay_text() -> None:
    record: dict[str, Any] = {
        "format": "torchlean.provenance/1",
        "model": NASTY,
        "objective": NASTY,
        "data": {"name": NASTY, "samples": 10**400, "sha256": ["x"]},
        "capsules": {NASTY: [{"capsule": NASTY, "trust": None}, 3], "forward": "x"},
        "code": {"package": NASTY, "commit": NASTY},
        "libraries": {NASTY: NASTY},
        "result": {
            NASTY: 1,
            "curve": [{"steps": 0, NASTY: 10**400, "b": "inf", "c": []}, {"steps": 1e300, NASTY: 1, "b": 2}],
            "other": [{"steps": 1, NASTY: 1.5, "b": "-inf"}, {"steps": 3, NASTY: 10**400, "b": 2}],
        },
    }
    read = require_sound(report.html(record))
    assert (read.tags["script"], "img" in read.tags) == (2, False)
    assert len(read.data["charts"]) == 2


def test_files_that_hold_neither_graph_nor_record(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(DataError, match=r"cannot read .*x\.json"):
        report.read(path)
    path.write_text('{"torchlean.provenance/1": ')
    with pytest.raises(DataError, match=r"x\.json' is not JSON"):
        report.read(path)
    path.write_text(json.dumps({"format": "other", "note": "torchlean.provenance/1"}))
    with pytest.raises(SerializationError, match="not a torchlean graph"):
        report.read(path)


def test_a_large_fall_is_shown_on_a_logarithmic_axis() -> None:
    found = scales(chart_of((0, 1.0), (1, 0.001)))
    assert found is not None
    assert (found[1].log, found[1].ticks) == (True, (0.001, 0.01, 0.1, 1.0))
    assert "loss (mse), logarithmic" in chart_svg(chart_of((0, 1.0), (1, 0.001)), 0)
    found = scales(chart_of((0, 1.0), (1, 0.5)))
    assert found is not None
    assert not found[1].log


def test_ticks_are_round_and_enclose_the_values() -> None:
    assert linear([0.0, 20.0], 7).ticks == (0, 5, 10, 15, 20)
    assert linear([3.0, 3.0], 5).low < 3 < linear([3.0, 3.0], 5).high
    assert linear([0.0, 0.0], 5).ticks[0] < 0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_any_values_make_a_chart_inside_its_frame(values: list[float]) -> None:
    chart = chart_of(*[(float(at), value) for at, value in enumerate(values)])
    read = Reader(chart_svg(chart, 0))
    assert read.faults == []
    found = chart_data(chart)
    if found is None:
        assert "nothing to draw" in " ".join(read.texts)
        return
    for x, y, *_ in found["points"]:
        assert LEFT <= x <= WIDTH - RIGHT
        assert TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1


def test_values_that_are_not_finite_are_marked_and_break_the_line() -> None:
    made = chart_svg(chart_of((0, 1.0), (1, math.nan), (2, math.inf), (3, 2.0), (4, 3.0)), 0)
    assert made.count('class="broken"') == 2
    assert "<title>nan</title>" in made
    assert made.count("M74.0") >= 1
    line = next(part for part in made.split("\n") if part.startswith('<path class="line'))
    assert line.count("M") == 2
    assert "no value is finite" in chart_svg(chart_of((0, math.nan)), 0)


def test_many_points_are_thinned_without_losing_an_extreme() -> None:
    values = np.random.default_rng(5).uniform(1, 2, 50_000)
    values[31_234] = 1.99e1
    chart = chart_of(*[(float(at), float(value)) for at, value in enumerate(values)])
    found = chart_data(chart)
    assert found is not None
    assert len(found["points"]) <= 2 * BINS
    assert "19.9" in [point[4] for point in found["points"]]
    assert "50000 points, lowest and highest of each 84" in chart_svg(chart, 0)
    assert len(chart_svg(chart, 0)) < 60_000
