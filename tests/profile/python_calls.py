"""A program whose calls of the driver, played by the stand-in for CUPTI, come from Python in many ways. Prints where
each came from: its bytes, file, line and function.
"""

import ctypes
import inspect
import itertools
import json
import os
import sys
import threading
from importlib import import_module

LIBRARIES = [kind(os.environ["STANDIN"]) for kind in (ctypes.CDLL, ctypes.PyDLL)]  # without the GIL, and with it
CALLBACK = ctypes.CFUNCTYPE(None)
numbers, lock, expected = itertools.count(1), threading.Lock(), []


def call(file="", line=0, function=""):
    """Allocates memory as the line that calls this does, at any depth. Returns how many bytes."""
    with lock:
        number = next(numbers)
    frame = inspect.currentframe().f_back
    place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    expected.append((number, file or place[0], line or place[1], function or place[2]))
    return number


def allocated(library, number):
    return 243, 3, ctypes.c_uint64(number << 20), ctypes.c_uint64(number)


def in_many_ways(lib):
    allocate = lib.standin_allocate
    allocate(*allocated(lib, call()))
    (lambda: allocate(*allocated(lib, call())))()
    [allocate(*allocated(lib, call())) for _ in range(2)]
    for _ in (allocate(*allocated(lib, call())) for _ in range(2)):
        pass
    sorted([1], key=lambda _: allocate(*allocated(lib, call())))
    CALLBACK(lambda: allocate(*allocated(lib, call())) and None)()
    exec("def f():\n    return allocate(*allocated(lib, call()))\nf()", {**globals(), **locals()})
    exec(compile("\n\nallocate(*allocated(lib, call()))", "<made>", "exec"), {**globals(), **locals()})
    try:
        raise ValueError
    except ValueError:
        allocate(*allocated(lib, call()))
    threads = [threading.Thread(target=many, args=(allocate, lib)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    helper = import_module("helper")  # of a package: the user's frame is this one
    helper.through(allocate, *allocated(lib, call()))
    import_module("grün").through(allocate, lambda number: allocated(lib, number), call)


def many(allocate, lib):
    for number in range(40):
        space = {}
        lines = "    pass\n" * (number % 7)
        text = f"def f():\n{lines}    allocate(*allocated(lib, call()))\n"
        exec(compile(text, f"<made {number % 5}>", "exec"), {**globals(), "allocate": allocate, "lib": lib}, space)
        space["f"]()


if __name__ == "__main__":
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()
    LIBRARIES[0].standin_init()
    sys.path += os.environ["MORE"].split(":")
    for library in LIBRARIES:
        in_many_ways(library)
    print(json.dumps(expected))
