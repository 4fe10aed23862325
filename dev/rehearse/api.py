"""The deployed HTTP API, called as buyers, operators and the payment provider call it."""

import dataclasses
import datetime
import hashlib
import hmac
import http.client
import json
import threading
import time

from report import Failed

# Longer than a gateway waits for a function.
CALL_WITHIN_S = 35
FINAL_WITHIN_S = 60
# What is no final answer to an order: docs/operations.md, "What a buyer's answers mean".
SAME_AGAIN = {"limited", "unavailable"}


@dataclasses.dataclass
class Answer:
    """One answer; `body` is what its JSON says."""

    status: int
    headers: dict
    body: object

    @property
    def code(self):
        return self.body.get("code") if isinstance(self.body, dict) else None

    @property
    def said(self):
        """Status and code, for comparisons that show both where they fail."""
        return f"{self.status} {self.code}" if self.code else str(self.status)

    def must(self, status):
        """The body, where this call is only the way to something else."""
        if self.status != status:
            raise Failed(f"{self.status} instead of {status}: {self.body}")
        return self.body


@dataclasses.dataclass
class Submission:
    """A buyer's token and lines: sent again, it is the same submission."""

    buyer: str
    activity: str
    token: str
    lines: list
    coupon: str | None = None

    @property
    def body(self):
        body = {"token": self.token, "lines": self.lines}
        return body if self.coupon is None else {**body, "coupon": self.coupon}


class Api:
    """Calls by name. Each opens a connection of its own, so they can be made from many threads."""

    def __init__(self, aws, api, issuer, webhook_secret):
        self.port, self.host = aws.port, f"{api}.execute-api.localhost:{aws.port}"
        self.issuer, self.webhook_secret = issuer, webhook_secret
        self.olga = issuer.operator("olga")
        # Orders that were told 201.
        self.access, self.created, self.counting = {}, 0, threading.Lock()

    def call(self, method, path, access=None, body=None, headers=None):
        headers = {"Host": self.host, **(headers or {})}
        if access is not None:
            headers["Authorization"] = f"Bearer {access}"
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_WITHIN_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            content = json.loads(text) if text else None
        except ValueError:
            content = text
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)

    def buyer(self, name):
        """The buyer's access token, one for the whole run."""
        return self.access.setdefault(name, self.issuer.token(name))

    # --- Operators ---------------------------------------------------------------------------------

    def operate(self, path, body=None, method="POST", headers=None):
        return self.call(method, f"/v1/admin/activities/{path}", self.olga, body, headers)

    def put_activity(self, activity, stock, **changes):
        """Creates an activity that runs from now on for an hour: one SKU, `phone`."""
        now = datetime.datetime.now(datetime.timezone.utc)
        draft = {
            "name": f"Rehearsal {activity}", "starts_at": (now - datetime.timedelta(minutes=1)).isoformat(),
            "ends_at": (now + datetime.timedelta(hours=1)).isoformat(), "time_zone": "Europe/Berlin",
            "strategy": "prededuct", "buckets": 2, "limit": {"scope": "activity", "max": 1}, "on_cancel": "release",
            "payment_minutes": 15, "currency": "EUR", "skus": [{"sku": "phone", "stock": stock, "price": 49900}],
            **changes,
        }
        return self.operate(activity, draft, "PUT", {"If-None-Match": "*"})

    def preheat(self, activity):
        """Until it is complete. Answers the last answer."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        while True:
            answer = self.operate(f"{activity}/preheat")
            if answer.status != 503 and answer.must(200)["complete"]:
                return answer
            if time.monotonic() > deadline:
                raise Failed(f"the preheat of {activity} is not complete: {answer.body}")
            time.sleep(0.5)

    def reconcile(self, activity):
        """On demand, until nothing is left to compare. Answers the report."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        while True:
            answer = self.operate(f"{activity}/reconcile")
            if answer.status == 200:
                return answer.body
            if answer.status not in (202, 503) or time.monotonic() > deadline:
                raise Failed(f"the reconciliation of {activity} does not end: {answer.status} {answer.body}")
            time.sleep(0.5)

    # --- Buyers ------------------------------------------------------------------------------------

    def submission(self, buyer, activity, quantity=1, coupon=None):
        """Takes a token; nothing is ordered yet."""
        path = f"/v1/activities/{activity}/tokens"
        deadline = time.monotonic() + FINAL_WITHIN_S
        answer = self.call("POST", path, self.buyer(buyer), {})
        while answer.code in SAME_AGAIN and time.monotonic() < deadline:
            time.sleep(1)
            answer = self.call("POST", path, self.buyer(buyer), {})
        lines = [{"sku": "phone", "quantity": quantity}]
        return Submission(buyer, activity, answer.must(201)["token"], lines, coupon)

    def send(self, submission):
        """Once, whatever is answered."""
        path = f"/v1/activities/{submission.activity}/orders"
        answer = self.call("POST", path, self.buyer(submission.buyer), submission.body)
        with self.counting:
            self.created += answer.status == 201
        return answer

    def final(self, submission):
        """The same request until the answer is final, as a client that wants to know does."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        while True:
            answer = self.send(submission)
            if answer.status not in (202, 500, 502, 504) and answer.code not in SAME_AGAIN:
                return answer
            if time.monotonic() > deadline:
                raise Failed(f"no final answer to an order of {submission.buyer}: {answer.status} {answer.body}")
            time.sleep(min(float(answer.headers.get("retry-after", 0.3)), 2))

    def order(self, buyer, activity, quantity=1, coupon=None):
        """A committed order's body, and its submission."""
        submission = self.submission(buyer, activity, quantity, coupon)
        answer = self.final(submission)
        if answer.status not in (200, 201):
            raise Failed(f"the order of {buyer} in {activity} was answered {answer.status} {answer.body}")
        return answer.body, submission

    def about(self, method, order, buyer, action="", body=None):
        """A call about one order of a buyer."""
        path = f"/v1/activities/{order['activity']}/orders/{order['order_no']}{action}"
        return self.call(method, path, self.buyer(buyer), body)

    # --- The payment provider ----------------------------------------------------------------------

    def pay(self, order, event_id, secret=None, at=None, **changes):
        """Tells that the order was paid, signed now with the deployed secret unless others are given."""
        body = json.dumps({
            "event_id": event_id, "activity": order["activity"], "order_no": order["order_no"], "status": "paid",
            "amount": order["total"], "currency": order["currency"], **changes,
        }).encode()
        at = str(int(time.time() if at is None else at))
        mac = hmac.new(secret or self.webhook_secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
        return self.call("POST", "/v1/payments/webhook", body=body, headers={"Holdfast-Signature": f"t={at},v1={mac}"})
