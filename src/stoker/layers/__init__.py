"""Building blocks of models: each holds its packed weights and calls a kernel set."""
