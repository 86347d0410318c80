"""Connects its terminal with a debugger of a host (volador._debug). Started by the host, with the debuggers to choose from:
_debug_client.py FOLDER [NAME THREAD PLACE]…"""

import json
import os
import queue
import socket
import sys
import threading


def main() -> int:
    folder = sys.argv[1]
    debuggers = [(sys.argv[at], sys.argv[at + 1], sys.argv[at + 2]) for at in range(2, len(sys.argv), 3)]
    name = debuggers[0][0] if len(debuggers) == 1 else choose(debuggers)
    if not name:
        print("\nnone is chosen; the calls wait")
        return 0
    connection = socket.socket(socket.AF_UNIX)
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{at}/{name}")
    except OSError as error:
        print(f"the debugger has ended: {error.strerror}")
        return 1
    try:
        import readline  # Gives input() history and editing.

        readline.parse_and_bind("set enable-bracketed-paste off")
    except ImportError:
        pass
    print("c continues the call, q ends it with an error, h lists the commands; Ctrl-D detaches and leaves it waiting.")
    prompts: queue.Queue[str] = queue.Queue()
    threading.Thread(target=receive, args=(connection, prompts), daemon=True).start()
    prompt = prompts.get()
    while True:
        try:
            line = input(prompt)
        except EOFError:
            print("\ndetached; the call waits")
            return 0
        except KeyboardInterrupt:
            print("^C")
            continue
        connection.sendall(json.dumps({"line": line}).encode() + b"\n")
        prompt = prompts.get()


def choose(debuggers: "list[tuple[str, str, str]]") -> str:
    """The name of the debugger that the user chooses; empty: none."""
    print(f"{len(debuggers)} threads wait:")
    for number, (_, thread, place) in enumerate(debuggers, start=1):
        print(f"  {number}  thread {thread}  {place}")
    while True:
        try:
            answer = input(f"attach to (1 to {len(debuggers)}, or a thread): ").strip()
        except EOFError:
            return ""
        except KeyboardInterrupt:
            print("^C")
            continue
        for number, (name, thread, _) in enumerate(debuggers, start=1):
            if answer in (str(number), thread):
                return name
        print(f"expected a number of 1 to {len(debuggers)}, or a thread of the list, got {answer!r}")


def receive(connection: socket.socket, prompts: "queue.Queue[str]") -> None:
    why = "the process of the debugger has ended"
    for line in connection.makefile("rb"):
        message = json.loads(line)
        if "write" in message:
            sys.stdout.write(message["write"])
            sys.stdout.flush()
        elif "read" in message:
            prompts.put(message["read"])
        else:
            why = message["end"]
            break
    sys.stdout.write(f"{why}\n")
    sys.stdout.flush()
    os._exit(0)  # The main thread may wait for a line.


if __name__ == "__main__":
    sys.exit(main())
