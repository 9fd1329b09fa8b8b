"""A training loop as PyTorch runs one: ranges for forward, backward and optimizer, a thread for the
backward pass, a thread that loads data, and two streams. It needs Python alone. RTL_ROCTX names
ROCTx's library. Each call of ROCTx and each launch is logged, to be compared with a trace."""

import argparse
import ctypes
import json
import os
import queue
import socketserver
import threading
import time

MARK, PUSH, POP, START, STOP, LAUNCH = range(6)
PR_SET_NAME, PR_SET_PTRACER = 15, 0x59616D61

stopping = threading.Event()
libc = ctypes.CDLL(None)


def boottime_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Gpu:
    """The library that calls HIP."""

    def __init__(self, library, code_object):
        self.lib = ctypes.CDLL(library)
        self.lib.torchlike_kernel.restype = ctypes.c_char_p
        self.lib.torchlike_stream.restype = ctypes.c_void_p
        self.lib.torchlike_launch.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
        self.lib.torchlike_wait.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        for function in (self.lib.torchlike_copy, self.lib.torchlike_synchronize):
            function.argtypes = [ctypes.c_void_p]
        count = self.lib.torchlike_open(code_object.encode())
        self.kernels = [self.lib.torchlike_kernel(i).decode() for i in range(count)]
        self.compute, self.copy = self.lib.torchlike_stream(), self.lib.torchlike_stream()


class Range:
    """What torch.cuda.nvtx.range is: a range of the thread around a block."""

    def __init__(self, thread, text):
        self.thread, self.text = thread, text

    def __enter__(self):
        self.thread.logged(PUSH, self.text, self.thread.roctx.roctxRangePushA, self.text.encode())

    def __exit__(self, *_):
        self.thread.logged(POP, "", self.thread.roctx.roctxRangePop)


class Thread:
    """What one thread has called."""

    def __init__(self, number, name, gpu, roctx):
        self.number, self.name, self.gpu, self.roctx = number, name, gpu, roctx
        self.tid, self.calls, self.launched = 0, [], 0

    def begin(self):
        self.tid = threading.get_native_id()
        libc.prctl(PR_SET_NAME, self.name.encode(), 0, 0, 0)

    def logged(self, operation, text, function, *arguments, number=0):
        before = boottime_ns()
        function(*arguments)
        self.calls.append((operation, number, len(text), before, boottime_ns(), text))

    def range(self, text):
        return Range(self, text)

    def mark(self, text):
        self.logged(MARK, text, self.roctx.roctxMarkA, text.encode())

    def launch(self, kernel, stream):
        self.launched += 1
        kernel %= len(self.gpu.kernels)
        self.logged(LAUNCH, self.gpu.kernels[kernel], self.gpu.lib.torchlike_launch, kernel, stream, self.number, self.launched, number=self.launched)

    def write(self, file):
        for call in self.calls:
            file.write("%d %d %d %d %d %d %s\n" % (self.tid, *call))


class Training:
    LAYERS = 4

    def __init__(self, gpu, roctx, pace_s):
        self.gpu, self.pace_s = gpu, pace_s
        self.trainer = Thread(1, "trainer", gpu, roctx)
        self.autograd = Thread(2, "autograd", gpu, roctx)
        self.loader = Thread(3, "data loader", gpu, roctx)
        self.threads = [self.trainer, self.autograd, self.loader]
        self.batches = queue.Queue(2)
        self.backward, self.gradients = queue.Queue(), queue.Queue()

    def train(self):
        self.trainer.begin()
        step = 0
        while self.batches.get() is not None:
            with self.trainer.range("step"):
                self.step()
            step += 1
            if step % 10 == 0:
                self.trainer.mark("checkpoint %d" % step)
            time.sleep(self.pace_s)
        self.backward.put(False)

    def step(self):
        t = self.trainer
        self.gpu.lib.torchlike_wait(self.gpu.compute, self.gpu.copy)
        with t.range("forward"):
            for layer in range(self.LAYERS):
                with t.range("layer %d" % layer):
                    t.launch(2 * layer, self.gpu.compute)
                    t.launch(2 * layer + 1, self.gpu.compute)
        with t.range("backward"):
            self.backward.put(True)
            self.gradients.get()
        with t.range("optimizer"):
            for parameter in range(3):
                t.launch(parameter, self.gpu.compute)
        self.gpu.lib.torchlike_synchronize(self.gpu.compute)

    def differentiate(self):
        t = self.autograd
        t.begin()
        while self.backward.get():
            for layer in reversed(range(self.LAYERS)):
                with t.range("backward of layer %d" % layer):
                    t.launch(2 * layer + 1, self.gpu.compute)
                    t.launch(2 * layer, self.gpu.compute)
            self.gradients.put(True)

    def load(self):
        t = self.loader
        t.begin()
        while not stopping.is_set():
            with t.range("load batch"):
                self.gpu.lib.torchlike_copy(self.gpu.copy)
                t.launch(0, self.gpu.copy)
            self.gpu.lib.torchlike_synchronize(self.gpu.copy)
            self.batches.put(True)
        self.batches.put(None)

    def done(self):
        return sum(len(t.calls) for t in self.threads)

    def write(self, path):
        with open(path, "w") as file:
            for t in self.threads:
                t.write(file)
            file.write("tool 0 0\n")


def serve(port, training):
    """Answers /health, /quit, and /stats for a training that has stats()."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            path = self.rfile.readline().split()[1]
            if path == b"/quit":
                stopping.set()
            answers = {b"/health": lambda: b"ok %d\n" % training.done(), b"/stats": lambda: json.dumps(training.stats()).encode()}
            answer = answers.get(path, lambda: b"bye\n")()
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + answer)

    server = socketserver.TCPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def parse(**options):
    """The settings. options: further ones, with their help."""
    beside = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pace", type=int, default=1000, help="pause after each step, in us")
    parser.add_argument("--port", type=int, default=0, help="of /health and /quit; 0: any")
    parser.add_argument("--log", help="where the calls go")
    parser.add_argument("--library", default=os.path.join(beside, "libtorchlike.so"), help="what calls HIP")
    parser.add_argument("--code-object", default=os.path.join(beside, "kernels.hsaco"), help="kernels")
    for name, text in options.items():
        parser.add_argument("--" + name, help=text)
    return parser.parse_args()


def main():
    settings = parse()
    libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)  # as yama would otherwise refuse a tool that is no ancestor
    roctx = ctypes.CDLL(os.environ.get("RTL_ROCTX", "libroctx64.so.4"), mode=ctypes.RTLD_GLOBAL)
    training = Training(Gpu(settings.library, settings.code_object), roctx, settings.pace / 1e6)
    server = serve(settings.port, training)
    threads = [threading.Thread(target=t) for t in (training.train, training.differentiate, training.load)]
    print("ready pid=%d port=%d" % (os.getpid(), server.server_address[1]), flush=True)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if settings.log:
        training.write(settings.log)
    print(json.dumps({"threads": [{"id": t.number, "count": t.launched} for t in training.threads]}))
    server.shutdown()


if __name__ == "__main__":
    main()
