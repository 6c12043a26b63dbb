"""The CNI shim: a short-lived process that gives a pod one address and takes it back.

Every module here obeys the import diet in ARCHITECTURE.md, for process start is the product. Only
`cni.build`, which packages the others, runs at build time and may import what it likes.
"""
