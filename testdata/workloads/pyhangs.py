"""Hangs for ever by the GIL: the main thread waits in hipStreamSynchronize and holds it, because the library was loaded as
ctypes.PyDLL; the stream waits for a function of Python, for which a thread of HIP wants the GIL; so does a thread of Python.
The lines marked with # at NAME are those that the threads are at."""

import ctypes
import os
import sys
import threading
import time


def load():
    for version in (5, 6, 7):
        try:
            return ctypes.PyDLL(f"libamdhip64.so.{version}")
        except OSError:
            continue
    sys.exit("no libamdhip64")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def done(stream, status, data):
    pass


class Loader(threading.Thread):
    def run(self):
        while True:
            self.step()

    def step(self):
        time.sleep(0.001)  # at loader


class Trainer:
    def __init__(self, hip):
        self.hip, self.stream = hip, ctypes.c_void_p()

    def check(self, result):
        if result != 0:
            sys.exit(f"HIP: error {result}")

    def prepare(self):
        self.check(self.hip.hipStreamCreateWithFlags(ctypes.byref(self.stream), 1))
        self.check(self.hip.hipStreamSynchronize(self.stream))

    def step(self):
        print(f"ready pid={os.getpid()} port=0", flush=True)  # the last call that gives up the GIL
        self.check(self.hip.hipStreamAddCallback(self.stream, done, None, 0))
        self.synchronize()  # at step

    def synchronize(self):
        self.hip.hipStreamSynchronize(self.stream)  # at synchronize


sys.setswitchinterval(3600)  # no thread asks the main thread for the GIL
Loader(daemon=True).start()
trainer = Trainer(load())
trainer.prepare()
trainer.step()  # at module
