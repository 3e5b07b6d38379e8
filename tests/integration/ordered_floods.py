"""Five processes flood a group with one order while its coordinators are killed or stopped.

`python -m tests.integration.ordered_floods [--stack tcp-total] [--harm stop]`

kill   three coordinators are killed (-9) in the course of the flood: the logs of the two that are left are identical,
       and have all their messages, each once; at the kills nothing is delivered for 0.1 s at most (p50)
stop   the coordinator is stopped for 10 s, and goes on: the logs of the four others are identical; it hears of a
       MergeView; of what it and the others delivered in their last common view before `order_uncertain`, one sequence
       is a prefix of the other (it orders what it finds when it goes on; the others were told of a rest by then)

A log has the views, the calls of `order_uncertain`, and all payloads, in the order of delivery; messages are numbered
by their senders, which send so many a second.
"""
from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import attrs

import jgroups_py as jg
from tests.integration.members import free_ports

ROOT = Path(__file__).parents[2]
NAMES = "ABCDE"
KILLS_AT = (0.15, 0.4, 0.65)               # of the messages
STOPPED_S = 10.0
BURST_S = 0.01
GAP_S = 0.02                               # shorter ones are none
MOST_GAP_S = 0.10
LIMIT_S = 150.0


# --- a member ---------------------------------------------------------------------------------------------------------

class Log(jg.Receiver):
    """What is delivered. gaps: (from, to) in monotonic seconds, in which nothing was."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.counts: dict[str, int] = {}
        self.members: list[str] = []
        self.gaps: list[tuple[float, float]] = []
        self.last_s = 0.0

    def view_accepted(self, view: jg.View) -> None:
        self.members = [member.name for member in view.members]
        kind = "merge" if isinstance(view, jg.MergeView) else "view"
        self.lines.append(f"!{kind} {view.id} {' '.join(self.members)}".encode())
        say(kind, *self.members)

    def order_uncertain(self, messages: int) -> None:
        self.lines.append(f"!uncertain {messages}".encode())

    def receive_batch(self, batch: jg.MessageBatch) -> None:
        now_s = time.monotonic()
        if self.last_s and now_s - self.last_s > GAP_S:
            self.gaps.append((self.last_s, now_s))
        self.last_s = now_s
        self.lines += batch.payloads
        self.counts[batch.src.name] = self.counts.get(batch.src.name, 0) + len(batch)


def say(*words: object) -> None:
    """A line for the parent."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def flood(ch: jg.JChannel, number: int, rate: int) -> None:
    """Send numbered messages at a rate."""
    began_s, sent, own = time.monotonic(), 0, str(ch.me.name)
    while sent < number:
        due = min(number, round((time.monotonic() - began_s + BURST_S) * rate))
        for at in range(sent, due):
            ch.send(None, f"{own}{at}".encode())
        sent = due
        time.sleep(BURST_S)
    say("sent")


def member(name: str, stack: str, properties: str, number: int, rate: int, path: str) -> None:
    """Flood at "go"; answer "counts" with what was delivered of whom; at "log" write the log, and tell the gaps."""
    log = Log()
    with jg.JChannel(stack, name, json.loads(properties), log) as ch:
        ch.connect("floods")
        for line in sys.stdin:
            if line == "go\n":
                threading.Thread(target=flood, args=(ch, number, rate), daemon=True).start()
            elif line == "counts\n":
                say("counts", json.dumps(log.counts))
            elif line == "log\n":
                Path(path).write_bytes(b"\n".join(log.lines))
                say("gaps", json.dumps(log.gaps))


# --- the parent -------------------------------------------------------------------------------------------------------

