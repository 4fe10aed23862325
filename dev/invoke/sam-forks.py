"""`sam local invoke`, again and again: SAM is imported once, which is most of what a call costs, and every call runs
SAM's own command with its own arguments in a fork.

    sam-forks.py <path of the socket to listen on>

A call is one line of JSON: `arguments`, `stdout` and `stderr` (files), `limit_s`. It is answered with its exit status
on a line, or with nothing when it took longer than its limit.
"""

import json
import os
import signal
import socketserver
import sys

import samcli.commands.local.invoke.cli  # noqa: F401  # with all that it needs
from samcli.cli.main import cli


class Call(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        if not line:  # only a look whether this listens
            return
        call = json.loads(line)
        # The fork is killed by it.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(call["limit_s"])
        for descriptor, path in ((1, call["stdout"]), (2, call["stderr"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
        try:
            cli(call["arguments"], prog_name="sam")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        self.wfile.write(b"%d\n" % status)


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    # More than the caller ever asks for at a time.
    max_children = 8


Server(sys.argv[1], Call).serve_forever()
