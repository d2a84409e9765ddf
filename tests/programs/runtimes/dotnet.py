"""A stand-in for a running .NET 8: compiled code without names, and the diagnostics socket that a runtime has.

Computes in a function of its own making for ARGV[1] seconds. To the command EnablePerfMap it answers with ARGV[2]: 0,
and it writes a map of its code, or 255, which is what older runtimes answer.
"""

import ctypes
import mmap
import os
import socket
import struct
import sys
import threading
import time

# mov $200000000, %ecx; 1: dec %ecx; jnz 1b; ret
CODE = b"\xb9\x00\xc2\xeb\x0b\xff\xc9\x75\xfc\xc3"
PATH = f"/tmp/dotnet-diagnostic-{os.getpid()}-1-socket"

memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
                   flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(CODE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))


def serve(listener, answer):
    while True:
        connection, _ = listener.accept()
        magic, size, commands, command, _ = struct.unpack("<14sHBBH", connection.recv(20, socket.MSG_WAITALL))
        if size > 20:
            connection.recv(size - 20, socket.MSG_WAITALL)
        if (commands, command, answer) == (4, 5, 0):
            with open(f"/tmp/perf-{os.getpid()}.map", "w") as out:
                out.write(f"{address:x} {len(CODE):x} int32 [App] Billing::Total(int32)[Optimized]\n")
        connection.sendall(struct.pack("<14sHBBHI", magic, 24, 0xFF, answer, 0, 0))
        connection.close()


listener = socket.socket(socket.AF_UNIX)
listener.bind(PATH)
listener.listen()
threading.Thread(target=serve, args=(listener, int(sys.argv[2])), daemon=True).start()
end = time.time() + float(sys.argv[1])
try:
    while time.time() < end:
        ctypes.CFUNCTYPE(None)(address)()
finally:
    os.remove(PATH)
