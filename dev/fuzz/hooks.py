"""Leads the generated calls to where something happens, and judges what schemathesis does not.

A part of a call that breaks the contract on purpose is sent as it was generated. Of the others, the ids, order
tokens and signatures, which nobody can guess, are mostly replaced by ones of the world, and what the contract
asks for in words only is put right, so that a 400 to a valid call is a finding. What is replaced depends on the
call and the seed alone.
"""

import atexit
import collections
import datetime
import os
import random

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation as Location

import world as w

SEED = os.environ["HOLDFAST_FUZZ_SEED"]
world = w.World(os.environ["HOLDFAST_FUZZ_API"])
STATES = ["pending", "pending", "paid", "paid", "cancelled", "refunded", "closed", "aborted", "unplaced"]
# Over what the functions read, in characters.
TOO_LARGE = 70_000
OPERATORS = "/v1/admin/"
# What other calls need as it is, and what would change it.
KEPT = ["running", "cas", "tight", "closing", "frozen"]
CHANGING = ["putActivity", "preheat", "freeze", "unfreeze", "adjust", "endActivity"]
ZONES = ["Europe/Berlin", "UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"]
# Of one SKU in an order.
UNITS_MAX = 1_000


def operation_of(case):
    return case.operation.definition.raw["operationId"]


def sound(case, location):
    """Whether this part of the call is as the contract wants it, and may be replaced."""
    part = case.meta.components.get(location) if case.meta else None
    return part is None or part.mode.is_positive


@schemathesis.auth()
class Login:
    """The operator or the buyer; `before_call` makes it the order's own buyer."""

    def get(self, case, ctx):
        return {"operator": world.operator, "buyer": world.buyer}

    def set(self, case, data, ctx):
        case.headers["Authorization"] = data["operator" if case.path.startswith(OPERATORS) else "buyer"]


@schemathesis.hook
def before_call(ctx, case, kwargs):
    # Not the access token: it is another one in each run.
    headers = {name: value for name, value in case.headers.items() if name != "Authorization"}
    dice = random.Random(repr((SEED, case.method, case.path, case.path_parameters, case.body, headers)))
    Steering(case, dice).steer()
    if operation_of(case) == "tellPayment" and sound(case, Location.HEADER) and dice.random() < 0.95:
        kwargs["auth"] = sign


def sign(request):
    """As the provider does: over the bytes that are sent."""
    body = request.body or b""
    request.headers["Holdfast-Signature"] = w.sign(body.encode() if isinstance(body, str) else body)
    return request


