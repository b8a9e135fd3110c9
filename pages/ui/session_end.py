"""The end of a session: within two minutes of its tab's, nothing that it held is left.

Streamlit keeps a session whose socket is lost, lest a blip of the network end it, and looks at its
clock only when another one comes or goes. Here it is looked every few seconds.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state import SessionState

from dgp_core.live.limits import LEFT_LOOK_SECONDS, LEFT_SECONDS

log = logging.getLogger(__name__)

RESTING_LOOKS = 2
"""Looks in a row at which nobody is there: a page that is loaded anew is away for less."""


class Sessions:
    """What is to be done at the end of each session. `clock` is for tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._lock = threading.Lock()
        self._acts: dict[str, list[Callable[[], object]]] = {}
        self._left: dict[str, float] = {}
        """Since when each has no socket."""

    def at_end(self, session: str, act: Callable[[], object]) -> None:
        """Has this done when the session is over."""
        with self._lock:
            self._acts.setdefault(session, []).append(act)

    def over(self, connected: Callable[[str], bool]) -> list[str]:
        """The sessions whose tabs have been gone for long; one that is back is not."""
        now = self._clock()
        with self._lock:
            gone = [session for session in self._acts if not connected(session)]
            self._left = {session: self._left.get(session, now) for session in gone}
            return [session for session in gone if now - self._left[session] >= LEFT_SECONDS]

    def end(self, session: str) -> bool:
        """Does what is to be done, once, and says whether any of it let rows go; a failure's kind
        is logged, and never its words."""
        with self._lock:
            acts = self._acts.pop(session, [])
            self._left.pop(session, None)
        held = False
        for act in acts:
            try:
                held |= act() is True
            except Exception as error:
                log.error("A session's end failed: %s", type(error).__name__)
        return held


sessions = Sessions()
"""The process's own."""


def at_end(act: Callable[[], object]) -> None:
    """Has this done at the end of the session whose script runs; it returns True where it has let
    rows go."""
    if (context := get_script_run_ctx()) is not None:
        sessions.at_end(context.session_id, act)


async def end_sessions(at_rest: Callable[[], object]) -> None:
    """Ends every session whose tab is gone, as long as the server runs; `at_rest` is called when
    nobody has been there for a look or two."""
    empty = 0
    while True:
        await asyncio.sleep(LEFT_LOOK_SECONDS)
        if not runtime.exists():
            continue
        own = runtime.get_instance()
        held, over = False, sessions.over(own.is_active_session)
        for session in over:
            held |= await asyncio.to_thread(sessions.end, session)
            _close(own, session)
        if over:  # a first call only marks what was offered as a download
            own.media_file_mgr.remove_orphaned_files()
        empty = 0 if own._session_mgr.num_active_sessions() else empty + 1
        if empty == RESTING_LOOKS:
            await asyncio.to_thread(at_rest)
        if held or (over and empty):  # nobody waits for it
            await asyncio.to_thread(collect)


def _close(own: runtime.Runtime, session: str) -> None:
    """Ends a session of Streamlit's, and empties it: its event loop keeps the last one that it
    looked at until another visitor comes."""
    known = own._session_mgr.get_session_info(session)
    own.close_session(session)
    if known is not None:
        known.session._fragment_storage.clear()
        known.session._session_state = SessionState()


def collect() -> None:
    """Streamlit's own reference cycles hold what widgets were told; those that were there when
    `Painter` froze what is there to stay are looked at too."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
