"""The version that the shim tells the API server; a test keeps it equal to the package's."""

VERSION = "0.1.0"
USER_AGENT = "whereabouts-fast-shim/" + VERSION
