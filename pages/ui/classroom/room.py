"""The room that a server is opened to: its address, its word, and who could do what in it."""

import base64
import hashlib
import hmac
import io
import os
import re
import socket
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import segno

WORD = "word"
"""The name of the word in a link."""
SHORTEST_WORD, LONGEST_WORD = 4, 64


@dataclass(frozen=True)
class Room:
    """What a process knows of the room that it serves; `python -m pages.ui.classroom` tells it."""

    address: str = ""
    """Where others open the app; empty where only this machine is served."""
    word: str = ""
    """The secret in the room's link; empty where everybody may come in."""
    process: int = 1
    processes: int = 1

    @classmethod
    def of_environment(cls) -> "Room":
        given = {name: os.environ.get(f"DGP_ROOM_{name.upper()}") for name in asdict(cls())}
        known = {name: value for name, value in given.items() if value}
        numbers = {n: int(known.pop(n)) for n in ("process", "processes") if n in known}
        return cls(**known, **numbers)  # pyright: ignore[reportArgumentType]

    def environment(self) -> dict[str, str]:
        """What a process is told."""
        return {f"DGP_ROOM_{name.upper()}": str(value) for name, value in asdict(self).items()}

    @property
    def base(self) -> str:
        """The path of the address: empty, or such as /lab."""
        return urlsplit(self.address).path.rstrip("/")

    @property
    def own_base(self) -> str:
        """The path of this process: all that one page asks for goes to the same process."""
        return f"{self.base}/{self.process}" if self.processes > 1 else self.base

    @property
    def link(self) -> str:
        """The address with the word, as the class needs it."""
        return self.invite(self.address)

    @property
    def key(self) -> str:
        """What a browser keeps as a cookie once it has shown the word."""
        return hmac.new(self.word.encode(), b"deep gp lab", hashlib.sha256).hexdigest()[:32]

    def invite(self, address: str) -> str:
        """A link of this server, with the word that others in the room may lack."""
        return with_query(address, {WORD: self.word}) if self.word else address

    def anywhere(self, address: str) -> str:
        """A link that is of no run: whichever process has the fewest visitors may serve it."""
        page = urlsplit(address)
        if self.processes == 1 or not f"{page.path}/".startswith(f"{self.own_base}/"):
            return address
        path = self.base + (page.path.removeprefix(self.own_base) or "/")
        return urlunsplit(page._replace(path=path))

    def strangers(self) -> list[str]:
        """What people whom nobody invited could do, a sentence each."""
        who = (
            "Only those who have this link, with its word, come in; they can pass it on."
            if self.word
            else "Everybody in this network who has the address can come in. `make class WORD=…` "
            "asks for a word."
        )
        sentences = [
            who,
            "They can start runs and upload files, which take this machine's time and memory, "
            "within limits. They cannot change your runs, and see nothing of your files.",
            "Whoever has the link of a run can watch it.",
        ]
        if self.address.startswith("http:"):
            sentences.append(
                "The connection is not encrypted: others in the network could read along. For the "
                "open web, put a proxy with https in front."
            )
        return sentences


@cache
def room() -> Room:
    """This process's own."""
    return Room.of_environment()


def with_query(address: str, more: dict[str, str]) -> str:
    """An address that says more after its question mark."""
    page = urlsplit(address)
    query = [*parse_qsl(page.query, keep_blank_values=True), *more.items()]
    return urlunsplit(page._replace(query=urlencode(query, safe=",~")))


def check_word(word: str) -> None:
    """Raises ValueError for a word that makes no good link."""
    if word and not re.fullmatch(rf"\S{{{SHORTEST_WORD},{LONGEST_WORD}}}", word):
        raise ValueError(
            f"The word needs {SHORTEST_WORD} to {LONGEST_WORD} characters without blanks: "
            "make class WORD=posterior, for example."
        )


