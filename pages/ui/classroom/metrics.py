"""The server's own numbers, for whoever watches over it: Prometheus' text format, numbers only."""

import re
from contextlib import suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pages.ui.classroom.entrance import base_path
from pages.ui.stage.server import Server, server

STATES = ("queued", "waiting", "compiling", "ready", "finished", "failed")
"""Of runs, in the order of their lives."""


def held_bytes() -> int:
    """Memory that this process holds; 0 where the system is mute."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        if found := re.search(r"VmRSS:\s+(\d+) kB", status):
            return 1024 * int(found[1])
    return 0


def metrics(own: Server) -> str:
    """Every number, with what it means."""
    counts, viewers = own.workshop.counts(), own.viewers.connected()
    runs = {f'{{state="{state}"}}': counts.get(state, 0) for state in STATES}
    families = (
        ("dgp_runs", "gauge", "Runs, by what they do", runs),
        ("dgp_queue", "gauge", "Runs that wait for a seat", counts.get("queued", 0)),
        ("dgp_viewers", "gauge", "Tabs that are sent frames", len(viewers)),
        ("dgp_sockets", "gauge", "The sockets of these tabs", sum(len(v.bells) for v in viewers)),
        ("dgp_memory_bytes", "gauge", "Memory that this process holds", held_bytes()),
        ("dgp_run_bytes", "gauge", "Of it, what runs take", own.workshop.held()),
        ("dgp_frames_total", "counter", "Frames sent since the start", own.frames.total),
        ("dgp_frames_per_second", "gauge", "Frames sent to all tabs, lately", own.frames.rate()),
    )
    lines = []
    for name, kind, words, value in families:
        lines += [f"# HELP {name} {words}.", f"# TYPE {name} {kind}"]
        values = value if isinstance(value, dict) else {"": value}
        lines += [f"{name}{label} {number!r}" for label, number in values.items()]
    return "\n".join(lines) + "\n"


async def _answer(_: Request) -> Response:
    return Response(metrics(server()), media_type="text/plain; version=0.0.4")


metrics_route = Route(f"{base_path()}/metrics", _answer)
