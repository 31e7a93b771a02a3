# SPDX-License-Identifier: GPL-2.0
"""Commands of the host end with the run, however it ends."""

import signal
import subprocess
import sys
import unittest

import qemu

from suite.processes import Processes
from suite.unit.common import has_ended

# Runs a command with a child in a thread, as tests of the host run; it prints the child's id.
RUN = """
import sys, threading
from suite.main import end_when_interrupted
from suite.processes import Processes
processes = Processes()
end_when_interrupted(processes)
command = ["sh", "-c", "sleep 1000 & echo $!; wait"]
threading.Thread(target=processes.run, args=[command], kwargs={"stdout": sys.stdout.buffer}).start()
"""


class ProcessesTest(unittest.TestCase):
    def test_output_and_status(self) -> None:
        done = Processes().run(["sh", "-c", "echo out; exit 3"], stdout=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (3, b"out\n"))

    def test_command_runs_in_the_checkout(self) -> None:
        done = Processes().run(["pwd"], stdout=subprocess.PIPE)
        self.assertEqual(done.stdout.decode().strip(), str(qemu.TOP))

    def test_signals_end_commands_and_their_children(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), self.begin() as runner:
                assert runner.stdout is not None
                child = int(runner.stdout.readline())
                runner.send_signal(number)
                runner.wait(60)
                self.assertEqual(runner.returncode, 130)
                self.assertTrue(has_ended(child))

    def begin(self) -> subprocess.Popen[bytes]:
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(qemu.TOP / "tools/vm"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen([sys.executable, "-c", RUN], env=environ, stdout=subprocess.PIPE)
