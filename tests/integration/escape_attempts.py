"""Runs in an isolated job and tries to leave it. Prints a JSON line for each attempt: its name, and why it was denied, null if it succeeded.

escape_attempts.py SETTINGS: a JSON file with what the test has made outside: a folder, a process, sockets, a key, memory.
"""

import ctypes
import errno
import fcntl
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import sys
import termios

LIBC = ctypes.CDLL(None, use_errno=True)
OUTSIDE = json.loads(pathlib.Path(sys.argv[1]).read_text())
PID = OUTSIDE["pid"]
ATTEMPTS = {}
SPACE = ctypes.create_string_buffer(64)


def attempt(name):
    def keep(function):
        assert name not in ATTEMPTS, name
        ATTEMPTS[name] = function
        return function
    return keep


def call(number, *arguments):
    """A system call by its number on x86-64; raises OSError."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def write(path, text=b"1\n", flags=os.O_WRONLY):
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        return file.read(64)


# ---- files ----
for target in ("/etc/volador-escape", "/usr/bin/volador-escape", "/volador-escape", "/root/volador-escape", "/var/volador-escape"):
    attempt(f"create {target}")(lambda target=target: write(target, flags=os.O_WRONLY | os.O_CREAT))
attempt("append to /etc/passwd")(lambda: write("/etc/passwd", b"x\n", os.O_WRONLY | os.O_APPEND))
attempt("delete /etc/passwd")(lambda: os.unlink("/etc/passwd"))
attempt("rename /etc")(lambda: os.rename("/etc", "/etc2"))
attempt("chmod /etc/shadow")(lambda: os.chmod("/etc/shadow", 0o666))
attempt("chown /etc/passwd")(lambda: os.chown("/etc/passwd", 12345, 12345))
attempt("change the times of /etc/passwd")(lambda: os.utime("/etc/passwd", (1, 1)))
attempt("hard link to /etc/passwd")(lambda: os.link("/etc/passwd", "stolen"))
attempt("set an attribute of /etc/passwd")(lambda: os.setxattr("/etc/passwd", "user.x", b"1"))
attempt("write to a read-only mount")(lambda: write("/given/x", flags=os.O_WRONLY | os.O_CREAT))
attempt("read a file of the test in /tmp")(lambda: read(OUTSIDE["tmp_file"]))
attempt("read the tokens of the cluster")(lambda: read(OUTSIDE["token_file"]))
attempt("list the folder of the head")(lambda: os.listdir(OUTSIDE["head_folder"])[0])
attempt("read a file of another job")(lambda: read(OUTSIDE["other_job_file"]))
attempt("write a file of another job")(lambda: write(OUTSIDE["other_job_file"]))
attempt("read the shared memory of another program")(lambda: read(OUTSIDE["shm_file"]))
attempt("leave by a link in the working directory")(lambda: (os.symlink("/", "root"), write("root/etc/volador-escape", flags=os.O_WRONLY | os.O_CREAT)))
attempt("follow the root of the first process")(lambda: read(f"/proc/1/root{OUTSIDE['tmp_file']}"))
attempt("open by a file handle")(lambda: call(304, -100, ctypes.create_string_buffer(struct.pack("IiQQ", 8, 1, 2, 0)), os.O_RDONLY))

# ---- mounts and namespaces ----
attempt("mount a tmpfs")(lambda: call(165, b"none", b"/etc", b"tmpfs", 0, b""))
attempt("remount / writable")(lambda: call(165, b"none", b"/", b"", 32 | 4096, b""))
attempt("remount a mount writable")(lambda: call(165, b"none", b"/given", b"", 32 | 4096, b""))
attempt("bind mount")(lambda: call(165, b"/proc", b"/etc", b"", 4096, b""))
attempt("unmount /given")(lambda: call(166, b"/given", 2))
attempt("pivot_root")(lambda: call(155, b"/", b"/tmp"))
attempt("chroot")(lambda: os.chroot("/tmp"))
attempt("open_tree")(lambda: call(428, -100, b"/", 1))
attempt("fsopen")(lambda: call(430, b"tmpfs", 0))
attempt("mount_setattr")(lambda: call(442, -100, b"/given", 0, ctypes.create_string_buffer(struct.pack("QQQQ", 0, 1, 0, 0)), 32))
attempt("new user namespace")(lambda: call(272, 0x10000000))
attempt("new mount namespace")(lambda: call(272, 0x00020000))
attempt("clone into a user namespace")(lambda: os._exit(0) if call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0 else None)
attempt("clone3 into a user namespace")(lambda: os._exit(0) if call(435, ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)), 64) == 0 else None)
attempt("setns")(lambda: call(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0))
attempt("change the host's name")(lambda: call(170, b"escaped", 7))

# ---- processes ----
attempt("signal a process outside")(lambda: os.kill(PID, 0))
attempt("ptrace a process outside")(lambda: call(101, 16, PID, 0, 0))
attempt("read the memory of a process outside")(lambda: call(310, PID, ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(SPACE), 8)), 1,
                                                                     ctypes.create_string_buffer(struct.pack("QQ", 0x1000, 8)), 1, 0))
attempt("open a process outside by pidfd")(lambda: call(434, PID, 0))
attempt("read the environment of a process outside")(lambda: read(f"/proc/{PID}/environ"))
attempt("list a process outside")(lambda: pathlib.Path(f"/proc/{PID}/cmdline").stat())
attempt("scheduling of a process outside")(lambda: os.sched_getaffinity(PID))
attempt("limits of a process outside")(lambda: resource.prlimit(PID, resource.RLIMIT_NOFILE))
attempt("raise a hard limit")(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (resource.getrlimit(resource.RLIMIT_NPROC)[0], 1 << 40)))
attempt("raise the priority")(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))
attempt("real-time scheduling")(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
attempt("protection from the out-of-memory killer")(lambda: write("/proc/self/oom_score_adj", b"-1000"))
attempt("attach memory of System V")(lambda: call(29, OUTSIDE["shm_key"], 64, 0))

# ---- the kernel ----
for file in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity"):
    attempt(f"write {file}")(lambda file=file: write(file))
attempt("write /sys/kernel")(lambda: write("/sys/kernel/uevent_helper"))
attempt("make a control group")(lambda: os.mkdir(next(p for p in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.isdir(p)) + "/volador-escape"))
attempt("load a module")(lambda: call(175, ctypes.create_string_buffer(b"x"), 1, b""))
attempt("bpf")(lambda: call(321, 0, ctypes.create_string_buffer(struct.pack("4I", 1, 4, 4, 1)), 16))
attempt("perf_event_open")(lambda: call(298, ctypes.create_string_buffer(struct.pack("2I", 0, 112) + bytes(104)), 0, -1, -1, 0))
attempt("read the kernel's log")(lambda: call(103, 3, ctypes.create_string_buffer(64), 64))
attempt("set the clock")(lambda: call(227, 0, ctypes.create_string_buffer(struct.pack("qq", 1, 0))))
attempt("reboot")(lambda: call(169, 0xFEE1DEAD, 672274793, 0x01234567, 0))
attempt("swapoff")(lambda: call(168, b"/nothing"))
attempt("kexec")(lambda: call(246, 0, 0, 0, 0))

# ---- keys, users, capabilities ----
attempt("read a key of the user")(lambda: call(250, 11, OUTSIDE["key"], ctypes.create_string_buffer(64), 64))
attempt("search the user's keyring")(lambda: call(250, 10, -4, b"user", b"volador-escape", 0))
attempt("add a key")(lambda: call(248, b"user", b"volador-escape-2", b"x", 1, -4))
attempt("become another user")(lambda: os.setresuid(12345, 12345, 12345))
attempt("leave the groups")(lambda: os.setgroups([0, 12345]))


@attempt("regain capabilities")
def capset():
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    call(126, header, ctypes.create_string_buffer(struct.pack("6I", 1 << 21, 1 << 21, 0, 0, 0, 0)))


@attempt("gain by a setuid program")
def setuid_program():
    status = pathlib.Path("/proc/self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if fields["NoNewPrivs"] == "1" and int(fields["CapBnd"], 16) == 0:
        raise OSError(errno.EPERM, "no new privileges, and no capability can be had")


# ---- sockets and devices ----
def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)


attempt("connect to a socket in /run")(lambda: connect(OUTSIDE["run_socket"]))
attempt("connect to a socket in /tmp")(lambda: connect(OUTSIDE["tmp_socket"]))
attempt("raw socket")(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("packet socket")(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("make a device")(lambda: os.mknod("device", 0o600 | 0o020000, os.makedev(1, 1)))
attempt("make a block device")(lambda: os.mknod("disk", 0o600 | 0o060000, os.makedev(8, 0)))
for device in ("mem", "kmsg", "port", "fuse", "kvm", "loop-control", "vda", "sda", "nvidia0"):
    attempt(f"open /dev/{device}")(lambda device=device: os.close(os.open(f"/dev/{device}", os.O_RDONLY)))


@attempt("type for the terminal")
def sti():
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSTI, b"x")


for name in OUTSIDE["only"] or ATTEMPTS:
    try:
        ATTEMPTS[name]()
        why = None
    except (OSError, ValueError, IndexError) as error:
        why = str(error)
    print(json.dumps({"attempt": name, "denied": why}), flush=True)
