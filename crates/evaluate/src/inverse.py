"""Four tasks of k x inverse(M Mt) with NumPy: serial, in threads, or in processes.

usage: python3 -c SCRIPT MODE TASKS N K     prints one line of JSON
MODE probe reports the versions, the BLAS in use, the seconds of one inverse and the GFLOPS of a product.
"""
import json
import multiprocessing
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy


def task(argument):
    seed, n, k = argument
    matrix = numpy.random.default_rng(seed).random((n, n)) - 0.5
    for _ in range(k):
        numpy.linalg.inv(matrix @ matrix.T)


def blas():
    """Return the file names of the BLAS libraries that this process has mapped."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "/" in line}
    names = {file.rsplit("/", 1)[-1] for file in files}
    return sorted(name for name in names if re.match(r"lib(\w*blas|mkl|blis|atlas|flexi|armpl)", name))


def gflops(n=500):
    """Return the GFLOPS of a product of two n x n matrices: the best of five, after a warm-up."""
    matrix = numpy.ones((n, n))
    matrix @ matrix
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - began)
    return 2e-9 * n**3 / min(seconds)


mode, tasks, n, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
work = [(seed, n, k) for seed in range(tasks)]
if mode == "probe":
    task(work[0])
began = time.perf_counter()
if mode in ("serial", "probe"):
    for argument in work:
        task(argument)
elif mode == "threads":
    with ThreadPoolExecutor(tasks) as pool:
        list(pool.map(task, work))
else:
    # Fork, because this script is not a file that a fresh interpreter could import.
    with ProcessPoolExecutor(tasks, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(task, work))
elapsed = time.perf_counter() - began
print(json.dumps({
    "seconds": elapsed,
    "gflops": gflops() if mode == "probe" else None,
    "blas": blas(),
    "numpy": numpy.__version__,
    "python": sys.version.split()[0],
}))
