"""The shim as one static executable, made of Debian's sources of Python and OpenSSL.

`python -m cni.static FOLDER` puts FOLDER/whereabouts there, and beside it whereabouts.json, which
says what is linked in. `sources` fetches, `recipe` compiles by the profile that `training` takes,
`base` caches what they made, `link` adds our own modules: only the last step, of a second, depends
on the shim's source.
"""
