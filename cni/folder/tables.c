/* Replaces Python's own tables of frozen modules when the start is core-only.
 *
 * At its start Python 3.11 and 3.12 intern the strings of every module that is frozen in as C data,
 * which takes a fifth of a short call. Here the only one that this start needs is bytecode.
 */
#include <Python.h>

struct alias {
    const char *name, *original;
};

extern const unsigned char bootstrap[], bootstrap_end[];
__asm__(".section .rodata\n.balign 16\nbootstrap:\n.incbin \"" BOOTSTRAP "\"\n"
        "bootstrap_end:\n.byte 0\n.previous\n");

static struct _frozen needed[] = {{.name = "_frozen_importlib", .code = bootstrap}, {0}};
static const struct _frozen none[] = {{0}};
static const struct alias aliases[] = {{"_frozen_importlib", "importlib._bootstrap"}, {0}};

const struct _frozen *_PyImport_FrozenBootstrap = needed;
const struct _frozen *_PyImport_FrozenStdlib = none;
const struct _frozen *_PyImport_FrozenTest = none;
const struct alias *_PyImport_FrozenAliases = aliases;
const struct _frozen *PyImport_FrozenModules = NULL;

__attribute__((constructor)) static void measure(void) {
    needed[0].size = bootstrap_end - bootstrap;
}

/* In the place of what would bring in the modules as C data. */
int _Py_Deepfreeze_Init(void) {
    return 0;
}

void _Py_Deepfreeze_Fini(void) {
}

#if PY_VERSION_HEX >> 16 == 0x030c
unsigned int _Py_next_func_version = 1;
#endif
