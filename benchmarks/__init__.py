"""Measurements, never assertions: `make bench NAME=…`; the last line of each is one JSON object."""
