"""One measurement at a time on a machine, and none that outlives its workflow."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil

from fourcells.session import WORKFLOW

# The same file for every user and checkout, whatever TMPDIR says: it stands for the machine.
LOCK = Path("/tmp/four-cells.lock")
# Names another lock file, for tests that must not wait for the machine's own.
LOCK_VARIABLE = "FOUR_CELLS_LOCK"

POLL_S = 1.0
PR_SET_PDEATHSIG = 1


@contextmanager
def exclusive(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the machine; waits for whoever holds it, and says for whom.

    The kernel gives the lock back when the process ends, however it ends.

    Args:
        name: what is being measured, for those who wait.
        say: told once for each holder that is waited for.
    """
    with os.fdopen(_open_lock(), "r+") as file:
        told = None
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another measurement"
                if holder != told:
                    say(f"waiting for the machine: {holder}")
                    told = holder
                time.sleep(POLL_S)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        _note(file, f"process {os.getpid()} measures {name} in {Path.cwd()} since {since}")
        try:
            yield
        finally:
            _note(file, "")


def _open_lock() -> int:
    """The lock file, made for all users if it is not there."""
    path = os.environ.get(LOCK_VARIABLE, LOCK)
    try:
        # Without O_CREAT, with which the kernel refuses another user's file in a sticky folder.
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.fchmod(descriptor, 0o666)  # whatever the umask
        return descriptor


def _note(file, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def end_with_workflow(say: Callable[[str], None]) -> None:
    """Ends this process and its children soon after the workflow that started it has died.

    Killed with -9, Snakemake leaves its jobs running: an orphan would hold the machine, disturb the
    next measurement and replace its result. Does nothing without a workflow.
    """
    pid = os.environ.get(WORKFLOW)
    if not pid:
        return
    try:
        workflow = psutil.Process(int(pid))
    except psutil.NoSuchProcess:
        workflow = None

    def watch() -> None:
        # psutil compares start times too, so that another process with the same id does not count
        while workflow and workflow.is_running() and workflow.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_S)
        say("the workflow has ended: this measurement ends too, and nothing of it is kept")
        for child in psutil.Process().children(recursive=True):
            child.kill()
        os._exit(1)

    threading.Thread(target=watch, name="workflow watch", daemon=True).start()


def end_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies (Linux, prctl(2))."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)
