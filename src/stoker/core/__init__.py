"""The vocabulary of the house: it imports nothing of ours and no framework."""
