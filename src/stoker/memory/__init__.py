"""Who owns which KV page: bookkeeping only, no tensors and no framework."""
