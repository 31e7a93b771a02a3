# SPDX-License-Identifier: GPL-2.0
"""All tests, and the selection of some of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import qemu
import vm

from suite.header import Header
from suite.settings import DEBUG, Settings
from suite.test import Machine, Test, kernel_of

TESTS = qemu.TOP / "tools/vm/tests"
BENCH = qemu.TOP / "tools/vm/bench"
# Of a test whose header has no limit.
TEST_LIMIT = 180
BENCH_LIMIT = 900

DEBUG_SIZE = qemu.Size(3072, 2)
# Of the client's VM where only the server's has the debug kernel.
CLIENT_SIZE = qemu.Size(qemu.Size().mem, 2)

# Name, seconds, command.
TOOLS = [
    ("build.probe", 600, ["scripts/cargo", "probe", "build"]),
    ("build.ctl", 600, ["scripts/cargo", "ctl", "build"]),
    ("build.fsx", 600, ["scripts/fsx"]),
    ("build.blocks", 60, ["scripts/blocks"]),
]
HOST = [
    ("build.cache", 60, ["scripts/tests/cache"]),
    ("build.install", 60, ["scripts/tests/install"]),
    ("build.guard", 60, ["scripts/tests/guard"]),
    ("build.maintainer", 60, ["scripts/tests/maintainer"]),
    ("build.version", 60, ["scripts/tests/version"]),
    ("build.repository", 120, ["scripts/tests/repository"]),
    ("build.sign-module", 120, ["scripts/tests/sign-module"]),
    ("build.rust-analyzer", 300, ["scripts/tests/rust-project"]),
    ("build.htmldocs", 300, ["scripts/htmldocs"]),
    ("check.imports", 60, ["scripts/check-imports"]),
    ("check.panics", 60, ["scripts/check-panics"]),
    ("check.stack", 120, ["scripts/check-stack"]),
    ("check.misuse", 120, ["scripts/check-misuse"]),
    ("check.shell", 300, ["scripts/check-shell"]),
    ("check.python", 300, ["scripts/check-python"]),
    ("check.runner", 60, ["scripts/check-runner"]),
    ("check.monitoring", 300, ["scripts/check-monitoring"]),
    ("check.fmt", 120, ["scripts/fmt", "--check"]),
    ("check.clippy", 600, ["make", "-s", "clippy"]),
    ("host.proto", 900, ["scripts/cargo", "host", "test"]),
    ("host.smbdirect", 600, ["scripts/cargo", "smbdirect", "test"]),
    ("host.bench", 600, ["scripts/cargo", "host", "bench"]),
    ("host.fuzz", 600, ["scripts/cargo", "host", "fuzz", "3"]),
    ("host.panics", 600, ["scripts/cargo", "host", "panics"]),
    ("host.sim", 1200, ["make", "-s", "sim"]),
    ("host.loom", 1200, ["scripts/cargo", "loom", "test"]),
    ("host.soak", 1200, ["scripts/tests/soak"]),
    ("host.probe", 600, ["scripts/cargo", "probe", "test"]),
    ("host.ctl", 600, ["scripts/cargo", "ctl", "test"]),
    ("host.verdict", 60, ["python3", "-B", "-m", "unittest", "discover", "-s", "tools/bench/unit", "-t", "tools/bench"]),
]
# In a plain Debian server, see tools/vm/server.py: name, seconds, options of server.py.
PACKAGES: list[tuple[str, float, list[str]]] = [
    ("package.install", 600, []),
    ("package.upgrade", 900, []),
]
# The others, for make test-packages: an emulated server takes minutes to boot.
SLOW_PACKAGES: list[tuple[str, float, list[str]]] = [
    ("package.device", 900, []),
    ("package.guard", 900, []),
    ("package.lockdown", 600, []),
    ("package.pages", 1500, []),
    ("package.walk", 2400, ["--pool", "--client", "--kernel", "7.2"]),
    ("package.kernel", 600, ["--pool", "--kernel", "7.2"]),
    ("package.dkms-skip", 900, ["--pool", "--kernel", "7.2"]),
    ("package.dkms", 7200, ["--pool", "--cpus", "2", "--mem", "3072", "--kernel", "7.2"]),
]
BUILD_DEB = "build.deb"
# The argument of make that builds the examples of the crates with the module.
EXAMPLES = "SVCRDMA_EXAMPLES=m"
# Those of HOST that examine the module that was built.
OF_MODULE = {
    "build.install",
    "build.sign-module",
    "build.rust-analyzer",
    "build.htmldocs",
    "check.panics",
    "check.stack",
    "check.misuse",
}
REFUSALS = ["not-root", "rustc", "bindgen", "no-rust", "exports", "family", "space", "network", "tools", "deb-key", "module-key"]


def builds(settings: Settings) -> list[Test]:
    """Returns what other tests need: the module for each kernel, and the tools."""
    modules = [for_kernel(module_of(kernel), 600, kernel, "scripts/build", "modules", EXAMPLES) for kernel in settings.kernels]
    smb = Test("build.smb", 1800, ("scripts/smb",), is_long=True)
    others = [] if settings.is_debug_only else [Test(BUILD_DEB, 900, ("scripts/deb",)), smb]
    tools = [Test(name, limit, tuple(command)) for name, limit, command in TOOLS]
    faults = [
        for_kernel(name, 300, kernel, "scripts/faults") for kernel in settings.kernels for name in faults_of(kernel, settings)
    ]
    return modules + others + tools + faults


def for_kernel(name: str, limit: float, kernel: str, *command: str) -> Test:
    """Returns a build for a kernel. It does not run without the kernel, or it would try to make that itself."""
    return Test(name, limit, ("env", f"KERNEL={kernel}", *command), needs=frozenset({kernel_of(kernel)}))


def module_of(kernel: str) -> str:
    return f"build.{kernel}"


def faults_of(kernel: str, settings: Settings) -> list[str]:
    """Returns the build of the modules that inject errors; only tests on the home and the debug kernel load these."""
    if kernel == settings.home:
        return ["build.faults"]
    return [f"build.faults@{kernel}"] if kernel == DEBUG else []


def needs_of(vms: tuple[Machine, ...], settings: Settings) -> frozenset[str]:
    """Returns the kernels of a test in VMs, and the builds that it needs: those for the server's kernel alone."""
    kernel = vms[0].kernel
    builds = {module_of(kernel), *(name for name, *_ in TOOLS), *faults_of(kernel, settings)}
    return frozenset(builds | {kernel_of(each.kernel) for each in vms})


