#!/bin/sh
# Starts the interpreter in lib/ beside this file, wherever the folder is.
self=$0
while [ -L "$self" ]; do
    to=$(readlink "$self")
    case $to in
        /*) self=$to ;;
        *) self=${self%/*}/$to ;;
    esac
done
lib=${self%/*}/lib
if [ ! -x "$lib/python" ]; then
    echo '{"cniVersion":"1.0.0","code":999,"msg":"the plugin cannot start: its folder lib is not beside it","details":"copy all that was built, or link to it"}'
    exit 1
fi
LD_LIBRARY_PATH=$lib exec "$lib/python" -ISE -X utf8 "$lib/whereabouts.pyc"
