"""Ops on arrays: `ops` is the contract, `reference` the specification, `cpu` the fast path."""
