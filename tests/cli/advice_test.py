"""Every command that a message of Volador advises exists, with every option that the advice gives it.

Reads the string literals of the product's sources, takes what begins with "volador COMMAND" out of them, and asks the help of that command.
What needs no cluster is run as it stands: it may fail for want of one, never for its usage.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOLADOR = pathlib.Path(os.environ["VOLADOR_BIN"]) / "volador"
FOLDERS = ["cli", "experiments", "head", "jobs", "runtime", "tune", "volador", "worker", "dashboard"]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMAND = re.compile(r"\bvolador ((?:[a-z]+)(?: [a-z]+)?)((?:[ ](?:--[a-z][a-z-]*(?:=[^\s`,;:)]*)?|<?[A-Z{][^\s`,;:)]*))*)")
OPTION = re.compile(r"--[a-z][a-z-]*")
# Titles of processes and names of threads and actors that begin so.
NO_COMMANDS = {"head", "worker", "socket", "light"}
EXIT_USAGE = 2


def run(*arguments, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOLADOR")}
    environment.update(VOLADOR_HOME=home, HOME=home)
    return subprocess.run([VOLADOR, *arguments], capture_output=True, text=True, env=environment, timeout=60, stdin=subprocess.DEVNULL)


def literals(text):
    """String literals of C++, neighbours joined as the compiler does, comments left out."""
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    joined = re.sub(r'"[ \t]*\n[ \t]*"', "", text)
    return [match.group(1).replace('\\"', '"').replace("\\n", "\n") for match in LITERAL.finditer(joined)]


def advice():
    """{(command, options): file}"""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cc", ".h") or "web" in path.parts:
                continue
            for literal in literals(path.read_text(errors="replace")):
                for match in COMMAND.finditer(literal):
                    found.setdefault((match.group(1), match.group(2)), path.relative_to(ROOT))
    return found


class Advice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.helps = {}
        cls.words = set(re.findall(r"(?m)^  ([a-z]+)\b", cls.help_of()[1]))

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    @classmethod
    def help_of(cls, *command):
        if command not in cls.helps:
            told = run(*command, "--help", home=cls.home.name)
            cls.helps[command] = (told.returncode == 0, told.stdout)
        return cls.helps[command]

    def command_of(self, words):
        """The command, and whether it exists: the second word is one only where the first is a group of commands."""
        first, *rest = words.split()
        if first not in self.words:
            return None
        groups = re.search(r"(?ms)^Subcommands:|^SUBCOMMANDS:|^Commands:", self.help_of(first)[1])
        return (first, *rest) if groups and rest else (first,)

    def test_advised_commands_and_options_exist(self):
        wrong, checked = [], 0
        for (words, options), path in advice().items():
            if words.split()[0] in NO_COMMANDS:
                continue
            command = self.command_of(words)
            known, text = self.help_of(*command) if command else (False, "")
            if not known:
                wrong.append(f"{path}: volador {words}: there is no such command")
                continue
            checked += 1
            for option in OPTION.findall(options):
                if not re.search(re.escape(option) + r"\b(?!-)", text):
                    wrong.append(f"{path}: volador {' '.join(command)} has no option {option}")
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 20, "else the sources were not read")

    def test_no_message_advises_an_option_of_no_command(self):
        """In "pass --OPTION=VALUE" an option alone belongs to some command."""
        known = set()
        for word in self.words:
            text = self.help_of(word)[1]
            known.update(OPTION.findall(text))
            for second in re.findall(r"(?m)^  ([a-z]+)\b", text):
                known.update(OPTION.findall(self.help_of(word, second)[1]))
        wrong = []
        for folder in ("head", "jobs", "runtime", "tune", "volador", "worker"):
            for path in sorted((ROOT / folder).rglob("*.cc")):
                for literal in literals(path.read_text(errors="replace")):
                    for option in re.findall(r"(?:pass|with|give|use|set|add) (--[a-z][a-z-]*)", literal):
                        if option not in known:
                            wrong.append(f"{path.relative_to(ROOT)}: {option}")
        self.assertEqual(wrong, [])

    def test_advice_that_needs_no_cluster_is_no_usage_error(self):
        """Run with the names that the advice leaves open filled in."""
        for command in (["status"], ["list", "nodes"], ["list", "actors", "--state=all"], ["list", "actors", "--state=dead"], ["list", "trials", "digits"],
                        ["list", "groups"], ["token", "list"], ["token", "create", "--role=join"], ["token", "create", "--role=driver"],
                        ["token", "create", "--role=viewer"], ["token", "create", "--role=operator"], ["memory"], ["logs", "head"], ["explain", "digits/3f2a"],
                        ["tune", "list"], ["tune", "resume", "digits"], ["stop"]):
            ended = run(*command, home=self.home.name)
            self.assertNotEqual(ended.returncode, EXIT_USAGE, f"{command}: {ended.stderr}")


if __name__ == "__main__":
    sys.exit(unittest.main())
