"""Everything that talks to the API server; the only importer of kubernetes_asyncio."""
