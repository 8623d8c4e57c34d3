"""The HTML file: complete in itself, the same every time, and saying what the plan says."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from report.programs import ADDRESS, NAME, NASTY, control, hostile, large, mlp, mlp_arguments, small
from report.reading import NAMESPACES, Reader, require_sound

import torchlean as tl
from torchlean import report
from torchlean.backends import profiles
from torchlean.backends.accept import accept
from torchlean.backends.capsule import Bitwise, Normwise, Relative, Ulp, Unstated
from torchlean.backends.planner import plan
from torchlean.backends.vocabulary import Claim, Reduction
from torchlean.errors import DataError
from torchlean.evidence.standing import Standing, State
from torchlean.ir import serialize
from torchlean.report.escape import visible
from torchlean.report.export import SMALL
from torchlean.report.sheets import bound_text, facts


@pytest.fixture(scope="module")
def page() -> str:
    return report.html(small())


def test_the_page_is_complete_in_itself(page: str) -> None:
    read = require_sound(page)
    assert (read.tags["svg"], read.tags["h1"], read.tags["script"], read.tags["style"]) >= (2, 1, 2, 1)
    assert page.startswith("<!doctype html>\n<html lang=")
    addresses = set(re.findall(r"[a-z]+://[^\s\"'<>]*", page))
    assert addresses == NAMESPACES


def test_only_this_script_and_this_style_may_run(page: str) -> None:
    read = Reader(page)
    policy = next(v for tag, name, v in read.attributes if tag == "meta" and name == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'; ")
    for text, source in ((read.scripts[1], "script-src"), (read.styles[0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_same_program_gives_the_same_bytes(page: str) -> None:
    lowered = small()
    assert report.html(lowered) == report.html(lowered)
    assert re.sub(r"programs\.py:\d+", "", report.html(lowered)) == re.sub(r"programs\.py:\d+", "", page)


def test_every_node_is_there_with_what_is_known_of_it() -> None:
    lowered = small()
    read = Reader(report.html(lowered))
    strings, boxes = read.data["strings"], read.data["sheets"][0]["boxes"]
    steps = [box for box in boxes if box[10] >= 0]
    assert len(steps) == len(lowered.plan.steps) == 24
    for box, step in zip(steps, lowered.plan.steps, strict=True):
        capsule = read.data["capsules"][box[10]]
        assert strings[box[1]] == step.node.op.name
        assert tuple(box[2]) == step.node.outputs
        assert strings[box[7]] == str(step.node.where)
        assert "programs.py:" in strings[box[7]]
        assert strings[box[8]].startswith(("hidden = tl.ops.tanh", "return tl.ops.softmax"))
        assert capsule["name"] == step.capsule.name
        assert dict(capsule["facts"])["trust"] == str(step.capsule.trust)
        assert dict(capsule["facts"])["reduction order"] == str(step.capsule.numerics.reduction)
        standings = lowered.plan.evidence(step)
        for obligation, claim, evidence, stands in capsule["contracts"]:
            contract = getattr(step.capsule, obligation)
            assert evidence == str(contract.evidence)
            assert stands == str(standings.get(obligation, ""))
            assert claim
        costs = {strings[name]: strings[value] for name, value in box[14]}
        assert set(costs) == {"operations", "bytes read", "bytes written", "bytes held at most"}
    labels = [strings[box[4]] for box in boxes if strings[box[0]] == "input"]
    assert labels == ["args[0]['b1']", "args[0]['b2']", "args[0]['w1']", "args[0]['w2']", "args[1]"]
    assert [strings[box[4]] for box in boxes if strings[box[0]] == "result"] == ["result"]


def test_evidence_is_told_with_its_least_state() -> None:
    capsule = next(step.capsule for step in small().plan.steps if step.capsule.name == "numpy.tanh")
    stale = Standing(State.STALE, "torchlean/x.py changed", None)
    told = facts(capsule, 3, {"value": stale, "vjp": Standing(State.FRESH, "", None)})
    assert (told.evidence, told.nodes) == ("stale", 3)
    assert [contract[3] for contract in told.contracts] == ["", "", "stale: torchlean/x.py changed", "fresh"]
    assert facts(capsule, 1, {}).evidence == "no record"
    guarded = dataclasses.replace(
        capsule,
        value=tl.guarded(Claim.VALUE, "checks"),
        vjp=tl.vjp_unavailable("no reason"),
        vjp_mode=tl.VjpMode.NONE,
    )
    assert facts(guarded, 1, {}).evidence == "nothing is tested"


def test_every_bound_has_words() -> None:
    bounds = (Bitwise(), Ulp(2), Relative(1.5), Normwise(3), Unstated())
    said = [bound_text(bound) for bound in bounds]
    assert len(set(said)) == 5
    assert (said[1], "1.5 · ε" in said[2], "3 · ε" in said[3]) == ("within 2 ulp of the definition", True, True)


def test_sections_say_what_the_plan_says(page: str) -> None:
    lowered = small()
    text = " ".join(Reader(page).texts)
    for kernel in lowered.audit.kernels:
        assert kernel.capsule in text
        assert kernel.obligations[2].text in text
    assert "softmax" in text
    assert "no capsule implements it" in text
    assert "def run(" in text
    assert "profile numpy_cpu" in text
    assert "Worked out from the types, before anything runs" in text


def test_refusals_are_told_at_the_node_and_in_a_table() -> None:
    lowered = tl.lower(mlp, *mlp_arguments(), profile=profiles.numpy_cpu.requiring(Reduction.FIXED_LEFT))
    refused = {refusal.text for step in lowered.plan.steps for refusal in step.refused}
    assert refused
    read = Reader(report.html(lowered))
    at_nodes = {read.data["strings"][at] for box in read.data["sheets"][0]["boxes"] for at in box[12]}
    assert at_nodes == refused
    assert all([text in read.texts for text in refused])


def test_graphs_inside_nodes_are_sheets_of_their_own() -> None:
    lowered = control()
    read = require_sound(report.html(lowered))
    strings, sheets = read.data["strings"], read.data["sheets"]
    places = [strings[sheet["place"]] for sheet in sheets]
    assert any([re.fullmatch(r"body of scan %\d+,%\d+(,%\d+)*", place) for place in places])
    assert any([re.fullmatch(r"branches\[1\] of cond %\d+(,%\d+)*", place) for place in places])
    held = [inner for box in sheets[0]["boxes"] for inner in box[13]]
    assert held
    for name, number in held:
        assert strings[name] in ("body", "branches[0]", "branches[1]", "meaning")
        assert sheets[number]["parent"] == 0
        assert sheets[number]["planned"]
    assert "as traced" in places


def test_equal_bodies_are_one_sheet() -> None:
    def twice(x: object) -> object:
        return tl.ops.softmax(tl.ops.softmax(x))

    graph = tl.make_graph(twice)(np.ones(3, np.float32))
    read = Reader(report.html(graph))
    assert len(read.data["sheets"]) == 2
    assert [box[13][0][1] for box in read.data["sheets"][0]["boxes"] if box[13]] == [1, 1]


def test_hostile_names_stay_text() -> None:
    lowered = hostile()
    page = report.html(lowered)
    read = require_sound(page)
    assert (read.tags["script"], "img" in read.tags) == (2, False)
    assert not set(page) & set("\x1b\x00\u202e\u2066")
    assert ADDRESS not in " ".join([value for _, name, value in read.attributes if name in ("href", "src")])
    shown = " ".join(read.texts)
    assert visible(NAME) in shown
    assert visible(f"op{NASTY}") in shown
    assert visible(f"key{NASTY}") in shown.replace("\\\\", "\\") or "key" in shown
    page.encode("utf-8")


@pytest.mark.parametrize("form", [report.svg, report.fragment])
def test_hostile_names_stay_text_in_drawings(form: object) -> None:
    made = form(hostile())  # type: ignore[operator]
    read = Reader(made)
    assert read.faults == []
    assert not {"script", "img"} & set(read.tags)
    assert not set(made) & set("\x1b\x00\u202e\u2066")


def test_lines_of_graphs_from_files_are_never_opened(tmp_path: Path) -> None:
    """A stranger's file may name any place; one whose code was traced here is shown."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the key is 1234\n")
    space: dict[str, object] = {"tl": tl}
    exec(compile("def f(x):\n    return tl.ops.exp(x)", str(secret), "exec"), space)
    secret.write_text("first\nthe key is 1234\n")
    graph = tl.make_graph(space["f"])(np.ones(3, np.float32))
    assert "the key is 1234" in report.html(graph)
    read = serialize.loads(serialize.dumps(graph))
    page = report.html(read)
    assert "the key is 1234" not in page
    assert "secret.txt:2 in f" in page


