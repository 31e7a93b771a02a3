# SPDX-License-Identifier: GPL-2.0
"""The rounds of `make soak`, with commands that print what the real ones print."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import soak

OK = "ok    build.probe    1.0 s\nok    {}    61.0 s\nlogs in {}\n2 passed, 0 failed\n"
FAILED = "FAIL  {}    61.0 s  status 1\n      FAIL: the server fails\nlogs in {}\n1 passed, 1 failed\n"
SEED = "  4.000 worker 0  close: 8\nseed 7: panicked at src/peer.rs:185:9:\na Call was not answered\nrepeat with: make sim SEED=7\n"


class SoakTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "soak"
        self.logs = Path(folder.name) / "logs"
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        # What a command prints and returns, if not what a round that passes does.
        self.failing: dict[str, str] = {}

    def run_command(self, command: list[str], variables: dict[str, str]) -> tuple[int, str]:
        self.calls.append((command, variables))
        what = variables.get("TESTS") or command[1]
        if output := self.failing.get(what):
            return 1, output.format(what, self.logs)
        return 0, f"{command[-1]} seeds, 400 Calls answered, 6 seconds\n" if what == "sim" else OK.format(what, self.logs)

    def soak(self, rounds: int) -> tuple[int, str]:
        """Makes rounds; returns the exit status and what was printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run = soak.Soak(self.folder, 10, self.run_command)
            for _ in range(rounds):
                run.round()
            return run.finish(), printed.getvalue()

    def summary(self) -> dict[str, object]:
        content: dict[str, object] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return content

    def test_rounds_alternate_and_are_counted(self) -> None:
        status, printed = self.soak(6)
        self.assertEqual(
            [variables.get("TESTS") or command[-2] for command, variables in self.calls],
            ["1", "wire.fuzz", "11", "life.device-removal", "21", "life.upgrade"],
        )
        self.assertEqual(status, 0)
        totals = "1,200 simulated Calls, 30 seeds, 20,000 fuzzed messages, 10 removals, 10 replacements, 0 failures"
        self.assertEqual(printed, f"6 rounds: {totals}\n")
        self.assertEqual(self.summary()["outcome"], "good")

    def test_next_soak_goes_on(self) -> None:
        self.soak(1)
        self.soak(6)
        self.assertEqual([command[-2] for command, _ in self.calls if command[1:2] == ["sim"]], ["1", "11", "21", "31"])
        fuzz = [variables["WITH"] for _, variables in self.calls if variables.get("TESTS") == "wire.fuzz"]
        self.assertEqual(fuzz, ["COUNT=20000 WARM=1000 SEED=2"])
        self.soak(1)
        self.assertEqual(self.calls[-1][1]["WITH"], "COUNT=20000 WARM=1000 SEED=5")
        self.assertEqual(self.summary()["rounds"], 8)

    def test_failing_seed(self) -> None:
        self.failing["sim"] = SEED
        status, printed = self.soak(1)
        self.assertEqual(status, 1)
        self.assertIn("FAIL  seed 7: panicked at src/peer.rs:185:9:\n      repeat with: make sim SEED=7\n", printed)
        self.assertEqual((self.folder / "seed-7").read_text(encoding="utf-8"), SEED)
        # The next soak goes on behind the seed, and does not forget it.
        self.failing.clear()
        self.assertEqual(self.soak(2)[0], 1)
        self.assertEqual(self.calls[-1][0][-2:], ["8", "10"])
        self.assertEqual(self.summary()["outcome"], "finding")

    def test_failing_test(self) -> None:
        (self.logs / "wire.fuzz/vm1").mkdir(parents=True)
        (self.logs / "wire.fuzz/vm1/console.log").write_text("BUG\n", encoding="utf-8")
        self.failing["wire.fuzz"] = FAILED
        status, printed = self.soak(2)
        self.assertEqual(status, 1)
        self.assertIn('repeat with: make test TESTS=wire.fuzz WITH="COUNT=20000 WARM=1000 SEED=2"\n', printed)
        self.assertEqual((self.folder / "wire.fuzz-0.logs/vm1/console.log").read_text(encoding="utf-8"), "BUG\n")
        self.assertIn("FAIL: the server fails", (self.folder / "wire.fuzz-0").read_text(encoding="utf-8"))
        self.assertIn("0 fuzzed messages, 0 removals, 0 replacements, 1 failures", printed)

    def test_build_that_fails_is_no_passed_round(self) -> None:
        self.failing["wire.fuzz"] = "FAIL  build.7.3    3.0 s\nlogs in {1}\n0 passed, 2 failed\n"
        self.assertEqual(self.soak(2)[0], 1)

    def test_simulator_that_cannot_run_ends_the_soak(self) -> None:
        self.failing["sim"] = "error: could not compile"
        with self.assertRaises(SystemExit):
            self.soak(1)
        self.assertFalse((self.folder / "state.json").exists())

    def test_without_time_nothing_runs(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(soak.main(["--state", str(self.folder), "0"]), 0)
        self.assertTrue(printed.getvalue().startswith("0 rounds: 0 simulated Calls"))


if __name__ == "__main__":
    unittest.main()
