import os
import signal
import subprocess
import sys
import time


def test_ctrl_c_while_a_tool_is_loaded_leaves_no_traceback() -> None:
    command = [sys.executable, "-v", "-m", "tools.check_data", "nowhere"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:  # of -v: what is imported
            if line.startswith("import 'tools'"):
                break
        time.sleep(0.2)  # torch takes seconds
        os.kill(process.pid, signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode in (-signal.SIGINT, 130)
    assert "interrupted\n" in rest
    assert "Traceback" not in rest
