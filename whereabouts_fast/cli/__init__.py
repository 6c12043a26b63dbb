"""Argument parsing and wiring of each command."""
