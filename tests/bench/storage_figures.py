"""Throughput of storages: `volador storage cp` against rclone and cp alone, in one run.

storage_figures.py [MIB]: a folder of 48 files of together MIB (200 by default) goes to a server of S3 and back. The server is versitygw where PATH has it,
else moto (scripts/setup_storage.sh). Each is the best of three. Environment: VOLADOR_BIN, the folder of the programs.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "integration"))
import storage_test  # noqa: E402

FILES, ROUNDS = 48, 3


def best(command, environment, before):
    seconds = []
    for _ in range(ROUNDS):
        before()
        begin = time.monotonic()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        seconds.append(time.monotonic() - begin)
    return min(seconds)


def main():
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    work = pathlib.Path(tempfile.mkdtemp(prefix="vb-", dir="/tmp"))
    gateway = shutil.which("versitygw")
    if gateway:
        server = storage_test.Server([gateway, "--access", "AKIDTEST", "--secret", "s3cr3t", "--port", "127.0.0.1:{port}", "posix", "{folder}"], storage_test.free_port())
        pathlib.Path(server.folder, "models").mkdir()
    else:
        server = storage_test.moto()
    try:
        made, back = work / "made", work / "back"
        made.mkdir()
        for number in range(FILES):
            (made / f"part-{number:02}").write_bytes(os.urandom(mib * (1 << 20) // FILES))
        endpoint = f"http://127.0.0.1:{server.port}"
        volador = str(storage_test.BIN / "volador")
        own = {**os.environ, "VOLADOR_RCLONE": str(storage_test.RCLONE), "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}
        raw = {**own, "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_A_TYPE": "s3", "RCLONE_CONFIG_A_PROVIDER": "Other", "RCLONE_CONFIG_A_ENV_AUTH": "true",
               "RCLONE_CONFIG_A_ENDPOINT": endpoint, "RCLONE_CONFIG_A_NO_CHECK_BUCKET": "true"}
        rclone = str(storage_test.RCLONE)
        place = f"s3://models/ours?endpoint={endpoint}"

        def clean(path):
            shutil.rmtree(path, ignore_errors=True)

        def purge(key):
            subprocess.run([rclone, "purge", f"a:models/{key}"], env=raw, check=False, stderr=subprocess.DEVNULL)

        rows = [
            ("S3, store", best([volador, "storage", "cp", made, place], own, lambda: purge("ours")),
             best([rclone, "copy", made, "a:models/raw/"], raw, lambda: purge("raw"))),
            ("S3, read", best([volador, "storage", "cp", place, back], own, lambda: clean(back)),
             best([rclone, "copy", "a:models/raw/", back], raw, lambda: clean(back))),
            ("folder, store", best([volador, "storage", "cp", made, f"file://{work}/folder/ours"], own, lambda: clean(work / "folder")),
             best(["sh", "-c", f"cp -r {made} {work}/raw && sync -f {work}/raw"], own, lambda: clean(work / "raw"))),
        ]
        print(f"{'':16}{'ours MB/s':>12}{'alone MB/s':>12}{'ours / alone':>14}   {'versitygw' if gateway else 'moto'}, {mib} MiB in {FILES} files")
        for name, ours, alone in rows:
            print(f"{name:16}{mib * 1.048576 / ours:12.0f}{mib * 1.048576 / alone:12.0f}{alone / ours:14.2f}")
    finally:
        server.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
