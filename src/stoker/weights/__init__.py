"""Checkpoints in, as NumPy arrays over mapped files. Never imports torch."""
