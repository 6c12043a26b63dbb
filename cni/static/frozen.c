/* Replaces Python's own table of frozen modules (Python/frozen.c) when the start is core-only. */
#include "Python.h"
#include "pycore_import.h"

#include <stdbool.h>

extern PyObject *_Py_get_importlib__bootstrap_toplevel(void);

static const struct _frozen bootstrap[] = {
    {"_frozen_importlib", NULL, 0, false, _Py_get_importlib__bootstrap_toplevel},
    {0},
};
static const struct _frozen none[] = {{0}};
static const struct _module_alias aliases[] = {
    {"_frozen_importlib", "importlib._bootstrap"},
    {0},
};

const struct _frozen *_PyImport_FrozenBootstrap = bootstrap;
const struct _frozen *_PyImport_FrozenStdlib = none;
const struct _frozen *_PyImport_FrozenTest = none;
const struct _module_alias *_PyImport_FrozenAliases = aliases;
const struct _frozen *PyImport_FrozenModules = NULL;
