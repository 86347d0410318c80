"""What type checkers say of the package (strictly) and of programs that use it.

check_types.py mypy ROOT
check_types.py pyright NODE FOLDER: NODE runs pyright in FOLDER. Exit code 77: it, or PyTorch, is not there.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = '''# pyright: strict
import volador

class Counter(volador.Actor):
    def __init__(self, start: int) -> None:
        self.value = start

    @volador.method
    def add(self, amount: int) -> int:
        self.value += amount
        return self.value

@volador.task
def square(x: int) -> float:
    return float(x * x)

@volador.task(num_cpus=2)
def text(x: float) -> str:
    return str(x)

counter = Counter.remote(10)
reveal_type(counter)  # Counter
reveal_type(counter.add.remote(5))  # Future[int]
reveal_type(counter.add.remote(5).result())  # int
reveal_type(Counter.options(num_cpus=2).remote(1))  # Counter
reveal_type(square.remote(2))  # Future[float]
reveal_type(square(2))  # float
reveal_type(text.remote(square.remote(2).arg))  # Future[str]
reveal_type(volador.get([square.remote(2)]))  # list[float]
reveal_type(volador.get(square.remote(2)))  # float
reveal_type(volador.put([1]).get())  # list[int]
async def main() -> None:
    reveal_type(await square.remote(2))  # float
counter.add.remote("5")  # error
counter.add.remote()  # error
Counter.remote("x")  # error
square.remote(2, 3)  # error
'''


# Classes whose bases are of libraries without types.
UNTYPED_BASES = ("volador.compat.determined.keras.", "volador.util.joblib.VoladorBackend")


def mypy(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null", *arguments],
                          capture_output=True, text=True, **options)


def mypy_of(program):
    """(line, "error" or the revealed type)."""
    for line in mypy(str(program)).stdout.splitlines():
        match = re.match(r".*program\.py:(\d+): (error|note): (.*)", line)
        if match:
            revealed = re.match(r'Revealed type is "(.*)"', match[3])
            yield int(match[1]), match[2] if revealed is None else re.sub(r"(volador\.\w+\.|program\.|builtins\.)", "", revealed[1])


def pyright(*arguments):
    return json.loads(subprocess.run([sys.argv[2], f"{sys.argv[3]}/basedpyright/index.js", "--outputjson", *arguments], capture_output=True, text=True).stdout)


def pyright_of(program):
    """As mypy_of()."""
    for said in pyright(str(program))["generalDiagnostics"]:
        revealed = re.match(r'Type of ".*" is "(.*)"', said["message"])
        if said["severity"] != "warning":  # Style.
            yield said["range"]["start"]["line"] + 1, said["severity"] if revealed is None else revealed[1]


def incomplete():
    """Names of the package whose types pyright does not know in full."""
    symbols = pyright("--verifytypes", "volador", "--ignoreexternal")["typeCompleteness"]["symbols"]
    if len(symbols) < 1000:
        yield f"only {len(symbols)} names are found"
    for symbol in symbols:
        if not (symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]) and not symbol["name"].startswith(UNTYPED_BASES):
            yield f"{symbol['name']}: {[each['message'] for each in symbol['diagnostics']]}"


def package_by_mypy():
    package = mypy("--package", "volador", cwd=sys.argv[2])
    yield from (package.stdout + package.stderr).splitlines()
    if package.returncode:
        yield f"exit code {package.returncode}"


def program_by(checker):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM)
        said = {}
        for number, what in checker(program):
            said.setdefault(number, []).append(what)
    for number, line in enumerate(PROGRAM.splitlines(), start=1):
        expected = line.partition("  # ")[2]
        here = said.get(number, [])
        if not ("error" in here if expected == "error" else here == [expected] * bool(expected)):
            yield f"program.py:{number}: {line}: expected {expected or 'nothing'}, got {here}"


def main():
    if sys.argv[1] == "mypy":
        findings = [*package_by_mypy(), *program_by(mypy_of)]
    elif len(sys.argv) > 3 and pathlib.Path(sys.argv[3], "basedpyright").is_dir() and importlib.util.find_spec("torch"):
        findings = [*incomplete(), *program_by(pyright_of)]
    else:
        return 77
    print(*findings, sep="\n")
    return 1 if findings else 0


sys.exit(main())
