"""The life of a request: the loop, its process, the client in front of it, and `LLM`."""