class Worker:
    """A member's process, and what it has said: the last line of each kind. merges: MergeViews."""

    def __init__(self, name: str, stack: str, properties: str, number: int, rate: int, path: Path) -> None:
        self.name = name
        self.said: dict[str, str] = {}
        self.members: list[str] = []
        self.merges = 0
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.ordered_floods", "--member", name, stack, properties,
             str(number), str(rate), str(path)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            with self.changed:
                if word in ("view", "merge"):
                    self.members, self.merges = rest.split(), self.merges + (word == "merge")
                else:
                    self.said[word] = rest
                self.changed.notify_all()

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def wait(self, what: str, holds: Any, within_s: float = LIMIT_S) -> None:
        with self.changed:
            if not self.changed.wait_for(holds, within_s):
                raise RuntimeError(f"{self.name}, not within {within_s:g} s: {what}; view {self.members}, {self.said}")

    def ask(self, word: str, answer: str) -> Any:
        with self.changed:
            self.said.pop(answer, None)
        self.tell(word)
        self.wait(answer, lambda: answer in self.said)
        return json.loads(self.said[answer])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@attrs.frozen
class Harm:
    """A coordinator that was killed or stopped, and when (monotonic seconds)."""

    name: str
    at_s: float


class Floods:
    """A run."""

    def __init__(self, stack: str, number: int, rate: int, folder: Path) -> None:
        properties = json.dumps(free_ports("tcp" if stack.startswith("tcp") else "udp"))
        self.number = number
        self.workers: dict[str, Worker] = {}
        self.gone: dict[str, Worker] = {}
        for name in NAMES:
            worker = self.workers[name] = Worker(name, stack, properties, number, rate, folder / name)
            worker.wait("a view with all before it", lambda: len(worker.members) == len(self.workers))    # noqa: B023
        for worker in self.workers.values():
            worker.wait("a view of all", lambda: len(worker.members) == len(NAMES))      # noqa: B023

    def close(self) -> None:
        """End all."""
        for worker in (*self.workers.values(), *self.gone.values()):
            worker.close()

    def delivered(self) -> int:
        """Messages at the last member, which is never the coordinator here."""
        counts: dict[str, int] = self.workers[NAMES[-1]].ask("counts", "counts")
        return sum(counts.values())

    def until(self, share: float) -> Worker:
        """Wait until so much was delivered; the coordinator then."""
        ends_s = time.monotonic() + LIMIT_S
        while self.delivered() < share * self.number * len(self.workers):
            if time.monotonic() > ends_s:
                raise RuntimeError(f"{share:.0%} were not delivered within {LIMIT_S:g} s")
            time.sleep(0.05)
        return self.workers[self.workers[NAMES[-1]].members[0]]

    def kill_coordinators(self) -> list[Harm]:
        """In the course of the flood."""
        harms = []
        for share in KILLS_AT:
            victim = self.until(share)
            harms.append(Harm(victim.name, time.monotonic()))
            victim.process.kill()
            self.gone[victim.name] = self.workers.pop(victim.name)
            for worker in self.workers.values():
                worker.wait("a view without it", lambda: len(worker.members) == len(self.workers))    # noqa: B023
        return harms

    def stop_coordinator(self) -> list[Harm]:
        """For STOPPED_S."""
        victim = self.until(KILLS_AT[0])
        harm = Harm(victim.name, time.monotonic())
        victim.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        victim.process.send_signal(signal.SIGCONT)
        victim.wait("a MergeView", lambda: victim.merges)
        for worker in self.workers.values():
            worker.wait("a view of all", lambda: len(worker.members) == len(NAMES))      # noqa: B023
        return [harm]

    def finish(self) -> dict[str, list[list[float]]]:
        """Wait until all that are left have all messages of each other; write the logs. Name -> gaps."""
        ends_s = time.monotonic() + LIMIT_S
        for worker in self.workers.values():
            worker.wait("the end of its flood", lambda: "sent" in worker.said)           # noqa: B023
        before: list[dict[str, int]] = []
        while True:                                          # until nothing comes any more
            counts = [worker.ask("counts", "counts") for worker in self.workers.values()]
            if counts == before:
                break
            if time.monotonic() > ends_s:
                raise RuntimeError(f"not delivered within {LIMIT_S:g} s: {counts}")
            before = counts
            time.sleep(1.0)
        return {name: worker.ask("log", "gaps") for name, worker in self.workers.items()}


