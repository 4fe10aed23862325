"""What was checked, as lines while it runs and as a summary in the end; and waiting with a deadline."""

import time
import traceback

# Between two looks at a condition that is waited for.
LOOK_EVERY_S = 0.2


class Failed(Exception):
    """What was asked for is not so, and what follows needs it."""


def until(seconds, what, look):
    """The first answer of `look` that counts as true, within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(LOOK_EVERY_S)


class Report:
    """Counts checks; one that fails does not keep the others from being made."""

    def __init__(self):
        self.began = time.monotonic()
        self.passed, self.failures, self.times = 0, [], []

    def ok(self, what):
        self.passed += 1
        print(f"ok   {what}", flush=True)

    def fail(self, what, detail=""):
        self.failures.append(what)
        print(f"FAIL {what}" + (f"\n     {detail}" if detail else ""), flush=True)

    def check(self, what, holds, detail=""):
        """Whether it holds, which is counted and printed."""
        if holds:
            self.ok(what)
        else:
            self.fail(what, detail)
        return bool(holds)

    def same(self, what, seen, wanted):
        if isinstance(wanted, (str, int)) and not isinstance(wanted, bool):
            what = f"{what} → {wanted}"
        return self.check(what, seen == wanted, f"{seen!r} instead of {wanted!r}")

    @staticmethod
    def say(what):
        """What is not a check: above all what is done otherwise than on AWS."""
        print(f"     {what}", flush=True)

    def step(self, name, run, *args):
        """Runs a part; what it raises is a failure of that part only. Answers what it answered, or None."""
        began = time.monotonic()
        print(f"\n{name}", flush=True)
        try:
            return run(*args)
        except Failed as failed:
            self.fail(f"{name}: {failed}")
        except Exception:  # pylint: disable=broad-except
            self.fail(f"{name}: could not go on", traceback.format_exc().replace("\n", "\n     "))
        finally:
            self.times.append((name, time.monotonic() - began))
        return None

    def summary(self):
        """The exit status."""
        print("\nSeconds: " + " · ".join(f"{name.lower()} {seconds:.0f}" for name, seconds in self.times))
        total = time.monotonic() - self.began
        print(f"{self.passed} checks passed, {len(self.failures)} failed, {total:.0f} s")
        for what in self.failures:
            print(f"FAIL {what}")
        return 1 if self.failures else 0
