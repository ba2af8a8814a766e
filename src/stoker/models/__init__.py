"""Wiring of architectures: one short file a family."""
