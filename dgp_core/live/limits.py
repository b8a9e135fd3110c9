"""What a server gives to each visitor and to all of them, each figure with its reason.

Files have their own limits in `dgp_core.tables.limits`.
"""

import os
from contextlib import suppress

PROCESS = int(os.environ.get("DGP_ROOM_PROCESS") or 1)
PROCESSES = int(os.environ.get("DGP_ROOM_PROCESSES") or 1)
"""Which process this is, of how many that share the machine: see `make class PROCESSES=4`."""


def _memory() -> int:
    """Bytes of memory that this machine has for each process; a modest guess where the system is
    mute."""
    total = 8 * 2**30
    with suppress(AttributeError, OSError, ValueError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return total // PROCESSES


# Runs.

IDLE_SECONDS = 30.0
"""A run that nobody has watched for so long is paused: longer than a reload takes. It is the first
to go where others need its memory, and goes at once where its lesson was left …"""

GONE_SECONDS = 30 * 60.0
"""… and after so long it goes in any case: a coffee break is no end."""

MOST_RUNS = 64
"""Seats: runs that somebody watches, and that train by turns; more wait in a queue. With more, each
would have less than two turns a second on two cores."""

MOST_QUEUED = 200
"""Runs that wait for a seat: for more, the wait would be longer than a lesson."""

MOST_OWNED = 8
"""Runs of one browser: a lesson with the most of them, and a playground beside it."""

MOST_CELLS = 60_000_000
"""Rows times columns of one run's data: 1.4 GB in three copies."""

MOST_BYTES = min(8 * 2**30, _memory() // 2)
"""What all runs together may hold; the other half is for JAX, Streamlit, pictures and uploads."""

MOST_IDLE_BYTES, LEFT_BEHIND_SECONDS = MOST_BYTES // 64, 5 * 60.0
"""What those that nobody watches may hold, and for how long a run is spared where they hold more:
what visitors leave behind does not grow with their number. 128 MB on a machine of 16 GB are some 60
of them, thinned as below."""

IDLE_MOMENTS = 32
"""Of its history that a run keeps while nobody watches it: enough to see how it came to be."""

# Browsers.

MOST_SOCKETS = 4
"""Sockets of one viewer, which is a tab: one, and those that a bad network has not closed yet."""

MESSAGE_BYTES = 4096
"""The longest message of a stage's socket: the browser's own have at most 300 bytes."""

LEFT_SECONDS, LEFT_LOOK_SECONDS = 50.0, 5.0
"""A session whose socket has been gone for so long is over, and its rows with it; and how often it
is looked at. A blip of the network is no end. A tab that closes tells so at once; a computer that
is switched off is found out by two pings, 30 seconds each: under two minutes in all."""

BURST = 200.0
"""What a browser may ask at once, in stage messages, of which a script's run costs 5 and an upload
10: a page that opens asks for about 30."""

RATE = 50.0
"""… and each second from then on: two tabs that drag tell of 20 moves and acknowledge 20 frames."""

MOST_OPEN = 40
"""Sockets of one browser: a tab has two, one of them Streamlit's."""

BROWSERS = 40
"""Browsers behind one address: a class behind one router has so many times as much as a browser."""

MOST_KNOWN = 20_000
"""Budgets that are kept: far more than browsers that a server carries. The oldest go first, which
are full again by then."""

COSTS = {"/_stcore/stream": 5.0, "/_stcore/upload_file/": 10.0, "/early": 2.0}
"""What a request or message takes of a budget, by its path; all others take 1. A run of a page's
script, a picture and above all a file are more work than a message that says where a mouse is."""

SOCKET_COST = 5.0
"""What a socket takes as it opens: as a script's run, since it asks for a whole picture."""

COOKIE_SECONDS = 24 * 3600
"""How long a browser is known: nobody's run lasts longer than a day."""

TOKEN_SECONDS = 30 * 60.0
"""A viewer who has neither socket nor script run for so long is forgotten: as a run is."""

MOST_CLASSES, MOST_VOTES = 1000, 2000
"""Classes that are remembered, the one that was not used for longest forgotten first, and hands for
one question: both far more than a server carries."""

# First pictures, painted before Streamlit has started.

MOST_KEPT = 64
"""Answers, each of two moments in one look: 110 kB of the playground's first."""

MOST_WAITING = 30
"""Browsers that wait for one, which are painted one at a time; others do without, since a first
picture that comes late is none."""

# Uploads.

SESSION_UPLOAD_BYTES = 1_000_000_000
"""All files of a session that wait to be read: one of the largest that the app takes."""

SERVER_UPLOAD_BYTES = min(4 * 2**30, _memory() // 4)
"""… and of all sessions together: a quarter of the memory. A file is never written to the disk, and
held twice for the moment in which it has arrived."""

# Frames.

FRAME_SECONDS = 0.1
"""Between two frames at least: a browser draws no more than about ten a second."""

SEND_SECONDS = 0.005
"""… and for each browser that is sent them: 30 have 6 or 7 a second."""

SHARE = 0.5
"""Of one core's time that painting may take, however many runs are watched: the rest trains."""

SWITCH_SECONDS = 0.001
"""After which a Python thread makes room for another; five times as often as by default. A frame
goes through three threads, and with three busy ones beside them (other visitors' scripts, a file
that is read) it gets through 2.7 times as often."""

# The room.

MOST_WRONG, WRONG_SECONDS = 10, 60.0
"""Wrong words of one address, in so many seconds: a short word would be found by trying."""

EMBED = os.environ.get("DGP_EMBED", "")
"""Sites whose pages may embed this one, with blanks between: https://course.example; * is all. None
by default: a page that frames this one could have its visitors click on what they do not see."""
