"""What type checkers say of the package (strictly) and of programs that use it.

check_types.py ROOT
"""

import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = '''
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


def mypy(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null", *arguments],
                          capture_output=True, text=True, **options)


def main():
    root = pathlib.Path(sys.argv[1])
    package = mypy("--package", "volador", cwd=root)
    print(package.stdout, package.stderr)
    wrong = package.returncode
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM)
        said = {}
        for line in mypy(str(program)).stdout.splitlines():
            match = re.match(r".*program\.py:(\d+): (error|note): (.*)", line)
            if match:
                said.setdefault(int(match[1]), []).append((match[2], match[3]))
        for number, line in enumerate(PROGRAM.splitlines(), start=1):
            expected = line.partition("  # ")[2]
            here = said.get(number, [])
            if expected == "error":
                good = any(kind == "error" for kind, _ in here)
            elif expected:
                revealed = [re.sub(r"(volador\.\w+\.|program\.|builtins\.)", "", text) for _, text in here]
                good = revealed == [f'Revealed type is "{expected}"']
            else:
                good = not any(kind == "error" for kind, _ in here)
            if not good:
                print(f"program.py:{number}: {line}: expected {expected or 'no error'}, got {here}")
                wrong = 1
    return 1 if wrong else 0


sys.exit(main())