def test_graphs_plans_and_accepted_plans_have_pages_too() -> None:
    graph = tl.make_graph(mlp)(*mlp_arguments())
    planned = plan(graph, profiles.reference_cpu)
    kinds = {
        "torchlean graph": graph,
        "torchlean plan": planned,
        "torchlean accepted plan": accept(planned),
        "torchlean program": small().executable,
    }
    for kind, thing in kinds.items():
        read = require_sound(report.html(thing))
        assert kind in read.texts


def test_what_is_not_drawn_is_counted() -> None:
    graph = large(8)
    read = require_sound(report.html(graph, max_nodes=20))
    nodes = [box for box in read.data["sheets"][0]["boxes"] if read.data["strings"][box[0]] in ("node", "constant")]
    assert len(nodes) == 20
    assert f"{len(graph.nodes) - 20} more nodes are not drawn." in read.texts
    assert "more nodes are not drawn" not in report.html(graph)


def test_several_things_on_one_page() -> None:
    graph = tl.make_graph(mlp)(*mlp_arguments())
    read = require_sound(report.html(small(), graph, title="both"))
    assert "both" in read.texts
    assert "Contents: mlp" in read.texts


def test_an_empty_graph_has_a_page() -> None:
    identity = tl.make_graph(lambda x: x)(np.ones(3, np.float32))
    require_sound(report.html(identity))
    nothing = tl.make_graph(lambda: ())()
    require_sound(report.html(nothing))


