"""What the fuzzed calls meet: activities in every state, buyers, and their orders in every state.

All of it is made over HTTP, as a shop, its buyers and its payment provider would.
"""

import base64
import datetime
import hashlib
import hmac
import itertools
import time

import requests

# Known to every reader of dev/harness/src/lib.rs: for local servers only.
WEBHOOK_SECRET = bytes(32)
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SKUS = ["cable", "phone"]
# Calls that one activity which they change, or one order, serves before there is another.
USES = 4
# Orders of an activity with the shortest time to pay, and the seconds after which they are closed.
CLOSING, CLOSED_AFTER_S = 24, 65
CALL_LIMIT_S = 35


def sign(body):
    """The provider's header for these bytes, now."""
    at = str(int(time.time()))
    mac = hmac.new(WEBHOOK_SECRET, at.encode() + b"." + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"


def order_no(activity, buyer, token):
    """The number that the submission of this token has: docs/protocol.md, "Names"."""
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    digest = hashlib.sha256()
    for part in (activity.encode(), buyer.encode(), text[-56:-40]):
        digest.update(len(part).to_bytes(8, "big") + part)
    number = int.from_bytes(digest.digest()[:16], "big") << 2
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


class Order:
    """A submission of a buyer: placed, or not yet."""

    def __init__(self, activity, buyer, access, token):
        self.activity, self.buyer, self.access, self.token = activity, buyer, access, token
        self.number, self.amount = order_no(activity, buyer, token), 0

    @property
    def path(self):
        return f"/v1/activities/{self.activity}/orders/{self.number}"


class World:
    def __init__(self, api):
        self.api, self.session = api, requests.Session()
        self.count = itertools.count(1)
        self.operator = self.login("olga", "operator")
        self.auditor = self.login("anna", "auditor")
        self.buyer = self.login("alice")
        self.pools, self.drafts, self.versions = {}, {}, {}
        hour = datetime.timedelta(hours=1)
        self.open("running")
        self.open("cas", strategy="cas")
        self.coupons = {name: self.issue_coupons(name) for name in ("running", "cas")}
        self.open("tight", stock=1, limit={"scope": "sku", "max": 1})
        self.open("later", starts_at=self.now() + hour, ends_at=self.now() + 2 * hour)
        self.open("closing", payment_minutes=1)
        self.open("draft", preheat=False)
        self.open("over")
        self.before_the_end = self.unplaced("over")
        self.versions["over"] = self.operate("over/end")["version"]
        self.open("frozen")
        self.operate("frozen/freeze", {"reason": "fuzz"})
        self.closing, self.closing_since = [self.order("closing") for _ in range(CLOSING)], time.monotonic()

    def issue_coupons(self, activity):
        """Few, so that some are used when they are brought again; and none at all."""
        return [*self.operate(f"{activity}/coupons", {"count": 40, "discount": 300})["coupons"], None]

    @staticmethod
    def now():
        return datetime.datetime.now(datetime.timezone.utc)

    def call(self, method, path, access=None, body=None, headers=None):
        headers = dict(headers or {}, **({"Authorization": access} if access else {}))
        return self.session.request(method, self.api + path, json=body, headers=headers, timeout=CALL_LIMIT_S)

    def expect(self, *args, **kwargs):
        """The answer's body; what goes wrong here says nothing about the call that is fuzzed."""
        answer = self.call(*args, **kwargs)
        if not answer.ok:
            raise RuntimeError(f"{args[0]} {args[1]}: {answer.status_code} {answer.text}")
        return answer.json()

    def login(self, sub, *groups):
        return "Bearer " + self.expect("POST", "/dev/login", body={"sub": sub, "groups": groups})["access_token"]

    def operate(self, path, body=None):
        return self.expect("POST", f"/v1/admin/activities/{path}", self.operator, body)

    def draft(self, stock=1_000_000, **changes):
        now = self.now()
        skus = [{"sku": sku, "stock": stock, "price": price} for sku, price in zip(SKUS, (1_900, 49_900))]
        draft = {
            "name": "Fuzzed", "starts_at": now, "ends_at": now + datetime.timedelta(hours=12),
            "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": 4, "bucket_rate": 500,
            "limit": {"scope": "activity", "max": 1_000_000}, "on_cancel": "release", "payment_minutes": 60,
            "currency": "EUR", "skus": skus, **changes,
        }
        return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in draft.items()}

    def open(self, activity, preheat=True, **changes):
        body = self.drafts[activity] = self.draft(**changes)
        saved = self.expect("PUT", f"/v1/admin/activities/{activity}", self.operator, body, {"If-None-Match": "*"})
        if preheat:
            saved = self.operate(f"{activity}/preheat")
        self.versions[activity] = saved["version"]

    def served(self, kind, make):
        """One of this kind, that has not served often yet."""
        uses, thing = self.pools.get(kind, (USES, None))
        if uses == USES:
            uses, thing = 0, make()
        self.pools[kind] = uses + 1, thing
        return thing

    def victim(self, preheat=True):
        """An activity that a call may change."""
        def make():
            activity = f"victim-{next(self.count)}"
            self.open(activity, preheat)
            return activity
        return self.served(("victim", preheat), make)

    def unplaced(self, activity):
        """A buyer of whom nothing else is heard, with a token."""
        buyer = f"buyer-{next(self.count)}"
        access = self.login(buyer)
        token = self.expect("POST", f"/v1/activities/{activity}/tokens", access, {})["token"]
        return Order(activity, buyer, access, token)

    def order(self, activity):
        order = self.unplaced(activity)
        body = {"token": order.token, "lines": [{"sku": "phone", "quantity": 2}]}
        placed = self.expect("POST", f"/v1/activities/{activity}/orders", order.access, body)
        if placed["order_no"] != order.number:
            raise RuntimeError(f"{order.number} was to be placed, {placed} was")
        order.amount = placed["total"]
        return order

    def tell(self, order, status):
        body = requests.Request("POST", self.api, json={
            "event_id": f"fuzz-{next(self.count)}", "activity": order.activity, "order_no": order.number,
            "status": status, "amount": order.amount, "currency": "EUR",
        }).prepare().body
        headers = {"Holdfast-Signature": sign(body), "Content-Type": "application/json"}
        self.session.post(f"{self.api}/v1/payments/webhook", body, headers=headers).raise_for_status()

    def in_state(self, state, activity="running"):
        """An order in this state when it is made; calls that it serves may change it."""
        if state == "closed":
            return self.closed() or self.in_state("cancelled", activity)

        def make():
            if state in ("unplaced", "aborted"):
                order = self.unplaced(activity)
            else:
                order = self.order(activity)
            if state in ("paid", "refunded"):
                self.tell(order, "paid")
            if state == "refunded":
                self.operate(f"{activity}/orders/{order.number}/refund", {"reason": "fuzz"})
            if state in ("cancelled", "aborted"):
                self.expect("POST", f"{order.path}/cancel", order.access, {"token": order.token})
            return order
        return self.served((state, activity), make)

    def closed(self):
        """An order that was not paid in time, or none before the time is over."""
        if self.closing_since is not None and time.monotonic() > self.closing_since + CLOSED_AFTER_S:
            self.expect("POST", "/dev/run/expire-orders")
            self.closing_since = None
        if self.closing_since is not None or not self.closing:
            return None
        return self.closing.pop()
