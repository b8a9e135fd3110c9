"""What a page says when something goes wrong: a sentence, never a traceback."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from dgp_core.live.workshop import WorkshopError

log = logging.getLogger(__name__)


@contextmanager
def in_words(sentence: str) -> Iterator[None]:
    """Shows the sentence if the block fails; the log gets the place and kind, never the data.

    What the workshop will not do, it says in words of its own.
    """
    try:
        yield
    except WorkshopError as error:
        st.error(str(error), icon=":material/error:")
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        log.error("%s\n%s%s", sentence, place, type(error).__name__)
        st.error(sentence, icon=":material/error:")
