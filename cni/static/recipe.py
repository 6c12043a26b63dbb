"""How Python and OpenSSL are compiled: what is left in, what is left out, and why."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from cni.static.commands import Log, say
from cni.static.errors import StaticError

# Core-only start is a private interface, and bytecode belongs to one minor version.
PYTHON = "python3.11"
OPENSSL = "openssl"

# A smaller file has fewer pages to map. Without PIE nothing is relocated at start, at the price of
# a fixed address for the code; heap, stack and libraries' data move all the same.
_CFLAGS = ("-g0", "-O3", "-fno-pie", "-ffunction-sections", "-fdata-sections")

# An API server speaks TLS 1.2 or 1.3 with AES-GCM or ChaCha20 and keys of RSA, ECDSA or Ed25519.
# No file of the host may change how we verify: no modules, engines or automatic configuration.
_OPENSSL_OPTIONS = (
    *("no-shared", "no-module", "no-dso", "no-engine", "no-dynamic-engine", "no-autoload-config"),
    *(
        "no-tests",
        "no-async",
        "no-ui-console",
        "no-comp",
        "no-ktls",
        "no-legacy",
        "no-nextprotoneg",
    ),
    *("no-cms", "no-cmp", "no-ts", "no-ct", "no-ocsp", "no-srp", "no-srtp", "no-psk", "no-dtls"),
    *("no-ssl3", "no-tls1", "no-tls1_1", "no-aria", "no-bf", "no-blake2", "no-camellia", "no-cast"),
    *("no-des", "no-dsa", "no-ec2m", "no-gost", "no-idea", "no-md4", "no-mdc2", "no-ocb", "no-rc2"),
    *("no-rc4", "no-rmd160", "no-scrypt", "no-seed", "no-siphash", "no-siv", "no-sm2", "no-sm3"),
    *("no-sm4", "no-whirlpool"),
)

# binascii would take its checksums from zlib where configure finds it.
_BUILT_IN = """\
*static*
_json _json.c
_socket socketmodule.c
select selectmodule.c
fcntl fcntlmodule.c
binascii binascii.c -UUSE_ZLIB_CRC32
math mathmodule.c
_struct _struct.c
_sha256 sha256module.c
_ssl _ssl.c -I{openssl}/include {openssl}/libssl.a {openssl}/libcrypto.a
"""

_FROZEN = Path(__file__).with_name("frozen.c")
# Read by a full start before it can read files.
ENCODINGS = ("encodings/__init__", "encodings/aliases", "encodings/utf_8")


def compile_openssl(source: Path, log: Log) -> None:
    """Make libssl.a and libcrypto.a in OpenSSL's source folder. Raises StaticError."""
    say("compiling OpenSSL (about 2 minutes on two cores)")
    configure = ["perl", "./Configure", f"linux-{_machine()}", "--openssldir=/etc/ssl"]
    log.run([*configure, *_OPENSSL_OPTIONS, *_CFLAGS], source)
    log.run(["make", _jobs(), "build_libs"], source)


def _thin_out(source: Path) -> None:
    """Empty the table of names of some thousand OpenSSL errors, which Python copies at each start.

    Their texts come from OpenSSL itself. Raises StaticError when the table is not there.
    """
    for path in source.glob("Modules/_ssl_data_*.h"):
        text, found = re.subn(
            r"(error_codes\[\] = \{).*?(\{ *NULL *\})",
            r"\1\n    \2",
            path.read_text(),
            flags=re.DOTALL,
        )
        if found != 1:
            raise StaticError(f"{path} has another form than the recipe knows: leave it as it is")
        path.write_text(text)


def configure_python(source: Path, openssl: Path, build: Path, log: Log) -> None:
    """Prepare the folder `build`, once for all that is compiled there. Raises StaticError."""
    _thin_out(source)
    (build / "Modules").mkdir(parents=True)
    (build / "Modules/Setup.local").write_text(_BUILT_IN.format(openssl=openssl))
    # The programs that make runs on the way are not ours: linked as usual, but for PIE.
    flags = (f"CFLAGS={' '.join(_CFLAGS)}", "LDFLAGS=-no-pie")
    options = ("--disable-shared", "--disable-test-modules", "--without-doc-strings")
    log.run([source / "configure", *options, f"--with-openssl={openssl}", *flags], build)


def compile_instrumented(build: Path, log: Log) -> None:
    """Make a libpython whose runs leave a profile. Raises StaticError."""
    say("compiling Python to learn what a call needs of it (about 2 minutes on two cores)")
    flags = ("EXTRA_CFLAGS=-fprofile-generate", "LDFLAGS=-fprofile-generate")
    log.run(["make", _jobs(), library_name(), *flags], build)


def compile_trained(build: Path, log: Log) -> None:
    """Make libpython again, by the profile that is there. Raises StaticError."""
    say("compiling Python for good (about 2 minutes on two cores)")
    for made in (*build.rglob("*.o"), *build.rglob("*.a")):
        made.unlink()
    profile = "-fprofile-use -fprofile-correction -Wno-missing-profile"
    log.run(["make", _jobs(), library_name(), f"EXTRA_CFLAGS={profile}"], build)


def compile_tables(source: Path, build: Path, log: Log) -> None:
    """Make our own table of frozen modules. Raises StaticError.

    At its start Python interns every string of every module that is frozen into it, so a table
    with only the one that core-only start needs saves a sixth of a short call.
    """
    tool = source / "Tools/scripts/deepfreeze.py"
    bootstrap = "Python/frozen_modules/importlib._bootstrap.h:importlib._bootstrap"
    log.run(["./_bootstrap_python", tool, bootstrap, "-o", "deepfreeze.c"], build)
    include = [f"-I{source}/Include", f"-I{source}/Include/internal", f"-I{build}"]
    flags = [*_CFLAGS, "-w", "-DPy_BUILD_CORE", *include]
    for file in (_FROZEN, build / "deepfreeze.c"):
        log.run(["gcc", *flags, "-c", file, "-o", f"{file.stem}.o"], build)
    log.run(["ld", "-r", "frozen.o", "deepfreeze.o", "-o", "tables.o"], build)


def gather(source: Path, openssl: Path, build: Path, target: Path) -> None:
    """Copy what the last link step needs."""
    (target / "lib").mkdir()
    for file in (build / library_name(), openssl / "libssl.a", openssl / "libcrypto.a"):
        shutil.copy(file, target / "lib")
    shutil.copy(build / "tables.o", target / "lib")
    shutil.copytree(source / "Include", target / "include")
    shutil.copy(build / "pyconfig.h", target / "include")
    (target / "encodings").mkdir()
    for name in ENCODINGS:
        shutil.copy(source / "Lib" / f"{name}.py", target / "encodings")


def library_name() -> str:
    """Return the file name of Python's library."""
    return f"lib{PYTHON}.a"


def fingerprint() -> bytes:
    """Return what the result depends on beside the sources and the compiler."""
    here = Path(__file__)
    return here.read_bytes() + _FROZEN.read_bytes()


def _machine() -> str:
    machine = os.uname().machine
    known = {"x86_64": "x86_64", "aarch64": "aarch64"}
    if machine not in known:
        raise StaticError(f"no recipe for {machine}: build on {' or '.join(known)}")
    return known[machine]


def _jobs() -> str:
    return f"-j{len(os.sched_getaffinity(0))}"
