"""A small inference engine: a scheduler in Python, kernels through HIP, a sampler, a thread that turns tokens
into text, and a thread that competes for Python's lock. It logs when each of its phases began and ended, to be
compared with what a trace says about the times in which the GPU was idle."""

import ctypes
import hashlib
import json
import os
import queue
import socket
import threading
import time

import torchlike

KERNELS = 12


class Model:
    def __init__(self, gpu):
        self.gpu, self.launched = gpu, 0

    def forward(self):
        for i in range(KERNELS):
            self.launched += 1
            self.gpu.lib.torchlike_launch(i % len(self.gpu.kernels), self.gpu.compute, 1, self.launched)

    def synchronize(self):
        self.gpu.lib.torchlike_synchronize(self.gpu.compute)


class Scheduler:
    def __init__(self):
        self.waiting = list(range(300))

    def schedule(self):
        budget, chosen = 200000, []
        for sequence in sorted(self.waiting, key=lambda x: -x % 97):
            budget -= sum((sequence * k) % 7 for k in range(40))
            if budget < 0:
                break
            chosen.append(sequence)
        return chosen

    def plan(self):
        total = 0
        for i in range(60000):
            total += i % 7
        return total


class Tokenizer:
    TEXT = bytes(600_000)

    def __init__(self):
        self.todo, self.done = queue.Queue(), queue.Queue()

    def detokenize(self):
        return hashlib.sha256(self.TEXT).digest()  # without Python's lock

    def run(self):
        torchlike.libc.prctl(torchlike.PR_SET_NAME, b"tokenizer", 0, 0, 0)
        while self.todo.get():
            self.detokenize()
            self.done.put(True)


class Metrics:
    def collect(self):
        return sum(i * i for i in range(4000))  # with Python's lock

    def run(self):
        torchlike.libc.prctl(torchlike.PR_SET_NAME, b"metrics", 0, 0, 0)
        while not torchlike.stopping.wait(0.02):
            self.collect()


class Engine:
    LOGITS = bytes(250_000)

    def __init__(self, model):
        self.model, self.scheduler, self.tokenizer = model, Scheduler(), Tokenizer()
        self.log, self.steps = [], 0
        self.began, self.lengths = torchlike.boottime_ns(), []

    def sample(self):
        return hashlib.sha256(self.LOGITS).digest()

    def wait_for_tokens(self):
        self.tokenizer.todo.put(True)
        self.tokenizer.done.get()

    def poll(self):
        time.sleep(0.002)

    def phase(self, function):
        begin = torchlike.boottime_ns()
        function()
        self.log.append((function.__qualname__, begin, torchlike.boottime_ns()))

    def run(self):
        torchlike.libc.prctl(torchlike.PR_SET_NAME, b"engine", 0, 0, 0)
        while not torchlike.stopping.is_set():
            begin = torchlike.boottime_ns()
            self.phase(self.scheduler.schedule)
            self.phase(self.model.forward)
            self.phase(self.model.synchronize)
            self.phase(self.sample)
            self.phase(self.wait_for_tokens)
            if self.steps % 3 == 0:
                self.phase(self.poll)
            self.steps += 1
            self.lengths.append(torchlike.boottime_ns() - begin)
        self.tokenizer.todo.put(False)

    def core(self, peer):
        """Plans each step of the peer, the worker."""
        while not torchlike.stopping.is_set():
            self.model.forward()
            self.model.synchronize()
            self.scheduler.plan()
            peer.sendall(b"x")
            peer.recv(1)

    def worker(self, peer):
        """Makes the steps that the peer, the core, plans."""
        while not torchlike.stopping.is_set() and peer.recv(1):
            self.model.forward()
            self.model.synchronize()
            peer.sendall(b"x")

    def take_turns(self, settings):
        torchlike.libc.prctl(torchlike.PR_SET_NAME, b"engine", 0, 0, 0)
        peer = socket.socket(socket.AF_UNIX)
        try:
            if settings.core:
                peer.bind(settings.core + ".new")
                peer.listen()
                os.rename(settings.core + ".new", settings.core)
                self.core(peer.accept()[0])
            else:
                peer.connect(settings.worker)
                self.worker(peer)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the peer has ended
        torchlike.stopping.wait()

    def done(self):
        return self.model.launched

    def stats(self):
        """Steps as a server has requests, with their lengths."""
        lengths = sorted(self.lengths) or [0]
        return {
            "requests": self.steps, "uptime_ns": torchlike.boottime_ns() - self.began,
            "p50_ns": lengths[len(lengths) // 2], "p99_ns": lengths[len(lengths) * 99 // 100],
        }

    def write(self, path):
        with open(path, "w") as file:
            for entry in self.log:
                file.write("%s %d %d\n" % entry)


def main():
    settings = torchlike.parse(core="a socket for a worker: plan its steps", worker="the socket of a core: make the steps that it plans")
    torchlike.libc.prctl(torchlike.PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    engine = Engine(Model(torchlike.Gpu(settings.library, settings.code_object)))
    server = torchlike.serve(settings.port, engine)
    targets = (engine.run, engine.tokenizer.run, Metrics().run)
    if settings.core or settings.worker:
        targets = (lambda: engine.take_turns(settings),)
    threads = [threading.Thread(target=t) for t in targets]
    print("ready pid=%d port=%d" % (os.getpid(), server.server_address[1]), flush=True)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if settings.log:
        engine.write(settings.log)
    print(json.dumps({"threads": [{"id": 1, "count": engine.model.launched}]}))
    server.shutdown()


if __name__ == "__main__":
    main()
