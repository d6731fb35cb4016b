"""The real Claude Code client against a scripted model, on loopback only.

    with ScriptedModel() as model:
        client = Client(binary(), tmp_path, model)
        client.ask("Measure it. @@" + json.dumps(steps), cwd=project)   # one headless turn
        sent(model.turns[-1])                                           # what its request held

Nothing here can reach or use anything real: `isolate()` puts the process into a network namespace that has nothing but
loopback (`conftest.py` refuses to run elsewhere), HOME is empty and the key a dummy. Needs Linux; `Tui` needs tmux.

The reply program is a JSON list of steps. It travels in the prompt, after `@@`, or is given to `ScriptedModel(steps)` for
prompts that carry none (a slash command's arguments may not hold braces next to quotes). A step is
    {"text": T} | {"thinking": T} | {"tool": NAME, "input": {...}} | {"tools": [[NAME, INPUT], ...]} (parallel calls)
and may also hold "sleep": seconds, "usage": input tokens to report, "error": HTTP status to answer with. One answer plays
the steps up to and including the next group of calls; the next request, with the results, goes on behind it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Optional

Json = dict[str, Any]

KEY = "sk-ant-dummy-key-for-tests"
MODEL_SUMMARY = "Scripted summary: the codename is HELIOTROPE."
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8913, 0x8914, 0x1, 0x40  # linux/sockios.h, linux/if.h
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)


# --- the namespace ------------------------------------------------------------------------------------------------------


def interfaces_up() -> list[str]:
    """Names of the network interfaces that are up, sorted."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return sorted(name for _, name in socket.if_nameindex() if interface_flags(probe, name) & IFF_UP)


def interface_flags(probe: socket.socket, name: str) -> int:
    answer = fcntl.ioctl(probe, SIOCGIFFLAGS, struct.pack("16sH22x", name.encode(), 0))
    return int(struct.unpack("16sH22x", answer)[1])


def raise_loopback() -> bool:
    """True where loopback is now the only interface that is up; it is raised where none is (a new namespace)."""
    if not interfaces_up():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP | IFF_RUNNING))
    return interfaces_up() == ["lo"]


def namespace_command() -> list[str]:
    """The command that runs what follows it in a namespace of its own."""
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-r", "-n"]


def isolate() -> None:
    """Run this program again in a network namespace with loopback only; inside one, go on."""
    if raise_loopback():
        return
    if os.environ.get("LIVE_ISOLATED"):
        raise SystemExit(f"the namespace has more than loopback: {interfaces_up()}")
    command = [*namespace_command(), sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, "LIVE_ISOLATED": "1"})


def binary() -> Path:
    """The client under test (environment LIVE_CLIENT)."""
    return Path(os.environ["LIVE_CLIENT"]).resolve()


# --- the scripted model -------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """One answer of the model."""

    content: list[Json]
    stop: str = "end_turn"
    sleep: float = 0
    usage: Optional[int] = None
    error: Optional[int] = None


def blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def texts(message: Json) -> list[str]:
    return [block["text"] for block in blocks(message["content"]) if block.get("type") == "text"]


def text_reply(text: str) -> Reply:
    return Reply([{"type": "text", "text": text}])


def find_program(messages: list[Json]) -> tuple[Optional[list[Json]], int]:
    """The steps of the last prompt that carries a program and that message's index; (None, -1) where none does."""
    for at in range(len(messages) - 1, -1, -1):
        carriers = texts(messages[at]) if messages[at]["role"] in ("user", "system") else []
        for text in reversed([text for text in carriers if "@@[" in text]):
            return json.JSONDecoder().raw_decode(text[text.index("@@[") + 2 :])[0], at
    return None, -1


def last_prompt(messages: list[Json]) -> int:
    """Index of the last user message that holds text, not only results; -1 where there is none."""
    return max((at for at, message in enumerate(messages) if message["role"] == "user" and texts(message)), default=-1)


def calls_of(step: Json) -> list[tuple[str, Json]]:
    if "tool" in step:
        return [(step["tool"], step.get("input", {}))]
    return [(name, given) for name, given in step.get("tools", [])]


def step_blocks(step: Json) -> Iterator[Json]:
    if "thinking" in step:
        yield {"type": "thinking", "thinking": step["thinking"], "signature": "c2ln" * 20}
    if "text" in step:
        yield {"type": "text", "text": step["text"]}
    for name, given in calls_of(step):
        yield {"type": "tool_use", "id": "toolu_01" + uuid.uuid4().hex[:22], "name": name, "input": given}