def check_address(address: str) -> None:
    """Raises ValueError for what is no address of a web page."""
    parts = urlsplit(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query):
        raise ValueError(
            "The address is what others open, such as https://lab.example.org/gp/: it begins with "
            "http:// or https://."
        )
    if not re.fullmatch(r"(/[\w.~-]+)*/?", parts.path):
        raise ValueError("The address's path may have letters, digits, -, _, . and ~ only.")


def own_address() -> str:
    """This machine's address in its network, by the route to another one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation (RFC 5737)
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def qr_svg(text: str) -> str:
    """A QR code as an SVG picture: dark on light in any theme, with a reader's margin."""
    picture = io.BytesIO()
    segno.make(text, error="l", micro=False).save(
        picture, kind="svg", scale=4, border=4, dark="#000", light="#fff", xmldecl=False
    )
    return picture.getvalue().decode()


def qr_image(text: str, words: str, width: str) -> str:
    """The picture as HTML."""
    content = base64.b64encode(qr_svg(text).encode()).decode()
    return f'<img alt="{words}" width="{width}" src="data:image/svg+xml;base64,{content}">'


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Deep GP Lab</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; min-height: 100vh; display: grid; place-content: center; padding: 1.5rem;
  box-sizing: border-box; font: 1.125rem/1.5 "Source Sans", system-ui, sans-serif;
  background: light-dark(#fff, #11161c); color: light-dark(#1b2733, #e4eaf0); }}
main {{ max-width: 62rem; display: flex; flex-wrap: wrap; gap: 1.5rem 3rem; align-items: center;
  justify-content: center; }}
main > div {{ flex: 1 1 20rem; min-width: 0; }}
h1 {{ font-size: 1.2rem; font-weight: 600; margin: 0; }}
.address {{ font-size: clamp(1.3rem, 3vw, 2.2rem); font-weight: 650; margin: 0.4rem 0 1.2rem;
  overflow-wrap: anywhere; line-height: 1.2; }}
a {{ color: light-dark(#005b8f, #56b4e9); }}
li {{ margin: 0.3rem 0; }} ul {{ padding-left: 1.2rem; margin: 0.3rem 0; }}
h2 {{ font-size: 1rem; font-weight: 600; margin: 0; }}
.small {{ font-size: 0.95rem; }}
img {{ flex: 0 1 24rem; width: min(24rem, 100%); border-radius: 0.4rem; }}
</style></head><body><main>{content}</main></body></html>
"""


def sentence_page(sentence: str) -> str:
    """A page that says one sentence."""
    return PAGE.format(content=f"<p>{escape(sentence)}</p>")


def invitation_page(own: Room) -> str:
    """For a wall: the room's address, its QR code, and what strangers could do."""
    if not own.address:
        return sentence_page(
            "This app listens on this machine only: make class opens it to the room."
        )
    link = escape(own.link)
    strangers = "".join(f"<li>{_code(escape(sentence))}</li>" for sentence in own.strangers())
    return PAGE.format(
        content=(
            qr_image(own.link, "QR code of the address", "384") + "<div><h1>Deep GP Lab</h1>"
            f'<p class="address"><a href="{link}">{_broken(link)}</a></p>'
            f'<div class="small"><h2>What strangers could do</h2><ul>{strangers}</ul></div></div>'
        )
    )


def _broken(link: str) -> str:
    """A link that may go on in the next line where its word begins."""
    return link.replace("?", "<wbr>?")


def _code(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text)


def invitation(own: Room) -> str:
    """The same, for a terminal."""
    code = io.StringIO()
    segno.make(own.link, error="l", micro=False).terminal(code, border=2, compact=True)
    strangers = "\n".join(f"  · {sentence}" for sentence in own.strangers())
    return (
        f"\nDeep GP Lab is open to the room:\n\n    {own.link}\n\n{code.getvalue()}\n"
        f"For a wall: {with_query(own.address.rstrip('/') + '/room', _word(own))}\n\n"
        f"What strangers could do:\n{strangers}\n\nCtrl-C closes the room."
    )


def _word(own: Room) -> dict[str, str]:
    return {WORD: own.word} if own.word else {}
