"""The shim as a folder that needs no Python: what it takes of the interpreter lies beside it.

    whereabouts                         what is executed: Python itself (`linked`), or a script
    lib/*.so.*                          libraries, but those of the C library
    lib/python3.x/lib-dynload/*.so      those of Python's modules that are files of their own
    lib/python, lib/*.pyc, lib/python3.x/  what the script starts (`script`)

`interpreter` finds out what a machine's Python consists of, `elf` makes its files fit to be moved,
and `cni.build` puts all in place.
"""