def test_other_things_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        report.html(mlp)
    assert str(caught.value) == (
        "no report can be made of this\n"
        "  expected: a Graph, a Plan, a lowered function, a TrainResult, a TrainSession or a provenance record\n"
        "  got:      function\n"
        "  fix:      lower it first"
    )
    with pytest.raises(DataError, match="at least one thing and at most one training run"):
        report.html()


def test_a_lowered_function_writes_its_own_page(tmp_path: Path) -> None:
    lowered = small()
    target = tmp_path / "page.html"
    made = lowered.to_html(target)
    assert made == lowered.to_html() == report.html(lowered)
    assert target.read_text(encoding="utf-8") == made


def test_notebooks_get_the_drawing_of_a_small_program_and_the_text_of_a_large_one() -> None:
    lowered = small()
    made = lowered._repr_html_()
    read = Reader(made)
    assert (read.faults, read.tags["svg"], "script" in read.tags) == ([], 1, False)
    assert "Lowered mlp: 24 steps on numpy_cpu" in read.texts
    graph = large(8)
    assert len(graph.nodes) > SMALL
    assert "svg" not in Reader(report.fragment(graph)).tags


def test_a_page_of_two_thousand_nodes_is_made_quickly_and_is_not_large() -> None:
    graph = large(222)
    assert len(graph.nodes) >= 1990
    made = report.html(graph)
    assert len(made) < 4_000_000
    assert len(made) / len(graph.nodes) < 2000
    require_sound(made)
