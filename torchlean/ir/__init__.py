"""The typed graph: types, ops, the builder that makes graphs, and what can be done with one short of running it."""
