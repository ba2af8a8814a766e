"""Strings to tokens and back: tokenizer, chat template, detokenizer, stop strings.

No engine and no torch: the API process imports this room and must start fast and stay small.
"""
