"""Python functions with known shares of CPU time (alpha 50 %, beta 30 %, gamma 20 %), in several ways to run them.

python3 split.py KIND SECONDS. The kind `sleeper` waits: nap_one 70 %, nap_two 30 %."""
import asyncio, functools, sys, threading, time

def burn(seconds):
    """Computes for this much CPU time of the thread."""
    end = time.thread_time() + seconds
    x = 0
    while time.thread_time() < end:
        for i in range(200):
            x += i * i
    return x

def alpha(s): return burn(s)
def beta(s): return burn(s)
def gamma(s): return burn(s)

def plain(s):
    alpha(s * .5); beta(s * .3); gamma(s * .2)

def threads(s):
    def worker(f, t): f(t)
    ts = [threading.Thread(target=worker, args=(f, s * p), name=n) for f, p, n in
          ((alpha, .5, "crunch-alpha"), (beta, .3, "crunch-beta"), (gamma, .2, "crunch-gamma"))]
    [t.start() for t in ts]; [t.join() for t in ts]

def tasks(s):
    async def step(f, t):
        for _ in range(10):
            f(t / 10); await asyncio.sleep(0)
    async def main():
        await asyncio.gather(step(alpha, s * .5), step(beta, s * .3), step(gamma, s * .2))
    asyncio.run(main())

def generators(s):
    def gen(f, t):
        for _ in range(20):
            yield f(t / 20)
    def outer(f, t): yield from gen(f, t)
    for f, p in ((alpha, .5), (beta, .3), (gamma, .2)): sum(outer(f, s * p))

def raises(s):
    def thrower(f, t): f(t); raise ValueError
    for f, p in ((alpha, .5), (beta, .3), (gamma, .2)):
        for _ in range(20):
            try: thrower(f, s * p / 20)
            except ValueError: pass

def deep(s):
    sys.setrecursionlimit(5000)
    def down(n, f, t): return f(t) if n == 0 else down(n - 1, f, t)
    for f, p in ((alpha, .5), (beta, .3), (gamma, .2)): down(2000, f, s * p)

def callbacks(s):
    for f, p in ((alpha, .5), (beta, .3), (gamma, .2)):
        functools.reduce(lambda a, x: f(s * p / 20), range(21))

def keys(s):
    for f, p in ((alpha, .5), (beta, .3), (gamma, .2)):
        sorted(range(20), key=lambda x: f(s * p / 20))

def processes(s):
    import multiprocessing as mp
    for how in ("fork", "spawn"):
        c = mp.get_context(how)
        ps = [c.Process(target=f, args=(s / 2 * p,)) for f, p in ((alpha, .5), (beta, .3), (gamma, .2))]
        [p.start() for p in ps]; [p.join() for p in ps]

def sleeper(s):
    def nap_one(t): time.sleep(t)
    def nap_two(t): time.sleep(t)
    for _ in range(10): nap_one(s * .07); nap_two(s * .03)

KINDS = dict(plain=plain, threads=threads, tasks=tasks, generators=generators, raises=raises, deep=deep,
             callbacks=callbacks, keys=keys, processes=processes, sleeper=sleeper)
if __name__ == "__main__":
    KINDS[sys.argv[1]](float(sys.argv[2]))
