"""Python frames that are known: `pystacks.py [parked | forked | busy]`. parked: threads at places of all kinds, whose frames it
prints as sys._current_frames() has them. forked: the same in a child of its own. busy: threads that call all the time; the lines say in a comment which
function they call."""

import asyncio
import ctypes
import json
import os
import sys
import threading
import time

never = threading.Lock()
never.acquire()


def park():
    never.acquire()


def recursive(n):
    if n == 0:
        park()
    else:
        recursive(n - 1)


def by_sort():
    sorted([1], key=lambda x: park())


class Model:
    class Layer:
        def forward(self, *args, **kwargs):
            (
                park
            )(
            )

    def __call__(self):
        return [self.Layer().forward(x=1) for _ in range(1)]


def generator():
    yield 1
    with Context():
        yield park()


class Context:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def by_generator():
    for _ in generator():
        pass


async def inner():
    await asyncio.sleep(0)
    park()


async def outer():
    await inner()


def by_coroutine():
    asyncio.run(outer())


def by_exception():
    try:
        raise ValueError
    except ValueError:
        try:
            1 / 0
        finally:
            park()


def größe_日本():
    park()


def 𝛼():
    größe_日本()


def by_exec():
    code = compile("\n" * 100000 + "def far():\n    park()\nfar()\n", "<a file " + "x" * 300 + ">", "exec")
    exec(code, {"park": park})


def by_class_body():
    class Body:
        value = park()


class Descriptor:
    def __get__(self, instance, owner):
        return park()


class Owner:
    attribute = Descriptor()


def by_attribute():
    Owner().attribute


def by_import():
    import collections.abc  # noqa: loads nothing
    [park() for _ in collections.abc.Sized.__mro__]


PLACES = [park, lambda: recursive(30), by_sort, Model(), by_generator, by_coroutine, by_exception, 𝛼, by_exec, by_class_body, by_attribute, by_import]


def frames_of(frame):
    found = []
    while frame:
        code = frame.f_code
        found.append([code.co_qualname, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return found


def parked():
    threads = [threading.Thread(target=place, daemon=True) for place in PLACES]
    for t in threads:
        t.start()
    while True:
        frames = sys._current_frames()
        if all(frames[t.ident].f_code is park.__code__ for t in threads):
            break
        time.sleep(0.01)
    print(json.dumps({"pid": os.getpid(), "version": sys.version.split()[0], "threads": {t.native_id: frames_of(frames[t.ident]) for t in threads}}))


# What is busy.


def leaf():
    x = 0
    for i in range(3):
        x += i
    return x


def middle(n):
    leaf()  # calls leaf
    x = n * 2
    leaf()  # calls leaf
    return x


def other(n):
    y = n + 1
    middle(y)  # calls middle
    return sum(map(lambda v: leaf(), range(2)))  # calls leaf, other.<locals>.<lambda>


def made(number):
    scope = {"leaf": leaf}
    exec(compile(f"def f{number}():\n    leaf()  # calls leaf\n", f"<made {number}>", "exec"), scope)  # calls <module>
    scope[f"f{number}"]()  # calls f


def spin():
    n = 0
    while True:
        n += 1
        middle(n)  # calls middle
        if n % 3:
            other(n)  # calls other
        else:
            leaf()  # calls leaf
        made(n)  # calls made


def busy():
    for _ in range(2):
        threading.Thread(target=spin, daemon=True).start()


if __name__ == "__main__":
    mode = sys.argv[1]
    sys.setswitchinterval(0.0005)
    if mode == "forked":
        if os.fork():
            os.wait()
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: it ends with its parent
    busy() if mode == "busy" else parked()
    print(f"ready pid={os.getpid()} port=0", flush=True)
    park()
