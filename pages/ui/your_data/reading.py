"""Step 1 of "Your data", continued: how the file is read, where the guess may be wrong."""

from typing import Any

import streamlit as st

from dgp_core.tables.dialect import SEPARATORS
from dgp_core.tables.encodings import ENCODINGS
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import Reading
from pages.ui.sentences import complaint
from pages.ui.your_data.bring import load_table
from pages.ui.your_data.upload_state import (
    cached,
    persistent_key,
    row_table,
    set_control,
    upload_state,
)

GUESS = "as guessed"
DECIMALS = {".": "Point (1.5)", ",": "Comma (1,5)"}
HEADERS = {"yes": "Names the columns", "no": "Is a row of data"}
PREVIEW_ROWS = 5


def show() -> None:
    """The controls, open where a guess may be wrong, and the first rows as they are now."""
    state = upload_state()
    table = None if state.unread or state.loaded is None else state.loaded.decided
    reading = Reading("text") if table is None else table.reading
    shipped = state.loaded is not None and state.loaded.content is not None
    if reading.format == "parquet" or (table is None and not state.unread) or shipped:
        return
    with st.expander("How the file is read", expanded=state.reading_open, icon=":material/tune:"):
        if table is None:
            st.markdown("Where the file is a table all the same, choose how it is written.")
        elif reading.doubtful:
            st.markdown(
                f"Guessed, and may be wrong: **{', '.join(reading.doubtful)}**. If names or cells "
                "below look odd, choose another."
            )
        else:
            st.markdown("If names or cells below look odd, choose how the file is read.")
        can = state.source is not None
        with st.container(horizontal=True, key="reading_bar"):
            if reading.format == "text":
                marks = {mark: name.capitalize() for mark, name in SEPARATORS.items()}
                _choice("Encoding", "encoding", ENCODINGS, reading.encoding, can)
                _choice("Columns are separated by", "separator", marks, reading.separator, can)
                decimal = "" if table is None else reading.decimal
                _choice("Decimal mark", "decimal", DECIMALS, decimal, can)
            else:
                sheets = {name: visible(name) for name in reading.sheets}
                _choice("Sheet", "sheet", sheets, reading.sheet, can)
            header = "" if table is None else "yes" if reading.header else "no"
            _choice("The first row", "header", HEADERS, header, can)
        if not can:
            st.caption("This file is too large to be held for a second reading: bring it again.")
        if state.reading_error:
            complaint(state.reading_error)
        if table is not None:
            first = cached("preview", table, lambda: row_table(table, slice(PREVIEW_ROWS)))
            alt = "The first rows of the file, as it is read now."
            st.dataframe(first, hide_index=True, alt=alt)


def _choice(title: str, name: str, options: dict[str, str], read: str, can: bool) -> None:
    """One thing that is guessed unless it is chosen."""
    given = upload_state().controls.get(f"read {name}", GUESS) != GUESS
    guess = "Guess" if given or not read else f"{options.get(read, repr(read))} (guessed)"
    st.selectbox(
        title,
        [GUESS, *options],
        format_func=lambda option: options.get(option, guess),
        key=persistent_key(f"read {name}", GUESS, [GUESS, *options]),
        on_change=changed,
        disabled=not can,
        width=250,
    )


def changed() -> None:
    """Reads the file again as the controls say; where that fails, the table stays as it was."""
    state = upload_state()
    if state.source is None:
        return
    options: dict[str, Any] = {}
    for name in ("encoding", "separator", "decimal", "sheet", "header"):
        chosen = st.session_state.get(f"your_read {name}", GUESS)
        if chosen != GUESS:
            options[name] = chosen == "yes" if name == "header" else chosen
        set_control(f"read {name}", chosen)
    file, content = state.source
    state.reading_error = load_table(content, file, options=options)
    state.reading_open = True
