import json
import platform
import subprocess
import sys

import pytest

HELD_AFTER_FREE = """
import json, sys, psutil, torch
from priorline.training.allocator import keep_freed_memory
understood = keep_freed_memory() if sys.argv[1] == "keep" else None
before = psutil.Process().memory_info().rss
torch.ones(256 * 2**20 // 4)
print(json.dumps([understood, (psutil.Process().memory_info().rss - before) / 2**20]))
"""


def run(mode: str):
    done = subprocess.run([sys.executable, "-c", HELD_AFTER_FREE, mode], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_freed_memory_stays_with_the_process():
    understood, held_mib = run("keep")
    assert understood
    assert held_mib > 240
    assert run("default")[1] < 16