def play(steps: list[Json], done: int) -> Reply:
    """The answer after `done` groups of calls have been answered."""
    content: list[Json] = []
    options: Json = {}
    group = 0
    for step in steps:
        if group == done:
            content += step_blocks(step)
            options.update({key: step[key] for key in ("sleep", "usage", "error") if key in step})
        if calls_of(step):
            if group == done:
                return Reply(content, "tool_use", **options)
            group += 1
    return Reply(content or [{"type": "text", "text": "(no program)"}], **options)


def is_compaction(messages: list[Json]) -> bool:
    recent = " ".join(text for message in messages[-3:] for text in texts(message))
    return "create a detailed summary" in recent[-20000:].lower()


def is_title(body: Json) -> bool:
    asked = json.dumps([body.get("system", ""), body.get("output_config", {})])
    return not body.get("tools") and "title" in asked.lower()


def reply(body: Json, default: Optional[list[Json]]) -> Reply:
    """The answer to one request; `default` is the program where no prompt carries one."""
    messages = body["messages"]
    if is_compaction(messages):
        return text_reply(f"<analysis>scripted</analysis>\n<summary>\n{MODEL_SUMMARY}\n</summary>")
    if is_title(body):
        return text_reply('{"title": "Scripted title"}')
    steps, at = find_program(messages)
    if steps is None:
        steps, at = default or [], last_prompt(messages)
    return play(steps, sum(has_calls(message) for message in messages[at + 1 :]))


def has_calls(message: Json) -> bool:
    return message["role"] == "assistant" and any(block.get("type") == "tool_use" for block in blocks(message["content"]))


def block_events(index: int, block: Json) -> Iterator[tuple[str, Json]]:
    kind = block["type"]
    if kind == "text":
        empty: Json = {"type": "text", "text": ""}
        deltas: list[Json] = [{"type": "text_delta", "text": block["text"]}]
    elif kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    else:
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    yield "content_block_start", {"index": index, "content_block": empty}
    for delta in deltas:
        yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


def events(message: Json, answer: Reply) -> Iterator[tuple[str, Json]]:
    """The server-sent events of one streamed answer: (type, rest of the data)."""
    yield "message_start", {"message": message}
    for index, block in enumerate(answer.content):
        yield from block_events(index, block)
    stop = {"stop_reason": answer.stop, "stop_sequence": None}
    yield "message_delta", {"delta": stop, "usage": {"output_tokens": 7}}
    yield "message_stop", {}


