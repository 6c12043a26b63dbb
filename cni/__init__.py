"""The CNI shim: a short-lived process that gives and takes back one address."""
