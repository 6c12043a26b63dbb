/* Starts Python as far as the shim needs it, and runs the shim's modules, which are linked in.
 *
 * FOLDER: some of Python's modules are files in lib/ beside the executable; else all are linked in.
 * BUILT_IN(X) lists those of the shim's that are, besides what Python's own start needs.
 * FULL_START takes the public way instead: Python's whole start, with its table of frozen modules
 * and the encodings that it reads there. It costs about two milliseconds a call.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <marshal.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifndef FOLDER
#include <nss.h>
#endif

#define LINK_IN(name, path)                                                                      \
    __asm__(".section .rodata\n.balign 16\n" #name ":\n.incbin \"" path "\"\n"                  \
            #name "_end:\n.byte 0\n.previous\n");                                               \
    extern const unsigned char name[], name##_end[]

LINK_IN(shim, SHIM);

#ifdef FULL_START
LINK_IN(encodings, ENCODINGS "/__init__.marshal");
LINK_IN(aliases, ENCODINGS "/aliases.marshal");
LINK_IN(utf_8, ENCODINGS "/utf_8.marshal");
static struct _frozen frozen[4];

static void freeze(struct _frozen *one, const char *name, const unsigned char *from,
                   const unsigned char *to, int package) {
    *one = (struct _frozen){.name = name, .code = from, .size = to - from, .is_package = package};
}

static void freeze_encodings(void) {
    freeze(&frozen[0], "encodings", encodings, encodings_end, 1);
    freeze(&frozen[1], "encodings.aliases", aliases, aliases_end, 0);
    freeze(&frozen[2], "encodings.utf_8", utf_8, utf_8_end, 0);
    PyImport_FrozenModules = frozen;
}
#else
int _PySignal_Init(int install_signal_handlers);

/* Stands in for the table of Python's own library, which brings in modules that nobody imports. */
#define MODULES(X)                                                                               \
    X(posix) X(time) X(gc) X(_imp) X(_string) X(_signal) X(_thread) X(_weakref) BUILT_IN(X)
#define DECLARED(name) PyObject *PyInit_##name(void);
#define LISTED(name) {#name, PyInit_##name},
MODULES(DECLARED)
PyObject *PyMarshal_Init(void);
PyObject *_PyWarnings_Init(void);
struct _inittab _PyImport_Inittab[] = {
    {"builtins", NULL}, {"sys", NULL}, {"marshal", PyMarshal_Init},
    {"_warnings", _PyWarnings_Init}, MODULES(LISTED) {NULL, NULL},
};
#endif

static int failed(const char *why) {
    printf("{\"cniVersion\":\"1.0.0\",\"code\":999,\"msg\":\"the plugin cannot start: %s\","
           "\"details\":\"is there memory left, and is all there that was built?\"}\n",
           why ? why : "unknown");
    fflush(stdout);
    return 1;
}

static PyStatus start_python(void) {
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status))
        return status;
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.buffered_stdio = 0;
    /* Nothing is looked for on the host's disk. */
    config.module_search_paths_set = 1;
    wchar_t **places[] = {
        &config.program_name, &config.executable, &config.base_executable, &config.home,
        &config.prefix, &config.base_prefix, &config.exec_prefix, &config.base_exec_prefix,
        &config.stdlib_dir,
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        status = PyConfig_SetString(&config, places[i], L"");
        if (PyStatus_Exception(status))
            return status;
    }
#ifdef FULL_START
    freeze_encodings();
    config.use_frozen_modules = 1;
#else
    config._init_main = 0;
#endif
    status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
#ifndef FULL_START
    /* What of the other half of the start is needed: _signal's constants, and a module that is
     * asked for when the built-in handlers of bytes that do not fit are first looked up. */
    if (!PyStatus_Exception(status) && (_PySignal_Init(0) < 0 || !PyImport_AddModule("encodings")))
        return PyStatus_NoMemory();
#endif
    return status;
}

#ifdef FOLDER
static PyObject *folder(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    while (length > 0 && path[length - 1] != '/')
        length--;
    path[length > 0 ? length : 0] = 0;
    return PyUnicode_DecodeFSDefault(path);
}
#endif

int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
#ifndef FOLDER
    /* Other name services are libraries of the host, which need the libc that they were made for. */
    __nss_configure_lookup("hosts", "files dns");
#endif
    /* As Python's own start does: what cannot be written is an error, not the end. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    PyStatus status = start_python();
    if (PyStatus_Exception(status))
        return failed(status.err_msg);
    PyGC_Disable();
    PyObject *code = PyMarshal_ReadObjectFromString((const char *)shim, shim_end - shim);
#ifdef FOLDER
    PyObject *globals = Py_BuildValue("{s:d,s:N}", "start", now.tv_sec + now.tv_nsec * 1e-9,
                                      "folder", folder());
#else
    PyObject *globals = Py_BuildValue("{s:d}", "start", now.tv_sec + now.tv_nsec * 1e-9);
#endif
    if (code && globals && !PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()))
        /* Comes back only if the shim could not even begin. */
        PyEval_EvalCode(code, globals, globals);
    PyErr_Print();
    return failed("its modules do not run");
}
