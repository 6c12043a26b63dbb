"""The control loops that run once per cluster."""
