"""Serialisation: what is read back is the same graph, bit for bit, and nothing malformed is read."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir.programs import arguments, f32, programs
from ops.numeric_samples import NUMERIC, NUMERIC_OPS
from ops.samples import SAMPLED, SAMPLES, Sample, cases

from torchlean.errors import GraphError, SerializationError, TorchLeanError
from torchlean.ir import ops
from torchlean.ir.builder import bind, bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.ops.composite import call, composite
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.ops.gather import GATHER, Along, Mode
from torchlean.ir.serialize import content_hash, dumps, loads
from torchlean.ir.strict_json import canonical
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.api import make_graph
from torchlean.transforms.custom import custom_jvp

PROGRAMS = programs()


def bits(arrays: Any) -> list[Any]:
    """Type and bytes of each array: equal only when bit-equal."""
    return [(str(type_of_array(np.asarray(array))), np.asarray(array).tobytes()) for array in arrays]


def parts(graph: Graph) -> list[Any]:
    """Everything the graph says, with ids as they are."""
    return [graph.name, graph.inputs, graph.outputs, graph.types, [tuple(node[:4]) for node in graph.nodes]]


def require_round_trip(graph: Graph, operands: Any) -> Graph:
    text = dumps(graph)
    again = loads(text)
    assert content_hash(again) == content_hash(graph)
    assert dumps(again) == text
    assert [str(node.where) for node in again.nodes] == [str(node.where) for node in graph.nodes]
    assert bits(denote(again, operands)) == bits(denote(graph, operands))
    return again


# -- round trips -------------------------------------------------------------------------------------------------------
def sample_graph(sample: Sample) -> Graph:
    types = [type_of_array(array) for array in sample.arrays]
    return trace_flat(lambda *xs: bind(sample.op, sample.params, *xs), types).graph


@pytest.mark.parametrize("sample", cases(SAMPLES + NUMERIC, SAMPLED + NUMERIC_OPS))
def test_every_sample_of_every_op_comes_back(sample: Sample) -> None:
    graph = sample_graph(sample)
    again = require_round_trip(graph, sample.arrays)
    assert parts(again) == parts(graph)


def test_samples_and_programs_hold_every_primitive() -> None:
    held = {node.op for graph in PROGRAMS.values() for node in graph.nodes}
    assert set(ops.PRIMITIVES) - {sample.op for sample in SAMPLES + NUMERIC} - held == set()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_come_back(name: str) -> None:
    graph = PROGRAMS[name]
    require_round_trip(graph, arguments(graph))


def test_the_programs_hold_every_composite_and_gradient_composite() -> None:
    held = {node.op.name for graph in PROGRAMS.values() for node in graph.nodes}
    assert {op.name for op in ops.COMPOSITES} - held == set()
    assert {op.gradient.name for op in ops.COMPOSITES if op.gradient is not None} - held == set()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_special_floats_keep_their_bits(dtype: Any) -> None:
    width = np.dtype(dtype).itemsize
    words = np.array([0, 1, 1 << (8 * width - 1), (1 << (8 * width)) - 1], dtype=f"u{width}").view(dtype)
    quiet = np.array([np.inf, -np.inf, np.nan, -np.nan, np.finfo(dtype).max], dtype=dtype)
    array = np.concatenate([words, quiet])
    graph = trace_flat(
        lambda: [ops.constant(array), *[bind1(FULL, Fill.of((2,), _dtype(dtype), v)) for v in array]], []
    )
    again = require_round_trip(graph.graph, [])
    assert denote(again, [])[0].tobytes() == array.tobytes()
    assert parts(again) == parts(graph.graph)


def _dtype(carrier: Any) -> DType:
    return type_of_array(np.zeros((), dtype=carrier)).dtype


def test_big_endian_and_strided_arrays_hash_like_their_values() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    graphs = [
        trace_flat(lambda a=a: [ops.constant(a)], []).graph
        for a in (array, array.astype(">f4"), np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2])
    ]
    assert len({content_hash(graph) for graph in graphs}) == 1
    assert bits(denote(loads(dumps(graphs[1])), [])) == bits([array])


def test_zero_and_minus_zero_have_different_hashes() -> None:
    zero, minus = (trace_flat(lambda v=v: [ops.full((), v)], []).graph for v in (0.0, -0.0))
    assert content_hash(zero) != content_hash(minus)


def test_the_hash_ignores_ids_dead_values_and_locations() -> None:
    x = f32(3)
    plain = Graph(inputs=(0,), nodes=(_tanh(0, 1),), outputs=(1,), types=(x, x))
    gaps = Graph(inputs=(2,), nodes=(_tanh(2, 5)._replace(where=_here()),), outputs=(5,), types=(x,) * 7)
    assert content_hash(gaps) == content_hash(plain)
    assert loads(dumps(gaps)).types == plain.types


def _tanh(operand: int, result: int) -> Node:
    node = trace_flat(lambda v: [ops.tanh(v)], [f32(3)]).graph.nodes[0]
    return node._replace(inputs=(operand,), outputs=(result,))


def _here() -> Any:
    return trace_flat(lambda v: [ops.tanh(v)], [f32(3)]).graph.nodes[0].where


def test_the_format_is_pinned() -> None:
    """Another hash here means another format: raise VERSION, and keep reading the old one."""
    assert content_hash(PROGRAMS["identity"]) == IDENTITY_HASH
    assert canonical(json.loads(dumps(TINY))["graph"]) == TINY_TEXT


TINY = make_graph(lambda x, i: ops.take(x, i, axis=0) * 0.5)(f32(3), TensorType((2,), DType.I32))
IDENTITY_HASH = "12256ba2ba9649a6d3226be0633698f64e78cd40e8b1dcd1604af4b62a04e793"
TINY_TEXT = (
    '{"inputs":[["f32",[3]],["i32",[2]]],"name":"<lambda>","nodes":['
    '{"inputs":[0,1],"op":"gather","params":{"axis":0,"batch":0,"mode":{"enum":"FILL"}},"types":[["f32",[2]]]},'
    '{"inputs":[],"op":"full","params":{"bits":1056964608,"dtype":{"dtype":"f32"},"shape":[2]},"types":[["f32",[2]]]},'
    '{"inputs":[2,3],"op":"mul","params":{},"types":[["f32",[2]]]}],"outputs":[4]}'
)


def test_twenty_thousand_nodes() -> None:
    graph = make_graph(_chain)(f32(2))
    assert len(graph) == 20_000
    assert content_hash(loads(dumps(graph))) == content_hash(graph)


def _chain(x: Any) -> Any:
    for _ in range(10_000):
        x = ops.tanh(x) * x
    return x


def _halved(x: Any, *, deep: tuple[Any, ...]) -> Any:
    return x * 0.5


HALVED = composite("halved", _halved, reduces=False, reduces_in_gradient=False, doc="Half of x.")


def test_ops_of_the_caller_are_read_when_named() -> None:
    attributes = (1, True, "text ν", 0.1, -math.inf, DType.F64, None, (), ((2,), False))
    graph = make_graph(lambda x: call(HALVED, x, deep=attributes))(f32(3))
    again = loads(dumps(graph), extra_ops=[HALVED])
    assert again.nodes[0].params == graph.nodes[0].params
    assert list(map(type, again.nodes[0].params.attribute("deep"))) == list(map(type, attributes))
    with pytest.raises(SerializationError, match=r"unknown op\n.*extra_ops\n.*'halved'"):
        loads(dumps(graph))


def test_an_op_of_the_caller_may_not_take_the_name_of_another() -> None:
    clash = composite("tanh", _halved, reduces=False, reduces_in_gradient=False, doc="Not tanh.")
    with pytest.raises(SerializationError, match="an extra op has the name of another op: 'tanh'"):
        loads(dumps(TINY), extra_ops=[clash])
    loads(dumps(TINY), extra_ops=[ops.ALL_OPS[0]])


# -- refusals when writing ---------------------------------------------------------------------------------------------
def test_custom_rules_are_python_functions_and_cannot_be_written() -> None:
    @custom_jvp
    def f(x: Any) -> Any:
        return ops.tanh(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    graph = make_graph(lambda x: f(x))(f32(3))
    with pytest.raises(SerializationError, match=r"custom_call \(test_serialize.py:\d+ in .*holds Python functions"):
        dumps(graph)


@pytest.mark.parametrize("value", [2**128, -(2**128), "\ud800", 1j, b"x", frozenset()])
def test_attributes_that_json_cannot_carry_are_refused(value: Any) -> None:
    graph = make_graph(lambda x: call(HALVED, x, deep=(value,)))(f32(3))
    with pytest.raises(SerializationError, match=r"a parameter of halved .* cannot be written"):
        dumps(graph)


def test_a_name_that_cannot_be_encoded_is_refused() -> None:
    graph = Graph(inputs=(0,), nodes=(), outputs=(0,), types=(f32(),), name="\ud800")
    with pytest.raises(SerializationError, match="name of a graph has a lone surrogate"):
        dumps(graph)


def test_graphs_nested_too_deeply_are_not_written() -> None:
    body = make_graph(lambda x: call(HALVED, x, deep=()))(f32(3))
    node = body.nodes[0]
    for _ in range(25):
        nested = node._replace(params=type(node.params)(node.params.attributes, body))
        body = Graph(inputs=body.inputs, nodes=(nested,), outputs=body.outputs, types=body.types)
    with pytest.raises(SerializationError, match="nested too deeply\n  expected: at most 20 levels"):
        dumps(body)


# -- refusals when reading ---------------------------------------------------------------------------------------------
def altered(change: Callable[[Any], Any], graph: Graph = TINY) -> str:
    """The document after `change`, with its hash made right again."""
    document = json.loads(dumps(graph))
    change(document)
    document["hash"] = _hash(document["graph"])
    return canonical(document)


def _hash(data: Any) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def node_of(document: Any, op: str) -> Any:
    return next(node for node in document["graph"]["nodes"] if node["op"] == op)


def set_in(op: str, key: str, value: Any) -> Callable[[Any], Any]:
    return lambda document: node_of(document, op)["params"].__setitem__(key, value)


TEXT = dumps(TINY)
ON_TEXT = (
    ("", "not JSON: Expecting value at line 1 column 1"),
    ("{", "not JSON: "),
    (TEXT + "x", "not JSON: Extra data"),
    ("[" * 200_000, "the JSON is nested too deeply"),
    ('{"a":' * 200_000, "the JSON is nested too deeply"),
    (TEXT.replace('"version":1', '"version":NaN'), "the number 'NaN' is not allowed"),
    (TEXT.replace('"version":1', '"version":Infinity'), "the number 'Infinity' is not allowed"),
    (TEXT.replace('"version":1', '"version":-Infinity'), "the number '-Infinity' is not allowed"),
    (TEXT.replace('"version":1', '"version":1.0'), "the number '1.0' is not allowed"),
    (TEXT.replace('"version":1', '"version":1e400'), "the number '1e400' is not allowed"),
    (TEXT.replace('"version":1', '"version":1e999999999'), "the number '1e999999999' is not allowed"),
    (TEXT.replace('"version":1', f'"version":{"9" * 10_000}'), "an integer is too large\n.*\n  got:      10000 digits"),
    (TEXT.replace('"version":1', f'"version":{2**128}'), "an integer is too large"),
    (TEXT.replace('"version":1', '"version":1,"version":1'), "the key 'version' appears twice in one object"),
    (
        TEXT.replace('"version":1', '"version":999'),
        "version 999 .* unknown\n  expected: 1\n  got:      999\n  fix:      upgrade",
    ),
    (TEXT.replace('"version":1', '"version":0'), "version 0 .* unknown"),
    (TEXT.replace('"version":1', '"version":true'), "version True .* unknown"),
    (TEXT.replace('"version":1', '"version":"1"'), "version '1' .* unknown"),
    (TEXT.replace('"version":1', '"version":999,"more":[]'), "version 999"),
    (TEXT.replace('"format":"torchlean-graph",', ""), "not a torchlean graph"),
    (TEXT.replace("torchlean-graph", "onnx"), "not a torchlean graph"),
    ("[]", "not a torchlean graph"),
    ("null", "not a torchlean graph"),
    (
        TEXT.replace('"version":1', '"version":1,"verdict":0'),
        "the document .*\n.*\n  got:      unknown: 'verdict'; missing: none",
    ),
    (TEXT.replace('"locations"', '"places"'), "unknown: 'places'; missing: locations"),
    (TEXT.replace("f32", "f64"), "the content does not have the hash it claims"),
    (TEXT.replace('"hash":"', '"hash":"0'), "the content does not have the hash it claims"),
)


@pytest.mark.parametrize(("text", "says"), ON_TEXT, ids=range(len(ON_TEXT)))
def test_text_that_is_not_ours_is_refused(text: str, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        loads(text)


def test_a_huge_exponent_is_refused_at_once() -> None:
    started = time.perf_counter()
    with pytest.raises(SerializationError):
        loads('{"x": 1e999999999}')
    with pytest.raises(SerializationError):
        loads('{"x": ' + "7" * 1_000_000 + "}")
    assert time.perf_counter() - started < 0.5


def test_bytes_are_utf8() -> None:
    assert content_hash(loads(TEXT.encode())) == content_hash(TINY)
    with pytest.raises(SerializationError, match="not UTF-8 at byte 3"):
        loads(b'{"a\xff')


def test_both_hashes_are_shown() -> None:
    document = json.loads(TEXT)
    document["graph"]["name"] = "other"
    with pytest.raises(SerializationError) as caught:
        loads(canonical(document))
    assert document["hash"] in str(caught.value)
    assert _hash(document["graph"]) in str(caught.value)


def _add_node_field(document: Any) -> None:
    document["graph"]["nodes"][0]["note"] = 1


ALTERED = (
    (lambda d: d["graph"].__setitem__("extra", 1), "a graph has unknown or missing fields"),
    (_add_node_field, "a node has unknown or missing fields"),
    (set_in("gather", "more", 1), "the params of a gather has unknown or missing fields"),
    (lambda d: node_of(d, "gather")["params"].pop("axis"), "missing: axis"),
    (set_in("gather", "axis", True), "axis of a gather: not an integer\n.*\n  got:      True"),
    (set_in("gather", "axis", None), "axis of a gather: not an integer"),
    (set_in("gather", "axis", "0"), "axis of a gather: not an integer"),
    (
        set_in("gather", "mode", {"enum": "WRAP"}),
        "mode of a gather: unknown\n  expected: FILL or CLIP\n  got:      'WRAP'",
    ),
    (set_in("gather", "mode", {"enum": []}), "mode of a gather: not text"),
    (set_in("gather", "mode", 0), "mode of a gather is not an object"),
    (set_in("full", "dtype", {"dtype": "f8"}), "unknown dtype\n  expected: bool, i8, "),
    (set_in("full", "dtype", {"dtype": ["f32"]}), "unknown dtype"),
    (set_in("full", "dtype", {"float": "0x1p0"}), "dtype of a full has unknown or missing fields"),
    (set_in("full", "shape", 3), "shape of a full: not a list"),
    (set_in("full", "shape", [2.5]), "number '2.5' is not allowed"),
    (
        lambda d: d["graph"].__setitem__("name", "\ud800"),
        r"name of a graph: text with a lone surrogate\n.*\n.*'\\ud800'",
    ),
    (lambda d: d["graph"].__setitem__("name", 1), "name of a graph: not text"),
    (lambda d: d["graph"].__setitem__("nodes", {}), "the nodes of a graph: not a list"),
    (lambda d: d["graph"].__setitem__("nodes", [[]]), "a node is not an object"),
    (lambda d: d["graph"].__setitem__("inputs", [["f32"]]), "a type: not a pair"),
    (lambda d: d["graph"].__setitem__("inputs", [["f32", [True]]]), "a shape: not an integer"),
    (lambda d: d["graph"].__setitem__("inputs", [["f32", [-1]]]), "negative size"),
    (lambda d: d["graph"].__setitem__("inputs", [["f32", [1] * 65]]), "too many axes"),
    (
        lambda d: d["graph"].__setitem__("inputs", [["f32", [2**25, 2**25]]]),
        r"a tensor is too large\n  expected: at most 2\*\*48",
    ),
    (lambda d: d["graph"].__setitem__("inputs", [["f32", [0, 2**60]]]), "a tensor is too large"),
    (lambda d: d["graph"].__setitem__("outputs", [True]), "the outputs of a graph: not an integer"),
    (lambda d: node_of(d, "gather").__setitem__("op", "frobnicate"), "unknown op\n.*\n  got:      'frobnicate'"),
    (lambda d: node_of(d, "gather").__setitem__("op", ["gather"]), "unknown op"),
    (lambda d: node_of(d, "gather").__setitem__("op", "custom_call"), "unknown op"),
    (lambda d: node_of(d, "gather").__setitem__("inputs", [0, 9]), "a gather uses a value before it is defined"),
    (lambda d: node_of(d, "gather").__setitem__("inputs", [0, -1]), "a gather uses a value before it is defined"),
    (lambda d: d.__setitem__("locations", []), "not one location per node\n  expected: 3\n  got:      0"),
    (lambda d: d["locations"].__setitem__(0, ["a", True, "f"]), "a line: not an integer"),
    (lambda d: d["locations"].__setitem__(0, ["a", 1]), "a location is malformed"),
    (lambda d: d["locations"].__setitem__(0, ["\udcff", 1, "f"]), "a file name: text with a lone surrogate"),
)


@pytest.mark.parametrize(("change", "says"), ALTERED, ids=range(len(ALTERED)))
def test_malformed_graphs_are_refused(change: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        loads(altered(change))


ILL_TYPED = (
    (lambda d: d["graph"].__setitem__("outputs", [9]), "output 0 of graph <lambda>: %9 is never defined"),
    (lambda d: node_of(d, "gather").__setitem__("types", [["f32", [3]]]), r"node %2 = gather declares f32\[3\]"),
    (
        lambda d: node_of(d, "gather").__setitem__("inputs", [0]),
        "node %2 = gather has operands or params its type rule",
    ),
    (lambda d: node_of(d, "mul").update(types=[]), "node nothing = mul defines no value"),
    (set_in("gather", "axis", 7), "node %2 = gather is ill-typed: axis 7"),
    (set_in("full", "shape", [-2]), "node .* = full is ill-typed: the shape has a negative size"),
    (set_in("full", "bits", 2**32), "node .* = full is ill-typed: the bits are not those of a f32"),
    (set_in("full", "bits", -1), "node .* = full is ill-typed: the bits are not those of a f32"),
)


@pytest.mark.parametrize(("change", "says"), ILL_TYPED, ids=range(len(ILL_TYPED)))
def test_ill_typed_graphs_are_refused(change: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        loads(altered(change))


CONSTANTS = trace_flat(lambda: [ops.constant(np.array([True, False])), ops.constant(np.float32([1.0]))], []).graph
ALTERED_CONSTANTS = (
    ({"bytes": "AAAA"}, "a constant has the wrong length\n  expected: 2 bytes for bool\\[2\\]\n  got:      3"),
    ({"bytes": "?AAA"}, "the bytes of a constant are not base64"),
    ({"bytes": "AAA"}, "the bytes of a constant are not base64"),
    ({"bytes": "ä"}, "the bytes of a constant are not base64"),
    ({"bytes": 3}, "the bytes of a constant: not text"),
    ({"bytes": base64.b64encode(b"\1\2").decode()}, "a boolean constant holds bytes other than 0 and 1"),
    ({"bytes": "AQB="}, "the document is not in canonical form"),
    ({"type": ["f32", [2**40]]}, "a constant has the wrong length"),
    ({"type": ["f32", [2**49]]}, "a tensor is too large"),
)


@pytest.mark.parametrize(("change", "says"), ALTERED_CONSTANTS, ids=range(len(ALTERED_CONSTANTS)))
def test_malformed_constants_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        loads(altered(lambda d: d["graph"]["nodes"][0]["params"].update(change), CONSTANTS))


def _set_epsilon(value: Any) -> Callable[[Any], Any]:
    def change(document: Any) -> None:
        for pair in node_of(document, "layer_norm")["params"]["attributes"]:
            if pair[0] == "epsilon":
                pair[1] = value

    return change


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"float": "0x1p400000"}, "epsilon of a layer_norm: not a float"),
        ({"float": "1.0"}, "epsilon of a layer_norm: not a float"),
        ({"float": "zero"}, "epsilon of a layer_norm: not a float"),
        ({"float": 1}, "epsilon of a layer_norm: not text"),
        ({"float": "nan", "dtype": "f32"}, "epsilon of a layer_norm has unknown or missing fields"),
        ({"graph": {}}, "epsilon of a layer_norm has unknown or missing fields"),
        ({"enum": "FILL"}, "epsilon of a layer_norm has unknown or missing fields"),
        ("\ud800", "epsilon of a layer_norm: text with a lone surrogate"),
    ],
)
def test_malformed_attributes_are_refused(value: Any, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        loads(altered(_set_epsilon(value), PROGRAMS["layer_norm"]))


def test_a_body_that_does_not_fit_is_refused() -> None:
    def swap(document: Any) -> None:
        node = node_of(document, "softmax")
        node["params"]["body"]["nodes"][0]["types"][0][1] = [7, 7]

    with pytest.raises(GraphError, match=r"declares f32\[7,7\], but its type rule gives"):
        loads(altered(swap, PROGRAMS["softmax"]))


def test_two_nodes_of_equal_attributes_must_have_equal_bodies() -> None:
    graph = make_graph(lambda x: ops.silu(ops.silu(x)))(f32(3))

    def lie(document: Any) -> None:
        document["graph"]["nodes"][1]["params"]["body"] = copy.deepcopy(
            json.loads(dumps(make_graph(lambda x: x)(f32(3))))["graph"]
        )

    with pytest.raises(SerializationError, match="two silu nodes of equal attributes and operand types differ"):
        loads(altered(lie, graph))


def test_the_order_of_keys_does_not_matter() -> None:
    def reordered(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: reordered(data[key]) for key in sorted(data, reverse=True)}
        return [reordered(entry) for entry in data] if isinstance(data, list) else data

    assert dumps(loads(json.dumps(reordered(json.loads(TEXT)), indent=2))) == TEXT


# -- fuzzing -----------------------------------------------------------------------------------------------------------
FUZZED = (*[dumps(PROGRAMS[name]) for name in ("features", "grad of softmax", "attention")], TEXT)


@settings(max_examples=300)
@given(st.sampled_from(FUZZED), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes_never_crash(text: str, flips: list[tuple[int, int]]) -> None:
    """Only our errors, and what is still accepted is a graph with the hash of the original."""
    data = bytearray(text.encode())
    for at, value in flips:
        data[at % len(data)] = value
    try:
        graph = loads(bytes(data))
    except TorchLeanError as error:
        str(error).encode()
        return
    assert content_hash(graph) == json.loads(text)["hash"]


def paths_of(data: Any) -> list[tuple[Any, ...]]:
    """The path to every value within JSON data."""
    found: list[tuple[Any, ...]] = [()]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, held in items:
        found += [(key, *rest) for rest in paths_of(held)]
    return found


SAMPLED_DOCUMENTS = tuple([dumps(sample_graph(sample)) for sample in SAMPLES[::7]])
JUNK = (None, True, "", "f32", [], {}, [[0, 1]], 2**60, -1, "relu")
NAMES = ("f32", "f64", "i32", "u8", "bool", "tanh", "mul", "gather", "reduce_sum", "relu", "CLIP", "SPLITMIX64")


def near(value: Any, draw: random.Random) -> Any:
    """Another value, mostly of the same kind."""
    if draw.random() < 0.1:
        return draw.choice(JUNK)
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((value + 1, value - 1, 0, -1, draw.randrange(-5, 10), 2 ** draw.randrange(62)))
        case str():
            return draw.choice(NAMES)
        case list() if value:
            at = draw.randrange(len(value))
            shuffled = draw.sample(value, len(value))
            return draw.choice((value[:at] + value[at + 1 :], [*value, value[at]], shuffled, value + value))
    return draw.choice(JUNK)


@settings(max_examples=800)
@given(st.integers(0, 2**32))
def test_altered_documents_with_a_right_hash_never_crash(seed: int) -> None:
    """One or two values changed anywhere in a graph: our error, or a graph that evaluates to the types it declares."""
    draw = random.Random(seed)
    document = json.loads(draw.choice((draw.choice(FUZZED), draw.choice(SAMPLED_DOCUMENTS))))
    for _ in range(draw.choice((1, 1, 2))):
        path = draw.choice(paths_of(document["graph"])[1:])
        held = document["graph"]
        for key in path[:-1]:
            held = held[key]
        held[path[-1]] = near(held[path[-1]], draw)
    document["hash"] = _hash(document["graph"])
    try:
        graph = loads(json.dumps(document))
    except TorchLeanError as error:
        str(error).encode()
        return
    assert content_hash(graph) == document["hash"]
    if sum([type.size for type in graph.types]) < 10**5:
        results = denote(graph, arguments(graph))
        assert [type_of_array(result) for result in results] == list(graph.output_types)


def test_the_mode_of_a_gather_is_an_enum_again() -> None:
    graph = trace_flat(lambda x, i: bind(GATHER, Along(0, 0, Mode.CLIP), x, i), TINY.input_types).graph
    assert loads(dumps(graph)).nodes[0].params.mode is Mode.CLIP


def test_a_literal_read_back_cannot_be_written_to() -> None:
    array = loads(dumps(CONSTANTS)).nodes[0].params.array
    assert CONSTANTS.nodes[0].op is CONSTANT
    assert not array.flags.writeable
    assert loads(dumps(CONSTANTS)).nodes[0].params == Literal(np.array([True, False]))
