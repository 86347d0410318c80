"""Prints "N passed, N failed, N skipped" for folders of test results, and exits with 1 where anything failed.

count_tests.py STEPS-FAILED FOLDER…
A folder holds ctest.xml (ctest --output-junit) and cases/*.xml, one file a GoogleTest binary, named as its ctest entry. Where a binary
left its file its cases are counted, else its ctest entry. An entry that failed although no case did (a sanitizer's report at its end,
a crash) counts as one failure. Entries that NAME-again has too, the folder of a second run, are counted there and not in NAME.
"""

import pathlib
import sys
import xml.etree.ElementTree as tree


def count_cases(file):
    passed = failed = skipped = 0
    for case in tree.parse(file).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def entries_of(folder):
    report = folder / "ctest.xml"
    return list(tree.parse(report).getroot().iter("testcase")) if report.exists() else []


def count_folder(folder):
    passed = failed = skipped = 0
    counted_elsewhere = {entry.get("name") for entry in entries_of(folder.with_name(folder.name + "-again"))}
    for entry in entries_of(folder):
        if entry.get("name") in counted_elsewhere:
            continue
        cases = folder / "cases" / (entry.get("name") + ".xml")
        entry_failed = entry.get("status") == "fail"
        entry_skipped = entry.get("status") in ("notrun", "disabled")
        if cases.exists():
            try:
                p, f, s = count_cases(cases)
            except tree.ParseError:
                p, f, s = 0, 1, 0
            if entry_failed and f == 0:
                f = 1
        else:
            p, f, s = (0, 0, 1) if entry_skipped else (0, 1, 0) if entry_failed else (1, 0, 0)
        passed, failed, skipped = passed + p, failed + f, skipped + s
    return passed, failed, skipped


def main():
    steps_failed = int(sys.argv[1])
    totals = [sum(column) for column in zip((0, 0, 0), *(count_folder(pathlib.Path(name)) for name in sys.argv[2:]))]
    passed, failed, skipped = totals
    if steps_failed and not failed:
        failed = steps_failed
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed or not passed else 0)


main()