def faults_of(lines: list[bytes], number: int, whole: list[str]) -> list[str]:
    """What a log has twice or out of a sender's order; and, of the senders in `whole`, what it lacks."""
    found = []
    for name in NAMES:
        own = [int(line[1:]) for line in lines if line.startswith(name.encode())]
        if own != sorted(set(own)):
            found.append(f"messages of {name} twice, or not in order")
        if name in whole and len(own) != number:
            found.append(f"{number - len(own)} messages of {name} are missing")
    return found


def common_view(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Of the last view of all before the first MergeView: what was delivered before `order_uncertain`, and after it."""
    first_merge = next((at for at, line in enumerate(lines) if line.startswith(b"!merge")), len(lines))
    began = max(at for at, line in enumerate(lines[:first_merge])
                if line.startswith(b"!view") and len(line.split()) == 2 + len(NAMES))
    sure: list[bytes] = []
    rest: list[bytes] = []
    into = sure
    for line in lines[began + 1:]:
        if line.startswith((b"!view", b"!merge")):
            break
        if line.startswith(b"!uncertain"):
            into = rest
        else:
            into.append(line)
    return sure, rest


def run(stack: str, harm: str, number: int, rate: int, most_gap_s: float = MOST_GAP_S) -> list[str]:
    """What was wrong; prints the figures. number: messages of each member; rate: of each, a second."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        floods = Floods(stack, number, rate, folder)
        ending.callback(floods.close)
        for worker in floods.workers.values():
            worker.tell("go")
        harms = floods.kill_coordinators() if harm == "kill" else floods.stop_coordinator()
        gaps = floods.finish()
        victims = {one.name for one in harms}
        same = [name for name in floods.workers if name not in victims]
        logs = {name: (folder / name).read_bytes().split(b"\n") for name in floods.workers}
    full = {name: lines[next(at for at, line in enumerate(lines) if len(line.split()) == 2 + len(NAMES)):]
            for name, lines in logs.items()}                 # from the first view of all
    hashes = {name: hashlib.sha256(b"\n".join(full[name])).hexdigest() for name in same}
    wrong = [f"{name}: {text}" for name in same for text in faults_of(logs[name], number, same)]
    if len(set(hashes.values())) > 1:
        wrong.append(f"the logs differ: {hashes}")
    at_harms = [max((to - of for of, to in gaps[name] if of <= one.at_s + STOPPED_S and to >= one.at_s), default=GAP_S)
                for one in harms for name in same]
    sys.stdout.write(f"{stack}, {harm} {', '.join(sorted(victims))}: {len(same)} logs of {len(full[same[0]])} lines, "
                     f"sha256 {hashes[same[0]][:16]}; gaps p50 {median(at_harms):.3f} s, max {max(at_harms):.3f} s\n")
    if harm == "kill" and median(at_harms) > most_gap_s:
        wrong.append(f"nothing was delivered for {median(at_harms):.3f} s (p50) at a kill; {most_gap_s:g} s at most")
    for victim in victims if harm == "stop" else ():
        sure, rest = common_view(full[victim])
        others, uncertain = common_view(full[same[0]])
        sys.stdout.write(f"last view of all: {victim}, stopped, has {len(sure)} by its tickets and then {len(rest)} "
                         f"told to be uncertain; the others have {len(others)}, then {len(uncertain)}\n")
        least = min(len(sure), len(others))
        if sure[:least] != others[:least]:
            wrong.append(f"of what {victim} and the others delivered by tickets none is a prefix of the other")
        if sure != others and not rest and not uncertain:
            wrong.append("their orders may differ, and nobody was told")
    return wrong


def main(words: list[str]) -> int:
    """The command."""
    if words[:1] == ["--member"]:
        name, stack, properties, number, rate, path = words[1:]
        member(name, stack, properties, int(number), int(rate), path)
        return 0
    parser = ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--stack", choices=("udp-total", "tcp-total"), default="udp-total")
    parser.add_argument("--harm", choices=("kill", "stop"), default="kill")
    parser.add_argument("--messages", type=int, default=20_000, help="of each member")
    parser.add_argument("--rate", type=int, default=1000, help="messages a second, of each member")
    options = parser.parse_args(words)
    wrong = run(options.stack, options.harm, options.messages, options.rate)
    for text in wrong:
        sys.stdout.write(f"WRONG {text}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
