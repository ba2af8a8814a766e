"""The HTTP face of one engine: wire formats in, typed requests out; never a tensor or a page."""