def host_tests(settings: Settings) -> list[Test]:
    """Returns the tests without a VM.

    They examine our code, not the stock server's, and not as built for the debug kernel, whose
    compiler adds to it.
    """
    if settings.is_debug_only or settings.server != "ours":
        return []
    env, module = f"KERNEL={settings.home}", frozenset({module_of(settings.home)})
    tests = [
        Test(name, limit, ("env", env, *command), needs=module if name in OF_MODULE else frozenset())
        for name, limit, command in HOST
    ]
    tests += [Test(f"build.refuse-{case}", 60, ("scripts/tests/refuse", case)) for case in REFUSALS]
    tests.append(Test("build.packages", 60, ("scripts/tests/packages",), needs=frozenset({BUILD_DEB})))
    return tests + [package_test(*each, settings) for each in PACKAGES]


def slow_package_tests(settings: Settings) -> list[Test]:
    """Returns all tests of the packages."""
    return [package_test(*each, settings) for each in PACKAGES + SLOW_PACKAGES]


def package_test(name: str, limit: float, options: list[str], settings: Settings) -> Test:
    """Returns a test of the Debian packages. It boots a VM itself."""
    command = ("env", f"KERNEL={settings.home}", "tools/vm/server.py", *options, name)
    return Test(name, limit, command, needs=frozenset({BUILD_DEB}))


def guest_tests(settings: Settings, folder: Path, limit: int) -> list[Test]:
    """Returns the tests of a folder, each once for each of its kernels."""
    tests = []
    for path in sorted(folder.glob("*.*")):
        if path.is_dir() or path.suffix == ".py":
            continue
        header = Header(path.read_text(encoding="utf-8"))
        if not os.access(path, os.X_OK) or header.server not in ("both", *vm.SERVERS):
            sys.exit(f"svcrdma: {path}: not executable, or its server is not one of both, {', '.join(vm.SERVERS)}")
        if header.server in ("both", settings.server):
            kernels = [kernel for kernel in settings.kernels if header.runs_on(kernel, settings)]
            tests += [guest_test(path, header, kernel, limit, settings) for kernel in kernels]
    return tests


def guest_test(path: Path, header: Header, kernel: str, limit: int, settings: Settings) -> Test:
    """Returns the test of a script on one kernel."""
    env, vms = header.variables(kernel, settings) | header.taken(os.environ), machines(header, kernel, settings)
    if header.klog_allow:
        env["VM_KLOG_ALLOW"] = header.klog_allow
    return Test(
        path.name if kernel == settings.home else f"{path.name}@{kernel}",
        header.number("limit", limit),
        (f"/src/{path.relative_to(qemu.TOP)}",),
        vms,
        env,
        needs_of(vms, settings) | header.needs,
        header.counted,
        header.is_long,
    )


def machines(header: Header, kernel: str, settings: Settings) -> tuple[Machine, ...]:
    """Returns the VMs that a test asks for."""
    size = qemu.Size(header.number("mem", qemu.Size().mem), header.number("cpus", qemu.Size().cpus))
    own = DEBUG_SIZE if kernel == DEBUG else size
    server = Machine(kernel, own._replace(cpus=settings.cpus or own.cpus))
    if header.number("vms", 1) == 1:
        return (server,)
    # The server is what is examined, so its client has the faster kernel.
    client = Machine(settings.home, CLIENT_SIZE if kernel == DEBUG else size)
    return (server, client)


def selected(tests: list[Test], settings: Settings) -> list[Test]:
    """Returns the tests that TESTS= selects, or all. Ends the program if a pattern selects none."""
    found = {pattern: {t.name for t in tests if t.matches(pattern, settings)} for pattern in settings.patterns}
    if missing := [pattern for pattern, names in found.items() if not names]:
        sys.exit(f"svcrdma: no test has such a name: {' '.join(missing)}")
    names = set().union(*found.values())
    return [test for test in tests if test.name in names or (not found and test.is_for(settings))]


def with_needed(tests: list[Test], available: Iterable[Test]) -> tuple[list[Test], list[Test]]:
    """Splits into builds, with those that others need, and the others.

    No test may examine what an older source has left.
    """
    available = list(available)
    names = {build.name for build in available}
    others = [test for test in tests if test.name not in names]
    needed = {test.name for test in tests}.union(*(test.needs for test in others))
    return [build for build in available if build.name in needed], others
