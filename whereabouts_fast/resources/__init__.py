"""The objects of the API server as slim frozen values, and back.

Decoders never raise: an object that cannot be read becomes a value that says so in `problem`, since
one bad object must not stop the others. They run once per object and event, for thousands of pools,
so each keeps only what decisions need.
"""
