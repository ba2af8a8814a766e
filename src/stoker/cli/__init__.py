"""One file a command. Flags come from `core/config`, nothing else."""
