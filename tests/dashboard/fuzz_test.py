"""Requests made up from openapi.json by schemathesis, against a real head: nothing is answered with 500, and answers are what the file says.

Environment: VOLADOR_BIN, the folder of the programs; FUZZ_SECONDS, 20 where not given; FUZZ_SEED, 1 where not given. Exit code 77 where the binary or schemathesis
(scripts/setup_schemathesis.sh) is not there.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import contract_test
from set_up import BIN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402

# Omitted: signing in, which would guess tokens; that valid data is accepted, since the schema cannot describe spaces, searchers and filters; and
# wrong tokens, twenty of which block this machine for a minute (contract_test.py tries every route with them).
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,"
          "missing_required_header,unsupported_method,allow_header_conformance,use_after_free")

# 503 is an answer for requests that can be made again, such as the stack of an actor that has no process yet. Nothing else above 499 is one.
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""

# Descriptions of lambdas, for which Hypothesis parses whole files again and again, are left out: in Python 3.11 that ends now and then with
# "AST constructor recursion depth mismatch" (cpython issue 106905).
RUN = """
import runpy
from hypothesis.internal import lambda_sources
lambda_sources.lambda_description = lambda function: "lambda"
runpy.run_module("schemathesis.cli", run_name="__main__", alter_sys=True)
"""


class Fuzz(contract_test.Cluster):
    def test_no_request_is_too_odd(self):
        document = self.viewer.get("/api/v1/openapi.json")
        path = pathlib.Path(self.home) / "openapi.json"
        path.write_text(json.dumps(document))
        config = pathlib.Path(self.home) / "schemathesis.toml"
        config.write_text(CONFIG)
        self.volador("study", "create", "digits", '--space={"lr": {"uniform": [0, 1]}}', "--objective=loss:min")
        self.volador("study", "ask", "digits")
        done = subprocess.run([sys.executable, "-c", RUN, f"--config-file={config}", "run", path, f"--url=http://127.0.0.1:{self.port}",
                               f"--header=Authorization: Bearer {self.tokens['operator']}", "--workers=1", f"--seed={os.environ.get('FUZZ_SEED', '1')}",
                               f"--max-time={os.environ.get('FUZZ_SECONDS', '20')}", f"--checks={CHECKS}", "--continue-on-failure", "--generation-database=none",
                               "--exclude-path=/api/v1/session", "--no-color", "--warnings=off"],
                              env={**self.environment, "PYTHONPATH": pypi_folder.find("schemathesis")}, cwd=self.home, capture_output=True, text=True, timeout=180, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr)
        self.assertIn("Test cases:", done.stdout)
        # The head is well, and has no word of an error in its log.
        self.volador("study", "list")
        (log,) = pathlib.Path(self.home).glob("**/head/head.log")
        self.assertEqual([line for line in log.read_text(errors="replace").splitlines() if " error " in line], [])


if __name__ == "__main__":
    pypi_folder.require("schemathesis", "schemathesis", BIN / "volador")
    unittest.main(warnings="ignore")
