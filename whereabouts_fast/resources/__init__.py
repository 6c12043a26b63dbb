"""Typed views of the objects the project reads and writes."""
