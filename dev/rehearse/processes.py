"""The servers of a rehearsal: Redis and ministack, on free ports, and ended whatever happens.

ministack runs each function as a process of its own, which it leaves behind when it is killed. So it is asked to end
first, and then whatever is left of its process group is ended too.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.request

from report import Failed, until

REGION = "eu-central-1"
START_WITHIN_S = 60
END_WITHIN_S = 10


def free_port():
    """One that was free a moment ago."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def group_lives(group):
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end(process):
    """Asks the process to end, then ends its group: first gently, then not."""
    group = process.pid
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_WITHIN_S)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, sign)
        deadline = time.monotonic() + END_WITHIN_S
        while group_lives(group) and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.05)
    process.wait(END_WITHIN_S)


@contextlib.contextmanager
def running(command, log, env):
    """A server in a process group of its own: Ctrl-C reaches this program, which then ends it."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def ready(process, what, look):
    """Waits until the server answers; one that ended does not have to be waited for."""
    def answers():
        if process.poll() is not None:
            raise Failed(f"{what} ended with status {process.returncode}")
        try:
            return look()
        except OSError:
            return False
    until(START_WITHIN_S, f"{what} answers", answers)


class Redis:
    """Connection data of a server with a password, so that the password's way is rehearsed too."""

    def __init__(self, port):
        self.port, self.password = port, secrets.token_urlsafe(24)
        self.url = f"redis://127.0.0.1:{port}"

    def call(self, *parts):
        """One command's reply: text, a number, None or a list. Enough of the protocol for a look."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            stream = connection.makefile("rwb")
            for command in (("AUTH", self.password), parts):
                stream.write(b"*%d\r\n" % len(command))
                for part in command:
                    part = str(part).encode()
                    stream.write(b"$%d\r\n%b\r\n" % (len(part), part))
                stream.flush()
                reply = self._read(stream)
            return reply

    def _read(self, stream):
        line = stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:].decode()
        if kind == b"-":
            raise Failed(f"Redis answers {rest}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._read(stream) for _ in range(int(rest))]
        if kind == b"":
            raise OSError("Redis closed the connection")
        return rest


@contextlib.contextmanager
def redis(folder):
    server = Redis(free_port())
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(server.port), "--dir", folder, "--save", "",
               "--appendonly", "no", "--maxmemory-policy", "noeviction", "--requirepass", server.password]
    with running(command, f"{folder}/redis.log", dict(os.environ)) as process:
        ready(process, "redis-server", lambda: server.call("PING") == "PONG")
        yield server


class Ministack:
    """Where the local AWS is, and what clients need to know of it."""

    def __init__(self, folder):
        self.port, self.log = free_port(), f"{folder}/ministack.log"
        self.url = f"http://127.0.0.1:{self.port}"
        # Of every program that talks to it, the functions included: none may reach another AWS by accident.
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }


@contextlib.contextmanager
def ministack(program, folder, certificate):
    """The local AWS. It trusts the issuer's certificate, which is how it gets the keys of access tokens."""
    aws = Ministack(folder)
    env = {
        **aws.env,
        "GATEWAY_PORT": str(aws.port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "TMPDIR": folder,
        "SSL_CERT_FILE": certificate,
        # Signatures are checked, and a function may do what its role allows and nothing else.
        "AUTH": "true",
        # No other listener, and no hand on containers that are somebody else's.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "DOCKER_HOST": f"unix://{folder}/no-docker.sock",
    }

    def answers():
        with urllib.request.urlopen(f"{aws.url}/_ministack/health", timeout=5) as answer:
            return answer.status == 200

    with running([program], aws.log, env) as process:
        ready(process, "ministack", answers)
        yield aws
