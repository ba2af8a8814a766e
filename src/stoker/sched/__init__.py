"""Who runs next: bookkeeping of requests, tokens and pages; no framework, no arrays."""
