"""Expected calls, arguments, outputs and answers compared with those made."""