class Handler(BaseHTTPRequestHandler):
    """One connection of the client; `server.model` is the ScriptedModel."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: pytest shows what matters."""

    def send(self, data: bytes, kind: str = "application/json", code: int = 200) -> None:
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("request-id", "req_01" + uuid.uuid4().hex[:22])
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_json(self, value: Json, code: int = 200) -> None:
        self.send(json.dumps(value).encode(), code=code)

    def do_GET(self) -> None:
        self.send_json({})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if "count_tokens" in self.path:
            self.send_json({"input_tokens": len(raw) // 4})
        elif "/v1/messages" in self.path:
            self.answer(json.loads(raw), len(raw) // 4)
        else:
            self.send_json({})

    def answer(self, body: Json, tokens: int) -> None:
        model: ScriptedModel = self.server.model  # type: ignore[attr-defined]
        model.requests.append(body)
        answer = reply(body, model.steps)
        time.sleep(answer.sleep)
        if answer.error is not None:
            error = {"type": "invalid_request_error", "message": f"scripted error {answer.error}"}
            self.send_json({"type": "error", "error": error}, answer.error)
            return
        message = new_message(body.get("model", "m"), tokens if answer.usage is None else answer.usage)
        if not body.get("stream"):
            self.send_json({**message, "content": answer.content, "stop_reason": answer.stop})
            return
        lines = [f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n" for kind, rest in events(message, answer)]
        self.send("".join(lines).encode(), "text/event-stream")


def new_message(model: str, tokens: int) -> Json:
    usage = {
        "input_tokens": tokens,
        "output_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    return {
        "id": "msg_01" + uuid.uuid4().hex[:22],
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


class ScriptedModel:
    """A Messages API on 127.0.0.1; `requests` holds every body in order, `turns` those of the conversation itself."""

    def __init__(self, steps: Optional[list[Json]] = None) -> None:
        self.requests: list[Json] = []
        self.steps = steps
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.model = self  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def turns(self) -> list[Json]:
        """The requests that offer tools: not the ones for a title, a quota or a summary of a page."""
        return [body for body in self.requests if body.get("tools")]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# --- the client ---------------------------------------------------------------------------------------------------------


class Client:
    """One installation: the binary, an empty HOME under `root`, and the model it talks to.

    `extra` is added to its environment (CLAUDE_CONFIG_DIR, ...); `config` is where it keeps sessions.
    """

    def __init__(self, binary: Path, root: Path, model: ScriptedModel, **extra: str) -> None:
        self.binary, self.home, self.model, self.extra = binary, root / "home", model, extra
        self.config = Path(extra.get("CLAUDE_CONFIG_DIR", self.home / ".claude"))
        self.home.mkdir(parents=True, exist_ok=True)
        self.config.mkdir(parents=True, exist_ok=True)

    def env(self) -> dict[str, str]:
        """All of the client's environment: nothing of the caller's but PATH."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.model.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
            **self.extra,
        }

    def trust(self, cwd: Path) -> None:
        """Answer beforehand what a first interactive start would ask (theme, key, folder trust)."""
        path = (self.config if "CLAUDE_CONFIG_DIR" in self.extra else self.home) / ".claude.json"
        state = json.loads(path.read_text()) if path.exists() else {}
        state.update(hasCompletedOnboarding=True, customApiKeyResponses={"approved": [KEY[-20:]], "rejected": []})
        state.setdefault("projects", {})[str(cwd)] = {"hasTrustDialogAccepted": True}
        path.write_text(json.dumps(state))

    def run(self, *args: str, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *args]
        return subprocess.run(
            command, cwd=cwd, env=self.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )

    def ask(self, prompt: str, *args: str, cwd: Path) -> Json:
        """One headless turn: the client's own result object (session_id, result, ...)."""
        done = self.run("-p", prompt, "--output-format", "json", *args, cwd=cwd)
        try:
            result: Json = json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"client exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}") from None
        return result

    def transcript(self, session_id: str) -> Path:
        """Where the client keeps that session."""
        return next((self.config / "projects").glob(f"*/{session_id}.jsonl"))


class Tui:
    """The interactive client in a tmux server of its own; `close()` ends both."""

    def __init__(self, client: Client, cwd: Path, *args: str, size: tuple[int, int] = (150, 50)) -> None:
        client.trust(cwd)
        self.client, self.socket = client, f"live-{uuid.uuid4().hex[:8]}"
        environment = [f"{name}={value}" for name, value in client.env().items()]
        command = shlex.join(["env", "-i", *environment, str(client.binary), *args])
        window = ["-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd)]
        self.tmux("new-session", "-d", "-s", "t", *window, command + "; sleep 600")

    def __enter__(self) -> Tui:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def tmux(self, *args: str) -> str:
        return subprocess.run(["tmux", "-f", "/dev/null", "-L", self.socket, *args], capture_output=True, text=True).stdout

    def screen(self) -> str:
        lines = self.tmux("capture-pane", "-p", "-t", "t").splitlines()
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, Escape, Up, C-c, ..."""
        self.tmux("send-keys", "-t", "t", *keys)
        time.sleep(0.3)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "t", "-l", "--", text)
        time.sleep(0.3)

    def wait(self, text: str, seconds: float = 15) -> str:
        """The screen, once it shows `text`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.screen()
            if text in screen:
                return screen
            time.sleep(0.2)
        raise AssertionError(f"not on the screen: {text!r}\n{self.screen()}")

    def say(self, text: str, expect: str, seconds: float = 15) -> str:
        """Type a prompt, send it, and wait for `expect`."""
        self.type(text)
        self.keys("Enter")
        return self.wait(expect, seconds)

    def close(self) -> None:
        self.keys("C-c")
        self.keys("C-c")
        time.sleep(1)
        self.tmux("kill-server")


# --- what was sent ------------------------------------------------------------------------------------------------------


def sent(body: Json) -> list[tuple[str, str]]:
    """What a request held, without reminders: (role, text | USE:name:id | RES:id:text | [type of another block])."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    shown = [(message["role"], shown_block(block)) for message in messages for block in blocks(message["content"])]
    return [(role, text) for role, text in shown if text]


def shown_block(block: Json) -> str:
    """One block as `sent` shows it; empty for text that is nothing but reminders."""
    kind: str = block["type"]
    if kind == "text":
        return REMINDER.sub("", block["text"]).strip()
    if kind == "tool_use":
        return f"USE:{block['name']}:{block['id']}"
    if kind == "tool_result":
        return f"RES:{block['tool_use_id']}:{result_text(block.get('content'))}"
    return f"[{kind}]"


def result_text(content: Any) -> str:
    return "".join(part.get("text", f"[{part['type']}]") for part in blocks(content or []))
