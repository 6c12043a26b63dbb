"""The allocation kernel: pure values in, decisions out; no I/O, no clock, no logging."""
