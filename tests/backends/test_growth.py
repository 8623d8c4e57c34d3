"""Every stage grows linearly with the size of the program; `benchmarks/growth.py` measures the same to 10⁵ ops."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "growth.py"
SMALL, LARGE = 400, 4000
MARGIN = 3.0  # between 1 for linear and 10 for quadratic growth, on machines that others use too


@pytest.fixture(scope="module")
def growth() -> ModuleType:
    if not FILE.is_file():
        pytest.skip("the benchmarks are not here")
    sys.path.insert(0, str(FILE.parent))
    try:
        spec = importlib.util.spec_from_file_location("growth", FILE)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(FILE.parent))
    return made


def test_ten_times_the_ops_take_about_ten_times_as_long(growth: ModuleType) -> None:
    small, large = growth.stages(SMALL, 3), growth.stages(LARGE, 2)
    assert set(growth.STAGES) - set(small) <= {"write C"}  # where there is no compiler
    for stage in small:
        assert large[stage] <= MARGIN * LARGE / SMALL * small[stage], stage


def test_the_plot_is_a_drawing_of_every_stage(growth: ModuleType) -> None:
    table = {size: dict.fromkeys(growth.STAGES, size * 1e-6) for size in (10, 100, 1000)}
    drawing = ElementTree.fromstring(growth.drawn(table))
    lines = [each for each in drawing.iter() if each.tag.endswith("polyline")]
    assert len(lines) == len(growth.STAGES)
    assert {len(line.attrib["points"].split()) for line in lines} == {3}
    for powers in (growth.exponents(table), growth.fitted(table)):
        assert set(powers) == set(growth.STAGES)
        assert all([abs(power - 1) < 1e-9 for power in powers.values()])
    assert [each.text for each in drawing.iter() if each.text and each.text.startswith("trace")] == ["trace: n^1.00"]


def test_a_stage_that_grows_as_the_square_is_seen(growth: ModuleType) -> None:
    table = {size: {"trace": size**2 * 1e-9, "grad": size * 1e-6} for size in (10, 100, 1000)}
    assert growth.fitted(table) == pytest.approx({"trace": 2, "grad": 1})
    assert "2.00" in growth.printed(table).splitlines()[-2]
