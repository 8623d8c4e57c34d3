"""The conformance kit: every capsule × samples × claimed bound × contract. Re-exports only."""

from torchlean.conformance.kit.run import run_capsule, run_contracts, run_module

__all__ = ["run_capsule", "run_contracts", "run_module"]
