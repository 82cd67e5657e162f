"""A job of head_and_workers whose head kills itself, for the tests of every backend."""

import os
import signal
import subprocess
import tempfile


def check_workers_notice(test, program, watchdog, **variables):
    """Both workers end with an error that names rank 0. `variables` are set on every rank."""
    # Started by hand: commrun would end the workers before they can say anything.
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(3):
            environment = dict(
                os.environ,
                COMM_RANK=str(rank),
                COMM_WORLD_SIZE="3",
                COMM_LOCAL_RANK=str(rank),
                COMM_LOCAL_WORLD_SIZE="3",
                COMM_ROOT_ADDR="127.0.0.1",
                COMM_RENDEZVOUS_FILE=os.path.join(folder, "root"),
                **variables,
            )
            ranks.append(
                subprocess.Popen(
                    [program, "--crash-head"],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            said = [rank.communicate(timeout=watchdog)[1] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    test.assertEqual(ranks[0].returncode, -signal.SIGKILL)
    for worker in (1, 2):
        test.assertEqual(ranks[worker].returncode, 1, said[worker])
        # "unhealthy" where the other worker was the first to notice.
        test.assertRegex(said[worker], "(peer_lost|unhealthy): .*rank 0 is lost")