def whole(value):
    """The same, with whole numbers written as such: JSON Schema takes 1.0 for one, and the API does not."""
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [whole(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Steering:
    def __init__(self, case, dice):
        self.case, self.dice = case, dice
        self.body = case.body if isinstance(case.body, dict) and sound(case, Location.BODY) else None
        self.order = None

    def likely(self, chance):
        return self.dice.random() < chance

    def steer(self):
        operation = operation_of(self.case)
        if "activity" in self.case.path_parameters and sound(self.case, Location.PATH) and self.likely(0.85):
            getattr(self, f"path_{operation}", self.path)()
        if operation in CHANGING and self.case.path_parameters.get("activity") in KEPT:
            # schemathesis sends what it saw in answers, too.
            self.at(world.victim())
        if self.body is not None:
            # A copy: the generated one may be shared with other cases.
            self.body = whole(self.body)
            getattr(self, f"body_{operation}", lambda: None)()
            # Where schemathesis would not notice that it is invalid now, it stays valid.
            judged = self.case.meta is not None and Location.BODY in self.case.meta.components
            self.case.body = self.by_place(self.body) if judged and self.likely(0.06) else self.body
        getattr(self, f"headers_{operation}", lambda: None)()
        self.identity()

    def by_place(self, body):
        """The same with an object, or all, as an array of its members, or with a word as an object: readers
        that were made of types may take it, and the contract does not allow it."""
        word = self.dice.choice(["strategy", "on_cancel", "status"])
        if word in body:
            return dict(body, **{word: {body[word]: None}})
        inner = [name for name, value in body.items() if isinstance(value, (dict, list)) and value]
        if not inner or self.likely(0.5):
            return list(body.values())
        name = self.dice.choice(inner)
        value = body[name]
        lists = [list(each.values()) for each in value] if isinstance(value, list) else list(value.values())
        return dict(body, **{name: lists})

    def identity(self):
        """Whose order it is; sometimes somebody else. Left alone where the call is to have none."""
        if self.case.headers.get("Authorization") not in (world.operator, world.buyer):
            return
        if self.case.path.startswith(OPERATORS):
            if self.likely(0.08):
                self.case.headers["Authorization"] = self.dice.choice([world.auditor, world.buyer])
        elif self.order is not None and self.likely(0.95):
            self.case.headers["Authorization"] = self.order.access

    # Where it goes to.

    def at(self, activity):
        self.case.path_parameters = dict(self.case.path_parameters, activity=activity)

    def path(self):
        if "order_no" in self.case.path_parameters:
            self.order = world.in_state(self.dice.choice(STATES), self.dice.choice(["running", "cas"]))
            self.case.path_parameters = dict(
                self.case.path_parameters, order_no=self.order.number, activity=self.order.activity)
        else:
            self.at(self.dice.choice(["running", "running", "cas", "tight", "later", "over", "frozen", "draft"]))

    def path_placeOrder(self):
        states = ["running", "running", "running", "cas", "cas", "tight", "tight", "later", "over", "frozen", "draft"]
        activity = self.dice.choice(states)
        if activity in ("running", "cas") and self.likely(0.3):
            self.order = world.in_state(self.dice.choice(STATES), activity)
        elif activity == "over":
            self.order = world.before_the_end
        else:
            self.order = world.served(("token", activity), lambda: world.unplaced(activity))
        self.at(activity)

    def path_changing(self):
        if self.likely(0.7):
            self.at(world.victim(preheat=self.likely(0.8)))
        else:
            self.at(self.dice.choice(["draft", "over", "later"]))

    def path_putActivity(self):
        if self.likely(0.3):
            self.at(f"new-{self.dice.getrandbits(32)}")
        else:
            self.path_changing()

    path_preheat = path_freeze = path_unfreeze = path_adjust = path_endActivity = path_changing

    # What it says.

    def some(self, name, values, chance=0.8):
        if self.likely(chance):
            self.body[name] = self.dice.choice(values)

    def body_placeOrder(self):
        if self.order is not None:
            self.some("token", [self.order.token], 0.9)
        if self.likely(0.02):
            self.body["token"] = "x" * TOO_LARGE
        if self.likely(0.85):
            lines = [dict(line, sku=self.dice.choice(w.SKUS)) for line in self.body["lines"]]
            self.body["lines"] = lines[:2] if self.likely(0.5) else lines
        if self.likely(0.5):
            self.body["lines"] = [{"sku": "phone", "quantity": self.dice.choice([1, 2])}]
        if "coupon" in self.body:
            self.some("coupon", world.coupons.get(self.case.path_parameters.get("activity"), [None]))
        units = collections.Counter()
        for line in self.body["lines"]:
            units[line["sku"]] += line["quantity"]
        if max(units.values()) > UNITS_MAX:
            self.body["lines"] = self.body["lines"][:1]

    def body_cancelOrder(self):
        if self.order is not None:
            self.some("token", [self.order.token, None])

    def body_operatorRefund(self):
        if self.order is not None:
            self.some("amount", [self.order.amount, None])

    def body_tellPayment(self):
        order = world.in_state(self.dice.choice(STATES))
        if self.likely(0.9):
            self.body.update(activity=order.activity, order_no=order.number)
        self.some("amount", [order.amount], 0.7)
        self.some("currency", ["EUR"], 0.9)

    def body_freeze(self):
        if "sku" in self.body:
            self.some("sku", w.SKUS)

    body_unfreeze = body_freeze

    def body_adjust(self):
        self.some("sku", w.SKUS)
        self.some("delta", [1, 2, 5, -1, -3, 1000])

    def body_putActivity(self):
        self.change_activity()
        if isinstance(self.body.get("admission_ratio"), (int, float)):
            exact = self.body.get("strategy") == "cas"
            self.body["admission_ratio"] = 1 if exact else round(self.body["admission_ratio"], 3)

    def change_activity(self):
        known = world.drafts.get(self.case.path_parameters.get("activity"))
        if known and self.likely(0.6):
            # What may change while it runs is as it was generated.
            fresh = ("name", "limit", "bucket_rate")
            self.body.update({name: value for name, value in known.items() if name not in fresh})
            self.body["limit"] = dict(known["limit"], max=self.body["limit"]["max"])
            return
        self.body["time_zone"] = self.dice.choice(ZONES)
        self.body["skus"] = list({offer["sku"]: offer for offer in self.body["skus"]}.values())
        try:
            starts_at = datetime.datetime.fromisoformat(self.body["starts_at"].upper())
            if not 1970 < starts_at.year < 9999:
                raise ValueError
            self.body["ends_at"] = (starts_at + datetime.timedelta(days=self.dice.choice([1, 92]))).isoformat()
        except ValueError:
            self.body.update({name: value for name, value in world.draft().items() if name.endswith("_at")})

    # What goes beside it.

    def headers_putActivity(self):
        if not sound(self.case, Location.HEADER):
            return
        self.case.headers.pop("If-None-Match", None)
        self.case.headers.pop("If-Match", None)
        version = world.versions.get(self.case.path_parameters.get("activity"))
        if version is None or self.likely(0.1):
            self.case.headers["If-None-Match"] = "*"
        elif self.likely(0.95):
            self.case.headers["If-Match"] = f'"{version}"' if self.likely(0.9) else '"4711"'

    def headers_adjust(self):
        if sound(self.case, Location.HEADER) and self.likely(0.2):
            self.case.headers["Idempotency-Key"] = self.dice.choice(["key-1", "key-2"])


# What came back.

answers = collections.defaultdict(collections.Counter)


def code_of(response):
    """The problem's code; `gateway` where the gateway answered for the function."""
    try:
        body = response.json()
    except ValueError:
        return "?"
    if not isinstance(body, dict):
        return "?"
    return body.get("code") or ("gateway" if "message" in body else "")


@schemathesis.hook
def after_call(ctx, case, response):
    answers[operation_of(case)][response.status_code, code_of(response)] += 1
    tag = response.headers.get("etag")
    if tag and response.status_code == 200:
        world.versions[case.path_parameters["activity"]] = int(tag[0].strip('"'))


@schemathesis.check
def nothing_is_unavailable(ctx, response, case):
    """The stack is healthy, so only an operator's freeze may answer 5xx."""
    if response.status_code >= 500 and code_of(response) != "frozen":
        raise AssertionError(f"{response.status_code} {code_of(response)} of a stack in which nothing is broken")


@atexit.register
def tell():
    total = sum(sum(counts.values()) for counts in answers.values())
    print(f"\n{total} calls, by operation and answer:")
    for operation, counts in sorted(answers.items()):
        told = ", ".join(f"{status} {code}".strip() + f" {count}" for (status, code), count in sorted(counts.items()))
        print(f"  {operation} {sum(counts.values())}: {told}")
