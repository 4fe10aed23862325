"""Whoever signs access tokens: a key made for this run, its public half over https, and tokens of all kinds.

The template wants an https issuer, and an authorizer reads the issuer's discovery document and keys, so both are
served as an identity provider does, under a certificate made for this run.
"""

import base64
import contextlib
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

AUDIENCE = "holdfast-rehearsal"
OPERATOR_SCOPE = "holdfast/operate"
LIFETIME_S = 3600


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    def __init__(self, port):
        self.url = f"https://127.0.0.1:{port}"
        self.key, self.foreign_key = new_key(), new_key()

    def jwks(self):
        numbers = self.key.public_key().public_numbers()
        n, e = (base64url(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rehearsal", "n": n, "e": e}]}

    def token(self, sub, key=None, **claims):
        """An access token, as by Cognito: `client_id` where others have `aud`. `claims` are added or replaced."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": sub, "client_id": AUDIENCE, "token_use": "access", "iat": now - 1,
                  "exp": now + LIFETIME_S, "scope": "openid", **claims}
        header = {"alg": "RS256", "typ": "JWT", "kid": "rehearsal"}
        signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
        signature = (key or self.key).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{base64url(signature)}"

    def operator(self, sub, *groups, scope=f"openid {OPERATOR_SCOPE}"):
        """An operator's: groups as a list, which an HTTP API hands over as text in brackets."""
        return self.token(sub, scope=scope, **{"cognito:groups": list(groups or ("operator",))})


def certificate(folder):
    """A certificate for 127.0.0.1 and its key, as files."""
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast rehearsal")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = f"{folder}/issuer.pem", f"{folder}/issuer.key"
    with open(paths[0], "wb") as file:
        file.write(made.public_bytes(pem))
    with open(paths[1], "wb") as file:
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


@contextlib.contextmanager
def issuing(folder):
    """The issuer while it serves, and the path of the certificate that it is trusted by."""
    chain, key = certificate(folder)
    documents = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            document = documents.get(self.path)
            body = json.dumps(document or {}).encode()
            self.send_response(200 if document else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer = Issuer(server.server_address[1])
    jwks = f"{issuer.url}/.well-known/jwks.json"
    documents["/.well-known/openid-configuration"] = {"issuer": issuer.url, "jwks_uri": jwks}
    documents["/.well-known/jwks.json"] = issuer.jwks()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield issuer, chain
    finally:
        server.shutdown()
        server.server_close()
