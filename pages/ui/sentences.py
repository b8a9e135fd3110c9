"""What a page says of links, files and models, and when something goes wrong: a sentence, never a
traceback, in which nothing from outside acts as Markdown or HTML."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from dgp_core.live.workshop import FullError, WorkshopError
from dgp_core.tables.plain import plain
from pages.ui.stage.server import server

log = logging.getLogger(__name__)


def safe(sentence: object) -> str:
    """A sentence that may hold words of a link, a file or a model, escaped for Markdown."""
    return plain(sentence, 1200)


def notice(sentence: object) -> None:
    """Something to know."""
    st.info(safe(sentence), icon=":material/info:")


def complaint(sentence: object) -> None:
    """Something that could not be done."""
    st.error(safe(sentence), icon=":material/error:")


def offer(run_id: str, then: str) -> None:
    """A run to watch while the server is full, and what to do then."""
    st.info(
        f"All seats of this server are taken. [Watch its own run](./?run={run_id}) in another tab "
        f"meanwhile: {then}.",
        icon=":material/visibility:",
    )


@contextmanager
def in_words(sentence: str) -> Iterator[None]:
    """Shows the sentence if the block fails; the log gets the place and kind, never the data.

    What the workshop will not do, it says in words of its own.
    """
    try:
        yield
    except WorkshopError as error:
        complaint(error)
        if isinstance(error, FullError) and (public := server().workshop.watch_public()):
            offer(public, "then try here again")
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        log.error("%s\n%s%s", sentence, place, type(error).__name__)
        complaint(sentence)
