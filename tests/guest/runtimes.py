# Runs modules of python's own tests, one TAP line each, in one interpreter.
#
# Interface: runtimes.py FIRST MODULE...: the first line has the number FIRST; a MODULE is as `unittest` takes it, `-NAME` before it leaves out whatever has NAME in its name.
import io, os, sys, tempfile, time, unittest
from test import support

# No network but loopback, nothing that takes long only because it is large.
support.use_resources = []
support.verbose = False


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


# Processes that are started afresh read this file too.
if __name__ == "__main__":
    number = int(sys.argv[1])
    left_out = []
    os.chdir(tempfile.mkdtemp())
    for name in sys.argv[2:]:
        if name.startswith("-"):
            left_out.append(name[1:])
            continue
        began = time.monotonic()
        said = io.StringIO()
        try:
            tests = unittest.defaultTestLoader.loadTestsFromName("test." + name)
        except unittest.SkipTest as skipped:
            print(f"not ok {number} python: {name}\n# {skipped}", flush=True)
            number += 1
            continue
        tests = unittest.TestSuite(t for t in flat(tests) if not any(part in t.id() for part in left_out))
        result = unittest.TextTestRunner(said, verbosity=0).run(tests)
        ran = result.testsRun - len(result.skipped)
        good = result.wasSuccessful() and ran > 0
        print(f"{'' if good else 'not '}ok {number} python: {name}", flush=True)
        print(f"{name}: {ran} of {result.testsRun} tests, {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        if not good:
            for test, trace in result.failures + result.errors + result.unexpectedSuccesses:
                print(f"# {test}: " + " | ".join(trace.strip().splitlines()[-4:]), flush=True)
        number += 1
        left_out = []
