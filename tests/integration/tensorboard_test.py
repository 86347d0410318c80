"""Event files of a real run, read back with TensorBoard's own reader: curves, histograms, images, parameters.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the program or TensorBoard (scripts/setup_tensorboard.sh) is not
there.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402

pypi_folder.require("tensorboard", "TensorBoard", BIN / "tensorboard_trials")

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402
from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: E402


def png_rows(png):
    """Height, width and unfiltered lines of an 8-bit RGB image, by another decoder than the one that wrote it."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + data) == struct.unpack(">I", png[at + 8 + size : at + 12 + size])[0]
        chunks[kind] = chunks.get(kind, b"") + data
        at += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 2)
    lines = zlib.decompress(chunks[b"IDAT"])
    row = 1 + 3 * width
    assert len(lines) == row * height and all(lines[i] == 0 for i in range(0, len(lines), row))
    return width, height, [lines[i + 1 : i + row] for i in range(0, len(lines), row)]


class EventFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory(prefix="vt-", dir="/tmp")
        environment = {**os.environ, "HOME": cls.home.name, "VOLADOR_HOME": cls.home.name + "/volador"}
        for name in ("VOLADOR_ADDRESS", "VOLADOR_TOKEN"):
            environment.pop(name, None)
        ran = subprocess.run([BIN / "tensorboard_trials", cls.home.name], env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        (cls.folder,) = pathlib.Path(ran.stdout.strip()).glob("trial_*")
        everything = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)
        cls.events = event_accumulator.EventAccumulator(str(cls.folder), size_guidance=everything)
        cls.events.Reload()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def test_curves_are_those_of_result_json(self):
        results = [json.loads(line) for line in (self.folder / "result.json").read_text().splitlines()]
        self.assertEqual([(one.step, round(one.value, 5)) for one in self.events.Scalars("loss")],
                         [(row["training_iteration"], round(row["loss"], 5)) for row in results])
        self.assertEqual(len(results), 3)

    def test_a_histogram_a_step_with_its_values_in_buckets(self):
        histograms = self.events.Histograms("layer/weights")
        self.assertEqual([one.step for one in histograms], [1, 2, 3])
        for one in histograms:
            value = one.histogram_value
            self.assertAlmostEqual(value.min, one.step)
            self.assertAlmostEqual(value.max, one.step + 6)
            self.assertEqual(value.num, 61)
            self.assertAlmostEqual(value.sum, 61 * (one.step + 3))
            self.assertEqual(sum(value.bucket), 61)
            self.assertEqual(len(value.bucket), len(value.bucket_limit))
            self.assertEqual(sorted(value.bucket_limit), list(value.bucket_limit))

    def test_an_image_a_step_as_it_was_drawn(self):
        images = self.events.Images("sample")
        self.assertEqual([one.step for one in images], [1, 2, 3])
        for one in images:
            self.assertEqual((one.width, one.height), (2 + one.step, 2))
            width, height, rows = png_rows(one.encoded_image_string)
            self.assertEqual((width, height), (2 + one.step, 2))
            self.assertEqual(rows[0][:6], bytes([0, one.step, 255, 10, one.step, 255]))
            self.assertEqual(rows[1][:3], bytes([10 * width, one.step, 255]))

    def test_the_parameters_and_the_end_of_the_trial(self):
        said = self.events.summary_metadata
        start = plugin_data_pb2.HParamsPluginData.FromString(said["_hparams_/session_start_info"].plugin_data.content).session_start_info
        self.assertEqual(start.hparams["lr"].number_value, json.loads((self.folder / "params.json").read_text())["lr"])
        end = plugin_data_pb2.HParamsPluginData.FromString(said["_hparams_/session_end_info"].plugin_data.content).session_end_info
        self.assertEqual(end.status, 1)


if __name__ == "__main__":
    unittest.main()
