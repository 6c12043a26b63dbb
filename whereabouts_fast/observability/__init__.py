"""Metrics, logging and health endpoints."""
