"""How long do explaining, planning and accepting a 1000-node graph take, and reading the evidence in a new process?"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from _paired import report, restart_unpinned

NODES = 1000
ROUNDS = 15

_FIRST = """
import time
import torchlean as tl
from torchlean.backends import profiles
held = [(module, capsule) for module in profiles.fast_cpu.modules for capsule in module.capsules]
start = time.process_time()
for module, capsule in held:
    for obligation in ("value", "vjp"):
        module.standing(capsule, obligation)
print(time.process_time() - start)
"""


def main() -> None:
    import torchlean as tl
    from torchlean import ops
    from torchlean.backends import accept, explain, plan, profiles

    def layers(x, *weights):
        for w in weights:
            x = ops.tanh(x @ w) + ops.exp(-(x * x))
        return ops.sum(x)

    f32 = tl.DType.F32
    weights = [tl.TensorType((8, 8), f32)] * (NODES // 6 + 1)
    graph = tl.make_graph(layers)(tl.TensorType((4, 8), f32), *weights)
    assert NODES <= len(graph.nodes) <= NODES + 10, len(graph.nodes)
    rows = []
    for profile in (profiles.checked_cpu, profiles.fast_cpu):
        taken: dict[str, list[float]] = {"explain": [], "plan": [], "accept": []}
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for node in graph.nodes:
                explain(node.op, node.params, tuple([graph.types[id] for id in node.inputs]), profile)
            explained = time.perf_counter()
            made = plan(graph, profile)
            planned = time.perf_counter()
            accept(made)
            taken["explain"].append(explained - start)
            taken["plan"].append(planned - explained)
            taken["accept"].append(time.perf_counter() - planned)
        for step, seconds in taken.items():
            rows.append({"what": f"{profile.name}: {step} (minimum)", "value": min(seconds) * 1e3, "unit": "ms"})
        whole = [sum(each) * 1e3 for each in zip(*taken.values(), strict=True)]
        what = f"{profile.name}: explain every node + plan + accept, {len(graph.nodes)} nodes"
        rows.append({"what": f"{what} (minimum)", "value": min(whole), "unit": "ms", "goal": 100})
        rows.append({"what": f"{what} (median)", "value": statistics.median(whole), "unit": "ms"})
    first = [
        float(subprocess.run([sys.executable, "-c", _FIRST], capture_output=True, text=True, check=True).stdout) * 1e3
        for _ in range(7)
    ]
    what = "evidence of every tested claim of compiled, numpy and reference in a new process, CPU time"
    rows.append({"what": f"{what} (minimum)", "value": min(first), "unit": "ms", "goal": 30})
    rows.append({"what": f"{what} (median)", "value": statistics.median(first), "unit": "ms"})
    report(str(__doc__), rows, __file__)


if __name__ == "__main__":
    restart_unpinned()
    main()
