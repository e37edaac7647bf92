"""A chat server on this machine that judges by a rule, and fails as it is told to.

It knows what a well-behaved judge knows: what the question says outside the delimiters. What it
finds between them it reads as material only, so that a text that got out of them would be seen.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-never-to-be-written-0123456789abcdef"
MARK = re.compile(r"between two lines with ([0-9a-f]{16}) is")


def blocks(prompt: str) -> dict[str, str]:
    """Return the judged texts by name, as somebody reads them who believes in the mark."""
    mark = MARK.search(prompt)[1]
    pattern = rf"^<{mark} ([^\n>]+) begins>\n(.*?)\n<{mark} \1 ends>$"
    return dict(re.findall(pattern, prompt, re.DOTALL | re.MULTILINE))


def outside(prompt: str) -> str:
    """Return the question without the judged texts."""
    mark = MARK.search(prompt)[1]
    return re.sub(rf"(?ms)^<{mark} ([^\n>]+) begins>\n.*?\n<{mark} \1 ends>$", "", prompt)


def judged(prompt: str) -> str:
    """Return what a judge says that counts words: the aspect's own name, or the right answer's."""
    texts, asked = blocks(prompt), outside(prompt)
    if "text A" in texts:
        names = re.findall(r"^- ([^:\n]+):", asked, re.MULTILINE)
        new = re.search(r"^What is said .*: .+ is (.*), not .*$", asked, re.MULTILINE)[1]
        counts = {n: [texts[f"text {x}"].count(n) for x in "AB"] for n in names}
        said = {n: "A" if a > b else "B" if b > a else "tie" for n, (a, b) in counts.items()}
        return json.dumps(
            said | {"edit_reflected": {x: int(new in texts[f"text {x}"]) for x in "AB"}}
        )
    if "reply A" in texts:
        return verdict(texts["reply A"].strip() == texts["reply B"].strip())
    right, old = (
        re.search(rf"^{words}: (.*?)(?: \(or: .*\))?$", asked, re.MULTILINE)
        for words in ("The right answer", "An answer that was right once, and is wrong now")
    )
    said = {"verdict": "right" if right[1] in texts["reply"] else "wrong"}
    return json.dumps(said | ({"old": old[1] in texts["reply"]} if old else {}))


def verdict(right: bool) -> str:
    return json.dumps({"verdict": "right" if right else "wrong"})


def completion(text: str | None, **fields: object) -> bytes:
    data = {
        "id": "1", "object": "chat.completion", "created": 0, "model": "judge-1",
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }  # fmt: skip
    return json.dumps(data | fields).encode()


class Handler(BaseHTTPRequestHandler):
    """Hands each request to what the test wants to happen to it."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            number = len(self.server.asked)
        self.server.headers.append(self.headers)
        try:
            self.server.happens(self, number, body["messages"][0]["content"])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self) -> None:
        self.server.got(self)

    def judge(self, prompt: str, **fields: object) -> None:
        self.answer(completion(judged(prompt), **fields))

    def say(self, text: str | None, **fields: object) -> None:
        self.answer(completion(text, **fields))

    def fail(self, status: int, message: str = "no", code: str = "", **headers: str) -> None:
        """Answer with an error of OpenAI's form."""
        body = json.dumps({"error": {"message": message, "code": code or None, "type": "t"}})
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer(body.encode(), status, **named)

    def answer(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        sent = {"Content-Type": kind, "Content-Length": str(len(body)), **headers}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def drop(self) -> None:
        """End the connection without a word."""
        self.close_connection = True
        self.connection.close()

    def drip(self, body: bytes, pause: float) -> None:
        """Send a whole answer, byte after byte."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for byte in body:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(pause)

    def log_message(self, *args: object) -> None:
        """Write nothing."""


Happening = Callable[[Handler, int, str], None]


class Server(ThreadingHTTPServer):
    """Answers every request by ``happens``, which gets the handler, its number and the question."""

    daemon_threads = True

    def __init__(self, happens: Happening) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.happens, self.lock = happens, threading.Lock()
        self.asked: list[dict] = []
        self.headers: list[Message] = []
        self.strayed = False

    def got(self, handler: Handler) -> None:
        """Answer who was sent elsewhere; tests of downloads put a function of their own here."""
        self.strayed = True
        handler.answer(b"{}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *args: object) -> None:
        """Bear clients that went away."""


def well(handler: Handler, number: int, prompt: str) -> None:
    handler.judge(prompt)


@contextmanager
def serving(happens: Happening = well) -> Iterator[Server]:
    server = Server(happens)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
